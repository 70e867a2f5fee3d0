"""Top-K lists by ids, also of queries that the model may not know."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays import (
    Listed,
    beside,
    check_choice,
    check_length,
    check_threads,
    is_on_gpu,
    on_host,
)
from mfrank.backends import Backend, Factors
from mfrank.data import OnUnknown, check_on_unknown
from mfrank.retrieval.filters import Candidates, Queries
from mfrank.retrieval.side import Raw, Side, is_single
from mfrank.retrieval.top_k import Lists, emptied, look_up, nearest, recommend, similar

# Queries by ids, some of which the model may not know: the lists of unknown ids are padding.


class KnownQueries(NamedTuple):
    """The query ids of a call, with unknown ids replaced by a placeholder.

    So the lists are made as for any ids, and :meth:`blank` then empties those of unknown ids.

    Attributes
    ----------
    side : Side
        The side of the ids.
    ids : id or ids
        What to look up in ``side``: as given, or row numbers.
    unknown : bool, shape (U,), or None
        Which of the given ids are unknown, on their device; None if unknown ids are an error,
        which the look-up raises.
    """

    side: Side
    ids: Raw
    unknown: NDArray[np.bool_] | None

    @classmethod
    def of(cls, side: Side, raw: Raw, on_unknown: OnUnknown) -> KnownQueries:
        """The ids ``raw`` of a side."""
        if on_unknown == "error":
            return cls(side, raw, None)
        rows = side.rows_there(raw, f"{side.name}id", missing=-1)
        unknown = rows < 0
        known = rows[~unknown]
        stand_ins = np.where(unknown, known[:1], rows) if len(known) else rows
        return cls(replace(side, by_row=True), stand_ins, unknown)

    @property
    def nobody(self) -> bool:
        """Whether there are ids, but the model knows none of them: call :meth:`padding`."""
        return self.unknown is not None and len(self.unknown) > 0 and bool(self.unknown.all())

    def padding(self, n: int) -> Lists:
        """Empty lists of length ``n`` for all ids."""
        return _padding((np.size(self.ids), n), self.side.factors.dtype)  # type: ignore[arg-type]

    def blank(self, lists: Lists) -> Lists:
        """The lists, in which those of unknown ids are now empty."""
        return lists if self.unknown is None else emptied(lists, self.unknown)


def _padding(shape: tuple[int, int], dtype: DTypeLike) -> tuple[NDArray[np.int32], NDArray[Any]]:
    return np.full(shape, -1, dtype=np.int32), np.full(shape, np.nan, dtype=dtype)


Fallback: TypeAlias = Literal["none", "popularity"]
"""What users with nothing to go by get: an empty list, or the items that most users have."""


class Answer(NamedTuple):
    """The ids of the lists of a call and their scores, best first: ``ids, scores = answer``.

    Attributes
    ----------
    ids : shape (N,) for a single query id, (queries, N) for an array of them
        Padded with -1, or None if the ids are not numbers.
    scores : as ``ids``
        Padded with NaN.
    """

    ids: NDArray[Any]
    scores: NDArray[Any]

    def to_dicts(self) -> list[Any]:
        """Convert to plain Python objects without padding, which ``json.dumps`` can write.

        Returns
        -------
        list
            ``[{"id": ..., "score": ...}, ...]`` for a single query id; for an array of them, a list
            of such lists in the order of the query ids. Ids are int or str (or of the type that
            they have in the training data), scores float.

        Examples
        --------
        >>> import json
        >>> import mfrank
        >>> store = mfrank.FactorStore([[1.0]], [[0.5], [2.0]], item_ids=["tea", "pie"])
        >>> answer = mfrank.Recommender.of(store).recommend(0, filter_already_liked_items=False)
        >>> json.dumps(answer.to_dicts())
        '[{"id": "pie", "score": 2.0}, {"id": "tea", "score": 0.5}]'
        """
        ids, scores = on_host(self.ids), on_host(self.scores)
        if ids.ndim == 1:
            return _plain(ids, scores)
        return [_plain(*row) for row in zip(ids, scores, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class ListOptions:
    """The options of a call that all its lists share.

    Attributes
    ----------
    n : int
        Length of the lists, the caller's ``N``.
    blocked, only : ids, list of lists of ids, or sparse matrix, optional
        Ids that the lists must not contain, and the only ids that they may contain.
    n_threads : int
    backend : Backend
    on_unknown : {"error", "skip"}
        Whether unknown ids in ``blocked`` and ``only`` are an error or left out.
    fallback : {"none", "popularity"}, default "none"
        What users with nothing to go by get.

    Raises
    ------
    TypeError, ValueError
        ``n`` or ``n_threads`` is not an integer in its range, or ``on_unknown`` or ``fallback`` is
        not one of the two.
    """

    n: int
    blocked: Any
    only: Any
    n_threads: int
    backend: Backend
    on_unknown: OnUnknown
    fallback: Fallback = "none"

    def __post_init__(self) -> None:
        check_length("N", self.n)
        check_threads(self.n_threads)
        check_on_unknown(self.on_unknown)
        check_choice("fallback", self.fallback, get_args(Fallback))

    def candidates(
        self, queries: Queries, answering: Side, seen: sp.csr_array | Listed | None = None
    ) -> Candidates:
        """The filters as rows of ``answering``; ``seen`` has one row per query."""
        name, on_unknown = f"{answering.name}s", self.on_unknown
        return Candidates.of(
            Queries.new(queries.n_queries),  # Side.filter has already picked one row per query
            len(answering.ids),
            user_items=seen,
            filter_items=answering.filter(self.blocked, queries, f"filter_{name}", on_unknown),
            items=answering.filter(self.only, queries, name, on_unknown),
        )


class QueryFactors(NamedTuple):
    """The queries of a call with their factors (U, K) and biases (U,), next to the query ids.

    Query ids on a GPU have their factors and biases there too.
    """

    queries: Queries
    factors: Factors
    biases: NDArray[Any] | None

    @classmethod
    def known(cls, known: KnownQueries, backend: Backend) -> QueryFactors:
        """Queries that are rows of the model; UnknownIdError if an id is unknown."""
        side, raw, _ = known
        rows = side.rows_there(raw, f"{side.name}id")
        factors = beside(look_up(rows, side.factors, backend), rows)
        biases = side.biases
        if biases is not None:
            biases = beside(look_up(rows, biases, backend), rows)
        return cls(Queries.known(rows, len(side.ids)), factors, biases)


class Folded(NamedTuple):
    """Factors (U, K) of users that were solved from their rows, and their biases (U,) or None."""

    factors: Factors
    biases: NDArray[Any] | None


def best(
    query_factors: QueryFactors,
    answering: Side,
    options: ListOptions,
    candidates: Candidates,
) -> Lists:
    """Rows of the answering side with the highest scores, of those that the model knows."""
    ids, scores = recommend(
        query_factors.factors,
        answering.factors,
        n=options.n,
        candidates=candidates,
        item_bias=answering.biases,
        unmet=answering.unmet(),
        backend=options.backend,
        n_threads=options.n_threads,
    )
    if query_factors.biases is not None:
        scores = scores + beside(query_factors.biases, scores)[:, None]
    return ids, scores


def closest(side: Side, raw: Raw, options: ListOptions) -> Answer:
    """Rows of a side with the highest cosine to its rows of the ids ``raw``."""
    known = KnownQueries.of(side, raw, options.on_unknown)
    if known.nobody:
        return answer(known.padding(options.n), side, raw)
    rows = known.side.rows_there(known.ids, f"{side.name}id")
    lists = similar(
        rows,
        side.factors,
        n=options.n,
        directions=side.directions(),
        candidates=options.candidates(Queries.known(rows, len(side.ids)), side),
        unmet=side.lone(),
        backend=options.backend,
        n_threads=options.n_threads,
    )
    return answer(known.blank(lists), side, raw)


def around(side: Side, raw: Raw, vectors: Factors, options: ListOptions) -> Answer:
    """Rows of a side with the highest cosine to ``vectors``, shape (U, K), those of ids ``raw``."""
    lists = nearest(
        vectors,
        side.factors,
        n=options.n,
        directions=side.directions(),
        candidates=options.candidates(side.queries(raw), side),
        unmet=side.lone(),
        backend=options.backend,
        n_threads=options.n_threads,
    )
    # A zero vector has no direction, and so no neighbors.
    nothing: NDArray[np.bool_] = np.logical_not(vectors.any(axis=1))
    return answer(emptied(lists, nothing), side, raw)


def answer(lists: Lists, side: Side, raw: Raw) -> Answer:
    """Convert lists to the caller's ids; a single query id gets a 1-D list.

    Results are on the GPU if the query ids ``raw`` are and the result ids are row numbers;
    otherwise on the host.
    """
    on_gpu = is_on_gpu(raw) and side.speaks_rows
    rows, scores = (beside(each, raw) if on_gpu else on_host(each) for each in lists)
    ids = side.answer(rows)
    return Answer(ids[0], scores[0]) if is_single(raw) else Answer(ids, scores)


def _plain(ids: NDArray[Any], scores: NDArray[Any]) -> list[dict[str, Any]]:
    listed = ~np.isnan(scores)
    pairs = zip(ids[listed].tolist(), scores[listed].tolist(), strict=True)
    return [{"id": each, "score": score} for each, score in pairs]
