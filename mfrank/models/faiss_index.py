"""A factor store as faiss indexes, and filtered lists from an index that cannot filter."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, check_choice, check_count, check_instance, needs
from mfrank.data import Ids
from mfrank.errors import InputValueError, unreadable, within
from mfrank.files import path_of, replacing
from mfrank.models.exchange import check_exportable, with_bias_columns
from mfrank.retrieval import Recommender, given_ids, refuse_marks, sides
from mfrank.store import FactorStore, check_ranks_by_factors

StrPath = str | os.PathLike[str]
_SIDES = ("item", "user")
_WRITTEN_BY_FAISS = "pass a file that `mfrank.to_faiss` wrote"
_MOST_FETCHED = 1 << 24  # numbers that faiss returns at once
_COMPARED = 1 << 16  # vectors that are compared at once


def to_faiss(
    store: FactorStore,
    path: StrPath,
    side: Literal["item", "user"] = "item",
    factory: str = "Flat",
) -> Path:
    """Write one side's factors as a faiss index of inner products, for ``faiss.read_index``.

    Vector r belongs to row r, whose id is ``store.item_ids.raw(r)``. Biases, if the store has them,
    become additional columns of the vectors of both sides, so that inner products are scores. A
    query is then a row of the other side's index, not of its factors. faiss computes in float32.

    Parameters
    ----------
    store : FactorStore
    path : path
        The file, such as ``items.faiss``.
    side : {"item", "user"}, default "item"
        "item" to search recommendations, "user" to search an item's audience.
    factory : str, default "Flat"
        Description of the index for ``faiss.index_factory``. ``"Flat"`` is exact, and the only kind
        that :func:`from_faiss` reads; ``"IVF256,Flat"`` and ``"HNSW32"`` are faster and
        approximate. The index is trained on all rows.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    ModuleNotFoundError
        The package faiss is not installed.
    ValueError
        The model of the store does not rank by its factors alone, such as :class:`mfrank.EASE`; or
        faiss does not know ``factory``, or cannot train it on so few rows.
    OSError
        Writing fails; an old file is unchanged.
    """
    check_exportable(store)
    check_choice("side", side, _SIDES)
    check_instance("factory", factory, str, 'a text that faiss.index_factory reads, as "Flat"')
    faiss = _faiss()
    vectors = _single(with_bias_columns(store)[0 if side == "user" else 1])
    try:
        index = faiss.index_factory(vectors.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
        if not index.is_trained:
            index.train(vectors)
        index.add(vectors)
    except RuntimeError as error:
        raise InputValueError(
            f"faiss cannot make an index {factory!r} of {len(vectors):,} vectors of "
            f"{vectors.shape[1]}: {_reason(error)}",
            "pass another `factory`",
        ) from error
    with replacing(path_of(path)) as draft:
        try:
            faiss.write_index(index, str(draft))
        except RuntimeError as error:
            raise OSError(f"{path} cannot be written: {_reason(error)}") from error
    return path_of(path)


def from_faiss(
    users: StrPath, items: StrPath, *, user_ids: Ids | None = None, item_ids: Ids | None = None
) -> FactorStore:
    """Read a store from the flat indexes of its users and items.

    Columns of biases stay columns of the factors, with the same recommendations. Factors are
    float32.

    Parameters
    ----------
    users, items : path
        Files of :func:`to_faiss` for the two sides, or other flat indexes of inner products.
    user_ids, item_ids : Ids, default the row numbers
        Ids of the rows, which faiss does not save.

    Raises
    ------
    ModuleNotFoundError
        The package faiss is not installed.
    FileNotFoundError
        There is no such file.
    ValueError
        A file is not a flat index of inner products, or the two files or the ids do not match.
    """
    of_users, of_items = _vectors(users), _vectors(items)
    try:
        return FactorStore(
            of_users,
            of_items,
            Ids.numbered(len(of_users)) if user_ids is None else user_ids,
            Ids.numbered(len(of_items)) if item_ids is None else item_ids,
        )
    except (TypeError, ValueError) as error:
        raise within(f"{users} and {items}", error) from error


class FaissAnswer(NamedTuple):
    """Lists from a faiss index.

    Attributes
    ----------
    ids, scores : shape (users, N)
        As from :meth:`mfrank.Recommender.recommend`.
    exact : bool, shape (users,)
        Whether the list is certain to be the best N of all items: the index is exact, and either N
        fetched items passed the filters or all items were fetched.
    """

    ids: NDArray[Any]
    scores: NDArray[Any]
    exact: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class FaissLists:
    """Filtered lists from a faiss index of a model's items: more than N items are fetched.

    Parameters
    ----------
    model : Recommender
        The model of the users, which also has their seen items.
    index : path or faiss index
        A file of :func:`to_faiss`, or any inner-product index of the same vectors by row.

    Raises
    ------
    ModuleNotFoundError
        The package faiss is not installed.
    ValueError
        The index does not match the model's items, or the model does not rank by its factors alone.

    Examples
    --------
    >>> import mfrank
    >>> model = mfrank.ALS(factors=4).fit(mfrank.synthetic(50, 30, 300, random_state=0))
    >>> path = mfrank.to_faiss(model.store, "items.faiss")  # doctest: +SKIP
    >>> lists = mfrank.FaissLists(model, path)  # doctest: +SKIP
    >>> ids, scores, exact = lists.recommend([0, 1], N=5)  # doctest: +SKIP
    """

    model: Recommender
    index: Any
    _of: Recommender = field(init=False)
    """The model as it was when the index was compared with it."""

    def __post_init__(self) -> None:
        check_instance("model", self.model, Recommender, "a fitted model")
        check_ranks_by_factors(self.model.store, "use its own recommend")
        faiss = _faiss()
        index = self.index
        if isinstance(index, str | os.PathLike):
            index = _read(index)
            object.__setattr__(self, "index", index)
        check_instance("index", index, faiss.Index, "the path of a faiss index, or one in memory")
        if index.metric_type != faiss.METRIC_INNER_PRODUCT:
            raise InputValueError(
                "`index` must be one of inner products", "make it with mfrank.to_faiss"
            )
        self._check(model := self.model._snapshot())
        object.__setattr__(self, "_of", model)

    def _check(self, model: Recommender) -> None:
        """Raise ValueError unless the index has the items of a model, as far as it can be seen."""
        items = _single(with_bias_columns(model.store)[1])
        if (self.index.ntotal, self.index.d) != items.shape:
            raise InputValueError(
                f"`index` has {self.index.ntotal:,} vectors of {self.index.d}, and the model's "
                f"items are {len(items):,} vectors of {items.shape[1]}",
                "make it with mfrank.to_faiss",
            )
        if not _holds(self.index, items):
            raise InputValueError(
                "`index` has other vectors than the model's items: it is of another model, or of "
                "this one before a fit, an update or a removal",
                "make it with mfrank.to_faiss",
            )

    def _as_now(self) -> Recommender:
        """The model as it is now, if the index is still of its items.

        Raises
        ------
        ValueError
            The items have changed since the index was compared with them.
        """
        model = self.model._snapshot()
        if model._is_as(self._of):
            return model
        before, now = self._of.store, model.store
        if before.item_ids != now.item_ids or not all(
            np.array_equal(one, other)
            for one, other in zip(_of_items(before), _of_items(now), strict=True)
        ):
            raise InputValueError(
                "`index` is of the model's items as they were before a fit, an update or a removal",
                "write it again with mfrank.to_faiss, and make FaissLists of it",
            )
        object.__setattr__(self, "_of", model)
        return model

    def recommend(
        self,
        userid: Any,
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: Any = None,
        *,
        fetch: int | None = None,
    ) -> FaissAnswer:
        """Best items of users.

        Parameters
        ----------
        userid : id, or 1-D array-like of ids
        N : int, default 10
        filter_already_liked_items : bool, default True
            Leave out the users' seen items.
        filter_items : ids, optional
            Items to exclude for all users.
        fetch : int or None, default None
            Number of items to fetch from the index, at least N. None fetches N plus the number of
            items filtered for the user, which is always enough.

        Returns
        -------
        FaissAnswer
            ``exact`` is false if the index is approximate, or ``fetch`` was too small.

        Raises
        ------
        UnknownIdError
            A user or item is unknown.
        ValueError
            ``N`` or ``fetch`` is out of range, the model has no seen items, or its items have
            changed since the index was built.
        """
        check_count("N", N, 1)
        if fetch is not None:
            check_count("fetch", fetch, N)
        model = self._as_now()
        store = model.store
        userids: Any = given_ids(userid, "userid")
        users, answering = sides(store)
        rows = users.rows(userids, "userid")
        banned = np.empty(0, np.int64)
        if filter_items is not None:
            ids = given_ids(filter_items, "filter_items", ordered=False)
            refuse_marks(ids, store.item_ids, "filter_items")
            banned = np.unique(answering.rows(ids, "filter_items"))
        found = np.full((len(rows), N), -1, np.int64)
        scores = np.full((len(rows), N), np.nan, np.float32)
        exact = np.zeros(len(rows), bool)
        seen = _seen(model, rows) if filter_already_liked_items else None
        own = np.zeros(len(rows), np.int64) if seen is None else np.diff(seen.indptr)
        wanted = np.broadcast_to(N + own + len(banned) if fetch is None else fetch, len(rows))
        nobody = ~store.user_factors[rows].any(axis=1) & (not store.ranks_anybody)
        exact[nobody] = True  # their lists are empty, as those of the model
        left, unmet = np.flatnonzero(~nobody), _unmet(store)
        # Items that nobody met are rarely among the best: only where they were, more are fetched.
        for more in (0, len(unmet)) if fetch is None else (0,):
            most = np.minimum(wanted[left] + more, store.n_items)
            short = np.zeros(len(rows), bool)
            # Users who need about as many go together, so that one who needs many does not cost
            # the rest.
            for group in _groups(most):
                k = int(most[group].max())
                values, items = self.index.search(_queries(store, rows[left[group]]), k)
                for user, own_items, own_values in zip(left[group], items, values, strict=True):
                    kept = (own_items >= 0) & ~np.isin(own_items, banned)
                    kept &= ~np.isin(own_items, unmet)
                    if seen is not None:
                        start, stop = seen.indptr[user : user + 2]
                        kept &= ~np.isin(own_items, seen.indices[start:stop])
                    n = min(N, int(kept.sum()))
                    found[user, :n], scores[user, :n] = own_items[kept][:n], own_values[kept][:n]
                    short[user] = n < N and k < store.n_items
                    exact[user] = self._is_flat and not short[user]
            left = np.flatnonzero(short)
        return FaissAnswer(store.item_ids.raw(found), scores, exact)

    @property
    def _is_flat(self) -> bool:
        """Whether a search compares all vectors as they are."""
        return isinstance(self.index, _faiss().IndexFlat)


def _seen(model: Recommender, rows: NDArray[np.int64]) -> CSR:
    if model.seen is None:
        raise InputValueError(
            "the model does not know what its users have seen",
            "pass `filter_already_liked_items=False`, or load a model saved with `with_seen=True`",
        )
    return CSR.from_scipy(model.seen.filtered.checked[rows], dtype=None)


def _queries(store: FactorStore, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """What to search for some users, of whom no copy is kept."""
    biases = None if store.user_biases is None else store.user_biases[rows]
    of_users = replace(
        store,
        user_factors=store.user_factors[rows],
        user_ids=Ids.numbered(len(rows)),
        user_biases=biases,
        counts=None,
    )
    return _single(with_bias_columns(of_users)[0])


def _of_items(store: FactorStore) -> tuple[Any, ...]:
    """What the vectors of items are made of."""
    return store.item_factors, store.item_biases, store.user_biases is None


def _holds(index: Any, vectors: NDArray[np.float32]) -> bool:
    """Whether the index was made of these vectors, as far as they can be read from it.

    Where it keeps them with less precision, each must be nearer to its own than to the next one's.
    """
    faiss = _faiss()
    if not _gives_back(index):
        return True
    exact = isinstance(index, faiss.IndexFlat | faiss.IndexHNSWFlat | faiss.IndexIVFFlat)
    own = next_one = squares = 0.0
    for begin in range(0, len(vectors), _COMPARED):
        part = vectors[begin : begin + _COMPARED]
        found = index.reconstruct_n(begin, len(part))
        if exact and not np.array_equal(found, part):
            return False
        own += float(np.square(found - part).sum(dtype=np.float64))
        next_one += float(np.square(found - np.roll(part, 1, 0)).sum(dtype=np.float64))
        squares += float(np.square(part).sum(dtype=np.float64))
    return own <= max(0.9 * next_one, 0.01 * squares)


def _gives_back(index: Any) -> bool:
    """Whether vectors can be read from this kind of index.

    Where they cannot, ``reconstruct_n`` ends the process; but those of clusters have one of their
    own, which needs no map from vectors to clusters.
    """
    try:
        index.reconstruct(0)
    except RuntimeError:
        return isinstance(index, _faiss().IndexIVF)
    return True


def _unmet(store: FactorStore) -> NDArray[np.intp]:
    """Rows of the items that are in no list."""
    unmet = store.unmet_items
    return np.empty(0, np.intp) if unmet is None else np.flatnonzero(unmet)


def _groups(wanted: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Positions ordered by the number wanted, cut where a group would fetch too much at once."""
    order, groups, begin = np.argsort(wanted, kind="stable"), list[NDArray[np.int64]](), 0
    for end in range(1, len(order) + 1):
        most = wanted[order[min(end, len(order) - 1)]]
        if (
            end == len(order)
            or most > 2 * wanted[order[begin]]
            or (end - begin) * most > (_MOST_FETCHED)
        ):
            groups.append(order[begin:end])
            begin = end
    return groups


