"""A state as named arrays, and the digests by which a checkpoint is known to be whole."""

import hashlib
import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Shaped, UInt32

State = TypeVar("State")
Flat = dict[str, Any]  # name -> array


def _name(path) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _is_key(leaf) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def flatten(tree) -> Flat:
    """name -> array, as saved: random keys as their data, empty arrays left out."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {
        _name(path): _key_data(leaf) if _is_key(leaf) else leaf
        for path, leaf in leaves
        if leaf.size
    }


def _key_data(key):
    abstract = isinstance(key, jax.ShapeDtypeStruct)
    return jax.eval_shape(jax.random.key_data, key) if abstract else jax.random.key_data(key)


def unflatten(template: State, flat: Flat) -> State:
    """The inverse of `flatten`, for a tree of the template's shape."""

    def leaf(path, like):
        if not like.size:
            return jnp.zeros(like.shape, like.dtype)
        value = flat[_name(path)]
        if _is_key(like):
            impl = jax.random.key_impl(jnp.empty((), like.dtype))
            return jax.random.wrap_key_data(value, impl=impl)
        return value

    return jax.tree_util.tree_map_with_path(leaf, template)


def signature(array) -> list:
    """[type, shape], as JSON holds them."""
    return [str(array.dtype), list(array.shape)]


# Bytes of an element -> the unsigned words that its bits are; eight bytes are two words.
_WORDS: Mapping[int, Any] = MappingProxyType(
    {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint32}
)


def _odd(index: UInt32[Array, "*D"]) -> UInt32[Array, "*D"]:
    """An odd number for each index, near ones far apart (the finaliser of MurmurHash3)."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        index = (index ^ (index >> shift)) * jnp.uint32(factor)
    return (index ^ (index >> 16)) | 1


def digest(array: Shaped[Array, "*D"]) -> UInt32[Array, ""]:
    """Σ bits(x_i) · odd(i) modulo 2³², i being the index in the whole array, row by row.

    Changing bit k of one element changes the sum by ±2ᵏ times an odd number, which is never 0
    modulo 2³². Sums of integers may be made in any order, so the digest is the same under any
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


@jax.jit
def _stacked(arrays: list[Array]) -> UInt32[Array, " N"]:
    return jnp.stack([digest(array) for array in arrays])


def sums(flat: Flat) -> dict[str, int]:
    """`digest` of each array, which may be spread over devices and processes."""
    found = np.asarray(_stacked(list(flat.values()))) if flat else []
    return dict(zip(flat, map(int, found), strict=True))


def seal(note: dict) -> str:
    """SHA-256 of anything JSON can hold."""
    return hashlib.sha256(json.dumps(note, sort_keys=True).encode()).hexdigest()


def difference(expected: dict, saved: dict) -> str | None:
    """The first leaf in which this program's state and the saved one differ, in words."""
    for name in sorted(expected.keys() | saved.keys()):
        ours, theirs = expected.get(name), saved.get(name)
        if ours != theirs:
            shown = [f"{x[0]}{x[1]}" if x else "nothing" for x in (theirs, ours)]
            return f"{name} is {shown[0]} there, but this configuration has {shown[1]}"
    return None


def abstract(leaf) -> jax.ShapeDtypeStruct:
    """What to load: type, shape, and the devices where the template has it, or else the first."""
    sharding = getattr(leaf, "sharding", None)
    if sharding is None:
        sharding = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
