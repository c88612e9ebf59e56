"""The programs of ordinary lines, compiled ahead of their first use.

B sentences, S source positions.
"""

import functools
from collections.abc import Callable, Iterator

import jax
import numpy as np

from bahdanau_jax.batch import Batch, pad
from bahdanau_jax.config import DecodingConfig, ModelConfig
from bahdanau_jax.decoding.constraints import Rules
from bahdanau_jax.decoding.members import Configs, MemberParams, mean, members
from bahdanau_jax.decoding.scoring import PROGRAMS
from bahdanau_jax.decoding.search_program import Inputs, search
from bahdanau_jax.decoding.search_shapes import LENGTHS, height, padded, search_steps
from bahdanau_jax.model import Params


def programs(
    config: ModelConfig | Configs,
    params: Params | MemberParams,
    decoding: DecodingConfig,
    tokens: int,
) -> Iterator[Callable[[], object]]:
    """Yield functions, each of which compiles one program by running it on rows without words.

    They are the programs of translation (the best hypothesis, no prefix) and of scoring, in every
    padded shape that lines of at most `tokens` tokens, EOS counted, can have.

    >>> for compile_program in programs(config, params, DecodingConfig(), 24): compile_program()
    """
    models = members(config, params, decoding.compute_dtype)
    size = decoding.batch_size
    heights = sorted({height(rows, size) for rows in range(1, size + 1)})
    longest = padded(tokens) if tokens else 0
    for length in LENGTHS[: LENGTHS.index(longest) + 1] if longest else ():
        for rows in heights:
            yield functools.partial(_search, *models, decoding, rows, length)
            yield functools.partial(_score, *models, rows, length)


def _search(
    configs: Configs, weights: MemberParams, decoding: DecodingConfig, rows: int, length: int
) -> object:
    zeros = np.zeros(rows, np.int32)
    rules = Rules(zeros, zeros if decoding.min_ratio else None, None, np.zeros(rows, bool))
    inputs = Inputs(*pad([], length, rows), rules, np.zeros((rows, 2), np.int32), np.int32(0))
    steps = search_steps(decoding.max_ratio, length)
    return jax.block_until_ready(search(configs, weights, inputs, steps, decoding, 1, False))


def _score(configs: Configs, weights: MemberParams, rows: int, length: int) -> object:
    side = pad([], length, rows)
    batch = Batch(*side, *side, np.ones(rows, np.float32))
    results = [
        PROGRAMS["attention"](*member, batch) for member in zip(configs, weights, strict=True)
    ]
    values = mean([result.log_p for result in results]), mean([result.alpha for result in results])
    return jax.block_until_ready(values)
