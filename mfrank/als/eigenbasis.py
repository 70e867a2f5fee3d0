"""The basis that diagonalizes the matrix shared by all rows of a half-step.

Rotating the factors of both sides by the same orthogonal matrix changes no score. A fit therefore
works in the eigenbasis of the current Gram matrix and never rotates back: each half-step rotates
the fixed factors once, and its solutions are in the same basis. The columns of the final factors
are the principal directions of the last fixed side, by ascending eigenvalue.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.lazy import lazy
from mfrank.arrays.read_only import read_only
from mfrank.arrays.threads import single_threaded
from mfrank.backends import Backend, Factors
from mfrank.backends.row_problem import Gram, RowProblem, Shared
from mfrank.backends.solve_options import SolveOptions
from mfrank.backends.symmetric import eigh

__all__ = ["Eigenbasis", "solve_in_own_basis"]


@dataclass(frozen=True, eq=False)
class Eigenbasis:
    """Eigendecomposition U diag(values) U' of a Gram matrix, and its vector in that basis.

    Attributes
    ----------
    basis : float64, shape (K, K)
        U: eigenvectors as columns. The entry of largest magnitude of each is positive, so that
        signs do not depend on the LAPACK library.
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
        largest = basis[np.abs(basis).argmax(axis=0), np.arange(len(basis))]
        signs = np.where(largest < 0, -1.0, 1.0)
        basis, vector = basis * signs, vector * signs
        vector[(values == 0) & (np.abs(vector) <= 1e-8 * np.linalg.norm(vector))] = 0.0
        return cls(read_only(basis), Shared(values, vector))  # which lets a GPU keep its copy

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
) -> Factors:
    """Solve rows without changing the basis of the fixed factors, as fold-in requires.

    Parameters
    ----------
    problem : RowProblem
        R rows.
    fixed : shape (S, K)
        Factors of the fixed side; not modified.
    at : Eigenbasis
        Of the matrix that the rows share.
    prior : shape (R, K), optional
        Where the rows' ridges pull to, in the basis of ``fixed``.

    Returns
    -------
    numpy array, shape (R, K)
        Solutions in the basis of ``fixed``, of its dtype.
    """
    if 2 * len(problem.rows.indices) < len(fixed):  # rotate only the columns that are used
        problem, columns = problem.on_used_columns()
        fixed = fixed[columns]
    fixed = backend.place(fixed)
    turned = np.empty_like(fixed)
    at.turn(backend, fixed, turned, options.n_threads)
    solved = np.zeros((problem.rows.n_rows, fixed.shape[1]), dtype=fixed.dtype)
    how: dict[str, Factors] = {}
    if prior is not None:
        how["prior"] = np.empty_like(solved)
        at.turn(backend, np.ascontiguousarray(prior), how["prior"], options.n_threads)
    backend.solve_rows(problem, turned, at.shared, solved, options, **how)
    backend.rotate(solved, at.back, 0, solved, options.n_threads)
    return solved
