"""The fixed side's factors on a device, as the kernels of a half-step read them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mfrank.arrays.device import Array, Device
from mfrank.backends.cuda.factor_sums import some_rows
from mfrank.backends.float16 import rounded, scale_of

__all__ = ["Fixed"]


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
