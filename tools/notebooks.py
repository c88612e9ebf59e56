"""Run the notebooks of docs/notebooks, and write them with their outputs.

python -m tools.notebooks [--output FOLDER] [NAME ...]

A notebook is a Python file in the percent format: `# %% [markdown]` begins a text, whose lines are
comments, and `# %%` begins code. `# %% alt="..."` describes the picture of a cell. Each notebook
runs in a fresh process and in an empty folder. FOLDER gets NAME.md, NAME_files/ with its pictures,
and NAME.ipynb. A notebook is not run again while its text and the sources are the same. One
that takes more than two minutes on two cores fails.
"""

import argparse
import ast
import base64
import contextlib
import hashlib
import io
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bahdanau_jax.atomic import write_text
from bahdanau_jax.cli import jax_defaults
from bahdanau_jax.names import choose

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "docs" / "notebooks"
OUTPUT = Path("build") / "notebooks"
MARKER = re.compile(r'# %%(?P<text> \[markdown\])?(?: alt="(?P<alt>[^"]*)")? *')
MOST_SECONDS = 240  # of processor time of a notebook: two minutes on two cores
ALT = "A figure that the code above draws"


class Cell(NamedTuple):
    """A text or a piece of code."""

    line: int  # of its marker in the notebook's file, from 1
    is_text: bool
    source: str  # Markdown or Python, without the marker
    alt: str = ""  # what its picture shows


class Failed(Exception):
    """A notebook that did not run to its end; the message says where and why."""


