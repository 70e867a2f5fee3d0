"""Factors of histories by asymmetric ALS: the fit of :class:`mfrank.AsymmetricALS`.

A user is the sum of factors of what they met. Only two tables are fitted: P, by which items tell
where a history leads, and Q, the items that it leads to. No matrix between items is made, and the
vectors of a history follow from each other, step after step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mfrank.als import Eigenbasis, solve_in_own_basis
from mfrank.arrays import CSR, Work, lazy, single_threaded, usable_cores
from mfrank.backends import CellTerm, Gram, ObservedLoss, RowProblem, SolveOptions, choose, eigh
from mfrank.data import cells
from mfrank.models.sequence_regression import reach_of

Dense = NDArray[np.floating]
Ints = NDArray[np.int64]
Vector = NDArray[np.float64]

_PLACES_AT_ONCE = 1 << 15
"""Places of a group of users, whose vectors are temporary."""
_GROUPS_AT_ONCE = 4
"""Threads, at most: each has a table of the size of P."""
_CG_STEPS = 4
_LEAST_MASS = 1e-3
"""Of the mean mass: the ridge of a rarer item is that of an item with so much."""
_BEYOND, _PRODUCTS = 10, 2
"""Of the start: directions beyond the factors, and products with X'Y and its transpose."""


@dataclass(frozen=True)
class _PlaceGroup:
    """Histories of some users, step after step: all first items, then all second ones.

    Users are in descending order of the lengths of their histories, so those who have a step t + 1
    are the first of those who have a step t.

    Attributes
    ----------
    items : int64, shape (n_places,)
    begins : int64, shape (n_steps + 1,)
        Step t has the places ``begins[t]:begins[t + 1]``.
    weight : float
        Of the loss of all these places.
    """

    items: Ints
    begins: Ints
    weight: float

    def later(self, steps: int) -> tuple[Ints, Ints]:
        """Places that have another one so many steps later, and these."""
        sizes = np.diff(self.begins)[steps:]
        inside = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        now, then = self.begins[: len(sizes)], self.begins[steps:-1]
        return np.repeat(now, sizes) + inside, np.repeat(then, sizes) + inside

    def steps_behind(self) -> Ints:
        """How many steps follow each place."""
        sizes = np.diff(self.begins)
        lengths = np.searchsorted(-sizes, -np.arange(sizes[0]))
        first = np.repeat(self.begins[:-1], sizes)
        steps = np.repeat(np.arange(len(sizes)), sizes)
        behind: Ints = lengths[np.arange(len(self.items)) - first] - 1 - steps
        return behind

    def entering(self, decay: float, n_items: int, dtype: DTypeLike) -> sp.csr_array:
        """What enters the sum behind each place: its item, less the one that is too far by then."""
        reach, n = reach_of(decay), len(self.items)
        far, near = self.later(reach)
        counts = np.ones(n, np.int64)
        counts[near] = 2
        indptr = np.append(0, np.cumsum(counts))
        indices, data = np.empty(indptr[-1], np.int64), np.ones(indptr[-1], dtype)
        indices[indptr[:-1]] = self.items
        indices[indptr[near] + 1] = self.items[far]
        data[indptr[near] + 1] = -math.exp(-reach / decay)
        return sp.csr_array((data, indices, indptr), (n, n_items))

    def targets(self, weights: Vector, of_items: Vector, dtype: DTypeLike) -> sp.csr_array:
        """The weights of what each place leads to: itself, then the items so many steps later.

        Nothing is known before a first item, so it has none.
        """
        rows, columns, data = [], [], []
        for beyond, weight in enumerate(weights[: len(self.begins) - 1]):
            at, then = self.later(beyond)
            kept = at >= self.begins[1]
            items = self.items[then[kept]]
            rows.append(at[kept])
            columns.append(items)
            data.append(self.weight * weight * of_items[items])
        entries = (np.concatenate(each) for each in (data, rows, columns))
        values, row, column = entries
        shape = len(self.items), len(of_items)
        return sp.csr_array((values.astype(dtype), (row, column)), shape)

    def add_sums(self, entering: Dense, decay: float, out: Dense) -> None:
        """Add to each place the decayed sum of what entered before it."""
        keep = entering.dtype.type(math.exp(-1 / decay))
        state = np.zeros_like(entering[: self.begins[1]])
        for at, then, end in zip(self.begins[:-2], self.begins[1:-1], self.begins[2:], strict=True):
            state = state[: end - then]
            state *= keep
            state += entering[at : at + len(state)]
            out[then:end] += state

    def sums_behind(self, slopes: Dense, decay: float) -> Dense:
        """The transposed operation: for each place, the decayed sum of all later slopes."""
        keep, found = slopes.dtype.type(math.exp(-1 / decay)), np.zeros_like(slopes)
        steps = zip(self.begins[:-2], self.begins[1:-1], self.begins[2:], strict=True)
        for at, then, end in reversed(list(steps)):
            some = found[at : at + end - then]
            np.multiply(found[then:end], keep, out=some)
            some += slopes[then:end]
        return found


