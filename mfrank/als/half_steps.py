"""The two half-steps of ALS, each in the eigenbasis of the matrix that its rows share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mfrank.als.coupling import ItemCoupling
from mfrank.als.feature_priors import Priors, towards, without_empty_rows
from mfrank.als.objectives import QuadraticObjective
from mfrank.arrays import CSR, Recycled, beside, in_one_piece, lazy, read_only, single_threaded
from mfrank.backends import Backend, Factors, Gram, RowProblem, Shared, SolveOptions, Vector, eigh
from mfrank.data import Counts

# The basis that diagonalizes the matrix shared by all rows of a half-step.
#
# Rotating the factors of both sides by the same orthogonal matrix changes no score. A fit therefore
# works in the eigenbasis of the current Gram matrix and never rotates back: each half-step rotates
# the fixed factors once, and its solutions are in the same basis. The columns of the final factors
# are the principal directions of the last fixed side, by ascending eigenvalue.


@dataclass(frozen=True, eq=False)
class Eigenbasis:
    """Eigendecomposition U diag(values) U' of a Gram matrix, and its vector in that basis.

    Attributes
    ----------
    basis : float64, shape (K, K)
        U: eigenvectors as columns, as :meth:`mfrank.backends.Backend.eigh` signs them.
    shared : Shared
        The eigenvalues, ascending, with rounding error set to exactly 0; and U' vector.
    """

    basis: NDArray[np.float64]
    shared: Shared

    @classmethod
    def of(cls, gram: Gram, backend: Backend | None = None) -> Eigenbasis:
        """Diagonalize ``gram.matrix``, by ``backend`` or by LAPACK."""
        values, basis = eigh(gram.matrix) if backend is None else backend.eigh(gram.matrix)
        with single_threaded():
            vector = basis.T @ gram.vector
        noise = len(basis) * np.finfo(np.float64).eps * max(values[-1], 0.0)
        values[values <= noise] = 0.0
        vector[(values == 0) & (np.abs(vector) <= 1e-8 * np.linalg.norm(vector))] = 0.0
        return cls(
            read_only(basis), Shared(values, vector)
        )  # read-only, so that a GPU can cache its copy

    @lazy
    def n_null(self) -> int:
        """Number of eigenvalues that are 0; they come first."""
        return int(np.count_nonzero(self.shared.values == 0))

    @lazy
    def back(self) -> NDArray[np.float64]:
        """The rotation out of this basis, U', C-contiguous."""
        return read_only(np.ascontiguousarray(self.basis.T))

    def turn(self, backend: Backend, factors: Factors, out: Factors, n_threads: int = 0) -> None:
        """Rotate factors into this basis, into ``out``, which may be ``factors``."""
        backend.rotate(factors, self.basis, self.n_null, out, n_threads)


def solve_in_own_basis(
    backend: Backend,
    problem: RowProblem,
    fixed: Factors,
    at: Eigenbasis,
    options: SolveOptions,
    prior: Factors | None = None,
    out: Factors | None = None,
) -> Factors:
    """Solve rows without changing the basis of the fixed factors, as fold-in requires.

    Parameters
    ----------
    problem : RowProblem
        R rows.
    fixed : shape (S, K)
        Factors of the fixed side; not modified.
    at : Eigenbasis
        Basis of the matrix that the rows share.
    prior : shape (R, K), optional
        Target of the rows' ridges, in the basis of ``fixed``.
    out : shape (R, K), optional
        Where to write the solutions; by default a new numpy array.

    Returns
    -------
    shape (R, K)
        ``out``: solutions in the basis of ``fixed``, of its dtype.
    """
    if 2 * len(problem.rows.indices) < len(fixed):  # rotate only the columns that are used
        problem, columns = problem.on_used_columns()
        fixed = fixed[columns]
    fixed = backend.place(fixed)
    turned = np.empty_like(fixed)
    at.turn(backend, fixed, turned, options.n_threads)
    solved = np.empty((problem.rows.n_rows, fixed.shape[1]), fixed.dtype) if out is None else out
    solved[:] = 0
    how: dict[str, Factors] = {}
    if prior is not None:
        how["prior"] = np.empty_like(solved)
        at.turn(backend, in_one_piece(prior), how["prior"], options.n_threads)
    backend.solve_rows(problem, turned, at.shared, solved, options, **how)
    backend.rotate(solved, at.back, 0, solved, options.n_threads)
    return solved


