"""Types of a backend's arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays import Array

Factors = NDArray[Any]
"""Factors of users or items: a numpy array, or a device array with numpy's interface."""

# Options of the solvers of a half-step.


Solver = Literal["auto", "cholesky", "cg"]
GatherDtype = Literal["float16"]


@dataclass(frozen=True, slots=True)
class SolveOptions:
    """Options of the solution of a half-step's rows.

    Attributes
    ----------
    solver : {"auto", "cholesky", "cg"}, default "auto"
        ``cholesky`` is exact; ``cg`` runs preconditioned conjugate gradients from a warm start;
        ``auto`` uses ``cg`` for rows whose exact solution would cost more, else ``cholesky``; rows
        of 4 million entries or more are solved exactly, if their dtype is precise enough for it.
    cg_steps : int, default 3
        Conjugate gradient steps per row without a tolerance. A row stops earlier only if its
        residual is at the level of rounding (:meth:`residual`).
    cg_tolerance : float, optional
        Iterate until the solution x of a row's system A x = b satisfies
        |x - A^-1 b|_A <= |A x - b|_D^-1 <= cg_tolerance |b|_D^-1, where D = weight_r M + ridge_r I
        is the preconditioner (the first bound needs A - D >= 0: no c_e < 0). A row that would need
        more steps than an exact solution costs is solved exactly.
    n_threads : int, default 0
        Number of CPU threads; 0 uses every core this process may use.
    gather_dtype : {"float16"}, optional
        Round the fixed factors f_e to this dtype (:mod:`mfrank.backends.dense`), to read fewer
        bytes. M and v use the unrounded factors: they add no cost per row, and the basis is the
        eigenbasis of this M. Only for backends with this dtype in ``GATHERS``.
    """

    solver: Solver = "auto"
    cg_steps: int = 3
    cg_tolerance: float | None = None
    n_threads: int = 0
    gather_dtype: GatherDtype | None = None

    def residual(self, dtype: DTypeLike) -> float:
        """Bound on |A x - b|_D^-1 / |b|_D^-1 at which steps end: the tolerance, or dtype epsilon.

        Epsilon is relative to the initial residual if that is larger than |b|_D^-1.
        """
        return float(np.finfo(dtype).eps) if self.cg_tolerance is None else self.cg_tolerance


# State and hyperparameters of Adam updates of table rows.


class AdamAverages(NamedTuple):
    """Moving averages of gradients and of their squares (n, K); updates per row, int64 (n,)."""

    means: Array
    squares: Array
    updates: NDArray[np.int64]


class AdamRates(NamedTuple):
    """Hyperparameters of Adam; see :class:`mfrank.descent.optimizers.Adam`."""

    learning_rate: float
    decay_1: float
    decay_2: float
    epsilon: float


# Sampling items that are not in a user's row, uniformly or by given probabilities.


ROUNDS = 50
"""Maximum number of tries to draw an item that is not in the user's row."""


class ItemProbabilities(NamedTuple):
    """Sampling probabilities of items.

    Attributes
    ----------
    cumulative : float64, shape (n_items,)
        Cumulative probabilities; the last is 1.
    guide : int64, shape (n_items,)
        At j, the first item with a cumulative probability above j / n_items, where the search for
        a number in [j, j + 1) / n_items begins.
    """

    cumulative: NDArray[np.float64]
    guide: NDArray[np.int64]

    @classmethod
    def of(cls, weights: NDArray[np.float64]) -> ItemProbabilities:
        """Probabilities proportional to ``weights`` >= 0, at least one of them > 0."""
        cumulative = np.cumsum(weights / weights.sum())
        cumulative[np.flatnonzero(weights)[-1] :] = 1.0  # exactly 1, despite rounding
        starts = np.arange(len(weights)) / len(weights)
        return cls(cumulative, np.searchsorted(cumulative, starts, side="right"))
