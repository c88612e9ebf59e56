"""Charts: scores by length, accuracy by confidence, lengths, training curves, and means."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from bahdanau_jax.figures.drawing import BAR, BLUE, FAINT, GREEN, PLAIN, QUIET, VERMILION, Drawing

if TYPE_CHECKING:
    from bahdanau_jax.evaluation import ConfidenceBin

LEGEND_WIDTH = 12  # characters an inch in a row of a legend
LINES = (BLUE, VERMILION, GREEN, "#cc79a7", "#56b4e9", "#e69f00", "#000000")
STYLES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

Points = Mapping[float, float]  # length -> score
Metrics = Sequence[Mapping[str, Any]]  # the lines of metrics.jsonl


def bleu_by_length(
    scores: Mapping[str, Points],
    bands: Mapping[str, Mapping[float, tuple[float, float]]] | None = None,
    counts: Points | None = None,
    unit: str = "words",
) -> Drawing:
    """Draw BLEU by sentence length, with a line for each model: the paper's Figure 2.

    `scores` maps a model's name to {length: BLEU}, and `bands` to {length: (low, high)}, its 95 %
    intervals, which are shaded. `counts` has the number of sentences of each length, drawn below.
    `unit` is the unit of length. Raises ValueError where there are no scores.

    >>> bleu_by_length({"RNNsearch-50": {10: 25.0, 20: 27.1}, "RNNenc-50": {10: 22.0, 20: 15.3}})
    """
    if not any(scores.values()):
        raise ValueError("no scores to draw: expected {model: {length: BLEU}}")
    drawing = Drawing(5.2, 3.8)
    if counts:
        axes, below = drawing.subplots(2, 1, sharex=True, height_ratios=(4, 1))
        bars(below, counts)
        below.set_ylabel("sentences", fontsize="small")
    else:
        axes = below = drawing.add_subplot()
    for style, (name, points) in zip(_styles(), scores.items(), strict=False):
        lengths = sorted(points)
        axes.plot(lengths, [points[n] for n in lengths], label=name, **style)
        if edges := (bands or {}).get(name):
            low, high = zip(*(edges[n] for n in lengths), strict=True)
            axes.fill_between(lengths, low, high, color=style["color"], alpha=0.18, linewidth=0)
            # A single point has no area to shade, so lines mark the intervals, too.
            axes.vlines(lengths, low, high, color=style["color"], linewidth=0.8, alpha=0.6)
    below.set_xlabel(f"sentence length ({unit})")
    axes.set(ylabel="BLEU, 95% intervals shaded" if bands else "BLEU")
    axes.set(xlim=(0, None), ylim=(0, None))
    _finish(axes)
    return drawing


def bars(axes: Axes, counts: Points) -> None:
    """Draw the counts as bars with their numbers."""
    places, heights = list(counts), list(counts.values())
    gaps = np.diff(sorted(places))
    width = 0.6 * float(gaps.min()) if len(gaps) else 1.0
    artists = axes.bar(places, heights, width=width, color=BAR)
    axes.bar_label(artists, [f"{n:,}" for n in heights], fontsize="small", padding=1)
    axes.set(yticks=(), ylim=(0, 1.45 * max(heights)))
    bare(axes)
    axes.spines["left"].set_visible(False)


def reliability(bins: Mapping[str, Sequence["ConfidenceBin"]]) -> Drawing:
    """Draw accuracy by confidence; the diagonal is perfect calibration.

    `bins` maps a name to the bins of `calibration.reliability`. The numbers of words in the first
    name's bins are drawn below. Raises ValueError where there are no words.

    >>> reliability({"15 bins": calibration.reliability(confidence, correct)})
    """
    filled = {name: [b for b in own if b.words] for name, own in bins.items()}
    if not any(filled.values()):
        raise ValueError("no predictions to draw: every bin of confidence is empty")
    drawing = Drawing(4.8, 4.6)
    axes, below = drawing.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    axes.plot((0, 1), (0, 1), color=QUIET, linewidth=1, linestyle=":", label="perfect calibration")
    for style, (name, own) in zip(_styles(), filled.items(), strict=False):
        axes.plot([b.confidence for b in own], [b.accuracy for b in own], label=name, **style)
    first = next(iter(bins.values()))
    middles, widths = [(b.low + b.high) / 2 for b in first], [b.high - b.low for b in first]
    below.bar(middles, [b.words for b in first], width=[0.86 * w for w in widths], color=BAR)
    below.set(xlabel="confidence: probability of the word", yscale="log")
    below.set_ylim(0.7, 2 * max(b.words for b in first))
    below.yaxis.set_major_locator(LogLocator(numticks=4))
    below.yaxis.set_minor_formatter(NullFormatter())
    below.set_ylabel("words", fontsize="small")
    bare(below)
    axes.set(ylabel="accuracy", xlim=(0, 1), ylim=(0, 1.02))
    _finish(axes)
    return drawing


def lengths(histograms: Mapping[str, Sequence[tuple[int, float]]]) -> Drawing:
    """Draw the numbers of sentences by their numbers of tokens, with a line for each side.

    `histograms` maps a side's name to [(tokens, sentences), ...]. Raises ValueError where it has no
    lengths.

    >>> lengths({"source": [(3, 10), (4, 25)], "target": [(3, 5), (5, 30)]})
    """
    if not any(histograms.values()):
        raise ValueError("no lengths to draw: expected {side: [[tokens, sentences], ...]}")
    drawing = Drawing(6.4, 3.2)
    axes = drawing.add_subplot()
    for style, (side, histogram) in zip(_styles(), histograms.items(), strict=False):
        counts = {length: count for length, count in histogram}
        tokens = range(max(counts, default=0) + 2)
        style["marker"] = ""
        axes.plot(tokens, [counts.get(n, 0) for n in tokens], label=side, **style)
    axes.set(xlabel="tokens", ylabel="sentences", xlim=(0, None), ylim=(0, None))
    _finish(axes)
    return drawing


def curves(metrics: Metrics | Mapping[str, Metrics]) -> Drawing:
    """Draw training curves over updates.

    `metrics` are the objects of metrics.jsonl, or a mapping of run names to these. One run has a
    panel for all keys with "loss" in them (per token), and one for each other key that starts with
    "dev". Several runs have a panel for each key, with a line for each run. Values that are not
    finite numbers are left out. Raises ValueError where there is nothing to draw.
    """
    named = isinstance(metrics, Mapping)
    runs = metrics if named else {"": metrics}
    lines = itertools.chain.from_iterable(runs.values())
    keys = list(dict.fromkeys(itertools.chain.from_iterable(lines)))
    if named:
        groups = {_text(key): [key] for key in keys if key != "step"}
    else:
        groups = {"loss per token": [key for key in keys if "loss" in key]}
        others = [key for key in keys if key.startswith("dev") and "loss" not in key]
        groups |= {_text(key): [key] for key in others}
    panels = {}
    for name, group in groups.items():
        lines = {run or _text(key): _points(runs[run], key) for key in group for run in runs}
        if any(lines.values()):
            panels[name] = lines
    if not panels:
        raise ValueError("no metrics to draw: expected lines with step, and loss or dev scores")
    drawing = Drawing(6.4, 1 + 2.2 * len(panels))
    grid = drawing.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, lines) in zip(grid, panels.items(), strict=True):
        for style, (label, points) in zip(_styles(), lines.items(), strict=False):
            if points:  # a run without points keeps its style in every panel
                style["marker"] = style["marker"] if len(points) <= 30 else ""
                axes.plot(*zip(*points, strict=True), label=label, **style)
        axes.set_ylabel(name, **PLAIN)
        _finish(axes, len(lines) > 1)
    grid[-1].set_xlabel("updates")
    return drawing


def means(panels: Mapping[str, Mapping[str, Sequence[float]]]) -> Drawing:
    """Draw means with their intervals: a panel for each score, and a row for each name.

    `panels` maps a score to {name: (mean, low, high, *values)}, where the values are those of the
    mean, if given; they are drawn as rings. Ends that are not finite numbers are left out. Raises
    ValueError where there are no means.

    >>> means({"BLEU": {"additive": (31.0, 30.1, 31.9), "dot": (29.5, 28.0, 31.0)}})
    """
    names = list(dict.fromkeys(itertools.chain.from_iterable(panels.values())))
    if not names:
        raise ValueError("no means to draw: expected {score: {name: (mean, low, high)}}")
    drawing = Drawing(1.8 + 2.2 * len(panels), 0.9 + 0.28 * len(names))
    grid = drawing.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (score, rows) in zip(grid, panels.items(), strict=True):
        for name, (mean, low, high, *values) in rows.items():
            place = names.index(name)
            if math.isfinite(low) and math.isfinite(high):
                axes.hlines(place, low, high, color=LINES[0], linewidth=1.5)
            axes.plot(mean, place, color=LINES[0], marker=MARKERS[0], markersize=5)
            ring = {"facecolors": "none", "edgecolors": LINES[1], "linewidths": 0.8}
            axes.scatter(values, [place] * len(values), s=18, zorder=3, **ring)
        axes.set_xlabel(score, **PLAIN)
        axes.set_ylim(len(names) - 0.5, -0.5)  # the first name on top
        axes.grid(axis="x", color=FAINT, linewidth=0.5)
        axes.tick_params(axis="y", length=0)
        bare(axes)
    grid[0].yaxis.set_ticks(range(len(names)), names, **PLAIN)
    return drawing


def _points(metrics: Sequence[Mapping[str, Any]], key: str) -> list[tuple[int, float]]:
    """Return (step, value) of every line that has a finite number under the key."""
    pairs = [(line["step"], line[key]) for line in metrics if "step" in line and key in line]
    return [(n, y) for n, y in pairs if isinstance(y, (int, float)) and math.isfinite(y)]


def _text(key: str) -> str:
    return key.replace("_", " ").replace("/", " ")


def _styles() -> Iterator[dict[str, Any]]:
    """Yield a colour, line style and marker for each line; they also differ in greyscale."""
    for i in itertools.count():
        yield {
            "color": LINES[i % len(LINES)],
            "linestyle": STYLES[i % len(STYLES)],
            "marker": MARKERS[i % len(MARKERS)],
            "markersize": 4,
            "linewidth": 1.5,
            "clip_on": False,
        }


def _finish(axes: Axes, several: bool | None = None) -> None:
    """Remove the box, draw the grid, and add a legend where the axes have several lines.

    `several` overrides the number of lines. A legend of more than three lines stands above the
    axes, where it hides no curve.
    """
    bare(axes)
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
    if len(axes.lines) > 1 if several is None else several:
        labels = [str(line.get_label()) for line in axes.lines]
        width = int(LEGEND_WIDTH * axes.figure.bbox.width / axes.figure.dpi)
        rows = math.ceil(len(labels) / max(1, width // (max(map(len, labels)) + 6)))
        above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "fontsize": "small"}
        above |= {"ncols": math.ceil(len(labels) / rows), "columnspacing": 1.2}
        place = above if len(labels) > 3 else {}
        for text in axes.legend(axes.lines, labels, frameon=False, **place).get_texts():
            text.set(**PLAIN)


def bare(axes: Axes) -> None:
    """Remove the box around the axes, and put the lines in front of the grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
