"""Initial factors and biases of a fit: spectral and balanced, or carried over from another fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mfrank.als.half_steps import Eigenbasis
from mfrank.arrays import (
    CSR,
    Seed,
    beside,
    check_time,
    counted,
    empty_aligned,
    empty_beside,
    generator,
    on_host,
    shown,
    single_threaded,
)
from mfrank.backends import (
    Backend,
    CellTerm,
    Factors,
    ObservedLoss,
    RowProblem,
    Shared,
    SolveOptions,
    Vector,
)
from mfrank.data import Ids, Interactions, check_numbering
from mfrank.errors import InputTypeError, InputValueError
from mfrank.store import FactorStore, Step

# Spectral initialization: the leading singular vectors of the normalized interactions.
#
# Let X be the pattern of the entries r > 0, and D_u, D_i the diagonal matrices of its row and
# column counts. The singular values of A = D_u^-1/2 X D_i^-1/2 are at most 1, whatever the
# counts. Randomized block power iteration (Halko, Martinsson & Tropp 2011, algorithm 4.4)
# computes the leading ones and their vectors, A ~ U S V'. Then P = D_u^1/2 U S^1/2 and Q =
# D_i^1/2 V S^1/2 give the best approximation P Q' of X in the norm weighted by D_u^-1/2 and
# D_i^-1/2. A fit starts from 2 Q, which reached lower objectives than Q. ``bench/starts.py``
# compares with random factors.


_POWERS = 3  # Products with A'A; after 2, the first epochs rank worse.
_LENGTH = 2.0  # Scale of Q.
_USER_LENGTH = 3.0  # Best of 1, 3, 6 and 10 for most losses on ml-1m.
_ROWS_OF_NOISE = 1024
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
        K. May exceed the rank of the data; the additional columns are only noise.
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

    Item factors are from :func:`spectral_item_factors`. A user's factors are the sum of D_i^-1 q_i
    over their n positives, divided by sqrt(n), which is U S^3/2 up to scale; zeros if n = 0. Both
    are scaled to mean row norms of 3 (users) and 1 (items).

    Parameters are as in :func:`spectral_item_factors`.

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

    Each comes from one random byte, ten times faster than a normal number.
    """
    step = size * np.sqrt(12 / (256**2 - 1))
    # In blocks that stay in the cache and need no second table.
    for begin in range(0, len(factors), _ROWS_OF_NOISE):
        rows = factors[begin : begin + _ROWS_OF_NOISE]
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
        self._observed = ObservedLoss(zero, pulls, zero)
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
    problem = RowProblem(rows, ones.offset, ones.offset, ObservedLoss(ones, ones, ones), True)
    return problem.row_sums(ones, signed=True)


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
    is_sound = values > 1e-10 * values.max(initial=0.0)
    powers = np.zeros(len(values))
    powers[is_sound] = values[is_sound] ** -power
    return powers


_ROWS_AT_ONCE = 1 << 16


