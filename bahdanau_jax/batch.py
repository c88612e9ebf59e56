"""The padded minibatch: what the data hands to the model, and the ids that every vocabulary shares.

B sentences, S source positions, T target positions; both sides end in EOS.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

EOS = 0  # end of sentence, a real word of both sides
UNK = 1  # any word outside the shortlist
PAD = EOS  # padding has no embedding of its own: it is an EOS that the mask hides
START = -1  # the word before the first: its embedding is the zero vector
RESERVED = 2  # ids below this are the special ones; words follow
EOS_SYMBOL = "</s>"  # how the first two are written
UNK_SYMBOL = "<unk>"


class Batch(NamedTuple):
    """Sentence pairs, one rectangle a side. Rows of weight 0 are filler and count for nothing.

    NumPy arrays where they are made, JAX arrays inside a compiled function.
    """

    source: Int[Any, "B S"]  # word ids, EOS last, then PAD
    source_mask: Bool[Any, "B S"]  # True at words and at EOS
    target: Int[Any, "B T"]  # word ids, EOS last, then PAD
    target_mask: Bool[Any, "B T"]  # True at words and at EOS
    weight: Float[Any, " B"]  # float32; 1 a real pair, 0 a filler row


def pad(sentences, length: int) -> tuple[Int[np.ndarray, "B S"], Bool[np.ndarray, "B S"]]:
    """Lay out sequences of ids (EOS included) as a rectangle: (ids int32, mask bool).

    An empty sequence becomes a row of padding alone. A sequence longer than `length` is a
    ValueError: nothing is ever truncated.
    """
    ids = np.full((len(sentences), length), PAD, np.int32)
    mask = np.zeros((len(sentences), length), np.bool_)
    for row, sentence in enumerate(sentences):
        if len(sentence) > length:
            raise ValueError(
                f"a sentence of {len(sentence)} tokens does not fit {length} positions"
            )
        ids[row, : len(sentence)] = sentence
        mask[row, : len(sentence)] = True
    return ids, mask
