"""What the guided tour says of models that differ from the paper's."""

import pytest

from bahdanau_jax.explorer import write_page
from tests.explorer import pages

MODELS = {
    "paper": (
        {},
        {
            2: "compares its state s with every h. A softmax over all words",
            3: "The context c is the weighted sum of the states. From c, the word before",
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
    "groundhog": (
        {"order": "groundhog", "feed_previous": False},
        {3: "From the context before and its old state, the decoder computes its new state s."},
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


def test_a_blank_sentence_has_no_tour(tab, tiny_page):
    tab.open(tiny_page, "#s=&t=1")
    assert tab.run("document.querySelector('#tour').hidden")
    assert tab.page.is_disabled("#tour-open") and "t=1" not in tab.run("location.hash")
