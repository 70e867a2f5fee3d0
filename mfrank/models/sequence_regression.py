"""The regression of :class:`mfrank.NextItem`: its normal equations, and their solutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import Work
from mfrank.data import cells, order_in_rows
from mfrank.models.item_regressions import regressions

_FAR = 4.0
"""Distances beyond so many decays, of weights below 2 %, do not count."""
_SINGLE_FROM = 4096
"""Width of the regression from which on it is solved in float32."""
_COLUMNS = 512

_SMALL = 1000
"""Width of a regression that is solved whole in a tenth of a second."""
_ROWS = {True: 0.5, False: 0.3}
"""Largest share of the items whose rows an update solves, with few products of items other than 0,
and with many: about a quarter of the time of all rows."""
_FEW = 0.1
_NEW = 0.5
"""New interactions, by those before, from which on an update solves all rows."""

Ints = NDArray[np.int64]
Dense = NDArray[np.floating]


def reach_of(decay: float) -> int:
    """The largest distance that counts."""
    return max(1, math.ceil(_FAR * decay))


@dataclass(frozen=True)
class SequenceRegression:
    """The options of a :class:`mfrank.NextItem` that decide its weights B.

    Histories are places from their end, shape (n_users, n_items): 1 is a user's latest item. B has
    the shape (len(decays) * n_items, n_items).
    """

    decays: Sequence[float]
    regularization: float
    ahead: float
    item_power: float
    backward: float

    @staticmethod
    def is_single(width: int) -> bool:
        """Whether it is solved in float32."""
        return width >= _SINGLE_FROM

    @property
    def furthest(self) -> int:
        """The largest distance of two items that meet in the equations."""
        return max(map(reach_of, self.decays)) + (reach_of(self.ahead) if self.ahead else 0)

    def solved(self, places: sp.csr_array) -> Dense:
        """All rows of B."""
        gram, cross = self._equations(places)
        return self._solution(gram, cross)

    def of_candidates(
        self, places: sp.csr_array, candidates: int, items: Ints | None = None
    ) -> sp.csr_array:
        """The rows of B' of some items, each from the columns that alone predict it best.

        Shape (len(items), len(decays) * n_items).
        """
        n_items = places.shape[1]
        rows, targets = self._rows(places)
        targets.data *= self._of_targets(places)[targets.indices]
        squares = np.bincount(rows.indices, rows.data**2, rows.shape[1]).astype(np.float64)
        try:
            return regressions(rows, self._ridges(squares, n_items), candidates, targets, items)
        except FloatingPointError as error:
            raise self._indefinite() from error

    def shrunk(
        self, weights: sp.csr_array, before: sp.csr_array, places: sp.csr_array
    ) -> sp.csr_array:
        """Weights of B for more histories, in which the same meetings are among more places.

        They are divided as the diagonal of the equations grows: a step of Jacobi's method.
        """
        old, new = (self._diagonal(each) for each in (before, places))
        return sp.csr_array(sp.diags_array(old / new) @ weights)

    def entries(self, places: sp.csr_array) -> int:
        """Number of entries of X and Y."""
        reaches = [reach_of(each) for each in self.decays]
        if self.ahead:
            reaches.append(reach_of(self.ahead))
        found = sum(np.minimum(places.data - 1, reach).sum() for reach in reaches) + places.nnz
        return int(found) * (1 + (self.backward > 0))

    def _diagonal(self, places: sp.csr_array) -> NDArray[np.float64]:
        """That of X'X + ridge."""
        n_items, squares = places.shape[1], list[NDArray[np.float64]]()
        ways = self._ways(Sequences.of(places))
        for decay in self.decays:
            most, own = reach_of(decay), np.zeros(n_items)
            for way, weight in ways:
                sums = _geometric(2 / decay, np.minimum(way.behind, most), most)
                own += weight * np.bincount(way.items, sums, n_items)
            squares.append(own)
        found = np.concatenate(squares)
        return found + self._ridges(found, n_items)

    def _rows(self, places: sp.csr_array) -> tuple[sp.csr_array, sp.csr_array]:
        """X and Y, times the roots of the weights of their rows."""
        forward, n_items = Sequences.of(places), places.shape[1]
        beyond = np.arange(1, 1 + (reach_of(self.ahead) if self.ahead else 0))
        next_items = np.append(1.0, np.exp(-beyond / self.ahead) if self.ahead else [])
        weights = [np.exp(-np.arange(reach_of(decay)) / decay) for decay in self.decays]
        histories, targets = [], []
        for way, weight in self._ways(forward):
            root = math.sqrt(weight)
            histories.append(way.beside(-1, 1, [root * each for each in weights], n_items))
            targets.append(way.beside(1, 0, [root * next_items], n_items))
        x, y = (sp.csr_array(sp.vstack(each, format="csr")) for each in (histories, targets))
        return x, y

    def _ways(self, forward: Sequences) -> list[tuple[Sequences, float]]:
        """Both directions of histories with their weights."""
        return [(forward, 1.0)] + [(forward.reversed(), self.backward)] * (self.backward > 0)

    def is_updated_whole(self, places: sp.csr_array, is_new: NDArray[np.bool_]) -> bool:
        """Whether an update is a fit; ``is_new`` says which interactions are new."""
        is_small, new = len(self.decays) * places.shape[1] < _SMALL, is_new.sum()
        return is_small or bool(new > _NEW * (places.nnz - new))

    def rows_to_update(
        self, places: sp.csr_array, is_new: NDArray[np.bool_], n_items_before: int
    ) -> Ints:
        """The items whose rows an update solves: those that meet what is new most often, or new."""
        n_items = places.shape[1]
        often = np.bincount(self._near(places, is_new), minlength=n_items)
        often[n_items_before:] += often.max()
        new = n_items - n_items_before
        most = max(new, int(_ROWS[self._has_few_products(places)] * n_items))
        found = np.argsort(-often, kind="stable")[:most]
        return np.sort(found[often[found] > 0])

    def _near(self, places: sp.csr_array, is_new: NDArray[np.bool_]) -> Ints:
        """The items of all interactions that are new or so near to a new one that they meet."""
        users = cells.entry_rows(places)
        order = order_in_rows(places.indptr, -places.data)  # oldest first
        place, counts = np.arange(places.nnz), np.append(0, np.cumsum(is_new[order]))
        begin = np.maximum(place - self.furthest, places.indptr[users])
        end = np.minimum(place + self.furthest + 1, places.indptr[users + 1])
        return places.indices[order[counts[end] > counts[begin]]].astype(np.int64)

    def updated(self, places: sp.csr_array, weights: sp.csr_array, items: Ints) -> Dense:
        """The rows of B of some items that minimize the loss if all others stay as in ``weights``.

        Shape (len(decays) * len(items), n_items): a step of block coordinate descent.
        """
        n_items = places.shape[1]
        gram, cross = self._equations(places)
        chosen = np.zeros(len(gram), dtype=bool)
        for block in range(len(self.decays)):
            chosen[block * n_items + items] = True
        some, others = np.flatnonzero(chosen), np.flatnonzero(~chosen)
        below, above = gram[np.ix_(some, others)], gram[np.ix_(others, some)].T
        between = np.where(some[:, None] > others, below, above)
        left = cross[some]
        held = weights[others].toarray().astype(gram.dtype)
        if self._has_few_products(places):
            left -= sp.csr_array(between) @ held
        else:
            left -= between @ held
        return self._solution(gram[np.ix_(some, some)], left)

    def _has_few_products(self, places: sp.csr_array) -> bool:
        counts = np.diff(places.indptr).astype(np.int64)
        pairs = 2 * (counts * np.minimum(counts, self.furthest)).sum()
        return bool(pairs < _FEW * places.shape[1] ** 2)

    def _solution(self, gram: Dense, cross: Dense) -> Dense:
        """Solve for columns, in place; of the matrix, what is on and below the diagonal is read."""
        from scipy.linalg import cho_factor, cho_solve

        work = Work(cross.shape[1])
        try:
            factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError as error:
            raise self._indefinite() from error
        for begin in range(0, cross.shape[1], _COLUMNS):
            columns = slice(begin, begin + _COLUMNS)
            cross[:, columns] = cho_solve(factor, cross[:, columns], check_finite=False)
            work.advance(_COLUMNS)
        return cross

    def _indefinite(self) -> FloatingPointError:
        return FloatingPointError(
            f"NextItem cannot solve with a regularization of {self.regularization:g}; raise it"
        )

    def _equations(self, places: sp.csr_array) -> tuple[Dense, Dense]:
        """X'X + ridge, on and below the diagonal, and X'Y."""
        n_items = places.shape[1]
        gram, cross = self._products(places)
        gram[np.diag_indices(len(gram))] += self._ridges(gram[np.diag_indices(len(gram))], n_items)
        cross *= self._of_targets(places).astype(cross.dtype)
        return gram, cross

    def _ridges(self, squares: NDArray[np.floating], n_items: int) -> NDArray[np.float64]:
        """The ridge of each column of X, from their squared lengths."""
        means = squares.reshape(-1, n_items).mean(axis=1, dtype=np.float64)
        ridges = self.regularization * np.where(means, means, 1 / self.regularization)
        return np.repeat(ridges, n_items)

    def _of_targets(self, places: sp.csr_array) -> NDArray[np.float64]:
        """By what each column of Y is multiplied."""
        users = np.maximum(np.bincount(places.indices, minlength=places.shape[1]), 1.0)
        found: NDArray[np.float64] = (users / users.mean()) ** -self.item_power
        return found

    def _products(self, places: sp.csr_array) -> tuple[Dense, Dense]:
        """X'X, on and below the diagonal, and X'Y: sums over pairs of items, not over rows of X."""
        n_items, width = places.shape[1], len(self.decays) * places.shape[1]
        dtype = np.float32 if self.is_single(width) else np.float64
        gram, cross = np.zeros((width, width), dtype), np.zeros((width, n_items), dtype)
        ways = self._ways(Sequences.of(places))
        work = Work(len(ways) * (self.furthest + 1))
        for sequences, weight in ways:
            for distance in range(self.furthest + 1):
                self._add_pairs(gram, cross, sequences.pairs(distance), distance, weight)
                work.advance()
        return gram, cross

    def _add_pairs(
        self,
        gram: Dense,
        cross: Dense,
        pairs: tuple[Ints, Ints, Ints],
        distance: int,
        weight: float,
    ) -> None:
        """Add the pairs at a distance to both products.

        An earlier item a of block d and a later item b of block e meet in the rows of all places
        behind b that both reach. With k places between b and such a row, the product is
        exp(-(distance + k) / d - k / e): over k, this is a geometric series.
        """
        n_items = cross.shape[1]
        earlier, later, behind = pairs
        for d, decay in enumerate(self.decays):
            at, reach = d * n_items, reach_of(decay)
            if distance:
                times = weight * _of_target(decay, self.ahead, distance)
                _add(cross, at + earlier, later, np.full(len(earlier), times))
            if distance >= reach:
                continue
            for e, other in enumerate(self.decays):
                beside = e * n_items
                most = min(reach - distance, reach_of(other))
                sums = _geometric(1 / decay + 1 / other, np.minimum(behind, most), most)
                sums *= weight * math.exp(-distance / decay)
                if d >= e:
                    _add(gram, at + earlier, beside + later, sums)
                if distance and e >= d:
                    _add(gram, beside + later, at + earlier, sums)


