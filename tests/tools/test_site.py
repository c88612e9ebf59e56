"""The documentation site: its parts, what they refuse, and one whole build."""

import importlib
import inspect
import os
import re
import subprocess
import sys
import typing
from dataclasses import dataclass
from pathlib import Path

import pytest

griffe = pytest.importorskip("griffe", reason="needs the extra docs: pip install '.[docs]'")
pytest.importorskip("mkdocs", reason="needs the extra docs: pip install '.[docs]'")
pytest.importorskip("latex2mathml", reason="needs the extra docs: pip install '.[docs]'")

from bahdanau_jax.cli import fields, main  # noqa: E402
from bahdanau_jax.config import Config  # noqa: E402
from tools.site import (  # noqa: E402
    ROOT,
    built_pages,
    command_reference,
    comments,
    docstrings,
    equations,
    links,
    navigation,
    notebook_pages,
    public_names,
    python_reference,
    settings_reference,
    source_code,
)
from tools.site.public_names import FOLDERS, Inventory, dotted  # noqa: E402


@pytest.fixture(scope="module")
def inventory():
    return Inventory()


def test_every_public_name_is_documented(inventory):
    assert inventory.undocumented() == []
    assert inventory.count() > 300


def test_each_public_name_has_a_directive_on_one_page(inventory):
    pages = "\n".join(python_reference.pages(inventory).values())
    directives = re.findall(r"(?m)^::: (\S+)$", pages)
    assert len(directives) == len(set(directives))
    import bahdanau_jax as bj

    for name in bj.__all__:
        path = f"bahdanau_jax.{name}"
        assert name in FOLDERS or inventory.source(path) in directives, path


def test_each_class_of_a_public_signature_has_an_entry(inventory):
    """By the annotations that Python evaluates, without griffe."""
    directives = re.findall(
        r"(?m)^::: (\S+)$", "\n".join(python_reference.pages(inventory).values())
    )
    queue = [
        getattr(importlib.import_module(dotted(folder)), name)
        for folder in FOLDERS
        for name in public_names.names(folder)
    ]
    found: set[str] = set()
    for value in queue:
        functions = [value] if inspect.isfunction(value) or inspect.isclass(value) else []
        if inspect.isclass(value):
            methods = inspect.getmembers(value, inspect.isfunction)
            functions += [method for name, method in methods if not name.startswith("_")]
        for function in functions:
            queue += [cls for cls in classes_of(function) if cls.__qualname__ not in found]
            found |= {cls.__qualname__ for cls in classes_of(function)}
            for cls in classes_of(function):
                path = f"{cls.__module__}.{cls.__qualname__}"
                inside = (cls.__module__ in directives) or path in directives
                assert inside, f"{function.__module__}.{function.__qualname__}: {path}"
    assert {"Aligned", "Reporter", "TeacherForcedStates", "TrainState", "Planned"} <= found


def classes_of(function) -> list[type]:
    """The public classes of the package in the annotations of a function or class."""
    try:
        hints = typing.get_type_hints(inspect.unwrap(function))
    except NameError:  # a name that only type checkers import
        return []
    pending = [hint for name, hint in hints.items() if not name.startswith("_")]
    classes = []
    for hint in pending:
        pending += hint if isinstance(hint, list) else typing.get_args(hint)
        module = getattr(hint, "__module__", None) or ""
        if inspect.isclass(hint) and module.startswith("bahdanau_jax"):
            classes.append(hint)
    return [cls for cls in classes if not cls.__name__.startswith("_")]


def test_a_name_without_docstring_or_comment_is_found(tmp_path):
    (tmp_path / "bare.py").write_text(
        "class A:\n    x: int = 1\n    y: int = 2  # what y is\n\n    def f(self): ...\n"
    )
    extensions = griffe.load_extensions(docstrings.PlainDocstrings)
    loader = griffe.GriffeLoader(extensions=extensions, search_paths=[str(tmp_path)])
    cls = loader.load("bare")["A"]
    assert docstrings.fields(cls) == {"x": "", "y": "what y is"}
    assert cls["f"].docstring is None


