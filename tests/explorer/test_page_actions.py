"""What a reader can do on the page: type, point, force, intervene, compare, download, link."""

import json
import re
import time

import pytest

from bahdanau_jax.cli import explore_command
from bahdanau_jax.config import DecodingConfig
from bahdanau_jax.explorer import build_page, explorer_page, write_page
from tests.explorer import pages
from tests.serving.conftest import started

TEXT = "document.querySelector('.translation').textContent"
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "\"'><svg/onload=alert(1)> ${alert(1)} {{alert(1)}}",
    "javascript:alert(1) \u202e\u2028 \x00 😀",
    "<unk> </s> ▁ &lt;b&gt;",
]


def words(tab, side="target"):
    return tab.page.locator(f".word.{side} .text").all_text_contents()


def settled(tab, code, seconds=30):
    """Wait until an expression is true. Playwright's own waiting needs eval, which is forbidden."""
    end = time.monotonic() + seconds
    while not tab.run(code):
        assert time.monotonic() < end, code
        tab.page.wait_for_timeout(30)


def same(values):
    """JavaScript of a function that compares a list with these values."""
    return f"((list) => JSON.stringify(list) === JSON.stringify({json.dumps(values)}))"


def steps(tab, place=0):
    """The symbols of the translation, when no search is running."""
    return tab.run(f"explorer.app.panels[{place}].chosen?.steps.map((s) => s.symbol)")


def test_the_page_opens_and_translates_what_is_typed(tab, tiny, tiny_page):
    tab.open(tiny_page)
    first = tab.run(TEXT)
    line = pages.lines(9)[8]
    assert first and tab.page.input_value("#sentence") != line
    tab.page.fill("#sentence", line)
    tab.page.keyboard.press("Enter")
    expected = list(tiny.codecs[0].units(line))
    settled(tab, f"{same(expected)}(explorer.app.panels[0].analysis.source)")
    assert words(tab, "source")[:-1] == expected[:-1]
    assert tab.run(TEXT) == tiny.translate([line])[0].text
    assert all(url.startswith("file:") or url.startswith("data:") for url in tab.requests)


def test_words_are_forced_and_attention_is_changed_by_clicks(tab, tiny_page):
    tab.open(tiny_page)
    before = steps(tab)
    tab.page.click(".word.target >> nth=1")
    assert tab.run("explorer.app.state.panels[0].selected") == 1
    tab.page.click(".step .rows >> nth=1 >> button >> nth=3")
    settled(tab, "document.querySelector('.word.target.forced') !== null")
    assert steps(tab)[0] == before[0] and steps(tab)[1] != before[1]
    tab.page.click("text=Look at nothing")
    settled(tab, "explorer.app.panels[0].chosen.steps[1].alpha.every((a) => a === 0)")
    tab.page.click(".step .rows >> nth=0 >> button >> nth=2")
    settled(tab, "explorer.app.panels[0].chosen.steps[1].alpha[2] === 1")
    tab.page.click("text=Look everywhere")
    settled(tab, "new Set(explorer.app.panels[0].chosen.steps[1].alpha).size === 1")
    tab.page.fill(".other input", "zebra-crossing")
    tab.page.click("text=Write it")
    assert "vocabulary does not have" in tab.page.inner_text(".answer")
    tab.page.click("text=Undo my changes")
    settled(tab, "explorer.app.state.panels[0].prefix.length === 0")
    settled(tab, f"{same(before)}(explorer.app.panels[0].chosen.steps.map((s) => s.symbol))")


@pytest.mark.slow
def test_the_translation_comes_word_by_word_where_motion_is_wanted(browser, tiny_page):
    tab = pages.Tab(browser, reduced_motion="no-preference")
    tab.open(tiny_page)
    tab.run("""() => {
      globalThis.seen = [];
      const text = document.querySelector(".translation");
      new MutationObserver(() => seen.push(text.textContent)).observe(text, { childList: true });
    }""")
    tab.page.select_option("#example", index=4)
    settled(tab, f"seen.length > 2 && {TEXT} === explorer.app.panels[0].chosen.text")
    settled(tab, "explorer.app.panels[0].analysis.nodes.length > 0")
    lengths = [len(text) for text in tab.run("seen")]
    assert len(set(lengths)) > 2 and lengths[0] < lengths[-1]
    tab.close()


