"""Long sentences, translations that do not end, links that somebody made up, and faults."""

import json

import pytest

from bahdanau_jax.config import DecodingConfig
from bahdanau_jax.explorer import build_page, write_page
from tests.explorer import pages
from tests.explorer.test_page_actions import TEXT, settled, steps

FACTS = "document.querySelector('.facts').textContent"
ENDED = f"{FACTS}.startsWith('score')"
SENTENCE = "The man saw a house ."


@pytest.fixture(scope="module")
def endless_page(tmp_path_factory):
    """A model that never writes EOS, with a limit of 100 words for each source token."""
    run = pages.run("endless", decoding=DecodingConfig(beam_size=3, max_ratio=100.0))
    run.params["output"]["b_w"][0] = -50.0  # EOS
    path = tmp_path_factory.mktemp("endless") / "page.html"
    write_page(run, path, [SENTENCE])
    return path


@pytest.mark.slow
def test_a_sentence_that_is_too_long_is_refused_in_one_line(tab, tiny_page):
    tab.open(tiny_page)
    before = tab.run(TEXT)
    for count, is_refused in ((201, True), (200, False)):
        tab.page.fill("#sentence", "man " * count)
        tab.page.click("#compose button")
        settled(tab, f"{FACTS}.includes('{'at most 200' if is_refused else 'score'}')")
    tab.page.fill("#sentence", "x." * 1_000)
    tab.page.click("#compose button")
    settled(tab, f"explorer.app.state.sentence === {json.dumps('x.' * 1_000)}")
    tab.page.select_option("#example", index=1)
    settled(tab, f"{TEXT} === {json.dumps(before)}")


def test_a_sentence_of_many_characters_is_refused_and_not_cut(tab, tiny_page):
    tab.open(tiny_page, f"#s={'x' * 2_001}")
    assert "has 2,001 characters, and the page translates at most 2,000" in tab.run(FACTS)
    assert tab.run("explorer.app.state.sentence.length") == 2_001
    tab.page.fill("#sentence", "y" * 2_002)
    tab.page.click("#compose button")
    settled(tab, f"{FACTS}.includes('has 2,002 characters')")


def test_a_sentence_that_is_too_long_for_an_address_is_refused(tab, tiny_page):
    tab.open(tiny_page)
    tab.run("() => explorer.app.begin('man '.repeat(1_000_000))")
    settled(tab, f"{FACTS}.includes('has 3,999,999 characters')")
    assert "s=" not in tab.run("location.hash")
    tab.run("() => explorer.app.begin('The man sleeps .')")
    assert "s=The+man+sleeps+." in tab.run("location.hash")


@pytest.mark.slow
def test_a_translation_that_does_not_end_is_cut_and_gives_way_to_another(tab, endless_page):
    tab.open(endless_page)
    assert len(steps(tab)) == 600
    assert "stopped at the length limit" in tab.run(FACTS)
    first = tab.run("""async () => {
      const long = "The man saw a house . ".repeat(30).trim();
      const settings = { beam: 12, prefix: [], changes: {} };
      let reacted = 0;  // how often the page ran something else during the search
      const timer = setInterval(() => reacted++, 1);
      const isWanted = () => reacted < 3;
      const result = await explorer.engines[0].translate(long, settings, { isWanted });
      clearInterval(timer);
      return [result, reacted >= 3];
    }""")
    assert first == [None, True]
    tab.page.fill("#sentence", "The man saw a house . " * 30)
    tab.page.select_option("#beam", "12")
    tab.page.click("#compose button")
    settled(tab, f"{FACTS}.startsWith('Translating: word')")
    tab.page.fill("#sentence", SENTENCE)
    tab.page.select_option("#beam", "1")
    tab.page.click("#compose button")
    settled(tab, ENDED)
    assert tab.run("explorer.app.panels[0].analysis.source.length") == 7


CHOOSE = """(i) => {
  document.querySelectorAll(".word.target")[i].click();
  document.querySelectorAll(".step .halves > :last-child .row")[3].click();
}"""


def test_a_second_click_during_a_search_is_left_out(tab, tiny_page):
    tab.open(tiny_page)
    panel = tab.run(f"""() => {{
      const choose = {CHOOSE}, {{ app }} = explorer;
      const {{ likeliest }} = app.panels[0].chosen.steps[0];
      choose(0);
      choose(2);
      return [likeliest[3].token, structuredClone(app.state.panels[0])];
    }}""")
    assert (panel[1]["prefix"], panel[1]["forced"]) == ([panel[0]], [0])
    settled(tab, ENDED)
    assert tab.run("explorer.app.panels[0].chosen.steps[0].id") == panel[0]
    tab.run(CHOOSE, 1)
    settled(tab, "explorer.app.panels[0].isReady")
    assert tab.run("explorer.app.state.panels[0].prefix[0]") == panel[0]


