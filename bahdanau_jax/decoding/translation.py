"""Translation of lines of text: cut, sort, pad, search, and join the pieces of long lines.

B sentences, S source positions, T steps of the search, N hypotheses of the result.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np

from bahdanau_jax.batch import pad
from bahdanau_jax.config import MOST_TRANSLATIONS, DecodingConfig, ModelConfig
from bahdanau_jax.data import Codec
from bahdanau_jax.decoding.backpointers import NBest
from bahdanau_jax.decoding.constraints import FREE, Rules
from bahdanau_jax.decoding.interleaving import side_by_side
from bahdanau_jax.decoding.long_lines import Piece, Prefix, cut, join
from bahdanau_jax.decoding.members import Configs, MemberParams, members
from bahdanau_jax.decoding.ranking import Ranking
from bahdanau_jax.decoding.search_program import MANY_BATCHES, METHODS, Inputs, search
from bahdanau_jax.decoding.search_shapes import grouped, height, padded, search_steps
from bahdanau_jax.hypothesis import TOO_LONG, Hypothesis
from bahdanau_jax.model import Params, interventions
from bahdanau_jax.pairing import check_equal_counts
from bahdanau_jax.reporting import ignore


def translate(
    config: ModelConfig | Configs,
    params: Params | MemberParams,
    codecs: tuple[Codec, Codec],
    decoding: DecodingConfig,
    lines: Sequence[str],
    n_best: int,
    prefixes: Sequence[str] | None = None,
    numbers: Sequence[int] | None = None,
    advance: Callable[[int], object] = ignore,
    intervention: interventions.Intervention | None = None,
) -> list[list[Hypothesis]]:
    """Return the `n_best` best hypotheses of each line, best first, in the order of the lines.

    A line has fewer where the search finds fewer or where several have one text; the best of these
    stays. With method `sample`, a line has `n_best` samples in the order of drawing. A line above
    `decoding.max_source` tokens is split; its pieces are translated, joined rank by rank, and
    scored together. A line or prefix above LONGEST tokens gives `hypothesis.TOO_LONG` alone. Tuples
    of configurations and parameters are an ensemble.

    Args:
        prefixes: the text that each translation begins with, in whole tokens; "" for none.
        numbers: the numbers of the lines, which sampling's keys depend on; by default 0, 1, 2, ...
            From the largest one, the search knows how long the text is.
        advance: is called with the number of lines that are too long, and after each batch with
            the number of lines that it completed.
        intervention: a change of α, with a row for each line (`model.interventions`).

    Raises ValueError where `n_best` is 0, or above the beam size or MOST_TRANSLATIONS, for unequal
    numbers of prefixes and lines, and for an intervention in a line that is split.
    """
    if n_best < 1:
        raise ValueError(f"n_best is {n_best}, but should be at least 1")
    if n_best > MOST_TRANSLATIONS:
        raise ValueError(f"n_best is {n_best:,}, but should be at most {MOST_TRANSLATIONS:,}")
    width = METHODS[decoding.method].width(decoding, n_best)
    if n_best > width:
        raise ValueError(
            f"{n_best} translations of each line cannot come from a beam of {width}: "
            f"set the beam size to at least {n_best}"
        )
    if prefixes is not None:
        check_equal_counts("lines", lines, "prefixes", prefixes)
    numbers = range(len(lines)) if numbers is None else numbers
    begins = [Prefix.of(codecs[1], text) for text in prefixes or [""] * len(lines)]
    pieces_of_lines = [
        cut(codecs[0], line, decoding.max_source, prefix, number)
        for line, prefix, number in zip(lines, begins, numbers, strict=True)
    ]
    pieces = [piece for line in pieces_of_lines for piece in line]
    line_of = [number for number, line in enumerate(pieces_of_lines) for _ in line]
    missing = [len(line) for line in pieces_of_lines]  # pieces of each line
    advance(missing.count(0))
    interventions.check(intervention, len(lines))
    if intervention is not None and max(missing, default=0) > 1:
        raise ValueError(
            f"an intervention needs lines of at most {decoding.max_source} tokens, which are not "
            "split: shorten the lines, or raise decoding.max_source"
        )
    of_pieces = interventions.select(intervention, line_of, len(line_of))
    n_best_lists: list[list[Hypothesis]] = [[] for _ in pieces]
    models = members(config, params, decoding.compute_dtype)
    narrows = 1 + max(numbers, default=0) >= MANY_BATCHES * decoding.batch_size
    searched = _search_batches(models, codecs[1], decoding, pieces, n_best, of_pieces, narrows)
    for rows, hypotheses in searched:
        for row, ranked in zip(rows, hypotheses, strict=True):
            n_best_lists[row] = ranked
            missing[line_of[row]] -= 1
        advance(sum(not missing[number] for number in {line_of[row] for row in rows}))
    rest = iter(n_best_lists)
    return [_join_ranks([next(rest) for _ in line], decoding) for line in pieces_of_lines]


def _join_ranks(pieces: list[list[Hypothesis]], decoding: DecodingConfig) -> list[Hypothesis]:
    """Join the n-best lists of a line's pieces: the best of all, the second best of all, and so on.

    A piece with fewer hypotheses repeats its last. A line without pieces is too long.
    """
    if not pieces:
        return [TOO_LONG]
    hypotheses, *others = pieces
    if others:
        ranking = Ranking.of(decoding)
        hypotheses = [
            join([ranked[min(rank, len(ranked) - 1)] for ranked in pieces], ranking)
            for rank in range(max(map(len, pieces)))
        ]
    return distinct(hypotheses, decoding)


def distinct(hypotheses: Sequence[Hypothesis], decoding: DecodingConfig) -> list[Hypothesis]:
    """Sort the hypotheses, best first, and keep only the best of those with one text.

    Samples all stay, in the order of drawing.
    """
    if METHODS[decoding.method].stochastic:
        return [*hypotheses]
    best: dict[str, Hypothesis] = {}
    for hypothesis in sorted(hypotheses, key=lambda hypothesis: -hypothesis.score):
        best.setdefault(hypothesis.text, hypothesis)
    return [*best.values()]


def _search_batches(
    models: tuple[Configs, MemberParams],
    codec: Codec,
    decoding: DecodingConfig,
    pieces: Sequence[Piece],
    n_best: int,
    intervention: interventions.Intervention | None,
    narrows: bool,
) -> Iterator[tuple[list[int], list[list[Hypothesis]]]]:
    """Yield rows of `pieces` and the n-best list of each."""

    def find(batch: tuple[list[int], int]) -> NBest:
        rows, length = batch
        inputs, steps = _inputs(decoding, [pieces[row] for row in rows], length)
        own = interventions.select(intervention, rows, len(inputs.source))
        inputs = inputs._replace(intervention=own)

        def run(inputs: Inputs) -> NBest:
            result = search(*models, inputs, steps, decoding, n_best, narrows)
            return jax.tree.map(np.asarray, result)

        result = run(inputs)
        finished = result.finished[: len(rows), 0]
        if decoding.ban_unk and not (METHODS[decoding.method].stochastic or finished.all()):
            free = inputs.rules._replace(ban_unk=np.zeros(len(inputs.source), bool))
            result = _prefer_finished(result, run(inputs._replace(rules=free)))
        return result

    batches = [*_batches(decoding, pieces)]
    for (rows, _), result in zip(batches, side_by_side(find, batches), strict=True):
        yield rows, [_hypotheses(codec, pieces[row], result, i) for i, row in enumerate(rows)]


def _batches(decoding: DecodingConfig, pieces: Sequence[Piece]) -> Iterator[tuple[list[int], int]]:
    """Yield the rows of `pieces` that form a batch, and their padded length, as `grouped` does.

    A piece counts as long as its source, or as the source whose steps its prefix needs. A prefix
    with more steps than any source is searched alone, since all rows of a batch take as many steps
    as the longest one.
    """
    steps = [math.ceil((len(piece.prefix.ids) + 1) / decoding.max_ratio) for piece in pieces]
    lengths = [max(len(piece.ids), n) for piece, n in zip(pieces, steps, strict=True)]
    ordinary = [row for row, n in enumerate(lengths) if n <= decoding.max_source + 1]
    for row in sorted({*range(len(pieces))} - {*ordinary}):
        yield [row], padded(len(pieces[row].ids))
    for places, _ in grouped([lengths[row] for row in ordinary], decoding.batch_size):
        rows = [ordinary[place] for place in places]
        yield rows, padded(max(len(pieces[row].ids) for row in rows))


def _inputs(decoding: DecodingConfig, pieces: Sequence[Piece], length: int) -> tuple[Inputs, int]:
    """Return a batch, and the number of steps of its buffers."""
    rows = height(len(pieces), decoding.batch_size)
    source, mask = pad([piece.ids for piece in pieces], length, rows)
    sizes = mask.sum(1)
    limits = np.ceil(decoding.max_ratio * sizes).astype(np.int32)
    steps = search_steps(decoding.max_ratio, length)
    prefix, longest = None, max(len(piece.prefix.ids) for piece in pieces)
    if longest:
        prefix = np.full((rows, padded(longest)), FREE, np.int32)
        for row, piece in enumerate(pieces):
            prefix[row, : len(piece.prefix.ids)] = piece.prefix.ids
            # There is always room for EOS after the prefix.
            limits[row] = max(limits[row], len(piece.prefix.ids) + 1)
        steps = max(steps, padded(longest + 1))
    minimum = None
    if decoding.min_ratio:
        minimum = np.minimum(np.floor(decoding.min_ratio * sizes), limits - 1).astype(np.int32)
    draws = np.zeros((rows, 2), np.int32)
    draws[: len(pieces)] = np.array([piece.draw for piece in pieces]) % 2**31
    rules = Rules(limits, minimum, prefix, np.full(rows, decoding.ban_unk))
    return Inputs(source, mask, rules, draws, np.int32(decoding.seed)), steps


def _prefer_finished(banned: NBest, free: NBest) -> NBest:
    """Take a sentence from `free`, where UNK is allowed, if only there a hypothesis finished."""
    use = ~banned.finished[:, 0] & free.finished[:, 0]
    return jax.tree.map(
        lambda a, b: np.where(use.reshape(-1, *[1] * (a.ndim - 1)), b, a), banned, free
    )


def _hypotheses(codec: Codec, piece: Piece, result: NBest, row: int) -> list[Hypothesis]:
    """Return a sentence's n-best list: always the first entry, and the others up to a filler."""
    hypotheses = []
    for k, length in enumerate(result.length[row].tolist()):
        if k and not length:
            break
        text, tokens = piece.prefix.written(codec, result.tokens[row, k, :length].tolist())
        hypotheses.append(
            Hypothesis(
                text=text,
                tokens=tokens,
                log_probabilities=tuple(result.log_probabilities[row, k, :length].tolist()),
                score=float(result.score[row, k]),
                finished=bool(result.finished[row, k]),
                source_tokens=piece.units,
                # A view would keep the arrays of the whole batch in memory.
                alpha=result.aux[row, k, :length, : len(piece.ids)].copy(),
            )
        )
    return hypotheses
