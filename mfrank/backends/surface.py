"""The interface of a backend, in four parts; a backend may implement any of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, Listed
from mfrank.backends.arguments import (
    AdamAverages,
    AdamRates,
    Chain,
    Factors,
    GatherDtype,
    ItemProbabilities,
    Moves,
    SolveOptions,
    Stationary,
    Until,
    Walked,
)
from mfrank.backends.row_problem import Gram, RowProblem, Shared
from mfrank.losses import ListSums


class CommonSurface(Protocol):
    """Members of every backend; :func:`mfrank.backends.register` has defaults for all of them.

    All factors in a call have one dtype, float32 or float64. ``n_threads`` is the number of CPU
    threads; 0 uses every core this process may use.
    """

    TOLERANCE: dict[str, float]
    """Relative error against ``reference`` that the backend guarantees, by dtype name."""

    def why_unavailable(self) -> str | None:
        """Return None if the backend can run, else one sentence on what is missing."""

    def place(self, factors: Factors) -> Factors:
        """Return the array on the device of this backend: itself, or a copy."""


class RowSums(Protocol):
    """Solves rows with very many entries from sums over ranges of columns.

    A row's sums over its entries e are sum_e d_e f_e and, if the problem has curvature, sum_e c_e
    f_e f_e'. They are computed range by range and added in the order of the ranges, as in
    ``solve_rows``, with the same bits. ``curved`` says whether the whole problem has curvature.
    """

    def summed_from(
        self, n_factors: int, dtype: np.dtype[Any], options: SolveOptions, *, curved: bool
    ) -> int:
        """Minimum number of entries of a row that is solved in this way."""

    def column_ranges(self, n_columns: int) -> NDArray[np.int64]:
        """Bounds of the ranges, from 0 to ``n_columns``."""

    def sum_rows(
        self, problem: RowProblem, fixed: Factors, n_threads: int = 0, *, curved: bool
    ) -> NDArray[Any]:
        """Sums of every row of the problem over all its entries; one result row per row."""

    def solve_summed(
        self,
        problem: RowProblem,
        rows: NDArray[np.int64],
        sums: NDArray[Any],
        fixed: Factors,
        shared: Shared,
        out: Factors,
        gain: NDArray[np.float64],
        options: SolveOptions,
        start: Factors,
        turn: NDArray[np.float64] | None = None,
        *,
        prior: Factors | None = None,
    ) -> None:
        """Solve some rows of a problem as ``solve_rows`` does, from sums over all their entries.

        Writes ``out[rows]`` and ``gain[rows]``. ``start`` has the initial values of only these
        rows, shape (P, K). Entries are read, and iterations run, only for rows for which the dtype
        is not precise enough.
        """


class RowsSurface(Protocol):
    """Half-steps of ALS: one linear system per row, in a common basis."""

    GATHERS: tuple[GatherDtype, ...]
    """Dtypes, besides their own, in which the backend can read fixed factors."""

    PRIORS: bool
    """Whether ``solve_rows`` takes ``prior``, which fits with features or biases need."""

    SUMS: RowSums | None
    """How rows with very many entries are solved; None if they are solved like all others."""

    def gram(self, factors: Factors, weights: NDArray[np.float64], n_threads: int = 0) -> Gram:
        """F' diag(weights) F and F' weights of (R, K) factors F, accumulated in float64."""

    def eigh(self, matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Eigenvalues, ascending, and eigenvectors, as columns, of a symmetric (K, K) matrix.

        The entry of largest magnitude of each eigenvector is positive.
        """

    def rotate(
        self,
        factors: Factors,
        basis: NDArray[np.float64],
        n_null: int,
        out: Factors,
        n_threads: int = 0,
        rows: NDArray[np.int64] | None = None,
    ) -> None:
        """Compute ``factors @ basis`` into ``out``, which may be ``factors``.

        In the first ``n_null`` columns, rounding errors become exactly 0. With ``rows``, compute
        ``factors[rows] @ basis``; ``out`` is then another array.
        """

    def extrapolate(
        self,
        solved: Factors,
        weight: float,
        before: Factors,
        basis: NDArray[np.float64],
        displacements: Factors,
        turn: NDArray[np.float64],
        n_threads: int = 0,
    ) -> None:
        """Extrapolate solved rows from the previous solution, in place; store the displacements.

        Parameters
        ----------
        solved : shape (R, K)
            S; becomes S + D.
        weight : float
            b in D = b (S - S'), where S' = ``(before - displacements @ turn) @ basis``.
        before : shape (R, K)
            The previous solution, extrapolated by its own displacements.
        basis : float64, shape (K, K)
            Rotates ``before`` into the basis of ``solved``.
        turn : float64, shape (K, K)
            Rotates its displacements into the basis of ``before``.
        displacements : shape (R, K), of the dtype ``half_of(solved.dtype)``
            Overwritten by D, rounded (:mod:`mfrank.backends.dense`).
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
        *,
        prior: Factors | None = None,
    ) -> NDArray[np.float64]:
        """Solve every row of the half-step into ``out`` (R, K), with minimum norm if singular.

        Parameters
        ----------
        problem : RowProblem, with R rows and S columns
        fixed : shape (S, K)
            Factors of the fixed side, in the basis of ``shared``.
        start : shape (R, K), optional
            Initial values of iterations, by default the contents of ``out``.
        turn : shape (K, K), optional
            Change of basis: ``start @ turn`` is the start in the basis of ``shared``.
        prior : shape (R, K), optional
            Target of the ridges, in the basis of ``shared``: ``ridge_r prior_r`` is added to the
            right-hand side of row r. Only for backends with ``PRIORS``.

        Returns
        -------
        float64, shape (R,)
            2 x'b - x'A x for each row's system A x = b and solution x: the decrease of the
            objective from 0 to x. It is x'b if the solution is exact.
        """

    def observed_value(
        self, problem: RowProblem, row_factors: Factors, fixed: Factors, n_threads: int = 0
    ) -> float:
        """Sum of c s^2 - 2 d s + k over the problem's entries, with scores s; in float64."""

    def sparse_product(self, rows: CSR, table: Factors) -> Factors:
        """Sum of ``value table[column]`` over each row's entries: (R, S) times (S, K).

        ``rows`` have values; the result has the dtype and device of ``table``.
        """


