"""The records of decisions, the links of all documents, and the one version."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
RECORDS = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
PARTS = ["What", "Why", "What else was considered", "What would change our mind"]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
LINK = re.compile(r"\]\(([^()\s]+)\)")


def test_records_are_numbered_from_1_without_gaps():
    assert [int(path.name[:4]) for path in RECORDS] == [*range(1, len(RECORDS) + 1)]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name[:4])
def test_a_record_has_its_parts(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ") and re.findall(r"(?m)^## (.*)$", text) == PARTS
    parts = re.split(r"(?m)^#.*$", text)[2:]
    assert all(part.strip() for part in parts)


def test_the_index_lists_every_record_once_with_its_title():
    index = (ROOT / "docs/decisions/README.md").read_text(encoding="utf-8")
    listed = re.findall(r"(?m)^- \[(\d{4})\]\((.*?)\) (.*)$", index)
    titles = [path.read_text(encoding="utf-8").partition("\n")[0][2:] for path in RECORDS]
    expected = [
        (path.name[:4], path.name, title) for path, title in zip(RECORDS, titles, strict=True)
    ]
    assert sorted(listed) == expected


def anchors(path: Path) -> set[str]:
    """The anchors of the headings of a Markdown file, as GitHub names them."""
    headings = re.findall(r"(?m)^#+ (.*)$", path.read_text(encoding="utf-8"))
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {each.replace(" ", "-") for each in words}


COLOURS = ("only-light", "only-dark")  # the colours of the site in which a picture is shown


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(path):
    text = re.sub(r"`[^`]*`", "", path.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        assert target.exists(), f"{link} leads nowhere"
        known = anchors(target) if target.suffix == ".md" else COLOURS
        assert not anchor or anchor in known, f"{link} names no heading"


def test_code_names_records_that_exist():
    """`docs/decisions/0023` in a comment stands for the record of that number."""
    numbers = {path.name[:4] for path in RECORDS}
    for folder in ("bahdanau_jax", "benchmarks", "configs", "tests", "tools"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            for number in re.findall(r"docs/decisions/(\d+)", text):
                assert number in numbers, f"{path}: docs/decisions/{number}"
            assert "docs/" + "decisions.md" not in text, path


def test_the_newest_entry_of_the_changelog_has_the_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest, when = re.findall(r"(?m)^## \[(.*?)\] - (.*)$", text)[0]
    assert newest == VERSION
    assert when == "Unreleased" or re.fullmatch(r"\d{4}-\d\d-\d\d", when)


def test_the_citation_has_the_version_and_the_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == VERSION
    assert citation["cff-version"] == "1.2.0" and citation["title"] == "bahdanau_jax"
    (paper,) = citation["references"]  # a preferred citation would hide the software
    assert "preferred-citation" not in citation
    authors = [each["family-names"] for each in paper["authors"]]
    assert authors == ["Bahdanau", "Cho", "Bengio"]


def test_the_installed_package_has_the_version():
    assert metadata.version("bahdanau-jax") == VERSION


def test_the_version_is_written_nowhere_else_in_the_code():
    for path in [*(ROOT / "bahdanau_jax").rglob("*.py"), ROOT / "setup.py"]:
        assert f'"{VERSION}"' not in path.read_text(encoding="utf-8"), path


def test_the_workflow_runs_what_is_run_elsewhere():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    job, docs = workflow["jobs"]["checks"], workflow["jobs"]["docs"]
    assert job["steps"][-1]["run"] == ".ci/run" and docs["steps"][-1] == {"run": "make docs"}
    assert job["steps"][-1]["env"] == {"BAHDANAU_TESTS_BROWSER": "1"}
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.13"]
    *_, install, tests = (step["run"] for step in workflow["jobs"]["newest"]["steps"][2:])
    assert "constraints.txt" not in install and "pip install" in install
    assert all((ROOT / name).is_dir() for name in tests.split() if name.startswith("tests/"))
    assert workflow[True]["push"] == {"branches": ["main"]}  # YAML reads the key "on" as True
    for form in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        assert yaml.safe_load(form.read_text(encoding="utf-8"))
