"""What a Score of the user's own must return, checked by shapes before any work.

B sentences, S source positions, H decoder units, A alignment units, C annotation size.
"""

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model.attention import annotation_size, score_named
from bahdanau_jax.names import is_code, reason


def check_score(config: ModelConfig) -> None:
    """Raise ValueError, in one line, where the user's Score breaks the contract of `Score`.

    Its functions are traced with shapes, nothing is compiled. Names of the table are not checked.
    """
    if not is_code(config.attention):
        return
    score, H, C = score_named(config.attention), config.hidden_size, annotation_size(config)
    B, S = itertools.islice((n for n in itertools.count(3) if n not in (H, C)), 2)

    params = _traced(config, "init(key, config)", lambda key: score.init(key, config), _key())
    _check_parameters(config, params)

    what, given = "keys(config, params, annotations, mask)", functools.partial(score.keys, config)
    seen = _floats(B, S, C), jax.ShapeDtypeStruct((B, S), bool)
    keys = _traced(config, what, given, params, *seen)
    _check_shape(config, what, keys, (B, S, None), f"[B, S, A], here [{B}, {S}, any A]")

    what = "query(params)"
    query, width = _traced(config, what, score.query, params), H
    if query is not None:
        _check_shape(config, what, query, (H, None), f"[H, A] with H={H}, or None")
        width = query.shape[1]

    what = "score(params, query, keys)"
    e = _traced(config, what, score.score, params, _floats(B, width), keys)
    _check_shape(config, what, e, (B, S), f"[B, S], here [{B}, {S}]")


def _key() -> Any:
    return jax.eval_shape(jax.random.key, 0)


def _floats(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _fault(config: ModelConfig, what: str, problem: str) -> ValueError:
    return ValueError(f"model.attention is {config.attention!r}, whose {what} {problem}")


def _traced(config: ModelConfig, what: str, function: Callable, *arguments: Any) -> Any:
    """Shapes and dtypes of what the function returns."""
    try:
        return jax.eval_shape(function, *arguments)
    except Exception as error:
        why = reason(error, config.attention.split(":")[0])
        raise _fault(config, what, f"fails with {why}") from error


def _check_parameters(config: ModelConfig, params: Any) -> None:
    named = isinstance(params, Mapping) and all(isinstance(name, str) for name in params)
    if named and all(_is_float(leaf) for leaf in params.values()):
        return
    raise _fault(
        config,
        "init(key, config)",
        f"returns {_described(params)}; expected a dict of floating-point arrays by name, "
        "{} where there are none",
    )


def _check_shape(
    config: ModelConfig, what: str, found: Any, sizes: tuple[int | None, ...], expected: str
) -> None:
    """An array of floating-point numbers of these sizes; None allows any."""
    fits = _is_float(found) and len(found.shape) == len(sizes)
    if not fits or any(n not in (None, m) for n, m in zip(sizes, found.shape, strict=True)):
        described = _described(found)
        raise _fault(config, what, f"returns {described}; expected floats {expected}")


def _is_float(found: Any) -> bool:
    return isinstance(found, jax.ShapeDtypeStruct) and jnp.issubdtype(found.dtype, jnp.floating)


def _described(found: Any) -> str:
    """`float32[3]`, or the kind of what is no array, with that of its parts."""
    if isinstance(found, jax.ShapeDtypeStruct):
        return f"{found.dtype}[{', '.join(map(str, found.shape))}]"
    if isinstance(found, Mapping):
        parts = [f"{name!r}: {_described(part)}" for name, part in found.items()]
        return f"{{{', '.join(parts)}}}"
    return "None" if found is None else f"a {type(found).__name__}"
