"""Figures: the places of their marks, text of any script, and files of equal bytes."""

import io
import re
import sys
import warnings

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bahdanau_jax import figures
from bahdanau_jax.evaluation.calibration import ConfidenceBin
from bahdanau_jax.figures import MissingFont, drawing
from bahdanau_jax.hypothesis import Hypothesis


def translation(source, target, alpha=None):
    """A hypothesis of these tokens; by default its weights are random."""
    if alpha is None:
        alpha = np.random.default_rng(3).dirichlet(np.ones(len(source)), len(target))
    return Hypothesis(
        text=" ".join(target),
        tokens=tuple(target),
        log_probabilities=(-0.5,) * len(target),
        score=-0.5 * len(target),
        finished=True,
        source_tokens=tuple(source),
        alpha=np.asarray(alpha, np.float32),
    )


def rendered(figure, kind="png"):
    target = io.BytesIO()
    figure.savefig(target, format=kind)
    return target.getvalue()


def svg_texts(figure):
    svg = rendered(figure, "svg").decode()
    return [
        re.sub(r"&lt;", "<", t).replace("&gt;", ">") for t in re.findall(r">([^<]*)</text>", svg)
    ]


def shown(labels):
    return [text.get_text() for text in labels]


def pixels(figure):
    """The picture as [row, column] of greys from 0 black to 1 white, row 0 on top."""
    image = matplotlib.image.imread(io.BytesIO(rendered(figure)))
    return image[..., :3].mean(axis=-1)


def at(figure, axes, x, y):
    """Indices (row, column) into `pixels` of a point in data coordinates."""
    column, from_bottom = axes.transData.transform((x, y))
    return int(figure.bbox.height - from_bottom), int(column)


SOURCE, TARGET = ["the", "red", "house", "</s>"], ["la", "maison", "rouge", ".", "</s>"]
WEIGHTS = np.zeros((5, 4))
WEIGHTS[[0, 1, 2, 3, 4], [0, 2, 1, 3, 3]] = 1
WEIGHTS[3] = [0, 0, 0.5, 0.5]
MATRIX = translation(SOURCE, TARGET, WEIGHTS)


def test_target_goes_down_and_source_across():
    axes = figures.alignment(MATRIX).axes[0]
    assert shown(axes.get_xticklabels()) == SOURCE
    assert shown(axes.get_yticklabels()) == TARGET
    np.testing.assert_array_equal(axes.images[0].get_array(), WEIGHTS)
    assert axes.xaxis.get_ticks_position() == "top"


def test_every_cell_has_its_grey_beside_its_own_labels():
    figure = figures.alignment(MATRIX)
    image, axes = pixels(figure), figure.axes[0]
    for i, j in np.ndindex(WEIGHTS.shape):
        # A quarter off the centre each way: still inside the cell, if nothing is shifted.
        for dx, dy in ((-0.25, -0.25), (0.25, 0.25)):
            grey = image[at(figure, axes, j + dx, i + dy)]
            assert grey == pytest.approx(1 - WEIGHTS[i, j], abs=0.01), (i, j)
    tops = [text.get_window_extent() for text in axes.get_xticklabels()]
    sides = [text.get_window_extent() for text in axes.get_yticklabels()]
    for j, box in enumerate(tops):
        assert (box.x0 + box.x1) / 2 == pytest.approx(axes.transData.transform((j, 0))[0], abs=3)
        assert box.y0 > axes.bbox.y1
    for i, box in enumerate(sides):
        assert (box.y0 + box.y1) / 2 == pytest.approx(axes.transData.transform((0, i))[1], abs=6)
        assert box.x1 < axes.bbox.x0
    assert sides[0].y0 > sides[-1].y1, "the first target word is on top"


@pytest.mark.parametrize(
    ("words", "outputs"),
    [(1, 1), (60, 1), (1, 60), (7, 5), pytest.param(60, 60, marks=pytest.mark.slow)],
)
def test_labels_are_whole_apart_and_of_one_size(words, outputs):
    names = ["a", "parliament", ",", "antidisestablishmentarianism", "▁sub"]
    hypothesis = translation(
        [names[j % 5] for j in range(words)], [names[i % 4] for i in range(outputs)]
    )
    figure = figures.alignment(hypothesis)
    assert rendered(figure).startswith(b"\x89PNG")
    axes = figure.axes[0]
    cell_width, cell_height = axes.bbox.width / words, axes.bbox.height / outputs
    assert cell_width == pytest.approx(cell_height, rel=0.05), "cells are square"
    for labels, start, end in (
        (axes.get_xticklabels(), "x0", "x1"),
        (axes.get_yticklabels()[::-1], "y0", "y1"),
    ):
        assert {text.get_fontsize() for text in labels} == {10}
        boxes = [text.get_window_extent() for text in labels]
        for box in boxes:
            assert min(box.x0, box.y0) > 0
            assert box.x1 < figure.bbox.x1 and box.y1 < figure.bbox.y1
        for left, right in zip(boxes, boxes[1:], strict=False):
            assert getattr(left, end) <= getattr(right, start) + 1


