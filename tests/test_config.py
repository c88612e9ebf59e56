"""Every setting has a bound, and every variant an oracle."""

import dataclasses
import math

import numpy as np
import pytest

from bahdanau_jax import model, run, variants
from bahdanau_jax.config import Config, OptimizerConfig, faults
from tests.model import worlds

NUMBERS = [
    (section.name, field.name, value)
    for section in dataclasses.fields(Config)
    for field in dataclasses.fields(getattr(Config(), section.name))
    for value in {int: (-1,), float: (-1.0, math.nan, math.inf)}.get(type(field.default), ())
    if (field.name, value) != ("alpha", -1)  # any finite exponent is one
]


@pytest.mark.parametrize("section, name, value", NUMBERS)
def test_every_number_has_a_bound(section, name, value):
    settings = dataclasses.replace(getattr(Config(), section), **{name: value})
    lines = faults(dataclasses.replace(Config(), **{section: settings}))
    assert any(line.startswith(f"{section}.{name} is ") for line in lines)


@pytest.mark.parametrize(
    "name, bits",
    {
        "data.batch_size": 31,
        "data.pool_batches": 31,
        "optimizer.warmup_steps": 31,
        "training.steps": 31,
        "training.seed": 32,
        "decoding.seed": 31,
    }.items(),
)
def test_a_number_that_the_programs_cannot_count_is_refused(name, bits):
    """JAX counts in int32, and uses the low 32 bits of a seed."""
    section, leaf = name.split(".")
    for value, lines in {
        (1 << bits) - 1: [],
        1 << bits: [f"{name} is {1 << bits}, but should be below 2^{bits}"],
    }.items():
        changed = dataclasses.replace(getattr(Config(), section), **{leaf: value})
        assert faults(dataclasses.replace(Config(), **{section: changed})) == lines


def test_the_fault_of_an_endless_clip_norm_says_how_to_switch_it_off():
    optimizer = dataclasses.replace(Config().optimizer, clip_norm=3.3e38)
    assert faults(dataclasses.replace(Config(), optimizer=optimizer)) == [
        "optimizer.clip_norm is 3.3e+38, but should be at least 0 (0: off) and at most 3e38"
    ]


@pytest.mark.parametrize(
    "name, value",
    {
        "byte_fallback": True,
        "subwords": "unigram",
        "subword_sentences": 9,
        "subword_sampling": 0.1,
    }.items(),
)
def test_settings_of_subwords_need_subwords(name, value):
    settings = dataclasses.replace(Config().data, **{name: value})
    (line,) = variants.faults(dataclasses.replace(Config(), data=settings))
    assert line.startswith(f"data.{name} is {value}, but only subwords use it: set data.vocab")
    settings = dataclasses.replace(settings, vocabulary="sentencepiece")
    assert not list(variants.faults(dataclasses.replace(Config(), data=settings)))


@pytest.mark.parametrize(
    "field, table",
    {
        "attention": model.attention.SCORES,
        "cell": model.CELLS,
        "order": model.ORDERS,
        "readout": model.READOUTS,
        "initial_state": model.INITIAL_STATES,
        "encoder_directions": model.DIRECTIONS,
    }.items(),
)
def test_every_variant_is_one_that_the_oracles_compute(field, table):
    assert {getattr(config, field) for config in worlds.CONFIGS.values()} >= set(table)


@pytest.mark.parametrize(
    ("section", "field", "value", "kind"),
    [
        ("data", "train", ["a.en", "a.fr"], "str"),
        ("data", "dev", None, "str"),
        ("model", "hidden_size", "8", "int"),
        ("model", "hidden_size", 8.0, "int"),
        ("model", "hidden_size", np.int64(8), "int"),
        ("training", "steps", True, "int"),
        ("data", "lowercase", 1, "bool"),
        ("optimizer", "learning_rate", False, "float"),
    ],
)
def test_a_value_of_another_type_is_an_error(section, field, value, kind):
    of_section = dataclasses.replace(getattr(Config(), section), **{field: value})
    config = dataclasses.replace(Config(), **{section: of_section})
    with pytest.raises(ValueError) as error:
        run.check(config)
    assert str(error.value) == f"{section}.{field} should be {kind}, not {value!r}"


def test_a_whole_number_is_a_float_too():
    optimizer = OptimizerConfig(learning_rate=1, rho=np.float64(0.5))
    run.check(dataclasses.replace(Config(), optimizer=optimizer))
