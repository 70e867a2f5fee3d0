"""Lists of users for ranking losses: all of their items, or a sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.amounts import check_count
from mfrank.csr import CSR
from mfrank.lists import Lists

__all__ = ["Drawn", "ListDrawer"]

_ROUNDS = 50  # of redrawing items a user likes; what is left then is padding


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Lists, and the items at their places: int64, shape (B, L) and (B, M); 0 where padded."""

    lists: Lists
    like_items: NDArray[np.int64]
    other_items: NDArray[np.int64]


class ListDrawer:
    """Draws lists of users' rows.

    Parameters
    ----------
    rows : CSR
        Observed cells by users; each counts as a like of gain 1.
    likes, others : int or None
        Most likes, drawn without replacement, and number of other items, drawn uniformly with
        replacement, of a user; None takes all.
    cutoff : int, optional
        Places that count in the ideal gain; default all.
    """

    def __init__(
        self, rows: CSR, likes: int | None, others: int | None, cutoff: int | None = None
    ) -> None:
        for name, amount in (("likes", likes), ("others", others)):
            if amount is not None:
                check_count(name, amount, 1)
        self._rows, self._likes, self._others = rows, likes, others
        users = np.repeat(np.arange(rows.n_rows, dtype=np.int64), rows.counts)
        self._keys = users * rows.n_columns + rows.indices
        most = int(rows.counts.max(initial=0))
        discounts = 1 / np.log2(2 + np.arange(most))
        if cutoff is not None:
            discounts[cutoff:] = 0
        self._ideal = np.concatenate([[1.0], np.cumsum(discounts)])

    def draw(self, users: NDArray[np.int64], random: np.random.Generator) -> Drawn:
        """Lists of users who like something."""
        counts = self._rows.counts[users]
        cells = self._draw_likes(users, counts, random)
        filled = cells >= 0
        others, there = self._draw_others(users, random)
        n_items = np.full(len(users), float(self._rows.n_columns))
        chances = None
        if self._others is not None:
            odds = self._others / np.maximum(n_items - counts, 1)
            chances = np.broadcast_to(np.log(odds)[:, None], others.shape)
        lists = Lists(
            gains=filled.astype(np.float64),
            others=there,
            n_likes=counts.astype(np.float64),
            n_items=n_items,
            ideal=self._ideal[counts],
            cells=cells,
            users=users,
            log_chances=chances,
        )
        return Drawn(lists, np.where(filled, self._rows.indices[cells], 0).astype(np.int64), others)

    def _draw_likes(
        self, users: NDArray[np.int64], counts: NDArray[np.int64], random: np.random.Generator
    ) -> NDArray[np.int64]:
        """Cells of likes, shape (B, L), -1 for padding."""
        begins = np.concatenate([[0], np.cumsum(counts)])
        rows = np.repeat(np.arange(len(users)), counts)
        place = np.arange(begins[-1]) - begins[rows]
        cells = self._rows.indptr[users][rows] + place
        if self._likes is not None:
            # Sorted by random keys within each row, the first are a sample without replacement.
            cells = cells[np.lexsort((random.random(len(cells)), rows))]
        width = int(counts.max(initial=1))
        width = width if self._likes is None else min(width, self._likes)
        found = np.full((len(users), width), -1, dtype=np.int64)
        kept = place < width
        found[rows[kept], place[kept]] = cells[kept]
        return found

    def _draw_others(
        self, users: NDArray[np.int64], random: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Items, and whether each may stand: it is none of the user's."""
        n_items = self._rows.n_columns
        if self._others is None:
            items = np.broadcast_to(np.arange(n_items), (len(users), n_items))
            return items, ~self._liked(users[:, None], items)
        items = random.integers(n_items, size=(len(users), self._others))
        liked = self._liked(users[:, None], items)
        for _ in range(_ROUNDS):
            row, place = np.nonzero(liked)
            if not len(row):
                break
            items[row, place] = random.integers(n_items, size=len(row))
            liked[row, place] = self._liked(users[row], items[row, place])
        return items, ~liked

    def _liked(self, users: NDArray[Any], items: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether each user likes each item."""
        wanted = users * self._rows.n_columns + items
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.asarray(self._keys[at] == wanted)
