"""A state as named arrays, and the digests that verify a checkpoint."""

import functools
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Shaped, UInt32

from bahdanau_jax.compiler_faults import PLAIN_REDUCTIONS

State = TypeVar("State")
Value = TypeVar("Value")
Flat = dict[str, Any]  # name -> array


def _name(path) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _is_key(leaf) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def flatten(tree) -> Flat:
    """Name -> array, as saved. Random keys become their data, and empty arrays are left out."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {
        _name(path): _key_data(leaf) if _is_key(leaf) else leaf
        for path, leaf in leaves
        if leaf.size
    }


def _key_data(key):
    if not isinstance(key, jax.ShapeDtypeStruct):
        return jax.random.key_data(key)
    data = jax.eval_shape(jax.random.key_data, key)
    return jax.ShapeDtypeStruct(data.shape, data.dtype, sharding=key.sharding)


def unflatten(template: State, flat: Flat) -> State:
    """The inverse of `flatten`, for a tree with the structure of the template."""

    def leaf(path, like):
        if not like.size:
            return jnp.zeros(like.shape, like.dtype)
        value = flat[_name(path)]
        if _is_key(like):
            impl = jax.random.key_impl(jnp.empty((), like.dtype))
            return jax.random.wrap_key_data(value, impl=impl)
        return value

    return jax.tree_util.tree_map_with_path(leaf, template)


def dotted(flat: Mapping[str, Value]) -> dict[str, Value]:
    """The same arrays by dotted names, which files of weights and exported programs use.

    >>> dotted({"output/b_w": 1})
    {'output.b_w': 1}
    """
    return {name.replace("/", "."): value for name, value in flat.items()}


def undotted(flat: Mapping[str, Value]) -> dict[str, Value]:
    """The inverse of `dotted`: no key of a tree of parameters has a dot."""
    return {name.replace(".", "/"): value for name, value in flat.items()}


def signature(array) -> list:
    """[dtype, shape] of an array, as JSON values."""
    return [str(array.dtype), list(array.shape)]


# Bytes of an element -> the unsigned type of its words. Eight bytes are two words.
_WORDS: Mapping[int, Any] = MappingProxyType(
    {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint32}
)


def _odd(index):
    """A pseudorandom odd number for each index, by the finaliser of MurmurHash3.

    The indices and the numbers are uint32 [*D], of JAX or of NumPy.
    """
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        index = (index ^ (index >> shift)) * np.uint32(factor)
    return (index ^ (index >> 16)) | 1


def digest(array: Shaped[Array, "*D"]) -> UInt32[Array, ""]:
    """Σ bits(x_i) · odd(i) modulo 2³², where i is the row-major index in the whole array.

    A change of bit k of one element changes the sum by ±2ᵏ times an odd number, which is never 0
    modulo 2³². The order of an integer sum does not matter, so the digest is the same under any
    sharding and any number of processes.

    >>> digest(jnp.zeros(3))
    Array(0, dtype=uint32)
    """
    if array.dtype == bool:
        words = array.astype(jnp.uint32)
    else:
        words = lax.bitcast_convert_type(array, _WORDS[array.dtype.itemsize]).astype(jnp.uint32)
    index = jnp.zeros(words.shape, jnp.uint32)
    for axis in range(words.ndim):
        stride = jnp.uint32(math.prod(words.shape[axis + 1 :]) % 2**32)
        index += lax.broadcasted_iota(jnp.uint32, words.shape, axis) * stride
    return jnp.sum(words * _odd(index), dtype=jnp.uint32)


_SMALL = 2**26  # bytes; NumPy digests them in less time than a program takes to be read from disk
_PIECE = 2**16  # words that NumPy multiplies at once, which fit the cache of a core


def _digest_on_host(array: Shaped[np.ndarray, "*D"]) -> int:
    """`digest` by NumPy, which needs no program."""
    if array.dtype == bool:
        array = array.astype(np.uint32)
    words = np.ascontiguousarray(array).reshape(-1).view(_WORDS[array.dtype.itemsize])
    total = 0
    for start in range(0, words.size, _PIECE):
        piece = words[start : start + _PIECE].astype(np.uint32, copy=False)
        index = np.arange(start, start + len(piece), dtype=np.uint64).astype(np.uint32)
        total += int(np.dot(piece, _odd(index)))
    return total % 2**32


def _stacked(arrays: list[Array]) -> UInt32[Array, " N"]:
    return jnp.stack([digest(array) for array in arrays])


@functools.cache
def _program(platform: str) -> Callable[[list[Array]], UInt32[Array, " N"]]:
    """The jitted `_stacked`. On a CPU, its sums then need no arrays of their own."""
    return jax.jit(_stacked, compiler_options=PLAIN_REDUCTIONS.get(platform))


def _are_on_host(arrays: list[Array]) -> bool:
    """Whether they are small, and NumPy reads them where they are."""
    if not all(isinstance(array, jax.Array) and array.is_fully_addressable for array in arrays):
        return False  # JAX may give an array of NumPy another type
    devices = {device for array in arrays for device in array.sharding.device_set}
    is_one_cpu = len(devices) < 2 and all(device.platform == "cpu" for device in devices)
    return is_one_cpu and sum(array.nbytes for array in arrays) <= _SMALL


def digests(flat: Flat) -> dict[str, int]:
    """`digest` of each array. The arrays may be split over devices and processes."""
    arrays = list(flat.values())
    if _are_on_host(arrays):
        values = [_digest_on_host(np.asarray(array)) for array in arrays]
    else:
        values = np.asarray(_program(jax.default_backend())(arrays))
    return dict(zip(flat, map(int, values), strict=True))


def seal(note: dict) -> str:
    """SHA-256 of any JSON value."""
    return hashlib.sha256(json.dumps(note, sort_keys=True).encode()).hexdigest()


def difference(expected: dict, saved: dict) -> str | None:
    """A description of the first leaf in which two signatures differ; None where none does."""
    for name in sorted(expected.keys() | saved.keys()):
        ours, theirs = expected.get(name), saved.get(name)
        if ours != theirs:
            there, here = (f"{x[0]}{x[1]}" if x else "nothing" for x in (theirs, ours))
            return f"{name} is {there} there, but this configuration has {here}"
    return None


def change(flat: Flat, expected: Mapping[str, int]) -> str | None:
    """The first array that is missing or has another digest than expected; None if there is none.

    An array that was not found is no `jax.Array`.
    """
    for name, array in flat.items():
        if not isinstance(array, jax.Array):
            return f"{name} is missing"
    for name, value in digests(flat).items():
        if value != expected[name]:
            return f"{name} does not match its digest"
    return None


def abstract(leaf) -> jax.ShapeDtypeStruct:
    """The dtype, shape and sharding to load. Without a sharding, it is the first local device."""
    sharding = getattr(leaf, "sharding", None)
    if sharding is None:
        sharding = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
