"""The three kernels of additive attention: a step, its gradients, and those of the keys.

One source for all devices. A program has one sentence: on a TPU its arrays are whole, on a GPU they
are read in tiles whose sides are powers of two, masked beyond an array's end. On a CPU the GPU's
kernels are interpreted: slow, to study and to test.

B sentences, S source and T target positions, A alignment units, C annotation size.
Source: arXiv 1409.0473, appendix A.1.2.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jaxtyping import Array, Bool, Float


class Activation(NamedTuple):
    apply: Callable[[Array], Array]
    slope: Callable[[Array], Array]  # its derivative, from its value


# The scores of `attention.SCORES` that the kernels know.
ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {
        "additive": Activation(jnp.tanh, lambda y: 1 - y * y),
        "additive_relu": Activation(
            lambda x: jnp.maximum(x, 0), lambda y: (y > 0).astype(y.dtype)
        ),
    }
)


class Device(NamedTuple):
    """How a kind of device wants a sentence's array [S, columns] cut."""

    whole: bool  # into nothing: a step's arrays are one tile each, of their own shape
    tile: int  # numbers of a tile
    columns: tuple[int, int]  # of a tile, at least and at most, whatever `tile` says


# By `jax.default_backend()`. 4,096 numbers are 16 for each of 256 threads.
DEVICES: Mapping[str, Device] = MappingProxyType(
    {
        "cpu": Device(whole=False, tile=4096, columns=(16, 128)),
        "gpu": Device(whole=False, tile=4096, columns=(16, 128)),
        "tpu": Device(whole=True, tile=32768, columns=(128, 512)),
    }
)
WARPS = 8  # of a program on a GPU, 32 threads each
VMEM = 16 * 2**20  # bytes that a TPU's compiler allows a kernel without being asked


class Form(NamedTuple):
    """What the kernels are made for."""

    score: str = "additive"  # a name of ACTIVATIONS
    products: str = "float32"  # a name of products.PRODUCTS: of α with the annotations
    device: str = ""  # a name of DEVICES; "": JAX's default backend
    interpret: bool = False  # as ordinary operations of JAX; a CPU has no other way

    @property
    def cut(self) -> Device:
        return DEVICES[self.device or jax.default_backend()]

    @property
    def activation(self) -> Activation:
        return ACTIVATIONS[self.score]


def wide(x: Array) -> Any:
    """The type in which sums are made: x's own, but float32 at least."""
    return jnp.promote_types(x.dtype, jnp.float32)


class _Window(NamedTuple):
    """An array in a kernel, [rows, columns] or [T, rows, columns], in tiles side by side."""

    ref: Any
    columns: int  # of a tile
    real: tuple[Any, Any]  # rows and columns that there are
    masked: bool  # whether the tiles go beyond them

    def _tile(self, i, at: tuple) -> tuple[Any, Array | None]:
        rows, width = self.ref.shape[-2:]
        one = self.columns == width
        view = self.ref.at[*at, :, :] if one else self.ref.at[:, pl.ds(i * self.columns, self.columns)]
        if not self.masked:
            return view, None
        row, column = (lax.broadcasted_iota(jnp.int32, (rows, self.columns), d) for d in (0, 1))
        return view, (row < self.real[0]) & (column < self.real[1] - i * self.columns)

    def read(self, i=0, at: tuple = ()) -> Array:
        """Tile i, 0 where there is nothing; `at` is (t,) where there are time steps."""
        from jax.experimental.pallas import triton  # here: it would slow down every start

        view, mask = self._tile(i, at)
        x = view[...] if mask is None else triton.load(view, mask=mask, other=0)
        return x.astype(wide(x)) if jnp.issubdtype(x.dtype, jnp.floating) else x

    def write(self, x: Array, i=0) -> None:
        from jax.experimental.pallas import triton

        view, mask = self._tile(i, ())
        x = x.astype(self.ref.dtype)
        if mask is None:
            view[...] = x
        else:
            triton.store(view, x, mask=mask)

    def each(self, body: Callable[[Any, Any], Any], x: Any = None) -> Any:
        """`body(tile, x)` for one tile after the other."""
        tiles = self.ref.shape[-1] // self.columns
        return body(0, x) if tiles == 1 else lax.fori_loop(0, tiles, body, x)


