"""Draws which folder imports which, of one checkout or of several side by side.

python docs/structure.py docs/structure.svg before=OTHER_CHECKOUT now=.

A number counts the imports from the folder of its row to that of its column. Where every number is
left of the diagonal, no folder imports a later one. Files at the top of the package that nothing
but the base imports are one row, "base"; the others, which compose the stages, are "composition".
"""

import ast
import sys
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt

PACKAGE = "bahdanau_jax"


def modules(root: Path) -> dict[str, Path]:
    """Dotted name below the package -> file, of the package and of benchmarks beside it."""
    files = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        name = ".".join(path.relative_to(root / PACKAGE).with_suffix("").parts)
        files[name.removesuffix(".__init__") if name != "__init__" else ""] = path
    for path in sorted((root / "benchmarks").rglob("*.py")):
        files[".".join(path.relative_to(root).with_suffix("").parts)] = path
    return files


def imports(path: Path, known: set[str]) -> set[str]:
    """The modules of the package that a file imports."""
    targets = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            inner = name.removeprefix(f"{PACKAGE}.")
            if (name.startswith(f"{PACKAGE}.") or name.startswith("benchmarks")) and inner in known:
                targets.add(inner)
    return targets


def rooms(root: Path) -> tuple[list[str], Counter, Counter]:
    """Rooms in an order in which imports go backwards, their files, and imports of each pair."""
    files = modules(root)
    edges = {name: imports(path, set(files)) for name, path in files.items() if name}
    base: set[str] = {n for n in edges if "." not in n and files[n].name != "__init__.py"}
    while outside := {n for n in base if edges[n] - base}:
        base -= outside

    def room(name: str) -> str:
        parts = name.split(".")
        if name in base:
            return "base"
        if name == "__main__":
            return "cli"
        if len(parts) == 1 and files[name].name != "__init__.py":
            return "composition"
        if parts[0] == "data" and len(parts) > 1:
            nested = files[name].parent.name
            return "data" if nested == "data" else f"data/{parts[1]}"
        return parts[0]

    sizes = Counter(room(name) for name in edges)
    arrows = Counter(
        (room(name), room(target))
        for name, targets in edges.items()
        for target in targets
        if room(name) != room(target)
    )
    order, waiting = [], set(sizes)
    while waiting:  # the room with the fewest imports of rooms that are not placed yet comes next
        counts = {
            name: sum(n for (a, b), n in arrows.items() if a == name and b in waiting)
            for name in waiting
        }
        order.append(min(waiting, key=lambda name, counts=counts: (counts[name], name)))
        waiting.discard(order[-1])
    return order, sizes, arrows


def main(output: str, *checkouts: str) -> None:
    figure, axes = plt.subplots(1, len(checkouts), figsize=(8 * len(checkouts), 8), squeeze=False)
    for axis, checkout in zip(axes[0], checkouts, strict=True):
        title, _, folder = checkout.partition("=")
        order, sizes, arrows = rooms(Path(folder))
        place = {name: i for i, name in enumerate(order)}
        for (a, b), count in arrows.items():
            forward = place[b] > place[a]
            axis.text(
                place[b],
                place[a],
                count,
                ha="center",
                va="center",
                fontsize=9,
                color="#d55e00" if forward else "#1a1a1a",
                weight="bold" if forward else "normal",
            )
        for i in range(len(order)):
            axis.add_patch(plt.Rectangle((i - 0.5, i - 0.5), 1, 1, color="#d9d9d9"))
        labels = [f"{name} ({sizes[name]})" for name in order]
        axis.set_xticks(range(len(order)), order, rotation=90)
        axis.set_yticks(range(len(order)), labels)
        axis.set_xlim(-0.5, len(order) - 0.5)
        axis.set_ylim(len(order) - 0.5, -0.5)
        axis.xaxis.tick_top()
        axis.set_title(f"{title}: {sum(sizes.values())} files; a row imports columns", pad=12)
    figure.tight_layout()
    figure.savefig(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