@pytest.mark.slow
def test_a_huge_matrix_is_no_larger_and_has_a_label_for_every_so_manyth_token():
    source, target = [f"{j}" for j in range(601)], [f"{i}" for i in range(364)]
    figure = figures.alignment(translation(source, target), gold=[(600, 363)])
    axes = figure.axes[0]
    assert max(figure.get_size_inches()) < 22
    assert axes.images[0].get_array().shape == (364, 601)
    for axis, tokens in ((axes.xaxis, source), (axes.yaxis, target)):
        labels, places = shown(axis.get_ticklabels()), axis.get_ticklocs()
        assert labels == [tokens[int(place)] for place in places] == tokens[::8]
    # So that it takes seconds, not minutes: no tick or line for each token.
    assert len(figure.findobj()) < 3000
    assert len(rendered(figure, "svg")) < 500_000


def test_gold_links_are_outlined_where_they_belong():
    figure = figures.alignment(MATRIX, gold={(2, 1), (3, 4)})
    axes = figure.axes[0]
    boxes = {tuple(np.round(patch.get_bbox().bounds, 2)) for patch in axes.patches}
    assert boxes == {(1.58, 0.58, 0.84, 0.84), (2.58, 3.58, 0.84, 0.84)}
    assert not any(patch.get_fill() for patch in axes.patches)
    for link in [(4, 0), (0, 5), (-1, 0)]:
        with pytest.raises(ValueError, match=f"gold link {link[0]}-{link[1]} .*4 source and 5"):
            figures.alignment(MATRIX, gold=[link])


@pytest.mark.parametrize("picture", [figures.alignment, figures.steps])
def test_alpha_must_fit_the_tokens(picture):
    with pytest.raises(ValueError, match=r"\(5, 4\).*\(4, 5\)"):
        picture(translation(TARGET, SOURCE, WEIGHTS))
    with pytest.raises(ValueError, match="nothing to draw"):
        picture(translation(SOURCE, [], np.zeros((0, 4))))


SCRIPTS = ["我爱吃苹果", "التفاح", "яблоки", "économique", "ελληνικά"]


def test_svg_keeps_every_script_as_text_and_says_nothing():
    hypothesis = translation([*"我爱吃苹果", "</s>"], [*SCRIPTS, "</s>"])
    for picture in (figures.alignment, figures.steps):
        texts = svg_texts(picture(hypothesis))
        for token in (*hypothesis.tokens, *hypothesis.source_tokens):
            assert token in texts


def test_dollars_and_backslashes_are_drawn_as_they_are():
    tokens = ["$x$", "\\frac", "$", "\\$", "a_b^c", "${", "<unk>"]
    hypothesis = translation(tokens, tokens[::-1])
    for picture in (figures.alignment, figures.steps):
        texts = svg_texts(picture(hypothesis))
        assert set(tokens) <= set(texts)
        rendered(picture(hypothesis))
    texts = svg_texts(figures.bleu_by_length({"$x$": {1: 2}, "$_{": {1: 3}}))
    assert {"$x$", "$_{"} <= set(texts)


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("", "␣"),
        (" ", "␣"),
        ("\u3000", "␣"),
        ("a b", "a␣b"),
        ("a\nb\x00", "a�b�"),
        ("\ud800", "�"),
        ("x" * 31, "x" * 29 + "…"),
        ("x" * 30, "x" * 30),
    ],
)
def test_labels_can_always_be_drawn(token, expected):
    assert drawing.label(token) == expected


@settings(max_examples=8, deadline=None)
@given(st.lists(st.text(max_size=4), min_size=1, max_size=3))
def test_any_text_can_be_drawn(tokens):
    figure = figures.alignment(translation(tokens, tokens))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingFont)
        rendered(figure)
    rendered(figure, "svg").decode("utf-8")


def hide_fonts(monkeypatch, *families):
    monkeypatch.setattr(drawing, "FONTS", families)
    monkeypatch.setitem(matplotlib.rcParams, "font.sans-serif", list(families))