class Sequences(NamedTuple):
    """Items of user after user, oldest first; how many precede and follow each."""

    items: Ints
    before: Ints
    behind: Ints

    @classmethod
    def of(cls, places: sp.csr_array) -> Sequences:
        """Of places from the end of each user's history: 1 is the latest item."""
        counts = np.diff(places.indptr)
        ends = np.repeat(places.indptr[1:], counts)
        behind = places.data.astype(np.int64) - 1
        order = np.argsort(ends - behind, kind="stable")
        before = (np.repeat(counts, counts) - 1 - behind)[order]
        return cls(places.indices[order].astype(np.int64), before, behind[order])

    def reversed(self) -> Sequences:
        """The same histories, latest first."""
        return Sequences(self.items[::-1], self.behind[::-1], self.before[::-1])

    def pairs(self, distance: int) -> tuple[Ints, Ints, Ints]:
        """Earlier and later items at a distance, and how many follow the later one."""
        later = np.flatnonzero(self.before >= distance)
        return self.items[later - distance], self.items[later], self.behind[later]

    def beside(
        self, step: int, first: int, blocks: Sequence[NDArray[np.float64]], n_items: int
    ) -> sp.csr_array:
        """For each place a row of the items before it (``step`` -1) or behind it (1).

        Each of ``blocks`` has the weights of the distances from ``first`` on.
        """
        room = np.maximum((self.before if step < 0 else self.behind) + 1 - first, 0)
        counts = [np.minimum(room, len(weights)) for weights in blocks]
        indptr = np.append(0, np.cumsum(np.sum(counts, axis=0)))
        indices, data = np.empty(indptr[-1], np.int32), np.empty(indptr[-1])
        begin = indptr[:-1].copy()
        for number, (weights, count) in enumerate(zip(blocks, counts, strict=True)):
            for place, weight in enumerate(weights):
                at = np.flatnonzero(count > place)
                entries = begin[at] + place
                indices[entries] = number * n_items + self.items[at + step * (first + place)]
                data[entries] = weight
            begin += count
        found = sp.csr_array((data, indices, indptr), (len(room), len(blocks) * n_items))
        found.sort_indices()
        return found


def _add(table: Dense, rows: Ints, columns: Ints, values: NDArray[np.float64]) -> None:
    np.add.at(table.reshape(-1), rows * table.shape[1] + columns, values.astype(table.dtype))


def _geometric(rate: float, terms: Ints, most: int) -> NDArray[np.float64]:
    """The sums of the first ``terms`` of 1, e^-rate, e^-2 rate, ...; at most ``most``."""
    sums = np.concatenate([[0.0], np.cumsum(np.exp(-rate * np.arange(most)))])
    return sums[terms]


def _of_target(decay: float, ahead: float, distance: int) -> float:
    """The sum over rows between two items: the weight of the earlier times that of the later."""
    first = np.arange(1, min(distance, reach_of(decay)) + 1)  # distance of the earlier to the row
    beyond = distance - first
    first = first[beyond <= (reach_of(ahead) if ahead else 0)]
    more = (distance - first) / ahead if ahead else 0.0
    return float(np.exp(-(first - 1) / decay - more).sum())
