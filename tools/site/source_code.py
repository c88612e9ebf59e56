"""Excerpts of the source, by the name of a function, class or table, so that they stay current.

A page names them in a comment, which no reader of the plain file sees:

    <!-- code: bahdanau_jax/model/attention.py masked_softmax -->
"""

import ast
import re
from pathlib import Path

from tools.site import ROOT

MARK = re.compile(r"(?m)^<!-- code: (?P<path>\S+) (?P<name>[\w.]+) -->$")


def include(text: str, root: Path = ROOT) -> str:
    """The text of a page with its excerpts. Raises ValueError where one is missing."""
    return MARK.sub(lambda match: _block(root, match["path"], match["name"]), text)


def _block(root: Path, path: str, name: str) -> str:
    title = f"{path}: {name}"
    return f'```python title="{title}"\n{excerpt(root / path, name, title)}\n```'


def excerpt(path: Path, name: str, title: str) -> str:
    """The lines of a function, a class, a method (Class.method) or an assignment."""
    if not path.is_file():
        raise ValueError(f"code: {title}: there is no such file; correct the path in the page")
    source = path.read_text(encoding="utf-8")
    body: list[ast.stmt] = ast.parse(source).body
    node = None
    for part in name.split("."):
        node = next((each for each in body if part in _bound(each)), None)
        if node is None:
            raise ValueError(f"code: {title}: the file does not define it; correct the page")
        body = getattr(node, "body", [])
    assert node is not None
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
    lines = source.splitlines()[first - 1 : node.end_lineno]
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines)


def _bound(node: ast.stmt) -> list[str]:
    """The names that a statement binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return [node.name]
    if isinstance(node, ast.AnnAssign):
        return [ast.unparse(node.target)]
    return [ast.unparse(each) for each in node.targets] if isinstance(node, ast.Assign) else []
