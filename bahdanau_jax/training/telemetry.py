"""Statistics of the optimiser, computed from its accumulators after an update.

The loop asks for them only where a line of metrics.jsonl is due, and does not wait for them.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from bahdanau_jax.config import OptimizerConfig
from bahdanau_jax.names import choose
from bahdanau_jax.training.optimizer import schedule
from bahdanau_jax.training.step import TrainState

FAR = 10.0  # where √E[g²] is this many times below √ε, the accumulators have no effect

# (settings, optimiser's state, updates) -> (E[g²] as a tree, what ε is added to, as a tree, ‖Δ‖
# before the learning rate)
Reading = Callable[[OptimizerConfig, Any, Array], tuple[Any, Any, Float[Array, ""]]]


def _squares(tree) -> Float[Array, ""]:
    return sum((jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(tree)), jnp.zeros(()))


def _total(tree) -> Float[Array, ""]:
    return sum((jnp.sum(leaf) for leaf in jax.tree.leaves(tree)), jnp.zeros(()))


def _adadelta(config: OptimizerConfig, state, made) -> tuple[Any, Any, Array]:
    """‖Δ‖ is the root of Σ E[Δ²], corrected for its start at 0."""
    seen = 1 - config.rho**made
    mean = jax.tree.map(lambda leaf: leaf / seen, optax.tree.get(state, "e_g"))
    return mean, mean, jnp.sqrt(_total(optax.tree.get(state, "e_x")) / seen)


def _adam(config: OptimizerConfig, state, made) -> tuple[Any, Any, Array]:
    """‖Δ‖ is that of the last update, computed from the two moments. ε is added to √E[g²]."""
    first, second = 1 - config.beta1**made, 1 - config.beta2**made
    mean = jax.tree.map(lambda leaf: leaf / second, optax.tree.get(state, "nu"))
    root = jax.tree.map(jnp.sqrt, mean)
    moved = jax.tree.map(
        lambda m, r: m / first / (r + config.epsilon), optax.tree.get(state, "mu"), root
    )
    return mean, root, jnp.sqrt(_squares(moved))


READINGS: Mapping[str, Reading] = MappingProxyType({"adadelta": _adadelta, "adam": _adam})


@partial(jax.jit, static_argnums=(0, 1))
def _measure(config: OptimizerConfig, steps: int, state: TrainState) -> dict[str, Array]:
    made = jnp.maximum(state.step - state.skipped, 1)
    mean, compared, moved = READINGS[config.name](config, state.opt_state, made.astype(jnp.float32))
    size = float(sum(leaf.size for leaf in jax.tree.leaves(mean)))
    below = jnp.array(
        [jnp.sum(leaf < config.epsilon, dtype=jnp.int32) for leaf in jax.tree.leaves(compared)]
    )
    rate = schedule(config, steps)(made - 1)
    return {
        "update_to_weight": rate * moved / jnp.sqrt(_squares(state.params)),
        "gradient_rms": jnp.sqrt(_total(mean) / size),
        "below_epsilon": jnp.sum(below) / size,
    }


@dataclass(frozen=True)
class Telemetry:
    """Statistics of a training state, and a warning about ε.

    `update_to_weight` is ‖Δ‖/‖θ‖, `gradient_rms` is √(mean of E[g²]) of the clipped gradients, and
    `below_epsilon` is the share of weights with E[g²] below ε; with Adam, √E[g²] below ε.

    >>> Telemetry(config.optimizer, steps=1_000).measure(state)["update_to_weight"]
    Array(0.003, dtype=float32)
    """

    config: OptimizerConfig
    steps: int

    def __post_init__(self):
        choose(READINGS, self.config.name, "optimizer.name")

    def measure(self, state: TrainState) -> dict[str, Array]:
        return _measure(self.config, self.steps, state)

    def warning(self, line: Mapping[str, Any]) -> str | None:
        """A warning where ε is too large for the gradients in a line of metrics.jsonl, or None.

        Adadelta's Δ = -√(E[Δ²] + ε)/√(E[g²] + ε) g is about -g where both means are far below ε.
        With the paper's summed loss, clipping makes it a step of norm 1. With a loss divided by its
        words, the gradients are small and learning is slow.
        """
        rms, clipped = line.get("gradient_rms"), line.get("clipped_share")
        root = math.sqrt(self.config.epsilon)
        if self.config.name != "adadelta" or rms is None or clipped is None:
            return None
        if rms * FAR >= root or clipped >= 0.5:
            return None
        scale = self.config.loss_normalization
        undivided = (
            "" if scale == "sum" else f"optimizer.loss_normalization to sum (it is {scale}), or "
        )
        return (
            f"warning: √E[g²] is {rms:.1e}, far below √ε = {root:.1e} of Adadelta, and clipping "
            f"acts on {clipped:.0%} of the updates: an update is nearly the gradient itself; set "
            f"{undivided}optimizer.epsilon to {rms**2:.0e} or less"
        )
