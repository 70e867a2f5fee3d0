"""Top-K lists by ids, including ids that the model may not know."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import (
    CSR,
    Listed,
    Picked,
    beside,
    check_choice,
    check_length,
    check_memory,
    check_threads,
    counted,
    is_on_gpu,
    is_sparse_on_gpu,
    lazy,
    on_host,
    zero_rows,
)
from mfrank.backends import Backend, Factors
from mfrank.data import (
    FrameKind,
    Interactions,
    OnUnknown,
    canonical,
    check_on_unknown,
    frame_of,
    without_zeros,
)
from mfrank.errors import InputValueError
from mfrank.retrieval.filters import Candidates, columns_of, of_sparse
from mfrank.retrieval.model_state import ModelState
from mfrank.retrieval.queries import Matrix, Queries, given_rows, given_seen
from mfrank.retrieval.seen import Seen
from mfrank.retrieval.side import Raw, Rows, Side, given_ids, is_single
from mfrank.retrieval.top_k import (
    Lists,
    best_rows,
    emptied,
    look_up,
    nearest,
    score,
    similar,
)
from mfrank.steering import Levers
from mfrank.store import FactorStore

# Queries by ids, some of which the model may not know: the lists of unknown ids are padding.


class KnownQueries(NamedTuple):
    """The query ids of a call, looked up, with unknown ids replaced by a placeholder.

    Lists are computed for all ids alike; :meth:`blank` then empties the lists of unknown ids.

    Attributes
    ----------
    side : Side
        The side of the ids.
    ids : id or ids
        Ids of ``side``: the caller's, or row numbers.
    queries : Queries
        The same ids as rows of the model, or as new queries if the call may solve them.
    unknown : bool, shape (U,), or None
        Which of the caller's ids are unknown, on their device; None if unknown ids are an error.
    """

    side: Side
    ids: Raw
    queries: Queries
    unknown: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, side: Side, raw: Raw, on_unknown: OnUnknown) -> KnownQueries:
        """The ids ``raw`` of a side.

        Raises
        ------
        UnknownIdError
            An id is unknown, and ``on_unknown`` is "error".
        """
        rows, n_rows = side.rows_asked(raw, f"{side.name}id", on_unknown), side.ids.size
        if on_unknown == "error":
            return cls(side, raw, Queries(rows, len(rows), n_rows))
        unknown, side = rows < 0, side._replace(by_row=True)
        known = rows[~unknown]
        if len(known) < len(rows):
            if not len(known):
                return cls(side, rows, Queries.new(len(rows)), unknown)
            rows = np.where(unknown, known[:1], rows)
        return cls(side, rows, Queries(rows, len(rows), n_rows), unknown)

    @classmethod
    def to_solve(cls, side: Side, raw: Raw) -> KnownQueries:
        """The ids as queries to solve from their own rows; all may be new."""
        return cls(side, raw, Queries.of_ids(side, raw))

    @property
    def nobody(self) -> bool:
        """Whether there are ids, but the model knows none of them: call :meth:`padding`."""
        return self.unknown is not None and self.queries.rows is None

    @property
    def rows(self) -> Rows:
        """The queries' rows in the model, on their device; none may be new."""
        assert self.queries.rows is not None
        return self.queries.rows

    def padding(self, n: int) -> Lists:
        """Empty lists of length ``n`` for all ids."""
        _check_room(self.queries.n_queries, n)
        shape = self.queries.n_queries, n
        scores = np.full(shape, np.nan, dtype=self.side.factors.dtype)
        return np.full(shape, -1, dtype=np.int32), scores

    def blank(self, lists: Lists) -> Lists:
        """The lists, with the ones of unknown ids emptied."""
        return lists if self.unknown is None else emptied(lists, self.unknown)


