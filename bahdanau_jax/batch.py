"""The padded minibatch, and the ids that every vocabulary shares.

B sentences, S source positions, T target positions; both sides end in EOS.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

EOS = 0  # end of sentence, a real word of both sides
UNK = 1  # any word outside the vocabulary
PAD = EOS  # padding has no embedding of its own; the mask hides it
START = -1  # the word before the first; its embedding is the zero vector
RESERVED = 2  # the first id of an ordinary word
EOS_SYMBOL = "</s>"  # EOS among the symbols of a vocabulary
UNK_SYMBOL = "<unk>"
SIDES = ("source", "target")


class Batch(NamedTuple):
    """Padded sentence pairs. Rows of weight 0 are fillers and do not count.

    The data pipeline makes NumPy arrays; a compiled function sees JAX arrays.
    """

    source: Int[Any, "B S"]  # word ids, EOS last, then PAD
    source_mask: Bool[Any, "B S"]  # True at words and at EOS
    target: Int[Any, "B T"]  # word ids, EOS last, then PAD
    target_mask: Bool[Any, "B T"]  # True at words and at EOS
    weight: Float[Any, " B"]  # float32; 1 for a real pair, 0 for a filler row


def pad(
    sentences, length: int, rows: int | None = None
) -> tuple[Int[np.ndarray, "B S"], Bool[np.ndarray, "B S"]]:
    """Pad sequences of ids (EOS included) to one length: (ids int32, mask bool).

    An empty sequence becomes a row of padding alone, and so do the rows after the last sequence up
    to `rows` (by default none). Raises ValueError for a sequence longer than `length`.
    """
    shape = len(sentences) if rows is None else rows, length
    ids, mask = np.full(shape, PAD, np.int32), np.zeros(shape, np.bool_)
    for row, sentence in enumerate(sentences):
        if len(sentence) > length:
            raise ValueError(
                f"a sentence of {len(sentence)} tokens does not fit {length} positions"
            )
        ids[row, : len(sentence)] = sentence
        mask[row, : len(sentence)] = True
    return ids, mask
