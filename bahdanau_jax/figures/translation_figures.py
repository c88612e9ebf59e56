"""Figures of one translation: its alignment matrix, and the attention of every step."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.patches import Rectangle

from bahdanau_jax.alignment import Link
from bahdanau_jax.figures.charts import bare
from bahdanau_jax.figures.drawing import (
    BAR,
    FAINT,
    INK,
    PADDING,
    PLAIN,
    VERMILION,
    Drawing,
    ignoring_glyphs,
    label,
    set_fonts,
)
from bahdanau_jax.hypothesis import Hypothesis

MARK = VERMILION  # gold links and largest weights
FONT_SIZE = 10  # points; with more tokens, the figure grows
LABEL = 0.25  # smallest distance of labels in inches
MOST_STEPS = 120  # tokens on each side of `steps`, which then takes seconds and 41 x 57 inches
LONGEST_SIDE = 20.0  # largest side of a matrix in inches; with more tokens, its cells shrink


def alignment(hypothesis: Hypothesis, gold: Iterable[Link] | None = None) -> Drawing:
    """Draw the alignment matrix of the paper's Figure 3: target words down, source words across.

    A cell is the weight alpha_ij, white for 0 and black for 1. This inverts the paper's grey scale,
    as weak weights are easier to see on white. EOS is on both sides. `gold` links (source, target)
    have a frame. Above 80 tokens on a side, the matrix stays 20 inches long: its cells shrink and
    have no grid, and only every second, third, ... token has a label. Raises ValueError where there
    are no tokens, where alpha does not fit them, and where a gold link lies outside.

    >>> save(alignment(run.translate(["A man sleeps ."])[0]), "alignment.svg")
    """
    alpha = _checked_alpha(hypothesis)
    rows, columns = alpha.shape
    readable = min(max(6 / max(rows, columns), LABEL), 0.42)
    cell = min(readable, LONGEST_SIDE / max(rows, columns))  # inches
    every = math.ceil(readable / cell)
    drawing = Drawing(columns * cell + 6, rows * cell + 6)
    axes = drawing.add_subplot()
    axes.imshow(alpha, cmap="gray_r", vmin=0, vmax=1, interpolation="none", aspect="auto")
    axes.xaxis.tick_top()
    upright = _longest(hypothesis.source_tokens) < cell
    _label_words(axes.xaxis, hypothesis.source_tokens, 0 if upright else 90, every)
    _label_words(axes.yaxis, hypothesis.tokens, every=every)
    if every == 1:
        axes.add_collection(_grid(rows, columns), autolim=False)
    axes.tick_params(length=0)
    axes.spines[:].set_color(INK)
    axes.spines[:].set_linewidth(0.8)
    for link in gold or ():
        axes.add_patch(_frame(link, rows, columns))
    _fit(drawing, axes, columns * cell, rows * cell)
    return drawing


def alignments(hypotheses: Mapping[str, Hypothesis]) -> Drawing:
    """Draw the alignment matrices of several models beside each other, from white (0) to black (1).

    `hypotheses` maps the title of a matrix to a translation. Raises ValueError as `alignment` does,
    and where there are none.

    >>> alignments({"fixed context": first.translate(["1 2"])[0], "attention": best})
    """
    if not hypotheses:
        raise ValueError("no translations to draw: expected {title: Hypothesis}")
    alphas = [_checked_alpha(each) for each in hypotheses.values()]
    rows, columns = (max(alpha.shape[axis] for alpha in alphas) for axis in (0, 1))
    cell = min(LABEL * 1.2, LONGEST_SIDE / max(rows, columns * len(alphas)))  # inches
    drawing = Drawing(len(alphas) * (columns * cell + 0.9), rows * cell + 1.2)
    grid = drawing.subplots(1, len(alphas), squeeze=False)[0]
    for axes, alpha, (title, each) in zip(grid, alphas, hypotheses.items(), strict=True):
        axes.imshow(alpha, cmap="gray_r", vmin=0, vmax=1, interpolation="none")
        axes.set_anchor("N")  # shorter outputs begin at the same height
        _label_words(axes.xaxis, each.source_tokens, 90)
        _label_words(axes.yaxis, each.tokens)
        axes.add_collection(_grid(*alpha.shape), autolim=False)
        axes.tick_params(length=0)
        axes.set_title(title, fontsize=FONT_SIZE, **PLAIN)
    return drawing


def steps(hypothesis: Hypothesis) -> Drawing:
    """Draw alpha of each output step as a bar chart: a panel for each target word.

    Source words run across, weights from 0 to 1, and the largest bar of a panel is coloured. Raises
    ValueError as `alignment` does, and above 120 tokens on a side.
    """
    alpha = _checked_alpha(hypothesis)
    count, words = alpha.shape
    if max(count, words) > MOST_STEPS:
        raise ValueError(
            f"steps draws at most {MOST_STEPS} tokens on a side, but there are {count} output and "
            f"{words} source tokens: draw figures.alignment, which has no such limit"
        )
    width = max(words * 0.17, _longest(hypothesis.tokens), 1.2)  # inches of one panel
    height = 0.95
    columns = min(count, max(1, round(math.sqrt(1.1 * count * height / width))))
    rows = math.ceil(count / columns)
    label_height = _longest(hypothesis.source_tokens)
    drawing = Drawing(columns * width + 0.5, rows * height + label_height)
    panels = list(drawing.subplots(rows, columns, squeeze=False).flat)
    for axes, token, weights in zip(panels, hypothesis.tokens, alpha, strict=False):
        axes.add_collection(_bars(weights), autolim=False)
        axes.set(ylim=(0, 1), xlim=(-0.6, words - 0.4), xticks=(), yticks=(0, 0.5, 1))
        axes.set_title(label(token), loc="left", fontsize=FONT_SIZE, pad=3, **PLAIN)
        axes.tick_params(axis="x", length=0)
        axes.tick_params(axis="y", labelleft=axes in panels[::columns])
        bare(axes)
    for axes in panels[count - columns : count]:
        _label_words(axes.xaxis, hypothesis.source_tokens, 90)
        # Above an empty place of the last row, labels hang into it and move no other panel.
        axes.xaxis.set_in_layout(axes in panels[-columns:])
    for axes in panels[count:]:
        axes.remove()
    return drawing


def _label_words(axis: Axis, tokens: Sequence[str], rotation: float = 0, every: int = 1) -> None:
    """Label the first token and then every `every`-th one."""
    places = range(0, len(tokens), every)
    labels = [label(tokens[place]) for place in places]
    axis.set_ticks(places, labels, rotation=rotation, fontsize=FONT_SIZE, **PLAIN)


def _grid(rows: int, columns: int) -> LineCollection:
    """Return the lines between cells as one artist; a tick for each line would be slow."""
    across = [[(-0.5, y - 0.5), (columns - 0.5, y - 0.5)] for y in range(1, rows)]
    down = [[(x - 0.5, -0.5), (x - 0.5, rows - 0.5)] for x in range(1, columns)]
    return LineCollection([*down, *across], colors=FAINT, linewidths=0.8, zorder=1.5)


def _bars(weights: np.ndarray) -> PolyCollection:
    """Return bars for the weights as one artist, the largest one coloured; many would be slow."""
    left, right = np.arange(len(weights)) - 0.4, np.arange(len(weights)) + 0.4
    across = np.stack([left, left, right, right], axis=1)
    up = np.stack([0 * weights, weights, weights, 0 * weights], axis=1)
    colors = [MARK if word == weights.argmax() else BAR for word in range(len(weights))]
    return PolyCollection([*np.stack([across, up], axis=2)], facecolors=colors, linewidths=0)


def _longest(tokens: Sequence[str]) -> float:
    """Return the length of the longest label in inches."""
    probe = Drawing()
    texts = [probe.text(0, 0, label(token), fontsize=FONT_SIZE, **PLAIN) for token in set(tokens)]
    set_fonts(probe)
    with ignoring_glyphs():
        return max(text.get_window_extent().width for text in texts) / probe.dpi


def _fit(drawing: Drawing, axes: Axes, width: float, height: float) -> None:
    """Set the size of the drawing so that the axes without labels have this size in inches."""
    set_fonts(drawing)
    with ignoring_glyphs():
        inner, outer = axes.get_window_extent(), axes.get_tightbbox()
    assert outer is not None  # only invisible axes have None
    margin = 2 * PADDING
    drawing.set_size_inches(
        width + (outer.width - inner.width) / drawing.dpi + margin,
        height + (outer.height - inner.height) / drawing.dpi + margin,
    )


def _checked_alpha(hypothesis: Hypothesis) -> np.ndarray:
    alpha = np.asarray(hypothesis.alpha, np.float64)
    expected = (len(hypothesis.tokens), len(hypothesis.source_tokens))
    if alpha.shape != expected:
        raise ValueError(f"alpha has shape {alpha.shape}, but the tokens need {expected}")
    if not alpha.size:
        raise ValueError("nothing to draw: one side of the hypothesis has no tokens, not even EOS")
    return alpha


def _frame(link: Link, rows: int, columns: int) -> Rectangle:
    source, target = link
    if not (0 <= source < columns and 0 <= target < rows):
        raise ValueError(
            f"gold link {source}-{target} lies outside {columns} source and {rows} target tokens"
        )
    return Rectangle((source - 0.42, target - 0.42), 0.84, 0.84, fill=False, ec=MARK, lw=1.4)
