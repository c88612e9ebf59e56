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
from bahdanau_jax.names import choose
from bahdanau_jax.user_code import imported, is_code, reason

# A schedule after warm-up: (updates before this one, warm-up, total) -> factor of the peak rate.
Shape = Callable[[Any, int, int], Any]


def _adadelta(config: OptimizerConfig) -> optax.GradientTransformation:
    return optax.scale_by_adadelta(rho=config.rho, eps=config.epsilon)


def _adam(config: OptimizerConfig) -> optax.GradientTransformation:
    return optax.scale_by_adam(b1=config.beta1, b2=config.beta2, eps=config.epsilon)


OPTIMIZERS: Mapping[str, Callable[[OptimizerConfig], optax.GradientTransformation]] = (
    MappingProxyType({"adadelta": _adadelta, "adam": _adam})
)


def _progress(count, warmup: int, steps: int):
    """The share of the updates after warm-up that are done, from 0 to 1."""
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
    """A function count -> learning rate, where `count` updates precede this one.

    Update n of w warm-up updates has n / w of the peak rate, so the first rate is above 0. Then
    cosine and linear fall to 0 after update `steps`, and inverse_sqrt falls as sqrt(w / n).
    """
    shape = choose(SCHEDULES, config.schedule, "optimizer.schedule")
    warmup = config.warmup_steps

    def rate(count):
        count = jnp.asarray(count, float)  # the rate is as precise as the default float
        growth = jnp.minimum((count + 1) / max(warmup, 1), 1.0)
        return config.learning_rate * growth * shape(count, warmup, steps)

    return rate


def clipping(norm: Float[Array, ""], limit: float) -> Float[Array, ""]:
    """min(1, limit / |g|), the factor for gradients of this global norm; 1 where `limit` is 0."""
    return jnp.minimum(1.0, limit / jnp.maximum(norm, limit)) if limit else jnp.ones_like(norm)


Optimizer = Callable[[OptimizerConfig, int], optax.GradientTransformation]


def optimizer_named(name: str) -> Optimizer:
    """A function (settings, total updates) -> the optimiser `name`.

    `name` is a key of OPTIMIZERS, or `module:attribute` for such a function of the user's own. Its
    optimiser turns clipped gradients into the changes to add, so it applies the learning rate
    itself, for example by `schedule`. Raises ValueError for an unknown name.

    >>> def lion(config, steps):  # optimizer.name my_rules:lion
    ...     return optax.lion(bj.schedule(config, steps), b1=config.beta1, b2=config.beta2)
    """
    if not is_code(name):
        rule = choose(OPTIMIZERS, name, "optimizer.name", "module:attribute")
        return lambda config, steps: optax.chain(
            rule(config), optax.scale_by_learning_rate(schedule(config, steps))
        )
    build = imported(name, "optimizer.name")
    if not callable(build):
        raise ValueError(
            f"optimizer.name is {name!r}, which is a {type(build).__name__}; expected a function "
            "(OptimizerConfig, steps) -> optax.GradientTransformation"
        )
    return cast(Optimizer, build)


def make(config: OptimizerConfig, steps: int) -> optax.GradientTransformation:
    """The transformation of clipped gradients into the changes to add to the parameters.

    Adadelta (Zeiler 2012) has Δ = -rate sqrt(E[Δ²] + ε) / sqrt(E[g²] + ε) g, where E[g²] and E[Δ²]
    decay by rho, and E[Δ²] is of the Δ before the rate. Adadelta and Adam are elementwise.

    Raises ValueError for an unknown optimiser or schedule.

    >>> tx = make(OptimizerConfig(), steps=1_000)
    >>> updates, opt_state = tx.update(gradients, tx.init(params))
    """
    return optimizer_named(config.name)(config, steps)


def check_optimizer(config: OptimizerConfig, steps: int, params: Any) -> None:
    """Raise ValueError where the user's own optimiser cannot train these parameters.

    `params` are shapes. The optimiser is traced with them, without compilation.
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
    except (Exception, SystemExit) as error:
        raise fault(f"fails with {reason(error, config.name.split(':')[0])}") from error
    if not isinstance(tx, optax.GradientTransformation):
        raise fault(f"returns {type(tx).__name__!r}; expected an optax.GradientTransformation")
    for noun, given, returned in (("changes", params, changes), ("a state", before, after)):
        if not _alike(given, returned):
            raise fault(f"returns {noun} of other shapes or types than it was given")


def _alike(tree: Any, other: Any) -> bool:
    """Whether two trees have the same structure, shapes and dtypes."""
    if jax.tree.structure(tree) != jax.tree.structure(other):
        return False
    pairs = zip(jax.tree.leaves(tree), jax.tree.leaves(other), strict=True)
    return all((a.shape, a.dtype) == (b.shape, b.dtype) for a, b in pairs)