@pytest.mark.slow
def test_a_word_of_the_beam_is_forced_with_the_words_before_it(tab, tiny_page):
    tab.open(tiny_page)
    path = tab.run("""() => {
      const { nodes } = explorer.app.panels[0].analysis;
      const index = nodes.findIndex((n) => n.state === "rejected" && n.step === 1);
      const { parent, symbol } = nodes[index];
      return [symbol, [nodes[parent].id, nodes[index].id]];
    }""")
    label = json.dumps(f"{path[0]}, probability")
    column = tab.page.locator(f".node.rejected[aria-label^={label}]")
    column.filter(visible=True).first.click()
    settled(tab, "explorer.app.state.panels[0].prefix.length > 0")
    settled(
        tab,
        "explorer.app.state.panels[0].prefix.every((id, i) =>"
        " explorer.app.panels[0].chosen.steps[i].id === id)",
    )
    tab.page.uncheck(".beam input[type=checkbox]")
    assert tab.page.locator(".node.rejected:not(.best)").count() == 0


@pytest.mark.slow
def test_the_tree_of_a_broad_beam_has_all_words_that_others_continue(tab, tmp_path):
    search = DecodingConfig(beam_size=12, min_ratio=0.5)
    write_page(pages.run(decoding=search), tmp_path / "page.html", pages.lines(1))
    tab.open(tmp_path / "page.html")
    nodes = tab.run("explorer.app.panels[0].analysis.nodes")

    def shown(state):
        return tab.page.locator(f".node.{state}").count()

    for state in ("kept", "ended"):
        assert shown(state) == sum(node["state"] == state for node in nodes)
    assert 0 < shown("rejected") < sum(node["state"] == "rejected" for node in nodes)
    continued = tab.page.locator(".node:not([data-parent='-1'])").count()
    assert tab.page.locator(".edge").count() == continued
    tab.page.uncheck(".beam input[type=checkbox]")
    assert shown("rejected") == 0


@pytest.mark.slow
def test_the_page_of_a_model_without_attention_does_not_name_it(tab, tiny_page, tmp_path):
    fixed = pages.run(attention="none", order="groundhog")
    write_page(fixed, tmp_path / "page.html", pages.lines(1))
    for page, named in ((tiny_page, True), (tmp_path / "page.html", False)):
        tab.open(page)
        assert ("with attention" in tab.page.text_content("#about")) == named


@pytest.mark.slow
def test_every_state_has_a_link(browser, tab, tiny_page):
    tab.open(tiny_page)
    tab.page.select_option("#beam", "2")
    tab.page.click(".word.target >> nth=1")
    tab.page.click("text=Look at nothing")
    settled(tab, "explorer.app.panels[0].chosen.steps[1].alpha.every((a) => a === 0)")
    tab.page.click("[data-view=both]")
    settled(tab, "explorer.app.panels[0].gradients !== null", 60)
    tab.page.check("#unknown")
    address, text = tab.run("location.href"), tab.run(TEXT)
    other = pages.Tab(browser)
    other.open(tiny_page, address[address.index("#") :])
    settled(other, "explorer.app.panels[0].gradients !== null", 60)
    assert other.run(TEXT) == text
    assert other.run("location.hash") in ("", address[address.index("#") :])
    assert other.run("explorer.app.state") == tab.run("explorer.app.state")
    assert other.page.locator("figure").count() == 2
    other.close()


@pytest.mark.slow
def test_back_leads_to_the_translation_before(tab, tiny_page):
    tab.open(tiny_page)
    first = tab.page.input_value("#sentence"), steps(tab)
    tab.page.click(".word.target >> nth=1")
    tab.page.click(".step .rows >> nth=1 >> button >> nth=3")
    settled(tab, f"!{same(first[1])}(explorer.app.panels[0].chosen.steps.map((s) => s.symbol))")
    second = steps(tab)
    tab.page.click(".word.target >> nth=0")  # selects a word: no step
    tab.page.fill("#sentence", pages.lines(9)[8])
    tab.page.keyboard.press("Enter")
    settled(tab, f"{json.dumps(pages.lines(9)[8])} === explorer.app.state.sentence")
    tab.page.go_back()
    settled(tab, f"{same(second)}(explorer.app.panels[0].chosen.steps.map((s) => s.symbol))")
    assert tab.page.input_value("#sentence") == first[0]
    tab.page.go_back()
    settled(tab, f"{same(first[1])}(explorer.app.panels[0].chosen.steps.map((s) => s.symbol))")
    assert tab.page.locator(".word.target.forced").count() == 0
    tab.page.go_forward()
    settled(tab, f"{same(second)}(explorer.app.panels[0].chosen.steps.map((s) => s.symbol))")