def first_factors(
    data: Interactions,
    width: int,
    dtype: DTypeLike,
    random_state: Seed,
    start: FactorStore | None,
    backend: Backend,
    n_threads: int = 0,
) -> tuple[Factors, Factors]:
    """Return initial user and item factors, as new arrays.

    Without ``start``, item factors are spectral and user factors 0, since ALS begins by solving the
    users. With ``start``, factors are copied for its ids and random for all others; users without
    interactions get 0.

    Parameters
    ----------
    data : Interactions
    width : int
        K.
    dtype : float32 or float64
    random_state : int, numpy.random.Generator or None
    start : FactorStore or None
        With ``width`` factors (:func:`check_start`).
    backend : Backend
        Computes the spectral factors.
    n_threads : int, default 0
        0 uses every core this process may use.

    Returns
    -------
    user_factors, item_factors : numpy arrays, shape (n_users, width) and (n_items, width)

    Raises
    ------
    ValueError
        ``start`` has none of the items, or users of another kind; or it has more rows than the
        data, and both have only row numbers as ids.
    """
    random = generator(random_state)
    if start is None:
        users, items = data.user_rows(dtype), data.item_rows(dtype)
        item_factors = spectral_item_factors(users, items, width, random, dtype, backend, n_threads)
        user_factors = empty_aligned((data.n_users, width), dtype)
        user_factors[:] = 0
        return user_factors, item_factors
    start = start.on_host()
    for side, ids, old in (
        ("user", data.user_ids, start.user_ids),
        ("item", data.item_ids, start.item_ids),
    ):
        check_numbering(old, ids, "start", side, "fit without `start`, or to data with its ids")
    user_factors = random_factors((data.n_users, width), random, dtype)
    user_factors[data.counts.users == 0] = 0
    item_factors = random_factors((data.n_items, width), random, dtype)
    _carry_over("users", user_factors, data.user_ids, start.user_factors, start.user_ids)
    # ALS begins by solving the users, so only item factors carry the start over.
    if not _carry_over("items", item_factors, data.item_ids, start.item_factors, start.item_ids):
        raise InputValueError("`start` contains no item of the data", "fit without `start`")
    if start.user_ids.are_text != data.user_ids.are_text:
        raise InputValueError(
            f"`start` has users like {start.user_ids.raw([0]).item()!r}, the data like "
            f"{data.user_ids.raw([0]).item()!r}:",
            "convert the ids of one of them, or fit without `start`",
        )
    return user_factors, item_factors


def check_start(start: Any, width: int) -> None:
    """Raise TypeError unless ``start`` is a store, ValueError unless it has ``width`` factors."""
    if not isinstance(start, FactorStore):
        raise InputTypeError(f"`start` must be a fitted model or its store, got {shown(start)}")
    if start.factors != width:
        raise InputValueError(
            f"`start` has {counted(start.factors, 'factor')}, this model {width:,}",
            f"use `set_params(factors={start.factors})` to match",
        )


def _carry_over(side: str, new: Factors, ids: Ids, old: Factors, old_ids: Ids) -> int:
    """Copy old factors to the rows of the same ids; return the number of such rows."""
    if ids.table is None and old_ids.table is None and len(ids) < len(old_ids):
        raise InputValueError(
            f"`start` has {len(old_ids):,} {side}, the data only {len(ids):,}. Without ids, rows "
            "are matched by number, so that rows can be added but not removed",
            "fit without `start`",
        )
    rows = old_ids.rows(ids.labels, missing=-1)
    known = np.flatnonzero(rows >= 0)
    for begin in range(0, len(known), _ROWS_AT_ONCE):  # without another table
        some = known[begin : begin + _ROWS_AT_ONCE]
        new[some] = old[rows[some]]
    return len(known)


def first_biases(
    data: Interactions, start: FactorStore | None, otherwise: NDArray[np.floating]
) -> NDArray[np.floating]:
    """Return initial item biases (n_items,), as a new array.

    Biases are copied from ``start`` for its ids (0 if it has no biases); all others are
    ``otherwise`` (n_items,).
    """
    biases = otherwise.copy()
    if start is not None:
        known = start.on_host().item_biases
        own = np.zeros(start.n_items) if known is None else known
        _carry_over("items", biases, data.item_ids, own, start.item_ids)
    return biases


def as_step(
    data: Interactions, dtype: DTypeLike, random_state: Seed, start: FactorStore, backend: Backend
) -> Step:
    """A start as epoch 0 of a fit to the data: its factors and biases in the data's rows."""
    users, items = first_factors(data, start.factors, dtype, random_state, start, backend)
    start = start.on_host()
    of_users = _carried("users", data.user_ids, start.user_biases, start.user_ids)
    of_items = _carried("items", data.item_ids, start.item_biases, start.item_ids)
    return Step(0, 0.0, None, users, items, of_items, of_users)


