"""The page by keyboard alone: every control is reached, the focus is visible and is never lost."""

import pytest

from bahdanau_jax.explorer import explorer_page, write_page
from tests.explorer import pages
from tests.explorer.test_page_actions import TEXT, settled

FOCUSED = """() => {
  const { activeElement: at } = document, style = getComputedStyle(at);
  return { tag: at.tagName, kind: at.className, id: at.id, data: { ...at.dataset },
    text: at.getAttribute("aria-label") ?? at.textContent.trim(), outline: style.outlineStyle,
    width: parseFloat(style.outlineWidth), ...at.getBoundingClientRect().toJSON() };
}"""


def press(tab, *keys):
    for key in keys:
        tab.page.keyboard.press(key)
    return tab.run(FOCUSED)


def test_tab_reaches_every_control_and_shows_where_it_is(tab, tiny_page):
    tab.open(tiny_page)
    seen, last = [], None
    for _ in range(60):
        at = press(tab, "Tab")
        if at["tag"] == "BODY":
            break
        assert at["outline"] != "none" and at["width"] >= 2, at
        assert at["top"] >= -1 and at["bottom"] <= 851, at  # is inside of the window
        seen.append(at)
        last = at
    kinds = " ".join(f"{at['kind']} {at['id']} {at['text']}" for at in seen)
    for control in ("Guided tour", "sentence", "example", "beam", "unknown", "gold", "word source"):
        assert control in kinds, control
    for control in ("word target", "scroll", "Gradient", "PNG", "row", "Look at nothing", "node"):
        assert control in kinds, control
    assert last is not None and len(seen) < 45  # a group of words or rows is one stop
    assert tab.run("""() => [...document.querySelectorAll("button, input, select, textarea")]
      .filter((each) => each.getClientRects().length)
      .every((each) => each.labels?.length || each.textContent.trim() || each.ariaLabel)""")


def test_arrow_keys_walk_the_tree_and_enter_keeps_the_place(tab, tiny_page):
    tab.open(tiny_page)
    tab.run("document.querySelector('.node').focus()")
    root = press(tab, "Home")
    for number in range(4):
        if (right := press(tab, "ArrowRight"))["data"]["column"] == "1":
            break
        root = press(tab, "ArrowDown")
        assert root["data"]["column"] == "0" and number < 3
    assert right["data"]["parent"] == root["data"]["index"]
    assert press(tab, "ArrowLeft")["data"] == root["data"]
    below = press(tab, "ArrowDown")
    assert below["data"]["column"] == "0" and below["top"] > root["top"]
    assert press(tab, "ArrowUp")["data"] == root["data"]
    press(tab, "ArrowRight", "ArrowDown", "Enter")
    settled(tab, "explorer.app.state.panels[0].prefix.length === 2")
    settled(tab, "document.activeElement.dataset.column === '1'")
    assert "best" in tab.run(FOCUSED)["kind"]


def test_the_focus_stays_where_a_control_changes_the_page(tab, tiny_page):
    tab.open(tiny_page)
    tab.page.focus(".beam input")
    assert press(tab, "Space")["data"]["key"] == "rejected"
    tab.page.focus(".step [data-key=how-none]")
    press(tab, "Enter")
    settled(tab, "document.activeElement.dataset.key === 'how-none'")
    tab.page.focus(".step [data-key=how-null]")
    press(tab, "Enter")
    settled(tab, "document.querySelector('.step [data-key=how-null]') === null")
    assert tab.run("document.querySelector('.step').contains(document.activeElement)")
    count = tab.run("explorer.app.panels[0].chosen.steps.length")
    tab.page.focus(".step [data-key=after]")
    press(tab, *["Enter"] * count)
    assert tab.run("document.activeElement.dataset.key") == "before"
    tab.page.focus("text=Undo my changes") if tab.page.locator("text=Undo").count() else None
    tab.page.focus("#tour-open")
    press(tab, "Enter")
    tab.page.wait_for_selector("#tour h2")
    settled(tab, "document.activeElement.tagName === 'H2'")
    press(tab, "Escape")
    settled(tab, "document.activeElement.id === 'tour-open'")


def test_the_focus_and_the_cell_stay_where_the_gradients_appear(tab, tiny_page):
    tab.open(tiny_page)
    tab.page.focus(".matrix .scroll")
    press(tab, "ArrowRight", "ArrowRight")
    at, read = tab.run(
        "[explorer.app.panels[0].matrix.at, document.querySelector('.readout').textContent]"
    )
    tab.run("explorer.app.panels[0].showMatrix()")
    assert tab.run("document.querySelector('.readout').textContent") == read
    assert tab.run("document.activeElement.className") == "scroll"
    assert tab.run("explorer.app.panels[0].matrix.at") == at == [0, 1]


@pytest.mark.slow
def test_undo_leaves_the_focus_on_the_panel(tab, tiny_page):
    tab.open(tiny_page)
    tab.page.click("text=Look at nothing")
    settled(tab, "document.querySelector('.actions').textContent.includes('Undo')")
    tab.page.focus("text=Undo my changes")
    press(tab, "Enter")
    settled(tab, "!document.querySelector('.actions').textContent.includes('Undo')")
    assert tab.run("document.querySelector('.panel').contains(document.activeElement)")


@pytest.mark.slow
def test_the_tree_of_a_recorded_search_is_walked_too(tab, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(explorer_page, "LARGEST", 100)
    write_page(tiny, tmp_path / "page.html", pages.lines(1))
    tab.open(tmp_path / "page.html")
    assert "recorded translations" in tab.page.text_content("#about")
    before = tab.run(TEXT)
    tab.run("document.querySelector('.node').focus()")
    at = press(tab, "ArrowRight", "Enter")
    assert at["data"]["column"] in ("0", "1") and "node" in at["kind"]
    assert tab.run(TEXT) == before


@pytest.mark.slow
@pytest.mark.parametrize("width", [1200, 400])
def test_very_long_words_do_not_stretch_the_page(browser, tiny_page, width):
    tab = pages.Tab(browser, viewport={"width": width, "height": 800})
    tab.open(tiny_page)
    tab.page.fill("#sentence", "x" * 300 + " man")
    tab.page.click("#compose button")
    settled(tab, "explorer.app.panels[0].analysis.source.length === 3")
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run("document.querySelector('.matrix svg').height.baseVal.value") < (
        500 + 36 * tab.run("explorer.app.panels[0].chosen.steps.length")
    )
    tab.close()
