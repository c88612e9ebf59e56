"""Does alpha predict what happens to the output when a source word is masked?

For each target word of the model's own translation, the drop of log p(y_i) when source word j is
masked is compared with alpha_ij and with other weights, by rank correlation over j.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.stats import rankdata

from bahdanau_jax.batch import Batch
from bahdanau_jax.config import ModelConfig
from bahdanau_jax.evaluation import significance
from bahdanau_jax.experiments.inspection import as_batch, without
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.model import Params, attribution, interventions, teacher_forced
from bahdanau_jax.pairing import check_equal_counts
from bahdanau_jax.trained import Run

ROWS = 25  # sentences of a batch
POINTS = 8  # of integrated gradients
EITHER = ", either sign"  # after a masking: the absolute value of the drop


def rank_correlation(a: Float[np.ndarray, " N"], b: Float[np.ndarray, " N"]) -> float:
    """Return Spearman's correlation; 0 where all values of one side are equal.

    >>> rank_correlation(np.array([1.0, 2.0, 4.0]), np.array([0.1, 0.5, 0.6]))
    1.0
    """
    x, y = (rankdata(side) - (len(side) + 1) / 2 for side in (a, b))
    size = np.sqrt((x @ x) * (y @ y))
    return float(x @ y / size) if size else 0.0


def same_top(a: Float[np.ndarray, " N"], b: Float[np.ndarray, " N"]) -> float:
    """Return the chance that the largest value of a is where that of b is; ties break at random.

    >>> same_top(np.array([1.0, 1.0, 0.0]), np.array([0.2, 0.1, 0.1]))
    0.5
    """
    x, y = a == a.max(), b == b.max()
    return float((x & y).sum() / (x.sum() * y.sum()))


def by_unk(config: ModelConfig, params: Params, batch: Batch) -> Float[Array, "S B T"]:
    """Return log p of the target words where UNK takes the place of source word j.

    >>> teacher_forced(config, params, batch).log_p - by_unk(config, params, batch)[0]
    """

    def of_word(j):
        words = jnp.broadcast_to(jnp.arange(batch.source.shape[1]) == j, batch.source.shape)
        return teacher_forced(config, params, without(batch, words)).log_p

    return jax.lax.map(of_word, jnp.arange(batch.source.shape[1]))


def by_attention(config: ModelConfig, params: Params, batch: Batch) -> Float[Array, "S B T"]:
    """Return log p of the target words where source word j is removed from attention alone.

    >>> teacher_forced(config, params, batch).log_p - by_attention(config, params, batch)[0]
    """

    def of_word(j):
        words = jnp.broadcast_to(jnp.arange(batch.source.shape[1]) == j, batch.source.shape)
        return teacher_forced(config, params, batch, interventions.mask(words)).log_p

    return jax.lax.map(of_word, jnp.arange(batch.source.shape[1]))


MASKINGS: Mapping[str, Callable[..., jax.Array]] = MappingProxyType(
    {"UNK in the input": by_unk, "removed from attention": by_attention}
)


def diagonal_weights(forced, batch: Batch, A) -> Float[Array, "B T S"]:
    """Return minus the distance of relative positions, |(i + 1/2) / T - (j + 1/2) / S|.

    >>> diagonal_weights(forced, batch, A={}).argmax(axis=-1)
    """
    places = [
        (jnp.arange(side.shape[1])[None] + 0.5) / side.sum(axis=1, keepdims=True)
        for side in (batch.target_mask, batch.source_mask)
    ]
    return -jnp.abs(places[0][:, :, None] - places[1][:, None])


# Name -> function of (predictions, batch, {name: attribution matrix}) -> weights [B T S].
MEASURES: Mapping[str, Callable] = MappingProxyType(
    {
        "alpha": lambda forced, batch, A: forced.alpha,
        "gradient times input": lambda forced, batch, A: A["gradient"],
        "|gradient times input|": lambda forced, batch, A: jnp.abs(A["gradient"]),
        "integrated gradients": lambda forced, batch, A: A["integrated"],
        "diagonal": diagonal_weights,
        "uniform": lambda forced, batch, A: jnp.ones_like(forced.alpha),
    }
)


@dataclass(frozen=True)
class MeanCorrelation:
    """The mean rank correlation over target words, with its interval over sentences."""

    mean: float  # Spearman's ρ
    low: float  # end of the 95 % bootstrap interval
    high: float  # its other end
    top: float  # share of target words whose largest weight is on the word with the largest drop


@dataclass(frozen=True)
class MaskingStudy:
    """The correlations of one run, and the drops that they are computed from."""

    sentences: int  # sentences of the study
    target_words: int  # their target words, without EOS
    # Masking, of the drop or of its absolute value (EITHER) -> measure -> correlation.
    correlations: dict[str, dict[str, MeanCorrelation]]
    mean_drop: dict[str, float]  # of log p, of the source word whose masking hurts most, in nats

    def to_json(self) -> dict:
        """Return the study as a JSON object."""
        return dataclasses.asdict(self)


def masking_study(
    run: Run,
    lines: Sequence[str],
    targets: Sequence[str | Hypothesis] | None = None,
    resamples: int = 2000,
    seed: int = 1,
) -> MaskingStudy:
    """Measure how well weights predict the drop of log p(y_i) when a source word is masked.

    The targets are by default the run's own translations. Teacher forcing keeps them while a word
    is masked. A source word is a token of the model. The last position of both sides, which is EOS
    unless a translation was cut off, is left out. So are lines of fewer than three tokens, and
    lines whose target is empty. Raises ValueError where no target word is left, for an ensemble,
    for unequal numbers of lines and targets, and for fewer than one resample.

    >>> masking_study(run, lines).correlations["UNK in the input"]["alpha"].mean
    """
    _check(run, lines, targets, resamples)
    lengths = [len(run.codecs[0].encode(line)) for line in lines]
    order = sorted((row for row in range(len(lines)) if lengths[row] > 3), key=lengths.__getitem__)
    targets = run.translate(lines) if targets is None else targets
    program = jax.jit(partial(_measured, run.config.model))
    samples: dict[tuple[str, str], list[np.ndarray]] = {}
    drops: dict[str, list[float]] = {}
    for start in range(0, len(order), ROWS):
        rows = order[start : start + ROWS]
        batch = as_batch(run, [lines[row] for row in rows], [targets[row] for row in rows])
        batch, *measured = jax.tree.map(np.asarray, (batch, *program(run.params, batch)))
        for masking, measure, pairs in _sentences(batch, *measured):
            if len(pairs):  # else the translation is empty
                samples.setdefault((masking, measure), []).append(pairs)
        for masking, drop in measured[0].items():
            for sentence in _cut(batch, drop):
                drops.setdefault(masking, []).extend(sentence.max(axis=1).tolist())
    words = len(next(iter(drops.values()), []))
    if not words:
        raise ValueError(f"the translations of {len(lines)} lines have no word to measure")
    count = len(next(iter(samples.values())))
    draws = np.random.default_rng(seed).integers(0, count, (resamples, count))
    correlations: dict[str, dict[str, MeanCorrelation]] = {name: {} for name in drops}
    for (masking, measure), sentences in samples.items():
        correlations[masking][measure] = _summary(sentences, draws)
    means = {name: float(np.mean(values)) for name, values in drops.items()}
    return MaskingStudy(count, words, correlations, means)


def _check(
    run: Run, lines: Sequence[str], targets: Sequence[str | Hypothesis] | None, resamples: int
) -> None:
    if run.others:
        raise ValueError("an ensemble has several attentions: study each of its runs")
    if targets is not None:
        check_equal_counts("lines", lines, "targets", targets)
    if resamples < 1:
        raise ValueError(f"{resamples} resamples: there should be at least one")


def _measured(config: ModelConfig, params: Params, batch: Batch):
    """Return the drops of each masking and the weights of each measure, [B T S] each."""
    forced, gradient = attribution.gradient_times_input(config, params, batch)
    integrated = attribution.integrated_gradients(config, params, batch, POINTS)[1]
    A = {"gradient": gradient, "integrated": integrated}
    drops = {
        name: forced.log_p[..., None] - jnp.moveaxis(masked(config, params, batch), 0, -1)
        for name, masked in MASKINGS.items()
    }
    drops |= {f"{name}{EITHER}": jnp.abs(drop) for name, drop in drops.items()}
    return drops, {name: weights(forced, batch, A) for name, weights in MEASURES.items()}


def _cut(batch: Batch, matrices: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the matrix [T-1, S-1] of each sentence, without padding and EOS."""
    for row, matrix in enumerate(matrices):
        T, S = int(batch.target_mask[row].sum()) - 1, int(batch.source_mask[row].sum()) - 1
        yield matrix[: max(T, 0), :S]  # a target may have no token


def _sentences(batch: Batch, drops, weights) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield (masking, measure, [T-1, 2] of correlation and hit of each target word)."""
    for masking, drop in drops.items():
        for measure, values in weights.items():
            for a, b in zip(_cut(batch, values), _cut(batch, drop), strict=True):
                hits = [same_top(x, y) for x, y in zip(a, b, strict=True)]
                correlations = [rank_correlation(x, y) for x, y in zip(a, b, strict=True)]
                yield masking, measure, np.stack([correlations, hits], axis=1)


def _summary(sentences: Sequence[np.ndarray], draws: np.ndarray) -> MeanCorrelation:
    """Return the mean over target words, with a percentile bootstrap over sentences."""
    sums = np.array([pairs.sum(axis=0) for pairs in sentences])
    counts = np.array([len(pairs) for pairs in sentences])
    mean, top = sums.sum(axis=0) / counts.sum()
    low, high = significance.middle(sums[draws, 0].sum(axis=1) / counts[draws].sum(axis=1))
    return MeanCorrelation(float(mean), low, high, float(top))
