"""A spectral start: the leading singular directions of the normalised interactions.

With X the pattern of likes and D_u, D_i its row and column counts, A = D_u^-1/2 X D_i^-1/2 has
singular values from 1 downwards, whatever the degrees. Its leading directions come by randomised
block power iteration (Halko, Martinsson & Tropp 2011, algorithm 4.4). Factors
P = D_u^1/2 U S^1/2, Q = D_i^1/2 V S^1/2 would give X's own best scores in that norm; a fit starts
from 2 Q, which ended lower than Q itself. ``bench/starts.py`` compares with random factors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from mfrank.arrays import beside, empty_beside, on_host
from mfrank.backends import Backend, Factors, Shared, SolveOptions
from mfrank.csr import CSR
from mfrank.eigenbasis import Eigenbasis
from mfrank.quadratic import CellTerm, Observed, RowProblem, Vector

__all__ = ["random_factors", "spectral_factors", "spectral_item_factors"]

_POWERS = 2  # Products with A'A; a single one ends higher.
_LENGTH = 2.0
_USER_LENGTH = 3.0  # Of 1, 3, 6, and 10 where most losses ranked best on ml-1m.
_NOISE = 0.1  # of random_factors: no direction starts empty where X has fewer than K.


def random_factors(
    shape: tuple[int, int], random_state: np.random.Generator, dtype: DTypeLike
) -> Factors:
    """Normal random factors of variance 0.01/K, shape (rows, K): row norms near 0.1.

    (Rendle et al. 2022, "Revisiting the performance of iALS on item recommendation benchmarks".)
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
    """2 D_i^1/2 V S^1/2 with a little noise, shape (n_items, width).

    Parameters
    ----------
    users, items : CSR
        The interactions in both orientations; values, where there are any, tell likes (r > 0).
    width : int
        K, any number; directions that the data do not have are left to the noise.
    """
    pattern = _NormalisedPattern(users, items, backend, n_threads)
    images = random_state.standard_normal((users.n_rows, width), dtype=np.float32)
    images = backend.place(images.astype(dtype, copy=False))
    factors = pattern.to_items(images)
    for _ in range(_POWERS):
        _scale_directions(factors, factors, 0.5, backend, n_threads)
        images = pattern.to_users(factors)
        del factors  # before there is another
        factors = pattern.to_items(images)
    # Along the principal directions of the images A V, of lengths s, factors are A'A V = s^2 V.
    _scale_directions(factors, images, 0.75, backend, n_threads)
    del images
    factors *= beside(_LENGTH * pattern.item_degrees**0.5, factors, dtype)[:, None]
    factors = on_host(factors)
    noise = random_factors(factors.shape, random_state, dtype)
    noise *= _NOISE
    factors += noise
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
    """Both sides' factors, whose products rank already: rows of users are 3 long, items 1, in mean.

    Items as :func:`spectral_item_factors`; of a user the sum of D_i^-1 q_i over the likes, over the
    root of their number, in the directions U S^3/2. A user who likes nothing has zeros.
    """
    item_factors = spectral_item_factors(
        users, items, width, random_state, dtype, backend, n_threads
    )
    pattern = _NormalisedPattern(users, items, backend, n_threads)
    even = item_factors * _inverse_power(pattern.item_degrees, 0.5).astype(dtype)[:, None]
    user_factors = on_host(pattern.to_users(backend.place(even)))
    return _of_length(_USER_LENGTH, user_factors), _of_length(1.0, item_factors)


def _of_length(length: float, factors: Factors) -> Factors:
    lengths = np.linalg.norm(factors, axis=1)
    mean = lengths[lengths > 0].mean(dtype=np.float64) if lengths.any() else 1.0
    scaled: Factors = factors * factors.dtype.type(length / mean)
    return scaled


class _NormalisedPattern:
    """Products with A and A', each a half-step whose systems are diagonal."""

    def __init__(self, users: CSR, items: CSR, backend: Backend, n_threads: int) -> None:
        self._backend = backend
        self._options = SolveOptions("cholesky", n_threads=n_threads)
        user_degrees, self.item_degrees = _likes(users), _likes(items)
        nothing = CellTerm(np.zeros(users.n_rows))
        pulls = CellTerm(_inverse_power(user_degrees, 0.5))
        self._observed = Observed(nothing, pulls, nothing)
        self._users, self._items = users, items

    def to_items(self, user_side: Factors) -> Factors:
        """A' times ``user_side``."""
        lengths = np.sqrt(np.maximum(self.item_degrees, 1.0))
        return self._sums(
            RowProblem(
                self._items, np.zeros(len(lengths)), lengths, self._observed, users_are_rows=False
            ),
            user_side,
        )

    def to_users(self, item_side: Factors) -> Factors:
        """A times ``item_side``, which is overwritten."""
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
        nothing = Shared(np.zeros(width), np.zeros(width))
        self._backend.solve_rows(problem, fixed, nothing, out, self._options)
        return out


def _likes(rows: CSR) -> Vector:
    """Entries r > 0 of each row."""
    ones = CellTerm(np.ones(rows.n_rows))
    problem = RowProblem(rows, ones.offset, ones.offset, Observed(ones, ones, ones), True)
    return problem.row_sums(ones, likes_only=True)


def _scale_directions(
    factors: Factors, images: Factors, power: float, backend: Backend, n_threads: int
) -> None:
    """Turn the factors to the principal directions of the images and divide by lengths^(2 power).

    Directions that the images lack become zero columns.
    """
    at = Eigenbasis.of(backend.gram(images, np.ones(len(images)), n_threads))
    scaled = at.basis * _inverse_power(at.shared.values, power)
    backend.rotate(factors, scaled, 0, factors, n_threads)


def _inverse_power(values: Vector, power: float) -> Vector:
    """values^-power, 0 where the value is lost in the rounding of the largest."""
    kept = values > 1e-10 * values.max(initial=0.0)
    powers = np.zeros(len(values))
    powers[kept] = values[kept] ** -power
    return powers
