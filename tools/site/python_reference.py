"""The pages of the Python interface: a directive of mkdocstrings for each public name."""

import importlib
from collections.abc import Iterator

from tools.site.docstrings import escaped
from tools.site.public_names import FOLDERS, Inventory, Public, dotted


def pages(inventory: Inventory) -> dict[str, str]:
    """The Markdown of each page by its address below docs/."""
    return {address(folder): "\n".join(_page(inventory, folder)) for folder in FOLDERS}


def index() -> str:
    """The list of the pages, with the first line of each folder's docstring."""
    rows = ["| page | module | what it has |", "|---|---|---|"]
    for folder, title in FOLDERS.items():
        words = (importlib.import_module(dotted(folder)).__doc__ or "").partition("\n")[0]
        target = address(folder).removeprefix("reference/")
        rows.append(f"| [{title}]({target}) | `{dotted(folder)}` | {escaped(words)} |")
    return "\n".join(rows)


def address(folder: str) -> str:
    return f"reference/python/{folder or 'bahdanau_jax'}.md"


def _page(inventory: Inventory, folder: str) -> Iterator[str]:
    yield f"# {FOLDERS[folder]}: `{dotted(folder)}`"
    yield ""
    room = inventory.root[folder] if folder else inventory.root
    if room.docstring:
        yield room.docstring.value
    yield ""
    if elsewhere := inventory.elsewhere[folder]:
        yield f"On other pages: {', '.join(_link(inventory, path) for path in elsewhere)}."
    for public in inventory.pages[folder]:
        yield from _directive(public)
    if types := inventory.types[folder]:
        yield from ("", "## Types of these signatures", "")
        yield "Functions return or accept these. Each is imported from the path in its heading."
    for public in types:
        yield from _directive(public, level=3)


def _link(inventory: Inventory, path: str) -> str:
    """A name with a link to the page that documents it."""
    folder = path.removeprefix("bahdanau_jax.")
    if folder in FOLDERS:
        return f"[`{path}`]({folder}.md)"
    return f"[`{path}`][{inventory.source(path)}]"


def _directive(public: Public, level: int = 2) -> Iterator[str]:
    """The directive of a name, with its members; those of a module are a level deeper."""
    yield from ("", f"::: {public.source}", "    options:", f"      heading_level: {level}")
    if level > 2:
        yield "      show_root_full_path: true"
    members = f"[{', '.join(public.members)}]" if public.members else "false"
    yield f"      members: {members}"
