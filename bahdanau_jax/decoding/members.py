"""The members of an ensemble: their configurations, parameters and compute dtype, and their mean.

One model is an ensemble of one member.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import jax.numpy as jnp
from jaxtyping import Array, Float

from bahdanau_jax import model
from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model import Params

Configs = tuple[ModelConfig, ...]  # one for each member of an ensemble
MemberParams = tuple[Params, ...]  # the parameters of these members

# Values of `decoding.compute_dtype` -> the model's configuration with this compute dtype.
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
    config: ModelConfig | Configs, params: Params | MemberParams, compute_dtype: str
) -> tuple[Configs, MemberParams]:
    """Return one model, or the members of an ensemble, as tuples with this compute dtype."""
    if isinstance(config, ModelConfig):
        return members((config,), (params,), compute_dtype)  # pyright: ignore
    return tuple(map(COMPUTE_DTYPES[compute_dtype], config)), params  # pyright: ignore


def mean(arrays: Sequence[Float[Array, "*X"]]) -> Float[Array, "*X"]:
    """Return the mean over the members of an ensemble, whose arrays have one shape, any."""
    return functools.reduce(jnp.add, arrays) / len(arrays)
