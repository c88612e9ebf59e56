"""The attending decoder: attention, state update and readout of each target word.

B sentences, S source and T target positions, H units, C annotation size, L readout, V vocabulary.
Source: arXiv 1409.0473, sections 3.1 and A.2.2. The paper's main text, its authors' program and
Luong et al. order these parts differently; `ORDERS` has all three orders.
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
    """The decoder's state between two words."""

    s: Float[Array, "B H"]
    c: Float[Array, "B C"]  # the latest context; 0 before the first word


Update = Callable[[Array, Array], Array]  # (s, c) -> the next s
Look = Callable[[Array], Attended]  # s -> its context and attention weights


def _paper(update: Update, look: Look, state: State, start: Array) -> tuple[State, Array]:
    """Attend, update, generate (Eq. 4 of the main text)."""
    c, alpha = look(state.s)
    return State(update(state.s, c), c), alpha


def _luong(update: Update, look: Look, state: State, start: Array) -> tuple[State, Array]:
    """Update, attend, generate (arXiv 1508.04025)."""
    s = update(state.s, state.c)
    c, alpha = look(s)
    return State(s, c), alpha


def _groundhog(update: Update, look: Look, state: State, start: Array) -> tuple[State, Array]:
    """Attend, generate, update. The update belongs to the previous word, so START has none."""
    s = jnp.where(start, state.s, update(state.s, state.c))
    c, alpha = look(s)
    return State(s, c), alpha


ORDERS: Mapping[str, Callable[..., tuple[State, Array]]] = MappingProxyType(
    {"paper": _paper, "groundhog": _groundhog, "luong": _luong}
)


class Readout(NamedTuple):
    """The activation of t̃ = U_o s + V_o ȳ + C_o c + b_o."""

    width: int  # units of t̃ for each unit of t
    apply: Callable[[Array], Array]  # t̃ [..., width·L] -> t [..., L]


@jax.custom_jvp
def maxout(t: Float[Array, "*X P"]) -> Float[Array, "*X P//2"]:
    """Return the larger of each adjacent pair (A.2.2); P = 2L in, L out. Ties share the gradient.

    JAX's own gradient of a maximum first counts the ties, which takes as long as the rest of the
    readout. Slices also avoid a reduction: XLA on a CPU would fuse it with the products before and
    after it into one slower kernel.
    """
    return jnp.maximum(t[..., ::2], t[..., 1::2])


@maxout.defjvp
def _maxout_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (t,), (d,) = primals, tangents
    first = (jnp.sign(t[..., ::2] - t[..., 1::2]) + 1) / 2  # 1, 0, or 1/2 for a tie
    return maxout(t), first * d[..., ::2] + (1 - first) * d[..., 1::2]


READOUTS: Mapping[str, Readout] = MappingProxyType(
    {"maxout": Readout(2, maxout), "tanh": Readout(1, jnp.tanh), "linear": Readout(1, lambda t: t)}
)


def init_decoder(key: Array, config: ModelConfig) -> dict[str, Array]:
    """Draw the parameters of the cell, with W for the previous word and C for the context."""
    inputs = {"W": config.embedding_size, "C": annotation_size(config)}
    return CELLS[config.cell].init(
        key, INITS[config.init], inputs, config.hidden_size, config.gate_bias
    )


def init_readout(key: Array, config: ModelConfig) -> dict[str, Array]:
    """Draw U_o, V_o, C_o and b_o, each as wide as the readout's t̃."""
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
    """Draw W_o [L, V] and b_w [V]; with `output_size`, also W_1 before W_o, without a bias."""
    weight, size = INITS[config.init].weight, config.readout_size
    shapes: dict[str, Any] = {}
    if config.output_size:
        shapes["W_1"] = (weight, (size, config.output_size))
        size = config.output_size
    rows = config.target_vocabulary
    return draw(key, shapes | {"W_o": (weight, (size, rows)), "b_w": zeros(rows)})


def _operands(
    config: ModelConfig, params: Params, memory: Memory | Folded
) -> tuple[dict[str, Array], tuple[Params, Array, Array]]:
    """Return the weights of a step, and the parameters, keys and mask of its attention."""
    cell, p, attention = CELLS[config.cell], params["decoder"], params["attention"]
    weights = {**cell.weights(p), "C": cell.inputs(p, "C")}
    if (query := score_named(config.attention).query(attention)) is not None:
        weights["W_a"] = query
    weights["annotations"] = memory.annotations
    return weights, (attention, memory.keys, memory.mask)


