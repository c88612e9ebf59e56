"""The page as a file: its policy, its size, its data, and what it refuses."""

import base64
import dataclasses
import hashlib
import html
import json
import re
import shutil
import subprocess
from importlib import resources

import jax
import numpy as np
import pytest

from bahdanau_jax.alignment import gold
from bahdanau_jax.config import DecodingConfig
from bahdanau_jax.data.sources import tfds_download
from bahdanau_jax.explorer import build_page, example_sentences, explorer_page, write_page
from tests.explorer import pages

BROWSER = resources.files("bahdanau_jax.explorer").joinpath("browser")
SOURCES = {path.name: path.read_text(encoding="utf-8") for path in BROWSER.iterdir()}


def content(page):
    return json.loads(re.search(r'id="content">(.*?)</script>', page.html, re.S)[1])


def test_the_policy_allows_this_script_and_this_style_alone(tiny_page):
    page = tiny_page.read_text(encoding="utf-8")
    policy = html.unescape(re.search(r'Security-Policy" content="([^"]*)"', page)[1])
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    script = page[page.index('<script type="module">') + 22 : page.rindex("</script>")]
    style = re.search(r"<style>(.*?)</style>", page, re.S)[1]
    for rule, text in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert (rules["default-src"], rules["connect-src"]) == ("'none'", "'none'")
    # Only the names of XML's vocabularies look like addresses.
    assert set(re.findall(r"https?://[\w./-]+", script + style)) <= {"http://www.w3.org/2000/svg"}


def test_each_module_comes_after_those_that_it_imports():
    seen = set()
    for name in explorer_page.MODULES:
        imports = explorer_page.IMPORT.findall(SOURCES[f"{name}.js"])
        for names, module in imports:
            assert module in seen, f"{name} needs {module}"
            exported = explorer_page.EXPORT.findall(SOURCES[f"{module}.js"])
            assert {each.strip() for each in names.split(",") if each.strip()} <= set(exported)
        assert len(imports) == SOURCES[f"{name}.js"].count("import {")
        seen.add(name)
    assert {f"{name}.js" for name in seen} | {"explorer.css", "explorer.html"} == set(SOURCES)


def test_entities_of_the_examples_are_read_as_in_python():
    """The page itself replaces none; see `browser_text.remarks`."""
    given = example_sentences.given(["a &amp; b"], ["c &lt; d"])[0]
    read = example_sentences.unescaped(given)
    assert (read.text, read.reference) == ("a & b", "c < d")
    assert example_sentences.unescaped(example_sentences.given(["&gt;"])[0]).reference is None


def test_a_run_that_samples_is_shown_by_a_beam_search_and_the_page_says_so(tiny):
    sampled = pages.run("chance", decoding=DecodingConfig(method="sample"))
    searched, [remark] = (
        model["remarks"] for model in content(build_page([tiny, sampled]))["models"]
    )
    assert searched == []
    assert "chance draws its translations at random" in remark and "beam search" in remark


def test_modules_are_short_and_never_parse_html():
    for name, text in SOURCES.items():
        assert text.count("\n") <= 300, name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)


# The first line of a function, and statements that look like one.
FUNCTION = re.compile(r"^( *)(.*)(?:\) \{|=> \{|=> \()$")
STATEMENT = re.compile(r"(\} )?(if|else|for|while|switch|catch)\b")


