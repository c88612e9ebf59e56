"""Small models as runs, and the pages of them in a browser."""

import contextlib
import dataclasses
import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from bahdanau_jax import data
from bahdanau_jax.config import Config, DataConfig, DecodingConfig, ModelConfig
from bahdanau_jax.data.tokens.codec import tokenize
from bahdanau_jax.data.tokens.tokenizer import TOKENIZERS
from bahdanau_jax.data.tokens.vocabulary import VOCABULARIES
from bahdanau_jax.explorer import explorer_page
from bahdanau_jax.trained import Run
from tests.model.worlds import parameters

BROWSERS = "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"
CORPUS = "builtin:en-fr/test?pairs=60&min=4&max=9"
SEARCH = DecodingConfig(beam_size=3, min_ratio=0.5)  # random models end at once otherwise
SIZES = dict(embedding_size=11, hidden_size=13, alignment_size=7, readout_size=17)


def codecs(config: DataConfig, size: int = 400) -> tuple[data.Codec, data.Codec]:
    """Codecs that are learned from the built-in corpus."""
    pairs = list(data.pairs("builtin:en-fr/train?pairs=300&max=9", config))
    kind, made = VOCABULARIES[config.vocabulary], []
    for side in ("source", "target"):
        tokenizer = TOKENIZERS[config.tokenizer](getattr(config, f"{side}_language"))
        lines = [tokenize(config, tokenizer, getattr(pair, side)) for pair in pairs]
        learned = kind.learn(lines, config, size, f"data.{side}_vocabulary_size")
        made.append(data.Codec(config, tokenizer, learned))
    return made[0], made[1]


def run(
    name: str = "tiny", seed: int = 0, decoding: DecodingConfig | None = None, **settings: Any
) -> Run:
    """A model with random weights, which ends its sentences after some words."""
    config = DataConfig(train=CORPUS, test=CORPUS)
    pair = codecs(config)
    sizes = {
        "source_vocabulary": len(pair[0].vocabulary),
        "target_vocabulary": len(pair[1].vocabulary),
    }
    model = ModelConfig(**{**SIZES, **sizes, **settings})
    whole = Config(model=model, data=config, decoding=decoding or SEARCH)
    params = parameters(model, seed=seed, scale=0.5)
    params["output"]["W_o"] *= 0.15
    params["output"]["b_w"][0] += 3.5  # EOS
    params["output"]["b_w"][1] -= 2.0  # UNK
    return Run(Path(name), whole, pair, params)


def like(first: Run, **fields: Any) -> Run:
    return dataclasses.replace(first, **fields)


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """A browser; without one, the test is skipped, or fails where BAHDANAU_TESTS_BROWSER is set."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        program = next(filter(None, map(shutil.which, (*BROWSERS, own))), None)
        if program is None:
            assert not os.environ.get("BAHDANAU_TESTS_BROWSER"), "there is no chromium"
            pytest.skip("there is no chromium")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


class Tab:
    """A page in the browser, which fails at errors of scripts and at requests."""

    def __init__(self, browser: Any, **context: Any):
        self.faults: list[str] = []
        options = {"viewport": {"width": 1200, "height": 850}, "reduced_motion": "reduce"}
        self.context = browser.new_context(**{**options, **context})
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", self._console)
        self.requests: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(message.text)

    def open(self, path: Path, fragment: str = "") -> "Tab":
        self.page.goto(f"{path.as_uri()}{fragment}")
        return self.ready()

    def ready(self) -> "Tab":
        self.page.wait_for_selector("html[data-ready]", timeout=60_000)
        return self

    def run(self, code: str, argument: Any = None) -> Any:
        """The value of an (asynchronous) function of `argument` in the page."""
        return self.page.evaluate(code, argument)

    def close(self) -> None:
        self.context.close()
        assert not self.faults, self.faults


def modules(browser: Any) -> Tab:
    """An empty page with the modules of the explorer, as `modules`."""
    folder = resources.files("bahdanau_jax.explorer").joinpath("browser")
    names: Sequence[str] = explorer_page.MODULES[: explorer_page.MODULES.index("elements")]
    code = explorer_page.script(
        {name: folder.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in names}
    )
    tab = Tab(browser)
    tab.page.add_script_tag(content=f"{code}\nglobalThis.modules = modules;")
    return tab


def lines(count: int, address: str = CORPUS) -> list[str]:
    pairs = data.pairs(address, DataConfig(train=CORPUS))
    return [pair.source for pair in itertools.islice(pairs, count)]