def _carried(
    side: str, ids: Ids, old: NDArray[np.floating] | None, old_ids: Ids
) -> NDArray[np.floating] | None:
    """Old biases in the rows of these ids, 0 where there was none; None without biases."""
    if old is None:
        return None
    new = np.zeros(len(ids))
    _carry_over(side, new, ids, old, old_ids)
    return new


# Balanced factors: of all pairs with the same scores, the pair with the smallest ridge.
#
# For every invertible M, the factors P M and Q M^-T have the scores of P and Q. With
# A = sum_u ridge_u p_u p_u' and B = sum_i ridge_i q_i q_i', their ridge is
#
#     tr(M'AM) + tr(M^-1 B M^-T)
#
# It is smallest where both matrices are equal, which one Cholesky and one eigendecomposition find
# (Moore 1981, "Principal component analysis in linear systems", balanced coordinates):
#
#     A = L L',  L'BL = V S V',  M = L^-T V S^(1/4):    M'AM = M^-1 B M^-T = S^(1/2)
#
# Without a ridge, all pairs with these scores are equally good for the objective, but not for
# cosines of users or items: a fit would keep directions that are long on one side and short on
# the other. So the factors are then balanced as under the same vanishing ridge for all rows, A =
# P'P and B = Q'Q.
#
# ALS by itself changes the scale of P relative to Q very slowly, in every direction, because each
# side takes over the scale of the other. So the start of a fit is balanced once. ``bench/NOTES.md``
# has the epochs that this saves.


_DAMPING = 1e-5  # Of the trace: bounds M in directions that a side lacks; above float32's rounding.
_TINY, _HUGE = 1e-290, 1e30  # Ridges whose shares are exact; entries of M that float32 can hold.

Matrix = NDArray[np.float64]


def balance(
    users: RowProblem,
    items: RowProblem,
    user_factors: Factors,
    item_factors: Factors,
    backend: Backend,
    n_threads: int,
) -> None:
    """Balance the factors in place.

    The factors do not change if only one side has a ridge, if a side is 0 or not finite, or if the
    transforms cannot be computed within rounding.
    """
    by_users, by_items = users.ridge, items.ridge
    if not by_users.any() and not by_items.any():
        by_users, by_items = np.ones_like(by_users), np.ones_like(by_items)
    of_users = backend.gram(user_factors, by_users, n_threads).matrix
    of_items = backend.gram(item_factors, by_items, n_threads).matrix
    ridges = float(np.trace(of_users)), float(np.trace(of_items))
    if not all(_TINY < ridge < np.inf for ridge in ridges):
        return
    try:
        turns = _transforms(_damped(of_users / ridges[0]), _damped(of_items / ridges[1]))
    except np.linalg.LinAlgError:
        return
    scale = (ridges[1] / ridges[0]) ** 0.25
    for_users, for_items = scale * turns[0], turns[1] / scale
    if not max(np.abs(for_users).max(), np.abs(for_items).max()) < _HUGE:
        return
    backend.rotate(user_factors, for_users, 0, user_factors, n_threads)
    backend.rotate(item_factors, for_items, 0, item_factors, n_threads)


def _transforms(of_users: Matrix, of_items: Matrix) -> tuple[Matrix, Matrix]:
    """Return M and M^-T."""
    with single_threaded():
        lower = np.linalg.cholesky(of_users)
        squares, basis = np.linalg.eigh(lower.T @ of_items @ lower)
        quarter = squares**0.25  # positive: at least the square of the damping
        by_users = np.linalg.solve(lower.T, basis * quarter)
        by_items = lower @ (basis / quarter)
    return np.ascontiguousarray(by_users), np.ascontiguousarray(by_items)


def _damped(matrix: Matrix) -> Matrix:
    """Damp a matrix of trace 1."""
    damped: Matrix = matrix + _DAMPING * np.eye(len(matrix))
    return damped