def test_a_missing_script_is_named_in_one_line_and_the_png_is_made(monkeypatch, tmp_path):
    hide_fonts(monkeypatch, "DejaVu Sans")
    hypothesis = translation([*"我爱吃苹果", "</s>"], ["I", "हिन्दी", "</s>"])
    figure = figures.alignment(hypothesis)
    with pytest.warns() as caught:
        figures.save(figure, tmp_path / "zh.png")
    assert [warning.category for warning in caught] == [MissingFont]
    message = str(caught[0].message)
    assert "\n" not in message and "CJK" in message and "DEVANAGARI" in message
    assert "我" in message
    assert matplotlib.image.imread(tmp_path / "zh.png").shape[0] > 100
    figures.save(figure, tmp_path / "zh.svg")  # no warning: warnings are errors here


def test_fonts_are_chosen_by_the_characters_they_have(monkeypatch):
    # Computer Modern has Latin letters alone; DejaVu has Cyrillic too.
    hide_fonts(monkeypatch, "Not Installed", "cmss10", "DejaVu Sans")
    figure = figures.alignment(translation(["ab"], ["яблоки"]))
    families = [text.get_fontfamily() for text in figure.axes[0].get_yticklabels()]
    assert families == [["cmss10", "DejaVu Sans"]]
    rendered(figure)
    hide_fonts(monkeypatch, "cmss10")
    figure = figures.alignment(translation(["ab"], ["яблоки"]))
    with pytest.warns(MissingFont, match="CYRILLIC"):
        rendered(figure)


@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
def test_files_are_the_same_bytes_each_time(kind, monkeypatch):
    first = rendered(figures.alignment(MATRIX, gold=[(0, 0)]), kind)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")  # what would show in a date
    assert rendered(figures.alignment(MATRIX, gold=[(0, 0)]), kind) == first


def test_save_writes_what_savefig_does_and_knows_its_formats(tmp_path):
    figure = figures.alignment(MATRIX)
    figures.save(figure, tmp_path / "report" / "a.SVG")
    figure.savefig(tmp_path / "b.svg")
    assert (tmp_path / "report" / "a.SVG").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert b"<text" in (tmp_path / "b.svg").read_bytes()
    figures.save(figure, tmp_path / "a.pdf")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(ValueError, match=r"a\.txt.*\.png, \.svg, \.pdf"):
        figures.save(figure, tmp_path / "a.txt")
    with pytest.raises(OSError):
        figures.save(figure, tmp_path / "b.svg" / "c.png")


def test_steps_has_a_bar_chart_for_each_output_word():
    figure = figures.steps(MATRIX)
    assert [axes.get_title(loc="left") for axes in figure.axes] == TARGET
    for axes, weights in zip(figure.axes, WEIGHTS, strict=True):
        (bars,) = axes.collections  # one artist for all: an artist for each is slow
        corners = np.array([path.vertices for path in bars.get_paths()])
        assert list(corners[..., 1].max(axis=1)) == list(weights)
        assert [round(x) for x in corners[:, :4, 0].mean(axis=1)] == [0, 1, 2, 3]
        marked = (bars.get_facecolors() == matplotlib.colors.to_rgba(drawing.VERMILION)).all(axis=1)
        assert list(marked) == [word == weights.argmax() for word in range(4)]
        assert axes.get_ylim() == (0, 1)
    labelled = [shown(axes.get_xticklabels()) for axes in figure.axes]
    columns = sum(map(bool, labelled))
    assert labelled[-columns:] == [SOURCE] * columns
    rendered(figure)


@pytest.mark.parametrize(("words", "outputs"), [(1, 1), (30, 1), (1, 30), (2, 3)])
def test_steps_has_room_for_any_shape(words, outputs):
    long = ["antidisestablishmentarianism" * 2, "W" * 40, "。" * 40]
    rendered(figures.steps(translation((long * words)[:words], (long * outputs)[:outputs])), "svg")


def test_steps_of_a_long_sentence_are_refused():
    for words, outputs in ((300, 2), (2, 300)):
        with pytest.raises(ValueError, match=f"{outputs} output and {words} source tokens: draw "):
            figures.steps(translation(["a"] * words, ["b"] * outputs))


