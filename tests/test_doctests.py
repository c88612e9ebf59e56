"""The examples of the docstrings that show a result: they have to give it.

An example is run if it shows a result and uses only names of its module. The others, such as those
of a trained `run`, show how a function is called.
"""

import ast
import builtins
import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

ERROR = re.compile(r"\w+Error: ")

# Examples whose result depends on the machine.
MACHINE = {
    "bahdanau_jax.diagnosis.diagnose",
    "bahdanau_jax.serving.server.url",
    "bahdanau_jax.user_code.module_file",
}


def examples() -> Iterator[tuple[str, str, list[doctest.Example]]]:
    """(module, name within it, examples) of each docstring that is run."""
    parser = doctest.DocTestParser()
    for path in sorted((ROOT / "bahdanau_jax").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        known = {*dir(builtins), *_bound(tree)}
        for name, node in _documented(tree):
            text = ast.get_docstring(node) or ""
            shown = parser.get_examples(text) if ">>>" in text else []
            own = bool(shown) and not _free(shown) - known
            if own and any(each.want for each in shown) and f"{module}.{name}" not in MACHINE:
                yield module, name, [_with_error(each) for each in shown]


def _with_error(example: doctest.Example) -> doctest.Example:
    """An example that shows an error as its last line, without the traceback."""
    if ERROR.match(example.want):
        example.exc_msg = example.want
    return example


def _documented(tree: ast.Module) -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name, node
        for inner in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(inner, ast.FunctionDef):
                yield f"{node.name}.{inner.name}", inner


def _bound(tree: ast.AST) -> set[str]:
    """The names that the statements of a module bind."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    for node in tree.body if isinstance(tree, ast.Module) else ():
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {each.id for each in targets if isinstance(each, ast.Name)}
    return names


def _free(shown: list[doctest.Example]) -> set[str]:
    """The names that examples read and do not bind."""
    tree = ast.parse("".join(each.source for each in shown))
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return {node.id for node in names} - bound - _bound(tree)


EXAMPLES = {f"{module}.{name}": (module, shown) for module, name, shown in examples()}


@pytest.mark.parametrize("path", EXAMPLES)
def test_an_example_gives_the_result_that_it_shows(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module, shown = EXAMPLES[path]
    names = dict(vars(importlib.import_module(module)))
    messages: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
    test = doctest.DocTest(shown, names, path, None, 0, None)
    doctest.DocTestRunner(verbose=False, optionflags=flags).run(test, out=messages.append)
    assert not messages, "".join(messages)


def test_most_examples_with_a_result_are_run():
    assert len(EXAMPLES) >= 80
