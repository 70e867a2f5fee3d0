"""Inputs of an evaluation in the model's rows: training, excluded and relevant items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import CSR, all_finite, checked_rows, sparse_to_host
from mfrank.data import Groups, HeldOut, Ids, Interactions, aligned, groups_by_popularity, has_zeros
from mfrank.errors import InputTypeError, InputValueError
from mfrank.evaluation.judgements import find, keys
from mfrank.retrieval import Recommender, RowScorer, Seen, same_cells, without_relevant
from mfrank.store import FactorStore

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_ENTRIES_AT_ONCE = 1 << 22
_CELLS_AT_ONCE = 1 << 24


@dataclass(frozen=True, slots=True, eq=False)
class TrainingData:
    """The training data of an evaluation, on the host; entries are read by blocks.

    Attributes
    ----------
    rows : CSR, shape (n_users, n_items)
        Items of each user.
    item_counts : int64, shape (n_items,)
        Number of users of each item.
    n_users : int
        Number of users with any item.
    excluded : bool
        Whether these items are excluded from the lists.
    groups : Groups
        Groups of items.
    """

    rows: CSR
    item_counts: Ints
    n_users: int
    excluded: bool
    groups: Groups

    @classmethod
    def of(cls, train: sp.csr_array, groups: Groups | None, *, excluded: bool) -> TrainingData:
        """Count the entries of a canonical matrix; by default, groups are thirds by popularity."""
        rows = CSR.from_scipy(train, None)
        counts = np.zeros(rows.n_columns, dtype=np.int64)
        for begin, end in rows.blocks(_ENTRIES_AT_ONCE):
            part = rows.indices[rows.indptr[begin] : rows.indptr[end]]
            counts += np.bincount(part, minlength=len(counts))
        active = int(np.count_nonzero(rows.counts))
        chosen = groups or groups_by_popularity(counts, 3)
        return cls(rows, counts, active, excluded, chosen)

    def cosines(self, ids: NDArray[np.int32]) -> Floats:
        """For each list, the sum of cosines between the users of each ordered pair of items.

        The cosine of items i and j is n_ij / sqrt(n_i n_j), with n_ij the number of users who have
        both. Pairs are counted for a block of listed items at a time.
        """
        items = np.unique(ids[ids >= 0]).astype(np.int64)
        scale = np.append(1 / np.sqrt(np.maximum(self.item_counts[items], 1)), 0.0)
        # The end of a list is as an item without users.
        places = np.where(ids >= 0, np.searchsorted(items, ids), len(items))
        sums = np.zeros(len(ids))
        step = max(1, _CELLS_AT_ONCE // (len(items) + 1))
        for begin in range(0, len(items), step):
            end = min(begin + step, len(items))
            both = self._both(items, begin, end)
            for rank, column in enumerate(places.T):
                lists = np.flatnonzero((column >= begin) & (column < end))
                own = column[lists]
                others = np.delete(places[lists], rank, axis=1)
                cosines = both[own[:, None] - begin, others] * scale[others]
                sums[lists] += cosines.sum(axis=1) * scale[own]
        return sums

    def _both(self, items: Ints, begin: int, end: int) -> NDArray[np.float32]:
        """Users who have both of two items, shape (end - begin, len(items) + 1), the last 0."""
        column_of = np.full(self.rows.n_columns, -1, dtype=np.int32)
        column_of[items] = np.arange(len(items), dtype=np.int32)
        both = np.zeros((end - begin, len(items) + 1), dtype=np.float32)
        for first, last in self.rows.blocks(_ENTRIES_AT_ONCE):
            indptr = self.rows.indptr[first : last + 1]
            columns = column_of[self.rows.indices[indptr[0] : indptr[-1]]]
            listed = np.flatnonzero(columns >= 0)
            kept = np.searchsorted(listed, indptr - indptr[0])
            shape = (last - first, len(items) + 1)
            ones = np.ones(len(listed), dtype=np.float32)
            users = sp.csr_array((ones, columns[listed], kept), shape=shape)
            some = users[:, begin:end]
            if some.nnz:
                found = (some.T.tocsr() @ users).tocoo()
                both[found.coords] += found.data
        return both


@dataclass(frozen=True, slots=True, eq=False)
class KnownLists:
    """The lists of U users, and the training items of these users.

    Attributes
    ----------
    users : int64, shape (U,)
    ids : int32, shape (U, K)
        Listed items, best first, distinct; -1 is padding.
    relevance : float64, shape (U, K)
        Relevance of each listed item in the test data; 0 if it is not relevant.
    known : Known
    """

    users: Ints
    ids: NDArray[np.int32]
    relevance: Floats
    known: TrainingData

    @property
    def lengths(self) -> Ints:
        """Number of items in each list, int64, shape (U,)."""
        lengths: Ints = np.count_nonzero(self.ids >= 0, axis=1)
        return lengths

    def first(self, cutoff: int) -> KnownLists:
        """The top ranks of each list."""
        ids, relevance = self.ids[:, :cutoff], self.relevance[:, :cutoff]
        return KnownLists(self.users, ids, relevance, self.known)

    def portions(self) -> Iterator[tuple[slice, CSR]]:
        """Yield the lists by blocks, with the training items of their users."""
        entries = np.cumsum(self.known.rows.counts[self.users] + self.ids.shape[1])
        begin = 0
        while begin < len(self.users):
            before = entries[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(entries, before + _ENTRIES_AT_ONCE, "right")))
            yield slice(begin, end), self.known.rows.pick(self.users[begin:end])
            begin = end


# The interactions that an evaluation is given, as matrices in the rows of the model.


@runtime_checkable
class HasUserItems(Protocol):
    """Any object with a user-item matrix, such as Interactions."""

    @property
    def user_items(self) -> sp.csr_array:
        """Interactions, shape (n_users, n_items)."""


UserItems: TypeAlias = HasUserItems | sp.sparray | sp.spmatrix
Data = TypeVar("Data", UserItems, UserItems | None)


def ids_of_rows(model: Any, train: UserItems | None) -> tuple[Ids, Ids] | None:
    """The ids of the rows of an evaluation: from the model, else from ``train``.

    The ids of a model that was fitted to a matrix are row numbers. If ``train`` is the interactions
    of that matrix, it provides the ids.
    """
    own, theirs = ids_of(model), ids_of(train)
    if own is None or theirs is None:
        return own or theirs
    seen = getattr(model, "seen", None)
    if isinstance(train, Interactions) and isinstance(seen, Seen):
        numbered = all(ids.table is None for ids in own)
        given = train.user_items
        if numbered and seen.matrix.shape == given.shape and same_cells(seen.matrix, given):
            return theirs
    return own


def ids_of(fitted: Any) -> tuple[Ids, Ids] | None:
    """The ids of the rows of a model or of its training data; None if it has none."""
    users, items = getattr(fitted, "user_ids", None), getattr(fitted, "item_ids", None)
    return (users, items) if isinstance(users, Ids) and isinstance(items, Ids) else None


def cut_of(model: Any, train: Any) -> Recommender | FactorStore | Interactions | None:
    """What knows how the data of a model's fit were cut, if anything was."""
    for each in (model, train):
        if isinstance(each, Recommender | FactorStore | Interactions) and (
            each.threshold is not None or any(each.where.values()) or each.event_weights
        ):
            return each
    return None


