"""bahdanau export: its output and its errors."""

import re
import shutil

import pytest


@pytest.mark.slow
def test_sizes_and_the_checkpoint_are_named(trained, tmp_path, command_line):
    output = tmp_path / "model"
    code, out, err = command_line("export", "--run", trained[0], "--output", output)
    assert code == 0, err
    assert [line.split()[1] for line in out.splitlines()] == ["MB"] * len(out.splitlines())
    assert "model.safetensors" in out and "step.jaxexport" in out
    assert "MB, the checkpoint of step " in err and "(dev score " in err


def test_a_page_holds_the_given_sentences_and_both_runs(trained, tmp_path, command_line):
    (tmp_path / "new.en").write_text("a wet tree\n")
    page = tmp_path / "page.html"
    other = shutil.copytree(trained[0], tmp_path / "other")
    both = ["--run", trained[0], "--run", other, "--input", tmp_path / "new.en"]
    code, out, err = command_line("export", *both, "--output", page)
    assert code == 0, err
    assert out.endswith(f"MB  {page}\n")
    runs = ["--run", trained[0], "--input", tmp_path / "new.en", "--overwrite", "True"]
    html = page.read_text(encoding="utf-8")
    assert "a wet tree" in html
    code, _, err = command_line("export", *runs, "--format", "page", "--output", page)
    assert code == 0, err
    assert len(page.read_text(encoding="utf-8")) < len(html)


def test_a_page_shows_two_checkpoints_of_a_run(trained, tmp_path, command_line):
    steps = sorted(int(path.name) for path in trained[0].glob("checkpoints/[0-9]*"))
    both = [f"{trained[0]}@{steps[0]}", f"{trained[0]}@newest"]
    page = tmp_path / "page.html"
    arguments = ["--run", both[0], "--run", both[1], "--format", "page", "--output", page]
    code, _, err = command_line("export", *arguments)
    assert code == 0, err
    html = page.read_text(encoding="utf-8")
    names = re.findall(r'"name":"(run@\d+)","parameters":\d+,"updates":(\d+)', html)
    assert names == [(f"run@{step}", f"{step}") for step in (steps[0], steps[-1])]
    assert html.count('id="weights-') == 2


@pytest.fixture
def damaged(trained, tmp_path):
    """A run whose checkpoints are all damaged."""
    folder = shutil.copytree(trained[0], tmp_path / "damaged")
    for path in folder.glob("checkpoints/*/_CHECKPOINT_METADATA"):
        path.write_bytes(b"damaged")
    return folder


def test_errors_take_one_line_and_write_nothing(trained, damaged, tmp_path, command_line):
    (tmp_path / "file").write_text("")
    run, new = trained[0], tmp_path / "new"
    cases = [
        (tmp_path / "no", new, [], "no holds no run: there is no config.json in it"),
        (damaged, new, [], "damaged"),
        (f"{run}@999", new, [], "there is no checkpoint of step 999; there are those of "),
        (f"{run}@last", new, [], "no checkpoint 'last'; known: best, newest"),
        (run, run / "inside", [], "lie in each other: choose another folder"),
        (run, tmp_path / "file", [], "file is a file: name a folder"),
        (run, tmp_path / "file" / "model", [], "file is a file, so "),
        (run, new, ["--format", "pgae"], "no --format 'pgae'; known: folder, page"),
        (run, new, ["--input", tmp_path / "file"], "--input is for a page"),
        (run, new, ["--run", run], "--run is given 2 times, but a folder holds one model"),
        (run, new, ["--format", "page", "--license", "mit"], "--license is for a folder"),
        (run, tmp_path, ["--format", "page"], "is a folder: name a file, such as page.html"),
        (run, tmp_path / "no" / "page", ["--format", "page"], "no such folder (--output)"),
        (run, tmp_path / "file", ["--format", "page"], "file exists: add --overwrite True"),
        (run, new, ["--format", "page", "--gold", tmp_path / "file"], "--gold needs --reference"),
        (run, new, ["--format", "page", "--input", "no"], "no: no such file (--input)"),
        (run, new, ["--format", "page", "--input", tmp_path / "file"], "file is empty; expected"),
    ]
    for folder, output, more, message in cases:
        code, out, err = command_line("export", "--run", folder, "--output", output, *more)
        assert (code, out) == (2, ""), err
        assert message in err.splitlines()[-1] and "Traceback" not in err
        assert not new.exists() and not (run / "inside").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged", "file"]
