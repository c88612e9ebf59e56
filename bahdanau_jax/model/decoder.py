"""The decoder with attention: the context and the state update of each target word.

B sentences, S source and T target positions, H units, C annotation size, M inputs of the softmax,
V vocabulary.
Source: arXiv 1409.0473, sections 3.1 and A.2.2.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int, Key

from bahdanau_jax.batch import START
from bahdanau_jax.config import ModelConfig
from bahdanau_jax.distribution import Distribution, softmax
from bahdanau_jax.model import recurrence
from bahdanau_jax.model.attention import annotation_size, attend, score_named
from bahdanau_jax.model.cells import CELLS, dropping
from bahdanau_jax.model.dropout import Place, dropout, kept_units, word_dropout
from bahdanau_jax.model.matrix_products import matmul, on_accelerator, rounded, with_bias, with_ones
from bahdanau_jax.model.memory import Folded, Memory
from bahdanau_jax.model.orders import ORDERS, State
from bahdanau_jax.model.parameters import INITS, Params, add_bias, embed, embedding
from bahdanau_jax.model.readout import READOUT_INPUTS, output_weights, project, readout


def reads_words(config: ModelConfig) -> bool:
    """Whether any part of the decoder reads the previous word."""
    return config.feed_previous or "V_o" in READOUT_INPUTS[config.readout_inputs]


def init_embedding(key: Key[Array, ""], config: ModelConfig) -> dict[str, Array]:
    """Draw the embedding of target words; the dict is empty where no part reads it."""
    rows, size = config.target_vocabulary, config.embedding_size
    if not reads_words(config):
        return {}
    return embedding(key, INITS[config.init], rows, size, config.embedding_bias)


def init_decoder(key: Key[Array, ""], config: ModelConfig) -> dict[str, Any]:
    """Draw the parameters of the cell: W for the previous word, if it is fed, C for the context.

    In the order `conditional`, C belongs to a cell of its own, `second`.
    """

    def cell(key: Array, inputs: Mapping[str, int]) -> dict[str, Any]:
        size, init = config.hidden_size, INITS[config.init]
        return CELLS[config.cell].init(key, init, inputs, size, config.gate_bias)

    word = {"W": config.embedding_size} if config.feed_previous else {}
    context = {"C": annotation_size(config)}
    if not ORDERS[config.order].has_second_cell:
        return cell(key, word | context)
    first, second = jax.random.split(key)
    return cell(first, word) | {"second": cell(second, context)}


def _cells(params: Params) -> list[Params]:
    """Return the parameters of each cell, the one that reads the context last."""
    first = params["decoder"]
    return [first, first["second"]] if "second" in first else [first]


def _matrices(config: ModelConfig, params: Params) -> dict[str, Array]:
    """Return the matrices of states and contexts in attention and recurrence."""
    cell, cells = CELLS[config.cell], _cells(params)
    weights: dict[str, Any] = {"C": cell.inputs(cells[-1], "C")}
    for second, p in enumerate(cells):
        weights |= {_name(name, second): weight for name, weight in cell.recurrent(p).items()}
    if (query := score_named(config.attention).query(params["attention"])) is not None:
        weights["W_a"] = query
    return weights


def _name(name: str, second: int) -> str:
    """Return the name of a recurrent matrix among the weights of a step: U', if `second`."""
    return name + "'" * second


def _rest(config: ModelConfig, params: Params, memory: Memory | Folded, kept: Any = None) -> tuple:
    """Return the other parameters of a step, the kept units, and what attention reads beside s."""
    cell, cells = CELLS[config.cell], _cells(params)
    rests, biases = [cell.rest(p) for p in cells], [cell.bias(p) for p in cells[1:]]
    return params["attention"], rests, biases, kept, memory.keys, memory.mask, memory.intervention