def in_rows_of(data: Data, ids: tuple[Ids, Ids] | None, name: str) -> Data:
    """Interactions aligned with these ids; anything else unchanged."""
    return data if ids is None or not isinstance(data, Interactions) else aligned(data, *ids, name)


def matrix_of(rows: UserItems, name: str) -> sp.csr_array:
    """The users x items matrix, canonical and finite; errors begin with ``name``."""
    matrix = rows.user_items if isinstance(rows, HasUserItems) else sparse_to_host(rows)
    if not sp.issparse(matrix):
        raise InputTypeError(
            f"`{name}` must be Interactions or a scipy sparse matrix, got {type(rows).__name__}"
        )
    canonical = checked_rows(matrix, name)
    if not canonical.has_canonical_format:
        canonical = canonical.copy()
        canonical.sum_duplicates()
    if not all_finite(canonical.data):
        raise InputValueError(f"`{name}` must have finite values, got NaN or infinity")
    return canonical


# What users had in training: excluded from their rankings, and known to metrics.


def excluded(
    model: Any, train: UserItems | None, filters: bool, relevance: sp.csr_array
) -> tuple[sp.csr_array, CSR]:
    """Entries to exclude from the ranking: the matrix, and its rows for the kernels.

    Zeros are cells that are only seen in training. They are ranked if ``relevance`` is above 0,
    because a model did not learn from them.
    """
    shape = relevance.shape
    if not filters:
        if train is not None:
            raise InputValueError(
                "`train` is excluded from the ranking:", "leave it out to rank every item"
            )
        nothing = sp.csr_array(shape)
        return nothing, CSR.from_scipy(nothing, None)
    known: Seen | None = getattr(model, "seen", None)
    if train is None:
        if not isinstance(known, Seen):
            raise InputValueError(
                "`train` is needed: the interactions that the model was fitted to, which are "
                "excluded from the ranking",
                "Pass them, or `filter_already_liked_items=False` to rank every item",
            )
        known = known.filtered
        seen, rows, some_only = known.matrix, known.rows_of("user"), known.has_only
    elif isinstance(train, Interactions):
        seen, rows, some_only = train.seen, train.seen_rows(), train.seen_only is not None
    else:
        seen = matrix_of(train, "train")
        rows, some_only = CSR.from_scipy(seen, None), has_zeros(seen)
    if seen.shape != shape:
        name = "train" if train is not None else "the data of the fit"
        raise InputValueError(
            f"`{name}` must have test's shape {shape}, got {seen.shape}",
            "give test the rows and columns of the training data, or pass Interactions, which are "
            "matched by id: `Interactions.from_frame(test, user_ids=train.user_ids, "
            "item_ids=train.item_ids)`",
        )
    if some_only and (ranked := without_relevant(seen, relevance)) is not seen:
        return ranked, CSR.from_scipy(ranked, None)
    return seen, rows


