"""The report as a page and as Markdown: self-contained, escaped, with labelled parts."""

import json
import math
import re
import warnings
from html.parser import HTMLParser
from importlib import resources

import numpy as np
import pytest

from bahdanau_jax import figures
from bahdanau_jax.figures import Drawing, MissingFont
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.report.document import Section, Table, number
from bahdanau_jax.report.examples import Example, Line, Part, marked, most_reordered
from bahdanau_jax.report.page import inline, page
from bahdanau_jax.report.publish import as_json, markdown, publish
from bahdanau_jax.report.run_scores import Baseline, Evaluated
from bahdanau_jax.report.sections import headline, sections

HOSTILE = '<script>alert("x")</script> & | `$x$` http 我爱吃苹果'


class Reader(HTMLParser):
    """Every element with its attributes, and whether the elements close as they opened."""

    VOID = ("meta", "br", "link", "img")

    def __init__(self, text):
        super().__init__()
        self.found, self.open, self.words = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def evaluated(trained):
    """A real report's numbers, with sentences that try to break it."""
    folder = trained[0] / "report"
    scores = json.loads((folder / "scores.json").read_text())
    found = [
        Hypothesis(
            text=f"{HOSTILE} {i}",
            tokens=(*["a", "b", "c", "d", "e", "f", "g"], HOSTILE, "</s>"),
            log_probabilities=(-1.0,) * 9,
            score=-9.0,
            finished=True,
            source_tokens=("x", HOSTILE, "</s>"),
            alpha=np.random.default_rng(i).dirichlet(np.ones(3), 9).astype(np.float32),
        )
        for i in range(12)
    ]
    texts = [HOSTILE] * 12
    metrics = {
        name: dict(
            baseline=1.0,
            difference=-0.5,
            interval=[-1, 0.2],
            wins=0.25,
            p_bootstrap=0.2,
            p_randomization=0.1,
        )
        for name in scores["intervals"]
    }
    for part in ("lengths", "repetition"):
        scores[part]["baseline"] = scores[part]["output"]
    scores["by-length"]["baseline"] = scores["by-length"]["output"]
    scores["comparison"] = {"baseline": HOSTILE, "metrics": metrics}
    return Evaluated(texts, texts, found, Baseline(HOSTILE, texts), scores)


@pytest.fixture(scope="module")
def folder(evaluated, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingFont)  # this machine may lack one
        publish(folder, HOSTILE, HOSTILE, evaluated.scores, sections(evaluated))
    return folder


def test_the_page_needs_nothing_from_outside(folder):
    text = (folder / "index.html").read_text()
    read = Reader(text)
    assert not read.open
    tags = {tag for tag, _ in read.found}
    assert not tags & {"script", "link", "img", "iframe", "object"}
    for tag, attributes in read.found:
        for name in ("href", "src", "xlink:href"):
            if name in attributes:
                assert attributes[name].startswith(("#", "data:image/png")), tag
    assert "://" not in text and "@import" not in text
    assert not re.findall(r"url\((?!#)", text)


