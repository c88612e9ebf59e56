"""The files that a reader saves: pictures of the matrices, and the translation as JSON."""

import json
import re
from xml.etree import ElementTree

import pytest

from bahdanau_jax.config import DecodingConfig
from bahdanau_jax.explorer import write_page
from bahdanau_jax.hypothesis import Hypothesis
from tests.explorer import pages
from tests.explorer.test_page_actions import settled


@pytest.fixture(scope="module")
def silent_page(tmp_path_factory):
    """A model that ends its translation at once."""
    run = pages.run("silent", decoding=DecodingConfig(beam_size=1))
    run.params["output"]["b_w"][0] = 50.0  # EOS
    path = tmp_path_factory.mktemp("silent") / "page.html"
    write_page(run, path, ["The \ufffe man \x01 sleeps ."])
    return path


def saved(tab, kind, path):
    with tab.page.expect_download() as download:
        tab.page.click(f".files >> text={kind}")
    download.value.save_as(path / kind)
    return (path / kind).read_bytes()


def test_pictures_are_offered_where_there_is_one(tab, tiny_page, tmp_path):
    tab.open(tiny_page)
    disabled = """() => {
      document.querySelector("[data-view=gradient]").click();
      return [...document.querySelectorAll(".files button")].map((each) => each.disabled);
    }"""
    assert tab.run(disabled) == [True, True, False, False]
    settled(tab, "!document.querySelector('.files button').disabled")
    cells = saved(tab, "SVG", tmp_path).decode().count("data-cell")
    tab.page.click("[data-view=both]")
    settled(tab, "explorer.app.panels[0].matrix.drawn.length === 2")
    both = saved(tab, "SVG", tmp_path).decode()
    assert both.count("data-cell") == 2 * cells
    assert re.search(r"rgb\(\d+, \d+, \d+\)", both) and not re.search(r"rgb\(\d+ ", both)
    assert saved(tab, "PNG", tmp_path).startswith(b"\x89PNG")


def test_a_picture_that_the_browser_refuses_is_a_fault_and_no_file(browser, tiny_page):
    tab = pages.Tab(browser)
    tab.open(tiny_page)
    files = []
    tab.page.on("download", lambda file: files.append(file))
    tab.run("() => { HTMLCanvasElement.prototype.toBlob = (done) => done(null); }")
    tab.page.click(".files >> text=PNG")
    fault = "cannot make a picture of this size"
    settled(tab, f"document.querySelector('#fault').textContent.includes('{fault}')")
    assert not files and fault in tab.faults[0]
    tab.faults.clear()
    tab.close()


@pytest.mark.slow
def test_a_picture_has_no_marks_of_the_page(tab, tiny_page, tmp_path):
    tab.open(tiny_page)
    files = []
    for row in (0, 1):
        tab.page.click(f".word.target >> nth={row}")
        files.append([saved(tab, kind, tmp_path) for kind in ("SVG", "PNG")])
    assert files[0] == files[1]


def test_files_have_the_text_of_the_model_and_are_valid_xml(tab, silent_page, tmp_path):
    tab.open(silent_page)
    data = json.loads(saved(tab, "JSON", tmp_path))
    best = Hypothesis.from_json(data)
    assert (best.text, best.tokens) == ("", ("</s>",))
    assert set(data) == set(best.to_json())
    assert data["confidence"] == pytest.approx(best.confidence)
    ElementTree.fromstring(saved(tab, "SVG", tmp_path))
    assert saved(tab, "PNG", tmp_path).startswith(b"\x89PNG")


def test_links_of_a_translation_without_an_end_have_its_last_word(tab, tmp_path):
    run = pages.run("endless", decoding=DecodingConfig(beam_size=1, max_ratio=1.0))
    run.params["output"]["b_w"][0] = -50.0  # EOS
    write_page(run, tmp_path / "page.html", ["The man saw a house ."])
    tab.open(tmp_path / "page.html")
    links = saved(tab, "Pharaoh", tmp_path).decode().split()
    steps = tab.run("explorer.app.panels[0].chosen.steps.map(({ symbol }) => symbol)")
    assert "</s>" not in steps
    assert sorted(int(link.split("-")[1]) for link in links) == [*range(len(steps))]
