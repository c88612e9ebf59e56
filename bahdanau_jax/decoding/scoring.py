"""Scoring of existing translations under teacher forcing.

B sentences, S source and T target positions.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
import numpy as np
from jaxtyping import Float

from bahdanau_jax.batch import EOS, EOS_SYMBOL, Batch, pad
from bahdanau_jax.config import DecodingConfig, ModelConfig
from bahdanau_jax.data import Codec
from bahdanau_jax.decoding.interleaving import side_by_side
from bahdanau_jax.decoding.long_lines import LONGEST
from bahdanau_jax.decoding.members import Configs, MemberParams, mean, members
from bahdanau_jax.decoding.ranking import Ranking
from bahdanau_jax.decoding.search_shapes import grouped, height
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.model import LINK_WEIGHTS, Params, check_link_weights, interventions
from bahdanau_jax.pairing import check_equal_counts
from bahdanau_jax.reporting import ignore

PROGRAMS = {name: jax.jit(kind.compute, static_argnums=0) for name, kind in LINK_WEIGHTS.items()}


def score(
    config: ModelConfig | Configs,
    params: Params | MemberParams,
    codecs: tuple[Codec, Codec],
    decoding: DecodingConfig,
    sources: Sequence[str],
    targets: Sequence[str | Hypothesis],
    advance: Callable[[int], object] = ignore,
    weights: str = "attention",
    intervention: interventions.Intervention | None = None,
) -> list[Hypothesis]:
    """Return each target as a hypothesis with its probabilities, its alignment and its score.

    The scores can be compared with those of a search with the settings `decoding`, without its
    coverage term where the weights are not attention. A target that is text is tokenised and ends
    with EOS; a hypothesis keeps its tokens, and one without tokens, of a blank or too long line, is
    returned as it is. Nothing is split or cut. `advance` gets the number of such lines and of the
    pairs of each batch. `weights`, a key of `model.LINK_WEIGHTS`, are the weights that the
    hypotheses have as α. An `intervention` changes attention and has a row for each pair.

    Raises ValueError for unequal numbers of sources and targets, and for other pairs with a side
    above LONGEST tokens. It is also raised for weights that the model does not have, and for an
    intervention beside other weights than attention.
    """
    check_equal_counts("sources", sources, "targets", targets)
    x = [codecs[0].encode(line) for line in sources]
    y = [target_ids(codecs[1], target) for target in targets]
    models = members(config, params, decoding.compute_dtype)
    covered = decoding if weights == "attention" else replace(decoding, coverage=0.0)
    ranking = Ranking.of(covered)
    for member in models[0]:
        check_link_weights(weights, member)
    interventions.check(intervention, len(x))
    if intervention is not None and weights != "attention":
        raise ValueError(f"an intervention changes attention: it cannot be used with {weights}")
    hypotheses: dict[int, Hypothesis] = {
        row: target
        for row, target in enumerate(targets)
        if isinstance(target, Hypothesis) and not target.tokens
    }
    if hypotheses:
        advance(len(hypotheses))
    full = [row for row in range(len(x)) if row not in hypotheses]
    lengths = [max(len(x[row]), len(y[row])) for row in full]
    _check_lengths(full, lengths)
    batches = [
        ([full[place] for place in places], length)
        for places, length in grouped(lengths, decoding.batch_size)
    ]

    def predict(rows_and_length: tuple[list[int], int]) -> tuple[np.ndarray, np.ndarray]:
        rows, length = rows_and_length
        size = height(len(rows), decoding.batch_size)
        source, target = (pad([side[row] for row in rows], length, size) for side in (x, y))
        batch = Batch(*source, *target, np.ones(size, np.float32))
        own = interventions.select(intervention, rows, size)
        arguments = (batch,) if own is None else (batch, own)
        results = [PROGRAMS[weights](*member, *arguments) for member in zip(*models, strict=True)]
        log_p, alpha = mean([r.log_p for r in results]), mean([r.alpha for r in results])
        return np.asarray(log_p), np.asarray(alpha)

    for (rows, _), (log_p, alpha) in zip(batches, side_by_side(predict, batches), strict=True):
        for i, row in enumerate(rows):
            hypotheses[row] = _hypothesis(
                codecs, sources[row], targets[row], (x[row], y[row]), log_p[i], alpha[i], ranking
            )
        advance(len(rows))
    return [hypotheses[row] for row in range(len(sources))]


def _check_lengths(rows: Sequence[int], lengths: Sequence[int]) -> None:
    """Raise ValueError where the attention weights of a row would be too large."""
    for row, length in zip(rows, lengths, strict=True):
        if length - 1 > LONGEST:  # without EOS
            raise ValueError(
                f"sources[{row}] or its target has {length - 1:,} tokens, but pairs of at most "
                f"{LONGEST:,} are scored: split it into sentences"
            )


def target_ids(codec: Codec, target: str | Hypothesis) -> list[int]:
    """Return the ids of a text with EOS, or of a hypothesis, which may be unfinished."""
    if isinstance(target, str):
        return codec.encode(target)
    ids = codec.ids(target.tokens)
    return [*ids[:-1], EOS] if target.tokens[-1:] == (EOS_SYMBOL,) else ids


def _hypothesis(
    codecs: tuple[Codec, Codec],
    source: str,
    target: str | Hypothesis,
    ids: tuple[list[int], list[int]],
    log_p: Float[np.ndarray, " T"],
    alpha: Float[np.ndarray, "T S"],
    ranking: Ranking,
) -> Hypothesis:
    size, width = len(ids[1]), len(ids[0])
    log_p, alpha = log_p[:size], alpha[:size, :width]
    if isinstance(target, str):
        target = Hypothesis(target, codecs[1].units(target), (), 0.0, True, (), alpha)
    return replace(
        target,
        log_probabilities=tuple(log_p.tolist()),
        score=ranking.score(log_p, alpha),
        source_tokens=codecs[0].units(source),
        alpha=alpha.copy(),
    )


def below(wider: Sequence[Hypothesis], narrower: Sequence[Hypothesis]) -> list[int]:
    """Return the sentences where a wider beam has a lower score than a narrower or greedy search.

    This is possible: the narrower search's hypothesis may leave the wider beam before it ends. Both
    scores must have one scale. A sentence counts only where both hypotheses are finished.

    >>> len(below(run.translate(lines), run.translate(lines, beam_size=1)))
    """
    return [
        row
        for row, (wide, narrow) in enumerate(zip(wider, narrower, strict=True))
        if wide.finished and narrow.finished and wide.score < narrow.score - 1e-4
    ]