@pytest.mark.slow
def test_nothing_of_the_sentence_before_is_used_during_a_search(tab, endless_page):
    tab.open(endless_page)
    tab.page.fill("#sentence", "The man saw a house . " * 30)
    tab.page.select_option("#beam", "12")
    tab.page.click("#compose button")
    settled(tab, f"{FACTS}.startsWith('Translating: word')")
    tab.run(CHOOSE, 1)
    tab.page.click("[data-view=both]")
    assert tab.page.locator(".files button:enabled").count() == 0
    assert tab.page.is_disabled("#tour-open")
    state = tab.run("explorer.app.state.panels[0]")
    assert state == {"prefix": [], "forced": [], "changes": {}, "selected": None}
    tab.page.fill("#sentence", SENTENCE)
    tab.page.select_option("#beam", "1")
    tab.page.click("#compose button")
    settled(tab, ENDED)
    assert tab.page.is_enabled("#tour-open") and tab.page.is_enabled(".files >> text=JSON")


@pytest.mark.slow
def test_gradients_of_long_translations_are_refused_in_one_line(tab, endless_page):
    tab.open(endless_page)
    tab.page.fill("#sentence", "The man saw a house . " * 5)
    tab.page.click("#compose button")
    settled(tab, f"{ENDED} && explorer.app.panels[0].analysis.source.length === 31")
    tab.page.click("[data-view=both]")
    assert "at most 10,000 pairs" in tab.page.inner_text(".matrix .readout")


@pytest.mark.slow
def test_a_large_matrix_is_one_image_whose_cells_are_still_read(tab, endless_page, tmp_path):
    tab.open(endless_page)
    tab.page.fill("#sentence", "The man saw a house . " * 5)
    tab.page.click("#compose button")
    settled(tab, f"{ENDED} && explorer.app.panels[0].analysis.source.length === 31")
    assert tab.page.locator(".matrix rect[data-cell]").count() == 0
    tab.run("document.querySelector('.matrix svg').scrollIntoView({ block: 'start' })")
    box = tab.page.locator(".matrix image").bounding_box()
    side = box["width"] / 31
    tab.page.mouse.move(box["x"] + 3.5 * side, box["y"] + 2.5 * side)
    assert tab.run("explorer.app.panels[0].matrix.at") == [2, 3]
    tab.page.mouse.down()
    tab.page.mouse.up()
    assert tab.run("explorer.app.state.panels[0].selected") == 2
    with tab.page.expect_download() as download:
        tab.page.click(".files >> text=PNG")
    download.value.save_as(tmp_path / "large.png")
    assert (tmp_path / "large.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("prefix", ["999999.0", "5.999999", ".".join(["5"] * 5_000)])
def test_words_of_a_link_that_the_vocabulary_does_not_have_are_left_out(tab, tiny_page, prefix):
    tab.open(tiny_page, f"#p0={prefix}&f0={prefix}")
    assert tab.run(TEXT) != ""
    if prefix == "5.999999":
        assert tab.run("explorer.app.panels[0].chosen.steps[0].id") == 5


def test_a_fault_is_shown_and_the_next_sentence_is_translated(browser, tiny_page):
    tab = pages.Tab(browser)
    tab.open(tiny_page)
    fault = "() => { throw new Error('out of order'); }"
    tab.run(f"() => {{ explorer.engines[0].model.encode = {fault}; }}")
    tab.page.fill("#sentence", "a sentence")
    tab.page.click("#compose button")
    settled(tab, f"{FACTS}.includes('failed at this sentence: out of order')")
    settled(tab, "document.querySelector('#fault').textContent.includes('out of order')")
    assert tab.run(TEXT) == "" and tab.page.locator(".matrix >> visible=true").count() == 0
    tab.run("() => { delete explorer.engines[0].model.encode; }")
    tab.page.select_option("#example", index=2)
    settled(tab, f"{ENDED} && document.querySelector('#fault').textContent === ''")
    assert tab.faults and all("out of order" in fault for fault in tab.faults)
    tab.faults.clear()
    tab.close()


def test_a_page_that_cannot_start_says_so(browser, tiny, tmp_path):
    text = build_page([tiny]).html
    start = text.index('id="weights-0">') + len('id="weights-0">')
    (tmp_path / "page.html").write_text(text[:start] + "!" + text[start + 1 :], encoding="utf-8")
    tab = pages.Tab(browser)
    tab.page.goto((tmp_path / "page.html").as_uri())
    settled(tab, "document.querySelector('#fault').textContent.startsWith('The page has a fault')")
    tab.faults.clear()
    tab.close()
