"""Examples, and links to states of a page, also of one with recorded translations."""

import pytest

from bahdanau_jax.config import DecodingConfig
from bahdanau_jax.explorer import explorer_page, write_page
from tests.explorer import pages
from tests.explorer.test_page_actions import TEXT, settled

UNEVEN = ["A man  sees\u00a0a dog .\r", " The man sleeps .", "The man\u2003sleeps . \r"]
PLAIN = ["A man sees a dog .", "The man sleeps .", "The man sleeps ."]


@pytest.fixture
def recorded_page(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(explorer_page, "LARGEST", 100)
    write_page(tiny, tmp_path / "recorded.html", [*UNEVEN, " "])
    return tmp_path / "recorded.html"


def test_examples_keep_their_references_whatever_their_spaces(browser, tab, tiny, tmp_path):
    path = tmp_path / "page.html"
    write_page(tiny, path, UNEVEN, references=["Un", "Deux", "Trois"])
    tab.open(path)
    reference = "explorer.app.panels[0].reference()"
    for i, text in enumerate(["Un", "Deux", "Trois"]):
        tab.page.select_option("#example", index=i + 1)
        settled(tab, f"explorer.app.panels[0].isReady && {reference} === '{text}'")
        assert tab.page.input_value("#example") == str(i)
        assert tab.page.input_value("#sentence") == PLAIN[i]
    other = pages.Tab(browser).open(path, tab.run("location.hash"))
    assert other.run(reference) == "Trois"
    other.close()


def test_recorded_examples_are_shown_whatever_their_spaces(tab, tiny, recorded_page):
    tab.open(recorded_page)
    for i, line in enumerate(UNEVEN):
        tab.page.select_option("#example", index=i + 1)
        assert tab.run(TEXT) == tiny.translate([line])[0].text != ""
    tab.page.select_option("#example", index=4)
    assert tab.run(TEXT) == tab.page.inner_text(".facts") == ""


@pytest.mark.parametrize("fragment", ["#t=1", "#v=gradient", "#f0=1&a0=1:none&p0=5"])
def test_a_link_changes_nothing_of_a_recorded_translation(tab, tiny, recorded_page, fragment):
    tab.open(recorded_page, fragment)
    assert tab.run(TEXT) == tiny.translate(UNEVEN[:1])[0].text
    assert tab.page.locator(".matrix svg").count() == 1
    assert tab.page.locator(".word.forced, .word.changed, .actions button").count() == 0
    assert tab.run("document.querySelector('#tour').hidden")
    assert fragment.removeprefix("#") not in tab.run("location.hash")


def test_the_beam_of_the_run_and_of_a_link_are_offered(tab, tmp_path):
    run = pages.run(decoding=DecodingConfig(beam_size=20, max_ratio=0.5))
    write_page(run, tmp_path / "page.html", PLAIN[:1])
    tab.open(tmp_path / "page.html")
    assert tab.page.input_value("#beam") == "20"
    tab.run("() => { location.hash = location.hash.replace('k=20', 'k=50'); }")
    settled(tab, "document.querySelector('#beam').value === '50'")
    assert tab.page.locator("#beam option").all_text_contents()[-2:] == ["20", "50"]


def test_words_have_the_language_of_their_side(tab, tiny_page):
    """A screen reader chooses its voice by it."""
    tab.open(tiny_page)
    languages = tab.run("""() => Object.fromEntries(
      ["#sentence", ".translation", ".source .text", ".target .text", ".turn strong"].map(
        (place) => [place, document.querySelector(place).lang]))""")
    assert languages == {
        "#sentence": "en",
        ".translation": "fr",
        ".source .text": "en",
        ".target .text": "fr",
        ".turn strong": "fr",
    }


def test_a_browser_that_refuses_to_change_the_address_still_shows_the_word(tab, tiny_page):
    """Safari and Firefox do so for many changes in a short time."""
    tab.open(tiny_page)
    tab.run("""() => {
      const refuse = () => { throw new DOMException("", "SecurityError"); };
      Object.assign(history, { replaceState: refuse, pushState: refuse });
      explorer.app.panels[0].select(0);
    }""")
    assert tab.page.inner_text(".turn strong") == tab.page.inner_text(".target .text >> nth=0")
    assert tab.page.inner_text("#fault") == ""


def test_enter_that_ends_a_composition_does_not_translate(tab, tiny_page):
    tab.open(tiny_page)
    tab.page.fill("#sentence", "half a w")
    press = """(event) => document.querySelector("#sentence").dispatchEvent(
      new KeyboardEvent("keydown", { key: "Enter", cancelable: true, ...event }))"""
    for ending in ({"isComposing": True}, {"keyCode": 229}):  # the second one is that of Safari
        assert tab.run(press, ending) and tab.run("explorer.app.state.sentence") != "half a w"
    assert not tab.run(press, {})
    assert tab.run("explorer.app.state.sentence") == "half a w"
    settled(tab, "explorer.app.panels[0].isReady")


def test_a_character_that_python_does_not_take_for_a_space_stays(tab, tiny_page):
    tab.open(tiny_page, "#s=The%EF%BB%BFman%20%20sleeps%C2%85.")
    assert tab.run("explorer.app.state.sentence") == "The\ufeffman sleeps ."