@functools.cache
def _step(config: ModelConfig, maps_state: bool) -> recurrence.Step:
    """Build a step in the configured order; `maps_state`: the score multiplies s by a matrix."""
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
    """Return the matrices of words, states and contexts outside attention and recurrence."""
    weights = {name: params["readout"][name] for name in ("U_o", "V_o", "C_o")}
    return {**weights, "W": CELLS[config.cell].inputs(params["decoder"], "W")}


def _inputs(
    config: ModelConfig, dot: recurrence.Dot, params: Params, y: Float[Array, "*X E"], ids: Array
):
    """Return the inputs of a step: the previous word's product with W, and whether it is START."""
    bias = CELLS[config.cell].bias(params["decoder"])
    return add_bias(dot("W", y), bias), (ids == START)[..., None]


def readout(
    config: ModelConfig, dot: recurrence.Dot, params: Params, state: State, y: Float[Array, "*X E"]
) -> Float[Array, "*X L"]:
    """Return t of every step at once, from its state, its context and the previous word."""
    t = dot("U_o", state.s) + dot("V_o", y) + dot("C_o", state.c)
    return READOUTS[config.readout].apply(add_bias(t, params["readout"]["b_o"]))


def project(config: ModelConfig, params: Params, t: Float[Array, "*X L"]) -> Float[Array, "*X M"]:
    """Apply the linear layer between readout and vocabulary, where the model has one."""
    W_1 = params["output"].get("W_1")
    return t if W_1 is None else matmul(config.compute_dtype, t, W_1)


def fold(config: ModelConfig, params: Params, memory: Memory) -> Folded:
    """Fold a memory for `start` and `stepper`: faster where words outnumber source positions.

    >>> memory = fold(config, params, encode(config, params, source, source_mask))
    """
    C, C_o = CELLS[config.cell].inputs(params["decoder"], "C"), params["readout"]["C_o"]
    both = jnp.concatenate([C, C_o], axis=-1)
    annotations = matmul(config.compute_dtype, memory.annotations, both)
    return Folded(annotations, memory.keys, memory.mask, memory.initial)


def start(memory: Memory | Folded) -> State:
    """Return the state before the first word: s_0, and a context of zeros."""
    batch, _, size = memory.annotations.shape
    return State(memory.initial, jnp.zeros((batch, size), memory.annotations.dtype))


def teacher_force(
    config: ModelConfig,
    params: Params,
    memory: Memory,
    target: Int[Array, "B T"],
    keys: Array | None = None,
) -> tuple[Float[Array, "T B M"], Float[Array, "T B S"]]:
    """Return the inputs of the output softmax under teacher forcing, and α, of every step.

    M is the readout size L, or `output_size` where that is set. `keys`, one for each row, switch
    dropout on.
    """
    before = jnp.pad(target, ((0, 0), (1, 0)), constant_values=START)[:, :-1].T
    y = dropout(keys, 2, config.embedding_dropout, embed(params["target_embedding"], before))
    weights, rest = _operands(config, params, memory)
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


# "..." is empty, or K hypotheses of each sentence, which share its memory.
Stepper = Callable[
    [Int[Array, "B ..."], State], tuple[Float[Array, "B ... V"], State, Float[Array, "B ... S"]]
]
Predictor = Callable[
    [Int[Array, "B ..."], State], tuple[Distribution, State, Float[Array, "B ... S"]]
]


def stepper(config: ModelConfig, params: Params, memory: Memory | Folded) -> Stepper:
    """Return a function (tokens, state) -> (log-probabilities of the next word, new state, α).

    The first token is START. Tokens are [B], or [B, K] for K hypotheses of each sentence; states
    and results have the same leading axes.

    >>> step = stepper(config, params, memory)
    >>> log_p, state, alpha = step(jnp.full(B, START), start(memory))
    """
    predict = predictor(config, params, memory)

    def step(tokens, state):
        next_word, state, alpha = predict(tokens, state)
        return next_word.log_p, state, alpha

    return step


def predictor(config: ModelConfig, params: Params, memory: Memory | Folded) -> Predictor:
    """Return a `stepper` that gives a `Distribution`: faster for a search that reads few words."""
    (weights, rest), output = _operands(config, params, memory), params["output"]
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
        logits = dot("W_o", with_ones(t.reshape(-1, t.shape[-1]), len(W_o)))
        return softmax(logits.reshape(*tokens.shape, -1)), state, alpha

    return predict


def _unfolding(dot: recurrence.Dot, width: int) -> recurrence.Dot:
    """Wrap `dot` for folded contexts [C c, C_o c]: the first `width` columns are C c."""
    slices = {"C": lambda c: c[..., :width], "C_o": lambda c: c[..., width:]}
    return lambda name, x: slices[name](x) if name in slices else dot(name, x)
