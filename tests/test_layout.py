"""The architecture, read from the source: who may import whom, and how long a file may be."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "bahdanau_jax"

# A part is a folder of the package, or a file at its top. What each may import beside itself:
BASE = {
    "config",
    "configurations",
    "splits",
    "batch",
    "hypothesis",
    "distribution",
    "compiler_faults",
    "names",
    "atomic",
    "pairing",
    "parsing",
    "reporting",
    "reported_scores",
    "compression",
    "run_folder",
    "suite_request",
    "user_code",
    "user_errors",
}
ROOMS = {"model", "data", "alignment", "evaluation", "figures", "checkpoints", "distributed"}
STAGES = ROOMS | {"training", "decoding"}
WHOLE = {
    "variants",
    "aligner",
    "trained",
    "exchange",
    "dev_scores",
    "resuming",
    "run",
    "diagnosis",
    "known_updates",
    "cost",
}
TOOLS = {"report", "experiments", "explorer", "export", "serving"}
ALLOWED = {
    **{part: BASE for part in (*BASE, *ROOMS)},
    "figures": BASE | {"alignment", "evaluation"},
    "checkpoints": BASE | {"distributed"},
    "training": BASE | {"model", "data", "checkpoints", "distributed"},
    "decoding": BASE | {"model", "data"},
    "variants": BASE | STAGES,
    "aligner": BASE | STAGES,
    "trained": BASE | STAGES | {"aligner", "variants"},
    "exchange": BASE | STAGES | {"variants", "trained", "run"},
    "resuming": BASE | {"data"},
    "dev_scores": BASE | STAGES | {"variants"},
    "run": BASE | STAGES | {"variants", "trained", "resuming", "dev_scores"},
    "diagnosis": BASE | STAGES | {"known_updates"},
    "known_updates": BASE | STAGES,
    "cost": BASE | STAGES | {"run"},
    **{part: BASE | STAGES | TOOLS | WHOLE | {PACKAGE} for part in TOOLS},
    PACKAGE: BASE | STAGES | TOOLS | WHOLE,
    "cli": BASE | STAGES | TOOLS | WHOLE | {PACKAGE},
}

# The stages of `data`, each a folder, which may import earlier ones; the files beside them import
# all of them.
DATA_STAGES = ("sources", "tokens", "store", "batches")

MAX_FILE, MAX_FUNCTION = 300, 80
VAGUE = {"util", "utils", "helper", "helpers", "common", "misc"}


def faults(root: Path) -> list[str]:
    """All faults of the layout of a checkout, one in each line."""
    package = sorted((root / PACKAGE).rglob("*.py"))
    around = [*sorted((root / "configs").glob("*.py")), *root.glob("train.py")]
    named = [*package, *root.glob("train.py"), *sorted((root / "benchmarks").rglob("*.py"))]
    lines = [*_ambiguous([path.relative_to(root) for path in named])]
    for path in [*package, *around]:
        name, tree = path.relative_to(root), ast.parse(path.read_text(encoding="utf-8"))
        lines += [f"{name}: {fault}" for fault in (*_size(path, tree), *_vague(name))]
    for path in package:
        name, tree = path.relative_to(root), ast.parse(path.read_text(encoding="utf-8"))
        lines += [f"{name}:{fault}" for fault in _imports(root, name, tree)]
    return lines


def _size(path: Path, tree: ast.Module) -> Iterator[str]:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    if lines > MAX_FILE:
        yield f"{lines} lines, more than {MAX_FILE}"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION:
                yield f"{node.name} has {length} lines, more than {MAX_FUNCTION}"


def _vague(name: Path) -> Iterator[str]:
    for part in name.with_suffix("").parts:
        if part in VAGUE:
            yield f"{part} says nothing of its job"


def _ambiguous(names: Sequence[Path]) -> Iterator[str]:
    """The name of a file is enough to find it."""
    first: dict[str, Path] = {}
    for name in names:
        if not name.stem.startswith("__") and first.setdefault(name.name, name) != name:
            yield f"{name}: {first[name.name]} has this name too"


def _imports(root: Path, name: Path, tree: ast.Module) -> Iterator[str]:
    here = _part(name)
    if here not in ALLOWED:
        yield f"1: {here} is a part that no rule names"
        return
    for line, folders, leaf in _imported(root, name, tree):
        there = folders[0] if folders else PACKAGE
        if there == here:
            yield from _stages_of_data(name, line, folders)
            continue
        if there not in ALLOWED[here]:
            yield f"{line}: {here} may not import {there}"
        elif leaf and (root / PACKAGE / there).is_dir() and leaf not in _listed(root, there):
            yield f"{line}: {leaf} is not listed in {there}/__init__.py"


def _stages_of_data(name: Path, line: int, imported: tuple[str, ...]) -> Iterator[str]:
    """A stage of `data` imports earlier stages, and no file beside them."""
    if name.parts[1] != "data" or (here := name.parts[2]) not in DATA_STAGES:
        return
    there = imported[1] if len(imported) > 1 else "__init__"
    if there not in DATA_STAGES[: DATA_STAGES.index(here) + 1]:
        yield f"{line}: data/{here} may not import data/{there}"


def _part(name: Path) -> str:
    part = name.parts[1].removesuffix(".py")
    return {"__init__": PACKAGE, "__main__": "cli"}.get(part, part)


def _imported(
    root: Path, name: Path, tree: ast.Module
) -> Iterator[tuple[int, tuple[str, ...], str]]:
    """(line, path of the module below the package, name taken from it) of each inner import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top, *inner = alias.name.split(".")
                if top == PACKAGE:
                    yield node.lineno, tuple(inner), inner[-1] if len(inner) > 1 else ""
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".") if node.module else []
            if node.level:
                module = [*name.parent.parts[: len(name.parent.parts) - node.level + 1], *module]
            if not module or module[0] != PACKAGE:
                continue
            for alias in node.names:
                inner = tuple(module[1:])
                if not inner and _exists(root, alias.name):
                    yield node.lineno, (alias.name,), ""
                else:
                    yield node.lineno, inner, alias.name


