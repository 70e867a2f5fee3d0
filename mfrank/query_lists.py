"""Lists of judged documents for ranking losses: each query whole, likes by their grades."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mfrank.lists import Lists

__all__ = ["Listed", "QueryLists"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """Lists of B queries, and the n documents that fill them: likes first, row by row."""

    lists: Lists
    documents: Ints

    def spread(self, values: Floats) -> tuple[Floats, Floats]:
        """Numbers of the documents at their places, (B, L) and (B, M), 0 where padded."""
        likes, others = np.zeros(self.lists.gains.shape), np.zeros(self.lists.others.shape)
        n_likes = np.count_nonzero(self.lists.likes)
        likes[self.lists.likes], others[self.lists.others] = values[:n_likes], values[n_likes:]
        return likes, others

    def gather(self, likes: Floats, others: Floats) -> Floats:
        """Numbers at the places as one of each document; undoes :meth:`spread`."""
        return np.concatenate([likes[self.lists.likes], others[self.lists.others]])


class QueryLists:
    """Every query's documents as lists: relevant ones are likes of gain 2^relevance - 1.

    Parameters
    ----------
    relevance : float64, shape (n_documents,)
    queries : int64, shape (n_documents,)
        Row of each document's query.
    n_queries : int
    cutoff : int, optional
        Places that count in the ideal gain; default all.

    Attributes
    ----------
    active : int64
        Queries with a relevant document; no list is made of others.
    n_cells : int
        Relevant documents; each is a cell that losses remember.
    """

    def __init__(
        self, relevance: Floats, queries: Ints, n_queries: int, cutoff: int | None = None
    ) -> None:
        order = np.lexsort((-relevance, queries))  # by query, the most relevant first
        self._documents = order
        self._gains = np.expm1(np.log(2) * relevance[order])
        self._sizes = np.bincount(queries, minlength=n_queries)
        self._n_likes = np.bincount(queries, relevance > 0, minlength=n_queries).astype(np.int64)
        self._begins = np.cumsum(self._sizes) - self._sizes
        self._first_cells = np.cumsum(self._n_likes) - self._n_likes
        places = np.arange(len(order)) - self._begins[queries[order]]
        discounts = 1 / np.log2(2 + places) * (places < (cutoff or len(order)))
        self._ideal = np.bincount(queries[order], self._gains * discounts, minlength=n_queries)
        self.active = np.flatnonzero(self._n_likes)
        self.n_cells = int(self._n_likes.sum())
        self.n_queries = n_queries

    def of(self, queries: Ints) -> Listed:
        """Lists of some of the active queries, each whole."""
        begins, n_likes, sizes = self._begins[queries], self._n_likes[queries], self._sizes[queries]
        likes, at_likes = _places(begins, n_likes)
        others, at_others = _places(begins + n_likes, sizes - n_likes)
        gains = np.zeros(likes.shape)
        gains[likes] = self._gains[at_likes[likes]]
        cells = self._first_cells[queries][:, None] + np.arange(likes.shape[1])
        lists = Lists(
            gains=gains,
            others=others,
            n_likes=n_likes.astype(np.float64),
            n_items=sizes.astype(np.float64),
            ideal=self._ideal[queries],
            cells=np.where(likes, cells, -1),
            users=queries,
        )
        filled = np.concatenate([at_likes[likes], at_others[others]])
        return Listed(lists, self._documents[filled])


def _places(begins: Ints, counts: Ints) -> tuple[NDArray[np.bool_], Ints]:
    """Rows of consecutive numbers padded to one width, at least 1, and what of them is there."""
    place = np.arange(max(int(counts.max()), 1))
    return place < counts[:, None], begins[:, None] + place
