"""The update: clipping to a global norm, then Adadelta or Adam with a learning-rate schedule.

Source: arXiv 1409.0473, appendix B (clip to norm 1, Adadelta with rho 0.95 and epsilon 1e-6).
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from bahdanau_jax.config import OptimizerConfig

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


def named(table: Mapping, name: str, field: str):
    """The entry of a table, or a ValueError that lists the known names."""
    if name not in table:
        raise ValueError(f"{field} {name!r} is unknown; known: {', '.join(sorted(table))}")
    return table[name]


def schedule(config: OptimizerConfig, steps: int) -> Callable:
    """count -> learning rate, where `count` updates were made before this one.

    Update n of w warm-up updates has n / w of the peak, so the first one moves already. Cosine and
    linear then fall to 0 at update `steps`; inverse_sqrt falls as sqrt(w / n), and never ends.
    """
    shape = named(SCHEDULES, config.schedule, "optimizer.schedule")
    warmup = config.warmup_steps

    def rate(count):
        count = jnp.asarray(count, float)  # the rate is as precise as the default float
        growth = jnp.minimum((count + 1) / max(warmup, 1), 1.0)
        return config.learning_rate * growth * shape(count, warmup, steps)

    return rate


def clipping(norm: Float[Array, ""], limit: float) -> Float[Array, ""]:
    """min(1, limit / |g|), what to multiply gradients of this global norm with; 1 for no limit."""
    return jnp.minimum(1.0, limit / jnp.maximum(norm, limit)) if limit else jnp.ones_like(norm)


def make(config: OptimizerConfig, steps: int) -> optax.GradientTransformation:
    """Clipped gradients -> the changes to add to the parameters, each number by itself.

    Adadelta (Zeiler 2012: E[g²] and E[Δ²] decay by rho,
    Δ = -rate sqrt(E[Δ²] + ε) / sqrt(E[g²] + ε) g, and E[Δ²] is of the unscaled Δ), or Adam.

    Raises ValueError for an unknown optimiser or schedule.

    >>> tx = make(OptimizerConfig(), steps=1_000)
    >>> updates, opt_state = tx.update(gradients, tx.init(params))
    """
    rule = named(OPTIMIZERS, config.name, "optimizer.name")(config)
    rate = schedule(config, steps)
    return optax.chain(rule, optax.scale_by_learning_rate(rate))
