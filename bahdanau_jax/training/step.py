"""One update: (state, batch) -> (state, sums). Sums are divided once, on the host, by the monitor.

A non-finite loss or gradient changes no parameter and no accumulator: the step is counted, and the
run goes on until too many come in a row.
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
# sentences. Nothing else about rows may depend on where they stand.
LossFn = Callable[[Any, Batch, Any], Any]


@struct.dataclass
class TrainState:
    """All that an update reads and writes; every leaf is an array, so that it compiles once."""

    step: Int[Array, ""]  # int32; batches consumed, which is the position in the data
    params: Any  # weights
    opt_state: Any  # accumulators of the optimiser
    key: Key[Array, ""]  # of all dropout; never changes, the step is folded in
    nonfinite: Int[Array, ""]  # int32; updates skipped in a row, up to now
    skipped: Int[Array, ""]  # int32; updates skipped in all
    ema: Any = ()  # average of the weights; () where there is none

    @property
    def weights(self) -> Any:
        """What to evaluate and translate with: the average where there is one."""
        return self.params if isinstance(self.ema, tuple) and not self.ema else self.ema


class StepSums(NamedTuple):
    """What one update tells the monitor; float32 scalars. A skipped update counts only itself."""

    loss: Float[Array, ""]  # -Σ log p, smoothed, over the batch
    nll: Float[Array, ""]  # -Σ log p, not smoothed
    words: Float[Array, ""]  # target words
    correct: Float[Array, ""]  # of these, predicted
    updates: Float[Array, ""]  # 1, or 0 where the update was skipped
    gradient_norm: Float[Array, ""]  # before clipping
    clipped: Float[Array, ""]  # 1 where it was above the limit
    tokens: Float[Array, ""]  # real positions of both sides
    positions: Float[Array, ""]  # positions of both sides, padding included
    skipped: Float[Array, ""]  # 1 where loss or gradient were not finite
    nonfinite: Float[Array, ""]  # skipped in a row, up to and with this update


LOSS_NORMALIZATIONS: Mapping[str, Callable[[Any], Array]] = MappingProxyType(
    {
        "sum": lambda sums: jnp.ones((), jnp.result_type(sums.loss)),
        "sentence": lambda sums: jnp.maximum(sums.sentences, 1),
        "token": lambda sums: jnp.maximum(sums.words, 1),
    }
)


def init_state(params, tx: optax.GradientTransformation, key, config: OptimizerConfig):
    """The state before the first update."""
    zero = lambda: jnp.zeros((), jnp.int32)  # noqa: E731 (donated leaves may share no buffer)
    ema = jax.tree.map(jnp.copy, params) if config.ema else ()
    return TrainState(zero(), params, tx.init(params), key, zero(), zero(), ema)


def average(ema, params, updates: Int[Array, ""], decay: float):
    """d ema + (1 - d) params, d = min(decay, (1 + n) / (10 + n)): young averages follow faster."""
    d = jnp.minimum(decay, (1.0 + updates) / (10.0 + updates))
    return jax.tree.map(lambda old, new: (d * old + (1 - d) * new).astype(old.dtype), ema, params)


class Totals(NamedTuple):
    """What rows add up to; the same over parts of a batch, devices and processes."""

    gradient: Any  # of the summed loss
    sums: Any  # of the model
    tokens: Float[Array, ""]  # real positions of both sides
    positions: Float[Array, ""]  # positions of both sides, padding included


def totals(loss_fn: LossFn, params, batch: Batch, keys) -> Totals:
    """Of all rows at once."""

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
    """The same totals, of every `parts`-th row at a time, which needs less memory."""
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


def update(
    state: TrainState,
    gradient,
    factor: Float[Array, ""],
    finite: Bool[Array, ""],
    tx: optax.GradientTransformation,
    decay: float,
    block: int = 0,
) -> TrainState:
    """The next state, of the gradient times `factor`; only what counts changes unless `finite`.

    `block` numbers at a time, where `tx` is elementwise; all at once where it is 0.
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


def train_step(
    loss_fn: LossFn,
    tx: optax.GradientTransformation,
    config: OptimizerConfig,
    backend: Backend | None = None,
    accumulate: int = 1,
    elementwise: bool = False,
) -> Callable[[TrainState, Batch], tuple[TrainState, StepSums]]:
    """The compiled update. It consumes the state it is given: keep the one it returns.

    A row's dropout key is folded from state.key, state.step and the row of the global batch, so
    that neither the back end nor `accumulate`, the parts in which a device goes through its rows,
    changes a mask. Without a back end, one device does it all. `elementwise` says that `tx` treats
    every number by itself, as those of `make` do, so that a part of them may be updated at a time.
    Raises ValueError for an unknown loss scale.

    >>> step = train_step(loss_fn, tx, config.optimizer, backend)
    >>> state, sums = step(backend.place(state), backend.feed(batch))
    """
    scale = choose(LOSS_NORMALIZATIONS, config.loss_normalization, "optimizer.loss_normalization")
    devices = backend or Jit(mesh(jax.local_devices()[:1]))
    block = devices.block if elementwise else 0

    def step(state: TrainState, batch: Batch) -> tuple[TrainState, StepSums]:
        key = jax.random.fold_in(state.key, state.step)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, devices.rows(batch))
        sums = functools.partial(in_parts, accumulate, loss_fn)
        total = devices.total(sums, state.params, batch, keys)
        divisor = scale(total.sums)
        norm = optax.tree.norm(total.gradient) / divisor
        factor = clipping(norm, config.clip_norm) / divisor
        finite = jnp.isfinite(norm) & jnp.isfinite(total.sums.loss)
        state = update(state, total.gradient, factor, finite, tx, config.ema, block)
        return state, _measure(total, norm, finite, config.clip_norm, state.nonfinite)

    return devices.compile(step) if backend else jax.jit(step, donate_argnums=0)
