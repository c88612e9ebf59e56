"""What mkdocs calls: it adds the generated pages to docs/ and changes the text of each page.

With NOTEBOOKS=no in the environment, the pages of the notebooks have no results.
"""

import os

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from bahdanau_jax.cli import jax_defaults
from tools.site import (
    ROOT,
    command_reference,
    equations,
    links,
    navigation,
    notebook_pages,
    python_reference,
    settings_reference,
    source_code,
)
from tools.site.public_names import Inventory

# Address of a page -> mark in its text -> what replaces the mark.
GENERATED = {
    "reference/commands.md": ("<!-- generated: commands -->", command_reference.markdown),
    "reference/configuration.md": ("<!-- generated: settings -->", settings_reference.markdown),
}
FOLDERS_MARK = "<!-- generated: folders -->"
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n"
# Folder or page -> how much more than others it counts in a search: answers come before records.
BOOSTS = {"howto/": 4, "reference/configuration.md": 4, "decisions/": 0.2, "results/": 0.3}
NOTEBOOKS_MARK = "<!-- generated: notebooks -->"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    jax_defaults.apply()  # as the commands do, before the package imports JAX
    config.nav = navigation.navigation()
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files of docs/."""
    inventory = Inventory()
    if missing := inventory.undocumented():
        listed = "\n  ".join(missing)
        raise PluginError(f"public names without docstring or comment:\n  {listed}")
    _add(files, config, python_reference.pages(inventory))
    _add(files, config, _documents())
    try:
        _add_notebooks(files, config)
    except ValueError as error:
        raise PluginError(str(error)) from error
    _add(files, config, _sources(files))
    return files


def _add(files: Files, config: MkDocsConfig, pages: dict[str, str]) -> None:
    for address, text in pages.items():
        files.append(File.generated(config, address, content=text))


def _documents() -> dict[str, str]:
    """The documents at the top of the checkout, without README.md, whose page is docs/index.md."""
    pages = {}
    for name, address in links.DOCUMENTS.items():
        if name != "README.md":
            text = (ROOT / name).read_text(encoding="utf-8")
            pages[address] = links.rewritten(text, name, address)
    return pages


def _add_notebooks(files: Files, config: MkDocsConfig) -> None:
    is_run = os.environ.get("NOTEBOOKS", "yes") != "no"
    for name in notebook_pages.names():
        _add(files, config, {f"tutorials/{name}.md": notebook_pages.page(name, is_run)})
        for address, path in notebook_pages.files(name) if is_run else ():
            files.append(File.generated(config, address, abs_src_path=str(path)))


def _sources(files: Files) -> dict[str, str]:
    """A page for each source file to which a document links."""
    named: set[str] = set()
    for file in files.documentation_pages():
        if file.generated_by is None:
            source = f"docs/{file.src_uri}"
            named |= links.targets((ROOT / source).read_text(encoding="utf-8"), source)
    for name in links.DOCUMENTS:
        named |= links.targets((ROOT / name).read_text(encoding="utf-8"), name)
    pages = {links.page_of(name): name for name in sorted(named)}
    return {
        address: _source(name, address)
        for address, name in pages.items()
        if address.startswith("source/") and (ROOT / name).exists()
    }


def _source(name: str, address: str) -> str:
    """The page of a source file, or of a folder: its files with links to them."""
    path = ROOT / name
    if path.is_dir():
        rows = "\n".join(f"- [{each.name}]({each.name})" for each in sorted(path.iterdir()))
        return links.rewritten(f"# `{name}`\n\n{rows}\n", f"{name}/", address)
    language = path.suffix.removeprefix(".") or "text"
    return f"{UNSEARCHED}# `{name}`\n\n````{language}\n{path.read_text(encoding='utf-8')}\n````\n"


def on_page_markdown(markdown: str, page, config: MkDocsConfig, files: Files) -> str:
    address = page.file.src_uri
    for begin, boost in BOOSTS.items():
        if address.startswith(begin):
            page.meta.setdefault("search", {})["boost"] = boost
    if page.file.generated_by is not None:
        return markdown
    try:
        text = source_code.include(markdown)
        if address in GENERATED:
            mark, generate = GENERATED[address]
            text = text.replace(mark, generate())
    except ValueError as error:
        raise PluginError(f"docs/{address}: {error}") from error
    text = text.replace(NOTEBOOKS_MARK, _notebooks_index())
    text = text.replace(FOLDERS_MARK, python_reference.index())
    return links.rewritten(text, f"docs/{address}", address)


def _notebooks_index() -> str:
    """The index of the notebooks without its title, or a line that there is none."""
    index = ROOT / notebook_pages.SOURCES / "README.md"
    if not index.is_file():
        return "There are no notebooks yet."
    text = index.read_text(encoding="utf-8").partition("\n")[2]
    return links.rewritten(text, "docs/notebooks/README.md", "docs/tutorials/index.md", str)


def on_page_content(html: str, page, config: MkDocsConfig, files: Files) -> str:
    try:
        return equations.mathml(html)
    except ValueError as error:
        raise PluginError(f"docs/{page.file.src_uri}: {error}") from error
