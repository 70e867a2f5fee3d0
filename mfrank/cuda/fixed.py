"""The fixed side's factors on a device, as the kernels of a half-step read them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mfrank.cuda.device import Array, Device
from mfrank.cuda.factor_sums import some_rows
from mfrank.float16 import rounded, scale_of

__all__ = ["Fixed"]


@dataclass(frozen=True, slots=True, eq=False)
class Fixed:
    """Factors that rows are solved against.

    Attributes
    ----------
    values : shape (S, K), in ``dtype`` or float16
    dtype : float32 or float64
        Of what is computed from them.
    scale : float
        Times ``values`` they are the factors. Kernels leave it out: the coefficients of entries
        have it in them (:func:`mfrank.cuda.blocks.blocks`).
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
        """A rounded copy, made some rows at a time."""
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
        """Whether they are in float16."""
        return bool(self.values.dtype == np.float16)

    def on(self, device: Device) -> Fixed:
        """The same on another device, which is the current one."""
        return replace(self, values=device.asarray(self.values))

    def wide(self, rows: Array) -> Fixed:
        """Some of them in float64, as they are or were rounded."""
        return Fixed.of(self.scale * self.values[rows].astype(np.float64))