class ListsSurface(Protocol):
    """Steps of ranking losses: draws, scores of lists, sums of their gradients, updates."""

    def score(
        self,
        queries: Factors,
        items: Factors,
        ids: NDArray[np.int64],
        n_threads: int = 0,
        *,
        distances: bool = False,
    ) -> Factors:
        """Dot products ``queries[q] . items[ids[b, i]]``, shape (R, n).

        With ``distances``, negative squared distances. The R queries are divided evenly among the B
        lists of ``ids`` (B, n), in order: the first R / B queries use list 0, also in
        :meth:`sum_items` and :meth:`sum_queries`.
        """

    def sum_items(
        self, items: Factors, ids: NDArray[np.int64], gradients: Factors, n_threads: int = 0
    ) -> Factors:
        """Sum over i of ``gradients[q, i] items[ids[b, i]]`` for each query q, shape (R, K)."""

    def sum_queries(
        self,
        queries: Factors,
        n_items: int,
        ids: NDArray[np.int64],
        gradients: Factors,
        n_threads: int = 0,
    ) -> tuple[NDArray[np.int64], Factors, Factors]:
        """Sum ``gradients[q, i] queries[q]`` over all positions of each item in the lists.

        Returns
        -------
        touched : int64, shape (T,)
            Items below ``n_items`` with a nonzero gradient in some list, ascending.
        sums : shape (T, K)
        totals : shape (T,)
            Sums of the items' gradients.
        """

    def adam(
        self,
        table: Factors,
        rows: NDArray[np.int64],
        gradients: Factors,
        averages: AdamAverages,
        rates: AdamRates,
        n_threads: int = 0,
    ) -> None:
        """Update distinct rows of the table in place by Adam (Kingma & Ba 2015)."""

    def list_sums(self, n_threads: int = 0) -> ListSums:
        """Return the inner loops of the ranking losses."""

    def tangent(
        self, table: Factors, rows: NDArray[np.int64], sums: Factors, n_threads: int = 0
    ) -> Factors:
        """Project ``sums`` s (R, K) to the tangent spaces of table rows x: s - (s . x) x.

        These rows have length 1. ``sums`` may be overwritten.
        """

    def ball_gradients(
        self,
        table: Factors,
        rows: NDArray[np.int64],
        sums: Factors,
        totals: Factors,
        n_threads: int = 0,
    ) -> Factors:
        """Gradients of negative squared distances by table rows x: 2 (s - t x), shape (R, K).

        Parameters
        ----------
        rows : shape (R,)
        sums : shape (R, K)
            s of each row, from :meth:`sum_items` or :meth:`sum_queries`; may be overwritten.
        totals : shape (R,)
            t of each row: the sum of the same gradients.
        """

    def project_rows(
        self, table: Factors, rows: NDArray[np.int64], *, ball: bool, n_threads: int = 0
    ) -> None:
        """Scale table rows to length 1, in place; with ``ball``, only rows longer than 1.

        Rows of length 0 are unchanged.
        """

    def draw_positives(
        self, rows: CSR, users: NDArray[np.int64], n_places: int, key: int, n_threads: int = 0
    ) -> NDArray[np.int64]:
        """Entries (positions in ``indices``) of users' rows, drawn without replacement.

        The result has shape (B, n_places); -1 pads short rows. A user gets the entries with the
        smallest random numbers, ascending: entry e has number e of the stream ``key``
        (:func:`mfrank.arrays.random.random_bits`).
        """

    def draw_negatives(
        self,
        rows: CSR,
        users: NDArray[np.int64],
        n_places: int,
        key: int,
        chances: ItemProbabilities | None = None,
        n_threads: int = 0,
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Items that are not in the users' rows, drawn with replacement.

        Items are equally likely without ``chances``. Position p of the flattened result tries the
        numbers ``ROUNDS * p``, ``ROUNDS * p + 1``, ... of the stream ``key``, up to ``ROUNDS`` of
        them, until one yields an item that is not in the row.

        Returns
        -------
        ids : int64, shape (B, n_places)
        filled : bool, shape (B, n_places)
            False if every try failed; the id is then an item of the row.
        """


class WalksSurface(Protocol):
    """Iterations of random walks."""

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

        ``base`` and ``start`` have shape (n, k); all k columns of a block stop together.
        """

    def stationary(
        self,
        moves: Moves,
        restarts: CSR,
        alpha: float,
        tolerance: float,
        most: int,
        n_threads: int = 0,
    ) -> Stationary:
        """Stationary distributions pi = alpha r + (1 - alpha) P' pi of a walk on the graph.

        Each row of the result is independent of the other rows.

        Parameters
        ----------
        restarts : CSR with n columns, float64
            One restart distribution r per row, indexed by node, with sum 1.
        alpha : float
            Restart probability, in (0, 1).
        tolerance : float
            A row's iteration ends when the bound on its sum of absolute errors is at most this.
        most : int
            Maximum number of sweeps over all edges (in each precision used), at least 1.
        """


class TopKSurface(Protocol):
    """Exact lists of the best items."""

    def product(self, left: Factors, right: Factors, n_threads: int = 0) -> Factors:
        """``left @ right``, of shapes (R, K) and (K, C) and any strides."""

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
        """Exact best ``k`` items of each query: int32 ids and scores, both of shape (U, k).

        Sorted by descending score, ties by lower id; padded with id -1 and score NaN.

        Parameters
        ----------
        queries, items : shape (U, K) and (N, K), of one dtype
            Scores are ``queries @ items.T + item_bias``.
        exclude : sequence of lists (:mod:`mfrank.arrays.csr`) with U rows and N columns
            Excluded items of query q: row q of any of the lists.
        exclude_all : int32, sorted and unique, optional
            Items excluded for all queries.
        candidates : lists with U rows, or a CSR with one row for all queries; N columns; optional
            The only allowed items. Exclusions still apply.

        Filters may be on a GPU, whatever the backend.
        """


class Backend(CommonSurface, RowsSurface, ListsSurface, WalksSurface, TopKSurface, Protocol):
    """The constants and functions of a backend module with all four parts.

    :func:`mfrank.testing.check` checks the contract of a part.
    """


PARTS: Mapping[str, type] = {
    "rows": RowsSurface,
    "lists": ListsSurface,
    "walks": WalksSurface,
    "top_k": TopKSurface,
}


def members(part: type) -> frozenset[str]:
    """Names of the constants and functions of a part, or of all parts of ``Backend``."""
    parts = [part] if part is not Backend else [CommonSurface, *PARTS.values()]
    names = {name for each in parts for name in (*vars(each), *each.__annotations__)}
    return frozenset(name for name in names if not name.startswith("_"))
