"""A state as named arrays, and the digests by which a checkpoint is known to be whole."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

State = TypeVar("State")


def _name(path) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _is_key(leaf) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def flatten(tree) -> dict[str, Any]:
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


def unflatten(template: State, flat: dict[str, Any]) -> State:
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


def _digest(array) -> str:
    data: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return hashlib.sha256(data).hexdigest()


def digests(flat: dict[str, Any]) -> dict[str, str]:
    """SHA-256 of the bytes of each array, several at a time."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(flat, pool.map(_digest, flat.values()), strict=True))


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
        sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