def _vectors(path: StrPath) -> NDArray[np.float32]:
    """The vectors of a flat index of inner products."""
    faiss, index = _faiss(), _read(path)
    if not isinstance(index, faiss.IndexFlat) or index.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise InputValueError(
            f"{path} is not a flat index of inner products, from which alone factors can be read: "
            f"it is a {type(index).__name__}",
            f"{_WRITTEN_BY_FAISS}, without `factory`",
            place=path,
        )
    vectors: NDArray[np.float32] = index.reconstruct_n(0, index.ntotal)
    return vectors


def _read(path: StrPath) -> Any:
    path = path_of(path)
    path.stat()  # raises FileNotFoundError with the path alone
    try:
        return _faiss().read_index(str(path))
    except RuntimeError as error:
        raise unreadable(
            path, "is not a readable faiss index", _reason(error), _WRITTEN_BY_FAISS
        ) from None


def _single(vectors: NDArray[Any]) -> NDArray[np.float32]:
    return np.ascontiguousarray(vectors, dtype=np.float32)


def _reason(error: RuntimeError) -> str:
    """The message of faiss, without the position in its source code that precedes it."""
    return str(error).strip().splitlines()[-1].rpartition(": ")[2] or "unknown reason"


def _faiss() -> Any:
    with needs("faiss", "faiss indexes need the package faiss-cpu"):
        import faiss
    return faiss
