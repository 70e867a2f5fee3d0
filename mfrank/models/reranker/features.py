"""Features of a (user, item) pair: computed from the factor store, or the caller's own.

Features are invariant to a rotation of the factors, so trees trained on one fit apply to another
fit of the same objective.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.data import FeatureTable, Ids, check_id_columns, is_table
from mfrank.errors import InputTypeError, InputValueError
from mfrank.retrieval import ItemBlend, score
from mfrank.store import FactorStore, joins_weights

FEATURES = (
    "score",
    "rank",
    "score_in_list",
    "user_count",
    "item_count",
    "prior",
    "cosine",
    "user_norm",
    "item_norm",
)
"""Columns of :func:`pair_features`, in their order."""
IN_LIST = FEATURES.index("score_in_list")
_OF_A_PART = ("score_in_list", "rank")
_CELLS_AT_ONCE = 1 << 20


class ListedUsers(NamedTuple):
    """The U users of a call.

    Attributes
    ----------
    factors : float32 or float64, shape (U, K)
    counts : int64, shape (U,)
        Number of items of each user.
    values : csr_array, optional
        What weights the sums of weights between items, in a blend with such parts.
    """

    factors: NDArray[Any]
    counts: NDArray[np.int64]
    values: sp.csr_array | None = None

    def at(self, block: slice) -> ListedUsers:
        """Some of them."""
        values = None if self.values is None else self.values[block]
        return ListedUsers(self.factors[block], self.counts[block], values)


class FirstLists(NamedTuple):
    """The first stage's lists of C candidates.

    Attributes
    ----------
    rows : int64, shape (U, C)
        Item rows by descending score, padded with -1.
    scores : float32 or float64, shape (U, C)
        Scores, padded with NaN.
    """

    rows: NDArray[np.int64]
    scores: NDArray[Any]

    @property
    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """User (0..U-1) and position of every listed item, list by list."""
        users, places = np.nonzero(self.rows >= 0)
        return users, places


def pair_features(
    store: FactorStore, listed_users: ListedUsers, lists: FirstLists
) -> NDArray[np.float32]:
    """Features of every (user, listed item) pair, float32, shape (pairs, 9), list by list.

    =============  ===============================================================================
    score          first-stage score, biases included
    rank           position in the list, from 0
    score_in_list  (score - mean of the list) / standard deviation of the list; 0 if that is 0
    user_count     log(1 + number of items of the user)
    item_count     log(1 + number of users of the item)
    prior          ``store.item_prior``, or the item's fraction of all interactions if that is None
    cosine         cosine of the user's and the item's factors, 0 if either is zero
    user_norm      norm of the user's factors
    item_norm      norm of the item's factors
    =============  ===============================================================================

    Raises
    ------
    ValueError
        The store has no counts.
    """
    users, places = lists.pairs
    items = lists.rows[users, places]
    user_norms = np.linalg.norm(listed_users.factors, axis=1)[users]
    item_norms = np.linalg.norm(store.item_factors, axis=1)[items]
    products = score(listed_users.factors, store.item_factors, users, items)
    lengths = user_norms * item_norms
    columns = {
        "score": lists.scores[users, places],
        "rank": places,
        "score_in_list": in_list(lists.scores)[users, places],
        "user_count": np.log1p(listed_users.counts)[users],
        "item_count": np.log1p(store.known_counts.items)[items],
        "prior": _prior(store)[items],
        "cosine": np.divide(products, lengths, out=np.zeros_like(lengths), where=lengths > 0),
        "user_norm": user_norms,
        "item_norm": item_norms,
    }
    return np.column_stack([columns[name] for name in FEATURES]).astype(np.float32)


def part_features(
    model: Any, listed_users: ListedUsers, lists: FirstLists
) -> list[NDArray[np.float32]]:
    """Of each part of a blend, its share of the score in units of the list, and its rank in it.

    Arrays of shape (pairs, 2); none if the model is no blend.
    """
    store, (users, places) = model.store.on_host(), lists.pairs
    items, found, column, block = lists.rows[users, places], list[Any](), 0, 0
    for told in _parts_of(store).values():
        if "rows" in told:
            rows = slice(block, block := block + told["rows"])
            assert listed_users.values is not None
            weights = _rows_in(weights_ranker(model)._fitted().weights, rows)
            shares = _sums_at(listed_users.values[:, rows], weights, users, items)
        else:
            own = slice(column, column := column + told["width"])
            shares = score(
                *(listed_users.factors[:, own], store.item_factors[:, own], users, items)
            )
        scores = np.full(lists.rows.shape, np.nan)
        scores[users, places] = shares
        ranks = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1)
        found.append(np.column_stack([in_list(scores)[users, places], ranks[users, places]]))
    return [each.astype(np.float32) for each in found]


def _sums_at(
    values: sp.csr_array, weights: sp.csr_array, users: NDArray[np.int64], items: NDArray[np.int64]
) -> NDArray[Any]:
    """Elements of ``values @ weights``; ``users`` ascend.

    Rows are made dense, block by block: looking sparse elements up takes several times as long.
    """
    found = np.empty(len(users))
    step = max(1, _CELLS_AT_ONCE // max(1, weights.shape[1]))
    for begin in range(0, values.shape[0], step):
        dense = (values[begin : begin + step] @ weights).toarray()
        own = slice(*np.searchsorted(users, (begin, begin + step)))
        found[own] = dense[users[own] - begin, items[own]]
    return found


def _rows_in(weights: sp.csr_array, rows: slice) -> sp.csr_array:
    """Consecutive rows, as views: a slice would copy all of them for each call."""
    bounds = weights.indptr[rows.start : rows.stop + 1]
    own = slice(bounds[0], bounds[-1])
    arrays = weights.data[own], weights.indices[own], bounds - bounds[0]
    return sp.csr_array(arrays, shape=(rows.stop - rows.start, weights.shape[1]))


def names_of(store: FactorStore, given: GivenFeatures) -> list[str]:
    """Names of all features over a first stage: its own, those of a blend's parts, the caller's."""
    of_parts = [f"part_{at}_{what}" for at in _parts_of(store) for what in _OF_A_PART]
    return [*FEATURES, *of_parts, *given.names]


def weights_ranker(model: Any) -> Any:
    """What ranks by the weights between items of a blend; None without such parts."""
    store = model.store
    if not (_parts_of(store) and joins_weights(store)):
        return None
    return model if isinstance(model, ItemBlend) else model._now().parts


def _parts_of(store: FactorStore) -> dict[int, Mapping[str, Any]]:
    """How the parts of a blend are described, by number, in the order of its store."""
    if store.fitter["name"] != "Blend":
        return {}
    parts = store.fitter["options"]["parts"]
    return {at: parts[at] for at in sorted(range(len(parts)), key=lambda at: "rows" in parts[at])}


def in_list(scores: NDArray[Any]) -> NDArray[np.float64]:
    """Scores in units of each list: less its mean, by its standard deviation; NaN stays NaN."""
    listed = ~np.isnan(scores)
    lengths = np.maximum(listed.sum(axis=1, keepdims=True), 1)
    wide = scores.astype(np.float64)
    centered = wide - np.where(listed, wide, 0).sum(axis=1, keepdims=True) / lengths
    deviation = np.sqrt(np.where(listed, centered**2, 0).sum(axis=1, keepdims=True) / lengths)
    standardized: NDArray[np.float64] = centered / np.where(deviation > 0, deviation, 1)
    return standardized


def _prior(store: FactorStore) -> NDArray[Any]:
    if store.item_prior is not None:
        return store.item_prior
    counts = store.known_counts.items
    return counts / max(1, int(counts.sum()))


# The caller's own features: dense tables with a row per user or item.


Table = NDArray[np.float32]


class GivenFeatures(NamedTuple):
    """Feature tables in the model's row order; NaN is a missing value, None a missing table.

    Attributes
    ----------
    users : float32, shape (n_users, A), or None
    items : float32, shape (n_items, B), or None
    user_ids, item_ids : Ids
        Ids of the rows.
    """

    users: Table | None
    items: Table | None
    user_ids: Ids
    item_ids: Ids

    @classmethod
    def of(cls, user_features: Any, item_features: Any, store: FactorStore) -> GivenFeatures:
        """Check the caller's arrays and convert them to float32; tables are matched by id.

        Raises
        ------
        ValueError, TypeError
            An array does not have one row per user or item of the store, has values other than real
            numbers, or is infinite in float32.
        """
        return cls(
            _table("user_features", user_features, store.user_ids),
            _table("item_features", item_features, store.item_ids),
            store.user_ids,
            store.item_ids,
        )

    def check(self, store: FactorStore) -> None:
        """Raise ValueError if the store has other ids than the feature tables."""
        for side, table, own, other in (
            ("user", self.users, self.user_ids, store.user_ids),
            ("item", self.items, self.item_ids, store.item_ids),
        ):
            if table is not None and own is not other and own != other:
                raise InputValueError(
                    f"`model` has other {side}s than those whose {side}_features were passed to "
                    "fit:",
                    "fit again",
                )

    @property
    def names(self) -> list[str]:
        """Names of the columns, users' first, such as ``"item_feature_0"``."""
        return [
            f"{side}_feature_{column}"
            for side, table in (("user", self.users), ("item", self.items))
            if table is not None
            for column in range(table.shape[1])
        ]

    def of_pairs(self, users: NDArray[np.int64], items: NDArray[np.int64]) -> list[Table]:
        """Features of (user, item) row pairs, one array per table; NaN of rows that are -1."""
        pairs = ((self.users, users), (self.items, items))
        return [_rows_of(table, rows) for table, rows in pairs if table is not None]

    def aligned(self, store: FactorStore) -> GivenFeatures:
        """The features of a store's users and items; those of others are unknown."""

        def rows(table: Table | None, own: Ids, new: Ids) -> Table | None:
            return None if table is None else _rows_of(table, own.rows(new.labels, missing=-1))

        users = rows(self.users, self.user_ids, store.user_ids)
        items = rows(self.items, self.item_ids, store.item_ids)
        return GivenFeatures(users, items, store.user_ids, store.item_ids)


def _rows_of(table: Table, rows: NDArray[np.int64]) -> Table:
    found = table[np.maximum(rows, 0)] if len(table) else np.empty((len(rows), table.shape[1]))
    found = found.astype(np.float32, copy=False)
    found[rows < 0] = np.nan
    return found


def _table(name: str, values: Any, ids: Ids) -> Table | None:
    if values is None:
        return None
    rows = len(ids)
    given = FeatureTable.of(name, values, ids).numbers(ids) if is_table(values) else values
    given = np.asarray(given)
    if given.dtype.kind not in "biuf":
        raise InputTypeError(
            f"`{name}` must be real numbers, got dtype {given.dtype}",
            "encode categories as columns of 0 and 1",
        )
    if given.ndim != 2 or len(given) != rows:
        raise InputValueError(
            f"`{name}` must have a row for each of the model's {rows} {name.split('_')[0]}s, got "
            f"shape {given.shape}"
        )
    with np.errstate(over="ignore"):  # overflow becomes infinity, refused below
        table = given.astype(np.float32)
    if np.isinf(table).any():
        raise InputValueError(f"`{name}` must be finite in float32", "use NaN for missing values")
    if not is_table(values):
        check_id_columns(name, given, ids)
    return table
