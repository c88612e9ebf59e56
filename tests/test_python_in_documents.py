"""The Python blocks of the documents run, in the order of their page, with a trained run."""

import dataclasses
import functools
import os
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model import cells, decoder, encoder, initialization, orders
from bahdanau_jax.model.loss import loss
from tests.model import worlds

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCUMENTS = [ROOT / "README.md", ROOT / "docs/index.md", *sorted(ROOT.glob("docs/howto/*.md"))]
PAGES = {
    str(path.relative_to(ROOT)): blocks
    for path in DOCUMENTS
    if (blocks := BLOCK.findall(path.read_text(encoding="utf-8")))
}
NOT_RUN = {
    "docs/howto/own-decoder.md": "excerpts of files of the package, which have a test of their own",
    "docs/howto/own-optimiser.md": "an excerpt of a file of the package",
    "docs/howto/received-runs.md": "it needs a run of another person",
    "docs/howto/serve.md": "it serves until it is stopped",
    "docs/howto/sweeps.md": "it trains twenty models",
    "docs/howto/watch-a-run.md": "it trains the quickstart",
}


def test_the_pages_that_are_not_run_exist():
    assert set(NOT_RUN) < set(PAGES)


def test_the_excerpts_of_an_own_decoder_fit_their_files():
    own_cell, own_order = PAGES["docs/howto/own-decoder.md"]
    names = dict(vars(cells))
    exec(own_cell, names)
    assert isinstance(names["MINIMAL"], cells.Cell)
    names = dict(vars(orders))
    exec(own_order, names)
    assert isinstance(orders.Order(names["_smoothed"], is_linear=True), orders.Order)


@pytest.mark.slow
def test_the_cell_and_the_order_of_the_page_have_the_gradients_of_autodiff(monkeypatch):
    own_cell, own_order = PAGES["docs/howto/own-decoder.md"]
    of_cell, of_order = dict(vars(cells)), dict(vars(orders))
    exec(own_cell, of_cell)
    exec(own_order, of_order)
    own = {
        "CELLS": cells.CELLS | {"minimal": of_cell["MINIMAL"]},
        "ORDERS": orders.ORDERS | {"smoothed": orders.Order(of_order["_smoothed"], is_linear=True)},
    }
    own["VARIANTS"] = initialization.VARIANTS | {"cell": own["CELLS"], "order": own["ORDERS"]}
    for module in (decoder, encoder, initialization):
        for name in own.keys() & vars(module).keys():
            monkeypatch.setattr(module, name, own[name])
    config = ModelConfig(**worlds.SIZES, cell="minimal", order="smoothed")
    with jax.enable_x64():
        params = jax.tree.map(jnp.asarray, worlds.parameters(config, np.float64))
        batch = worlds.on_device(worlds.batch(worlds.pairs()))
        deferred, autodiff = (
            jax.grad(functools.partial(loss, dataclasses.replace(config, gradients=how)))(
                params, batch
            )
            for how in ("deferred", "autodiff")
        )
    for one, other in zip(jax.tree.leaves(deferred), jax.tree.leaves(autodiff), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    assert all(map(np.any, jax.tree.leaves(autodiff)))


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(PAGES))
def test_the_blocks_of_a_page_run(page, trained, tmp_path, monkeypatch):
    names = {"__name__": page}
    blocks = [compile(each, page, "exec") for each in PAGES[page]]
    if page in NOT_RUN:
        pytest.skip(NOT_RUN[page])
    monkeypatch.chdir(tmp_path)
    os.makedirs("runs")
    os.symlink(trained[0], "runs/quickstart")
    for block in blocks:
        exec(block, names)
