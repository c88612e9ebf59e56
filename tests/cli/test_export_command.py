"""bahdanau export: its output and its errors."""

import shutil

import pytest


def test_sizes_and_the_checkpoint_are_named(trained, tmp_path, command_line):
    output = tmp_path / "model"
    code, out, err = command_line("export", "--run", trained[0], "--output", output)
    assert code == 0, err
    assert [line.split()[1] for line in out.splitlines()] == ["MB"] * len(out.splitlines())
    assert "model.safetensors" in out and "step.jaxexport" in out
    assert "MB, the checkpoint of step " in err and "(dev score " in err


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
        (run, run / "inside", [], "lie in each other: choose another folder"),
        (run, tmp_path / "file", [], "file is a file: name a folder"),
        (run, tmp_path / "file" / "model", [], "file is a file, so "),
        (run, new, ["--format", "pgae"], "no --format 'pgae'; known: folder"),
        (run, new, ["--input", tmp_path / "file"], "--input is for a page"),
    ]
    for folder, output, more, message in cases:
        code, out, err = command_line("export", "--run", folder, "--output", output, *more)
        assert (code, out) == (2, ""), err
        assert message in err.splitlines()[-1] and "Traceback" not in err
        assert not new.exists() and not (run / "inside").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged", "file"]
