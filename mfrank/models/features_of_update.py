"""Features in an update, of new and known users and items."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import counted
from mfrank.backends import Factors
from mfrank.data import FeatureTable, Ids, Interactions, feature_rows, is_table, with_more
from mfrank.errors import InputValueError
from mfrank.store import FactorStore, columns_of, means_of, weights_of, with_means

_log = logging.getLogger("mfrank")

_SIDES = ("user", "item")
_ROUNDING = 1e-4  # of means in float32 that were summed in another order


@dataclass(frozen=True, eq=False)
class FeaturesOfUpdate:
    """Features of both sides, with tables read, and their means.

    A table may have rows of new ids, of all ids, or of ids whose features changed. A matrix has a
    row for each id of the interactions.
    """

    store: FactorStore
    given: Mapping[str, Any]
    _means: dict[str, tuple[Ids, Factors]] = field(default_factory=dict)

    @classmethod
    def of(cls, user_features: Any, item_features: Any, store: FactorStore) -> Self:
        """Read the arguments of an update of a store.

        Raises
        ------
        ValueError, TypeError
            The fit had no features of the side, or in another form, or a table cannot be read.
        """
        both = {"user": user_features, "item": item_features}
        return cls(store, {side: _read(side, both[side], store) for side in _SIDES})

    def new_labels(self) -> list[NDArray[Any] | None]:
        """Ids of users and items in the tables that the model lacks."""
        return [self._new(side, self.given[side]) for side in _SIDES]

    def read(self, data: Interactions) -> None:
        """Compute the means of rows with features, with ``data`` as the new interactions.

        New rows outside the table get the common mean. Known rows outside the table do not change,
        because a table of today's new items says nothing about others.
        """
        for side, own in zip(_SIDES, (data.user_ids, data.item_ids), strict=True):
            given, weights = self.given[side], weights_of(self.store, side)
            if given is None or weights is None:
                continue
            columns = columns_of(self.store, side)
            if isinstance(given, FeatureTable) and columns is not None:
                ids = with_more(Ids.of(given.labels), own.labels[self._rows(side, own.labels) < 0])
                # A whole table is given each day: its known rows were read before.
                familiar = own.rows(ids.labels, missing=-1) < 0
                rows = given.features(columns, ids, familiar=familiar)
            else:
                ids = own
                rows = feature_rows(f"{side}_features", given, own, len(weights))
            self._means[side] = ids, (rows @ weights).astype(self.store.dtype)

    def written(
        self, extras: Mapping[str, NDArray[Any]], side: str, ids: Ids
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
        """The extras with the means of all rows, and the known rows whose means changed.

        ``ids`` are all ids of the side, the model's first.
        """
        none = np.empty(0, dtype=np.int64)
        old = means_of(self.store, side)
        if side not in self._means or old is None:
            return with_means(extras, side, len(ids)), none
        own, means = self._means[side]
        rows = ids.rows(own.labels)
        known = rows < len(old)
        before, now = old[rows[known]], means[known]
        limit = _ROUNDING * (np.abs(before) + np.abs(old).max())
        others = (np.abs(now - before) > limit).any(axis=1)
        changed = np.sort(rows[known][others])
        if len(changed):
            _log.info(
                "%s_features: %s that the model has now have other features, and are solved again",
                *(side, counted(len(changed), side)),
            )
        return with_means(extras, side, len(ids), rows, means), changed

    def _new(self, side: str, given: Any) -> NDArray[Any] | None:
        if not isinstance(given, FeatureTable):
            return None
        return given.labels[self._rows(side, given.labels) < 0]

    def _rows(self, side: str, labels: NDArray[Any]) -> NDArray[np.int64]:
        """Rows of the model, -1 for ids that it does not have."""
        ids: Ids = getattr(self.store, f"{side}_ids")
        return ids.rows(labels, missing=-1)


def _read(side: str, given: Any, store: FactorStore) -> Any:
    """Features as they are given, tables read; raise if the fit had none, or of another form."""
    name = f"{side}_features"
    if given is None:
        return None
    if weights_of(store, side) is None:
        raise InputValueError(
            f"the model was fitted without `{name}`", "leave it out, or fit anew with it"
        )
    had_table = columns_of(store, side) is not None
    if is_table(given) != had_table:
        form = "a table" if had_table else "a matrix"
        raise InputValueError(
            f"the model was fitted with {form} as `{name}`", f"pass {form} here, too"
        )
    ids: Ids = getattr(store, f"{side}_ids")
    return FeatureTable.of(name, given, ids) if had_table else given