@pytest.mark.slow
@pytest.mark.parametrize(
    "fragment",
    ["#s=%ZZ&k=-1&p0=1.2.x&a0=9:9,x:none,*:7&w0=99999&t=99", "#k=51&v=<b>&p0=999999.0", "#s="],
)
def test_a_damaged_link_opens_the_page(tab, tiny_page, fragment):
    tab.open(tiny_page, fragment)
    assert tab.run("document.querySelector('#fault').textContent") == ""


@pytest.mark.slow
def test_no_script_runs_from_a_sentence(browser, tiny, tmp_path):
    write_page(tiny, tmp_path / "page.html", HOSTILE, references=HOSTILE)
    tab = pages.Tab(browser)
    tab.page.on("dialog", lambda dialog: tab.faults.append("a dialog opened"))
    tab.open(tmp_path / "page.html")
    for line in [*HOSTILE, "x" * 400, " "]:
        tab.page.fill("#sentence", line)
        tab.page.click("#compose button")
        tab.page.wait_for_timeout(300)
        assert tab.page.locator("main img, main script, main svg[onload]").count() == 0
        tab.page.click("text=JSON") if tab.page.locator(".files >> visible=true").count() else None
    tab.close()


@pytest.mark.slow
def test_the_files_are_those_of_the_translation(tab, tiny, tiny_page, tmp_path):
    from bahdanau_jax.alignment import format_pharaoh, links
    from bahdanau_jax.hypothesis import Hypothesis

    tab.open(tiny_page)
    files = {}
    for kind in ("SVG", "PNG", "JSON", "Pharaoh"):
        with tab.page.expect_download() as download:
            tab.page.click(f".files >> text={kind}")
        download.value.save_as(tmp_path / kind)
        files[kind] = (tmp_path / kind).read_bytes()
    best = Hypothesis.from_json(json.loads(files["JSON"]))
    assert best.text == tab.run(TEXT) and len(best.alpha) == len(best.tokens)
    assert best.tokens == tiny.translate([tab.page.input_value("#sentence")])[0].tokens
    assert files["Pharaoh"].decode() == format_pharaoh(links(best.alpha)) + "\n"
    assert files["PNG"].startswith(b"\x89PNG")
    svg = files["SVG"].decode()
    assert svg.startswith("<svg") and svg.count("data-cell") == best.alpha.size


@pytest.mark.slow
def test_the_tour_has_six_steps_and_is_walked_by_keyboard(tab, tiny_page):
    tab.open(tiny_page)
    tab.page.click("#tour-open")
    titles = []
    for _ in range(6):
        tab.page.wait_for_selector("#tour h2")
        number = len(titles) + 1
        settled(tab, f"document.querySelector('#tour h2').textContent.startsWith('{number}')")
        titles.append(tab.page.inner_text("#tour h2"))
        assert tab.run("document.activeElement.tagName") == "H2"
        tab.page.keyboard.press("Tab")
        while not tab.run("document.activeElement.matches('.primary')"):
            tab.page.keyboard.press("Tab")
        tab.page.keyboard.press("Enter")
    settled(tab, "document.querySelector('#tour').hidden")
    assert [title[0] for title in titles] == list("123456")


@pytest.mark.slow
def test_the_matrix_is_read_by_keyboard_and_lights_the_links(tab, tiny_page):
    tab.open(tiny_page)
    tab.page.focus(".matrix .scroll")
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        tab.page.keyboard.press(key)
    assert re.search(r"“.*” and “.*”: attention [\d<.]+%$", tab.page.inner_text(".readout"))
    assert tab.page.locator(".word.source.lit, .word.target.lit").count() >= 1
    tab.page.keyboard.press("Enter")
    assert tab.run("explorer.app.state.panels[0].selected") == 1
    tab.page.hover(".word.source >> nth=0")
    assert tab.page.locator(".links path.lit").count() >= 1


def test_a_cell_of_both_matrices_has_both_numbers(tab, tiny_page):
    tab.open(tiny_page, "#v=both")
    settled(tab, "explorer.app.panels[0].matrix.drawn.length === 2")
    tab.page.focus(".matrix .scroll >> nth=1")
    tab.page.keyboard.press("ArrowRight")
    gradient = tab.run("explorer.app.panels[0].gradients[0][0].toFixed(3)")
    read = tab.page.inner_text(".readout")
    assert re.search(r"“.*” and “.*”: attention [\d<.]+%, gradient × input ", read)
    assert read.endswith(f" {gradient}")


