"""Spectral initialization: the leading singular vectors of the normalized interactions.

Let X be the pattern of the entries r > 0, and D_u, D_i the diagonal matrices of its row and column
counts. The singular values of A = D_u^-1/2 X D_i^-1/2 are at most 1, whatever the counts.
Randomized block power iteration (Halko, Martinsson & Tropp 2011, algorithm 4.4) computes the
leading ones and their vectors, A ~ U S V'. Then P = D_u^1/2 U S^1/2 and Q = D_i^1/2 V S^1/2 give
the best approximation P Q' of X in the norm weighted by D_u^-1/2 and D_i^-1/2. A fit starts from
2 Q, which reached lower objectives than Q. ``bench/starts.py`` compares with random factors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from mfrank.als.eigenbasis import Eigenbasis
from mfrank.arrays.csr import CSR
from mfrank.arrays.placement import beside, empty_aligned, empty_beside, on_host
from mfrank.arrays.time_limit import check_time
from mfrank.backends import Backend, Factors
from mfrank.backends.row_problem import CellTerm, Observed, RowProblem, Shared, Vector
from mfrank.backends.solve_options import SolveOptions

__all__ = ["random_factors", "spectral_factors", "spectral_item_factors"]

_POWERS = 3  # Products with A'A; after 2, the first epochs rank worse.
_LENGTH = 2.0  # Scale of Q.
_USER_LENGTH = 3.0  # Best of 1, 3, 6 and 10 for most losses on ml-1m.
_ROWS_AT_ONCE = 1024
_NOISE = 0.01  # Mean norm of the noise in a row: no column is 0, even if the rank of X is below K.


def random_factors(
    shape: tuple[int, int], random_state: np.random.Generator, dtype: DTypeLike
) -> Factors:
    """Draw normal factors of variance 0.01/K, shape (rows, K): row norms are near 0.1.

    Rendle et al. 2022, "Revisiting the performance of iALS on item recommendation benchmarks".
    """
    drawn = random_state.standard_normal(shape, dtype=np.float32)
    drawn *= np.float32(0.1 / np.sqrt(shape[1]))
    return drawn.astype(dtype, copy=False)


def spectral_item_factors(
    users: CSR,
    items: CSR,
    width: int,
    random_state: np.random.Generator,
    dtype: DTypeLike,
    backend: Backend,
    n_threads: int = 0,
) -> Factors:
    """Compute item factors 2 D_i^1/2 V S^1/2 plus a little noise.

    Parameters
    ----------
    users, items : CSR
        The interactions by users and by items. Entries count if r > 0 or without values.
    width : int
        K. It may exceed the rank of the data; the additional columns are only noise.
    random_state : numpy.random.Generator
    dtype : float32 or float64
    backend : Backend
    n_threads : int, default 0
        0 uses every core this process may use.

    Returns
    -------
    numpy array, shape (n_items, width)
    """
    pattern = _NormalizedPattern(users, items, backend, n_threads)
    factors = empty_aligned((items.n_rows, width), dtype)
    factors[:] = 0
    _add_noise(factors, 1.0, random_state)
    factors = backend.place(factors)
    images = pattern.to_users(factors)
    for power in range(_POWERS):
        if power:
            _scale_directions(factors, factors, 0.5, backend, n_threads)
            del images  # before the next are allocated
            images = pattern.to_users(factors)
        del factors
        check_time()
        factors = pattern.to_items(images)
    # In the principal directions of the images A V, whose norms are s, factors are A'A V = s^2 V.
    _scale_directions(factors, images, 0.75, backend, n_threads)
    del images
    factors *= beside(_LENGTH * pattern.item_degrees**0.5, factors, dtype)[:, None]
    factors = on_host(factors)
    _add_noise(factors, _NOISE / np.sqrt(width), random_state)
    return factors


def spectral_factors(
    users: CSR,
    items: CSR,
    width: int,
    random_state: np.random.Generator,
    dtype: DTypeLike,
    backend: Backend,
    n_threads: int = 0,
) -> tuple[Factors, Factors]:
    """Compute user and item factors whose dot products already rank.

    Item factors are those of :func:`spectral_item_factors`. A user's factors are the sum of
    D_i^-1 q_i over their n positives, divided by sqrt(n), which is U S^3/2 up to scale; zeros if
    n = 0. Both are scaled to mean row norms of 3 (users) and 1 (items).

    Parameters are those of :func:`spectral_item_factors`.

    Returns
    -------
    user_factors, item_factors : shape (n_users, width) and (n_items, width)
    """
    item_factors = spectral_item_factors(
        users, items, width, random_state, dtype, backend, n_threads
    )
    pattern = _NormalizedPattern(users, items, backend, n_threads)
    divided = item_factors * _inverse_power(pattern.item_degrees, 0.5).astype(dtype)[:, None]
    user_factors = on_host(pattern.to_users(backend.place(divided)))
    return _scaled_to(_USER_LENGTH, user_factors), _scaled_to(1.0, item_factors)


def _add_noise(factors: Factors, size: float, random_state: np.random.Generator) -> None:
    """Add uniform numbers of mean 0 and standard deviation ``size``, in place.

    Each is made of one byte, ten times faster than a normal one.
    """
    step = size * np.sqrt(12 / (256**2 - 1))
    for begin in range(0, len(factors), _ROWS_AT_ONCE):  # in the cache, without another table
        rows = factors[begin : begin + _ROWS_AT_ONCE]
        levels = np.frombuffer(random_state.bytes(rows.size), np.uint8).reshape(rows.shape)
        rows += (levels - rows.dtype.type(127.5)) * rows.dtype.type(step)


def _scaled_to(length: float, factors: Factors) -> Factors:
    lengths = np.linalg.norm(factors, axis=1)
    mean = lengths[lengths > 0].mean(dtype=np.float64) if lengths.any() else 1.0
    scaled: Factors = factors * factors.dtype.type(length / mean)
    return scaled


class _NormalizedPattern:
    """Multiplies by A and A', each as a half-step with diagonal systems."""

    def __init__(self, users: CSR, items: CSR, backend: Backend, n_threads: int) -> None:
        self._backend = backend
        self._options = SolveOptions("cholesky", n_threads=n_threads)
        user_degrees, self.item_degrees = _positive_counts(users), _positive_counts(items)
        zero = CellTerm(np.zeros(users.n_rows))
        pulls = CellTerm(_inverse_power(user_degrees, 0.5))
        self._observed = Observed(zero, pulls, zero)
        self._users, self._items = users, items

    def to_items(self, user_side: Factors) -> Factors:
        """Return A' times ``user_side``."""
        lengths = np.sqrt(np.maximum(self.item_degrees, 1.0))
        return self._sums(
            RowProblem(
                self._items, np.zeros(len(lengths)), lengths, self._observed, users_are_rows=False
            ),
            user_side,
        )

    def to_users(self, item_side: Factors) -> Factors:
        """Return A times ``item_side``, which is overwritten."""
        lengths = _inverse_power(self.item_degrees, 0.5)
        item_side *= beside(lengths, item_side, item_side.dtype)[:, None]
        n = self._users.n_rows
        return self._sums(
            RowProblem(self._users, np.zeros(n), np.ones(n), self._observed, users_are_rows=True),
            item_side,
        )

    def _sums(self, problem: RowProblem, fixed: Factors) -> Factors:
        width = fixed.shape[1]
        out = empty_beside(fixed, (problem.rows.n_rows, width))
        no_background = Shared(np.zeros(width), np.zeros(width))
        self._backend.solve_rows(problem, fixed, no_background, out, self._options)
        return out


def _positive_counts(rows: CSR) -> Vector:
    """Count the entries r > 0 of each row."""
    ones = CellTerm(np.ones(rows.n_rows))
    problem = RowProblem(rows, ones.offset, ones.offset, Observed(ones, ones, ones), True)
    return problem.row_sums(ones, likes_only=True)


def _scale_directions(
    factors: Factors, images: Factors, power: float, backend: Backend, n_threads: int
) -> None:
    """Rotate the factors to the principal directions of the images, in place.

    Divide each column by (norm of the images in its direction)^(2 power), or set it to 0 if that
    norm is 0.
    """
    at = Eigenbasis.of(backend.gram(images, np.ones(len(images)), n_threads), backend)
    scaled = at.basis * _inverse_power(at.shared.values, power)
    backend.rotate(factors, scaled, 0, factors, n_threads)


def _inverse_power(values: Vector, power: float) -> Vector:
    """Return values^-power, or 0 for values below 1e-10 of the largest, which are rounding."""
    kept = values > 1e-10 * values.max(initial=0.0)
    powers = np.zeros(len(values))
    powers[kept] = values[kept] ** -power
    return powers
