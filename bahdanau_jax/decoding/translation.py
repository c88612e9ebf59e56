"""From lines of text to hypotheses: cut, sort, pad, search, and put together again.

B sentences, S source positions, T steps of the search, N hypotheses asked for.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import jax
import numpy as np

from bahdanau_jax import model
from bahdanau_jax.batch import pad
from bahdanau_jax.config import DecodingConfig, ModelConfig
from bahdanau_jax.data import Codec
from bahdanau_jax.decoding.backpointers import Found
from bahdanau_jax.decoding.constraints import FREE, Rules
from bahdanau_jax.decoding.interleaving import side_by_side
from bahdanau_jax.decoding.long_lines import Piece, Prefix, cut, join
from bahdanau_jax.decoding.ranking import Ranking
from bahdanau_jax.decoding.search_program import METHODS, Configs, Inputs, Weights, search
from bahdanau_jax.decoding.search_shapes import grouped, height, padded
from bahdanau_jax.hypothesis import TOO_LONG, Hypothesis
from bahdanau_jax.model import Params
from bahdanau_jax.reporting import ignore

# Values of `decoding.compute_dtype` -> the model with these products.
COMPUTE_DTYPES: Mapping[str, Callable[[ModelConfig], ModelConfig]] = MappingProxyType(
    {
        "model": lambda config: config,
        **{
            name: lambda config, name=name: dataclasses.replace(config, compute_dtype=name)
            for name in model.COMPUTE_DTYPES
        },
    }
)


def members(
    config: ModelConfig | Configs, params: Params | Weights, compute_dtype: str
) -> tuple[Configs, Weights]:
    """One model, or the several of an ensemble, as several, with such products."""
    if isinstance(config, ModelConfig):
        return members((config,), (params,), compute_dtype)  # pyright: ignore
    return tuple(map(COMPUTE_DTYPES[compute_dtype], config)), params  # pyright: ignore


def translate(
    config: ModelConfig | Configs,
    params: Params | Weights,
    codecs: tuple[Codec, Codec],
    decoding: DecodingConfig,
    lines: Sequence[str],
    n_best: int,
    prefixes: Sequence[str] | None = None,
    numbers: Sequence[int] | None = None,
    advance: Callable[[int], object] = ignore,
) -> list[list[Hypothesis]]:
    """The `n_best` best hypotheses of each line, best first, in the order of the lines.

    Fewer where there are no more, or where several write one text: the best of them stays. A
    line above `decoding.max_source` tokens is split; its pieces are translated and joined, rank by
    rank, and scored together. A line above LONGEST tokens, or with such a prefix, is not
    translated, and has `hypothesis.TOO_LONG` alone. With method `sample`, so many samples, in the
    order drawn. Several configurations and parameters, as tuples, are an ensemble.

    Args:
        prefixes: the text that each translation begins with, in whole tokens; "" for none.
        numbers: of the lines, which sampling's seed goes by; by default 0, 1, 2, ...
        advance: is told after each batch how many lines were finished with it.

    Raises ValueError where the beam holds fewer than `n_best`, or where there are not as many
    prefixes as lines.
    """
    width = METHODS[decoding.method].width(decoding, n_best)
    if n_best > width:
        raise ValueError(
            f"{n_best} translations of each line cannot come from a beam of {width}: "
            f"set the beam size to at least {n_best}"
        )
    if prefixes is not None and len(prefixes) != len(lines):
        raise ValueError(f"{len(lines)} lines but {len(prefixes)} prefixes: one each, please")
    begun = [Prefix.of(codecs[1], text) for text in prefixes or [""] * len(lines)]
    numbered = range(len(lines)) if numbers is None else numbers
    parts = [
        cut(codecs[0], line, decoding.max_source, prefix, number)
        for line, prefix, number in zip(lines, begun, numbered, strict=True)
    ]
    pieces = [piece for each in parts for piece in each]
    found: list[list[Hypothesis]] = [[] for _ in pieces]
    line_of = [number for number, each in enumerate(parts) for _ in each]
    missing = [len(each) for each in parts]  # pieces of each line
    many = members(config, params, decoding.compute_dtype)
    for rows, hypotheses in _searched(many, codecs[1], decoding, pieces, n_best):
        for row, ranked in zip(rows, hypotheses, strict=True):
            found[row] = ranked
            missing[line_of[row]] -= 1
        advance(sum(not missing[number] for number in {line_of[row] for row in rows}))
    rest = iter(found)
    return [_answer([next(rest) for _ in each], decoding) for each in parts]


def _answer(parts: list[list[Hypothesis]], decoding: DecodingConfig) -> list[Hypothesis]:
    """The hypotheses of a line. Of one that was split, the best of all parts joined, then the
    second of all, and so on; a part that has no more gives its last. Without parts it is too long.
    """
    if not parts:
        return [TOO_LONG]
    found, *others = parts
    if others:
        ranking = Ranking.of(decoding)
        found = [
            join([ranked[min(rank, len(ranked) - 1)] for ranked in parts], ranking)
            for rank in range(max(map(len, parts)))
        ]
    if METHODS[decoding.method].stochastic:
        return found
    return distinct(found)


def distinct(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """The best first, and of those with one text the best alone."""
    best: dict[str, Hypothesis] = {}
    for each in sorted(hypotheses, key=lambda each: -each.score):
        best.setdefault(each.text, each)
    return [*best.values()]


def _searched(
    many: tuple[Configs, Weights],
    codec: Codec,
    decoding: DecodingConfig,
    pieces: Sequence[Piece],
    n_best: int,
) -> Iterator[tuple[list[int], list[list[Hypothesis]]]]:
    """Rows of `pieces`, and the n-best list of each."""

    def find(batch: tuple[list[int], int]) -> Found:
        rows, length = batch
        inputs, steps = _inputs(decoding, [pieces[row] for row in rows], length)

        def searched(inputs: Inputs) -> Found:
            return jax.tree.map(np.asarray, search(*many, inputs, steps, decoding, n_best))

        found = searched(inputs)
        ended = found.finished[: len(rows), 0]
        if decoding.ban_unk and not (METHODS[decoding.method].stochastic or ended.all()):
            free = inputs.rules._replace(ban_unk=np.zeros(len(inputs.source), bool))
            found = _either(found, searched(inputs._replace(rules=free)))
        return found

    batches = [*_batches(decoding, pieces)]
    for (rows, _), found in zip(batches, side_by_side(find, batches), strict=True):
        yield rows, [_hypotheses(codec, pieces[row], found, i) for i, row in enumerate(rows)]


def _batches(decoding: DecodingConfig, pieces: Sequence[Piece]) -> Iterator[tuple[list[int], int]]:
    """Rows of `pieces` that are searched together, and their padded length, as `grouped`.

    A prefix counts as the source that would give its number of steps. One of more steps than any
    source has is searched alone: a batch takes the steps of its longest row, for every row.
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
    """A batch, and the steps that its buffers need."""
    rows = height(len(pieces), decoding.batch_size)
    fillers = [[]] * (rows - len(pieces))
    source, mask = pad([*(piece.ids for piece in pieces), *fillers], length)
    sizes = mask.sum(1)
    limits = np.ceil(decoding.max_ratio * sizes).astype(np.int32)
    steps = math.ceil(decoding.max_ratio * length)
    prefix, longest = None, max(len(piece.prefix.ids) for piece in pieces)
    if longest:
        prefix = np.full((rows, padded(longest)), FREE, np.int32)
        for row, piece in enumerate(pieces):
            prefix[row, : len(piece.prefix.ids)] = piece.prefix.ids
            # Whatever was given, there is room for its end.
            limits[row] = max(limits[row], len(piece.prefix.ids) + 1)
        steps = max(steps, padded(longest + 1))
    minimum = None
    if decoding.min_ratio:
        minimum = np.minimum(np.floor(decoding.min_ratio * sizes), limits - 1).astype(np.int32)
    draws = np.zeros((rows, 2), np.int32)
    draws[: len(pieces)] = np.array([piece.draw for piece in pieces]) % 2**31
    rules = Rules(limits, minimum, prefix, np.full(rows, decoding.ban_unk))
    return Inputs(source, mask, rules, draws, np.int32(decoding.seed)), steps


def _either(found: Found, free: Found) -> Found:
    """Where the ban on UNK leaves nothing that ends, what ends without it."""
    use = ~found.finished[:, 0] & free.finished[:, 0]
    return jax.tree.map(
        lambda a, b: np.where(use.reshape(-1, *[1] * (a.ndim - 1)), b, a), found, free
    )


def _hypotheses(codec: Codec, piece: Piece, found: Found, row: int) -> list[Hypothesis]:
    """A sentence's n-best list; always the first, and no fillers after it."""
    made = []
    for k, length in enumerate(found.length[row].tolist()):
        if k and not length:
            break
        text, tokens = piece.prefix.written(codec, found.tokens[row, k, :length].tolist())
        made.append(
            Hypothesis(
                text=text,
                tokens=tokens,
                log_probabilities=tuple(found.log_probabilities[row, k, :length].tolist()),
                score=float(found.score[row, k]),
                finished=bool(found.finished[row, k]),
                source_tokens=piece.units,
                # A copy, so that no hypothesis keeps its whole batch in memory.
                alpha=found.aux[row, k, :length, : len(piece.ids)].copy(),
            )
        )
    return made
