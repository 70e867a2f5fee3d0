"""Kernel sources: the ``.cu`` files of this package with their includes, and compiler options."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import DTypeLike

_INCLUDE = re.compile(r'^#include "([a-z_.]+)"$', re.MULTILINE)
_INCLUDES_TILES, _INCLUDES_FIXED = '#include "tile.cuh"', '#include "fixed.cuh"'
_SHORT_ROWS = (8, 16, 32)
QUADS = (2, 4, 8)
"""Of an entry's factors in a lane's registers. Rows of fewer or more factors are sooner staged in
shared memory: those of fewer are kept there from step to step."""
_REALS = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}


@dataclass(frozen=True, slots=True)
class Module:
    """A kernel file to be compiled for given dtypes of the factors and a tile size.

    Attributes
    ----------
    name : str
        File ``kernels/<name>.cu``.
    real : str
        C++ type of the factors.
    tile : int
        Rows and columns of the tile that a block of threads computes, 4 x 4 elements per thread;
        of ``short``, of the matrix that a warp solves; of ``iterate``, quads of an entry's factors
        in a lane's registers, or 0 if they are staged.
    half : bool
        Whether fixed factors are float16.
    """

    name: str
    real: str
    tile: int
    half: bool

    @classmethod
    def of(cls, name: str, dtype: DTypeLike, tile: int = 64, half: bool = False) -> Module:
        """The module for factors of that dtype."""
        return cls(name, _REALS[np.dtype(dtype)], tile, half)

    @property
    def text(self) -> str:
        """The source with all includes replaced by their text, so that compilers need no path."""
        return _text(f"{self.name}.cu")

    @property
    def options(self) -> tuple[str, ...]:
        """Compiler options, for both NVRTC and g++."""
        sizes = "-std=c++17", f"-DREAL={self.real}", f"-DTILE={self.tile}"
        return (*sizes, "-DHALF") if self.half else sizes


def modules() -> list[Module]:
    """Every module that the backend may use."""
    names = sorted(
        file.name.removesuffix(".cu")
        for file in files(__package__).joinpath("kernels").iterdir()
        if file.name.endswith(".cu")
    )
    return [
        Module(name, real, tile, half)
        for name in names
        for real in _REALS.values()
        for tile in _tiles(name)
        for half in ((False, True) if _INCLUDES_FIXED in _raw(f"{name}.cu") else (False,))
    ]


def _tiles(name: str) -> tuple[int, ...]:
    if name == "short":
        return _SHORT_ROWS
    if name == "iterate":
        return (0, *QUADS)
    return (32, 64) if _INCLUDES_TILES in _raw(f"{name}.cu") else (64,)


@cache
def _text(file: str) -> str:
    return _INCLUDE.sub(lambda found: _text(found[1]), _raw(file))


def _raw(file: str) -> str:
    return files(__package__).joinpath("kernels", file).read_text(encoding="utf-8")
