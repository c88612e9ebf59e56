"""The update: clipping to a global norm, then Adadelta or Adam with a learning-rate schedule.

Source: arXiv 1409.0473, appendix B (clip to norm 1, Adadelta with rho 0.95 and epsilon 1e-6).
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, cast

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from bahdanau_jax.config import OptimizerConfig
from bahdanau_jax.names import choose, imported, is_code, reason

# A schedule's shape after warm-up: (updates made so far, warm-up, total) -> factor of the peak.
Shape = Callable[[Any, int, int], Any]


def _adadelta(config: OptimizerConfig) -> optax.GradientTransformation:
    return optax.scale_by_adadelta(rho=config.rho, eps=config.epsilon)


def _adam(config: OptimizerConfig) -> optax.GradientTransformation:
    return optax.scale_by_adam(b1=config.beta1, b2=config.beta2, eps=config.epsilon)


OPTIMIZERS: Mapping[str, Callable[[OptimizerConfig], optax.GradientTransformation]] = (
    MappingProxyType({"adadelta": _adadelta, "adam": _adam})
)


def _progress(count, warmup: int, steps: int):
    """The share of the updates after warm-up that lie behind, within 0..1."""
    return jnp.clip((count - warmup) / max(steps - warmup, 1), 0.0, 1.0)


def _constant(count, warmup: int, steps: int):
    return jnp.ones_like(count)


def _cosine(count, warmup: int, steps: int):
    return 0.5 * (1.0 + jnp.cos(jnp.pi * _progress(count, warmup, steps)))


def _inverse_sqrt(count, warmup: int, steps: int):
    peak = max(warmup, 1)
    return jnp.sqrt(peak / jnp.maximum(count + 1, peak))


def _linear(count, warmup: int, steps: int):
    return 1.0 - _progress(count, warmup, steps)


SCHEDULES: Mapping[str, Shape] = MappingProxyType(
    {
        "constant": _constant,
        "cosine": _cosine,
        "inverse_sqrt": _inverse_sqrt,
        "linear": _linear,
    }
)


def schedule(config: OptimizerConfig, steps: int) -> Callable:
    """count -> learning rate, where `count` updates were made before this one.

    Update n of w warm-up updates has n / w of the peak, so the first one moves already. Cosine and
    linear then fall to 0 at update `steps`; inverse_sqrt falls as sqrt(w / n), and never ends.
    """
    shape = choose(SCHEDULES, config.schedule, "optimizer.schedule")
    warmup = config.warmup_steps

    def rate(count):
        count = jnp.asarray(count, float)  # the rate is as precise as the default float
        growth = jnp.minimum((count + 1) / max(warmup, 1), 1.0)
        return config.learning_rate * growth * shape(count, warmup, steps)

    return rate


def clipping(norm: Float[Array, ""], limit: float) -> Float[Array, ""]:
    """min(1, limit / |g|), what to multiply gradients of this global norm with; 1 for no limit."""
    return jnp.minimum(1.0, limit / jnp.maximum(norm, limit)) if limit else jnp.ones_like(norm)


Optimizer = Callable[[OptimizerConfig, int], optax.GradientTransformation]


def optimizer_named(name: str) -> Optimizer:
    """(settings, updates in all) -> the optimiser called `name`, or the user's own.

    The user's own at `module:attribute` is such a function. What it returns turns clipped gradients
    into the changes to add, so it applies the learning rate itself, by `schedule` if it wants to.
    Raises ValueError where there is none.

    >>> def lion(config, steps):  # optimizer.name my_rules:lion
    ...     return optax.lion(bj.schedule(config, steps), b1=config.beta1, b2=config.beta2)
    """
    if not is_code(name):
        rule = choose(OPTIMIZERS, name, "optimizer.name")
        return lambda config, steps: optax.chain(
            rule(config), optax.scale_by_learning_rate(schedule(config, steps))
        )
    found = imported(name, "optimizer.name")
    if not callable(found):
        raise ValueError(
            f"optimizer.name is {name!r}, which is a {type(found).__name__}; expected a function "
            "(OptimizerConfig, steps) -> optax.GradientTransformation"
        )
    return cast(Optimizer, found)


def make(config: OptimizerConfig, steps: int) -> optax.GradientTransformation:
    """Clipped gradients -> the changes to add to the parameters, by `optimizer_named`.

    Adadelta (Zeiler 2012: E[g²] and E[Δ²] decay by rho,
    Δ = -rate sqrt(E[Δ²] + ε) / sqrt(E[g²] + ε) g, and E[Δ²] is of the unscaled Δ) and Adam change
    each number by itself.

    Raises ValueError for an unknown optimiser or schedule.

    >>> tx = make(OptimizerConfig(), steps=1_000)
    >>> updates, opt_state = tx.update(gradients, tx.init(params))
    """
    return optimizer_named(config.name)(config, steps)


def check_optimizer(config: OptimizerConfig, steps: int, params: Any) -> None:
    """Raise ValueError, in one line, where the user's optimiser cannot train these parameters.

    `params` are shapes; the optimiser is traced with them, and nothing is compiled.
    """
    if not is_code(config.name):
        return

    def fault(problem: str) -> ValueError:
        return ValueError(f"optimizer.name is {config.name!r}, which {problem}")

    build = optimizer_named(config.name)
    try:
        tx = build(config, steps)
        if isinstance(tx, optax.GradientTransformation):
            before = jax.eval_shape(tx.init, params)
            changes, after = jax.eval_shape(tx.update, params, before, params)
    except Exception as error:
        raise fault(f"fails with {reason(error, config.name.split(':')[0])}") from error
    if not isinstance(tx, optax.GradientTransformation):
        raise fault(f"returns {type(tx).__name__!r}; expected an optax.GradientTransformation")
    for what, expected, found in (("changes", params, changes), ("a state", before, after)):
        if not _alike(expected, found):
            raise fault(f"returns {what} of other shapes or types than it was given")


def _alike(one: Any, other: Any) -> bool:
    """Trees of the same structure, shapes and dtypes."""
    if jax.tree.structure(one) != jax.tree.structure(other):
        return False
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all((a.shape, a.dtype) == (b.shape, b.dtype) for a, b in pairs)