def test_bleu_by_length_draws_each_model_in_the_order_of_length():
    scores = {"RNNsearch": {20: 27.0, 10: 25.0, 50: 26.5}, "RNNenc": {10: 22.0, 50: 5.0}}
    figure = figures.bleu_by_length(scores)
    lines = figure.axes[0].lines
    assert [list(line.get_xdata()) for line in lines] == [[10, 20, 50], [10, 50]]
    assert [list(line.get_ydata()) for line in lines] == [[25, 27, 26.5], [22, 5]]
    assert shown(figure.axes[0].get_legend().get_texts()) == list(scores)
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 2
    rendered(figure)
    with pytest.raises(ValueError, match="no scores"):
        figures.bleu_by_length({"RNNsearch": {}})


def test_a_legend_of_four_lines_stands_above_the_curves(tmp_path):
    figure = figures.bleu_by_length({f"RNNencdec-{n}0": {10: 30 + n, 20: 5} for n in range(4)})
    figure.savefig(tmp_path / "figure.png")  # places the legend
    axes = figure.axes[0]
    legend, curves = axes.get_legend().get_window_extent(), axes.get_window_extent()
    assert legend.y0 >= curves.y1 and legend.y1 <= figure.bbox.y1
    assert figure.bbox.x0 <= legend.x0 and legend.x1 <= figure.bbox.x1


def test_bleu_by_length_shades_intervals_and_counts_sentences():
    scores = {"ours": {4.5: 30.0, 12: 20.0}, "theirs": {4.5: 25.0}}
    bands = {"ours": {12: (15.0, 22.0), 4.5: (28.0, 35.0)}, "theirs": {4.5: (25.0, 25.0)}}
    figure = figures.bleu_by_length(scores, bands, {4.5: 1200, 12: 7}, unit="characters")
    above, below = figure.axes
    shades = [s.get_datalim(above.transData).extents.tolist() for s in above.collections]
    assert [4.5, 15, 12, 35] in shades and [4.5, 25, 4.5, 25] in shades
    assert [bar.get_height() for bar in below.patches] == [1200, 7]
    assert shown(below.texts) == ["1,200", "7"]
    assert below.get_xlabel() == "sentence length (characters)"
    rendered(figure)


def test_alignments_draws_the_matrices_of_models_beside_each_other():
    one = translation(["a", "b", "."], ["x", "."])
    other = translation(["a", "b", "."], ["$y$", "z", "."])
    figure = figures.alignments({"fixed": one, "$attention$": other})
    assert shown(axes.title for axes in figure.axes) == ["fixed", "$attention$"]
    for axes, each in zip(figure.axes, (one, other), strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), each.alpha)
        assert axes.images[0].get_clim() == (0, 1)
        assert shown(axes.get_yticklabels()) == list(each.tokens)
    left, right = (axes.get_position() for axes in figure.axes)
    rendered(figure)
    assert left.x1 < right.x0
    with pytest.raises(ValueError, match="no translations"):
        figures.alignments({})


def test_means_draws_a_panel_for_each_score_and_an_interval_for_each_name():
    nan = float("nan")
    panels = {
        "BLEU": {"dot": (30.0, 28.0, 32.0, 29.0, 31.0), "$x$": (20.0, nan, nan)},
        "AER": {"$x$": (1, 0, 2)},
    }
    figure = figures.means(panels)
    bleu, aer = figure.axes
    assert [(*line.get_xdata(), *line.get_ydata()) for line in bleu.lines] == [(30, 0), (20, 1)]
    [interval, rings, no_rings] = bleu.collections
    assert interval.get_segments()[0].tolist() == [[28, 0], [32, 0]]
    assert rings.get_offsets().tolist() == [[29, 0], [31, 0]]
    assert len(no_rings.get_offsets()) == 0
    assert [(*line.get_xdata(), *line.get_ydata()) for line in aer.lines] == [(1, 1)]
    assert shown(bleu.get_yticklabels()) == ["dot", "$x$"]
    assert (bleu.get_xlabel(), aer.get_xlabel()) == ("BLEU", "AER")
    rendered(figure)
    with pytest.raises(ValueError, match="no means"):
        figures.means({"BLEU": {}})


def test_reliability_draws_filled_bins_against_the_diagonal():
    bins = [
        ConfidenceBin(0.0, 0.5, 0, None, None),
        ConfidenceBin(0.5, 0.75, 4, 0.6, 0.25),
        ConfidenceBin(0.75, 1.0, 400, 0.9, 0.95),
    ]
    figure = figures.reliability({"three": bins})
    diagonal, line = figure.axes[0].lines
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0, 1]
    assert list(line.get_xdata()) == [0.6, 0.9] and list(line.get_ydata()) == [0.25, 0.95]
    assert [bar.get_height() for bar in figure.axes[1].patches] == [0, 4, 400]
    rendered(figure)
    with pytest.raises(ValueError, match="every bin of confidence is empty"):
        figures.reliability({"none": bins[:1]})