def test_every_setting_is_in_the_reference_with_default_and_meaning():
    text = settings_reference.markdown()
    for option in fields.options(Config):
        name = settings_reference.field(option)
        part = text.partition(f"### {name} {{")[2].partition("\n### ")[0]
        assert f"Option `{option.name} " in part and "default " in part
        assert docstrings.sentence(option.words) in part
        assert all(f"| `{choice}` |" in part for choice in option.choices)
    assert "at least 1" in text and "below 2^32" in text.replace("\\", "")


def test_every_option_of_every_command_is_in_the_reference():
    text = command_reference.markdown()
    for name in main.COMMANDS:
        part = text.partition(f"\n## bahdanau {name}\n")[2].partition("\n## ")[0]
        assert part, name
        for option in fields.options(fields.options_of(name), f"bahdanau {name}"):
            assert option.section or f"`{option.name}" in part, option.name
    assert "| 141 |" in text


def test_code_in_the_tables_of_options_has_no_escaped_bar():
    rows = [line for line in command_reference.markdown().splitlines() if line.startswith("| `")]
    assert any(row.startswith("| `--dry-run True/False` |") for row in rows)
    assert not any("\\|" in code for row in rows for code in re.findall("`[^`]*`", row))


def test_an_option_without_a_comment_is_found(monkeypatch):
    @dataclass(frozen=True)
    class Silent:
        """Do something."""

        quick: bool = False

    monkeypatch.setattr(fields, "options_of", lambda command: Silent)
    with pytest.raises(ValueError, match="bahdanau train: --quick: no comment"):
        command_reference.markdown()


def test_a_docstring_becomes_markdown():
    text = "e_ij [B S], *X.\n\n>>> f(1)\n2\n\nArgs:\n    n_best: the h_j of `a_b`."
    assert docstrings.markdown(text) == (
        "e\\_ij \\[B S\\], \\*X.\n\n\n```pycon\n>>> f(1)\n2\n```\n\n\n"
        "Args:\n    n_best: the h\\_j of `a_b`."
    )


def test_a_symbol_at_the_beginning_of_a_comment_keeps_its_case():
    assert docstrings.sentence("m, numbers of a word") == "m, numbers of a word."
    assert docstrings.sentence("the optimiser") == "The optimiser."


def test_comments_of_constants_and_fields():
    lines = ["# what a", "# is", "A = 1", "B = 2  # what b is  # noqa", "C = 3  # pyright: ignore"]
    assert comments.of_constant(lines, 3, 3) == "what a is"
    assert comments.of_field(lines, 4, 4) == "what b is"
    assert comments.of_field(lines, 5, 5) == ""


def test_an_excerpt_is_found_by_its_name(tmp_path):
    (tmp_path / "a.py").write_text(
        "X = 1\n\n\nclass A:\n    @property\n    def f(self):\n        1\n"
    )
    text = source_code.include("<!-- code: a.py A.f -->\n", tmp_path)
    assert '```python title="a.py: A.f"\n@property\ndef f(self):\n    1\n```' in text
    with pytest.raises(ValueError, match="a.py: g: the file does not define it"):
        source_code.include("<!-- code: a.py g -->", tmp_path)
    with pytest.raises(ValueError, match="no such file"):
        source_code.include("<!-- code: b.py g -->", tmp_path)


def test_equations_become_mathml():
    page = equations.mathml('<span class="arithmatex">\\(h_j\\)</span>')
    assert page.startswith("<math") and "<msub><mi>h</mi><mi>j</mi></msub>" in page
    block = '<div class="arithmatex">\\[\\begin{aligned} a &amp;= b \\end{aligned}\\]</div>'
    assert "<mtable" in equations.mathml(block)
    with pytest.raises(ValueError, match="latex2mathml does not know"):
        equations.mathml('<span class="arithmatex">\\(a & b\\)</span>')


