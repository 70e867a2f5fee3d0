"""Where the arithmetic runs: one module per backend, all of one surface.

A backend is a file of this folder; its file name is its name. ``reference`` is the specification
(numpy, float64, one row at a time); every other backend is tested against it, to the tolerance
which that backend states. Factors are numpy's or, of a backend with a device of its own, may be
that device's: what is computed from them then stays there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mfrank.chains import Chain, Moves, Settled, Until, Walked
from mfrank.csr import CSR
from mfrank.picked import Listed
from mfrank.quadratic import RowProblem

__all__ = [
    "ROUNDS",
    "AdamAverages",
    "AdamRates",
    "Backend",
    "Chances",
    "Factors",
    "GatherDtype",
    "Gram",
    "Shared",
    "SolveOptions",
    "Solver",
    "choose",
]

Factors = NDArray[Any]
Solver = Literal["auto", "cholesky", "cg"]
GatherDtype = Literal["float16"]


@dataclass(frozen=True, slots=True, eq=False)
class Gram:
    """F' W F as ``matrix`` (K, K) and F' w as ``vector`` (K,), float64."""

    matrix: NDArray[np.float64]
    vector: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """What all rows of a half-step share, in the basis where it is diagonal, float64.

    Attributes
    ----------
    values : shape (K,)
        Diagonal of the matrix M, ascending, >= 0; what counts as 0 is exactly 0.
    vector : shape (K,)
        v.
    """

    values: NDArray[np.float64]
    vector: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SolveOptions:
    """How rows are solved.

    Attributes
    ----------
    solver : {"auto", "cholesky", "cg"}
        ``cholesky`` is exact; ``cg`` takes conjugate gradients, preconditioned and from a warm
        start; ``auto`` takes them for the rows whose exact solution would cost more, and is exact
        for the others.
    cg_steps : int
        Steps of conjugate gradients a row takes, unless there is a tolerance: fewer only where its
        residual is no more than rounding (:meth:`residual`).
    cg_tolerance : float, optional
        Steps go on until the row's solution x of A x = b is this near the exact one:
        |x - A^-1 b|_A <= |A x - b|_D^-1 <= cg_tolerance |b|_D^-1, where D, the part that rows share
        and the ridge, is the preconditioner (A - D >= 0 where no c_e < 0). A row that needs more
        steps than its exact solution is worth is solved exactly.
    n_threads : int
        0 takes every core this process may use.
    gather_dtype : {"float16"}, optional
        Solve the systems of fixed factors f_e that are rounded to it (:mod:`mfrank.float16`), so
        that there are fewer bytes to read. M and v stay those of the factors as they are: they
        cost a row nothing, and the basis in which M is diagonal is of no other matrix. Of backends
        that have it among their ``GATHERS``.
    """

    solver: Solver = "auto"
    cg_steps: int = 3
    cg_tolerance: float | None = None
    n_threads: int = 0
    gather_dtype: GatherDtype | None = None

    def residual(self, dtype: DTypeLike) -> float:
        """|A x - b|_D^-1 at which steps end, of |b|_D^-1: the tolerance, or rounding in the dtype.

        Rounding is also of the first residual where this is the larger, of a start far off.
        """
        return float(np.finfo(dtype).eps) if self.cg_tolerance is None else self.cg_tolerance


class Chances(NamedTuple):
    """Chances of items to be drawn.

    Attributes
    ----------
    cumulative : float64, shape (n_items,)
        Chance of each item and all before it; the last is 1.
    guide : int64, shape (n_items,)
        At j, the first item whose cumulative chance passes j / n_items: where a search begins.
    """

    cumulative: NDArray[np.float64]
    guide: NDArray[np.int64]

    @classmethod
    def of(cls, weights: NDArray[np.float64]) -> Chances:
        """Chances in proportion to weights >= 0."""
        cumulative = np.cumsum(weights / weights.sum())
        cumulative[np.flatnonzero(weights)[-1] :] = 1.0  # beyond rounding
        starts = np.arange(len(weights)) / len(weights)
        return cls(cumulative, np.searchsorted(cumulative, starts, side="right"))


class AdamAverages(NamedTuple):
    """Averages of a table's slopes and of their squares (n, K), updates of each row (n,) int64."""

    means: Factors
    squares: Factors
    updates: NDArray[np.int64]