def _groups(places: sp.csr_array, weight: float, *, backward: bool) -> Iterator[_PlaceGroup]:
    """The histories of all users who have two items or more, from places from their end."""
    counts = np.diff(places.indptr).astype(np.int64)
    users = np.argsort(-counts, kind="stable")
    users = users[counts[users] > 1]
    ends, begin = np.cumsum(counts[users]), 0
    while begin < len(users):
        done = ends[begin - 1] if begin else 0
        stop = max(begin + 1, int(np.searchsorted(ends, done + _PLACES_AT_ONCE, side="right")))
        own = counts[users[begin:stop]]
        entries = np.arange(own.sum()) - np.repeat(np.cumsum(own) - own, own)
        entries += np.repeat(places.indptr[users[begin:stop]].astype(np.int64), own)
        latest = places.data[entries].astype(np.int64)
        step = latest - 1 if backward else np.repeat(own, own) - latest
        order = np.lexsort((np.repeat(np.arange(len(own)), own), step))
        begins = np.searchsorted(step[order], np.arange(own[0] + 1))
        yield _PlaceGroup(places.indices[entries[order]].astype(np.int64), begins, weight)
        begin = stop


@dataclass(frozen=True, eq=False)
class HistoryFactors:
    """The loss of :class:`mfrank.AsymmetricALS` over some histories.

    Attributes
    ----------
    places : csr_array, shape (n_users, n_items)
        Places from the end of each history: 1 is a user's latest item.
    decays, factors, alpha0, regularization, ahead, item_power, backward
        The options of the model.
    dtype : dtype, default float32
        Of P and Q.
    """

    places: sp.csr_array
    decays: Sequence[float]
    factors: int
    alpha0: float
    regularization: float
    ahead: float
    item_power: float
    backward: float
    dtype: DTypeLike = np.float32

    def fitted(self, iterations: int) -> tuple[Dense, Dense]:
        """P, shape (len(decays), n_items, factors), and Q, shape (n_items, factors)."""
        if not self._groups:  # nobody has two items
            p = np.zeros((len(self.decays), self.n_items, self.factors), self.dtype)
            return p, p[0].copy()
        work, p = Work(2 * iterations + 1), self.start()
        work.advance()
        for _ in range(iterations):
            q = self.items_solved(p)
            work.advance()
            p = self.histories_improved(p, q)
            work.advance()
        return p, q

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.places.shape[1])

    # The loss: histories in both directions, the weights of their targets, and ridges.

    @lazy
    def _groups(self) -> list[_PlaceGroup]:
        found = list(_groups(self.places, 1.0, backward=False))
        if self.backward:
            found += _groups(self.places, self.backward, backward=True)
        return found

    @lazy
    def _users(self) -> Vector:
        """Number of users of each item, at least 1."""
        return np.maximum(np.bincount(self.places.indices, minlength=self.n_items), 1.0)

    @lazy
    def _targets(self) -> list[sp.csr_array]:
        """The weights of the targets of each group, shape (n_places, n_items)."""
        beyond = np.arange(reach_of(self.ahead) + 1 if self.ahead else 1)
        weights: Vector = np.exp(-beyond / self.ahead) if self.ahead else np.ones(1)
        of_items = (self._users / self._users.mean()) ** -self.item_power
        return [each.targets(weights, of_items, self.dtype) for each in self._groups]

    @lazy
    def _entering(self) -> list[list[sp.csr_array]]:
        """What enters the sums of each group, for each decay."""
        return [
            [group.entering(decay, self.n_items, self.dtype) for decay in self.decays]
            for group in self._groups
        ]

    @lazy
    def _masses(self) -> tuple[Vector, Vector, float]:
        """Squared lengths of the columns of X, weights of targets, and the sum over all places."""
        columns, targets = np.zeros((len(self.decays), self.n_items)), np.zeros(self.n_items)
        total = 0.0
        for group, led_to in zip(self._groups, self._targets, strict=True):
            behind = group.steps_behind()
            for decay, own in zip(self.decays, columns, strict=True):
                terms = np.minimum(behind, reach_of(decay))
                sums = np.append(0.0, np.cumsum(np.exp(-2 * np.arange(terms.max()) / decay)))
                squares = sums[terms]
                own += group.weight * np.bincount(group.items, squares, self.n_items)
            targets += led_to.sum(axis=0, dtype=np.float64)
            total += group.weight * (len(group.items) - group.begins[1])
        return columns, targets, total

    @lazy
    def ridges(self) -> tuple[Vector, Vector]:
        """Those of the rows of P, shape (len(decays), n_items), and of Q, shape (n_items,)."""
        columns, targets, total = self._masses
        return self._ridges(columns), self._ridges(targets + self.alpha0 * total)

    def _ridges(self, masses: Vector) -> Vector:
        mean = masses.mean()
        found: Vector = self.regularization * np.sqrt(np.maximum(masses, _LEAST_MASS * mean) * mean)
        return found

    def _vectors(self, number: int, p: Dense) -> Dense:
        """The vectors x of all places of a group."""
        group = self._groups[number]
        out = np.zeros((len(group.items), p.shape[2]), p.dtype)
        for decay, entering, own in zip(self.decays, self._entering[number], p, strict=True):
            group.add_sums(np.asarray(entering @ own), decay, out)
        return out

    def _slopes_by_p(self, number: int, slopes: Dense) -> Dense:
        """The slopes by P that follow from those by the vectors of a group."""
        group = self._groups[number]
        by_decay = zip(self.decays, self._entering[number], strict=True)
        return np.stack(
            [entering.T @ group.sums_behind(slopes, decay) for decay, entering in by_decay]
        )

    def _of_groups(self, work: Callable[[int], Dense]) -> Iterator[Dense]:
        """What a function gives for the number of each group, in order, by several threads.

        No more is held than there are threads, and sums in this order have the same bits for any
        number of them.
        """
        n_groups, at_once = len(self._groups), min(usable_cores(), _GROUPS_AT_ONCE)
        _ = self._targets, self._entering  # made once, not by each thread
        with ThreadPoolExecutor(at_once) as pool:
            for begin in range(0, n_groups, at_once):
                yield from pool.map(work, range(begin, min(begin + at_once, n_groups)))

    def _sum_of_groups(self, work: Callable[[int], Dense]) -> Dense:
        found = self._of_groups(work)
        total = next(found)
        for each in found:
            total += each
        return total

    # Q: exact, as the items of any ALS. Its users are the places of histories.

    def items_solved(self, p: Dense) -> Dense:
        """The Q that minimizes the loss for P."""
        backend, problem = choose("cpu"), self._items
        x = np.concatenate(list(self._of_groups(lambda number: self._vectors(number, p))))
        weights = np.concatenate([np.full(len(g.items), g.weight) for g in self._groups])
        gram = Gram(backend.gram(x, weights).matrix, np.zeros(self.factors))
        at = Eigenbasis.of(gram, backend)
        solved = solve_in_own_basis(backend, problem, x, at, SolveOptions(solver="cholesky"))
        return np.asarray(solved)

    @lazy
    def _items(self) -> RowProblem:
        rows = sp.csr_array(sp.vstack(self._targets, format="csr").T.tocsr())
        weight = CellTerm(np.zeros(rows.shape[1]), 1.0)
        return RowProblem(
            CSR.from_scipy(rows, self.dtype),
            np.full(self.n_items, float(self.alpha0)),
            self.ridges[1],
            ObservedLoss(weight, weight, weight),
            users_are_rows=False,
        )

    # P: conjugate gradients, in the eigenbasis of what a mean place meets.

    def histories_improved(self, p: Dense, q: Dense, steps: int = _CG_STEPS) -> Dense:
        """P after some steps of preconditioned conjugate gradients to the minimum for Q."""
        columns, targets, total = self._masses
        with single_threaded():  # so that bits do not depend on the number of threads
            background = self.alpha0 * (q.T @ q)
            met = background + (q.T * (targets / total)) @ q
            values, basis = (each.astype(p.dtype) for each in eigh(met.astype(np.float64)))
            ridges = self.ridges[0][:, :, None].astype(p.dtype)
            scale = 1 / (columns[:, :, None].astype(p.dtype) * np.maximum(values, 0) + ridges)
            background = background.astype(p.dtype)

            def preconditioned(residual: Dense) -> Dense:
                return ((residual @ basis) * scale) @ basis.T

            p, residual = p.copy(), -self._slopes(p, q, background, 1.0) - ridges * p
            direction = preconditioned(residual)
            square = _dot(residual, direction)
            rounding = square * float(np.finfo(p.dtype).eps) ** 2
            for _ in range(steps):
                if square <= rounding:
                    break
                moved = self._slopes(direction, q, background, 0.0) + ridges * direction
                step = p.dtype.type(square / _dot(direction, moved))
                p += step * direction
                residual -= step * moved
                towards = preconditioned(residual)
                before, square = square, _dot(residual, towards)
                direction = towards + p.dtype.type(square / before) * direction
        return p

    def _slopes(self, p: Dense, q: Dense, background: Dense, target: float) -> Dense:
        """Half of the slopes of the loss by P, without the ridge, if all targets are ``target``."""

        def of_group(number: int) -> Dense:
            x, led_to = self._vectors(number, p), self._targets[number]
            slopes: Dense = x @ background
            slopes *= p.dtype.type(self._groups[number].weight)
            errors = np.einsum("ek,ek->e", x[cells.entry_rows(led_to)], q[led_to.indices])
            errors -= p.dtype.type(target)
            errors *= led_to.data
            slopes += sp.csr_array((errors, led_to.indices, led_to.indptr), led_to.shape) @ q
            return self._slopes_by_p(number, slopes)

        return self._sum_of_groups(of_group)

    # The start.

    def start(self) -> Dense:
        """P from the largest singular vectors of X'Y, divided by roots of numbers of users."""
        n, width = self.n_items, min(self.factors + _BEYOND, self.n_items)
        scale = (1 / np.sqrt(self._users)).astype(self.dtype)[:, None]
        found = np.random.default_rng(0).standard_normal((n, width)).astype(self.dtype)
        with single_threaded():
            for _ in range(_PRODUCTS):
                left = np.linalg.qr((scale * self._led_from(scale * found)).reshape(-1, width))[0]
                left = left.reshape(len(self.decays), n, width)
                found = np.linalg.qr(scale * self._led_to(scale * left))[0]
            last = (scale * self._led_from(scale * found)).reshape(-1, width)
            vectors, values, _ = np.linalg.svd(last, full_matrices=False)
        p = np.zeros((len(self.decays) * n, self.factors), self.dtype)
        kept = min(self.factors, width)
        p[:, :kept] = vectors[:, :kept] * np.sqrt(values[:kept])
        return p.reshape(len(self.decays), n, -1)

    def _led_from(self, table: Dense) -> Dense:
        """X'Y times a table, shape (len(decays), n_items, width)."""

        def of_group(number: int) -> Dense:
            return self._slopes_by_p(number, np.asarray(self._targets[number] @ table))

        return self._sum_of_groups(of_group)

    def _led_to(self, table: Dense) -> Dense:
        """Y'X times a table of the shape of P."""

        def of_group(number: int) -> Dense:
            return np.asarray(self._targets[number].T @ self._vectors(number, table))

        return self._sum_of_groups(of_group)


def _dot(one: Dense, other: Dense) -> float:
    return float(np.einsum("...k,...k->...", one, other).sum(dtype=np.float64))
