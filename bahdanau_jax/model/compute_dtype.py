"""The compute dtype "auto": the dtype whose matrix products are fastest on this machine.

Some CPUs multiply bfloat16 matrices up to twice as fast as float32, others more slowly. Training
replaces "auto" by the measured name at the start of a run, so that a run keeps its dtype on every
machine. Functions of a configuration that still has "auto" use this machine's dtype.
"""

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bahdanau_jax.config import ModelConfig

AUTO = "auto"  # the value of `model.compute_dtype` that stands for the fastest of the dtypes
# Names of compute dtypes -> the dtype of the factors; None leaves it unchanged.
COMPUTE_DTYPES: Mapping[str, Any] = MappingProxyType({"float32": None, "bfloat16": jnp.bfloat16})
# bfloat16 should be faster by this factor, since its rounding costs some digits of each product.
GAIN = 1.15
# The measured product is [rows, terms] x [terms, columns]: that of the words of a batch. On an
# accelerator it is so large that it takes longer than its start.
ON_CPU, ON_ACCELERATORS = (1024, 512, 512), (16384, 1024, 1024)
REPEATS = 12  # rounds of one product in each dtype, where the result is clear
MOST_REPEATS = 120  # where it is not, as on a busy machine
CLEAR = 1.3  # bfloat16 is clearly faster by this factor


def factor_dtype(name: str) -> Any:
    """The dtype of the factors of a product; None leaves it unchanged."""
    return COMPUTE_DTYPES[fastest() if name == AUTO else name]


def named(config: ModelConfig) -> ModelConfig:
    """Return the configuration with this machine's dtype in place of "auto".

    >>> named(ModelConfig(compute_dtype="auto")).compute_dtype in COMPUTE_DTYPES
    True
    """
    if config.compute_dtype != AUTO:
        return config
    return dataclasses.replace(config, compute_dtype=fastest())


@functools.cache
def fastest() -> str:
    """The name of the compute dtype with the fastest products on the default device.

    It is measured once in a process, in about a second with compilation.
    """
    with jax.ensure_compile_time_eval():  # it may be asked while a program is traced
        seconds = _seconds()
    return "bfloat16" if seconds["float32"] > GAIN * seconds["bfloat16"] else "float32"


def _seconds() -> dict[str, float]:
    """The shortest time of a product in each dtype, with the rounding of its factors.

    The dtypes take turns, and other programs can only make a product slower, never faster. They
    can slow all of a few rounds, so float32 is taken after many rounds only.
    """
    rows, terms, columns = ON_CPU if jax.default_backend() == "cpu" else ON_ACCELERATORS
    rng = np.random.default_rng(1)
    a, b = (
        jnp.asarray(rng.standard_normal(shape), jnp.float32)
        for shape in ((rows, terms), (terms, columns))
    )
    products = {name: _product(dtype) for name, dtype in COMPUTE_DTYPES.items()}
    for product in products.values():
        product(a, b).block_until_ready()
    shortest = dict.fromkeys(products, math.inf)
    for repeat in range(1, MOST_REPEATS + 1):
        for name, product in products.items():
            shortest[name] = min(shortest[name], _timed(product, a, b))
        if repeat >= REPEATS and shortest["float32"] > CLEAR * shortest["bfloat16"]:
            break
    return shortest


def _product(dtype: Any) -> Callable[[jax.Array, jax.Array], jax.Array]:
    @jax.jit
    def product(a, b):
        x, y = (a, b) if dtype is None else (a.astype(dtype), b.astype(dtype))
        return jnp.matmul(x, y, preferred_element_type=jnp.float32)

    return product


def _timed(product: Callable[..., jax.Array], *factors: jax.Array) -> float:
    began = time.perf_counter()
    product(*factors).block_until_ready()
    return time.perf_counter() - began
