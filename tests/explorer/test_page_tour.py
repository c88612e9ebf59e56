"""What the guided tour says of models that differ from the paper's."""

import json

import pytest

from bahdanau_jax.explorer import write_page
from tests.explorer import pages
from tests.explorer.test_page_actions import settled

MODELS = {
    "paper": (
        {},
        {
            2: "compares its state s with every h. A softmax over all words",
            3: "The context c is the weighted sum of the states. From c, the word before",
            4: "The state, the word before and the context give a probability to each of the",
            5: "Nobody told the model",
        },
    ),
    "luong": (
        {"order": "luong", "attention": "local_p"},
        {
            2: "its new state s with every h. A softmax over the words around a predicted place",
            3: "From the context before, the word before and its old state, the decoder computes",
        },
    ),
    "coverage": (
        {"attention": "additive_coverage"},
        {2: "with every h, and reads the sum of the weights that each word has had so far. A"},
    ),
    "groundhog": (
        {"order": "groundhog", "feed_previous": False, "readout_inputs": "s"},
        {
            2: "compares its new state s with every h",
            3: "From the context before and its old state, the decoder computes its new state s.",
            4: "The state alone gives a probability to each of the",
        },
    ),
    "conditional": (
        {"order": "conditional", "readout_inputs": "sc"},
        {
            2: "compares the state between its two cells with every h",
            3: "The first of two cells has read the old state and the word before. The context c",
            4: "The state and the context give a probability to each of the",
        },
    ),
    "words": (
        {"order": "conditional", "feed_previous": False, "word_annotations": True},
        {
            1: "knows the word and its neighbours, followed by the embedding of the word.",
            3: "The first of two cells has read the old state. The context c is the weighted sum "
            "of the annotations. The second cell reads c, and computes the new state s.",
        },
    ),
    "none": (
        {"attention": "none"},
        {
            2: "has no attention",
            3: "c is the last state of the encoder",
            5: "Every row is the same",
        },
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_tour_tells_of_the_model_of_the_page(tab, tmp_path, name):
    settings, texts = MODELS[name]
    write_page(pages.run(**settings), tmp_path / "page.html")
    tab.open(tmp_path / "page.html", "#w0=1")
    for number, text in texts.items():
        tab.run("(number) => explorer.app.tour.go(number)", number)
        assert text in tab.page.inner_text("#tour p")


NAMES = "[...document.querySelectorAll('#tour .strip .name')].map((each) => each.textContent)"
SOURCE = "explorer.app.panels[0].analysis.source.map((word) => word.replace('</s>', 'end'))"


def test_an_open_tour_tells_of_the_next_translation_too(tab, tiny_page):
    tab.open(tiny_page)
    tab.run("() => explorer.app.tour.go(1)")
    before = tab.run(NAMES)
    tab.page.focus("#example")
    tab.page.select_option("#example", index=3)
    settled(tab, f"String({NAMES}) === String({SOURCE})")
    assert tab.run(NAMES) != before and tab.run("document.activeElement.id") == "example"
    tab.page.click(".word.target >> nth=1")
    tab.run("() => explorer.app.tour.go(2)")
    word = tab.page.inner_text(".step .halves > :last-child .row .name >> nth=3")
    tab.page.click(".step .halves > :last-child .row >> nth=3")
    settled(tab, f"document.querySelector('#tour p').textContent.includes('word 2, “{word}”')")
    tab.page.fill("#sentence", "")
    tab.page.click("#compose button")
    settled(tab, "document.querySelector('#tour').hidden")
    assert "t=" not in tab.run("location.hash")


def test_a_blank_sentence_has_no_tour(tab, tiny_page):
    tab.open(tiny_page, "#s=&t=1")
    assert tab.run("document.querySelector('#tour').hidden")
    assert tab.page.is_disabled("#tour-open") and "t=1" not in tab.run("location.hash")


def test_an_open_tour_has_the_colours_of_the_theme(tab, tiny_page):
    tab.open(tiny_page)
    tab.run("() => explorer.app.tour.go(1)")
    before = tab.run("document.querySelector('#tour .picture').innerHTML")
    tab.page.click("#theme")
    settled(tab, f"document.querySelector('#tour .picture').innerHTML !== {json.dumps(before)}")
    tab.page.click("#theme")
    settled(tab, f"document.querySelector('#tour .picture').innerHTML === {json.dumps(before)}")
