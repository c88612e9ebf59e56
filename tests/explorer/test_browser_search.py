"""Beam search and recorded searches against `Run.translate`."""

import dataclasses
import re
from importlib import resources

import numpy as np
import pytest

from bahdanau_jax.config import DecodingConfig
from bahdanau_jax.experiments import interventions, translate
from bahdanau_jax.explorer import explorer_page, packed_weights, recorded_search
from tests.explorer import pages

SETTINGS = {
    "plain": DecodingConfig(beam_size=3),
    "greedy": DecodingConfig(beam_size=1, length_normalization="average", min_ratio=0.3),
    "wu with coverage": DecodingConfig(
        beam_size=4, length_normalization="wu", alpha=0.8, coverage=0.3
    ),
    "average, at least half": DecodingConfig(
        beam_size=3, length_normalization="average", min_ratio=0.5
    ),
    "shrinking": DecodingConfig(beam_size=5, shrink=True, ban_unk=True, max_ratio=1.4),
}
TRANSLATE = """async ([lines, prefixes, changes]) => {
  const engine = explorer.engines[0], found = [];
  for (const [i, line] of lines.entries()) {
    const settings = { beam: engine.data.decoding.beam_size, prefix: prefixes?.[i] ?? [], changes };
    const { hypotheses, source } = await engine.translate(line, settings);
    found.push({ source, hypotheses: hypotheses.map(({ text, score, finished, steps }) => ({
      text, score, finished, tokens: steps.map((s) => s.symbol), logP: steps.map((s) => s.logP),
      alpha: steps.map((s) => [...s.alpha]) })) });
  }
  return found;
}"""


def opened(tab, run, path):
    explorer_page.write_page(run, path)
    return tab.open(path)


def compare(found, expected, count=None):
    for one, hypotheses in zip(found, expected, strict=True):
        assert len(one["hypotheses"]) == len(hypotheses)
        for ours, best in zip(one["hypotheses"][:count], hypotheses[:count], strict=True):
            assert (ours["tokens"], ours["text"]) == (list(best.tokens), best.text)
            assert (one["source"], ours["finished"]) == (list(best.source_tokens), best.finished)
            np.testing.assert_allclose(ours["logP"], best.log_probabilities, atol=1e-4)
            np.testing.assert_allclose(ours["alpha"], best.alpha, atol=1e-4)
            assert ours["score"] == pytest.approx(best.score, abs=1e-3)


def rounded(run):
    """The run with the weights of the page, so that near ties fall alike."""
    return pages.like(run, params=packed_weights.rounded(run.params))


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_hypotheses_in_the_browser_are_those_of_the_search(tab, tmp_path, name):
    settings = SETTINGS[name]
    run = rounded(pages.run(decoding=settings, order="groundhog" if settings.shrink else "paper"))
    lines = pages.lines(6)
    found = opened(tab, run, tmp_path / "page.html").run(TRANSLATE, [lines, None, {}])
    compare(found, run.translate(lines, n_best=settings.beam_size))


@pytest.mark.slow
def test_prefixes_and_changes_of_attention_do_as_in_python(tab, tmp_path):
    run, lines = rounded(pages.run()), pages.lines(4)
    opened(tab, run, tmp_path / "page.html")
    prefix = run.codecs[1].tokens([5, 9])
    texts = [run.codecs[1].write(prefix)] * 4
    ids = run.codecs[1].encode(texts[0])[:-1]
    found = tab.run(TRANSLATE, [lines, [ids] * 4, {}])
    compare(found, run.translate(lines, n_best=3, prefixes=texts))
    longest = max(len(run.codecs[0].encode(line)) for line in lines)
    steps, second = np.zeros((4, 2), bool), np.full((4, 2), -1)
    steps[:, 1], second[:, 1] = True, 2
    ways = {
        "2": interventions.force(second),
        "none": interventions.at(steps, interventions.mask(np.ones((4, longest), bool))),
    }
    for change, intervention in ways.items():
        found = tab.run(TRANSLATE, [lines, None, {"1": change}])
        best = [{**each, "hypotheses": each["hypotheses"][:1]} for each in found]
        compare(best, [[each] for each in translate(run, lines, intervention)])


