"""Words that a reader forces, and attention that a reader changes."""

import json

import pytest

from bahdanau_jax.batch import UNK
from bahdanau_jax.config import DataConfig
from bahdanau_jax.explorer import browser_text
from tests.explorer import pages
from tests.explorer.test_page_actions import TEXT, settled, steps

PREFIX = "explorer.app.state.panels[0].prefix"
SUMS = """explorer.app.panels[0].chosen.steps.map(({ alpha }) =>
  Math.round(alpha.reduce((a, b) => a + b)))"""
TYPED = """([data, texts]) => {
  const engine = new modules.engine.Engine({ source: data, target: data, recorded: [] }, null);
  return texts.map((text) => engine.typedIds(text));
}"""


@pytest.mark.parametrize(
    "settings",
    [{"vocabulary": "sentencepiece", "lowercase": True}, {"unicode": "NFKC", "lowercase": True}],
    ids=["pieces", "words"],
)
def test_typed_words_become_the_units_of_python(browser, settings):
    codec = pages.codecs(DataConfig(train=pages.CORPUS, **settings))[1]
    tab, texts = pages.modules(browser), ["les", "Les", "l'homme", "␣jour", "日本", " "]
    found = tab.run(TYPED, [browser_text.codec_data(codec, "fr"), texts])
    expected = [codec.encode(text.replace("␣", ""))[:-1] for text in texts]
    assert found == [[] if UNK in ids else ids for ids in expected]
    assert found[0] == found[1] != [] == found[4]
    tab.close()


def test_several_words_are_forced_in_a_row(tab, tiny, tiny_page):
    tab.open(tiny_page)
    before, forced = steps(tab), [9, 5]
    tab.page.click(".word.target >> nth=1")
    tab.page.fill(".other input", " ".join(tiny.codecs[1].tokens(forced)))
    tab.page.click("text=Write it")
    settled(tab, f"{PREFIX}.length === 3 && explorer.app.panels[0].isReady")
    assert tab.run(PREFIX)[1:] == forced and steps(tab)[0] == before[0]
    assert tab.run("explorer.app.state.panels[0].forced") == [1, 2]
    assert tab.page.locator(".word.forced").count() == 2


def test_a_source_word_above_the_links_is_looked_at_alone(tab, tiny_page):
    tab.open(tiny_page)
    tab.page.click(".word.target >> nth=1")
    own = tab.run("[...explorer.app.panels[0].chosen.steps[1].alpha]")
    tab.page.click(".word.source >> nth=2")
    settled(tab, "explorer.app.panels[0].chosen.steps[1].alpha[2] === 1")
    assert tab.run("document.activeElement.matches('.word.source')")
    tab.page.keyboard.press("Enter")
    settled(tab, "explorer.app.panels[0].chosen.steps[1].alpha[2] !== 1")
    assert tab.run("[...explorer.app.panels[0].chosen.steps[1].alpha]") == pytest.approx(own)


def test_a_step_may_look_as_the_model_does_where_the_others_look_at_nothing(tab, tiny_page):
    tab.open(tiny_page, "#a0=*:none&w0=1")
    assert set(tab.run(SUMS)) == {0}
    tab.page.click("text=As the model does")
    settled(tab, f"{SUMS}[1] === 1")
    sums = tab.run(SUMS)
    assert [*sums[:1], *sums[2:]] == [0] * (len(sums) - 1)
    assert not tab.page.locator("text=As the model does").count()
    again = pages.Tab(tab.context.browser).open(tiny_page, tab.run("location.hash"))
    assert again.run(SUMS) == sums
    again.close()


def test_a_finished_translation_is_chosen_in_the_ranking(tab, tiny_page):
    tab.open(tiny_page)
    second = tab.run("explorer.app.panels[0].analysis.hypotheses[1].text")
    assert second != tab.run(TEXT)
    tab.page.click(".ranking button >> nth=1")
    settled(tab, f"{TEXT} === {json.dumps(second)}")


def test_a_vocabulary_of_very_many_pieces_is_read(browser):
    tab = pages.modules(browser)
    pieces = tab.run("""() => {
      const words = Array.from({ length: 300_000 }, (_, i) => `\u2581w${i}`);
      const data = { type: "sentencepiece", kind: "unigram", bytes: [],
        entries: ["</s>", "<unk>", ...words], scores: [0, 0, ...words.map(() => -1)] };
      return modules.vocabulary.vocabulary(data).units("w7 w299999");
    }""")
    tab.close()
    assert pieces == ["\u2581w7", "\u2581w299999"]
