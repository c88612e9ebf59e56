"""The attending decoder: what it looks at, how its state moves on, and which word it writes.

B sentences, S source and T target positions, H units, C annotation size, L readout, V vocabulary.
Source: arXiv 1409.0473, sections 3.1 and A.2.2; the order of its parts differs between the paper's
main text, its authors' program and Luong et al., so it is a table.
"""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bahdanau_jax.batch import START
from bahdanau_jax.config import ModelConfig
from bahdanau_jax.distribution import Distribution, softmax
from bahdanau_jax.model import recurrence
from bahdanau_jax.model.attention import (
    Attended,
    Folded,
    Memory,
    annotation_size,
    attend,
    score_named,
)
from bahdanau_jax.model.cells import CELLS
from bahdanau_jax.model.dropout import dropout
from bahdanau_jax.model.matrix_products import matmul, rounded, with_bias, with_ones
from bahdanau_jax.model.parameters import INITS, Params, add_bias, draw, embed, zeros


class State(NamedTuple):
    """What a decoder carries from word to word."""

    s: Float[Array, "B H"]
    c: Float[Array, "B C"]  # the context it saw last; 0 before the first look


Update = Callable[[Array, Array], Array]  # (s, c) -> the next s
Look = Callable[[Array], Attended]


def _paper(update: Update, look: Look, state: State, start: Array) -> tuple[State, Array]:
    """Look, update, generate (the main text's Eq. 4)."""
    c, alpha = look(state.s)
    return State(update(state.s, c), c), alpha


def _luong(update: Update, look: Look, state: State, start: Array) -> tuple[State, Array]:
    """Update, look, generate (arXiv 1508.04025)."""
    s = update(state.s, state.c)
    c, alpha = look(s)
    return State(s, c), alpha


def _groundhog(update: Update, look: Look, state: State, start: Array) -> tuple[State, Array]:
    """Look, generate, update: one step here updates with the word before, which START lacks."""
    s = jnp.where(start, state.s, update(state.s, state.c))
    c, alpha = look(s)
    return State(s, c), alpha


ORDERS: Mapping[str, Callable[..., tuple[State, Array]]] = MappingProxyType(
    {"paper": _paper, "groundhog": _groundhog, "luong": _luong}
)


class Readout(NamedTuple):
    """What becomes of t̃ = U_o s + V_o ȳ + C_o c + b_o before the softmax."""

    width: int  # units of t̃ for each unit of t
    apply: Callable[[Array], Array]  # t̃ [..., width·L] -> t [..., L]


@jax.custom_jvp
def maxout(t: Float[Array, "*X P"]) -> Float[Array, "*X P//2"]:
    """The larger of each adjacent pair (A.2.2); P = 2L in, L out. Equal ones share the gradient.

    JAX's own gradient of a maximum counts the ties first, for as long as all else of the readout.
    And a maximum of slices stays out of the product that comes next: XLA on a CPU puts products and
    a reduction between them into one kernel, slower than the parts.
    """
    return jnp.maximum(t[..., ::2], t[..., 1::2])


@maxout.defjvp
def _maxout_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (t,), (d,) = primals, tangents
    first = (jnp.sign(t[..., ::2] - t[..., 1::2]) + 1) / 2  # 1, 0, or 1/2 of equal ones
    return maxout(t), first * d[..., ::2] + (1 - first) * d[..., 1::2]


READOUTS: Mapping[str, Readout] = MappingProxyType(
    {"maxout": Readout(2, maxout), "tanh": Readout(1, jnp.tanh), "linear": Readout(1, lambda t: t)}
)


def init_decoder(key: Array, config: ModelConfig) -> dict[str, Array]:
    """The cell, with W for the word before and C for the context."""
    inputs = {"W": config.embedding_size, "C": annotation_size(config)}
    return CELLS[config.cell].init(
        key, INITS[config.init], inputs, config.hidden_size, config.gate_bias
    )