def _exists(root: Path, part: str) -> bool:
    return (root / PACKAGE / part).is_dir() or (root / PACKAGE / f"{part}.py").is_file()


def _listed(root: Path, folder: str) -> set[str]:
    """The names that a folder's __init__.py binds or names in a string, as a lazy one does."""
    path = root / PACKAGE / folder / "__init__.py"
    if not path.is_file():
        return set()
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    return names


def test_layout():
    assert not faults(ROOT)


TIDY = {
    "train.py": "from bahdanau_jax.cli.main import main\n",
    "configs/tiny.py": "from bahdanau_jax.config import Config\n\nconfig = Config()\n",
    "bahdanau_jax/__init__.py": "from bahdanau_jax.run import load\n",
    "bahdanau_jax/config.py": "class Config: ...\n",
    "bahdanau_jax/run.py": "from bahdanau_jax.model import encode\n\ndef load(): ...\n",
    "bahdanau_jax/model/__init__.py": "from bahdanau_jax.model.encoder import encode\n",
    "bahdanau_jax/model/encoder.py": "from .gru import step\nfrom ..config import Config\n",
    "bahdanau_jax/model/gru.py": "import jax\n\ndef step(): ...\n",
    "bahdanau_jax/training/__init__.py": "",
    "bahdanau_jax/training/loop.py": "from bahdanau_jax.model.encoder import encode\n",
    "bahdanau_jax/cli/__init__.py": "",
    "bahdanau_jax/cli/main.py": "from bahdanau_jax import run\n\ndef main(): ...\n",
}