@pytest.mark.slow
def test_the_reference_has_gold_links_and_an_error_rate(tab, tiny, tiny_page):
    from bahdanau_jax.alignment import alignment_scores
    from bahdanau_jax.explorer import example_sentences

    tab.open(tiny_page)
    tab.page.click("text=Show the reference")
    settled(tab, "document.querySelector('.golden strong') !== null")
    text = tab.page.inner_text(".golden strong")
    sentence = example_sentences.of_test_corpus(tiny)[0]
    assert sentence.reference and sentence.gold
    [aligned] = tiny.align([sentence.text], [sentence.reference], level="token")
    sure, possible = sentence.gold.sure, sentence.gold.possible
    expected = alignment_scores([aligned.links()], [sure], [possible]).aer
    assert text == f"AER {expected:.3f}"
    assert tab.page.locator(".matrix [stroke-dasharray]").count() == len(possible - sure)


@pytest.mark.slow
def test_two_runs_stand_side_by_side(tab, tiny, tmp_path):
    other = pages.run("fixed", seed=3, attention="none", order="groundhog")
    write_page(tiny, tmp_path / "page.html", other=other)
    tab.open(tmp_path / "page.html")
    boxes = [tab.page.locator(".panel").nth(i).bounding_box() for i in range(2)]
    assert boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] < boxes[1]["x"]
    line = tab.page.input_value("#sentence")
    found = [tab.page.inner_text(f".panel >> nth={i} >> .translation") for i in range(2)]
    assert found == [run.translate([line])[0].text for run in (tiny, other)]
    assert tab.page.inner_text(".panel >> nth=1 >> h2") == "fixed"


@pytest.mark.slow
def test_unknown_words_are_replaced_as_in_python(tab, tiny, tmp_path):
    from bahdanau_jax.decoding import replace_unknown

    line = "The Oomen-Ruijten of Kerberos sees it."
    params = {**tiny.params, "output": {**tiny.params["output"]}}
    params["output"]["b_w"] = params["output"]["b_w"].copy()
    params["output"]["b_w"][1] += 7
    run = pages.like(tiny, params=params)
    write_page(run, tmp_path / "page.html", [line])
    tab.open(tmp_path / "page.html")
    best = run.translate([line])[0]
    assert "<unk>" in best.tokens
    assert tab.run(TEXT) == best.text
    tab.page.check("#unknown")
    assert tab.run(TEXT) == replace_unknown(best, run.codecs, line).text


@pytest.mark.slow
def test_a_large_model_runs_where_it_is_served(tab, tiny, monkeypatch):
    monkeypatch.setattr(explorer_page, "LARGEST", 100)
    page = build_page([tiny], served=True)
    with started({"tiny": tiny}, pages=explore_command.pages(page)) as client:
        tab.page.goto(str(client.base_url))
        tab.ready()
    assert {url.rpartition("/")[2] for url in tab.requests} == {"", "weights-0.bin"}
    line = tab.page.input_value("#sentence")
    assert tab.run(TEXT) == tiny.translate([line])[0].text


@pytest.mark.slow
def test_recorded_translations_are_shown_where_the_model_is_too_large(
    tab, tiny, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(explorer_page, "LARGEST", 100)
    lines = pages.lines(3)
    page = write_page(tiny, tmp_path / "page.html", lines)
    assert "recorded translations instead" in capsys.readouterr().err and page.recorded
    tab.open(tmp_path / "page.html")
    for line in lines:
        tab.page.select_option("#example", label=line)
        settled(tab, f"explorer.app.state.sentence === {json.dumps(line)}")
        assert tab.run(TEXT) == tiny.translate([line])[0].text
    assert tab.page.locator(".node").count() and tab.page.locator(".matrix svg").count()
    assert not tab.page.locator("text=Look at nothing").count()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 400])
def test_axe_finds_nothing_serious_and_nothing_scrolls_sideways(browser, tiny_page, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe")
    tab = pages.Tab(
        browser, color_scheme=scheme, viewport={"width": width, "height": 800}, bypass_csp=True
    )
    tab.open(tiny_page, "#v=both")
    settled(tab, "explorer.app.panels[0].gradients !== null", 60)
    assert tab.run("document.documentElement.scrollWidth") <= width
    for prepare in (None, "#tour-open"):
        if prepare:
            tab.page.click(prepare)
            tab.page.wait_for_selector("#tour h2")
        found = axe.Axe().run(tab.page).response["violations"]
        serious = [v for v in found if v["impact"] in ("serious", "critical")]
        assert not serious, [(v["id"], [n["html"] for n in v["nodes"]][:3]) for v in serious]
    tab.close()