def init_readout(key: Array, config: ModelConfig) -> dict[str, Array]:
    """U_o, V_o, C_o and b_o, each as wide as the readout's t̃."""
    weight, size = INITS[config.init].weight, config.readout_size * READOUTS[config.readout].width
    return draw(
        key,
        {
            "U_o": (weight, (config.hidden_size, size)),
            "V_o": (weight, (config.embedding_size, size)),
            "C_o": (weight, (annotation_size(config), size)),
            "b_o": zeros(size),
        },
    )


def init_output(key: Array, config: ModelConfig) -> dict[str, Array]:
    """W_o [L, V] and b_w [V]; with `output_size`, W_1 before W_o and no bias between."""
    weight, size = INITS[config.init].weight, config.readout_size
    shapes: dict[str, Any] = {}
    if config.output_size:
        shapes["W_1"] = (weight, (size, config.output_size))
        size = config.output_size
    rows = config.target_vocabulary
    return draw(key, shapes | {"W_o": (weight, (size, rows)), "b_w": zeros(rows)})


# What a step asks `dot` for, and what else its attention needs: parameters, keys and mask.
Given = tuple[dict[str, Array], tuple[Params, Array, Array]]


def _given(config: ModelConfig, params: Params, memory: Memory | Folded) -> Given:
    """All that a step multiplies with, and what else its attention needs."""
    cell, p, attention = CELLS[config.cell], params["decoder"], params["attention"]
    weights = {**cell.weights(p), "C": cell.inputs(p, "C")}
    if (query := score_named(config.attention).query(attention)) is not None:
        weights["W_a"] = query
    weights["annotations"] = memory.annotations
    return weights, (attention, memory.keys, memory.mask)


@functools.cache
def _step(config: ModelConfig, maps_state: bool) -> recurrence.Step:
    """One step of the configured order; `maps_state` where the score multiplies s with a matrix."""
    order, cell = ORDERS[config.order], CELLS[config.cell]
    score = score_named(config.attention)

    def step(dot, rest, state, inputs):
        x, start = inputs
        params, keys, mask = rest

        def look(s):
            return attend(score, dot, params, dot("W_a", s) if maps_state else s, keys, mask)

        def update(s, c):
            return cell.step(dot, s, x + dot("C", c))

        return order(update, look, state, start)

    return step


def _factors(config: ModelConfig, params: Params) -> dict[str, Array]:
    """What words, states and contexts are multiplied with outside attention and recurrence."""
    weights = {name: params["readout"][name] for name in ("U_o", "V_o", "C_o")}
    return {**weights, "W": CELLS[config.cell].inputs(params["decoder"], "W")}


def _inputs(
    config: ModelConfig, dot: recurrence.Dot, params: Params, y: Float[Array, "*X E"], ids: Array
):
    """What a step reads: the product of the word before with W, and whether there was none."""
    bias = CELLS[config.cell].bias(params["decoder"])
    return add_bias(dot("W", y), bias), (ids == START)[..., None]


def readout(
    config: ModelConfig, dot: recurrence.Dot, params: Params, state: State, y: Float[Array, "*X E"]
) -> Float[Array, "*X L"]:
    """t of every step at once, from its state, its context and the word before."""
    t = dot("U_o", state.s) + dot("V_o", y) + dot("C_o", state.c)
    return READOUTS[config.readout].apply(add_bias(t, params["readout"]["b_o"]))


def project(config: ModelConfig, params: Params, t: Float[Array, "*X L"]) -> Float[Array, "*X M"]:
    """The linear layer between readout and vocabulary, where there is one."""
    W_1 = params["output"].get("W_1")
    return t if W_1 is None else matmul(config.compute_dtype, t, W_1)


def fold(config: ModelConfig, params: Params, memory: Memory) -> Folded:
    """The same memory for `start` and `stepper`: faster where words outnumber source positions.

    >>> memory = fold(config, params, encode(config, params, source, source_mask))
    """
    C, C_o = CELLS[config.cell].inputs(params["decoder"], "C"), params["readout"]["C_o"]
    both = jnp.concatenate([C, C_o], axis=-1)
    seen = matmul(config.compute_dtype, memory.annotations, both)
    return Folded(seen, memory.keys, memory.mask, memory.initial)


