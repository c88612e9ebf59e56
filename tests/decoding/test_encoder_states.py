"""Annotations of lines, compared with those of the encoder, alone and in a batch."""

import dataclasses

import jax
import numpy as np
import pytest

from bahdanau_jax import data, model
from bahdanau_jax.batch import pad
from bahdanau_jax.config import DataConfig, DecodingConfig, ModelConfig
from bahdanau_jax.data.tokens import codec
from bahdanau_jax.decoding import encode
from tests.model import worlds

SOURCE, TARGET = "a b c d e f g", "p q r s t u"
SIZES = worlds.SIZES | {"source_vocabulary": 9, "target_vocabulary": 8}
CODEC, _ = codec.learn(DataConfig(tokenizer="none"), [data.Pair(SOURCE, TARGET)])
LINES = ["a b c", "", "f e d c b a g a b c", "x", "d d"]
DECODING = DecodingConfig(batch_size=3)


@pytest.fixture(scope="module")
def world():
    config = ModelConfig(**SIZES)
    return config, worlds.parameters(config)


def test_each_line_has_the_annotations_of_the_encoder_without_padding(world):
    found = encode(*world, CODEC, DECODING, LINES)
    for line, (tokens, annotations, initial) in zip(LINES, found, strict=True):
        ids = CODEC.encode(line)
        memory = jax.jit(model.encode, static_argnums=0)(*world, *pad([ids], len(ids)))
        assert tokens == CODEC.units(line) and len(tokens) == len(ids)
        assert annotations.shape == (len(ids), 10) and initial.shape == (5,)
        np.testing.assert_allclose(annotations, memory.annotations[0], atol=1e-6)
        np.testing.assert_allclose(initial, memory.initial[0], atol=1e-6)


def test_neighbours_and_batch_size_change_nothing(world):
    together = encode(*world, CODEC, DECODING, LINES)
    one_by_one = dataclasses.replace(DECODING, batch_size=1)
    for alone, among in zip(encode(*world, CODEC, one_by_one, LINES), together, strict=True):
        np.testing.assert_allclose(alone.annotations, among.annotations, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(alone.initial, among.initial, rtol=1e-5, atol=1e-6)