@functools.cache
def _step(config: ModelConfig, weights: frozenset[str]) -> recurrence.Step:
    """Build a step in the configured order that multiplies with the weights of these names."""
    move, cell = ORDERS[config.order].move, CELLS[config.cell]
    score = score_named(config.attention)

    def step(dot, rest, state, inputs):
        x, start = inputs
        params, rests, biases, kept, keys, mask, intervention = rest

        def context_of(s):
            query, deferred = dot("W_a", s) if "W_a" in weights else s, "score" in weights
            latest = state.i, state.coverage
            return attend(score, dot, params, query, keys, mask, *latest, intervention, deferred)

        def update(s, c=None, *, second=False):
            read = (x, *biases)[second]  # a bias has no axis of sentences
            if c is not None:
                read = add_bias(dot("C", c), read)

            def of_cell(name, operand):
                return dot(_name(name, second), operand)

            of_state = dropping(of_cell, cell, config.state_dropout, kept)
            return cell.step(of_state, s, read, rests[second])

        after, alpha = move(update, context_of, state, start)
        i = jax.tree.map(lambda i: i + 1, state.i)
        coverage = jax.tree.map(lambda so_far: so_far + alpha, state.coverage)
        return after._replace(i=i, coverage=coverage), alpha

    return step


def _factors(config: ModelConfig, params: Params) -> dict[str, Array]:
    """Return the matrices of words, states and contexts outside attention and recurrence."""
    weights = {name: params["readout"][name] for name in READOUT_INPUTS[config.readout_inputs]}
    if config.feed_previous:
        weights["W"] = CELLS[config.cell].inputs(params["decoder"], "W")
    return weights


def _previous(config: ModelConfig, params: Params, ids: Int[Array, "*X"]) -> Array | None:
    """Return ȳ of the previous words [*X, E]; None where no part of the decoder reads them."""
    return embed(params["target_embedding"], ids) if reads_words(config) else None


def _inputs(config: ModelConfig, dot: recurrence.Dot, params: Params, y: Array | None, ids: Array):
    """Return the inputs of a step: the previous word's product with W, and whether it is START."""
    bias = CELLS[config.cell].bias(params["decoder"])
    if y is not None and config.feed_previous:
        x = add_bias(dot("W", y), bias)
    else:
        x = jnp.broadcast_to(bias, (*ids.shape, len(bias)))
    return x, (ids == START)[..., None]


def fold(config: ModelConfig, params: Params, memory: Memory) -> Memory | Folded:
    """Fold a memory for `start` and `stepper`: faster where words outnumber source positions.

    The memory of an order that is not linear in its contexts stays as it is.

    >>> memory = fold(config, params, encode(config, params, source, source_mask))
    """
    if not ORDERS[config.order].is_linear:
        return memory
    weights = [CELLS[config.cell].inputs(_cells(params)[-1], "C")]
    if "C_o" in params["readout"]:
        weights.append(params["readout"]["C_o"])
    both = jnp.concatenate(weights, axis=-1)
    return Folded(matmul(config.compute_dtype, memory.annotations, both), *memory[1:])


def start(memory: Memory | Folded) -> State:
    """Return the state before the first word: s_0, and a context of zeros."""
    no_context = jnp.zeros_like(memory.annotations[:, 0])
    return State(memory.initial, no_context, memory.i, memory.coverage)


class TeacherForcedStates(NamedTuple):
    """The decoder under teacher forcing, before its readout."""

    state: State  # [T B ...] the states that each step reads out
    y: Float[Array, "T B E"] | None  # the embedded word before; None where nothing reads it
    alpha: Float[Array, "T B S"]  # the attention weights of each step


def teacher_forced_states(
    config: ModelConfig,
    params: Params,
    memory: Memory,
    target: Int[Array, "B T"],
    keys: Key[Array, " B"] | None = None,
) -> TeacherForcedStates:
    """Run the decoder over the target; `keys`, one for each row, switch dropout on."""
    before = jnp.pad(target, ((0, 0), (1, 0)), constant_values=START)[:, :-1].T
    y = _previous(config, params, before)
    if y is not None:
        y = dropout(keys, Place.TARGET_EMBEDDING, config.embedding_dropout, y)
        y = word_dropout(keys, Place.TARGET_WORD, config.word_dropout, y)
    kept = kept_units(keys, Place.DECODER_STATE, config.state_dropout, config.hidden_size)
    weights: dict[str, Any] = _matrices(config, params) | {"annotations": memory.annotations}
    if config.gradients == "deferred" and on_accelerator():  # docs/decisions/0125
        energies = score_named(config.attention).energies_of_packed
        weights["score"] = Partial(energies, params["attention"], memory.keys)
        memory = memory._replace(keys=None)
    dot = recurrence.times(_factors(config, params), config.compute_dtype)
    states, alpha = recurrence.scan(
        _step(config, frozenset(weights)),
        weights,
        _rest(config, params, memory, kept),
        start(memory),
        _inputs(config, dot, params, y, before),
        config.gradients,
        config.compute_dtype,
    )
    return TeacherForcedStates(states, y, alpha)


