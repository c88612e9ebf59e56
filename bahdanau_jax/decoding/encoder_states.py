"""The encoder's annotations of lines of text.

B sentences, S source positions, H decoder units, C annotation size.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from bahdanau_jax import model
from bahdanau_jax.batch import pad
from bahdanau_jax.config import DecodingConfig, ModelConfig
from bahdanau_jax.data import Codec
from bahdanau_jax.decoding.members import members
from bahdanau_jax.decoding.search_shapes import grouped, height
from bahdanau_jax.model import Params
from bahdanau_jax.pairing import check_list


class EncoderStates(NamedTuple):
    """The encoder states of one line, without padding, in NumPy float32."""

    tokens: tuple[str, ...]  # S tokens, EOS last
    annotations: Float[np.ndarray, "S C"]  # h_j, a row for each token
    initial: Float[np.ndarray, " H"]  # s_0, the state that the decoder begins with


encoding = jax.jit(model.encode, static_argnums=0)


def encode(
    config: ModelConfig,
    params: Params,
    codec: Codec,
    decoding: DecodingConfig,
    lines: Sequence[str],
) -> list[EncoderStates]:
    """Encode each line; the other lines do not change the result, and no line is split or cut.

    A blank line has one annotation, that of EOS.
    """
    check_list("lines", lines)
    (config,), (params,) = members(config, params, decoding.compute_dtype)
    size = decoding.batch_size
    ids = [codec.encode(line) for line in lines]
    states: dict[int, EncoderStates] = {}
    for rows, length in grouped([len(line) for line in ids], size):
        padded = pad([ids[row] for row in rows], length, height(len(rows), size))
        memory = encoding(config, params, *padded)
        annotations, initial = np.asarray(memory.annotations), np.asarray(memory.initial)
        for i, row in enumerate(rows):
            own = annotations[i, : len(ids[row])].copy()
            states[row] = EncoderStates(codec.units(lines[row]), own, initial[i].copy())
    return [states[row] for row in range(len(lines))]