def had_in_training(model: Any, shape: tuple[int, int]) -> sp.csr_array:
    """Training items of the users, for evaluations that exclude nothing."""
    known: Seen | None = getattr(model, "seen", None)
    if not isinstance(known, Seen):
        raise InputValueError(
            "metrics beyond accuracy need the training data, and the model keeps none:",
            "pass train, without `filter_already_liked_items=False`",
        )
    if known.matrix.shape != shape:
        raise InputValueError(f"`test` must have the shape of the fit's data {known.matrix.shape}")
    return known.positives


# The test entries that are relevant, by blocks of users.


_TEST_ENTRIES_AT_ONCE = 1 << 22


class Relevant(NamedTuple):
    """The relevant items of some users.

    Attributes
    ----------
    users : int64, shape (U,)
        Users with a relevant item.
    items : csr_array, shape (U, n_items)
        Test entries above 0 that are not in the training data.
    n_in_train : int
        Number of test entries above 0 that are in the training data.
    """

    users: NDArray[np.int64]
    items: sp.csr_array
    n_in_train: int


def relevant_of(test: sp.csr_array, seen: CSR, requested: NDArray[np.int64]) -> Iterator[Relevant]:
    """Yield the requested users by blocks of about four million entries."""
    entries = np.diff(test.indptr)[requested] + seen.counts[requested]
    ends = np.searchsorted(
        np.cumsum(entries), np.arange(_TEST_ENTRIES_AT_ONCE, entries.sum(), _TEST_ENTRIES_AT_ONCE)
    )
    for users in np.split(requested, np.unique(ends)):
        cells = CSR.from_scipy(test[users], np.float64)
        values = np.asarray(cells.data)
        _, known = find(keys(seen.pick(users)), keys(cells))
        positive = values > 0
        kept = np.flatnonzero(positive & ~known)
        indptr = np.searchsorted(kept, cells.indptr)
        listed = np.flatnonzero(np.diff(indptr))
        items = sp.csr_array(
            (values[kept], cells.indices[kept], np.append(indptr[listed], indptr[-1])),
            shape=(len(listed), test.shape[1]),
        )
        yield Relevant(users[listed], items, int(np.count_nonzero(positive & known)))


def blocks(
    found: Iterator[Relevant], size: int
) -> Iterator[tuple[NDArray[np.int64], sp.csr_array]]:
    """Regroup blocks into blocks of ``size`` users; the last may be smaller."""
    users: NDArray[np.int64] = np.empty(0, np.int64)
    rows: sp.csr_array | None = None
    for part in found:
        users = np.concatenate([users, part.users])
        rows = part.items if rows is None else sp.vstack([rows, part.items], format="csr")
        whole = len(users) - len(users) % size
        for begin in range(0, whole, size):
            yield users[begin : begin + size], rows[begin : begin + size]
        users, rows = users[whole:], rows[whole:]
    if rows is not None and len(users):
        yield users, rows


# Users whom a model does not know, folded in to be evaluated.


def folded_in(
    model: Any, held_out: HeldOut, train: object, filters: bool
) -> tuple[Any, Interactions]:
    """The fold-in part, and a function that recommends to users from it."""
    if train is not None or not filters:
        raise InputValueError(
            "held-out users are folded in from test.fold_in, which is excluded from the ranking:",
            "leave out `train` and `filter_already_liked_items`",
        )
    recommend = getattr(model, "recommend", None)
    if not callable(recommend) or "recalculate_user" not in signature(recommend).parameters:
        raise InputTypeError(
            "to fold in held-out users, `model` must have a method `recommend(users, user_items, "
            f"N=, recalculate_user=)`; got {type(model).__name__}"
        )
    known, own = ids_of(model), (held_out.fold_in.user_ids, held_out.fold_in.item_ids)
    for theirs, mine in zip(known or own, own, strict=True):
        if theirs != mine:
            raise InputValueError(
                "the model has other users or items than the split of the held-out users:",
                "fit it to split.train, with its ids",
            )
    fold_in = held_out.fold_in
    if fold_in.timestamps is None or not isinstance(model, RowScorer):
        return partial(recommend, recalculate_user=True), fold_in
    return _WithTimes(recommend, fold_in), fold_in


@dataclass(frozen=True)
class _WithTimes:
    """Lists from interactions: rows of a matrix have no times, and walks begin at the latest."""

    func: Any
    fold_in: Interactions

    def __call__(self, users: ArrayLike, _: Any, N: int) -> Any:
        return self.func(users, self.fold_in, N, recalculate_user=True, by_row=True)
