"""Results of a GPU or TPU, compared with this machine's CPU: `make accelerator`.

Products are made in full float32 for it, where a test does not say otherwise.
"""

import dataclasses

import jax
import numpy as np
import pytest

from bahdanau_jax import run
from bahdanau_jax.batch import pad
from bahdanau_jax.config import DecodingConfig
from bahdanau_jax.decoding.constraints import Rules
from bahdanau_jax.decoding.search_program import Inputs, search
from benchmarks import device_comparison
from benchmarks.device_comparison import (
    LOSSES,
    PAPER,
    TRANSLATIONS,
    accelerator,
    by,
    cpu,
    losses,
)
from tests import across
from tests.model import worlds

VARIANTS = 1e-4  # of gradients; float32 and float64 of a CPU differ by 8e-6 at most

if jax.default_backend() == "cpu":
    pytest.skip(
        "JAX finds no GPU or TPU, or is not to look for one: `make accelerator` lets it",
        allow_module_level=True,
    )


def test_a_run_that_goes_on_loses_no_bit(tmp_path):
    """`make accelerator` sets the compiler option for sums in a fixed order on a GPU."""

    def train(name: str, steps: int):
        changed = dataclasses.replace(across.config.training, steps=steps)
        trained = run.train(dataclasses.replace(across.config, training=changed), tmp_path / name)
        return jax.device_get(trained.params)

    whole = train("whole", across.STEPS)
    train("halves", across.HALF)
    halves = train("halves", across.STEPS)
    for a, b in zip(*map(jax.tree.leaves, (whole, halves)), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", worlds.CONFIGS)
def test_every_variant_has_the_gradients_of_a_cpu(name):
    config = worlds.CONFIGS[name]

    def gradients(params, batch):
        return device_comparison.gradients(config, params, batch)

    given = worlds.parameters(config), worlds.batch(worlds.pairs(count=7), 2, 3, 1)
    ours, theirs = (by(device, gradients, *given) for device in (accelerator(), cpu()))
    assert device_comparison.relative(ours, theirs) <= VARIANTS


@pytest.mark.parametrize("compute_dtype", LOSSES)
def test_updates_of_the_papers_size_go_as_on_a_cpu(compute_dtype):
    """Products in the default precision of this device, which may round their factors."""
    ours = losses(dataclasses.replace(PAPER, compute_dtype=compute_dtype), accelerator())
    theirs = device_comparison.losses_of_cpu(PAPER)
    assert theirs[-1] < theirs[0] - 0.1
    np.testing.assert_allclose(ours, theirs, rtol=LOSSES[compute_dtype])


@pytest.mark.parametrize("beam_size", [1, 5])
def test_search_finds_the_hypotheses_of_a_cpu(beam_size):
    config = worlds.CONFIGS["default"]
    source, mask = pad([x for x, _ in worlds.pairs(seed=3, count=9)], 7)
    rules = Rules(np.full(len(source), 11, np.int32))
    inputs = Inputs(source, mask, rules, np.zeros((len(source), 2), np.int32), np.int32(1))
    decoding = DecodingConfig(beam_size=beam_size, length_normalization="wu")

    def found(params, inputs):
        return search((config,), (params,), inputs, 11, decoding, 1)

    given = worlds.parameters(config), inputs
    ours, theirs = by(accelerator(), found, *given), by(cpu(), found, *given)
    np.testing.assert_array_equal(ours.tokens, theirs.tokens)
    np.testing.assert_allclose(ours.score, theirs.score, rtol=TRANSLATIONS)
    np.testing.assert_allclose(ours.aux, theirs.aux, atol=TRANSLATIONS)
