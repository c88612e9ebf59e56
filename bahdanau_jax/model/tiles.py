"""Kernels that have one sentence each: how its arrays are cut for them, and how they are launched.

One source for all devices: on a TPU the arrays of a sentence are whole, on a GPU they are read in
tiles whose sides are powers of two, masked beyond an array's end. On a CPU the GPU's kernels are
interpreted: slow, to study and to test.

B sentences, S source and T target positions.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jaxtyping import Array


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


def wide(dtype: Any) -> Any:
    """The type in which sums of this one are made: float32 at least."""
    return jnp.promote_types(dtype, jnp.float32)


class Window(NamedTuple):
    """An array in a kernel, [rows, columns] or [T, rows, columns], in tiles side by side."""

    ref: Any
    columns: int  # of a tile
    real: tuple[Any, Any]  # rows and columns that there are
    masked: bool  # whether the tiles go beyond them
    lying: bool  # a column that is laid out as a row

    def _tile(self, i, at: tuple) -> tuple[Any, Array | None]:
        rows, width = self.ref.shape[-2:]
        cut = slice(None) if self.columns == width else pl.ds(i * self.columns, self.columns)
        view = self.ref.at[(*at, slice(None), cut)]
        if not self.masked:
            return view, None
        row, column = (lax.broadcasted_iota(jnp.int32, (rows, self.columns), d) for d in (0, 1))
        return view, (row < self.real[0]) & (column < self.real[1] - i * self.columns)

    def read(self, i=0, at: tuple = ()) -> Array:
        """Tile i, 0 where there is nothing; `at` is (t,) where there are time steps."""
        from jax.experimental.pallas import triton  # here: every start would wait for it

        view, mask = self._tile(i, at)
        x = view[...] if mask is None else triton.load(view, mask=mask, other=0)
        x = x.astype(wide(x.dtype)) if jnp.issubdtype(x.dtype, jnp.floating) else x
        return jnp.sum(jnp.where(_eye(x), x, 0), axis=1, keepdims=True) if self.lying else x

    def write(self, x: Array, i=0) -> None:
        from jax.experimental.pallas import triton

        if self.lying:
            x = jnp.sum(jnp.where(_eye(x), x, 0), axis=0, keepdims=True)
        view, mask = self._tile(i, ())
        x = x.astype(self.ref.dtype)
        if mask is None:
            view[...] = x
        else:
            triton.store(view, x, mask=mask)

    def nothing(self) -> Array:
        """A tile of zeros, of the type in which sums are made."""
        return jnp.zeros((self.ref.shape[-2], self.columns), wide(self.ref.dtype))

    def each(self, body: Callable[[Any, Any], Any], x: Any = None) -> Any:
        """`body(tile, x)` for one tile after the other."""
        tiles = self.ref.shape[-1] // self.columns
        return body(0, x) if tiles == 1 else lax.fori_loop(0, tiles, body, x)


def _eye(x: Array) -> Array:
    """What is on the diagonal of a square as large as a row or column is long."""
    row, column = (lax.broadcasted_iota(jnp.int32, (x.size, x.size), d) for d in (0, 1))
    return row == column


class Laid(NamedTuple):
    """How an array of a kernel lies in memory: which singleton axis it is given."""

    kind: str  # matrix [B, S, ·] | row [B, ·] | column [B, S]; before it T, where there are steps
    array: Any  # or its shape and type
    whole: bool

    @property
    def lying(self) -> bool:
        """A TPU fills up the last axis to 128: a column there is laid as a row, and turned."""
        return self.kind == "column" and self.whole

    @property
    def shape(self) -> tuple[int, ...]:
        shape = self.array.shape
        if self.kind == "matrix":
            return shape
        return (
            (*shape, 1) if self.kind == "column" and not self.whole else (*shape[:-1], 1, shape[-1])
        )


def launch(
    name: str, interpret: Any, kernel: Callable, arrays, outputs, parts: bool = False
) -> list[Array]:
    """A program for each sentence and, with `parts`, for each tile of columns.

    Arrays and outputs are pairs of a kind (`Laid.kind`) and an array, or its shape; the second
    array is the matrix [B, S, ·] that decides on programs and tiles. B may be 1 where the sentences
    share an array. `name` is one of DEVICES; a CPU interprets in any case.
    """
    device, (rows, places, width) = DEVICES[name], arrays[1][1].shape
    laid = [Laid(kind, x, device.whole) for kind, x in (*arrays, *outputs)]

    def columns(width: int) -> int:
        return width if device.whole and not parts else _columns(device, places, width)

    def window(ref, x: Laid) -> Window:
        (height, width), blocks = x.shape[-2:], ref.shape[-2:]
        tile = width if x.lying else columns(width)
        masked = not device.whole and (blocks[0] != height or width % tile != 0)
        begin = pl.program_id(1) * tile if parts and width > tile else 0
        return Window(ref, tile, (height, width - begin), masked, x.lying)

    def spec(x: Laid) -> pl.BlockSpec:
        *time, sentences, height, width = x.shape
        tile = width if x.lying else columns(width)
        size = tile if parts else pl.cdiv(width, tile) * tile
        block = (*time, None, height if device.whole else pl.next_power_of_2(height), size)
        before, shared, wide = (0,) * len(time), sentences == 1, width > tile
        return pl.BlockSpec(
            block, lambda b, a=0: (*before, 0 if shared else b, 0, a if wide else 0)
        )

    def body(*refs):
        kernel(*map(window, refs, laid))

    specs = [spec(x) for x in laid]
    results = pl.pallas_call(
        body,
        out_shape=[jax.ShapeDtypeStruct(x.shape, x.array.dtype) for x in laid[len(arrays) :]],
        grid=(rows, pl.cdiv(width, columns(width))) if parts else (rows,),
        in_specs=specs[: len(arrays)],
        out_specs=specs[len(arrays) :],
        interpret=interpret or name == "cpu",
        compiler_params=_parameters(device, specs),
        name=getattr(kernel, "func", kernel).__name__.strip("_"),
    )(*(x.array.reshape(x.shape) for x in laid[: len(arrays)]))
    return [x.reshape(like.shape) for x, (_, like) in zip(results, outputs, strict=True)]


def _columns(device: Device, places: int, width: int) -> int:
    """Columns of a tile."""
    least, most = device.columns
    if device.whole:
        return min(width, most)
    fit = device.tile // pl.next_power_of_2(places)
    return min(pl.next_power_of_2(width), max(least, min(fit, most)))


def _parameters(device: Device, specs: list[pl.BlockSpec]) -> Any:
    if not device.whole:
        from jax.experimental.pallas import triton

        return triton.CompilerParams(num_warps=WARPS)
    from jax.experimental.pallas import tpu

    # Of each block two, one of them under way, and what the kernel makes of the largest.
    sizes = [4 * _laid_out(tuple(spec.block_shape or ())) for spec in specs]
    needed = 2 * sum(sizes) + 4 * max(sizes)
    return tpu.CompilerParams(vmem_limit_bytes=needed if needed > VMEM else None)


def _laid_out(block: tuple) -> int:
    """Numbers of a block as a TPU has it, in tiles of 8 rows of 128."""
    *before, rows, columns = (size or 1 for size in block)
    return math.prod(before) * (-(-rows // 8) * 8) * (-(-columns // 128) * 128)
