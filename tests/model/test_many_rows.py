"""More rows than JAX 0.10.2 computes correctly without the option of `compiler_faults`.

A batch of 32,771 sentences is compared with its parts of at most 8,192, in float64.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bahdanau_jax.batch import START, Batch
from bahdanau_jax.checkpoints import state_digest
from bahdanau_jax.checkpoints.state_digest import digests
from bahdanau_jax.config import DecodingConfig, OptimizerConfig
from bahdanau_jax.decoding import search_program
from bahdanau_jax.decoding.constraints import Rules
from bahdanau_jax.model import attribution, encode, fold, interventions, start, teacher_forced
from bahdanau_jax.model.decoder import stepper
from bahdanau_jax.model.link_weights import LINK_WEIGHTS
from bahdanau_jax.model.loss import sums
from bahdanau_jax.training import Telemetry
from bahdanau_jax.training.optimizer import make
from bahdanau_jax.training.step import init_state
from tests.model.worlds import CONFIGS, compiled, parameters

ROWS, PART = 32_771, 8_192


def sentences(rows: int) -> Batch:
    rng = np.random.default_rng(0)
    source, target = rng.integers(1, 23, (rows, 2)), rng.integers(1, 29, (rows, 2))
    mask = np.stack([np.ones(rows, bool), rng.random(rows) < 0.5], 1)
    return Batch(source, mask, target, mask[::-1], np.ones(rows, np.float32))


def forward(config, params, b: Batch):
    memory = encode(config, params, b.source, b.source_mask)
    first = jnp.full(len(b.source), START)
    folded = fold(config, params, memory)
    log_p, state, alpha = stepper(config, params, folded)(first, start(folded))
    return memory, tuple(teacher_forced(config, params, b)), log_p, state.s, alpha


def link_weights(name: str):
    def function(config, params, b: Batch):
        known = LINK_WEIGHTS[name].compute(config, params, b)
        return jnp.where(b.target_mask[..., None], known.alpha, 0)

    return function


def gradient_times_input(config, params, b: Batch):
    known, A = attribution.gradient_times_input(config, params, b)
    return known.alpha, jnp.where(b.target_mask[..., None], A, 0)


def intervened(config, params, b: Batch):
    """Under hard attention without the second word."""
    words = jnp.broadcast_to(jnp.array([False, True]), b.source.shape)
    change = interventions.mask(words)
    x = attribution.embedded(params, b)
    masked = attribution.predict(config, params, b, x, change)
    hard = attribution.predict(config, params, b, x, interventions.harden())
    return masked.alpha, masked.log_p, hard.alpha, hard.log_p


def translations(**settings):
    """Two translations of each sentence. Equal sources are sampled with equal keys."""

    def function(config, params, b: Batch):
        rules = Rules(jnp.full(len(b.source), 3, jnp.int32))
        inputs = search_program.Inputs(b.source, b.source_mask, rules, b.source, jnp.int32(1))
        decoding = DecodingConfig(**settings)
        result = search_program.search((config,), (params,), inputs, 3, decoding, 2)
        return result.score, result.log_probabilities, result.aux

    return function


FUNCTIONS = {
    "forward": ("default", forward),
    "forward, groundhog": ("groundhog", forward),
    "forward, dot": ("dot", forward),
    "forward, tanh": ("tanh", forward),
    "forward, local-p": ("local_p", forward),
    "forward, coverage": ("coverage", forward),
    "posterior": ("default", link_weights("posterior")),
    "shift": ("groundhog", link_weights("shift")),
    "saliency": ("default", link_weights("saliency")),
    "gradient times input": ("default", gradient_times_input),
    "interventions": ("default", intervened),
    "beam search": ("default", translations(beam_size=3)),
    "sampling": ("default", translations(method="sample")),
}


# Rounding may decide between two translations that are almost equally good.
DECIDED = {"beam search": 3, "sampling": 3}  # the largest number of sentences with another result


def marked(names, *slow: str):
    """All names as parameters: the slow ones, and others, which are exhaustive."""
    marks = pytest.mark.slow, pytest.mark.exhaustive
    return [pytest.param(name, marks=marks[name not in slow]) for name in names]


def parts_of(batch: Batch) -> list[Batch]:
    parts = [
        jax.tree.map(lambda leaf, i=i: leaf[i : i + PART], batch) for i in range(0, ROWS, PART)
    ]
    return [part._replace(weight=part.weight.astype(np.float64)) for part in parts]


@pytest.mark.parametrize("name", marked(FUNCTIONS, "forward", "beam search", "posterior"))
def test_many_rows_are_computed_as_few(name):
    variant, function = FUNCTIONS[name]
    config, batch = CONFIGS[variant], sentences(ROWS)
    many = function_of(config, function)(parameters(config, np.float32), batch)
    with jax.enable_x64(True):
        exact = parameters(config, np.float64)
        expected = [function_of(config, function)(exact, part) for part in parts_of(batch)]
        expected = jax.tree.map(lambda *each: np.concatenate(each), *expected)
    others = np.zeros(ROWS, bool)
    for found, right in zip(*map(jax.tree.leaves, (many, expected)), strict=True):
        assert found.shape == right.shape and len(right) == ROWS
        largest = np.abs(right[np.isfinite(right)]).max()
        near = np.isclose(found, right, rtol=0, atol=2e-5 * max(1, largest))
        others |= ~near.reshape(ROWS, -1).all(1)
    assert others.sum() <= DECIDED.get(name, 0)


def function_of(config, function):
    return compiled(lambda params, batch: function(config, params, batch))


@pytest.mark.parametrize(
    "name", marked(["default", "groundhog", "dot", "tanh", "coverage"], "default", "groundhog")
)
def test_the_gradient_of_many_rows_is_the_sum_of_few(name):
    config, batch = CONFIGS[name], sentences(ROWS)

    def gradient(config, params, b: Batch):
        return jax.grad(lambda params: sums(config, params, b).loss)(params)

    many = function_of(config, gradient)(parameters(config, np.float32), batch)
    with jax.enable_x64(True):
        exact = parameters(config, np.float64)
        few = [function_of(config, gradient)(exact, part) for part in parts_of(batch)]
        few = jax.tree.map(lambda *each: sum(map(np.asarray, each)), *few)
    for found, right in zip(*map(jax.tree.leaves, (many, few)), strict=True):
        assert np.linalg.norm(np.asarray(found) - right) <= 1e-4 * np.linalg.norm(right)


@pytest.mark.slow
def test_statistics_and_digests_of_many_rows(monkeypatch):
    """Of a table of embeddings with this number of words, after an update of its optimiser."""
    config = OptimizerConfig()
    rng = np.random.default_rng(0)
    draw = lambda: jnp.asarray(rng.normal(0, 1, (ROWS, 5)), jnp.float32)  # noqa: E731
    params, gradient = {"E": draw()}, {"E": draw()}
    tx = make(config, 10)
    state = init_state(params, tx, jax.random.key(0), config)
    updates, opt_state = compiled(tx.update)(gradient, state.opt_state, params)
    g = np.asarray(gradient["E"], np.float64)
    e_g = (1 - config.rho) * np.square(g)
    np.testing.assert_allclose(optax.tree.get(opt_state, "e_g")["E"], e_g, rtol=1e-4)
    moved = optax.apply_updates(params, updates)
    measured = Telemetry(config, 10).measure(
        state.replace(params=moved, opt_state=opt_state, step=jnp.int32(1))
    )
    e_x = np.asarray(optax.tree.get(opt_state, "e_x")["E"], np.float64)
    ratio = np.sqrt((e_x / (1 - config.rho)).sum()) / np.linalg.norm(np.asarray(moved["E"]))
    assert float(measured["update_to_weight"]) == pytest.approx(ratio, rel=1e-4)
    rms = np.sqrt((e_g / (1 - config.rho)).mean())
    assert float(measured["gradient_rms"]) == pytest.approx(rms, rel=1e-4)
    below = np.mean(e_g / (1 - config.rho) < config.epsilon)
    assert float(measured["below_epsilon"]) == pytest.approx(below, abs=1e-5)
    whole, halves = digests({"E": moved["E"]}), np.array_split(np.asarray(moved["E"]), 9)
    again = jnp.concatenate([jnp.asarray(part) for part in halves])
    assert whole == digests({"E": again}) == {"E": digest_by_hand(np.asarray(again))}
    monkeypatch.setattr(state_digest, "_SMALL", 0)  # then a program computes it
    assert digests({"E": again}) == whole


def digest_by_hand(array: np.ndarray) -> int:
    """Σ bits(x_i) · odd(i) modulo 2³², with the finaliser of MurmurHash3 as odd."""
    i = np.arange(array.size, dtype=np.uint32)
    for bits, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        i = (i ^ (i >> np.uint32(bits))) * np.uint32(factor)
    odd = (i ^ (i >> np.uint32(16))) | np.uint32(1)
    words = array.ravel().view(np.uint32).astype(np.uint64)
    return int((words * odd).sum(dtype=np.uint64) % 2**32)
