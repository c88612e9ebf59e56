"""The navigation: a tab for each kind of page, in the order of the index of its folder."""

import posixpath
import re
from pathlib import Path

from tools.site import ROOT, links, notebook_pages, python_reference
from tools.site.public_names import FOLDERS, dotted


def navigation(root: Path = ROOT) -> list:
    """The `nav` of mkdocs."""
    project = ["CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
    docs = root / "docs"
    results = [
        "results/README.md",
        "results/alignment.md",
        "results/masking.md",
        *sorted(path.relative_to(docs).as_posix() for path in docs.glob("results/*/report.md")),
    ]
    explanation = ["explanation/model.md", "explanation/design.md", "performance.md", "grammar.md"]
    return [
        {"Home": ["index.md", *(links.DOCUMENTS[name] for name in project)]},
        {
            "Tutorials": [
                "tutorials/index.md",
                *(f"tutorials/{name}.md" for name in notebook_pages.names(root)),
            ]
        },
        {"How-to guides": how_to(root)},
        {"Reference": _reference()},
        {
            "Explanation": [
                "explanation/index.md",
                *explanation,
                {"Results": results},
                {"Decisions": _decisions(docs)},
                "engineering-log.md",
            ]
        },
    ]


def how_to(root: Path = ROOT) -> list[str]:
    """The how-to pages, in the order of the links of their index."""
    index = root / "docs/howto/README.md"
    text = index.read_text(encoding="utf-8")
    linked = [match["target"].partition("#")[0] for match in links.LINK.finditer(text)]
    listed = dict.fromkeys(
        posixpath.join("howto", target)
        for target in linked
        if (index.parent / target).is_file() and "/" not in target
    )
    return ["howto/README.md", *listed]


def _reference() -> list:
    python = [{dotted(folder): python_reference.address(folder)} for folder in FOLDERS]
    return [
        "reference/index.md",
        "reference/commands.md",
        "reference/configuration.md",
        "reference/exit-codes.md",
        {"Python": python},
    ]


def _decisions(docs: Path) -> list:
    """The records by theme, as the headings and lists of their index have them."""
    sections: list = ["decisions/README.md"]
    text = (docs / "decisions/README.md").read_text(encoding="utf-8")
    for part in re.split(r"(?m)^## ", text)[1:]:
        records = [f"decisions/{match['target']}" for match in links.LINK.finditer(part)]
        sections.append({part.partition("\n")[0]: records})
    return sections