def _forward(apply, query, keys, mask, v_a, annotations, context, alpha):
    def energies(i, e):
        y = apply(keys.read(i) + query.read(i))
        return e + jnp.sum(y * v_a.read(i), axis=1, keepdims=True)

    real = mask.read() > 0
    e = keys.each(energies, jnp.zeros(real.shape, alpha.ref.dtype))
    e = jnp.where(real, e, -jnp.inf)
    top = jnp.max(e, axis=0, keepdims=True)
    weights = jnp.exp(e - jnp.where(top > -jnp.inf, top, 0.0))
    total = jnp.sum(weights, axis=0, keepdims=True)
    weights = weights / jnp.where(total > 0, total, 1.0)
    alpha.write(weights)
    weights = weights.astype(annotations.ref.dtype).astype(weights.dtype)  # a factor of a product

    def seen(i, _):
        context.write(jnp.sum(annotations.read(i) * weights, axis=0, keepdims=True), i)

    annotations.each(seen)


def _backward(
    activation, query, keys, v_a, annotations, alpha, d_context, d_alpha, d_query, d_energies
):
    def seen(i, d):
        return d + jnp.sum(annotations.read(i) * d_context.read(i), axis=1, keepdims=True)

    weights = alpha.read()
    d = annotations.each(seen, d_alpha.read())
    d_e = weights * (d - jnp.sum(weights * d, axis=0, keepdims=True))
    d_energies.write(d_e)

    def queried(i, _):
        slope = activation.slope(activation.apply(keys.read(i) + query.read(i)))
        d_query.write(v_a.read(i) * jnp.sum(d_e * slope, axis=0, keepdims=True), i)

    keys.each(queried)


def _over_time(activation, queries, keys, v_a, d_energies, d_keys, d_v_a):
    k = keys.read()

    def add(t, sums):
        y, d_e = activation.apply(k + queries.read(at=(t,))), d_energies.read(at=(t,))
        slopes, values = d_e * activation.slope(y), jnp.sum(d_e * y, axis=0, keepdims=True)
        return sums[0] + slopes, sums[1] + values

    slopes, values = lax.fori_loop(
        0, queries.ref.shape[0], add, (jnp.zeros_like(k), jnp.zeros((1, k.shape[1]), k.dtype))
    )
    d_keys.write(v_a.read() * slopes)
    d_v_a.write(values)


def _launch(form: Form, kernel: Callable, arrays, outputs, parts: bool = False) -> list[Array]:
    """A program for each sentence and, with `parts`, each tile of columns.

    Arrays are [B, rows, columns], [T, B, ...] where a program has all steps; B may be 1 where all
    sentences share one. The second is as large as any.
    """
    device, (rows, places, width) = form.cut, arrays[1].shape
    shapes = [x.shape for x in (*arrays, *outputs)]

    def columns(width: int) -> int:
        return width if device.whole and not parts else _columns(device, places, width)

    def window(ref, shape) -> _Window:
        (height, width), blocks = shape[-2:], ref.shape[-2:]
        tile = columns(width)
        masked = not device.whole and (blocks[0] != height or width % tile != 0)
        begin = pl.program_id(1) * tile if parts and width > tile else 0
        return _Window(ref, tile, (height, width - begin), masked)

    def spec(shape) -> pl.BlockSpec:
        *time, sentences, height, width = shape
        tile = columns(width)
        size = tile if parts else pl.cdiv(width, tile) * tile
        block = (*time, None, _height(device, height), size)
        before, shared, wide = (0,) * len(time), sentences == 1, width > tile
        return pl.BlockSpec(
            block, lambda b, a=0: (*before, 0 if shared else b, 0, a if wide else 0)
        )

    def body(*refs):
        kernel(*(window(ref, shape) for ref, shape in zip(refs, shapes, strict=True)))

    specs = [spec(shape) for shape in shapes]
    return pl.pallas_call(
        body,
        out_shape=list(outputs),
        grid=(rows, pl.cdiv(width, columns(width))) if parts else (rows,),
        in_specs=specs[: len(arrays)],
        out_specs=specs[len(arrays) :],
        interpret=form.interpret or (form.device or jax.default_backend()) == "cpu",
        compiler_params=_parameters(device, specs),
    )(*arrays)


