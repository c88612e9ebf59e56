"""Time and memory of an update as batch, lengths, vocabulary and units grow.

Every equation is linear in B, T and V. Only the energies and contexts of the attention grow with
S·T, and only products of units with units grow with n² (`sizes.products`).
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from bahdanau_jax.figures import Drawing, save
from bahdanau_jax.names import choose
from bahdanau_jax.reporting import say
from benchmarks import machine, sizes, updates
from benchmarks.sizes import Size

PACKAGES = ("jax", "jaxlib", "numpy")
DOUBLINGS = (0.5, 1, 2, 4)
TERMS = ("at_0", "each", "squared")
DEGREES: Mapping[str, int] = MappingProxyType({"B": 1, "V": 1, "S": 1, "T": 1, "n": 2})


def sweep(base: Size, letter: str, times: Sequence[float] = DOUBLINGS) -> list[Size]:
    """The base with one or several letters multiplied by each factor."""
    return [
        base._replace(**{name: round(getattr(base, name) * factor) for name in letter})
        for factor in times
    ]


def run(
    size: str = "small",
    rounds: int = 5,
    output: Path | None = None,
    times: Sequence[float] = DOUBLINGS,
) -> dict[str, Any]:
    """Time the sweeps of the named size in turn; `output` is the folder of a figure, scaling.svg.

    `lines` are least squares: seconds = at_0 + each·x, for the units n also + squared·x², with
    their R². `plane` is seconds = a + b S + c T + d S T, with the share of d S T at the base and at
    the end. All updates run as those of a training of the base.
    """
    base = choose(sizes.SIZES, size, "size")[0]
    updates.as_a_training(updates.of_size(updates.architecture(base), base))
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        picture = output / "scaling.svg"
        is_new = not picture.exists()
        with open(picture, "ab"):  # raises OSError before any work
            pass
        if is_new:
            picture.unlink()
    sweeps = {letter: sweep(base, letter, times) for letter in (*DEGREES, "ST")}
    seconds, memory = _measure(sorted({one for sweep in sweeps.values() for one in sweep}), rounds)
    lines = {letter: _line(sweeps[letter], letter, seconds) for letter in DEGREES}
    temporaries = {one: plan["temporaries"] for one, plan in memory.items()}
    results = {
        "machine": machine.describe(PACKAGES),
        "device": machine.device(),
        "base": base._asdict(),
        "lines": lines,
        "memory_lines": {letter: _line(sweeps[letter], letter, temporaries) for letter in DEGREES},
        "plane": plane(
            {one: seconds[one] for letter in ("S", "T", "ST") for one in sweeps[letter]},
            base,
            sweeps["ST"][-1],
        ),
        "points": [
            {**one._asdict(), "seconds": round(seconds[one], 5), "planned_mib": memory[one]}
            for one in seconds
        ],
    }
    if output is not None:
        save(draw(sweeps, seconds, lines), output / "scaling.svg")
    return results


def _measure(
    points: Sequence[Size], rounds: int
) -> tuple[dict[Size, float], dict[Size, dict[str, float]]]:
    """The median seconds of each size over all rounds, and its memory."""
    held, memory = {}, {}
    for point in points:
        say(f"compiling {point}")
        config = updates.architecture(point)
        state, step, *_ = updates.ours(config, updates.parameters(config))
        batch = jax.device_put(updates.random_batch(point))
        compiled = step.lower(state, batch).compile()
        memory[point] = updates.planned(compiled)
        held[point] = [compiled, jax.block_until_ready(compiled(state, batch)[0]), batch]
    seconds = {point: [] for point in points}
    for number in range(rounds):
        say(f"round {number + 1}/{rounds}")
        for point in points:
            seconds[point].append(_step(held[point]))
    return {point: statistics.median(times) for point, times in seconds.items()}, memory


def _step(held: list) -> float:
    compiled, state, batch = held
    start = time.perf_counter()
    held[1], _ = jax.block_until_ready(compiled(state, batch))
    return time.perf_counter() - start


def _line(points: Sequence[Size], letter: str, of: Mapping[Size, float]) -> dict[str, float]:
    x, y = [getattr(one, letter) for one in points], [of[one] for one in points]
    return line(x, y, DEGREES[letter])


def line(x: Sequence[float], y: Sequence[float], degree: int = 1) -> dict[str, float]:
    """The least squares of a line, or of a parabola, and its R²."""
    terms, r2 = _fit(np.vander(np.asarray(x, float), degree + 1, increasing=True), np.asarray(y))
    return dict(zip(TERMS, map(float, terms), strict=False)) | {"r2": round(r2, 4)}


def plane(seconds: Mapping[Size, float], base: Size, end: Size) -> dict[str, float]:
    """Fit a + b S + c T + d S T, with the shares of S·T in the time and in the operations."""
    S, T = np.array([(one.S, one.T) for one in seconds], float).T
    columns = np.stack([np.ones(len(S)), S, T, S * T], 1)
    (a, b, c, d), r2 = _fit(columns, np.array(list(seconds.values())))
    terms = {"a": a, "S": b, "T": c, "S*T": d, "r2": round(r2, 4)}
    for name, at in (("base", base), ("end", end)):
        product = d * at.S * at.T
        terms[f"share_at_{name}"] = product / (a + b * at.S + c * at.T + product)
        terms[f"counted_share_at_{name}"] = sizes.pairwise(at) / sizes.flops(at)
    return {name: float(value) for name, value in terms.items()}


def _fit(
    columns: Float[np.ndarray, "N K"], y: Float[np.ndarray, " N"]
) -> tuple[Float[np.ndarray, " K"], float]:
    solved = np.linalg.lstsq(columns, y, rcond=None)[0]
    rest = float(((y - columns @ solved) ** 2).sum())
    spread = float(((y - y.mean()) ** 2).sum())
    return solved, 1 - rest / spread if spread else 1.0


def draw(
    sweeps: Mapping[str, Sequence[Size]],
    seconds: Mapping[Size, float],
    lines: Mapping[str, Mapping[str, float]],
) -> Drawing:
    """One panel for each letter, with the measured points and the fitted line."""
    drawing = Drawing(12, 2.6)
    for axes, letter in zip(drawing.subplots(1, len(DEGREES)), DEGREES, strict=True):
        x = [getattr(one, letter) for one in sweeps[letter]]
        fit = lines[letter]
        axes.plot(x, [1e3 * seconds[one] for one in sweeps[letter]], "o")
        way = np.linspace(0, x[-1])
        milliseconds = 1e3 * sum(fit[name] * way**i for i, name in enumerate(TERMS) if name in fit)
        axes.plot(way, milliseconds, "-")
        axes.set(xlabel=letter, xlim=(0, None), ylim=(0, None), title=f"R² {fit['r2']:.3f}")
    drawing.axes[0].set_ylabel("ms an update")
    return drawing
