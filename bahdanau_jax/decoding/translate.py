"""From lines of text to hypotheses: cut, sort, pad, search, and put together again.

B sentences, S source positions, T steps of the search, K hypotheses.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from bahdanau_jax.batch import Batch, pad
from bahdanau_jax.config import DecodingConfig, ModelConfig
from bahdanau_jax.data import Codec
from bahdanau_jax.decoding.search import NORMALIZATIONS, Found, Normalization, beam
from bahdanau_jax.hypothesis import Hypothesis
from bahdanau_jax.model import Params, alignment, encode, start, stepper

LENGTHS = tuple(8 * 2**i for i in range(20))  # padded lengths: few, for each compiles a program
ROWS = (1, 8)  # batches of fewer sentences than the configured size


class Piece(NamedTuple):
    """What is searched at once: a line, or a part of one that is too long."""

    ids: list[int]  # source ids, EOS last
    units: tuple[str, ...]  # the source tokens as they were written, EOS last


@partial(jax.jit, static_argnums=(0, 5, 6, 7, 8))
def search(
    config: ModelConfig,
    params: Params,
    source: Int[Array, "B S"],
    mask: Array,
    limits: Int[Array, " B"],
    max_length: int,
    beam_size: int,
    normalization: Normalization,
    ban_unk: bool,
) -> Found:
    """The n-best lists of a batch; aux is α [B, K, T, S]. All hypotheses share one memory."""
    memory = encode(config, params, source, mask)
    step = jax.vmap(stepper(config, params, memory), in_axes=1, out_axes=1)
    state = jax.tree.map(lambda leaf: leaf[:, None], start(memory))
    return beam(step, state, limits, max_length, beam_size, normalization, ban_unk)


def normalization(config: DecodingConfig) -> Normalization:
    """The configured length normalisation, with its exponent."""
    return dataclasses.replace(NORMALIZATIONS[config.length_normalization], alpha=config.alpha)


def translate(
    config: ModelConfig,
    params: Params,
    codecs: tuple[Codec, Codec],
    decoding: DecodingConfig,
    lines: Sequence[str],
    n_best: int,
) -> list[list[Hypothesis]]:
    """The `n_best` best hypotheses of each line, best first, in the order of the lines.

    Fewer where there are no more. A line above `decoding.max_source` tokens is split; its pieces
    are translated and joined, and then there is one hypothesis. Raises ValueError where the beam
    holds fewer than `n_best`.
    """
    if n_best > decoding.beam_size:
        raise ValueError(
            f"{n_best} translations of each line cannot come from a beam of {decoding.beam_size}: "
            f"set the beam size to at least {n_best}"
        )
    cut = [_cut(codecs[0], line, decoding.max_source) for line in lines]
    pieces = [piece for parts in cut for piece in parts]
    found: list[list[Hypothesis]] = [[] for _ in pieces]
    for rows, limit in _grouped([len(piece.ids) for piece in pieces], decoding.batch_size):
        chosen = [pieces[row] for row in rows]
        for row, hypotheses in zip(
            rows, _search(config, params, codecs[1], decoding, chosen, limit, n_best), strict=True
        ):
            found[row] = hypotheses
    answers, place = [], 0
    for parts in cut:
        some = found[place : place + len(parts)]
        answers.append(some[0] if len(parts) == 1 else [_join([best[0] for best in some])])
        place += len(parts)
    return answers


def _cut(codec: Codec, line: str, most: int) -> list[Piece]:
    ids, units = codec.encode(line), codec.units(line)
    *words, eos = ids
    if len(words) <= most:
        return [Piece(ids, units)]
    return [
        Piece([*words[i : i + most], eos], (*units[:-1][i : i + most], units[-1]))
        for i in range(0, len(words), most)
    ]


def _grouped(lengths: Sequence[int], batch_size: int) -> Iterator[tuple[list[int], int]]:
    """Rows that are searched together, and their padded length; long and short ones apart."""
    order = sorted(range(len(lengths)), key=lambda row: lengths[row])
    by_length: dict[int, list[int]] = {}
    for row in order:
        fitting = next(length for length in LENGTHS if length >= lengths[row])
        by_length.setdefault(fitting, []).append(row)
    for length, rows in by_length.items():
        for i in range(0, len(rows), batch_size):
            yield rows[i : i + batch_size], length


def _search(
    config: ModelConfig,
    params: Params,
    codec: Codec,
    decoding: DecodingConfig,
    pieces: Sequence[Piece],
    length: int,
    n_best: int,
) -> list[list[Hypothesis]]:
    sizes = (*(r for r in ROWS if r < decoding.batch_size), decoding.batch_size)
    rows = next(size for size in sizes if size >= len(pieces))
    fillers = [[]] * (rows - len(pieces))
    source, mask = pad([*(piece.ids for piece in pieces), *fillers], length)
    limits = np.ceil(decoding.max_ratio * mask.sum(1)).astype(np.int32)
    longest = int(np.ceil(decoding.max_ratio * length))
    ranking = normalization(decoding)

    def run(ban_unk: bool) -> Found:
        found = search(
            config, params, source, mask, limits, longest, decoding.beam_size, ranking, ban_unk
        )
        return jax.tree.map(np.asarray, found)

    found = run(decoding.ban_unk)
    if decoding.ban_unk and not found.finished[: len(pieces), 0].all():
        free = run(False)  # where the ban leaves nothing, search again without it
        use = ~found.finished[:, 0]
        found = jax.tree.map(
            lambda a, b: np.where(use.reshape(-1, *[1] * (a.ndim - 1)), b, a), found, free
        )
    return [
        [
            _hypothesis(codec, piece, found, row, k)
            for k in range(n_best)
            if k == 0 or found.length[row, k]
        ]
        for row, piece in enumerate(pieces)
    ]


def _hypothesis(codec: Codec, piece: Piece, found: Found, row: int, k: int) -> Hypothesis:
    length = int(found.length[row, k])
    ids = found.tokens[row, k, :length].tolist()
    return Hypothesis(
        text=codec.decode(ids),
        tokens=codec.tokens(ids),
        log_probabilities=tuple(found.log_probabilities[row, k, :length].tolist()),
        score=float(found.score[row, k]),
        finished=bool(found.finished[row, k]),
        source_tokens=piece.units,
        alpha=found.aux[row, k, :length, : len(piece.ids)],
    )


def _join(parts: Sequence[Hypothesis]) -> Hypothesis:
    """The translations of the pieces of a line as one; only the last EOS of each side is kept."""
    *heads, tail = parts
    rows = [len(h.tokens) - h.finished for h in heads] + [len(tail.tokens)]
    columns = [len(h.source_tokens) - 1 for h in heads] + [len(tail.source_tokens)]
    alpha = np.zeros((sum(rows), sum(columns)), np.float32)
    i = j = 0
    for part, height, width in zip(parts, rows, columns, strict=True):
        alpha[i : i + height, j : j + width] = part.alpha[:height, :width]
        i, j = i + height, j + width
    return Hypothesis(
        text=" ".join(part.text for part in parts if part.text),
        tokens=tuple(t for part, n in zip(parts, rows, strict=True) for t in part.tokens[:n]),
        log_probabilities=tuple(
            p for part, n in zip(parts, rows, strict=True) for p in part.log_probabilities[:n]
        ),
        score=sum(part.score for part in parts),
        finished=all(part.finished for part in parts),
        source_tokens=tuple(
            t for part, n in zip(parts, columns, strict=True) for t in part.source_tokens[:n]
        ),
        alpha=alpha,
    )


forced = jax.jit(alignment, static_argnums=0)


def force(
    config: ModelConfig,
    params: Params,
    codecs: tuple[Codec, Codec],
    batch_size: int,
    sources: Sequence[str],
    targets: Sequence[str],
) -> list[Hypothesis]:
    """Forced decoding: each target as a hypothesis, with its probabilities and alignment.

    Raises ValueError where there are not as many targets as sources.
    """
    if len(sources) != len(targets):
        raise ValueError(f"{len(sources)} sources but {len(targets)} targets: one each, please")
    x = [codecs[0].encode(line) for line in sources]
    y = [codecs[1].encode(line) for line in targets]
    hypotheses: dict[int, Hypothesis] = {}
    longer = [max(len(a), len(b)) for a, b in zip(x, y, strict=True)]
    for rows, length in _grouped(longer, batch_size):
        fillers = [[]] * (batch_size - len(rows))
        source = pad([*(x[row] for row in rows), *fillers], length)
        target = pad([*(y[row] for row in rows), *fillers], length)
        batch = Batch(*source, *target, np.ones(batch_size, np.float32))
        log_p, alpha, _ = (np.asarray(a) for a in forced(config, params, batch))
        for i, row in enumerate(rows):
            hypotheses[row] = _forced(
                codecs, (sources[row], targets[row]), (x[row], y[row]), log_p[i], alpha[i]
            )
    return [hypotheses[row] for row in range(len(sources))]


def _forced(
    codecs: tuple[Codec, Codec],
    texts: tuple[str, str],
    ids: tuple[list[int], list[int]],
    log_p: Float[np.ndarray, " T"],
    alpha: Float[np.ndarray, "T S"],
) -> Hypothesis:
    size, width = len(ids[1]), len(ids[0])
    return Hypothesis(
        text=texts[1],
        tokens=codecs[1].units(texts[1]),
        log_probabilities=tuple(log_p[:size].tolist()),
        score=float(log_p[:size].sum()),
        finished=True,
        source_tokens=codecs[0].units(texts[0]),
        alpha=alpha[:size, :width],
    )