def _columns(device: Device, places: int, width: int) -> int:
    """Columns of a tile."""
    least, most = device.columns
    if device.whole:
        return min(width, most)
    fit = device.tile // pl.next_power_of_2(places)
    return min(pl.next_power_of_2(width), max(least, min(fit, most)))


def _height(device: Device, rows: int) -> int:
    return rows if device.whole else pl.next_power_of_2(rows)


def _parameters(device: Device, specs: list[pl.BlockSpec]) -> Any:
    if not device.whole:
        from jax.experimental.pallas import triton

        return triton.CompilerParams(num_warps=WARPS)
    from jax.experimental.pallas import tpu

    # Of each block two, one of them under way, and what the kernel makes of the largest.
    sizes = [4 * _laid_out(spec.block_shape or ()) for spec in specs]
    needed = 2 * sum(sizes) + 4 * max(sizes)
    return tpu.CompilerParams(vmem_limit_bytes=needed if needed > VMEM else None)


def _laid_out(block: tuple) -> int:
    """Numbers of a block as a TPU has it, in tiles of 8 rows of 128."""
    *before, rows, columns = (size or 1 for size in block)
    return math.prod(before) * (-(-rows // 8) * 8) * (-(-columns // 128) * 128)


def _like(shape: tuple[int, ...], dtype) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def forward(
    form: Form,
    query: Float[Array, "B A"],
    keys: Float[Array, "B S A"],
    mask: Bool[Array, "B S"],
    v_a: Float[Array, " A"],
    annotations: Float[Array, "B S C"],
) -> tuple[Float[Array, "B C"], Float[Array, "B S"]]:
    """A step: the context and α."""
    (rows, places), width = mask.shape, annotations.shape[-1]
    context, alpha = _launch(
        form,
        partial(_forward, form.activation.apply),
        (query[:, None], keys, mask.astype(jnp.int32)[..., None], v_a[None, None], annotations),
        (_like((rows, 1, width), query.dtype), _like((rows, places, 1), wide(keys))),
    )
    return context[:, 0], alpha[..., 0]


def backward(
    form: Form,
    query: Float[Array, "B A"],
    keys: Float[Array, "B S A"],
    v_a: Float[Array, " A"],
    annotations: Float[Array, "B S C"],
    alpha: Float[Array, "B S"],
    d_context: Float[Array, "B C"],
    d_alpha: Float[Array, "B S"],
) -> tuple[Float[Array, "B A"], Float[Array, "B S"]]:
    """The gradients of a step's query and of its energies."""
    one, weights = query[:, None], alpha[..., None]
    d_query, d_energies = _launch(
        form,
        partial(_backward, form.activation),
        (one, keys, v_a[None, None], annotations, weights, d_context[:, None], d_alpha[..., None]),
        (_like(one.shape, query.dtype), _like(weights.shape, alpha.dtype)),
    )
    return d_query[:, 0], d_energies[..., 0]


def over_time(
    form: Form,
    queries: Float[Array, "T B A"],
    keys: Float[Array, "B S A"],
    v_a: Float[Array, " A"],
    d_energies: Float[Array, "T B S"],
) -> tuple[Float[Array, "B S A"], Float[Array, "B A"]]:
    """The gradients of the keys, and of v_a for each sentence: sums over all steps, written once."""
    rows, _, width = keys.shape
    d_keys, d_v_a = _launch(
        form,
        partial(_over_time, form.activation),
        (queries[:, :, None], keys, v_a[None, None], d_energies[..., None]),
        (_like(keys.shape, keys.dtype), _like((rows, 1, width), wide(keys))),
        parts=True,
    )
    return d_keys, d_v_a[:, 0]
