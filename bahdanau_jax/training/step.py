"""One update: (state, batch) -> (state, sums). The monitor divides the sums once, on the host.

A loss, gradient or clipping factor that is not finite changes neither parameters nor accumulators.
The step is counted as skipped, and the run continues until too many are skipped in a row.
"""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from bahdanau_jax.batch import Batch
from bahdanau_jax.config import OptimizerConfig
from bahdanau_jax.distributed import Backend, Jit, mesh
from bahdanau_jax.names import choose
from bahdanau_jax.training.blockwise import blockwise
from bahdanau_jax.training.optimizer import clipping

# (params, batch, a key for each row, or None) -> Sums of the model: loss, nll, words, correct,
# sentences. The sums of a row may depend on its key, but not on its position in the batch.
LossFn = Callable[[Any, Batch, Any], Any]


@struct.dataclass
class TrainState:
    """The state of a training. Every leaf is an array, so that the update compiles once."""

    step: Int[Array, ""]  # int32; batches consumed, which is the position in the data
    params: Any  # weights
    opt_state: Any  # accumulators of the optimiser
    key: Key[Array, ""]  # of all dropout; constant, because each update folds the step in
    nonfinite: Int[Array, ""]  # int32; the number of last updates skipped in a row
    skipped: Int[Array, ""]  # int32; the number of all skipped updates
    ema: Any = ()  # moving average of the weights; () where there is none

    @property
    def weights(self) -> Any:
        """The weights to evaluate and translate with: the moving average where there is one."""
        return self.params if isinstance(self.ema, tuple) and not self.ema else self.ema


class StepSums(NamedTuple):
    """The sums of one update, float32 scalars. Losses, words and norms are 0 if it is skipped."""

    loss: Float[Array, ""]  # -Σ log p, smoothed, over the batch, and the coverage term
    nll: Float[Array, ""]  # -Σ log p, not smoothed
    words: Float[Array, ""]  # target words
    correct: Float[Array, ""]  # target words that were the likeliest
    updates: Float[Array, ""]  # 1, or 0 where the update was skipped
    gradient_norm: Float[Array, ""]  # before clipping
    clipped: Float[Array, ""]  # 1 where it was above the limit
    tokens: Float[Array, ""]  # real positions of both sides
    positions: Float[Array, ""]  # positions of both sides, padding included
    skipped: Float[Array, ""]  # 1 where the loss or the gradient was not finite
    nonfinite: Float[Array, ""]  # the number of updates skipped in a row, with this one


# Values of `optimizer.loss_normalization`: Sums of the model -> the divisor of loss and gradient.
LOSS_NORMALIZATIONS: Mapping[str, Callable[[Any], Array]] = MappingProxyType(
    {
        "sum": lambda sums: jnp.ones((), jnp.result_type(sums.loss)),
        "sentence": lambda sums: jnp.maximum(sums.sentences, 1),
        "token": lambda sums: jnp.maximum(sums.words, 1),
    }
)


def init_state(params, tx: optax.GradientTransformation, key, config: OptimizerConfig):
    """The state before the first update."""
    zero = lambda: jnp.zeros((), jnp.int32)  # noqa: E731 (donated leaves must not share a buffer)
    ema = jax.tree.map(jnp.copy, params) if config.ema else ()
    return TrainState(zero(), params, tx.init(params), key, zero(), zero(), ema)


def average(ema, params, updates: Int[Array, ""], decay: float):
    """d ema + (1 - d) params with d = min(decay, (1 + n) / (10 + n)), smaller for early updates."""
    d = jnp.minimum(decay, (1.0 + updates) / (10.0 + updates))
    return jax.tree.map(lambda old, new: (d * old + (1 - d) * new).astype(old.dtype), ema, params)


class Totals(NamedTuple):
    """Sums over rows, to be added up over the parts of a batch, devices and processes."""

    gradient: Any  # of the summed loss
    sums: Any  # of the model
    tokens: Float[Array, ""]  # real positions of both sides
    positions: Float[Array, ""]  # positions of both sides, padding included


def totals(loss_fn: LossFn, params, batch: Batch, keys) -> Totals:
    """The totals of all rows at once."""

    def summed(params):
        sums = loss_fn(params, batch, keys)
        return sums.loss, sums

    gradient, sums = jax.grad(summed, has_aux=True)(params)
    source, target = batch.source_mask, batch.target_mask
    return Totals(
        gradient,
        sums,
        jnp.sum(source, dtype=jnp.float32) + jnp.sum(target, dtype=jnp.float32),
        jnp.float32(source.size + target.size),
    )


def in_parts(parts: int, loss_fn: LossFn, params, batch: Batch, keys) -> Totals:
    """The same totals by gradient accumulation over `parts` parts, which needs less memory."""
    if parts == 1:
        return totals(loss_fn, params, batch, keys)
    cut = jax.tree.map(
        lambda leaf: leaf.reshape(-1, parts, *leaf.shape[1:]).swapaxes(0, 1), (batch, keys)
    )

    def add(total, part):
        return jax.tree.map(jnp.add, total, totals(loss_fn, params, *part)), None

    first = jax.tree.map(lambda leaf: leaf[0], cut)
    shapes = jax.eval_shape(functools.partial(totals, loss_fn), params, *first)
    zeros = jax.tree.map(lambda like: jnp.zeros(like.shape, like.dtype), shapes)
    return lax.scan(add, zeros, cut)[0]


