"""Links between files of the repository, as links between pages of the site.

Documents link to each other as files, so that the links work in a checkout. Files outside docs/
have pages too: CONTRIBUTING.md and its neighbours, and each source file that a document names.
"""

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

from tools.site import ROOT

LINK = re.compile(r"(?P<before>\]\()(?P<target>[^()\s]+)(?P<after>\))")
CODE = re.compile(r"(?ms)^```.*?^```|`[^`\n]+`")
OTHER = re.compile(r"[a-z]+:|#|/")  # an address, a place of the same page

# Documents at the top of the checkout -> their pages.
DOCUMENTS = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
}


def page_of(path: str, root: Path = ROOT) -> str:
    """The address, below docs/, of the page of a file or a folder of the repository."""
    if path in DOCUMENTS:
        return DOCUMENTS[path]
    folder, name = posixpath.split(path)
    if folder == "docs/notebooks" and name == "README.md":
        return "tutorials/index.md"
    if path.startswith("docs/notebooks/"):
        stem, extension = posixpath.splitext(path.removeprefix("docs/notebooks/"))
        return f"tutorials/{stem}{'.md' if extension in ('.py', '.ipynb', '.md') else extension}"
    if path.startswith("docs/"):
        is_folder = (root / path).is_dir()
        if not is_folder or (root / path / "README.md").is_file():
            inside = path.removeprefix("docs/")
            return posixpath.join(inside, "README.md") if is_folder else inside
    return f"source/{path}.md"  # the text of a file, or the list of a folder


def rewritten(text: str, source: str, page: str, convert: Callable[[str], str] = page_of) -> str:
    """The Markdown of the file `source` with its links as they have to be on the page `page`."""

    def link(match: re.Match) -> str:
        target, _, anchor = match["target"].partition("#")
        if OTHER.match(match["target"]):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        there = posixpath.relpath(convert(path), posixpath.dirname(page))
        return f"{match['before']}{there}{anchor and '#' + anchor}{match['after']}"

    return outside_code(text, lambda part: LINK.sub(link, part))


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change a text except in its code."""
    parts, last = [], 0
    for code in CODE.finditer(text):
        parts += [change(text[last : code.start()]), code[0]]
        last = code.end()
    return "".join([*parts, change(text[last:])])


def targets(text: str, source: str) -> set[str]:
    """The files of the repository to which the file `source` links."""
    found: set[str] = set()
    rewritten(text, source, source, lambda path: found.add(path) or path)
    return found
