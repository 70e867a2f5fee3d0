"""Lists for those who ask: filters brought to row numbers, biases added, answers in raw ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.amounts import check_length
from mfrank.arrays import beside, on_host
from mfrank.backends import Backend, Factors
from mfrank.cores import check_threads
from mfrank.foreign import is_on_gpu
from mfrank.picked import Listed
from mfrank.retrieval.asked import Asked
from mfrank.retrieval.candidates import Candidates
from mfrank.retrieval.recommend import Lists, look_up, recommend, similar
from mfrank.retrieval.sides import Raw, Side, is_single

__all__ = ["Answer", "Asking", "Wanted", "answer", "best", "closest"]

Answer: TypeAlias = tuple[NDArray[Any], NDArray[Any]]
"""Ids and scores: 1-D for one id asked about, 2-D (ids asked about, N) for many."""


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """What a call wants of its lists.

    Attributes
    ----------
    n : int
        Their length, the caller's ``N``.
    blocked, only : ids, list of lists of ids, or scipy sparse, optional
        What they must not hold, and the only ones they may.
    n_threads : int
    backend : Backend
    """

    n: int
    blocked: Any
    only: Any
    n_threads: int
    backend: Backend

    def __post_init__(self) -> None:
        check_length("N", self.n)
        check_threads(self.n_threads)

    def candidates(
        self, asked: Asked, answering: Side, seen: sp.csr_array | Listed | None = None
    ) -> Candidates:
        """What each list may hold; ``seen`` has one row for each list."""
        name = f"{answering.name}s"
        return Candidates.of(
            Asked.new(asked.n_queries),  # every filter is brought to one row per query
            len(answering.ids),
            user_items=seen,
            filter_items=answering.filter(self.blocked, asked, f"filter_{name}"),
            items=answering.filter(self.only, asked, name),
        )


class Asking(NamedTuple):
    """Who asks, with their factors and biases, which lie where the ids asked about do.

    Of ids on a GPU, factors are looked up where the backend reads them.
    """

    asked: Asked
    factors: Factors
    biases: NDArray[Any] | None

    @classmethod
    def known(cls, side: Side, raw: Raw, argument: str, backend: Backend) -> Asking:
        """Rows of the model; ValueError where an id is unknown."""
        rows = side.rows_there(raw, argument)
        factors = beside(look_up(rows, side.factors, backend), rows)
        biases = side.biases
        if biases is not None:
            biases = beside(look_up(rows, biases, backend), rows)
        return cls(Asked.known(rows, len(side.ids)), factors, biases)


def best(
    asking: Asking, answering: Side, wanted: Wanted, seen: sp.csr_array | Listed | None
) -> Lists:
    """Rows of the answering side by score."""
    ids, scores = recommend(
        asking.factors,
        answering.factors,
        n=wanted.n,
        candidates=wanted.candidates(asking.asked, answering, seen),
        item_bias=answering.biases,
        backend=wanted.backend,
        n_threads=wanted.n_threads,
    )
    if asking.biases is not None:
        scores = scores + beside(asking.biases, scores)[:, None]
    return ids, scores


def closest(side: Side, raw: Raw, wanted: Wanted) -> Answer:
    """Rows of a side by the cosine of their factors with those of its own rows ``raw``."""
    rows = side.rows_there(raw, f"{side.name}id")
    lists = similar(
        rows,
        side.factors,
        n=wanted.n,
        directions=side.directions(),
        candidates=wanted.candidates(Asked.known(rows, len(side.ids)), side),
        backend=wanted.backend,
        n_threads=wanted.n_threads,
    )
    return answer(lists, side, raw)


def answer(lists: Lists, side: Side, raw: Raw) -> Answer:
    """Lists in callers' ids, the only one alone where one id was asked about.

    They lie where the ids asked about do; where those answered have labels, on the host.
    """
    there = is_on_gpu(raw) and side.speaks_rows
    rows, scores = (beside(each, raw) if there else on_host(each) for each in lists)
    ids = side.answer(rows)
    return (ids[0], scores[0]) if is_single(raw) else (ids, scores)