@pytest.mark.parametrize(
    "name", ["greedy", "shrinking", pytest.param("wu with coverage", marks=pytest.mark.slow)]
)
def test_recorded_searches_are_those_of_the_search(name):
    settings = SETTINGS[name]
    run, lines = pages.run(decoding=settings), pages.lines(3)
    lists, states = run.translate(lines, n_best=settings.beam_size), set()
    for line, hypotheses in zip(lines, lists, strict=True):
        data = recorded_search.record(run, line)
        for ours, best in zip(data["hypotheses"], hypotheses, strict=True):
            assert (ours["text"], ours["finished"]) == (best.text, best.finished)
            assert ours["score"] == pytest.approx(best.score, abs=1e-4)
            steps = ours["steps"]
            assert [step["symbol"] for step in steps] == list(best.tokens)
            np.testing.assert_allclose([s["alpha"] for s in steps], best.alpha, atol=1e-5)
        for node in data["nodes"]:
            parent = data["nodes"][node["parent"]] if node["parent"] >= 0 else None
            assert node["step"] == (parent["step"] + 1 if parent else 0)
            assert parent is None or parent["state"] == "kept"
        states |= {node["state"] for node in data["nodes"]}
    assert states == {"kept", "ended", "rejected"}


def test_a_recorded_search_has_the_compute_dtype_of_the_search():
    def score(dtype):
        decoding, [line] = dataclasses.replace(pages.SEARCH, compute_dtype=dtype), pages.lines(1)
        run = pages.run(decoding=decoding, compute_dtype="bfloat16")
        return recorded_search.record(run, line)["hypotheses"][0]["score"], run.translate([line])[0]

    exact, translated = score("float32")
    assert exact == pytest.approx(translated.score, abs=1e-4)
    assert abs(exact - score("bfloat16")[0]) > 1e-2


def test_a_recorded_search_allows_unk_where_nothing_else_finishes():
    run = pages.run(decoding=DecodingConfig(beam_size=1, ban_unk=True))
    random = np.random.default_rng(13)  # after UNK, and only then, this model writes EOS
    run.params["output"]["b_w"][:2] = -2.0, 4.0
    run.params["target_embedding"]["E"][1] = 5 * random.normal(size=pages.SIZES["embedding_size"])
    shape = run.params["output"]["W_o"][:, 0].shape
    run.params["output"]["W_o"][:, 0] = random.normal(size=shape)
    [line] = pages.lines(1)
    [best] = run.translate([line])
    [found] = recorded_search.record(run, line)["hypotheses"]
    assert "<unk>" in best.tokens and best.finished
    assert [step["symbol"] for step in found["steps"]] == list(best.tokens)


def test_a_recorded_search_has_the_words_as_the_line_has_them():
    run = pages.run()
    config = dataclasses.replace(run.codecs[0].config, lowercase=True)
    codecs = dataclasses.replace(run.codecs[0], config=config), run.codecs[1]
    data = recorded_search.record(pages.like(run, codecs=codecs), "The MAN's Zoë sleeps.")
    assert data["source"] == ("the", "man", "'s", "zoë", "sleeps", ".", "</s>")
    assert data["written"] == ["The", "MAN", "'s", "Zoë", "sleeps", "."]


def test_a_blank_line_has_no_recorded_search(tiny):
    assert recorded_search.record(tiny, " \r")["hypotheses"] == []


def test_a_recorded_search_refuses_long_sentences_as_the_page_does(tab, tiny, tiny_page):
    line = "man " * (recorded_search.LONGEST + 1)
    refusal = recorded_search.record(tiny, line)["refusal"]
    assert "has 201 tokens, and the page translates at most 200" in refusal
    settings = "{ beam: 3, prefix: [], changes: {} }"
    translate = f"(line) => explorer.engines[0].translate(line, {settings})"
    page = tab.open(tiny_page).run(translate, line)
    assert page["refusal"] == refusal


def test_the_limits_of_a_recorded_search_are_those_of_the_page():
    folder = resources.files("bahdanau_jax.explorer").joinpath("browser")
    code = "".join(
        folder.joinpath(f"{name}.js").read_text("utf-8") for name in ("search", "engine")
    )
    limits = dict(re.findall(r"^export const ([A-Z_]+) = (\d+);", code, re.MULTILINE))
    for name in ("LIKELIEST", "LONGEST", "MOST_STEPS"):
        assert getattr(recorded_search, name) == int(limits[name]), name


def test_a_recorded_search_that_does_not_end_is_cut():
    run = pages.run(decoding=DecodingConfig(beam_size=1, max_ratio=100.0))
    run.params["output"]["b_w"][0] = -50.0  # EOS
    [found] = recorded_search.record(run, "The man saw a house . " * 2)["hypotheses"]
    assert len(found["steps"]) == recorded_search.MOST_STEPS and not found["finished"]
