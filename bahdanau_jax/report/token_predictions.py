"""A test set under teacher forcing: the confidence and accuracy of each word's prediction."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float

from bahdanau_jax import data, model
from bahdanau_jax.reporting import ignore
from bahdanau_jax.trained import Run


class Predictions(NamedTuple):
    """Values of N target words (with EOS) and M source words (without EOS) of all sentences."""

    log_p: Float[np.ndarray, " N"]  # log-probability of the reference's word, in nats
    confidence: Float[np.ndarray, " N"]  # probability of the likeliest word
    correct: Bool[np.ndarray, " N"]  # whether the likeliest word is the reference's
    attention: Float[np.ndarray, " M"]  # total attention to each source word
    alphas: list[Float[np.ndarray, "T S"] | None]  # of each sentence; None where it is left out
    left_out: int  # the number of sentences with an empty side, or above decoding.max_source


teacher_forced = jax.jit(model.teacher_forced_ensemble, static_argnums=0)


def predict(
    run: Run,
    sources: Sequence[str],
    references: Sequence[str],
    advance: Callable[[int], object] = ignore,
) -> Predictions:
    """The predictions of a run, or an ensemble, at each word of the references.

    They are made by teacher forcing. Sentences above decoding.max_source tokens are left out,
    because one of them would pad a whole batch. `advance` is called with the number of pairs left
    out, and with that of each batch.
    """
    most = run.config.decoding.max_source + 1
    encoded, numbers = [], []
    for number, (source, reference) in enumerate(zip(sources, references, strict=True)):
        pair = run.codecs[0].encode(source), run.codecs[1].encode(reference)
        if all(1 < len(side) <= most for side in pair):
            encoded.append(pair)
            numbers.append(number)
    advance(len(sources) - len(encoded))
    pairs, batches = data.Pairs.of(encoded), []
    alphas: list[np.ndarray | None] = [None] * len(sources)
    for planned in data.dev_plan(pairs, run.config.data):
        batch = data.lay_out(pairs, planned)
        values = jax.device_get(teacher_forced(*run.models(), batch))
        batches.append(_real(batch, values))
        for i, row in enumerate(planned.rows.tolist()):
            width, height = pairs.lengths[row]
            alphas[numbers[row]] = values.alpha[i, :height, :width].copy()
        advance(len(planned.rows))
    columns = [np.concatenate([np.zeros(0), *column]) for column in zip(*batches, strict=True)]
    log_p, confidence, correct, attention = columns or [np.zeros(0)] * 4
    return Predictions(
        log_p,
        np.clip(confidence, 0, 1),
        correct.astype(bool),
        attention,
        alphas,
        len(sources) - len(pairs),
    )


def _real(batch, values: model.TeacherForced) -> tuple[np.ndarray, ...]:
    """The values without padding; those of the source also without EOS."""
    target = np.asarray(batch.target_mask) & (np.asarray(batch.weight) > 0)[:, None]
    source = np.asarray(batch.source_mask) & (np.asarray(batch.weight) > 0)[:, None]
    last = source.sum(axis=1, keepdims=True) - 1
    source &= np.arange(source.shape[1])[None] < last
    return (
        *(np.asarray(value, np.float64)[target] for value in values[:3]),
        np.einsum("bts,bt->bs", values.alpha, target, dtype=np.float64)[source],
    )
