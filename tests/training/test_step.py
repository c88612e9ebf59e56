"""One update: normalisation, skips, averages, compilations, and several devices."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bahdanau_jax import distributed
from bahdanau_jax.batch import Batch
from bahdanau_jax.config import Config, OptimizerConfig, TrainingConfig
from bahdanau_jax.distributed import backends
from bahdanau_jax.training import Trainer
from bahdanau_jax.training import step as stepping
from bahdanau_jax.training.optimizer import make
from bahdanau_jax.training.step import init_state, train_step
from tests.model import worlds
from tests.training import toy


def host(tree):
    """A copy that stays valid after donation."""
    return jax.tree.map(lambda leaf: np.array(leaf), tree)


def filled(step: int) -> Batch:
    """A batch with three filler rows."""
    batch, real = toy.batch(step), np.arange(toy.ROWS) < toy.ROWS - 3
    masks = [mask & real[:, None] for mask in (batch.source_mask, batch.target_mask)]
    return Batch(batch.source, masks[0], batch.target, masks[1], real.astype(np.float32))


@pytest.mark.parametrize("scale", stepping.LOSS_NORMALIZATIONS)
@pytest.mark.parametrize("limit", [0.0, 0.7])
def test_loss_scale(scale, limit):
    """Plain gradient descent shows the gradient: it is the sum's, divided and clipped."""
    tx, config = optax.sgd(1.0), OptimizerConfig(loss_normalization=scale, clip_norm=limit)
    batch, state = (
        filled(0),
        init_state(toy.init(), optax.sgd(1.0), jax.random.key(3), config),
    )
    key = jax.random.fold_in(state.key, 0)
    key = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(toy.ROWS))
    whole = jax.grad(lambda p: toy.loss_fn(p, batch, key).loss)(state.params)
    before = host(state.params)
    state, sums = train_step(toy.loss_fn, tx, config)(state, batch)
    divisor = {"sum": 1, "sentence": toy.ROWS - 3, "token": batch.target_mask.sum()}[scale]
    norm = np.sqrt(sum((np.asarray(g) ** 2).sum() for g in jax.tree.leaves(whole))) / divisor
    assert float(sums.gradient_norm) == pytest.approx(norm, rel=1e-5)
    assert float(sums.clipped) == (0 < limit < norm)
    factor = min(1, limit / norm) if limit else 1
    for old, new, gradient in zip(
        *map(jax.tree.leaves, (before, state.params, whole)), strict=True
    ):
        np.testing.assert_allclose(old - new, gradient * factor / divisor, rtol=1e-5, atol=1e-6)


def test_the_norm_of_millions_of_numbers_is_exact():
    """One sum of them all, as the update's program would compute it, loses 0.2 to 2 percent."""
    leaf = np.random.default_rng(1).normal(size=(30_000, 620)).astype(np.float32)
    params = {"E": leaf, "b": np.float32([3, 0]), "scale": np.float32(4)}
    expected = np.sqrt(np.sum(leaf.astype(np.float64) ** 2) + 25)

    def squares(params, batch, keys):
        """Half of them: the gradient is the parameters themselves."""
        loss = sum(jnp.vdot(leaf, leaf) for leaf in params.values()) / 2
        return toy.Sums(loss, loss, jnp.ones(()), jnp.ones(()), batch.weight.sum())

    tx, config = optax.sgd(1.0), OptimizerConfig(loss_normalization="sum")
    backend = distributed.Jit(distributed.mesh(jax.local_devices()[:1]))
    state = init_state(jax.tree.map(jnp.asarray, params), tx, jax.random.key(3), config)
    step = train_step(squares, tx, config, backend)
    _, sums = step(backend.place(state), backend.feed(toy.batch(0)))
    assert abs(float(sums.gradient_norm) / expected - 1) < 1e-5


def test_a_clip_norm_above_float32_changes_no_weights():
    """`config.faults` refuses it; a program with its own configuration has no such check."""
    config = OptimizerConfig(clip_norm=float("inf"))
    state = init_state(toy.init(), optax.sgd(1.0), jax.random.key(3), config)
    before = host(state.params)
    state, sums = train_step(toy.loss_fn, optax.sgd(1.0), config)(state, toy.batch(0))
    assert (float(sums.skipped), float(sums.updates)) == (1, 0)
    jax.tree.map(np.testing.assert_array_equal, host(state.params), before)


def test_all_seeds_draw_their_weights_by_one_program():
    """The compiled program of one seed is found on disk by the others."""

    def program(seed):
        config = Config(model=worlds.CONFIGS["paper"], training=TrainingConfig(seed=seed))
        drawing = jax.make_jaxpr(Trainer(config).begin)().eqns[-1]
        return str(drawing.params["jaxpr"])

    assert "seed" not in program(1)  # no number is seeded inside, where the seed is a constant
    assert program(1) == program(2)


