"""The contract of a user's own Score: which shapes its functions must return.

B sentences, S source positions, H decoder units, A alignment units, C annotation size.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model.attention import annotation_size, score_named
from bahdanau_jax.model.compute_dtype import AUTO
from bahdanau_jax.model.matrix_products import without_devices
from bahdanau_jax.user_code import is_code, reason


def check_score(config: ModelConfig) -> None:
    """Raise ValueError, in one line, where a user's own Score breaks the contract of `Score`.

    JAX traces its functions with shapes, compiles nothing and starts no device. Scores of the table
    are not checked.
    """
    if not is_code(config.attention):
        return
    if config.compute_dtype == AUTO:  # which would be measured
        config = dataclasses.replace(config, compute_dtype="float32")
    score, H, C = score_named(config.attention), config.hidden_size, annotation_size(config)
    B, S = itertools.islice((n for n in itertools.count(3) if n not in (H, C)), 2)

    params = _traced(config, "init(key, config)", lambda key: score.init(key, config), _key())
    _check_parameters(config, params)

    call, arguments = "keys(config, params, annotations, mask)", (params, _floats(B, S, C))
    mask = jax.ShapeDtypeStruct((B, S), bool)
    keys = _traced(config, call, functools.partial(score.keys, config), *arguments, mask)
    _check_shape(config, call, keys, (B, S, None), f"[B, S, A], here [{B}, {S}, any A]")

    call = "query(params)"
    query, width = _traced(config, call, score.query, params), H
    if query is not None:
        _check_shape(config, call, query, (H, None), f"[H, A] with H={H}, or None")
        width = query.shape[1]

    if score.covered is not None:
        call = "covered(params, keys, coverage)"
        keys = _traced(config, call, score.covered, params, keys, _floats(B, S))
        _check_shape(config, call, keys, (B, S, None), f"[B, S, A], here [{B}, {S}, any A]")

    call, query = "score(params, query, keys)", _floats(B, width)
    e = _traced(config, call, score.score, params, query, keys)
    _check_shape(config, call, e, (B, S), f"[B, S], here [{B}, {S}]")

    if score.weights is not None:
        call = "weights(params, e, mask, query, i)"
        alpha = _traced(config, call, score.weights, params, e, mask, query, _floats(B))
        _check_shape(config, call, alpha, (B, S), f"[B, S], here [{B}, {S}]")


def _key() -> Any:
    return jax.eval_shape(jax.random.key, 0)


def _floats(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _fault(config: ModelConfig, call: str, problem: str) -> ValueError:
    return ValueError(f"model.attention is {config.attention!r}, whose {call} {problem}")


def _traced(config: ModelConfig, call: str, function: Callable, *arguments: Any) -> Any:
    """Return the shapes and dtypes of the function's result."""
    try:
        with without_devices():
            return jax.eval_shape(function, *arguments)
    except (Exception, SystemExit) as error:
        why = reason(error, config.attention.split(":")[0])
        raise _fault(config, call, f"fails with {why}") from error


def _check_parameters(config: ModelConfig, params: Any) -> None:
    named = isinstance(params, Mapping) and all(isinstance(name, str) for name in params)
    if named and all(_is_float(leaf) for leaf in params.values()):
        return
    raise _fault(
        config,
        "init(key, config)",
        f"returns {_describe(params)}; expected a dict of floating-point arrays by name, "
        "{} where there are none",
    )


def _check_shape(
    config: ModelConfig, call: str, result: Any, sizes: tuple[int | None, ...], expected: str
) -> None:
    """Raise ValueError unless the result is a floating-point array of these sizes; None: any."""
    fits = _is_float(result) and len(result.shape) == len(sizes)
    if not fits or any(n not in (None, m) for n, m in zip(sizes, result.shape, strict=True)):
        raise _fault(config, call, f"returns {_describe(result)}; expected floats {expected}")


def _is_float(result: Any) -> bool:
    return isinstance(result, jax.ShapeDtypeStruct) and jnp.issubdtype(result.dtype, jnp.floating)


def _describe(result: Any) -> str:
    """Describe an array as `float32[3]`, a dict by its entries, and anything else by its type."""
    if isinstance(result, jax.ShapeDtypeStruct):
        return f"{result.dtype}[{', '.join(map(str, result.shape))}]"
    if isinstance(result, Mapping):
        parts = [f"{name!r}: {_describe(part)}" for name, part in result.items()]
        return f"{{{', '.join(parts)}}}"
    return "None" if result is None else f"a {type(result).__name__}"