VIOLATIONS = {
    "model imports training": (
        {"bahdanau_jax/model/gru.py": "from bahdanau_jax.training.loop import train\n"},
        "bahdanau_jax/model/gru.py:1: model may not import training",
    ),
    "model imports training, relatively": (
        {"bahdanau_jax/model/gru.py": "from ..training import loop\n"},
        "bahdanau_jax/model/gru.py:1: model may not import training",
    ),
    "inside a function": (
        {"bahdanau_jax/model/gru.py": "def step():\n    import bahdanau_jax.run\n"},
        "bahdanau_jax/model/gru.py:2: model may not import run",
    ),
    "by the package": (
        {"bahdanau_jax/training/loop.py": "from bahdanau_jax import run\n"},
        "bahdanau_jax/training/loop.py:1: training may not import run",
    ),
    "through the package's face": (
        {"bahdanau_jax/model/gru.py": "import bahdanau_jax as bj\n"},
        "bahdanau_jax/model/gru.py:1: model may not import bahdanau_jax",
    ),
    "anything imports cli": (
        {"bahdanau_jax/run.py": "from bahdanau_jax.cli import main\n\nload = 1\n"},
        "bahdanau_jax/run.py:1: run may not import cli",
    ),
    "the base imports a stage": (
        {"bahdanau_jax/config.py": "import bahdanau_jax.model\n"},
        "bahdanau_jax/config.py:1: config may not import model",
    ),
    "a later stage of data": (
        {"bahdanau_jax/data/tokens/codec.py": "from bahdanau_jax.data.store.store import Store\n"},
        "bahdanau_jax/data/tokens/codec.py:1: data/tokens may not import data/store",
    ),
    "the face of data": (
        {"bahdanau_jax/data/tokens/codec.py": "from bahdanau_jax.data import Store\n"},
        "bahdanau_jax/data/tokens/codec.py:1: data/tokens may not import data/__init__",
    ),
    "a name leaves unlisted": (
        {"bahdanau_jax/training/loop.py": "from bahdanau_jax.model.cells import step\n"},
        "bahdanau_jax/training/loop.py:1: step is not listed in model/__init__.py",
    ),
    "a module leaves unlisted": (
        {"bahdanau_jax/training/loop.py": "import bahdanau_jax.model.gru\n"},
        "bahdanau_jax/training/loop.py:1: gru is not listed in model/__init__.py",
    ),
    "a part without a rule": (
        {"bahdanau_jax/extras/thing.py": "x = 1\n"},
        "bahdanau_jax/extras/thing.py:1: extras is a part that no rule names",
    ),
    "a long file": (
        {"bahdanau_jax/model/gru.py": "def step(): ...\n" + "x = 1\n" * 300},
        "bahdanau_jax/model/gru.py: 301 lines, more than 300",
    ),
    "a long configuration": (
        {"configs/tiny.py": "x = 1\n" * 301},
        "configs/tiny.py: 301 lines, more than 300",
    ),
    "a long function": (
        {"bahdanau_jax/model/gru.py": "def step():\n" + "    x = 1\n" * 80},
        "bahdanau_jax/model/gru.py: step has 81 lines, more than 80",
    ),
    "a vague file": (
        {"bahdanau_jax/model/utils.py": "x = 1\n"},
        "bahdanau_jax/model/utils.py: utils says nothing of its job",
    ),
    "two files of one name": (
        {"benchmarks/peers/loop.py": "x = 1\n"},
        "benchmarks/peers/loop.py: bahdanau_jax/training/loop.py has this name too",
    ),
    "a vague folder": (
        {"bahdanau_jax/model/common/lstm.py": "x = 1\n"},
        "bahdanau_jax/model/common/lstm.py: common says nothing of its job",
    ),
}


def _plant(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_a_tidy_tree_has_no_faults(tmp_path):
    assert faults(_plant(tmp_path, TIDY)) == []


@pytest.mark.parametrize("violation", VIOLATIONS)
def test_a_planted_violation_is_found(tmp_path, violation):
    files, expected = VIOLATIONS[violation]
    assert faults(_plant(tmp_path, {**TIDY, **files})) == [expected]
