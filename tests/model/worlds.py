"""Small models for the tests. All sizes are distinct primes, so that swapped axes cannot pass."""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from jaxtyping import Array

from bahdanau_jax.batch import EOS, Batch, pad
from bahdanau_jax.config import PRESETS, ModelConfig
from bahdanau_jax.model import ORDERS, Seq2Seq, encode, teacher_forced
from bahdanau_jax.model.loss import Sums, sums
from bahdanau_jax.model.memory import Memory
from tests import quick

# Compiled code that runs once, quick also where XLA_FLAGS are others.
compiled = functools.partial(jax.jit, compiler_options=quick.OPTIONS)

SIZES = dict(
    source_vocabulary=23,
    target_vocabulary=29,
    embedding_size=3,
    hidden_size=5,
    alignment_size=7,
    readout_size=11,
)


def equations(jaxpr) -> Iterator[Any]:
    """All equations of a program, with those of its inner programs."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from equations(inner)


# Every variant that the oracles know, none of them by default.
CONFIGS = {
    "default": ModelConfig(**SIZES),
    "paper": dataclasses.replace(PRESETS["paper"], **SIZES),
    "groundhog": dataclasses.replace(PRESETS["groundhog"], **SIZES | {"output_size": 13}),
    "luong": ModelConfig(**SIZES, order="luong", attention="general"),
    "conditional": ModelConfig(**SIZES, order="conditional"),
    "rnnencdec": dataclasses.replace(
        PRESETS["groundhog"],
        **SIZES,
        attention="none",
        encoder_directions="forward",
        initial_state="forward",
    ),
    "relu": ModelConfig(**SIZES, attention="additive_relu", initial_state="zero"),
    "dot": ModelConfig(**SIZES, attention="dot", order="luong", readout="tanh"),
    "scaled_dot": ModelConfig(**SIZES, attention="scaled_dot", initial_state="forward"),
    "one_direction": ModelConfig(
        **SIZES, attention="dot", encoder_directions="forward", initial_state="forward"
    ),
    "tanh": ModelConfig(**SIZES, cell="tanh", readout="linear", initial_state="zero"),
    "coverage": ModelConfig(**SIZES, attention="additive_coverage"),
    "local_m": ModelConfig(
        **SIZES, attention="local_m", order="groundhog", feed_previous=False, readout_inputs="sy"
    ),
    "local_p": ModelConfig(**SIZES, attention="local_p", cell="mlp", readout_inputs="yc"),
    "mlp": ModelConfig(  # which reads no target words
        **SIZES,
        cell="mlp",
        order="luong",
        encoder_directions="forward",
        initial_state="forward",
        feed_previous=False,
        readout_inputs="s",
    ),
    "context_alone": ModelConfig(**SIZES, readout_inputs="c"),
    "unfed": ModelConfig(  # as in the suite of ablations
        **SIZES, cell="mlp", feed_previous=False, readout_inputs="sc", initial_state="forward"
    ),
    "conditional_unfed": ModelConfig(
        **SIZES, cell="mlp", order="conditional", attention="dot", feed_previous=False
    ),
    "words": ModelConfig(**SIZES, word_annotations=True),
    "words_dot": ModelConfig(
        **SIZES, word_annotations=True, attention="dot", order="conditional", cell="tanh"
    ),
    "words_one_direction": ModelConfig(  # whose embeddings are larger than its states
        **SIZES | {"embedding_size": 7},
        word_annotations=True,
        attention="dot",
        encoder_directions="forward",
        initial_state="forward",
    ),
    # The output matrix is the transposed target embedding, so its inputs have the embedding's size.
    "tied": dataclasses.replace(
        PRESETS["groundhog"], **SIZES | {"output_size": 3}, tied_embeddings=True
    ),
    "tied_readout": ModelConfig(**SIZES | {"readout_size": 3}, tied_embeddings=True),
}

IN_EACH_ORDER = ("default", "groundhog", "luong", "conditional")  # a configuration of each
assert [CONFIGS[name].order for name in IN_EACH_ORDER] == [*ORDERS]


def each(*soon: Any, of: Iterable[Any] = CONFIGS) -> list[Any]:
    """Parameters of a test, by default the variants; for all but those of `soon` it is slow."""
    return [name if name in soon else pytest.param(name, marks=pytest.mark.slow) for name in of]


def pairs(seed: int = 0, count: int = 5, longest: int = 6) -> list[tuple[list[int], list[int]]]:
    """Sentences as ids, EOS last; the first pair is the shortest possible."""
    rng = np.random.default_rng(seed)

    def sentence(vocabulary):
        return [*rng.integers(1, vocabulary, rng.integers(0, longest)).tolist(), EOS]

    return [([EOS], [EOS])] + [(sentence(23), sentence(29)) for _ in range(count - 1)]


def batch(pairs, extra_source: int = 0, extra_target: int = 0, fillers: int = 0) -> Batch:
    """The pairs as one padded batch, with filler rows of weight 0."""
    sources, targets = zip(*pairs, strict=True)
    empty = [[]] * fillers
    source = pad([*sources, *empty], max(map(len, sources)) + extra_source)
    target = pad([*targets, *empty], max(map(len, targets)) + extra_target)
    weight = np.array([1.0] * len(pairs) + [0.0] * fillers, np.float32)
    return Batch(*source, *target, weight)


def on_device(b: Batch):
    """The batch as a compiled function receives it."""
    return jax.tree.map(jnp.asarray, b)


@functools.cache
def _shapes(config: ModelConfig):
    return jax.eval_shape(Seq2Seq(config).init, jax.random.key(0), batch(pairs()))["params"]


def parameters(config: ModelConfig, dtype=np.float32, seed: int = 0, scale: float = 0.7):
    """Weights far from their small beginnings, so that no term of an equation is negligible.

    Every one is a float32 number, so that both precisions compute the same thing.
    """
    counter = itertools.count(seed * 1000)

    def draw(leaf):
        drawn = np.random.default_rng(next(counter)).normal(0, scale, leaf.shape)
        return drawn.astype(np.float32).astype(dtype)

    return jax.tree.map(draw, _shapes(config))


def untied(config: ModelConfig) -> ModelConfig:
    """The same model with an output matrix of its own."""
    return dataclasses.replace(config, tied_embeddings=False)


def twin(params):
    """The parameters of the untied model with W_o = E_yᵀ."""
    W_o = params["target_embedding"]["E"].T
    return {**params, "output": {**params["output"], "W_o": W_o}}


class Everything(NamedTuple):
    """All results of the model for a batch."""

    memory: Memory
    log_p: Array
    alpha: Array
    smoothed: Sums  # with label smoothing of 0.1
    covered: Sums  # with the weight 0.7 of uncovered source words
    sums: dict[str, Sums]  # as they come with the gradient, by each way that was asked for
    gradients: dict[str, Any]  # of the loss


@functools.partial(compiled, static_argnums=(0, 3))
def everything(config: ModelConfig, params, batch: Batch, gradients: tuple[str, ...] = ()):
    """One program for many tests; the batches of one shape share it."""
    words = teacher_forced(config, params, batch)

    def gradient(way):
        changed = dataclasses.replace(config, gradients=way)

        def loss(params):
            found = sums(changed, params, batch)
            return found.loss, found

        return jax.grad(loss, has_aux=True)(params)

    found = {way: gradient(way) for way in gradients}
    return Everything(
        memory=encode(config, params, batch.source, batch.source_mask),
        log_p=words.log_p,
        alpha=words.alpha,
        smoothed=sums(config, params, batch, smoothing=0.1),
        covered=sums(config, params, batch, coverage=0.7),
        sums={way: totals for way, (_, totals) in found.items()},
        gradients={way: grads for way, (grads, _) in found.items()},
    )


def relative(a, b) -> float:
    """‖a − b‖ / ‖b‖."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return float(np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-300))