@dataclass(eq=False)
class OwnRows:
    """Items of the queries of a call: from the call's matrix or Interactions, else from the fit.

    Fold-in, filters and steering share the rows of the matrix, which are picked and checked once.

    Attributes
    ----------
    known : KnownQueries
    matrix : Matrix, or None
        As in the call.
    answering : Side
        The side of these items.
    fit : Seen, or None
        Of the model.

    Raises
    ------
    ValueError
        The matrix is that of the fit, and its rows are not those of the ids
        (:meth:`Seen.refuse_other_order`).
    """

    known: KnownQueries
    matrix: Matrix | None
    answering: Side
    fit: Seen | None

    def __post_init__(self) -> None:
        if self.fit is not None and self.matrix is not None:
            rows = self.known.queries.rows
            self.fit.refuse_other_order(self.matrix, rows, self.known.side.name, self.argument)

    @property
    def argument(self) -> str:
        """The name of ``matrix`` in the call."""
        return f"{self.known.side.name}_{self.answering.name}s"

    @lazy
    def rows(self) -> sp.csr_array:
        """The rows of ``matrix`` on the host; zeros of Interactions are only seen."""
        side, ids, queries, _ = self.known
        matrix: Any = self.matrix
        if isinstance(matrix, Interactions):
            return given_seen(matrix, ids, side, self.answering, self.argument)
        return given_rows(matrix, ids, side, self.answering, self.argument, queries)

    def seen(self) -> Listed:
        """All seen items, or those that the model leaves out of lists; lists on a GPU stay there.

        Raises
        ------
        ValueError
            Neither the call nor the model has seen items.
        """
        queries = self.known.queries
        if is_sparse_on_gpu(self.matrix):
            lists = of_sparse(self.matrix, len(self.answering.ids), self.argument)
            return queries.pick_lists(lists, self.argument)
        if self.matrix is not None:
            return columns_of(self.rows)
        if self.fit is None:
            raise InputValueError(
                f"`{self.argument}` is needed to filter seen {self.answering.name}s, because this "
                "model has no interactions:",
                f"pass it, or `filter_already_liked_{self.answering.name}s=False`",
            )
        return Picked(self.fit.filtered.rows_of(self.known.side.name), self.known.rows)

    def liked(self) -> Listed:
        """Seen items without the ones that are only seen."""
        if self.matrix is None:
            return replace(self, fit=self.fit and self.fit.liked).seen()
        if is_sparse_on_gpu(self.matrix):
            return self.seen()
        return CSR.from_scipy(without_zeros(self.rows), dtype=None)


Fallback: TypeAlias = Literal["none", "popularity"]
"""What users with nothing to go by get: an empty list, or the items that most users have."""
_FALLBACKS = get_args(Fallback)


class _Lists(NamedTuple):
    """Ids and scores."""

    ids: NDArray[Any]
    scores: NDArray[Any]


