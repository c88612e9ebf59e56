"""Pictures of numbers: scores by length, confidence against accuracy, curves of training.

`figures` gives them away.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from bahdanau_jax.evaluation import ConfidenceBin
from bahdanau_jax.figures.drawing import PLAIN, Drawing

FAINT = "#d9d9d9"  # lines behind and between what is drawn
QUIET = "#767676"  # what stands beside the lines that matter
BAR = "#9fb3c8"
MARK = "#d55e00"  # gold links and largest weights; the colours are Okabe and Ito's
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
STYLES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

Points = Mapping[float, float]  # length -> score
Metrics = Sequence[Mapping[str, Any]]


def bleu_by_length(
    scores: Mapping[str, Points],
    bands: Mapping[str, Mapping[float, tuple[float, float]]] | None = None,
    counts: Points | None = None,
    unit: str = "words",
) -> Drawing:
    """BLEU against sentence length, a line a model: the paper's Figure 2.

    `scores` maps a model's name to {length: BLEU}; `bands`, if any, to {length: (low, high)}, its
    95 % intervals, which are shaded; `counts` has the sentences behind each point, drawn below;
    `unit` is what lengths count. Raises ValueError where there are no scores.

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
    for look, (name, points) in zip(_looks(), scores.items(), strict=False):
        lengths = sorted(points)
        axes.plot(lengths, [points[n] for n in lengths], label=name, **look)
        if edges := (bands or {}).get(name):
            low, high = zip(*(edges[n] for n in lengths), strict=True)
            axes.fill_between(lengths, low, high, color=look["color"], alpha=0.18, linewidth=0)
            # A single point has no area: its interval is a line.
            axes.vlines(lengths, low, high, color=look["color"], linewidth=0.8, alpha=0.6)
    below.set_xlabel(f"sentence length ({unit})")
    axes.set(ylabel="BLEU, 95% intervals shaded" if bands else "BLEU")
    axes.set(xlim=(0, None), ylim=(0, None))
    _finish(axes)
    return drawing


def bars(axes: Axes, counts: Points) -> None:
    """How many stand behind each point, with the number at the bar."""
    places, heights = list(counts), list(counts.values())
    gaps = np.diff(sorted(places))
    width = 0.6 * float(gaps.min()) if len(gaps) else 1.0
    drawn = axes.bar(places, heights, width=width, color=BAR)
    axes.bar_label(drawn, [f"{n:,}" for n in heights], fontsize="small", padding=1)
    axes.set(yticks=(), ylim=(0, 1.45 * max(heights)))
    bare(axes)
    axes.spines["left"].set_visible(False)


def reliability(bins: Mapping[str, Sequence[ConfidenceBin]]) -> Drawing:
    """Accuracy against confidence: on the diagonal, a model is right as often as it is sure.

    `bins` maps a name to the bins of `calibration.reliability`; the words of the first one's bins
    are drawn below. Raises ValueError where there are no words.

    >>> reliability({"15 bins": calibration.reliability(confidence, correct)})
    """
    filled = {name: [b for b in some if b.words] for name, some in bins.items()}
    if not any(filled.values()):
        raise ValueError("no predictions to draw: every bin of confidence is empty")
    drawing = Drawing(4.8, 4.6)
    axes, below = drawing.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    axes.plot((0, 1), (0, 1), color=QUIET, linewidth=1, linestyle=":", label="as sure as right")
    for look, (name, some) in zip(_looks(), filled.items(), strict=False):
        axes.plot([b.confidence for b in some], [b.accuracy for b in some], label=name, **look)
    first = next(iter(bins.values()))
    middles, widths = [(b.low + b.high) / 2 for b in first], [b.high - b.low for b in first]
    below.bar(middles, [b.words for b in first], width=[0.86 * w for w in widths], color=BAR)
    below.set(xlabel="confidence: probability of the likeliest word", yscale="log")
    below.set_ylim(0.7, 2 * max(b.words for b in first))
    below.yaxis.set_major_locator(LogLocator(numticks=4))
    below.yaxis.set_minor_formatter(NullFormatter())
    below.set_ylabel("words", fontsize="small")
    bare(below)
    axes.set(ylabel="accuracy", xlim=(0, 1), ylim=(0, 1.02))
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


def curves(metrics: Metrics | Mapping[str, Metrics]) -> Drawing:
    """Training curves over updates: losses in one panel, each dev score in a panel below.

    `metrics` are the objects of metrics.jsonl: "step", and on some lines keys with "loss" in them
    (per token) and other keys that start with "dev". Values that are no finite number are left
    out. Of runs by name, each key has a panel, and each run a line in it. Raises
    ValueError where there is nothing to draw.
    """
    named = isinstance(metrics, Mapping)
    runs = metrics if named else {"": metrics}
    lines = itertools.chain.from_iterable(runs.values())
    keys = list(dict.fromkeys(itertools.chain.from_iterable(lines)))
    if named:
        groups = {_words(key): [key] for key in keys if key != "step"}
    else:
        groups = {"loss per token": [key for key in keys if "loss" in key]}
        others = [key for key in keys if key.startswith("dev") and "loss" not in key]
        groups |= {_words(key): [key] for key in others}
    panels = {}
    for name, group in groups.items():
        lines = {run or _words(key): _points(runs[run], key) for key in group for run in runs}
        if any(lines.values()):
            panels[name] = lines
    if not panels:
        raise ValueError("no metrics to draw: expected lines with step, and loss or dev scores")
    drawing = Drawing(6.4, 1 + 2.2 * len(panels))
    grid = drawing.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, lines) in zip(grid, panels.items(), strict=True):
        for look, (label, points) in zip(_looks(), lines.items(), strict=False):
            if points:  # of a run without them, the look is left out, too
                look["marker"] = look["marker"] if len(points) <= 30 else ""
                axes.plot(*zip(*points, strict=True), label=label, **look)
        axes.set_ylabel(name, **PLAIN)
        _finish(axes, len(lines) > 1)
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


def _finish(axes: Axes, several: bool | None = None) -> None:
    """No box around the lines, and a legend where there are several, here or beside it."""
    bare(axes)
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
    if len(axes.lines) > 1 if several is None else several:
        labels = [str(line.get_label()) for line in axes.lines]
        for text in axes.legend(axes.lines, labels, frameon=False).get_texts():
            text.set(**PLAIN)


def bare(axes: Axes) -> None:
    """No box around the drawing, and its lines in front of the grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
