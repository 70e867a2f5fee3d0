"""Matrices of random walks, as backends iterate them: sparse blocks plus, in each, rank one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.csr import CSR

__all__ = ["Chain", "Until", "Walked"]


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """A square matrix M of diagonal blocks, each M_b = W_b + l_b r_b'.

    With the transition probabilities of edges in W, and the nodes without edges restarting, P has
    l = 1 at those nodes, r = where walks restart; its transpose is W' with l and r exchanged.

    Attributes
    ----------
    rows : CSR, n rows and columns, float32 or float64
        W, with values; entries of a block lie in its columns.
    blocks : int64, shape (n_blocks + 1,)
        Block b has the rows and columns ``blocks[b]:blocks[b + 1]``, at least one.
    left : shape (n, 1) or (n, k), or None
        l, of W's dtype; where k columns are iterated, each may have its own.
    right : shape (n,), or None
        r, of W's dtype, where there is a ``left``.
    """

    rows: CSR
    blocks: NDArray[np.int64]
    left: NDArray[Any] | None = None
    right: NDArray[Any] | None = None


class Until(NamedTuple):
    """When the iteration of a block ends.

    Attributes
    ----------
    steps : int
        Most steps.
    tolerance : float64, shape (n_blocks,), or None
        Where the last step changed the block no more than this; None takes all steps.
    norm : {"sum", "spread"}
        Of the change: the sum of absolute values, or half of (largest - smallest), which constants
        do not count in. Of several columns the largest norm.
    """

    steps: int
    tolerance: NDArray[np.float64] | None = None
    norm: Literal["sum", "spread"] = "sum"


class Walked(NamedTuple):
    """Where an iteration ended.

    Attributes
    ----------
    values : shape (n, k)
    changes : float64, shape (n_blocks,)
        Norm of the last step's change; infinite where no step was taken.
    steps : int64, shape (n_blocks,)
    """

    values: NDArray[Any]
    changes: NDArray[np.float64]
    steps: NDArray[np.int64]
