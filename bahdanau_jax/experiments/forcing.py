"""A test set under teacher forcing: how sure the model was of each word, and how often right."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float

from bahdanau_jax import data, model
from bahdanau_jax.run import Run


class Predictions(NamedTuple):
    """N target words (EOS counted) and M source words (EOS not) of all sentences, in any order."""

    log_p: Float[np.ndarray, " N"]  # of the reference's word, in nats
    confidence: Float[np.ndarray, " N"]  # of the likeliest word
    correct: Bool[np.ndarray, " N"]  # whether that is the reference's
    attention: Float[np.ndarray, " M"]  # total attention to each source word
    left_out: int  # sentences with an empty side, or above decoding.max_source tokens


forced = partial(jax.jit, static_argnums=0)(model.forced)


def force(run: Run, sources: Sequence[str], references: Sequence[str]) -> Predictions:
    """What the model would have said at each word of the references.

    Longer sentences than the model reads at once are left out, as one of them would pad a whole
    batch; the search translates them in pieces.
    """
    most = run.config.decoding.max_source + 1
    pairs = []
    for source, reference in zip(sources, references, strict=True):
        pair = run.codecs[0].encode(source), run.codecs[1].encode(reference)
        if all(1 < len(side) <= most for side in pair):
            pairs.append(pair)
    found = [
        _real(batch, jax.device_get(forced(run.config.model, run.params, batch)))
        for batch in data.dev_batches(data.Pairs.of(pairs), run.config.data)
    ]
    columns = [np.concatenate([np.zeros(0), *column]) for column in zip(*found, strict=True)]
    log_p, confidence, correct, attention = columns or [np.zeros(0)] * 4
    return Predictions(
        log_p, np.clip(confidence, 0, 1), correct.astype(bool), attention, len(sources) - len(pairs)
    )


def _real(batch, values: model.Forced) -> tuple[np.ndarray, ...]:
    """Of each value what is no padding; of the source, words alone."""
    target = np.asarray(batch.target_mask) & (np.asarray(batch.weight) > 0)[:, None]
    source = np.asarray(batch.source_mask) & (np.asarray(batch.weight) > 0)[:, None]
    last = source.sum(axis=1, keepdims=True) - 1
    source &= np.arange(source.shape[1])[None] < last
    return (
        *(np.asarray(value, np.float64)[target] for value in values[:3]),
        np.einsum("bts,bt->bs", values.alpha, target, dtype=np.float64)[source],
    )
