"""More rows than JAX 0.10.2 computes correctly without the option of `compiler_faults`.

A batch of 32,771 sentences is compared with its parts of at most 8,192, in float64.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax.batch import START, Batch
from bahdanau_jax.model import encode, fold, start, teacher_forced
from bahdanau_jax.model.decoder import stepper
from bahdanau_jax.model.loss import sums
from tests.model.worlds import CONFIGS, compiled, parameters

ROWS, PART = 32_771, 8_192


def sentences(rows: int) -> Batch:
    rng = np.random.default_rng(0)
    source, target = rng.integers(1, 23, (rows, 2)), rng.integers(1, 29, (rows, 2))
    mask = np.stack([np.ones(rows, bool), rng.random(rows) < 0.5], 1)
    return Batch(source, mask, target, mask[::-1], np.ones(rows, np.float32))


def rows_of(name: str):
    """What the public functions make of each row, with the axis of rows first."""
    config = CONFIGS[name]

    def function(params, b: Batch):
        memory = encode(config, params, b.source, b.source_mask)
        first = jnp.full(len(b.source), START)
        folded = fold(config, params, memory)
        log_p, state, alpha = stepper(config, params, folded)(first, start(folded))
        return memory, tuple(teacher_forced(config, params, b)), log_p, state.s, alpha

    def gradient(params, b: Batch):
        """Its sum over rows, so that parts add up."""
        return jax.grad(lambda params: sums(config, params, b).loss)(params)

    return compiled(function), compiled(gradient)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "default",
        *(pytest.param(n, marks=pytest.mark.exhaustive) for n in ("groundhog", "dot", "tanh")),
    ],
)
def test_many_rows_are_computed_as_few(name):
    function, gradient = rows_of(name)
    batch = sentences(ROWS)
    parts = [
        jax.tree.map(lambda leaf, i=i: leaf[i : i + PART], batch) for i in range(0, ROWS, PART)
    ]
    few = parameters(CONFIGS[name], np.float32)
    many, many_gradients = function(few, batch), gradient(few, batch)
    with jax.enable_x64(True):
        exact = parameters(CONFIGS[name], np.float64)
        wide = [part._replace(weight=part.weight.astype(np.float64)) for part in parts]
        expected = [function(exact, part) for part in wide]
        expected = jax.tree.map(lambda *each: np.concatenate(each), *expected)
        grads = [gradient(exact, part) for part in wide]
        grads = jax.tree.map(lambda *each: sum(map(np.asarray, each)), *grads)
    for found, right in zip(*map(jax.tree.leaves, (many, expected)), strict=True):
        difference = np.abs(np.asarray(found, np.float64) - right)
        assert difference.max() <= 2e-5 * max(1, np.abs(right).max())
    for found, right in zip(*map(jax.tree.leaves, (many_gradients, grads)), strict=True):
        assert np.linalg.norm(np.asarray(found) - right) <= 1e-4 * np.linalg.norm(right)