class Answer(_Lists):
    """The lists of a call as ids and scores, best first: ``ids, scores = answer``.

    Attributes
    ----------
    ids : shape (N,) for a single query id, (queries, N) for an array of them
        Padded with -1, or None if the ids are not numbers.
    scores : as ``ids``
        Padded with NaN.
    """

    _of_numbers = False

    def of_ids(self, begin_at_0: bool) -> Answer:
        """The same lists, of ids that begin at 0, so that they may be the numbers of rows."""
        self._of_numbers = begin_at_0
        return self

    def like(self, other: Answer) -> Answer:
        """The same lists, of the ids of others."""
        return self.of_ids(other._of_numbers)

    def to_dicts(self) -> list[Any]:
        """Convert to plain Python objects without padding, which ``json.dumps`` can write.

        Returns
        -------
        list
            ``[{"id": ..., "score": ...}, ...]`` for a single query id; for an array, a list of such
            lists in the order of the query ids. Ids are int or str (or of their type in the
            training data), scores are float.

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

    def to_frame(
        self, users: Raw | None = None, items: Any = None, kind: FrameKind = "pandas"
    ) -> Any:
        """Convert to a table, a row for each position without padding.

        Parameters
        ----------
        users : ids, or a DataFrame or Arrow table with a column of them, optional
            The query ids, for a column ``user``; by default it has their positions.
        items : DataFrame, Series, Arrow table or mapping, optional
            Names and other columns to join (:func:`mfrank.data.frames.frame_of`): a mapping of item
            id to name; a table with a column of the item ids; of pandas, also one whose index has
            them. Items that it lacks get a missing value.
        kind : {"pandas", "polars", "arrow"}, default "pandas"
            The table's library.

        Returns
        -------
        DataFrame, or Table of pyarrow
            Columns ``user`` (only for an array of query ids), ``rank`` from 1, ``item``, ``score``,
            and those of ``items``.

        Raises
        ------
        ValueError
            There is not one of ``users`` for each list, ``items`` has an item twice, numbers
            as ids where the lists have text, or a column with one of these names, or ``kind`` has
            no type for the ids.
        ModuleNotFoundError
            If the library is not installed.

        Examples
        --------
        >>> import mfrank
        >>> data = mfrank.Interactions.from_arrays(["a", "a", "b"], ["tea", "pie", "tea"])
        >>> lists = mfrank.Popularity().fit(data).recommend(["b", "a"], N=2)
        >>> print(lists.to_frame(["b", "a"]).to_string(index=False))
        user  rank item  score
           b     1  pie    1.0
        """
        ids, scores = np.atleast_2d(on_host(self.ids)), np.atleast_2d(on_host(self.scores))
        row, place = np.nonzero(~np.isnan(scores))
        columns: dict[str, Any] = {}
        if users is not None or self.ids.ndim == 2:
            queries = np.arange(len(ids)) if users is None else _query_ids(users)
            if len(queries) != len(ids):
                raise InputValueError(
                    f"`users` must be the ids of the {counted(len(ids), 'list')}, got "
                    f"{len(queries)}"
                )
            columns["user"] = queries[row]
        columns |= {"rank": place + 1, "item": ids[row, place], "score": scores[row, place]}
        return frame_of(columns, items, kind, of_numbers=self._of_numbers)


def _query_ids(users: Raw) -> NDArray[Any]:
    """Ids with their types, one or many: numpy makes text of [1, "a"]."""
    ids: Any = given_ids(users, "users")
    return canonical([ids] if is_single(ids) else ids)


_MANY_PLACES, _BYTES_OF_PLACE = 1 << 26, 16
"""Places of lists from which on their memory is checked: of rows, ids and scores."""


@dataclass(frozen=True, slots=True, eq=False)
class ListOptions:
    """The options of a call that apply to all its lists.

    Attributes
    ----------
    n : int
        Length of the lists, the caller's ``N``.
    blocked, only : ids, list of lists of ids, or sparse matrix, optional
        Excluded ids, and the only allowed ids.
    n_threads : int
    backend : Backend
    on_unknown : {"error", "skip"}
        Whether unknown ids in ``blocked`` and ``only`` are an error or left out.
    fallback : {"none", "popularity"}, default "none"
        The lists of users without usable data.

    Raises
    ------
    TypeError, ValueError
        ``n`` or ``n_threads`` is not an integer in its range, or ``on_unknown`` or ``fallback`` is
        invalid.
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
        check_choice("fallback", self.fallback, _FALLBACKS)

    def candidates(self, queries: Queries, answering: Side) -> Candidates:
        """The filters as rows of ``answering``; MemoryError if the lists would have no room."""
        _check_room(queries.n_queries, self.n)
        return Candidates.of(queries, answering, self.blocked, self.only, self.on_unknown)


def _check_room(n_lists: int, n: int) -> None:
    """Raise MemoryError if lists of this length would have no room."""
    if (places := n_lists * int(n)) > _MANY_PLACES:
        lists = f"{counted(n_lists, 'list')} of N={n:,} items"
        check_memory(_BYTES_OF_PLACE * places, lists, "lower `N`")


class ListCall(NamedTuple):
    """A call of ``recommend``: all inputs of its lists, checked and matched by id.

    Attributes
    ----------
    held : ModelState
        The model's state.
    own : OwnRows
        The queries, their items, and the side of the items.
    options : ListOptions
    levers : Levers, or None
    popularity : shape (n_items, 1), or None
        Number of users with each item, if the call has the fallback.
    recalculate : bool, default False
        Whether the queries are solved from ``own.rows``.
    history : Listed, or None
        Liked items of the queries, if levers need them.
    """

    held: ModelState
    own: OwnRows
    options: ListOptions
    levers: Levers | None
    popularity: Factors | None
    recalculate: bool = False
    history: Listed | None = None


