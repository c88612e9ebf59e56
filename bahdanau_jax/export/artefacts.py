"""The model as `jax.export` artefacts, which need nothing but JAX to run.

B sentences, S source positions, K hypotheses of a sentence, H decoder units, C annotation size,
V words.

The three programs, with parameters by their dotted names, as in model.safetensors:

    prepare(params) -> weights                          once
    encode(params, source, mask) -> (memory, state)     once for each batch of sentences
    step(params, weights, memory, tokens, state) -> (log_p, state, alpha)     for each word
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from jax import export
from jaxtyping import Array, Bool, Float, Int

from bahdanau_jax import model
from bahdanau_jax.checkpoints import dotted, flatten, undotted, unflatten
from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model import Memory, State

PLATFORMS = ("cpu", "cuda", "tpu")
AXES = "B, S, K"  # the symbolic axes
SUFFIX = ".jaxexport"
TRACEBACKS = "jax_traceback_in_locations_limit"  # JAX's setting: source lines of each operation

Flat = Mapping[str, Array]  # arrays by name


def prepare(config: ModelConfig, params: Flat) -> dict[str, Array]:
    """Return the matrices of a step, side by side and in the compute dtype."""
    return model.step_weights(config, _tree(config, params))


def encode(
    config: ModelConfig, params: Flat, source: Int[Array, "B S"], mask: Bool[Array, "B S"]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the memory of each sentence, and the state before the first word, with K = 1.

    The memory has annotations [B, S, C], keys [B, S, A] and mask. The state has s [B, 1, H] and c
    [B, 1, C]. Where the score reads the number of the word, it also has i [B, 1]; where it reads
    the sum of earlier weights, coverage [B, 1, S].
    """
    memory = model.encode(config, _tree(config, params), source, mask)
    first = jax.tree.map(lambda leaf: leaf[:, None], _fields(model.start(memory)))
    return {"annotations": memory.annotations, "keys": memory.keys, "mask": memory.mask}, first


def step(
    config: ModelConfig,
    params: Flat,
    weights: Flat,
    memory: Flat,
    tokens: Int[Array, "B K"],
    state: Flat,
) -> tuple[Float[Array, "B K V"], dict[str, Array], Float[Array, "B K S"]]:
    """Return log p of the next word, the new state, and the attention weights.

    `tokens` are the previous words: -1 before the first one. `weights` are those of `prepare`.
    """
    initial = state["s"][:, 0]  # which no step reads
    of_decoder = Memory(memory["annotations"], memory["keys"], memory["mask"], initial)
    predict = model.predictor(config, _tree(config, params), of_decoder, weights)
    next_word, after, alpha = predict(tokens, State(**state))
    return next_word.log_p, _fields(after), alpha


def _fields(state: State) -> dict[str, Array]:
    return {name: leaf for name, leaf in state._asdict().items() if not isinstance(leaf, tuple)}


def _tree(config: ModelConfig, params: Flat) -> model.Params:
    """The tree of parameters with dotted names."""
    return unflatten(model.shapes(config), undotted(params))


def export_model(config: ModelConfig) -> dict[str, bytes]:
    """Return the serialised program of each name in PROGRAMS, for all PLATFORMS.

    B, S and K are symbolic. `jax.export` raises an error for an operation that its guarantee of
    compatibility leaves out.

    >>> export_model(run.config.model)["step"]
    """
    return {name: bytes(_exported(config, name).serialize()) for name in PROGRAMS}


def _exported(config: ModelConfig, name: str) -> export.Exported:
    def program(*arguments):
        return PROGRAMS[name](config, *arguments)

    program.__name__ = name  # it is stored in the artefact
    with _without_paths():
        return export.export(jax.jit(program), platforms=PLATFORMS)(*_arguments(config)[name])


@contextlib.contextmanager
def _without_paths() -> Iterator[None]:
    """Leave the source lines of operations out: they hold paths of this machine."""
    before = getattr(jax.config, TRACEBACKS)
    jax.config.update(TRACEBACKS, 0)
    try:
        yield
    finally:
        jax.config.update(TRACEBACKS, before)


def _arguments(config: ModelConfig) -> dict[str, tuple[Any, ...]]:
    """Return the shapes of the arguments of each program."""
    B, S, K = export.symbolic_shape(AXES)
    params = dotted(flatten(model.shapes(config)))
    source = jax.ShapeDtypeStruct((B, S), jnp.int32), jax.ShapeDtypeStruct((B, S), jnp.bool_)
    weights = jax.eval_shape(lambda p: prepare(config, p), params)
    memory, first = jax.eval_shape(lambda *a: encode(config, *a), params, *source)
    state = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((B, K, *leaf.shape[2:]), leaf.dtype), first
    )
    tokens = jax.ShapeDtypeStruct((B, K), jnp.int32)
    return {
        "prepare": (params,),
        "encode": (params, *source),
        "step": (params, weights, memory, tokens, state),
    }


PROGRAMS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"prepare": prepare, "encode": encode, "step": step}
)