def read_out(
    config: ModelConfig,
    params: Params,
    forced: TeacherForcedStates,
    keys: Key[Array, " B"] | None = None,
) -> Float[Array, "T B M"]:
    """Return the inputs of the output softmax at every step; M is L, or `output_size` if set."""
    dot = recurrence.times(_factors(config, params), config.compute_dtype)
    t = readout(config, dot, params, forced.state.s, forced.y, forced.state.c)
    return project(config, params, dropout(keys, Place.READOUT, config.readout_dropout, t))


def teacher_force(
    config: ModelConfig,
    params: Params,
    memory: Memory,
    target: Int[Array, "B T"],
    keys: Key[Array, " B"] | None = None,
) -> tuple[Float[Array, "T B M"], Float[Array, "T B S"]]:
    """Return the inputs of the output softmax under teacher forcing, and α, of every step."""
    forced = teacher_forced_states(config, params, memory, target, keys)
    return read_out(config, params, forced, keys), forced.alpha


Words = Int[Array, "B ..."]  # "..." is empty, or K hypotheses, which share a sentence's memory
# (words, state) -> log-probabilities of the next words, the state, alpha
Stepper = Callable[[Words, State], tuple[Float[Array, "B ... V"], State, Float[Array, "B ... S"]]]
# (words, state) -> the distribution of the next words, the state, alpha
Predictor = Callable[[Words, State], tuple[Distribution, State, Float[Array, "B ... S"]]]


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


def step_weights(config: ModelConfig, params: Params) -> dict[str, Float[Array, "_ _"]]:
    """Return the matrices [inputs outputs] of a step as `predictor` uses them: joined, and rounded.

    A program of one step takes them as an argument, or it would copy most parameters for each word.

    >>> predict = predictor(config, params, memory, step_weights(config, params))
    """
    W_o = with_bias(config.compute_dtype, output_weights(config, params), params["output"]["b_w"])
    weights = _matrices(config, params) | _factors(config, params) | {"W_o": W_o}
    return rounded(config.compute_dtype, weights)


def predictor(
    config: ModelConfig,
    params: Params,
    memory: Memory | Folded,
    weights: Mapping[str, Float[Array, "_ _"]] | None = None,  # those of `step_weights`, if known
) -> Predictor:
    """Return a `stepper` that gives a `Distribution`: faster for a search that reads few words."""
    weights = step_weights(config, params) if weights is None else weights
    rest, move = _rest(config, params, memory), _step(config, frozenset(weights))
    annotations = rounded(config.compute_dtype, {"annotations": memory.annotations})
    dot = recurrence.times({**weights, **annotations}, config.compute_dtype)
    if isinstance(memory, Folded):
        dot = _unfolding(dot, weights["C"].shape[-1])

    def predict(tokens, state):
        y = _previous(config, params, tokens)
        state, alpha = move(dot, rest, state, _inputs(config, dot, params, y, tokens))
        t = project(config, params, readout(config, dot, params, state.s, y, state.c))
        logits = dot("W_o", with_ones(t.reshape(-1, t.shape[-1]), len(weights["W_o"])))
        return softmax(logits.reshape(*tokens.shape, -1)), state, alpha

    return predict


def _unfolding(dot: recurrence.Dot, width: int) -> recurrence.Dot:
    """Wrap `dot` for folded contexts [C c, C_o c]: the first `width` columns are C c."""
    slices = {"C": lambda c: c[..., :width], "C_o": lambda c: c[..., width:]}
    return lambda name, x: slices[name](x) if name in slices else dot(name, x)
