"""The pages of the notebooks: those that `python -m tools.notebooks` wrote, or the bare text."""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from tools.site import ROOT, links

SOURCES = "docs/notebooks"
BUILT = "build/notebooks"
CELL = re.compile(r"(?m)^# %%(?P<kind>.*)$")
NOT_RUN = (
    '\n!!! note "This notebook was not run"\n\n'
    "    This build of the site left the notebooks out, so the page has no results. "
    "`make docs` runs them.\n"
)


def names(root: Path = ROOT) -> list[str]:
    """The notebooks, in the order of the index beside them."""
    folder = root / SOURCES
    known = sorted(path.stem for path in folder.glob("*.py"))
    index = folder / "README.md"
    text = index.read_text(encoding="utf-8") if index.is_file() else ""
    listed = [Path(match["target"]).stem for match in links.LINK.finditer(text)]
    return sorted(known, key=lambda name: listed.index(name) if name in listed else len(listed))


def page(name: str, is_run: bool, root: Path = ROOT) -> str:
    """The Markdown of a notebook's page.

    Raises ValueError where the notebook should have been run, but its page is missing.
    """
    source = f"{SOURCES}/{name}.py"
    if is_run:
        built = root / BUILT / f"{name}.md"
        if not built.is_file():
            raise ValueError(f"{built} is missing: run python -m tools.notebooks, or NOTEBOOKS=no")
        text = built.read_text(encoding="utf-8")
    else:
        text = unrun((root / source).read_text(encoding="utf-8"))
    return links.rewritten(text, source, f"tutorials/{name}.md")


def unrun(source: str) -> str:
    """A notebook in jupytext's percent format as Markdown, with a note below its title."""
    starts = [*CELL.finditer(source)]
    ends = [match.start() for match in starts[1:]] + [len(source)]
    blocks = []
    for match, end in zip(starts, ends, strict=True):
        body = source[match.end() : end].strip("\n")
        if "[markdown]" in match["kind"]:
            lines = (line.removeprefix("#").removeprefix(" ") for line in body.splitlines())
            blocks.append("\n".join(lines))
        elif body:
            blocks.append(f"```python\n{body}\n```")
    title, _, rest = "\n\n".join(blocks).partition("\n")
    return f"{title}\n{NOT_RUN}\n{rest}\n"


def files(name: str, root: Path = ROOT) -> Iterator[tuple[str, Path]]:
    """Address -> file of the pictures of a notebook, and of the notebook with its results."""
    built = root / BUILT
    for path in sorted((built / f"{name}_files").rglob("*")):
        if path.is_file():
            yield posixpath.join("tutorials", path.relative_to(built).as_posix()), path
    if (built / f"{name}.ipynb").is_file():
        yield f"tutorials/{name}.ipynb", built / f"{name}.ipynb"