def parse(text: str) -> list[Cell]:
    """Return the cells of a notebook. Raises ValueError, with the line, for another format.

    >>> parse("# %% [markdown]\\n# Some *text*.\\n# %%\\n1 + 1\\n")[0].source
    'Some *text*.'
    """
    blocks: list[tuple[int, re.Match[str], list[str]]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("# %%"):
            if not (marker := MARKER.fullmatch(line)):
                raise ValueError(f'{number}: expected "# %%", a kind and alt="...", not {line!r}')
            blocks.append((number, marker, []))
        elif blocks:
            blocks[-1][2].append(line)
        elif line.strip():
            raise ValueError(f'{number}: expected "# %%" before the first line')
    return [_cell(*block) for block in blocks]


def _cell(number: int, marker: re.Match[str], lines: list[str]) -> Cell:
    if not marker["text"]:
        return Cell(number, False, "\n".join(lines).rstrip(), marker["alt"] or "")
    for offset, line in enumerate(lines, start=1):
        if line.strip() and line != "#" and not line.startswith("# "):
            raise ValueError(f'{number + offset}: expected text after "# ", not {line!r}')
    return Cell(number, True, "\n".join(line[2:] for line in lines).strip())


def run_cell(cell: Cell, path: Path, namespace: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell of code; return its outputs as objects of the .ipynb format.

    The value of a last line that is an expression is an output too: as a picture or as Markdown
    where it has a method for that (`_repr_png_`, `_repr_markdown_`), else as text.
    """
    # Empty lines before the cell give errors the lines of the notebook.
    tree = ast.parse("\n" * cell.line + cell.source, str(path))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, path, "exec"), namespace)
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), path, "eval"), namespace)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
    if value is not None:
        outputs.append({"output_type": "display_data", "metadata": {}, "data": _shown(value)})
    return outputs


def _shown(value: Any) -> dict[str, str]:
    """The value by MIME type, in the form of the .ipynb format."""
    if hasattr(value, "_repr_png_"):
        return {"image/png": base64.b64encode(value._repr_png_()).decode()}
    if hasattr(value, "_repr_markdown_"):
        return {"text/markdown": value._repr_markdown_()}
    return {"text/plain": repr(value)}


def run_here(path: Path, result: Path) -> None:
    """Run all cells in this process, and write their outputs to the file `result`, as JSON."""
    main = types.ModuleType("__main__")  # the notebook's own names, and nothing of this file
    sys.modules["__main__"] = main
    sys.path.insert(0, os.getcwd())  # modules that the notebook writes
    outputs = []
    for cell in parse(path.read_text(encoding="utf-8")):
        try:
            outputs.append([] if cell.is_text else run_cell(cell, path, main.__dict__))
        except BaseException as error:
            frames = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno for frame in frames if frame.filename == str(path)]
            line = error.lineno if isinstance(error, SyntaxError) else (lines or [cell.line])[-1]
            why = f"{type(error).__name__}: {error}".removesuffix(": ")
            where = f"{_relative(path)}:{line}: cell of line {cell.line}"
            write_text(result, json.dumps(f"{where}: {why}"))
            raise
    write_text(result, json.dumps(outputs))


def run(path: Path) -> list[list[dict[str, Any]]]:
    """Run a notebook in a fresh process and an empty folder; return the outputs of each cell.

    Raises Failed with the file, the line and the error, or where it took more than MOST_SECONDS. It
    is killed after twice that time and a minute.
    """
    before = _seconds()
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory(prefix=f"{path.stem}-") as folder:
        result, workdir = Path(folder) / "result.json", Path(folder) / "work"
        workdir.mkdir()
        command = [sys.executable, "-m", "tools.notebooks", "--here", str(result), str(path)]
        limit = 'ulimit -t $0 && exec "$@"'  # the kernel ends a notebook that does not
        done = subprocess.run(
            ["sh", "-c", limit, str(2 * MOST_SECONDS + 60), *command],
            cwd=workdir,
            env=environment,
            capture_output=True,
            encoding="utf-8",
        )
        outputs = json.loads(result.read_text(encoding="utf-8")) if result.exists() else None
        if done.returncode or not isinstance(outputs, list):
            why = outputs or f"{_relative(path)}: its process ended with {done.returncode}"
            raise Failed(f"{done.stderr[-3000:]}\n{why}".strip())
        if (spent := _seconds() - before) > MOST_SECONDS:
            most = f"a notebook may take {MOST_SECONDS} s"
            raise Failed(f"{_relative(path)}: {spent:.0f} s of processor time, but {most}")
        return outputs


def _relative(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def _check(path: Path) -> None:
    """Raise ValueError, with the file and the line, for a notebook of another format."""
    try:
        parse(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{_relative(path)}:{error}") from error


def _markdown(name: str, cells: Sequence[Cell], outputs: list, pictures: dict[str, bytes]) -> str:
    """The page of a notebook. The pictures that it shows are added to `pictures` by their names."""
    parts = []
    for cell, shown in zip(cells, outputs, strict=True):
        parts.append(cell.source if cell.is_text else f"```python\n{cell.source}\n```")
        for output in shown:
            data = output.get("data", {"text/plain": output.get("text")})
            if "image/png" in data:
                file = f"{len(pictures) + 1}.png"
                pictures[file] = base64.b64decode(data["image/png"])
                parts.append(f"![{cell.alt or ALT}]({name}_files/{file})")
            elif "text/markdown" in data:
                parts.append(data["text/markdown"].rstrip())
            else:
                parts.append(f"```text\n{data['text/plain'].rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def _ipynb(cells: Sequence[Cell], outputs: list) -> str:
    written = []
    for number, (cell, shown) in enumerate(zip(cells, outputs, strict=True), start=1):
        about = {"alt": cell.alt} if cell.alt else {}
        entry: dict[str, Any] = {"id": f"cell-{number}", "metadata": about, "source": cell.source}
        entry["cell_type"] = "markdown" if cell.is_text else "code"
        if not cell.is_text:
            entry |= {"execution_count": None, "outputs": shown}
        written.append(entry)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    book = {"cells": written, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def write(path: Path, folder: Path, outputs: list) -> None:
    """Write the page, the pictures and the .ipynb of a notebook."""
    cells, pictures = parse(path.read_text(encoding="utf-8")), {}
    page = _markdown(path.stem, cells, outputs, pictures)
    files = folder / f"{path.stem}_files"
    shutil.rmtree(files, ignore_errors=True)
    for name, content in pictures.items():
        files.mkdir(parents=True, exist_ok=True)
        (files / name).write_bytes(content)
    write_text(folder / f"{path.stem}.md", page)
    write_text(folder / f"{path.stem}.ipynb", _ipynb(cells, outputs))


def _sources() -> Iterator[Path]:
    """The files that outputs depend on, in a fixed order: the package and this file."""
    package = ROOT / "bahdanau_jax"
    yield from sorted(each for each in package.rglob("*") if each.suffix in (".py", ".txt"))
    yield from (Path(__file__), ROOT / "constraints.txt")


def digest(path: Path) -> str:
    """The digest of a notebook and of all sources."""
    parts = [hashlib.sha256(each.read_bytes()).hexdigest() for each in (path, *_sources())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def update(path: Path, folder: Path) -> bool:
    """Run a notebook unless its outputs in `folder` are up to date; return whether it ran."""
    mark, now = folder / f"{path.stem}.digest", digest(path)
    written = (mark, folder / f"{path.stem}.md", folder / f"{path.stem}.ipynb")
    if all(each.exists() for each in written) and mark.read_text().strip() == now:
        named = re.findall(rf"\(({path.stem}_files/[^)]+)\)", written[1].read_text("utf-8"))
        if all((folder / each).exists() for each in named):
            return False
    folder.mkdir(parents=True, exist_ok=True)
    mark.unlink(missing_ok=True)
    write(path, folder, run(path))
    write_text(mark, now + "\n")
    return True


def _seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main(arguments: Sequence[str] | None = None, sources: Path = SOURCES) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="NAME", help="a notebook; by default, all")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FOLDER")
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.here:
        jax_defaults.apply()
        run_here(Path(options.names[0]), options.here)
        return 0
    books = {each.stem: each for each in sorted(sources.glob("*.py"))}
    try:
        chosen = [choose(books, name, "notebook") for name in options.names or books]
        for path in chosen:
            _check(path)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    for path in chosen:
        before = _seconds()
        try:
            ran = update(path, options.output)
        except Failed as error:
            print(error, file=sys.stderr)
            return 1
        spent = f"{_seconds() - before:.0f} s of processor time" if ran else "unchanged"
        print(f"{path.stem}: {spent}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