def test_links_between_files_become_links_between_pages():
    text = "[a](../README.md) [b](../bahdanau_jax/config.py#x) [c](cluster) `[d](e)` [f](https://g)"
    assert links.rewritten(text, "docs/guide.md", "guide.md") == (
        "[a](index.md) [b](source/bahdanau_jax/config.py.md#x) [c](source/docs/cluster.md) "
        "`[d](e)` [f](https://g)"
    )
    assert links.page_of("docs/notebooks/tour.py") == "tutorials/tour.md"
    assert links.page_of("docs/decisions") == "decisions/README.md"


def test_a_notebook_that_was_not_run_says_so(tmp_path):
    folder = tmp_path / notebook_pages.SOURCES
    folder.mkdir(parents=True)
    (folder / "b.py").write_text(
        "# ---\n# jupyter: x\n# ---\n# %% [markdown]\n# # B\n# Text.\n# %%\n1 + 1\n"
    )
    (folder / "a.py").write_text("# %% [markdown]\n# # A\n")
    (folder / "README.md").write_text("- [b](b.py)\n- [a](a.py)\n")
    assert notebook_pages.names(tmp_path) == ["b", "a"]
    page = notebook_pages.page("b", False, tmp_path)
    assert page.startswith("# B\n") and "was not run" in page
    assert "Text.\n" in page and "```python\n1 + 1\n```" in page
    with pytest.raises(ValueError, match="is missing"):
        notebook_pages.page("b", True, tmp_path)


def test_the_navigation_has_the_four_kinds_and_every_record():
    tabs = {title: pages for entry in navigation.navigation() for title, pages in entry.items()}
    assert list(tabs) == ["Home", "Tutorials", "How-to guides", "Reference", "Explanation"]
    records = {f"decisions/{path.name}" for path in (ROOT / "docs/decisions").glob("0*.md")}
    assert all(record in str(tabs["Explanation"]) for record in records)


PAGES = {
    "a script from elsewhere": ('<script src="https://cdn/x.js"></script>', "loads https://cdn"),
    "a font": ("<style>@import 'https://fonts/x.css'</style>", "loads https://fonts"),
    "a picture": ('<img src="//host/x.png">', "loads //host"),
    "a link out of the site": ('<a href="../outside.html">x</a>', "../outside.html leads nowhere"),
    "a broken link": ('<a href="none.html">x</a>', "none.html leads nowhere"),
    "a broken anchor": ('<a href="#none">x</a>', "#none names no place"),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_fault_of_a_built_page_is_found(name, tmp_path):
    text, expected = PAGES[name]
    site = tmp_path / "site"
    site.mkdir()
    (tmp_path / "outside.html").write_text("not on the server")
    (site / "index.html").write_text(f"<h1 id='a'>x</h1><a href='https://arxiv.org'></a>{text}")
    (fault,) = built_pages.faults(site)
    assert fault.startswith("index.html: ") and expected in fault


def test_a_page_without_faults_has_none(tmp_path):
    (tmp_path / "index.html").write_text(
        '<link rel="canonical" href="https://x"><h1 id="a">x</h1><a href="index.html#a">x</a>'
    )
    assert built_pages.faults(tmp_path) == [] and built_pages.main([str(tmp_path)]) == 0
    assert built_pages.main([str(tmp_path / "none")]) == 2


@pytest.mark.slow
def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("material", reason="needs the extra docs: pip install '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    environment = {**os.environ, "NOTEBOOKS": "no", "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        [*command, "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    assert built_pages.faults(tmp_path) == []
    for page in tmp_path.rglob("*.html"):
        assert "<p>Attributes:" not in page.read_text(encoding="utf-8"), page
    assert "<math" in Path(tmp_path / "explanation/model.html").read_text(encoding="utf-8")
    assert (tmp_path / "search/search_index.js").is_file()