def test_the_page_can_be_read_by_all(folder):
    found = Reader((folder / "index.html").read_text()).found
    ids = [attributes["id"] for _, attributes in found if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in found:
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in ids
        for target in re.findall(r"url\(#(.*?)\)", " ".join(map(str, attributes.values()))):
            assert target in ids
        if "aria-labelledby" in attributes:
            assert attributes["aria-labelledby"] in ids
    pictures = [attributes for tag, attributes in found if tag == "svg"]
    assert len(pictures) == 3
    assert all(one["role"] == "img" and one["aria-label"] for one in pictures)
    assert dict(found)["html"] == {"lang": "en"}
    assert sum(tag == "h1" for tag, _ in found) == 1
    assert all(attributes["scope"] for tag, attributes in found if tag == "th")


def test_what_the_user_wrote_is_shown_and_never_run(folder):
    text = (folder / "index.html").read_text()
    assert "<script" not in text and "alert(&quot;x&quot;)" in text
    assert HOSTILE in " ".join(Reader(text).words)
    lines = (folder / "report.md").read_text()
    assert "<script" not in lines.replace("\\<script", "") and "我爱吃苹果" in lines


def test_every_row_of_a_table_has_as_many_cells(evaluated):
    for part in sections(evaluated):
        for table in part.tables:
            assert {len(row) for row in table.rows} == {len(table.header)}, part.title


def test_a_table_that_is_wider_than_a_phone_says_so(folder):
    """A shade at the edge shows it, made of backgrounds that scroll and that stay."""
    text = (folder / "index.html").read_text()
    style = text[text.index(".scroll {") :]
    style = style[: style.index("}")]
    assert "overflow-x: auto" in style and "local" in style and "var(--shade)" in style
    assert "white-space: nowrap" not in re.search(r"tbody th \{.*?\}", text)[0]


def test_columns_of_text_and_of_numbers(evaluated):
    rows = [("AER", "0.209", "alignment error rate against the gold links")]
    table = Table(("measure", "value", "what it is"), rows)
    text = page("t", "s", [], [Section("Part", tables=(table,))])
    assert '<th scope="col" class="text">what it is</th>' in text
    assert '<td>0.209</td><td class="text">alignment error' in text


def test_every_score_of_whole_sequences_is_explained(evaluated):
    tables = sections(evaluated)[0].tables
    (words,) = [dict((row[0], row[2]) for row in table.rows) for table in tables[-1:]]
    assert set(words) == {"exact"} | {
        f"{n}{k}" for n in ("PSA", "LCSR", "GeoMean") for k in ("", "-seed")
    }
    assert all(words.values())


def test_what_differs_from_the_reference_is_marked():
    assert marked("a big house", "a house") == [("a ", False), ("big", True), (" house", False)]
    assert marked("la nouvelle maison", "le nouvel an") == [("la nouvelle maison", True)]
    assert marked("我爱吃梨", "我爱吃苹果") == [("我爱吃", False), ("梨", True)]
    assert marked("a  b", "a b") == [("a  b", False)]
    assert marked("", "a") == [] and marked("a", "") == [("a", True)]


def test_marks_are_shown_without_colour_and_escaped():
    lines = [Line("this model", [Part("<i>a</i> "), Part("<b>*", True)]), Line("baseline", [])]
    part = Section("Part", examples=(Example("Line 1", lines),))
    text = page("t", "s", [], [part])
    assert (
        "&lt;i&gt;a&lt;/i&gt; <mark>&lt;b&gt;*</mark>" in text and '<dd dir="auto">&nbsp;' in text
    )
    style = re.search(r"^mark \{.*?\}", text, re.S | re.M)[0]
    assert "underline" in style and "font-weight" in style
    assert 'mark::before { content: " [differs: "; }' in text
    assert "- this model: \\<i\\>a\\</i\\> **\\<b\\>\\***" in list(markdown("t", "s", [part]))


def test_the_page_has_its_own_colour_for_each_of_the_pictures():
    style = (resources.files("bahdanau_jax.report") / "page.css").read_text()
    for name in figures.PALETTE:
        assert f"--{name}: #" in style, name


def test_colours_follow_the_page(folder):
    text = (folder / "index.html").read_text()
    drawn = text[text.index("<svg") : text.rindex("</svg>")]
    assert "var(--blue)" in drawn and "#0072b2" not in drawn and "#000000" not in drawn


def test_an_inline_picture_keeps_its_size_and_text(evaluated):
    picture = sections(evaluated)[1].pictures[0]
    svg = inline(picture.figure, "by", 'a "label"')
    assert svg.startswith("<svg viewBox=") and 'aria-label="a &quot;label&quot;"' in svg
    assert "sentence length (words)" in svg and 'id="by-' in svg


def test_the_text_of_a_picture_is_shown_as_it_is():
    texts = ['#000000 id="a" url(#b) xlink:href="#c"', "#0072B2", "a > #d9d9d9"]
    figure = Drawing()
    for row, text in enumerate(texts):
        figure.text(0, row / 3, text, color="#000000")
    read = Reader(inline(figure, "by", "of #000000"))
    assert set(texts) <= set(read.words) and read.found[0][1]["aria-label"] == "of #000000"


def test_the_picture_is_of_the_most_reordered_translation():
    def found(positions, finished=True):
        tokens = tuple("abcdefghij"[: len(positions) - 1]) + ("</s>",)
        alpha = np.eye(10, dtype=np.float32)[list(positions)]
        return Hypothesis("", tokens, (), 0.0, finished, (), alpha)

    one, monotone, turned = found([0]), found([0, 1, 2, 3]), found([2, 1, 0, 3])
    straight, readable = found(range(10)), found([1, 0, *range(2, 10)])
    unfinished = found([9, 0, *range(1, 9)], finished=False)
    assert most_reordered([one, monotone, turned, unfinished]) is unfinished
    assert most_reordered([one, monotone, turned]) is turned
    assert most_reordered([turned, unfinished, straight, readable, monotone]) is readable
    assert most_reordered([]) is None


def test_json_has_null_for_what_is_no_number():
    scores = {"a": math.nan, "b": [1.0, math.inf], "c": {"d": (math.nan, True)}, "e": "é"}
    assert json.loads(as_json(scores)) == {
        "a": None,
        "b": [1, None],
        "c": {"d": [None, True]},
        "e": "é",
    }
    assert number(math.nan) == number(None) == "–"


def test_markdown_tables():
    part = Section(
        "Part", "One | two", (Table(("name", "value"), [("a|b", "1"), ("&lt; & c\r\nd", "2")]),)
    )
    lines = list(markdown("Title", "what", [part]))
    assert "| \\&lt; & c d | 2 |" in lines
    assert lines[:3] == ["# Title", "", "what"]
    assert "| name | value |" in lines and "|---|---:|" in lines and "| a\\|b | 1 |" in lines


def test_a_report_without_numbers_still_reads(evaluated):
    """Where nothing could be scored, every number is a dash."""

    def emptied(value):
        if isinstance(value, dict):
            return {name: emptied(one) for name, one in value.items()}
        if isinstance(value, list):
            return [emptied(one) for one in value]
        return None if isinstance(value, float) else value

    scores = emptied(evaluated.scores) | {"by-length": evaluated.scores["by-length"]}
    scores["calibration"]["words"] = scores["calibration"]["output"]["words"] = 0
    parts = sections(
        Evaluated(
            ["a"],
            [""],
            [evaluated.hypotheses[0]],
            None,
            scores | {"intervals": {name: [None, None] for name in scores["intervals"]}},
        )
    )
    assert "<td>–</td>" in page("t", "s", headline(scores), parts)