class QueryFactors(NamedTuple):
    """Factors (U, K) and biases (U,) of the queries of a call, on the device of their ids."""

    factors: Factors
    biases: NDArray[Any] | None

    @classmethod
    def known(cls, known: KnownQueries, backend: Backend) -> QueryFactors:
        """Factors and biases of queries that are rows of the model."""
        rows, side = known.rows, known.side
        factors = beside(look_up(rows, side.factors, backend), rows)
        if side.biases is None:
            return cls(factors, None)
        return cls(factors, beside(look_up(rows, side.biases, backend), rows))

    def nobody(self, store: FactorStore) -> NDArray[np.bool_]:
        """Queries without factors or item biases to rank by, bool (U,), on the factors' device."""
        empty = zero_rows(self.factors)
        if np.count_nonzero(empty) and store.ranks_anybody:  # faster than `any` for few
            empty[:] = False
        return empty


def best(
    query_factors: QueryFactors,
    answering: Side,
    options: ListOptions,
    candidates: Candidates,
) -> Lists:
    """Rows of the answering side with the highest scores, among rows that the model knows."""
    ids, scores = best_rows(
        query_factors.factors,
        answering.factors,
        options.n,
        candidates,
        answering.biases,
        answering.unmet,
        options.backend,
        options.n_threads,
    )
    if query_factors.biases is not None:
        scores = scores + beside(query_factors.biases, scores)[:, None]
    return ids, scores


def closest(side: Side, raw: Raw, options: ListOptions) -> Answer:
    """Rows of a side with the highest cosine to the rows of the ids ``raw``."""
    known = KnownQueries.of(side, raw, options.on_unknown)
    if known.nobody:
        return answer(known.padding(options.n), side, raw)
    lists = similar(
        known.rows,
        side.directions,
        options.n,
        options.candidates(known.queries, side),
        side.lone,
        options.backend,
        options.n_threads,
    )
    return answer(known.blank(lists), side, raw)


def around(side: Side, raw: Raw, vectors: Factors, options: ListOptions) -> Answer:
    """Rows of a side with the highest cosine to ``vectors``, shape (U, K), of the ids ``raw``."""
    lists = nearest(
        vectors,
        side.factors,
        n=options.n,
        directions=side.directions,
        candidates=options.candidates(Queries.of_ids(side, raw), side),
        unmet=side.lone,
        backend=options.backend,
        n_threads=options.n_threads,
    )
    # A zero vector has no direction, and so no neighbors.
    return answer(emptied(lists, zero_rows(vectors)), side, raw)


def pair_scores(users: Side, items: Side, user_rows: Rows, item_rows: Rows) -> NDArray[Any]:
    """Scores of pairs by factors and biases, NaN where a row is -1: unknown."""
    found = user_rows, item_rows
    rows = [np.maximum(each, 0) for each in found]  # a stand-in for what is unknown
    scores = score(users.factors, items.factors, *rows, item_bias=items.biases)
    if users.biases is not None:
        scores += beside(users.biases[beside(rows[0], users.biases)], scores)
    for each in found:
        scores[beside(each < 0, scores)] = np.nan
    return scores


def answer(lists: Lists, side: Side, raw: Raw) -> Answer:
    """Convert lists to the caller's ids; the list of a single query id is 1-D.

    Results are on the GPU if the query ids ``raw`` are and the result ids are row numbers;
    otherwise on the host.
    """
    rows, scores = lists
    if is_single(raw):
        single = Answer(side.answer(on_host(rows))[0], on_host(scores)[0])
        return single.of_ids(side.ids.begin_at_0)
    on_gpu = is_on_gpu(raw) and side.speaks_rows
    rows, scores = (beside(each, raw) if on_gpu else on_host(each) for each in lists)
    return Answer(side.answer(rows), scores).of_ids(side.ids.begin_at_0)


def _plain(ids: NDArray[Any], scores: NDArray[Any]) -> list[dict[str, Any]]:
    listed = ~np.isnan(scores)
    pairs = zip(ids[listed].tolist(), scores[listed].tolist(), strict=True)
    return [{"id": each, "score": score} for each, score in pairs]
