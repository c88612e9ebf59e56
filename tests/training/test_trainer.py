"""What a training applies of its settings: the loss, the schedule, the checkpoints it keeps."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bahdanau_jax import training
from bahdanau_jax.config import Config, OptimizerConfig, TrainingConfig
from bahdanau_jax.model.loss import Sums, sums
from bahdanau_jax.reporting import SILENT
from bahdanau_jax.training import Trainer, schedule, trainer
from bahdanau_jax.training.vmapped_update import VmappedUpdate
from tests import oracles
from tests.model import worlds

STEPS = 4
OPTIMIZER = OptimizerConfig(
    name="adam",
    learning_rate=0.02,
    schedule="cosine",
    warmup_steps=1,
    label_smoothing=0.1,
    coverage=0.7,
    ema=0.9,
)


def trained(dropout: float = 0.0, **settings) -> Trainer:
    model = dataclasses.replace(worlds.CONFIGS["default"], readout_dropout=dropout)
    optimizer = dataclasses.replace(OPTIMIZER, **settings)
    return Trainer(Config(model=model, optimizer=optimizer, training=TrainingConfig(steps=STEPS)))


def host(tree):
    """A copy that stays valid after donation."""
    return jax.tree.map(lambda leaf: np.array(leaf), tree)


@pytest.fixture
def batch():
    return worlds.on_device(worlds.batch(worlds.pairs()))


def test_the_loss_has_dropout_smoothing_and_coverage(batch):
    training_with = trained(dropout=0.4)
    config = training_with.config.model
    params = jax.tree.map(jnp.asarray, worlds.parameters(config))
    keys = jax.random.split(jax.random.key(5), len(batch.source))
    found = float(training_with.loss(params, batch, keys).loss)
    assert found == pytest.approx(float(sums(config, params, batch, keys, 0.1, 0.7).loss), rel=1e-6)
    expected = oracles.loss(config, oracles.f64(params), worlds.pairs(), 0.1, 0.7)
    without_keys = float(training_with.loss(params, batch, None).loss)
    assert without_keys == pytest.approx(expected, rel=1e-5)
    assert abs(found - without_keys) > 1e-3 * without_keys


def test_an_update_has_this_loss_and_the_rate_of_the_schedule_for_all_its_steps(batch):
    """The updates are those of rate 1 times the rate, of which the last one is not yet 0."""
    scheduled = trained(coverage=0.0)
    unscheduled = trained(coverage=0.0, schedule="constant", warmup_steps=0, learning_rate=1.0)
    assert scheduled.telemetry == training.Telemetry(scheduled.config.optimizer, STEPS)
    # The update takes ownership of its state, so each trainer begins with a copy of its own.
    state = scheduled.backend.place(scheduled.begin())
    batch = scheduled.backend.feed(batch)
    rates = []
    for _ in range(STEPS):
        before = host(state.params)
        expected = oracles.loss(
            scheduled.config.model, oracles.f64(before), worlds.pairs(), smoothing=0.1
        )
        copied = jax.tree.map(jnp.copy, state)
        moved, _ = unscheduled.update(copied, batch)
        state, made = scheduled.update(state, batch)
        assert float(made.loss) == pytest.approx(expected, rel=1e-5)
        changes, unit = (
            np.concatenate([(new - old).ravel() for new, old in pairs])
            for pairs in (
                zip(*map(jax.tree.leaves, (host(after.params), before)), strict=True)
                for after in (state, moved)
            )
        )
        rates.append(changes @ unit / (unit @ unit))
    rate = schedule(scheduled.config.optimizer, STEPS)
    assert rates == pytest.approx([float(rate(n)) for n in range(STEPS)], rel=1e-3)
    assert rates[-1] < rates[1] / 2


def of_all_weights(config, steps):
    return optax.chain(optax.clip_by_global_norm(1e-3), optax.sgd(1.0))


class OfWeights(Trainer):
    """Its loss, |weights|², compiles in no time."""

    def loss(self, params, batch, keys):
        square = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))
        return Sums(square, square, *[jnp.ones(())] * 3)


def test_an_optimizer_of_ones_own_gets_all_weights_at_once(batch):
    own = OfWeights(trained(name=f"{__name__}:of_all_weights").config)
    params = jax.tree.map(jnp.asarray, worlds.parameters(own.config.model))
    state = own.backend.place(own.begin(params))
    before = host(state.params)
    state, _ = own.update(state, own.backend.feed(batch))
    moves = jax.tree.map(np.subtract, host(state.params), before)
    assert float(optax.tree.norm(moves)) == pytest.approx(1e-3, rel=1e-2)


def loops(update, state, batch) -> list[int]:
    """The number of turns of each loop of a program."""
    equations = worlds.equations(update.trace(state, batch).jaxpr.jaxpr)
    return [each.params["length"] for each in equations if each.primitive.name == "scan"]


@pytest.mark.parametrize("parts", [1, 7])
def test_an_update_has_as_many_parts_as_are_asked_for(parts):
    settings = TrainingConfig(steps=STEPS, accumulate=parts)
    made = Trainer(Config(model=worlds.CONFIGS["default"], training=settings))
    state, rows = jax.eval_shape(made.begin), worlds.batch(worlds.pairs(count=7))
    assert 7 not in (rows.source.shape[1], rows.target.shape[1])  # other loops have these turns
    assert (7 in loops(made.update, state, rows)) == (parts == 7)
    several = VmappedUpdate(made, 2, training.SHARED)
    several.close()
    states = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((2, *leaf.shape), leaf.dtype), state)
    assert (7 in loops(several._step, states, rows)) == (parts == 7)


def test_dev_scores_are_those_of_the_moving_average():
    began = trained().begin()
    state = began.replace(ema=jax.tree.map(lambda leaf: leaf + 1, began.params))

    def evaluate(state):
        assert state.ema == ()
        return {"sum": float(sum(leaf.sum() for leaf in jax.tree.leaves(state.weights)))}

    evaluated = trainer.evaluation([training.Evaluator("weights", evaluate)])
    assert evaluated is not None
    expected = sum(float(leaf.sum()) for leaf in jax.tree.leaves(state.ema))
    assert evaluated(state) == {"weights_sum": pytest.approx(expected, rel=1e-6)}


@pytest.mark.parametrize("kept, least, expected", [(1, 1, 1), (1, 2, 2), (3, 2, 3)])
def test_as_many_checkpoints_are_kept_as_are_asked_for(
    kept, least, expected, tmp_path, monkeypatch
):
    seen = []
    monkeypatch.setattr(trainer, "Checkpointer", lambda folder, keep, records: seen.append(keep))
    config = dataclasses.replace(
        trained().config, training=TrainingConfig(steps=STEPS, keep_checkpoints=kept)
    )
    phases = trainer.phases_of(Trainer(config), tmp_path, (), 1.0, SILENT, least)
    phases.close()
    assert seen == [expected]
