"""Every setting has a bound, and every variant an oracle."""

import dataclasses
import math

import numpy as np
import pytest

from bahdanau_jax import model, run, variants
from bahdanau_jax.config import Config, DataConfig, OptimizerConfig, faults
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
        "decoding.batch_size": 31,
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


@pytest.mark.parametrize(
    "name, allowed, refused, bound",
    [
        ("model.hidden_size", 1, 0, "at least 1"),
        ("model.output_size", 0, -1, "at least 0"),
        ("data.source_vocabulary_size", 3, 2, "at least 3"),
        ("model.readout_dropout", 0.0, 1.0, "at least 0 and below 1"),
        ("data.max_ratio", 1.0, 0.5, "0 or at least 1"),
        ("optimizer.coverage", 3e38, 3.1e38, "at least 0 (0: off) and at most 3e38"),
        ("optimizer.epsilon", 2e-38, 0.0, "at least 2e-38 and at most 3e+38"),
        ("optimizer.learning_rate", 3e38, 1e39, "at least 2e-38 and at most 3e+38"),
        ("decoding.max_ratio", 100.0, 100.5, "above 0 and at most 100"),
        ("decoding.max_ratio", 2.5, 0.0, "above 0 and at most 100"),
        ("decoding.min_ratio", 0.0, -0.1, "at least 0 (0: off) and at most 3e38"),
        ("decoding.temperature", 1e-6, 9e-7, "between 1e-06 and 1e+06"),
        ("decoding.temperature", 1e6, 1.1e6, "between 1e-06 and 1e+06"),
        ("decoding.top_p", 1.0, 1.1, "above 0 and at most 1"),
        ("decoding.top_p", 0.1, 0.0, "above 0 and at most 1"),
    ],
)
def test_a_bound_is_the_last_value_that_is_allowed(name, allowed, refused, bound):
    for value, lines in {
        allowed: [],
        refused: [f"{name} is {refused}, but should be {bound}"],
    }.items():
        assert faults(_with({name: value})) == lines


def _with(settings) -> Config:
    """The default configuration with the values of a mapping of `section.field`."""
    config = Config()
    for name, value in settings.items():
        section, leaf = name.split(".")
        changed = dataclasses.replace(getattr(config, section), **{leaf: value})
        config = dataclasses.replace(config, **{section: changed})
    return config


@pytest.mark.parametrize(
    "settings, fault, mended",
    [
        (
            {"model.encoder_directions": "forward", "model.initial_state": "backward"},
            "model.initial_state is backward, but model.encoder_directions has only forward",
            {"model.initial_state": "forward"},
        ),
        (
            {"model.attention": "none", "optimizer.coverage": 0.2},
            "optimizer.coverage is 0.2, but model.attention none looks at no source word",
            {"optimizer.coverage": 0.0},
        ),
        (
            {"model.attention": "none", "decoding.coverage": 0.2},
            "decoding.coverage needs attention, but model.attention is none",
            {"decoding.coverage": 0.0},
        ),
        (
            {"data.plan": "pools", "data.batch_words": 500},
            "data.batch_words limits the positions of a batch, but data.plan pools has",
            {"data.plan": "buckets"},
        ),
        (
            {"data.plan": "pools", "data.batch_words": 500},
            "data.batch_words limits the positions of a batch, but data.plan pools has",
            {"data.batch_words": 0},
        ),
        (
            {"data.joint_vocabulary": True, "data.target_vocabulary_size": 500},
            "data.target_vocabulary_size is 500, but a joint vocabulary has data.source_vocab",
            {"data.source_vocabulary_size": 500},
        ),
        (
            {"data.vocabulary": "sentencepiece", "data.encodings": 2},
            "data.encodings is 2, but all encodings would be equal",
            {"data.subword_sampling": 0.1},
        ),
        (
            {"model.readout_inputs": "yc", "model.attention": "none"},
            "model.readout_inputs is yc, but with model.attention none the context does not depend",
            {"model.readout_inputs": "syc"},
        ),
        (
            {"model.readout_inputs": "yc", "model.attention": "none"},
            "model.readout_inputs is yc, but with model.attention none the context does not depend",
            {"model.attention": "additive"},
        ),
        (
            {"model.cell": "mlp", "model.hidden_size": 1},
            "model.hidden_size is 1, but the layers of model.cell mlp have half as many units",
            {"model.hidden_size": 2},
        ),
        (
            {"decoding.min_ratio": 2.0, "decoding.max_ratio": 2.0},
            "decoding.min_ratio is 2.0, but should be below decoding.max_ratio, which is 2.0",
            {"decoding.min_ratio": 1.9},
        ),
        (
            {"decoding.method": "beam", "decoding.top_k": 5},
            "decoding.top_k is 5, but only sampling uses it: set decoding.method to sample",
            {"decoding.method": "sample"},
        ),
    ],
)
def test_settings_that_contradict_each_other(settings, fault, mended):
    (line,) = variants.faults(_with(settings))
    assert line.startswith(fault)
    assert not list(variants.faults(_with(settings | mended)))


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


def test_a_whole_number_of_a_file_is_read_as_a_float():
    read = Config.from_json('{"optimizer": {"learning_rate": 1, "clip_norm": 0.5}}')
    assert type(read.optimizer.learning_rate) is float
    assert read.optimizer == OptimizerConfig(learning_rate=1.0, clip_norm=0.5)
    with pytest.raises(ValueError, match="model.hidden_size should be int, not 8.0"):
        Config.from_json('{"model": {"hidden_size": 8.0}}')


def test_names_of_files_that_are_no_utf8_are_refused_before_any_text_is_read():
    config = Config(data=DataConfig(train="text:donn\udce9es.en,x.fr", dev="", test=""))
    with pytest.raises(ValueError, match=r"data\.train is .*, which is no UTF-8: rename the file"):
        run.check(config)
