"""The bidirectional encoder: it turns source sentences into the memory that the decoder reads.

B sentences, S source positions, E embedding, H units of a direction, D directions, C = D·H,
or D·H + E with `word_annotations`.
Source: arXiv 1409.0473, section 3.2 and appendix A.2.1.
"""

import functools
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model import recurrence
from bahdanau_jax.model.attention import score_named
from bahdanau_jax.model.cells import CELLS, Cell, dropping
from bahdanau_jax.model.dropout import Place, dropout, kept_units, word_dropout
from bahdanau_jax.model.matrix_products import matmul
from bahdanau_jax.model.memory import Memory, first_step, no_coverage
from bahdanau_jax.model.parameters import INITS, Params, add_bias, draw, embed, zeros

# Value of `model.encoder_directions` -> the directions, in the order of their annotations.
DIRECTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"both": ("forward", "backward"), "forward": ("forward",)}
)

# The direction whose last state h gives s_0 = tanh(W_s h + b_s); None: s_0 is zero. The backward
# direction ends at the first source word.
INITIAL_STATES: Mapping[str, str | None] = MappingProxyType(
    {"backward": "backward", "forward": "forward", "zero": None}
)


def direction_faults(config: ModelConfig) -> Iterator[str]:
    """Yield that the direction that ends in s_0 is not encoded, where this is so."""
    needs = INITIAL_STATES.get(config.initial_state)
    has = DIRECTIONS.get(config.encoder_directions, ())  # unknown names: another fault
    if needs and has and needs not in has:
        yield (
            f"model.initial_state is {needs}, but model.encoder_directions has only "
            f"{', '.join(has)}: set initial_state to forward or zero, or encode in both directions"
        )


def init_encoder(key: Key[Array, ""], config: ModelConfig) -> dict[str, dict[str, Array]]:
    """Draw the parameters of one cell for each direction."""
    directions = DIRECTIONS[config.encoder_directions]
    return {
        name: CELLS[config.cell].init(
            k,
            INITS[config.init],
            {"W": config.embedding_size},
            config.hidden_size,
            config.gate_bias,
        )
        for name, k in zip(directions, jax.random.split(key, len(directions)), strict=True)
    }


def init_initial(key: Key[Array, ""], config: ModelConfig) -> dict[str, Array]:
    """Draw W_s [H, H] and b_s [H]; the dict is empty where s_0 is zero."""
    if INITIAL_STATES[config.initial_state] is None:
        return {}
    size = config.hidden_size
    return draw(key, {"W_s": (INITS[config.init].weight, (size, size)), "b_s": zeros(size)})


@functools.cache
def _step(cell: Cell, state_dropout: float) -> recurrence.Step:
    """Return a step of the cell that leaves the state unchanged at padding."""

    def step(dot, rest, h, inputs):
        x, real = inputs
        of_cell, kept = rest
        dot = dropping(dot, cell, state_dropout, kept)
        return jnp.where(real, cell.step(dot, h, jnp.stack(x), of_cell), h), ()

    return step


def bidirectional(
    config: ModelConfig,
    params: Params,
    x: Float[Array, "S B E"],
    mask: Bool[Array, "S B"],
    keys: Key[Array, " B"] | None = None,
) -> tuple[Float[Array, "S B C"], Float[Array, "D B H"]]:
    """Return the annotations h_j = [→h_j ; ←h_j], and the last state of each direction.

    Both directions run in one scan. The backward one reads the flipped sentence: its padding comes
    first and leaves its state at 0 until the last real word. `keys`, one for each row, switch the
    dropout of the state on.
    """
    cell = CELLS[config.cell]
    cells = [params[direction] for direction in DIRECTIONS[config.encoder_directions]]
    turns = [lambda x: x, lambda x: jnp.flip(x, 0)][: len(cells)]
    inputs = [
        add_bias(matmul(config.compute_dtype, turn(x), cell.inputs(p, "W")), cell.bias(p))
        for turn, p in zip(turns, cells, strict=True)
    ]
    real = jnp.stack([turn(mask) for turn in turns], axis=1)[..., None]
    weights, rest = (
        jax.tree.map(lambda *w: jnp.stack(w), *[of(p) for p in cells])
        for of in (cell.recurrent, cell.rest)
    )
    start = jnp.zeros((len(cells), x.shape[1], config.hidden_size), x.dtype)
    kept = kept_units(
        keys, Place.ENCODER_STATE, config.state_dropout, config.hidden_size, len(cells)
    )
    h, _ = recurrence.scan(
        _step(cell, config.state_dropout),
        weights,
        (rest, kept),
        start,
        (inputs, real),
        config.gradients,
        config.compute_dtype,
    )
    last = h[-1]
    h = jnp.concatenate([turn(h[:, i]) for i, turn in enumerate(turns)], axis=-1)
    return h, last


def encode(
    config: ModelConfig,
    params: Params,
    source: Int[Array, "B S"],
    mask: Bool[Array, "B S"],
    keys: Key[Array, " B"] | None = None,
) -> Memory:
    """Encode a batch of source sentences; `keys`, one for each row, switch dropout on.

    >>> encode(config.model, params, batch.source, batch.source_mask).annotations.shape
    (B, S, C)
    """
    return encode_embedded(config, params, embed(params["source_embedding"], source.T), mask, keys)


def encode_embedded(
    config: ModelConfig,
    params: Params,
    x: Float[Array, "S B E"],
    mask: Bool[Array, "B S"],
    keys: Key[Array, " B"] | None = None,
) -> Memory:
    """Encode sentences of embedded words, as `encode` does with ids.

    With `word_annotations`, an annotation is [→h_j ; ←h_j ; x̄_j], the source-side bridge of Kuang
    et al. 2018, arXiv 1711.05380.
    """
    x = dropout(keys, Place.SOURCE_EMBEDDING, config.embedding_dropout, x)
    x = word_dropout(keys, Place.SOURCE_WORD, config.word_dropout, x)
    h, last = bidirectional(config, params["encoder"], x, mask.T, keys)
    if config.word_annotations:
        h = jnp.concatenate([h, x], axis=-1)
    start = INITIAL_STATES[config.initial_state]
    if start is None:
        initial = jnp.zeros_like(last[0])
    else:
        p = params["initial_state"]
        end = last[DIRECTIONS[config.encoder_directions].index(start)]
        initial = jnp.tanh(add_bias(matmul(config.compute_dtype, end, p["W_s"]), p["b_s"]))
    annotations = jnp.swapaxes(dropout(keys, Place.ANNOTATION, config.annotation_dropout, h), 0, 1)
    score = score_named(config.attention)
    return Memory(
        annotations=annotations,
        keys=score.keys(config, params["attention"], annotations, mask),
        mask=mask,
        initial=initial,
        i=() if score.weights is None else first_step(annotations),
        coverage=() if score.covered is None else no_coverage(annotations),
    )