_ROWS_AT_ONCE = 1024

Rows: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class HalfSteps:
    """The two half-steps of an objective on a backend, for fits and fold-ins.

    Attributes
    ----------
    objective : QuadraticObjective
    counts : Counts
        Observed items of each user and users of each item, in the training data.
    backend : Backend
    options : SolveOptions
    featured : set of {"user", "item"}
        Sides with features: their rows without interactions are not part of the objective
        (:mod:`mfrank.als.feature_priors`).
    """

    objective: QuadraticObjective
    counts: Counts
    backend: Backend
    options: SolveOptions
    featured: frozenset[str] = frozenset()

    def user_problem(self, user_items: CSR, *, total: float | None = None) -> RowProblem:
        """Return the systems of some or all users; see :class:`QuadraticObjective`."""
        problem = self.objective.user_problem(user_items, self.counts, total=total)
        return without_empty_rows(problem) if "user" in self.featured else problem

    def item_problem(self, item_users: CSR) -> RowProblem:
        """Return the systems of some or all items."""
        problem = self.objective.item_problem(item_users, self.counts)
        return without_empty_rows(problem) if "item" in self.featured else problem

    def item_gram(self, item_factors: Factors) -> Gram:
        """Return G = Q' W Q and m = Q' w."""
        return self.backend.gram(item_factors, self.item_weights, self.options.n_threads)

    def user_gram(self, user_factors: Factors) -> Gram:
        """Return H = P' A P and h = P' a."""
        return self.backend.gram(user_factors, self.user_weights, self.options.n_threads)

    def users_basis(self, item_factors: Factors, gram: Gram | None = None) -> Eigenbasis:
        """Diagonalize the matrix and vector that users' systems share: G - kappa m m' and z m.

        ``gram`` has G and m, if they are known.
        """
        gram = gram or self.item_gram(item_factors)
        centered = gram.matrix - self._kappa * np.outer(gram.vector, gram.vector)
        return Eigenbasis.of(Gram(centered, self.objective.target * gram.vector), self.backend)

    def items_basis(
        self, user_factors: Factors, item_sum: Vector | None = None, gram: Gram | None = None
    ) -> Eigenbasis:
        """Diagonalize the matrix and vector that items' systems share: H and z h + kappa H t.

        ``item_sum`` is t = sum_y w_y q_y, by default 0. ``gram`` has H and h, if they are known.
        """
        gram = gram or self.user_gram(user_factors)
        vector = self.objective.target * gram.vector
        if item_sum is not None:
            vector += self._kappa * gram.matrix @ item_sum
        return Eigenbasis.of(Gram(gram.matrix, vector), self.backend)

    def solve_users(
        self,
        problem: RowProblem,
        item_factors: Factors,
        user_factors: Factors,
        priors: Priors | None = None,
    ) -> tuple[Vector, Eigenbasis]:
        """Solve all users into ``user_factors``, which are also the warm start.

        Rotates ``item_factors`` and ``priors`` into the users' eigenbasis, in place. Returns each
        row's decrease of the objective, float64, shape (n_users,) (see ``Backend.solve_rows``), and
        the eigenbasis.
        """
        priors, at = priors or Priors(), self.users_basis(item_factors)
        at.turn(self.backend, item_factors, item_factors, self.options.n_threads)
        priors.turn(at.basis)
        gain = self.backend.solve_rows(
            problem,
            item_factors,
            at.shared,
            user_factors,
            self.options,
            turn=at.basis,
            **towards(priors.user_means()),
        )
        return gain, at

    def users_again(
        self,
        problem: RowProblem,
        item_factors: Factors,
        shared: Shared,
        memory: Recycled,
        backend: Backend,
    ) -> Factors:
        """Exact solutions of all users, by any backend; the same bits if they were exact before.

        ``item_factors`` and ``shared`` are from the user step, in its eigenbasis.
        """
        gathers = self.options.gather_dtype
        options = replace(
            self.options,
            solver="cholesky",
            cg_tolerance=None,
            gather_dtype=gathers if gathers in backend.GATHERS else None,
        )
        solved = memory.empty_beside(item_factors, (problem.rows.n_rows, item_factors.shape[1]))
        backend.solve_rows(problem, item_factors, shared, solved, options)
        return solved

    def solve_items(
        self,
        problem: RowProblem,
        user_factors: Factors,
        item_factors: Factors,
        memory: Recycled | None = None,
        priors: Priors | None = None,
    ) -> tuple[Factors, Factors, Vector]:
        """Return rotated user factors, newly solved item factors, and the basis.

        The users are rotated in place, or into a new array if ``memory`` has lent them and a
        reference still exists. ``priors`` are rotated in place.
        """
        memory, priors = memory or Recycled(), priors or Priors()
        at = self.items_basis(user_factors)
        priors.turn(at.basis)
        prior = priors.item_means()
        turned = memory.place_of(user_factors)
        at.turn(self.backend, user_factors, turned, self.options.n_threads)
        shared, start = at.shared, item_factors
        solved = memory.empty_beside(item_factors, item_factors.shape)
        if self._kappa:
            ItemCoupling(
                problem,
                turned,
                shared,
                self._kappa,
                start,
                at.basis,
                self.backend,
                self.options,
                prior,
            ).solve(solved)
        else:
            self.backend.solve_rows(
                problem, turned, shared, solved, self.options, start, at.basis, **towards(prior)
            )
        return turned, solved, at.basis

    def turned_users(self, user_factors: Factors, memory: Recycled) -> Factors:
        """User factors as :meth:`solve_items` returns them."""
        at = self.items_basis(user_factors)
        turned = memory.place_of(user_factors)
        at.turn(self.backend, user_factors, turned, self.options.n_threads)
        return turned

    def value(
        self, users: RowProblem, items: RowProblem, user_factors: Factors, item_factors: Factors
    ) -> float:
        """Evaluate the objective at any factors, term by term."""
        h, g = self.user_gram(user_factors), self.item_gram(item_factors)
        background = (h.matrix * g.matrix).sum() - 2 * self.objective.target * h.vector @ g.vector
        interaction = self._kappa * g.vector @ h.matrix @ g.vector
        observed = self.backend.observed_value(
            users, user_factors, item_factors, self.options.n_threads
        )
        ridge = sum(
            float(ridge_of(beside(problem.ridge, factors), factors))
            for problem, factors in ((users, user_factors), (items, item_factors))
        )
        constant = self.objective.target**2 * users.weight.sum() * items.weight.sum()
        return float(constant + background - interaction + observed + ridge)

    @property
    def _kappa(self) -> float:
        return self.objective.interaction(len(self.counts.items))

    # Read-only, so that a GPU can cache its copies.

    @lazy
    def item_weights(self) -> Vector:
        """Background weights of all items, float64, shape (n_items,)."""
        weights = self.objective.item_weights(self.counts.items, self.counts)
        return read_only(self._of_fit("item", weights, self.counts.items))

    @lazy
    def user_weights(self) -> Vector:
        """Background weights of all users, float64, shape (n_users,)."""
        weights = self.objective.user_weights(self.counts.users, len(self.counts.items))
        return read_only(self._of_fit("user", weights, self.counts.users))

    def _of_fit(self, side: str, weights: Vector, counts: NDArray[np.int64]) -> Vector:
        """The weights of rows that are part of the objective, 0 for others."""
        return np.where(counts > 0, weights, 0.0) if side in self.featured else weights


def ridge_of(ridge: Vector, factors: Any) -> Any:
    """Sum ridge_r |f_r|^2 over the rows r, in blocks that fit in a processor's cache."""
    if not isinstance(factors, np.ndarray):  # many calls would cost more than a copy
        return (ridge * (factors * factors).sum(axis=1)).sum()
    total = 0.0
    for begin in range(0, len(factors), _ROWS_AT_ONCE):
        rows = slice(begin, begin + _ROWS_AT_ONCE)
        # Not by BLAS, whose threads would keep spinning during the next half-step.
        squares = np.einsum("rk,rk->r", factors[rows], factors[rows])
        total += float((ridge[rows] * squares).sum())
    return total