def start(memory: Memory | Folded) -> State:
    """The state before the first word: s_0, and a context of zeros."""
    batch, _, size = memory.annotations.shape
    return State(memory.initial, jnp.zeros((batch, size), memory.annotations.dtype))


def teacher_force(
    config: ModelConfig,
    params: Params,
    memory: Memory,
    target: Int[Array, "B T"],
    keys: Array | None = None,
) -> tuple[Float[Array, "T B M"], Float[Array, "T B S"]]:
    """What enters the output softmax at every step when the words before are the target's, and α.

    M is the readout size L, or `output_size` where that is set. `keys`, one a row, are dropout's.
    """
    before = jnp.pad(target, ((0, 0), (1, 0)), constant_values=START)[:, :-1].T
    y = dropout(keys, 2, config.embedding_dropout, embed(params["target_embedding"], before))
    weights, rest = _given(config, params, memory)
    dot = recurrence.times(_factors(config, params), config.compute_dtype)
    states, alpha = recurrence.scan(
        _step(config, "W_a" in weights),
        weights,
        rest,
        start(memory),
        _inputs(config, dot, params, y, before),
        config.gradients,
        config.compute_dtype,
    )
    t = readout(config, dot, params, states, y)
    t = dropout(keys, 3, config.readout_dropout, t)
    return project(config, params, t), alpha


# "...": nothing, or K, the hypotheses of a sentence, which share its memory.
Stepper = Callable[
    [Int[Array, "B ..."], State], tuple[Float[Array, "B ... V"], State, Float[Array, "B ... S"]]
]
Predictor = Callable[
    [Int[Array, "B ..."], State], tuple[Distribution, State, Float[Array, "B ... S"]]
]


def stepper(config: ModelConfig, params: Params, memory: Memory | Folded) -> Stepper:
    """(tokens, state) -> (log-probabilities of the next word, new state, α); START is first.

    Tokens are [B], or [B, K] for K hypotheses of each sentence; all else likewise.

    >>> step = stepper(config, params, memory)
    >>> log_p, state, alpha = step(jnp.full(B, START), start(memory))
    """
    predict = predictor(config, params, memory)

    def step(tokens, state):
        next_word, state, alpha = predict(tokens, state)
        return next_word.log_p, state, alpha

    return step


def predictor(config: ModelConfig, params: Params, memory: Memory | Folded) -> Predictor:
    """`stepper` for a search that takes a few words of each distribution: faster."""
    (weights, rest), output = _given(config, params, memory), params["output"]
    move = _step(config, "W_a" in weights)
    W_o = with_bias(config.compute_dtype, output["W_o"], output["b_w"])
    factors = {**weights, **_factors(config, params), "W_o": W_o}
    dot = recurrence.times(rounded(config.compute_dtype, factors), config.compute_dtype)
    if isinstance(memory, Folded):
        dot = _unfolding(dot, weights["C"].shape[-1])

    def predict(tokens, state):
        y = embed(params["target_embedding"], tokens)
        state, alpha = move(dot, rest, state, _inputs(config, dot, params, y, tokens))
        t = project(config, params, readout(config, dot, params, state, y))
        logits = dot("W_o", with_ones(t.reshape(-1, t.shape[-1]), len(W_o)))  # in two axes
        return softmax(logits.reshape(*tokens.shape, -1)), state, alpha

    return predict


def _unfolding(dot: recurrence.Dot, width: int) -> recurrence.Dot:
    """`dot` where contexts are [C c, C_o c] already, of which C c is so wide."""
    known = {"C": lambda c: c[..., :width], "C_o": lambda c: c[..., width:]}
    return lambda name, x: known[name](x) if name in known else dot(name, x)