def global_norm(gradient) -> Float[Array, ""]:
    """The square root of the sum of all squares, which are added up by rows first.

    One sum of millions of float32 numbers would lose half a percent (`PLAIN_REDUCTIONS`). The
    barrier keeps XLA from joining the two stages.
    """
    rows = jax.tree.map(lambda g: jnp.sum(jnp.square(g), -1) if g.ndim else g * g, gradient)
    return jnp.sqrt(sum(map(jnp.sum, jax.tree.leaves(lax.optimization_barrier(rows)))))


def update(
    state: TrainState,
    gradient,
    factor: Float[Array, ""],
    finite: Bool[Array, ""],
    tx: optax.GradientTransformation,
    decay: float,
    block: int = 0,
) -> TrainState:
    """The next state, by the gradient times `factor`. If not `finite`, only the counters change.

    `block` is the number of elements to update at a time, for an elementwise `tx`; 0: all.
    """
    made = state.step - state.skipped

    def change(gradient, old):
        params, opt_state, ema = old
        scaled = jax.tree.map(lambda g: g * factor.astype(g.dtype), gradient)
        changes, opt_state = tx.update(scaled, opt_state, params)
        params = optax.apply_updates(params, changes)
        return params, opt_state, average(ema, params, made, decay) if decay else ()

    old = state.params, state.opt_state, state.ema
    if block:
        new = blockwise(finite, change, gradient, old, block)
    else:
        new = jax.tree.map(lambda n, o: jnp.where(finite, n, o), change(gradient, old), old)
    params, opt_state, ema = new
    return TrainState(
        step=state.step + 1,
        params=params,
        opt_state=opt_state,
        key=state.key,
        nonfinite=jnp.where(finite, 0, state.nonfinite + 1),
        skipped=state.skipped + jnp.where(finite, 0, 1),
        ema=ema,
    )


def _measure(totals: Totals, norm, finite, clip_norm: float, nonfinite) -> StepSums:
    def counted(value):
        return jnp.where(finite, value, 0).astype(jnp.float32)

    sums = totals.sums
    return StepSums(
        loss=counted(sums.loss),
        nll=counted(sums.nll),
        words=counted(sums.words),
        correct=counted(sums.correct),
        updates=counted(1.0),
        gradient_norm=counted(norm),
        clipped=counted(norm > clip_norm if clip_norm else 0.0),
        tokens=totals.tokens,
        positions=totals.positions,
        skipped=jnp.where(finite, 0, 1).astype(jnp.float32),
        nonfinite=nonfinite.astype(jnp.float32),
    )


@jax.jit
def are_finite(weights: Any) -> Bool[Array, ""]:
    """Whether all weights of a tree are finite."""
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(weights)]).all()


def train_step(
    loss_fn: LossFn,
    tx: optax.GradientTransformation,
    config: OptimizerConfig,
    backend: Backend | None = None,
    accumulate: int = 1,
    elementwise: bool = False,
) -> Callable[[TrainState, Batch], tuple[TrainState, StepSums]]:
    """The compiled update. Each call consumes (donates) its state, and returns the next one.

    The dropout key of a row is folded from state.key, state.step and its index in the global batch.
    Its dropout mask is therefore the same for any back end and any `accumulate`.

    Args:
        loss_fn: the sums of a batch.
        tx: the optimiser.
        config: its loss normalisation, clip norm and moving average.
        backend: by default, a single device.
        accumulate: the number of parts for gradient accumulation on each device.
        elementwise: whether `tx` is elementwise, so that it can update blocks of the parameters.

    Raises ValueError for an unknown loss normalisation.

    >>> step = train_step(loss_fn, tx, config.optimizer, backend)
    >>> state, sums = step(backend.place(state), backend.feed(batch))
    """
    divisor_of = choose(
        LOSS_NORMALIZATIONS, config.loss_normalization, "optimizer.loss_normalization"
    )
    devices = backend or Jit(mesh(jax.local_devices()[:1]))
    block = devices.block if elementwise else 0

    def step(state: TrainState, batch: Batch) -> tuple[TrainState, StepSums]:
        key = jax.random.fold_in(state.key, state.step)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, devices.rows(batch))
        sums = functools.partial(in_parts, accumulate, loss_fn)
        total = devices.total(sums, state.params, batch, keys)
        divisor = divisor_of(total.sums)
        norm = global_norm(total.gradient) / divisor
        factor = clipping(norm, config.clip_norm) / divisor
        finite = jnp.isfinite(norm) & jnp.isfinite(factor) & jnp.isfinite(total.sums.loss)
        state = update(state, total.gradient, factor, finite, tx, config.ema, block)
        return state, _measure(total, norm, finite, config.clip_norm, state.nonfinite)

    return devices.compile(step) if backend else jax.jit(step, donate_argnums=0)
