"""Pictures: where a model looked, how it fares by length, how it learned."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.patches import Rectangle

from bahdanau_jax.evaluation.alignment import Link
from bahdanau_jax.evaluation.drawing import (
    PADDING,
    PLAIN,
    Drawing,
    MissingFont,
    dress,
    ignoring_glyphs,
    label,
    save,
)
from bahdanau_jax.hypothesis import Hypothesis

__all__ = ["MissingFont", "alignment", "bleu_by_length", "curves", "lengths", "save", "steps"]

INK = "#1a1a1a"
FAINT = "#d9d9d9"  # lines between cells
BAR = "#9fb3c8"
MARK = "#d55e00"  # gold links and largest weights; the colours are Okabe and Ito's
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
STYLES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
FONT_SIZE = 10  # points, at any number of tokens: the figure grows instead


def alignment(hypothesis: Hypothesis, gold: Iterable[Link] | None = None) -> Drawing:
    """The alignment matrix of the paper's Figure 3: target words down, source words across.

    A cell is the weight alpha_ij, white 0 to black 1: the paper's grey scale turned over, since
    on a white page weak weights show better as grey on white. EOS is drawn on both sides, as the
    model saw it. `gold` links (source, target) are outlined. Raises ValueError where there are no
    tokens, alpha does not fit them, or a gold link lies outside.

    >>> save(alignment(run.translate(["A man sleeps ."])[0]), "alignment.svg")
    """
    alpha = _checked(hypothesis)
    rows, columns = alpha.shape
    cell = min(max(6 / max(rows, columns), 0.25), 0.42)  # inches
    drawing = Drawing(columns * cell + 6, rows * cell + 6)
    axes = drawing.add_subplot()
    axes.imshow(alpha, cmap="gray_r", vmin=0, vmax=1, interpolation="none", aspect="auto")
    axes.xaxis.tick_top()
    upright = _longest(hypothesis.source_tokens) < cell
    _label_words(axes.xaxis, hypothesis.source_tokens, rotation=0 if upright else 90)
    _label_words(axes.yaxis, hypothesis.tokens)
    axes.set_xticks(np.arange(1, columns) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, rows) - 0.5, minor=True)
    axes.grid(which="minor", color=FAINT, linewidth=0.8)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_color(INK)
    axes.spines[:].set_linewidth(0.8)
    for link in gold or ():
        axes.add_patch(_outline(link, rows, columns))
    _fit(drawing, axes, columns * cell, rows * cell)
    return drawing


def steps(hypothesis: Hypothesis) -> Drawing:
    """alpha of each output step as a bar chart: one panel a target word, source words across.

    The largest bar of a panel is coloured. All panels share both axes, weights run from 0 to 1.
    Raises ValueError as `alignment` does.
    """
    alpha = _checked(hypothesis)
    count, words = alpha.shape
    width = max(words * 0.17, _longest(hypothesis.tokens), 1.2)  # inches of one panel
    height = 0.95
    columns = min(count, max(1, round(math.sqrt(1.1 * count * height / width))))
    rows = math.ceil(count / columns)
    below = _longest(hypothesis.source_tokens)
    drawing = Drawing(columns * width + 0.5, rows * height + below)
    panels = list(drawing.subplots(rows, columns, squeeze=False).flat)
    for axes, token, weights in zip(panels, hypothesis.tokens, alpha, strict=False):
        bars = axes.bar(range(words), weights, width=0.8, color=BAR)
        bars[int(weights.argmax())].set_color(MARK)
        axes.set(ylim=(0, 1), xlim=(-0.6, words - 0.4), xticks=(), yticks=(0, 0.5, 1))
        axes.set_title(label(token), loc="left", fontsize=FONT_SIZE, pad=3, **PLAIN)
        axes.tick_params(axis="x", length=0)
        axes.tick_params(axis="y", labelleft=axes in panels[::columns])
        _bare(axes)
    for axes in panels[count - columns : count]:
        _label_words(axes.xaxis, hypothesis.source_tokens, 90)
        # Where nothing is below, labels may hang into the empty place and move no other panel.
        axes.xaxis.set_in_layout(axes in panels[-columns:])
    for axes in panels[count:]:
        axes.remove()
    return drawing


def bleu_by_length(scores: Mapping[str, Mapping[int, float]]) -> Drawing:
    """BLEU against sentence length, a line a model: the paper's Figure 2.

    `scores` maps a model's name to {length: BLEU}. Raises ValueError where there are none.

    >>> bleu_by_length({"RNNsearch-50": {10: 25.0, 20: 27.1}, "RNNenc-50": {10: 22.0, 20: 15.3}})
    """
    if not any(scores.values()):
        raise ValueError("no scores to draw: expected {model: {length: BLEU}}")
    drawing = Drawing(6.4, 4)
    axes = drawing.add_subplot()
    for look, (name, points) in zip(_looks(), scores.items(), strict=False):
        lengths = sorted(points)
        axes.plot(lengths, [points[n] for n in lengths], label=name, **look)
    axes.set(xlabel="sentence length (words)", ylabel="BLEU", xlim=(0, None), ylim=(0, None))
    _finish(axes)
    return drawing


def lengths(histograms: Mapping[str, Sequence[Sequence[int]]]) -> Drawing:
    """How many sentences have how many tokens, a line a side.

    `histograms` maps a side's name to [[tokens, sentences], ...]. Raises ValueError where there is
    nothing to draw.

    >>> lengths({"source": [[3, 10], [4, 25]], "target": [[3, 5], [5, 30]]})
    """
    if not any(histograms.values()):
        raise ValueError("no lengths to draw: expected {side: [[tokens, sentences], ...]}")
    drawing = Drawing(6.4, 3.2)
    axes = drawing.add_subplot()
    for look, (side, histogram) in zip(_looks(), histograms.items(), strict=False):
        counts = {length: count for length, count in histogram}
        tokens = range(max(counts, default=0) + 2)
        look["marker"] = ""
        axes.plot(tokens, [counts.get(n, 0) for n in tokens], label=side, **look)
    axes.set(xlabel="tokens", ylabel="sentences", xlim=(0, None), ylim=(0, None))
    _finish(axes)
    return drawing


def curves(metrics: Sequence[Mapping[str, Any]]) -> Drawing:
    """Training curves over updates: losses in one panel, each dev score in a panel below.

    `metrics` are the objects of metrics.jsonl: "step", and on some lines keys with "loss" in them
    (per token) and other keys that start with "dev". Values that are no finite number are left
    out. Raises ValueError where there is none to draw.
    """
    keys = list(dict.fromkeys(itertools.chain.from_iterable(metrics)))
    groups = {"loss per token": [key for key in keys if "loss" in key]}
    groups |= {_words(key): [key] for key in keys if key.startswith("dev") and "loss" not in key}
    panels = {}
    for name, group in groups.items():
        if lines := {key: points for key in group if (points := _points(metrics, key))}:
            panels[name] = lines
    if not panels:
        raise ValueError("no metrics to draw: expected lines with step, and loss or dev scores")
    drawing = Drawing(6.4, 1 + 2.2 * len(panels))
    grid = drawing.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, lines) in zip(grid, panels.items(), strict=True):
        for look, (key, points) in zip(_looks(), lines.items(), strict=False):
            look["marker"] = look["marker"] if len(points) <= 30 else ""
            axes.plot(*zip(*points, strict=True), label=_words(key), **look)
        axes.set_ylabel(name, **PLAIN)
        _finish(axes)
    grid[-1].set_xlabel("updates")
    return drawing


def _points(metrics: Sequence[Mapping[str, Any]], key: str) -> list[tuple[int, float]]:
    """(step, value) of every line that has a finite number under the key."""
    pairs = [(line["step"], line[key]) for line in metrics if "step" in line and key in line]
    return [(n, y) for n, y in pairs if isinstance(y, (int, float)) and math.isfinite(y)]


def _words(key: str) -> str:
    return key.replace("_", " ").replace("/", " ")


def _looks() -> Iterator[dict[str, Any]]:
    """Colour, line and marker of the first, second, ... line: distinct in grey too."""
    for i in itertools.count():
        yield {
            "color": LINES[i % len(LINES)],
            "linestyle": STYLES[i % len(STYLES)],
            "marker": MARKERS[i % len(MARKERS)],
            "markersize": 4,
            "linewidth": 1.5,
            "clip_on": False,
        }


def _finish(axes: Axes) -> None:
    """No box around the lines, and a legend where there are several."""
    _bare(axes)
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
    if len(axes.lines) > 1:
        for text in axes.legend(frameon=False).get_texts():
            text.set(**PLAIN)


def _bare(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)


def _label_words(axis: Axis, tokens: Sequence[str], rotation: float = 0) -> None:
    axis.set_ticks(
        range(len(tokens)), map(label, tokens), rotation=rotation, fontsize=FONT_SIZE, **PLAIN
    )


def _longest(tokens: Sequence[str]) -> float:
    """The length of the longest label in inches."""
    probe = Drawing()
    texts = [probe.text(0, 0, label(token), fontsize=FONT_SIZE, **PLAIN) for token in set(tokens)]
    dress(probe)
    with ignoring_glyphs():
        return max(text.get_window_extent().width for text in texts) / probe.dpi


def _fit(drawing: Drawing, axes: Axes, width: float, height: float) -> None:
    """Size the drawing so that the axes come out at so many inches, labels beside them."""
    dress(drawing)
    with ignoring_glyphs():
        drawing.draw_without_rendering()
        inner, outer = axes.get_window_extent(), axes.get_tightbbox()
    assert outer is not None  # None is for axes that are not visible
    margin = 2 * PADDING
    drawing.set_size_inches(
        width + (outer.width - inner.width) / drawing.dpi + margin,
        height + (outer.height - inner.height) / drawing.dpi + margin,
    )


def _checked(hypothesis: Hypothesis) -> np.ndarray:
    alpha = np.asarray(hypothesis.alpha, np.float64)
    expected = (len(hypothesis.tokens), len(hypothesis.source_tokens))
    if alpha.shape != expected:
        raise ValueError(f"alpha has shape {alpha.shape}, but target and source make {expected}")
    if not alpha.size:
        raise ValueError("nothing to draw: a side of the hypothesis has no tokens, not even EOS")
    return alpha


def _outline(link: Link, rows: int, columns: int) -> Rectangle:
    source, target = link
    if not (0 <= source < columns and 0 <= target < rows):
        raise ValueError(
            f"gold link {source}-{target} lies outside {columns} source and {rows} target tokens"
        )
    return Rectangle((source - 0.42, target - 0.42), 0.84, 0.84, fill=False, ec=MARK, lw=1.4)