def functions(text):
    """(number of the first line, lines) of each function; its end has the same indentation."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        first = FUNCTION.match(line)
        if first and not STATEMENT.match(first[2]):
            end = re.compile(rf"^{first[1]}[}})]")
            last = next(i for i in range(number + 1, len(lines)) if end.match(lines[i]))
            yield number + 1, last - number + 1


def test_functions_of_the_page_fit_a_screen():
    scripts = {name: text for name, text in SOURCES.items() if name.endswith(".js")}
    sizes = {(name, at): size for name, text in scripts.items() for at, size in functions(text)}
    assert len(sizes) > 100
    assert {place: size for place, size in sizes.items() if size > 40} == {}
    assert [n for n, text in scripts.items() if max(map(len, text.split("\n"))) > 150] == []


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_the_script_is_valid(tiny_page, tmp_path):
    page = tiny_page.read_text(encoding="utf-8")
    code = page[page.index('<script type="module">') + 22 : page.rindex("</script>")]
    (tmp_path / "page.mjs").write_text(code, encoding="utf-8")
    done = subprocess.run(
        ["node", "--check", tmp_path / "page.mjs"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_text_of_the_data_cannot_end_its_element(tiny):
    line = "</script><!-- \u2028 <script>alert(1)"
    page = build_page([tiny], [line])
    assert content(page)["sentences"][0]["text"] == line
    assert line not in page.html and page.html.count("<script") == 3


def test_the_page_opens_with_sentences_of_the_test_corpus_and_gold_links(tiny):
    found = content(build_page([tiny]))
    texts = [each["text"] for each in found["sentences"]]
    assert len(texts) == len(set(texts)) == example_sentences.EXAMPLES
    first, sentence = found["models"][0]["gold"][0], example_sentences.of_test_corpus(tiny)[0]
    assert {tuple(link) for link in first["sure"]} == sentence.gold.sure
    assert sorted(sum(first["source"], [])) == [*range(len(tiny.codecs[0].units(texts[0])) - 1)]


def test_gold_links_of_a_file_join_words_with_all_their_units(tiny):
    links = gold.read(["0-0 1?1"], "links")
    sentences = example_sentences.given(["It's here"], ["C'est ici"], links)
    data = example_sentences.gold_data(tiny, sentences[0])
    assert (data["source"], data["target"]) == ([[0, 1], [2]], [[0, 1], [2]])
    assert (data["sure"], data["possible"]) == ([[0, 0]], [[0, 0], [1, 1]])
    with pytest.raises(ValueError, match="of 1 sentences, but the text has 2"):
        example_sentences.given(["a", "b"], ["c", "d"], links)
    with pytest.raises(TypeError, match="expected a list of sentences, but got the text 'No way"):
        example_sentences.given("No way.")


def test_what_a_page_cannot_show_is_refused_in_one_line(tiny, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="an ensemble has no page"):
        write_page(pages.like(tiny, others=(tiny,)), tmp_path / "page.html")
    with pytest.raises(ValueError, match="0 sentences"):
        write_page(tiny, tmp_path / "page.html", references=["C'est ici"])
    monkeypatch.setattr(explorer_page, "LARGEST", 100)
    settings = pages.like(tiny.config, data=pages.like(tiny.config.data, test=""))
    bare = pages.like(tiny, config=settings)
    with pytest.raises(ValueError, match="parameters, and a page holds at most 100, and there are"):
        write_page(bare, tmp_path / "page.html")
    assert not any(tmp_path.iterdir())


def test_a_server_has_the_weights_of_a_large_model_as_a_file(tiny, monkeypatch):
    monkeypatch.setattr(explorer_page, "LARGEST", 100)
    page = build_page([tiny], served=True)
    assert not page.recorded and "connect-src &#x27;self&#x27;" in page.html
    weights = jax.tree.leaves(tiny.params)
    assert len(page.files["weights-0.bin"]) > 2 * sum(map(np.size, weights))
    assert len(page.html) < 400_000


def test_a_test_corpus_is_not_downloaded_for_examples(tiny, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(tfds_download, "prepare", lambda *_: pytest.fail("downloaded"))
    address = f"tfds:wmt14_paper/fr-en?data_dir={tmp_path}&split=test"
    config = dataclasses.replace(tiny.config.data, test=address)
    config = dataclasses.replace(tiny.config, data=config)
    run = dataclasses.replace(tiny, config=config)
    assert example_sentences.of_test_corpus(run) == []
    assert f"no examples: {address} is not on this machine" in caplog.text
