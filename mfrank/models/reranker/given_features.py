"""The caller's own features: dense tables with a row per user or item."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.data.feature_tables import FeatureTable, is_table
from mfrank.data.ids import Ids
from mfrank.store.factors import FactorStore

__all__ = ["GivenFeatures"]

Table = NDArray[np.float32]


class GivenFeatures(NamedTuple):
    """Feature tables in the model's row order; NaN is a missing value, None no table.

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
            An array does not have one row per user or item of the store, is not of real numbers,
            or is infinite in float32.
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
                raise ValueError(
                    f"model has other {side}s than those whose {side}_features were passed to fit: "
                    "fit again"
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

    def of_pairs(self, users: NDArray[np.int64] | None, items: NDArray[np.int64]) -> list[Table]:
        """Features of (user, item) row pairs, one array per table; ``users=None`` skips users'."""
        columns = []
        if self.users is not None and users is not None:
            columns.append(self.users[users])
        if self.items is not None:
            columns.append(self.items[items])
        return columns


def _table(name: str, values: Any, ids: Ids) -> Table | None:
    if values is None:
        return None
    rows = len(ids)
    given = FeatureTable.of(name, values, ids).numbers(ids) if is_table(values) else values
    given = np.asarray(given)
    if given.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} must be real numbers, got dtype {given.dtype}; encode categories as columns "
            "of 0 and 1"
        )
    if given.ndim != 2 or len(given) != rows:
        raise ValueError(
            f"{name} must have a row for each of the model's {rows} {name.split('_')[0]}s, got "
            f"shape {given.shape}"
        )
    with np.errstate(over="ignore"):  # overflow becomes infinity, refused below
        table = given.astype(np.float32)
    if np.isinf(table).any():
        raise ValueError(f"{name} must be finite in float32; use NaN for missing values")
    return table