class AdamRates(NamedTuple):
    """Options of Adam's step; see :class:`mfrank.optimisers.Adam`."""

    learning_rate: float
    decay_1: float
    decay_2: float
    epsilon: float


ROUNDS = 50
"""Tries at drawing an item that a user does not like."""


class Backend(Protocol):
    """The surface of a backend module."""

    TOLERANCE: dict[str, float]
    """Relative error against ``reference`` that the backend promises, by dtype name."""

    GATHERS: tuple[GatherDtype, ...]
    """Dtypes beside their own in which it can read fixed factors."""

    def why_unavailable(self) -> str | None:
        """None where the backend can run, else one sentence that says what it lacks."""

    def place(self, factors: Factors) -> Factors:
        """Any array where this backend keeps factors: itself, or its copy on its device."""

    def gram(self, factors: Factors, weights: NDArray[np.float64], n_threads: int = 0) -> Gram:
        """F' diag(weights) F and F' weights of the (R, K) factors, accumulated in float64."""

    def rotate(
        self,
        factors: Factors,
        basis: NDArray[np.float64],
        n_null: int,
        out: Factors,
        n_threads: int = 0,
    ) -> None:
        """Compute ``factors @ basis`` into ``out``, which may be ``factors``.

        In the first ``n_null`` columns, what is no more than rounding becomes exactly 0.
        """

    def solve_rows(
        self,
        problem: RowProblem,
        fixed: Factors,
        shared: Shared,
        out: Factors,
        options: SolveOptions,
        start: Factors | None = None,
        turn: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Solve every row of the half-step into ``out`` (R, K); where singular, of minimum norm.

        Parameters
        ----------
        fixed : shape (S, K)
            The fixed side's factors, in the basis of ``shared``.
        start : shape (R, K), optional
            What iterations start from, by default what ``out`` holds.
        turn : shape (K, K), optional
            ``start @ turn`` is the start in the basis of ``shared``.

        Returns
        -------
        float64, shape (R,)
            2 x'b - x'A x for each row's system A x = b and solution x: how far it brings the
            objective down; x'b where the solution is exact.
        """

    def observed_value(
        self, problem: RowProblem, row_factors: Factors, fixed: Factors, n_threads: int = 0
    ) -> float:
        """Sum over the problem's entries of c s^2 - 2 d s + k, in float64."""

    def product(self, left: Factors, right: Factors, n_threads: int = 0) -> Factors:
        """``left @ right``, shapes (R, K) and (K, C) of any strides."""

    def score(
        self,
        queries: Factors,
        items: Factors,
        ids: NDArray[np.int64],
        n_threads: int = 0,
        *,
        distances: bool = False,
    ) -> Factors:
        """``queries[q] . items[ids[b, i]]`` or squared ``distances``, negative, shape (R, n).

        As many of the R queries ask each of the B lists of ``ids`` (B, n): the first R / B ask the
        first list, and so on; likewise below.
        """

    def sum_items(
        self, items: Factors, ids: NDArray[np.int64], slopes: Factors, n_threads: int = 0
    ) -> Factors:
        """Sum over i of ``slopes[q, i] items[ids[b, i]]`` for each query q, shape (R, K)."""

    def sum_queries(
        self,
        queries: Factors,
        n_items: int,
        ids: NDArray[np.int64],
        slopes: Factors,
        n_threads: int = 0,
    ) -> tuple[NDArray[np.int64], Factors, Factors]:
        """Sum of ``slopes[q, i] queries[q]`` over the places of each of ``n_items``.

        Returns
        -------
        touched : int64, shape (T,)
            Items that have a place where the slope is not 0, ascending.
        sums : shape (T, K)
        totals : shape (T,)
            Sums of their slopes.
        """

    def adam(
        self,
        table: Factors,
        rows: NDArray[np.int64],
        slopes: Factors,
        averages: AdamAverages,
        rates: AdamRates,
        n_threads: int = 0,
    ) -> None:
        """Take Adam's step in some rows (none twice) of the table, in place."""

    def draw_likes(
        self, rows: CSR, users: NDArray[np.int64], n_places: int, key: int, n_threads: int = 0
    ) -> NDArray[np.int64]:
        """Entries of the users' rows, drawn without replacement: shape (B, n_places).

        -1 beyond the row. Those whose numbers in the stream ``key`` (:mod:`mfrank.streams`), by the
        number of the entry, are smallest.
        """

    def draw_others(
        self,
        rows: CSR,
        users: NDArray[np.int64],
        n_places: int,
        key: int,
        chances: Chances | None = None,
        n_threads: int = 0,
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Items that are not in the users' rows, drawn with replacement.

        Equally likely, unless ``chances`` says otherwise. At place p, the stream's numbers from
        ``ROUNDS`` p on are tried until one gives an item that is not in the row.

        Returns
        -------
        ids : int64, shape (B, n_places)
        filled : bool, shape (B, n_places)
            False where no try did; the id is then one of the row's.
        """

    def walk(
        self,
        chain: Chain,
        base: Factors,
        start: Factors,
        scale: float,
        until: Until,
        n_threads: int = 0,
    ) -> Walked:
        """Iterate ``x <- base + scale (M x)`` from ``start`` in each block of the matrix M.

        The arrays, shape (n, k), are iterated column by column.
        """

    def settle(
        self,
        moves: Moves,
        restarts: CSR,
        alpha: float,
        tolerance: float,
        most: int,
        n_threads: int = 0,
    ) -> Settled:
        """Stationary distributions pi = alpha r + (1 - alpha) P' pi of a walk on the graph.

        A row of the result does not depend on the others.

        Parameters
        ----------
        restarts : CSR with n columns, float64
            A row for each r, by nodes, of sum 1.
        alpha : float
            Probability of a restart, in (0, 1).
        tolerance : float
            A row's iteration ends when its certificate says that its errors sum to no more.
        most : int
            Most sweeps over all edges, at least 1.
        """

    def top_k(
        self,
        queries: Factors,
        items: Factors,
        k: int,
        *,
        item_bias: NDArray[Any] | None = None,
        exclude: Sequence[Listed] = (),
        exclude_all: NDArray[np.int32] | None = None,
        candidates: Listed | None = None,
        n_threads: int = 0,
    ) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Exact best ``k`` items of each query row: ids int32 and scores, shape (n_queries, k).

        Sorted by score, descending, ties by lower id; padded with id -1 and score NaN.

        Parameters
        ----------
        queries, items : shape (U, K) and (N, K), one dtype
            Scores are ``queries @ items.T + item_bias``.
        exclude : lists (:mod:`mfrank.picked`) of U rows and N columns, any number of them
            Items a row must not get: those that are on any of its lists.
        exclude_all : int32, sorted and unique, optional
            Items no row may get.
        candidates : lists of U rows, or a CSR with one row that serves all, N columns, optional
            The only items a row may get. Exclusions still hold.

        Filters may lie on a GPU whatever the backend.
        """


_PREFERENCE = ("cpu", "reference")
_BY_NAME = ("cuda",)


def choose(name: str = "auto") -> Backend:
    """Return the backend of that name; ``"auto"`` takes the fastest of the processor's.

    A GPU is only taken by name: its results are equal to rounding, not bit by bit, and to look for
    one would import CuPy.

    Raises
    ------
    ValueError
        No such backend, or it cannot run here; the message says why.
    """
    if name == "auto":
        return next(b for b in map(_load, _PREFERENCE) if b.why_unavailable() is None)
    if name not in (*_PREFERENCE, *_BY_NAME):
        names = ", ".join(("auto", *_PREFERENCE, *_BY_NAME))
        raise ValueError(f"backend must be one of {names}; got {name!r}")
    backend = _load(name)
    if reason := backend.why_unavailable():
        raise ValueError(f"backend {name!r} cannot run here: {reason}")
    return backend


def _load(name: str) -> Backend:
    return cast(Backend, import_module(f"{__name__}.{name}"))