@pytest.mark.slow
def test_an_accelerator_never_asks_the_host_within_an_update(monkeypatch):
    """No branch, no call back, and only loops of a known length: a CUDA graph can hold it."""
    monkeypatch.setattr(backends, "BLOCKS", {})  # as on all but a CPU
    network = dataclasses.replace(worlds.CONFIGS["paper"], readout_dropout=0.5)
    trainer = Trainer(Config(model=network, training=TrainingConfig(accumulate=2)))
    program = trainer.update.trace(trainer.begin(), worlds.batch(worlds.pairs(count=4))).jaxpr
    found = {equation.primitive.name for equation in worlds.equations(program)}
    assert "scan" in found
    assert not [name for name in found if name in ("cond", "while") or "callback" in name]


def test_dropout_changes_from_step_to_step():
    state, step = toy.parts(OptimizerConfig(learning_rate=1e-30))
    losses = []
    for _ in range(3):
        state, sums = step(state, toy.batch(0))
        losses.append(float(sums.loss))
    assert len(set(losses)) == 3


@pytest.mark.parametrize("name", ["adadelta", "adam"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_non_finite_gradient_changes_nothing(name, value):
    config = OptimizerConfig(name=name, ema=0.9)
    state, step = toy.parts(config)
    for i in range(2):
        state, _ = step(state, toy.batch(i))
    before = host((state.params, state.opt_state, state.ema))
    poison = Batch(*toy.batch(2)[:4], np.full(toy.ROWS, value, np.float32))
    for count in (1, 2):
        state, sums = step(state, poison)
        assert (int(state.nonfinite), int(state.skipped), int(state.step)) == (
            count,
            count,
            2 + count,
        )
        assert (float(sums.skipped), float(sums.updates), float(sums.loss)) == (1, 0, 0)
    after = host((state.params, state.opt_state, state.ema))
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        assert old.tobytes() == new.tobytes()
    state, sums = step(state, toy.batch(4))
    assert (int(state.nonfinite), int(state.skipped)) == (0, 2)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(host(state.opt_state)))
    assert float(sums.updates) == 1


def infinite_loss(params, batch, key):
    found = toy.loss_fn(params, batch, None)
    return found._replace(loss=found.loss + jax.lax.stop_gradient(jnp.inf))


def infinite_norm(params, batch, key):
    """Squares overflow: clipping would divide by infinity."""
    found = toy.loss_fn(params, batch, None)
    return found._replace(loss=1e25 * found.loss)


@pytest.mark.parametrize("loss_fn", [infinite_loss, infinite_norm])
def test_a_finite_gradient_of_an_infinite_loss_or_norm_is_skipped_too(loss_fn):
    state, _ = toy.parts()
    before = host(state.params)
    tx = make(toy.OPTIMIZER, 10)
    state, sums = train_step(loss_fn, tx, toy.OPTIMIZER)(state, toy.batch(0))
    assert float(sums.skipped) == 1
    assert jax.tree.all(jax.tree.map(np.array_equal, before, host(state.params)))


def test_average_of_the_weights():
    state, step = toy.parts(OptimizerConfig(ema=0.15))
    expected = host(state.params)
    poison = Batch(*toy.batch(2)[:4], np.full(toy.ROWS, np.nan, np.float32))
    state, _ = step(state, poison)  # which counts for nothing
    for n in range(4):
        state, _ = step(state, toy.batch(n))
        d = min(0.15, (1 + n) / (10 + n))
        expected = jax.tree.map(lambda e, p, d=d: d * e + (1 - d) * p, expected, host(state.params))
    for ours, theirs in zip(*map(jax.tree.leaves, (state.weights, expected)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    plain, _ = toy.parts(OptimizerConfig())
    assert plain.weights is plain.params


def test_the_second_step_compiles_nothing():
    counted = []
    traced = lambda *args: counted.append(1) or toy.loss_fn(*args)  # noqa: E731
    tx = make(toy.OPTIMIZER, 10)
    step = train_step(traced, tx, toy.OPTIMIZER)
    state = toy.parts()[0]
    for i in range(4):
        state, _ = step(state, toy.batch(i))
        assert (step._cache_size(), len(counted)) == (1, 1)
    state, _ = step(state, toy.batch(0, rows=5))  # another shape: one more program
    assert (step._cache_size(), len(counted)) == (2, 2)


def test_the_state_is_donated():
    state, step = toy.parts()
    step(state, toy.batch(0))
    assert state.params["embedding"].is_deleted()


def test_counts():
    state, step = toy.parts()
    batch = filled(0)
    _, sums = step(state, batch)
    assert float(sums.words) == batch.target_mask.sum()
    assert float(sums.tokens) == batch.source_mask.sum() + batch.target_mask.sum()
    assert float(sums.positions) == batch.source.size + batch.target.size


def test_unknown_loss_scale():
    config = dataclasses.replace(toy.OPTIMIZER, loss_normalization="mean")
    with pytest.raises(
        ValueError, match="no optimizer.loss_normalization 'mean'; known: sentence, sum, token"
    ):
        train_step(toy.loss_fn, optax.sgd(1.0), config)
