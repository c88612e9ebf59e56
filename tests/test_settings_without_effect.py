"""Settings that have no effect without another one: the table, and who is told of it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax import configurations, data, model, variants
from bahdanau_jax.config import Config, DataConfig, ModelConfig, OptimizerConfig
from bahdanau_jax.training import optimizer, settings
from bahdanau_jax.variants import ONLY_WITH, changed_without_effect, without_effect

KNOWN = {**variants.VARIANTS, **settings.VARIANTS, "model.attention": model.attention.SCORES}
MODEL = ModelConfig(11, 13, embedding_size=5, hidden_size=6, alignment_size=7, readout_size=3)


@pytest.mark.parametrize("field", ONLY_WITH)
def test_the_table_names_fields_and_their_values(field):
    variants._value(Config(), field)
    other, needed = ONLY_WITH[field]
    assert set(needed) < set(KNOWN[other])


@pytest.mark.parametrize("attention", model.attention.SCORES)
def test_alignment_size_counts_only_with_these_scores(attention):
    config = dataclasses.replace(MODEL, attention=attention)
    other = dataclasses.replace(config, alignment_size=8)
    counts = model.shapes(config) != model.shapes(other)
    assert counts == (attention in ONLY_WITH["model.alignment_size"][1])


@pytest.mark.parametrize("cell", variants.VARIANTS["model.cell"])
def test_gate_bias_counts_only_with_these_cells(cell):
    config = dataclasses.replace(MODEL, cell=cell)
    other = dataclasses.replace(config, gate_bias=False)
    counts = jax.tree.structure(model.shapes(config)) != jax.tree.structure(model.shapes(other))
    assert counts == (cell in ONLY_WITH["model.gate_bias"][1])


@pytest.mark.parametrize("plan", data.PLANS)
def test_pool_batches_counts_only_with_these_plans(plan):
    lengths = np.random.default_rng(1).integers(2, 30, (64, 2)).astype(np.int32)

    def epoch(**changes):
        config = DataConfig(plan=plan, batch_size=4, shapes=2, **changes)
        return [batch.rows.tolist() for batch in data.Plan(lengths, config, 1).epoch(0)]

    assert (epoch() != epoch(pool_batches=2)) == (plan in ONLY_WITH["data.pool_batches"][1])


@pytest.mark.parametrize("field", ["rho", "beta1", "beta2"])
@pytest.mark.parametrize("name", optimizer.OPTIMIZERS)
def test_decays_count_only_with_these_optimisers(name, field):
    def after_two_updates(**changes):
        made = optimizer.make(OptimizerConfig(name=name, **changes), 10)
        state = made.init(jnp.ones(2))
        for gradient in (jnp.array([0.5, -2.0]), jnp.array([1.0, 0.1])):
            change, state = made.update(gradient, state)
        return change.tolist()

    counts = after_two_updates() != after_two_updates(**{field: 0.5})
    assert counts == (name in ONLY_WITH[f"optimizer.{field}"][1])


@pytest.mark.parametrize("name", configurations.shipped())
def test_shipped_configurations_set_nothing_without_effect(name):
    assert changed_without_effect(configurations.configuration(name), Config()) == []


def test_code_of_the_user_may_read_every_setting():
    fields = ["model.alignment_size", "optimizer.rho", "optimizer.beta1"]
    own = Config(
        model=ModelConfig(attention="my_scores:mine"), optimizer=OptimizerConfig(name="rules:mine")
    )
    assert not list(without_effect(own, fields))
    assert list(without_effect(Config(model=ModelConfig(attention="dot")), fields)) == [
        (
            "model.alignment_size",
            "model.attention",
            "additive or additive_relu or additive_coverage or local_p",
        ),
        ("optimizer.beta1", "optimizer.name", "adam"),
    ]
