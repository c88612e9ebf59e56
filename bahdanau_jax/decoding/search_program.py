"""The compiled search: one program for each shape, from source ids to n-best lists.

B sentences, S source positions, K hypotheses, N of the result, T steps of the search, V words.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from bahdanau_jax import distribution
from bahdanau_jax.config import DecodingConfig, ModelConfig
from bahdanau_jax.decoding.backpointers import NBest
from bahdanau_jax.decoding.constraints import Rules
from bahdanau_jax.decoding.members import Configs, MemberParams, mean
from bahdanau_jax.decoding.ranking import Ranking
from bahdanau_jax.decoding.sampling import sample
from bahdanau_jax.decoding.search import State, Step, beam
from bahdanau_jax.decoding.search_shapes import search_steps
from bahdanau_jax.model import (
    Params,
    before_eos,
    encode,
    fold,
    intervene,
    interventions,
    predictor,
    shapes,
    start,
)


class Inputs(NamedTuple):
    """The sentences of a batch, in NumPy or JAX. Filler rows have a limit of 0."""

    source: Int[Any, "B S"]  # word ids, EOS last, then PAD
    mask: Bool[Any, "B S"]  # True at words and at EOS
    rules: Rules  # what each translation may be
    draws: Int[Any, "B 2"]  # int32 number of the line and of its piece; sampling's keys use both
    seed: Int[Any, ""]  # int32 seed of sampling
    intervention: Any = None  # a change of α, `model.interventions.Intervention`


Stepping = Callable[[Any], Step]  # rows of the batch, or None for all -> their step

# Once no more than 1/2 of a batch is unfinished, the search continues with these sentences alone.
# Each further entry compiles one more loop, which nearly doubles the time of a compilation.
PARTS = (2,)
FEWEST = 16  # the fewest sentences that are worth a loop of their own
MANY_BATCHES = 16  # the fewest batches of a text that are worth such a loop


def _beam(
    stepping: Stepping,
    state: State,
    inputs: Inputs,
    steps: int,
    config: DecodingConfig,
    n: int,
    widths: tuple[int, ...],
):
    return beam(
        stepping(None),
        state,
        inputs.rules,
        steps,
        config.beam_size,
        n_best=n,
        ranking=Ranking.of(config),
        words=before_eos(inputs.mask),
        shrink=config.shrink,
        narrow=stepping,
        widths=widths,
    )


def _sample(
    stepping: Stepping,
    state: State,
    inputs: Inputs,
    steps: int,
    config: DecodingConfig,
    n: int,
    widths: tuple[int, ...],
):
    del widths  # sampling has one loop

    def key(draw):
        return jax.random.fold_in(jax.random.fold_in(jax.random.key(inputs.seed), draw[0]), draw[1])

    return sample(
        stepping(None),
        state,
        inputs.rules,
        steps,
        n,
        jax.vmap(key)(inputs.draws),
        temperature=config.temperature,
        top_k=config.top_k,
        top_p=config.top_p,
        ranking=Ranking.of(config),
        words=before_eos(inputs.mask),
    )


class Method(NamedTuple):
    """A method of decoding."""

    find: Callable[..., NBest]  # the search for the N best hypotheses of each sentence
    width: Callable[[DecodingConfig, int], int]  # (config, n) -> hypotheses extended at once
    stochastic: bool  # True where another run of the method may end where this one did not


# Value of `decoding.method` -> the search.
METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "beam": Method(_beam, lambda config, n: config.beam_size, False),
        "sample": Method(_sample, lambda config, n: n, True),
    }
)

# Settings that do not change the compiled program: they enter it as arrays or not at all.
OUTSIDE = ("max_ratio", "min_ratio", "max_source", "batch_size", "compute_dtype", "seed", "ban_unk")


def search(
    configs: Configs,
    weights: MemberParams,
    inputs: Inputs,
    steps: int,
    decoding: DecodingConfig,
    n_best: int,
    narrows: bool = True,
) -> NBest:
    """Return the N best translations of each sentence in at most `steps` words.

    The result's aux is α [B, N, T, S]. An ensemble takes the geometric mean of its members'
    probabilities and the mean of their α. With `narrows`, a beam search of a large batch continues
    with the unfinished half alone, which is faster and takes longer to compile.
    """
    widths = _widths(len(inputs.source), decoding) if narrows else ()
    return _search(configs, weights, inputs, steps, inside(decoding), n_best, widths)


def _widths(rows: int, decoding: DecodingConfig) -> tuple[int, ...]:
    """The numbers of unfinished sentences at which a search of so many rows narrows."""
    if METHODS[decoding.method].stochastic:
        return ()
    return tuple(rows // part for part in PARTS if rows // part >= FEWEST)


def inside(decoding: DecodingConfig) -> DecodingConfig:
    """Reset the settings that do not change the program to their defaults."""
    return dataclasses.replace(
        decoding, **{name: getattr(DecodingConfig, name) for name in OUTSIDE}
    )


@functools.partial(jax.jit, static_argnums=(0, 3, 4, 5, 6))
def _search(configs, weights, inputs, steps, decoding, n_best, widths) -> NBest:
    method = METHODS[decoding.method]
    # A single hypothesis has about as many words as its source, so folding would save no time. It
    # rounds differently, and a sample is the same however many there are.
    folded = method.stochastic or method.width(decoding, n_best) > 1
    stepping, state = combined(
        configs, weights, inputs.source, inputs.mask, folded, inputs.intervention
    )
    return method.find(stepping, state, inputs, steps, decoding, n_best, widths)


def combined(
    configs: Configs,
    weights: MemberParams,
    source: Int[Array, "B S"],
    mask: Bool[Array, "B S"],
    folded: bool = False,
    intervention: interventions.Intervention | None = None,
) -> tuple[Stepping, State]:
    """Return the joint step of all models, and the state before the first word.

    The K hypotheses of a sentence share one memory of each model; `folded` applies `model.fold`.
    """
    memories = [
        intervene(encode(config, params, source, mask), intervention)
        for config, params in zip(configs, weights, strict=True)
    ]
    if folded:
        memories = [fold(*member) for member in zip(configs, weights, memories, strict=True)]

    def stepping(rows: Int[Array, " b"] | None) -> Step:
        chosen = memories if rows is None else jax.tree.map(lambda leaf: leaf[rows], memories)
        steps = [predictor(*member) for member in zip(configs, weights, chosen, strict=True)]

        def step(tokens, states):
            results = [predict(tokens, state) for predict, state in zip(steps, states, strict=True)]
            next_words, states, alpha = zip(*results, strict=True)
            return distribution.mean(next_words), states, mean(alpha)

        return step

    state = tuple(map(start, memories))
    return stepping, jax.tree.map(lambda leaf: leaf[:, None], state)


class PlannedMemory(NamedTuple):
    """The memory of one compiled search in bytes, as XLA plans it."""

    parameters: int  # weights of the model
    temporary: int  # buffers of the search, with the histories
    output: int  # the hypotheses

    @property
    def peak(self) -> int:
        """The sum of all parts."""
        return sum(self)


def planned_memory(
    config: ModelConfig, rows: int, length: int, decoding: DecodingConfig
) -> PlannedMemory:
    """Plan the memory of a narrowing search of `rows` sentences of `length` tokens, with N = 1.

    The search is compiled from shapes and not run, so the model need not fit into memory. Its
    products have `config.compute_dtype`; `decoding.compute_dtype` is not read.

    >>> planned_memory(ModelConfig(30_000, 30_000), 64, 50, DecodingConfig(beam_size=12)).peak
    """
    params, inputs = abstract(config, rows, length)
    steps = search_steps(decoding.max_ratio, length)
    widths = _widths(rows, decoding)
    lowered = _search.lower((config,), (params,), inputs, steps, inside(decoding), 1, widths)
    compiled = lowered.compile()
    planned: Any = compiled.memory_analysis()
    return PlannedMemory(
        sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(params)),
        planned.temp_size_in_bytes,
        planned.output_size_in_bytes,
    )


def abstract(config: ModelConfig, rows: int, length: int) -> tuple[Params, Inputs]:
    """Return the shapes of a model's parameters and of a batch."""

    def integers(*shape):
        return jax.ShapeDtypeStruct(shape, jnp.int32)

    return shapes(config), Inputs(
        integers(rows, length),
        jax.ShapeDtypeStruct((rows, length), bool),
        Rules(integers(rows), ban_unk=jax.ShapeDtypeStruct((rows,), bool)),
        integers(rows, 2),
        integers(),
    )
