"""Measures the explorer's page of a run in a browser, as JSON.

python docs/explorer/measure.py runs/quickstart

It prints the size of the page, words a second, and the time from its opening to the first
translation (the median of five). It also prints the largest difference of a log-probability from
Python: of all words at each step of 50 reference translations. Python has the rounded weights or
the original ones, and float32 products as the page, or those of the run.
"""

import dataclasses
import itertools
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import jax
import numpy as np
from playwright.sync_api import sync_playwright

from bahdanau_jax import data, model
from bahdanau_jax.batch import START
from bahdanau_jax.config import ModelConfig
from bahdanau_jax.explorer import packed_weights, write_page
from bahdanau_jax.trained import Run, load

SENTENCES, OPENINGS = 50, 5
SPEED = """async ([lines, beam]) => {
  const start = performance.now();
  let words = 0;
  for (const line of lines) {
    const settings = { beam, prefix: [], changes: {} };
    const { hypotheses } = await explorer.engines[0].translate(line, settings);
    words += hypotheses[0].steps.length;
  }
  return words / (performance.now() - start) * 1000;
}"""
FORCE = "([x, y]) => explorer.engines[0].force(x, y).map(({ logP }) => [...logP])"


def main(folder: str) -> None:
    run = load(folder)
    address = data.corpora(run.config.data.test)[0].address
    pairs = [*itertools.islice(data.pairs(address, run.config.data), SENTENCES)]
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        path = Path(temporary, "page.html")
        write_page(run, path)
        program = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        times = []
        for _ in range(OPENINGS):
            page = browser.new_page(reduced_motion="reduce")
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-ready]", timeout=120_000)
            times.append(float(page.evaluate("document.documentElement.dataset.ready")))
        lines = [pair.source for pair in pairs]
        result = {
            "megabytes": path.stat().st_size / 1e6,
            "first_translation_ms": statistics.median(times),
            "words_per_second": {
                f"beam {beam}": page.evaluate(SPEED, [lines, beam]) for beam in (1, 5)
            },
            "largest_difference": differences(run, pairs, page),
        }
        browser.close()
    print(json.dumps(result, indent=2))


def differences(run: Run, pairs: list[data.Pair], page) -> dict[str, float]:
    """The largest difference of a log-probability, with each kind of weights and products."""
    exact = dataclasses.replace(run.config.model, compute_dtype="float32")
    kinds = {
        "rounded weights": (exact, packed_weights.rounded(run.params)),
        "weights": (exact, run.params),
        "weights, products of the run": (run.config.model, run.params),
    }
    largest = dict.fromkeys(kinds, 0.0)
    for pair in pairs:
        ids = [run.codecs[0].encode(pair.source), run.codecs[1].encode(pair.target)]
        found = np.array(page.evaluate(FORCE, ids))
        for name, (config, params) in kinds.items():
            expected = log_probabilities(config, params, *ids)
            largest[name] = max(largest[name], float(np.abs(found - expected).max()))
    return largest


def log_probabilities(
    config: ModelConfig, params: model.Params, source: list[int], target: list[int]
) -> np.ndarray:
    """log p of all words [T, V] at each step of the target."""
    ids = np.array([source], np.int32)
    memory = model.encode(config, params, ids, np.ones(ids.shape, bool))
    step, state, rows = model.predictor(config, params, memory), model.start(memory), []
    for token in [START, *target[:-1]]:
        words, state, _ = step(np.array([token], np.int32), state)
        rows.append(np.asarray(words.log_p)[0])
    return np.array(rows)


if __name__ == "__main__":
    jax.config.update("jax_default_matmul_precision", "highest")
    main(sys.argv[1])
