"""The part of a half-step's systems that is the same for all rows, and the fixed side's factors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import Array, Device, Grid
from mfrank.backends.cuda.blocks import Block
from mfrank.backends.cuda.factor_sums import some_rows
from mfrank.backends.cuda.kernel_sources import Module
from mfrank.backends.cuda.resident import resident_on
from mfrank.backends.dense import rounded, scale_of

if TYPE_CHECKING:
    from mfrank.backends.row_problem import Shared

# The fixed side's factors on a device, as the kernels of a half-step read them.


@dataclass(frozen=True, slots=True, eq=False)
class Fixed:
    """The fixed factors of a half-step.

    Attributes
    ----------
    values : shape (S, K), in ``dtype`` or float16
    dtype : float32 or float64
        Dtype of computations and results.
    scale : float
        The factors are ``scale * values``. Kernels read ``values`` only; the entries' coefficients
        include the scale (:func:`mfrank.backends.cuda.blocks.blocks`).
    """

    values: Array
    dtype: np.dtype[Any]
    scale: float = 1.0

    @classmethod
    def of(cls, factors: Array) -> Fixed:
        """The factors themselves."""
        return cls(factors, factors.dtype)

    @classmethod
    def in_float16(cls, device: Device, factors: Array) -> Fixed:
        """A rounded copy, made in blocks of rows."""
        scale, values = scale_of(factors), device.xp.empty(factors.shape, np.float16)
        for rows in some_rows(factors, factors.dtype.itemsize):
            values[rows] = rounded(factors[rows], scale)
        return cls(values, factors.dtype, scale)

    @property
    def k(self) -> int:
        """K."""
        return int(self.values.shape[1])

    @property
    def is_half(self) -> bool:
        """Whether the values are in float16."""
        return bool(self.values.dtype == np.float16)

    def on(self, device: Device) -> Fixed:
        """The same factors on ``device``, which must be the current one."""
        return replace(self, values=device.asarray(self.values))

    def wide(self, rows: Array) -> Fixed:
        """Some rows in float64, including any rounding to float16."""
        return Fixed.of(self.scale * self.values[rows].astype(np.float64))


WARP = 32
_TILE = 64  # of turn_rows
_DEPTH, _PADDING = 16, 4  # as in kernels/tile.cuh

Results = tuple[Array, Array, Array]
"""Results of a block's rows: ``out`` (R, K), ``gain`` float64 (R,) and ``status`` uint8 (R,)."""


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """The part of the rows' systems that is the same for all rows.

    Attributes
    ----------
    fixed : Fixed
    eigenvalues, vector : float64, shape (K,)
    has_vector : bool
        Whether ``vector`` is not 0.
    untouched : int
        Number of leading directions in which every fixed factor is 0.
    """

    device: Device
    fixed: Fixed
    eigenvalues: Array
    vector: Array
    has_vector: bool
    untouched: int

    @classmethod
    def of(cls, device: Device, fixed: Fixed, shared: Shared) -> System:
        """Copy ``shared`` to the device."""
        n_null = int(np.count_nonzero(shared.values == 0))
        touched = n_null > 0 and bool((fixed.values[:, :n_null] != 0).any())
        both = device.asarray(np.concatenate([shared.values, shared.vector]), np.float64)
        return cls(
            device,
            fixed,
            both[: fixed.k],
            both[fixed.k :],
            bool(shared.vector.any()),
            0 if touched else n_null,
        )

    @property
    def k(self) -> int:
        """K."""
        return self.fixed.k

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of computations and results."""
        return self.fixed.dtype

    @property
    def factors(self) -> tuple[Any, ...]:
        """Arguments of kernels that gather factors."""
        return self.fixed.values, self.k

    def cells(self, block: Block) -> tuple[Any, ...]:
        """Arguments of kernels that read entries."""
        return block.indptr, block.first, block.indices, block.curvature, block.pull

    def diagonal(self, block: Block) -> tuple[Any, ...]:
        """Arguments of kernels that compute a row's diagonal."""
        return block.weight, block.ridge, self.eigenvalues

    def background(self, block: Block) -> tuple[Any, ...]:
        """Arguments of kernels that read what right-hand sides have beside the entries' part."""
        return self.vector, block.prior

    def has_right(self, block: Block) -> bool:
        """Whether right-hand sides have anything beside the entries' part."""
        return self.has_vector or block.prior is not None

    def whole(self, block: Block) -> tuple[Any, ...]:
        """Arguments of kernels that solve rows: all of the above."""
        return *self.cells(block), *self.diagonal(block), *self.factors

    def launch(
        self, module: str, kernel: str, grid: Grid, args: tuple[Any, ...], tile: int = 64
    ) -> None:
        """Run a kernel that is compiled for these factors."""
        compiled = Module.of(module, self.dtype, tile, self.fixed.is_half)
        self.device.launch(compiled, kernel, grid, args)

    def bytes_of(self, *counts: int) -> int:
        """Shared memory, in bytes, of arrays with these numbers of elements."""
        return sum(aligned(count * self.dtype.itemsize) for count in counts)

    def stage(self, tile: int) -> int:
        """Shared memory, in bytes, to stage matrix products (``kernels/tile.cuh``)."""
        return self.bytes_of(2 * _DEPTH * (tile + _PADDING))

    def over_groups(self, threads: int) -> int:
        """Number of partial sums of all thread groups (``kernels/gather.cuh``)."""
        width = -(-self.k // WARP) * WARP if self.k < threads else threads
        return threads // width * self.k

    def starts(self, start: Any, first: int, rows: NDArray[np.int32], turn: Array | None) -> Array:
        """Rows ``first + rows`` of a host or device array, in the basis of ``fixed``.

        A row's bits must not depend on the rows computed with it, because devices and free memory
        decide how rows are divided. So this has its own kernel: cuBLAS may round by shape.
        """
        if self.device.holds(start):
            at = resident_on(self.device).array(rows)
        else:
            start, first = self.device.asarray(start[first + rows]), 0
            at = self.device.xp.arange(len(rows), dtype=np.int32)
        if turn is None:
            return start[first:][at]
        turned = self.device.xp.empty((len(rows), self.k), self.dtype)
        tiles = -(-len(rows) // _TILE), -(-self.k // _TILE)
        grid = Grid(tiles, (_TILE // 4) ** 2, self.stage(_TILE))
        args = start, at, first, len(rows), turn, self.k, turned
        self.device.launch(Module.of("turn", self.dtype, _TILE), "turn_rows", grid, args)
        return turned


def aligned(n_bytes: int) -> int:
    """Shared memory, in bytes, that an array of ``n_bytes`` takes (``kernels/block.cuh``)."""
    return -(-n_bytes // 16) * 16
