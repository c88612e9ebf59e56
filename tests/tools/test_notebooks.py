"""The notebooks: their format, their executor, and the outputs that it writes."""

import base64
import json
import subprocess
import sys

import pytest

from bahdanau_jax import figures
from tools import notebooks

TINY = """# %% [markdown]
# # Tiny
#
# A text with *marks*.

# %%
import os

x = 2
print("folder:", os.listdir("."))

# %%
x + 1

# %% alt="an empty square"
class Square:
    def _repr_png_(self):
        return b"png"


Square()

# %%
y = x
"""


@pytest.fixture
def books(tmp_path):
    """A folder with the notebook TINY."""
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "tiny.py").write_text(TINY)
    return folder


def test_cells_have_their_lines_kinds_and_descriptions():
    cells = notebooks.parse(TINY)
    assert [cell.line for cell in cells] == [1, 6, 12, 15, 23]
    assert [cell.is_text for cell in cells] == [True, False, False, False, False]
    assert cells[0].source == "# Tiny\n\nA text with *marks*."
    assert cells[2].source == "x + 1"
    assert [cell.alt for cell in cells][2:4] == ["", "an empty square"]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("x = 1\n# %%\n", '1: expected "# %%" before the first line'),
        ("# %%\n# %% [raw]\n", '2: expected "# %%", a kind and alt="...", not \'# %% [raw]\''),
        ("# %% [markdown]\n#no space\n", "2: expected text after \"# \", not '#no space'"),
    ],
)
def test_another_format_is_refused_with_its_line(text, expected):
    with pytest.raises(ValueError) as caught:
        notebooks.parse(text)
    assert str(caught.value) == expected


def test_a_notebook_runs_from_end_to_end(books, tmp_path, capsys):
    output = tmp_path / "out"
    assert notebooks.main(["--output", str(output)], books) == 0
    page = (output / "tiny.md").read_text()
    assert page.startswith("# Tiny\n\nA text with *marks*.\n\n```python\nimport os\n")
    assert "```text\nfolder: []\n```" in page  # an empty folder
    assert "```python\nx + 1\n```\n\n```text\n3\n```" in page
    assert "![an empty square](tiny_files/1.png)" in page
    assert (output / "tiny_files" / "1.png").read_bytes() == b"png"
    book = json.loads((output / "tiny.ipynb").read_text())
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    cells = book["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", *["code"] * 4]
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert cells[1]["outputs"][0]["text"] == "folder: []\n"
    assert base64.b64decode(cells[3]["outputs"][0]["data"]["image/png"]) == b"png"
    assert cells[4]["outputs"] == []
    assert "tiny: " in capsys.readouterr().err


def test_an_unchanged_notebook_is_not_run_again(books, tmp_path, monkeypatch, capsys):
    ran = []
    outputs = [[] for _ in notebooks.parse(TINY)]
    monkeypatch.setattr(notebooks, "run", lambda path: ran.append(path.stem) or outputs)
    arguments = ["--output", str(tmp_path / "out")]

    def count():
        ran.clear()
        assert notebooks.main(arguments, books) == 0
        return len(ran)

    assert count() == 1
    assert count() == 0
    assert "tiny: unchanged" in capsys.readouterr().err
    (books / "tiny.py").write_text(TINY.replace("x = 2", "x = 3"))
    assert count() == 1
    (tmp_path / "out" / "tiny.md").unlink()
    assert count() == 1
    package = tmp_path / "package"
    package.mkdir()
    (package / "a.py").write_text("a = 1")
    monkeypatch.setattr(notebooks, "_sources", lambda: [package / "a.py"])
    assert count() == 1
    assert count() == 0
    (package / "a.py").write_text("a = 2")
    assert count() == 1


def test_a_notebook_that_takes_too_long_fails(books, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(notebooks, "MOST_SECONDS", 0)
    assert notebooks.main(["--output", str(tmp_path / "out")], books) == 1
    assert "s of processor time, but a notebook may take 0 s" in capsys.readouterr().err
    assert not (tmp_path / "out/tiny.md").exists()


def test_the_digest_covers_the_package():
    sources = {path.relative_to(notebooks.ROOT).as_posix() for path in notebooks._sources()}
    assert {"bahdanau_jax/model/decoder.py", "tools/notebooks.py", "constraints.txt"} <= sources


@pytest.mark.parametrize(
    "code, expected",
    [
        ("x = 2\nx.missing", "11: cell of line 9: AttributeError: 'int' object has no attribute"),
        ("import sys\nsys.exit('no')", "11: cell of line 9: SystemExit: no"),
        ("x = (", "10: cell of line 9: SyntaxError: '(' was never closed"),
        ("import os\nos._exit(3)", "its process ended with 3"),
    ],
)
def test_a_cell_that_fails_is_named_with_its_line(books, tmp_path, capsys, code, expected):
    path = books / "tiny.py"
    path.write_text(f"# %% [markdown]\n# # Failing\n\n# %%\n1\n\n2\n\n# %%\n{code}\n")
    output = tmp_path / "out"
    assert notebooks.main(["--output", str(output), "tiny"], books) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert str(path) in last and expected in last
    assert not (output / "tiny.md").exists()
    assert not (output / "tiny.digest").exists()


def test_an_unknown_name_and_another_format_are_one_line(books, capsys):
    assert notebooks.main(["tyni"], books) == 2
    error = capsys.readouterr().err
    assert error == "no notebook 'tyni'; known: tiny\n"
    (books / "tiny.py").write_text("x = 1\n")
    assert notebooks.main([], books) == 2
    assert capsys.readouterr().err.endswith('tiny.py:1: expected "# %%" before the first line\n')


def test_figures_show_themselves():
    drawing = figures.Drawing(1, 1)
    assert drawing._repr_png_().startswith(b"\x89PNG")
    assert drawing._repr_png_() == drawing._repr_png_()
    assert "image/png" in notebooks._shown(drawing)


def test_the_index_names_every_notebook():
    index = (notebooks.SOURCES / "README.md").read_text(encoding="utf-8")
    books = sorted(path.stem for path in notebooks.SOURCES.glob("*.py"))
    assert books
    for name in books:
        cells = notebooks.parse((notebooks.SOURCES / f"{name}.py").read_text(encoding="utf-8"))
        assert cells[0].is_text and cells[0].source.startswith("# ")
        title = cells[0].source.partition("\n")[0].removeprefix("# ")
        assert f"[{title}]({name}.py)" in index


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted(path.stem for path in notebooks.SOURCES.glob("*.py")))
def test_a_notebook_of_the_documentation_runs(name, tmp_path):
    command = [sys.executable, "-m", "tools.notebooks", "--output", str(tmp_path), name]
    done = subprocess.run(command, cwd=notebooks.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"{name}.ipynb").exists()
    assert any((tmp_path / f"{name}_files").iterdir())