@pytest.mark.parametrize("most", [1, 630, 8_000, 40_000_000])
def test_numbers_of_words_stand_apart(most):
    bins = [ConfidenceBin(0.0, 0.5, max(1, most // 12), 0.3, 0.4)]
    figure = figures.reliability({"two": [*bins, ConfidenceBin(0.5, 1.0, most, 0.9, 0.95)]})
    rendered(figure)
    below = figure.axes[1]
    low, high = below.get_ylim()
    ticks = [*below.yaxis.get_major_ticks(), *below.yaxis.get_minor_ticks()]
    shown = [tick.label1 for tick in ticks if low <= tick.get_loc() <= high]
    boxes = sorted((t.get_window_extent() for t in shown if t.get_text()), key=lambda box: box.y0)
    assert boxes
    for lower, upper in zip(boxes, boxes[1:], strict=False):
        assert lower.y1 <= upper.y0 + 1


def test_curves_draws_losses_together_and_each_dev_score_apart():
    metrics = [
        {"step": 10, "loss": 5.0, "seconds": 1.0},
        {"step": 20, "loss": float("nan"), "seconds": 2.0},
        {"step": 20, "dev_loss": 4.0, "dev_bleu": 11.0, "dev_note": None, "dev_tag": "x"},
        {"step": 30, "loss": 3.0, "seconds": 3.0},
    ]
    figure = figures.curves(metrics)
    drawn = {
        axes.get_ylabel(): [(list(x.get_xdata()), list(x.get_ydata())) for x in axes.lines]
        for axes in figure.axes
    }
    assert drawn == {
        "loss per token": [([10, 30], [5.0, 3.0]), ([20], [4.0])],
        "dev bleu": [([20], [11.0])],
    }
    rendered(figure)
    with pytest.raises(ValueError, match="no metrics"):
        figures.curves([{"step": 1}])


@pytest.mark.parametrize("names", [["a"], ["a", "b"]])
def test_curves_of_named_runs_have_a_panel_a_score_and_a_line_a_run(names):
    metrics = [{"step": 10, "loss": 5.0}, {"step": 20, "dev_loss": 4.0, "dev_bleu": 11.0}]
    figure = figures.curves(dict.fromkeys(names, metrics))
    drawn = {
        axes.get_ylabel(): [(x.get_label(), list(x.get_ydata())) for x in axes.lines]
        for axes in figure.axes
    }
    each = {"loss": 5.0, "dev loss": 4.0, "dev bleu": 11.0}
    assert drawn == {key: [(name, [value]) for name in names] for key, value in each.items()}
    rendered(figure)


def test_a_run_has_one_look_in_all_panels_and_its_name_beside_it():
    metrics = [{"step": 10, "loss": 5.0, "gradient_norm": 1.0}]
    figure = figures.curves({"_a": metrics, "b": [*metrics, {"step": 20, "dev_bleu": 3.0}]})
    assert [axes.get_ylabel() for axes in figure.axes] == ["loss", "gradient norm", "dev bleu"]
    loss, _, bleu = figure.axes
    assert bleu.lines[0].get_color() == loss.lines[1].get_color() != loss.lines[0].get_color()
    legends = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in figure.axes]
    assert legends == [["_a", "b"], ["_a", "b"], ["b"]]
    rendered(figure)


def test_no_pyplot_is_imported_for_a_figure():
    assert "matplotlib.pyplot" not in sys.modules


def test_script_names_are_unicodes():
    assert drawing._script("我") == "CJK" and drawing._script("ह") == "DEVANAGARI"
    assert drawing._script("😀") == "symbols"
    assert drawing._script("\ue000") == "unnamed"


def test_a_failure_leaves_the_earlier_picture(tmp_path, monkeypatch):
    (tmp_path / "shared").write_text("earlier")
    (tmp_path / "a.svg").symlink_to("shared")
    figure = figures.Drawing()

    def full(figure, target, **kwargs):
        with open(target, "w") as file:
            file.write("half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(drawing.Figure, "savefig", full)
        with pytest.raises(OSError, match="No space left"):
            figures.save(figure, tmp_path / "a.svg")
    assert (tmp_path / "shared").read_text() == "earlier" and len([*tmp_path.iterdir()]) == 2
    figures.save(figure, tmp_path / "a.svg")
    assert "<svg" in (tmp_path / "shared").read_text()
