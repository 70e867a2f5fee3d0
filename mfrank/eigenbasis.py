"""The basis in which what all rows of a half-step share is diagonal.

Turning both sides' factors by one orthogonal matrix changes no score, so a fit simply works in the
eigenbasis of the Gram matrix at hand and never turns back: each half-step turns the fixed factors
once, and its solutions come out in their basis. The columns of a finished fit are its principal
directions, by ascending weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mfrank.backends import Backend, Factors, Gram, Shared, SolveOptions
from mfrank.blas import single_threaded
from mfrank.quadratic import RowProblem

__all__ = ["Eigenbasis", "solve_in_own_basis"]


@dataclass(frozen=True, slots=True, eq=False)
class Eigenbasis:
    """A Gram matrix as U diag(values) U', and its vector in that basis.

    Attributes
    ----------
    basis : float64, shape (K, K)
        U: eigenvectors as columns, each with its largest part positive, on every LAPACK.
    shared : Shared
        The eigenvalues, ascending, those that are rounding exactly 0; and U' vector.
    """

    basis: NDArray[np.float64]
    shared: Shared

    @classmethod
    def of(cls, gram: Gram) -> Eigenbasis:
        """Diagonalise."""
        with single_threaded():
            values, basis = np.linalg.eigh(gram.matrix)
        noise = len(basis) * np.finfo(np.float64).eps * max(values[-1], 0.0)
        values[values <= noise] = 0.0
        largest = basis[np.abs(basis).argmax(axis=0), np.arange(len(basis))]
        basis = basis * np.where(largest < 0, -1.0, 1.0)
        vector = basis.T @ gram.vector
        vector[(values == 0) & (np.abs(vector) <= 1e-8 * np.linalg.norm(vector))] = 0.0
        return cls(basis, Shared(values, vector))

    @property
    def n_null(self) -> int:
        """Directions in which the matrix is 0; they come first."""
        return int(np.count_nonzero(self.shared.values == 0))

    def turn(self, backend: Backend, factors: Factors, out: Factors, n_threads: int = 0) -> None:
        """Factors in this basis, into ``out``, which may be ``factors``."""
        backend.rotate(factors, self.basis, self.n_null, out, n_threads)


def solve_in_own_basis(
    backend: Backend,
    problem: RowProblem,
    fixed: Factors,
    at: Eigenbasis,
    options: SolveOptions,
) -> Factors:
    """Solve rows against fixed factors that stay in their own basis, as a fold-in does.

    Returns
    -------
    array of shape (R, K), the solutions in the basis of ``fixed``
    """
    every = np.arange(problem.rows.n_rows)
    if 2 * len(problem.rows.indices) < len(fixed):  # few columns need to be turned
        problem, columns = problem.part(every)
        fixed = fixed[columns]
    fixed = backend.place(fixed)
    turned = np.empty_like(fixed)
    at.turn(backend, fixed, turned, options.n_threads)
    solved = np.zeros((len(every), fixed.shape[1]), dtype=fixed.dtype)
    backend.solve_rows(problem, turned, at.shared, solved, options)
    backend.rotate(solved, np.ascontiguousarray(at.basis.T), 0, solved, options.n_threads)
    return solved
