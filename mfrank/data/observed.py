"""Observed cells of a users x items matrix with the ids of rows and columns; parts of them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike, NDArray

from mfrank.arrays import (
    CSR,
    MadeOfFields,
    as_array,
    check_instance,
    counted,
    floats_of,
    is_count,
    is_number,
    lazy,
    needs,
    read_only,
    read_only_rows,
    refuse_labels,
    shown,
    table,
    to_host,
)
from mfrank.data import cells
from mfrank.data.cells import Cells, Counts, SummedCells, ValuesFrom
from mfrank.data.ids import Ids
from mfrank.files import Origin


@dataclass(frozen=True, eq=False, repr=False)
class Observed(MadeOfFields):
    """The data of :class:`mfrank.Interactions`, documented there, and how they are read."""

    _noted = ("_summed", "_values_from")

    user_items: sp.csr_array
    user_ids: Ids
    item_ids: Ids
    timestamps: NDArray[np.int64] | None = None
    seen_only: Self | None = None
    threshold: float | None = field(default=None, kw_only=True)
    origin: Origin = field(default_factory=dict, kw_only=True)
    _views: dict[tuple[str, Any], CSR] = field(default_factory=dict, init=False)
    # No arguments of the constructor, so that whoever replaces the matrix loses them.
    _summed: SummedCells | None = field(default=None, init=False)
    _values_from: ValuesFrom = field(default="given", init=False)

    def __post_init__(self) -> None:
        if self.threshold is not None and not is_number(self.threshold):
            raise ValueError(
                f"threshold must be a finite number or None, got {shown(self.threshold)}"
            )
        for name in ("user_ids", "item_ids"):
            check_instance(name, getattr(self, name), Ids, "Ids, such as Ids.of(labels)")
        if not sp.issparse(self.user_items):
            raise TypeError(
                "user_items must be a scipy.sparse.csr_array (users x items), got "
                f"{type(self.user_items).__name__}"
            )
        shape = (len(self.user_ids), len(self.item_ids))
        if self.user_items.shape != shape:
            raise ValueError(
                f"the matrix has {self.user_items.shape[0]} users and {self.user_items.shape[1]} "
                f"items, but ids are given for {shape[0]} and {shape[1]}"
            )
        if self.timestamps is not None and len(self.timestamps) != self.user_items.nnz:
            raise ValueError(
                f"{counted(len(self.timestamps), 'timestamp')} for {counted(self.nnz, 'entry')}"
            )
        object.__setattr__(self, "user_items", read_only_rows(self.user_items, "user_items"))
        object.__setattr__(self, "origin", dict(self.origin))  # of its own, for its saves
        if self.timestamps is not None:
            object.__setattr__(self, "timestamps", read_only(self.timestamps))
        object.__setattr__(self, "seen_only", self._own_seen_only())

    def _own_seen_only(self) -> Self | None:
        """The cells that are only seen, with these ids; None if there are none."""
        given = self.seen_only
        if given is None:
            return None
        check_instance("seen_only", given, Observed, "Interactions, or None")
        if given.user_items.shape != self.user_items.shape:
            raise ValueError(
                f"seen_only must have the shape {self.user_items.shape}, got "
                f"{given.user_items.shape}"
            )
        if self.timestamps is not None and given.timestamps is None:
            raise ValueError("seen_only must have timestamps, as these interactions have")
        if not given.nnz:
            return None
        own = given.user_ids is self.user_ids and given.item_ids is self.item_ids
        timed = self.timestamps is not None
        if own and timed == (given.timestamps is not None) and given.seen_only is None:
            return given
        return replace(
            given,
            user_ids=self.user_ids,
            item_ids=self.item_ids,
            timestamps=given.timestamps if timed else None,
            seen_only=None,
        )

    @classmethod
    def _of_cells(
        cls,
        found: Cells,
        user_ids: Ids,
        item_ids: Ids,
        origin: Origin | None = None,
        threshold: float | None = None,
    ) -> Self:
        only = found.seen_only
        seen_only = None if only is None else cls(only.rows, user_ids, item_ids, only.timestamps)
        made = cls(
            *(found.rows, user_ids, item_ids, found.timestamps, seen_only),
            threshold=threshold,
            origin=origin or {},
        )
        if found.summed is not None and len(found.summed.places):
            object.__setattr__(made, "_summed", found.summed)
        object.__setattr__(made, "_values_from", found.values_from)
        return made

    @property
    def cells(self) -> Cells:
        """The cells with values, without the ones that are only seen."""
        return Cells(self.user_items, self.timestamps, None, self._summed, self._values_from)

    @property
    def largest(self) -> NDArray[Any]:
        """The largest entry of each cell, if several were summed; otherwise the value."""
        if self._values_from == "repeats":
            return np.ones_like(self.user_items.data)
        if self._summed is None:
            return self.user_items.data
        largest = self.user_items.data.copy()
        largest[self._summed.places] = self._summed.largest
        return largest

    @property
    def n_users(self) -> int:
        """Number of users, including users without entries."""
        return int(self.user_items.shape[0])

    @property
    def n_items(self) -> int:
        """Number of items, including items without entries."""
        return int(self.user_items.shape[1])

    @property
    def nnz(self) -> int:
        """Number of observed cells."""
        return int(self.user_items.nnz)

    @lazy
    def item_users(self) -> sp.csr_array:
        """The transposed matrix as CSR, shape (n_items, n_users); built once."""
        return read_only_rows(self.user_items.T.tocsr(), "item_users")

    @lazy
    def counts(self) -> Counts:
        """Numbers of observed items of each user and of users of each item."""
        items = np.bincount(self.user_items.indices, minlength=self.n_items)
        users = np.diff(self.user_items.indptr)
        return Counts(*(read_only(each.astype(np.int64)) for each in (users, items)))

    @lazy
    def seen(self) -> sp.csr_array:
        """All seen cells, shape (n_users, n_items); lists leave them out.

        ``user_items`` plus the cells of ``seen_only`` with the stored value 0; without
        ``seen_only``, ``user_items`` itself. Built once, in memory.
        """
        if self.seen_only is None:
            return self.user_items
        return read_only_rows(cells.with_zeros(self.user_items, self.seen_only.user_items), "seen")

    @property
    def entry_users(self) -> NDArray[np.int32]:
        """User row of every entry, int32, shape (nnz,), aligned with ``user_items.indices``."""
        return cells.entry_rows(self.user_items)

    def user_rows(self, dtype: DTypeLike | None = np.float32) -> CSR:
        """The users' rows for the kernels, cached; ``dtype=None`` drops the values."""
        return self._view("user_items", dtype)

    def item_rows(self, dtype: DTypeLike | None = np.float32) -> CSR:
        """The items' rows for the kernels, cached; ``dtype=None`` drops the values."""
        return self._view("item_users", dtype)

    def seen_rows(self) -> CSR:
        """The users' rows of ``seen`` for the kernels, without values; cached."""
        return self.user_rows(None) if self.seen_only is None else self._view("seen", None)

    def to_scipy(self) -> sp.csr_matrix:
        """A writable copy of the users x items matrix for other libraries.

        It is a ``csr_matrix``, the only format that implicit reads: ``model.fit(data.to_scipy())``.
        """
        matrix: sp.csr_matrix = sp.csr_matrix(self.user_items, copy=True)
        return matrix

    def to_pandas(self) -> Any:
        """DataFrame with the columns user, item, value and, if there are any, timestamp.

        Cells that are only seen are in ``seen_only.to_pandas()``.

        Raises
        ------
        ModuleNotFoundError
            If pandas is not installed.
        """
        with needs("pandas", "to_pandas needs pandas"):
            import pandas
        columns = {
            "user": self.user_ids.labels[self.entry_users],
            "item": self.item_ids.labels[self.user_items.indices],
            "value": self.user_items.data,
        }
        if self.timestamps is not None:
            columns["timestamp"] = self.timestamps
        return pandas.DataFrame(columns)

    def __repr__(self) -> str:
        density = f", density {self._density}" if self._density else ""
        times = "" if self.timestamps is None else ", timestamps"
        only = "" if self.seen_only is None else f", {self.seen_only.nnz:,} more only seen"
        return (
            f"Interactions({counted(self.n_users, 'user')} x {counted(self.n_items, 'item')}, "
            f"{counted(self.nnz, 'entry')}{density}{times}{only})"
        )

    def _repr_html_(self) -> str:
        values, times = self.user_items.data, self.timestamps
        rows = [
            ("users", self.user_ids.summary),
            ("items", self.item_ids.summary),
            ("entries", f"{self.nnz:,}"),
            *([] if self.seen_only is None else [("only seen", f"{self.seen_only.nnz:,}")]),
            ("density", self._density or "none"),
            ("values", "ones" if (values == 1).all() else _range(values)),
            ("timestamps", "none" if times is None else _range(times)),
        ]
        return table("Interactions", rows)

    @property
    def _density(self) -> str:
        """Fraction of the cells that are observed, as text; empty if there are no cells."""
        cells_in_all = self.n_users * self.n_items
        return f"{self.nnz / cells_in_all:.3%}" if cells_in_all else ""

    def _view(self, side: str, dtype: DTypeLike | None) -> CSR:
        key = side, None if dtype is None else np.dtype(dtype)
        if key not in self._views:
            across = self.user_rows(dtype) if side == "item_users" else None
            self._views[key] = CSR.from_scipy(getattr(self, side), dtype, across)
        return self._views[key]


def _range(numbers: NDArray[Any]) -> str:
    return f"{numbers.min()} to {numbers.max()}" if numbers.size else "none"


# Parts of observed cells, by a mask, by their values, and k-cores; and their weights.


_log = logging.getLogger("mfrank")


@dataclass(frozen=True, eq=False, repr=False)
class Selectable(Observed):
    """Observed cells with methods that select a part of them."""

    def take(self, mask: ArrayLike) -> Self:
        """Select the entries where ``mask`` is true; shape and ids stay.

        ``mask`` is bool of shape (nnz,), aligned with ``user_items.data``. Other entries are
        removed and no longer seen, as a test part requires; ``seen_only`` is unchanged.
        """
        refuse_labels("mask", mask, "make it of to_pandas(), which has the order of the entries")
        chosen = as_array(mask, "mask")
        if chosen.dtype != bool or chosen.shape != (self.nnz,):
            raise ValueError(
                f"mask must be bool of shape ({self.nnz},), got {chosen.dtype} of {chosen.shape}"
            )
        return self._with_cells(self.cells.take(np.flatnonzero(chosen)))

    def at_least(self, threshold: float, *, binary: bool = False, keep_seen: bool = True) -> Self:
        """Select the entries with values >= ``threshold``: implicit feedback from ratings.

        Models do not learn from the other entries, but the users have seen these items: they move
        to ``seen_only``, and lists leave them out. Splits by time divide them by timestamp; in
        other splits they belong to the training part.

        The result, and a model fitted to it, have the attribute ``threshold``: other data with
        values below it, such as a test part without a threshold, cause a warning.

        Apply the threshold before weighting (:func:`mfrank.log_weight`, :meth:`weighted`): a
        threshold of weighted values, which are in other units, is not recorded.

        Warnings are logged for an empty result, for a threshold of weighted values, and for entries
        that pass only because repeated values were summed, such as two ratings of an item by the
        same user.

        Parameters
        ----------
        threshold : float
        binary : bool, default False
            Whether selected values become 1.
        keep_seen : bool, default True
            False removes the other entries and ``seen_only``, so these items can be recommended.
        """
        if not is_number(threshold):
            raise ValueError(f"threshold must be a finite number, got {shown(threshold)}")
        values = self.user_items.data
        reached = values >= float(threshold)
        self._warn_of_sums(reached, threshold)
        kept = self.take(reached)
        weighted = self._values_from == "weights" and threshold > 0  # the sign is as it was
        if keep_seen:
            if not weighted:
                kept = kept._with_cells(kept.cells._replace(values_from="threshold"))
            if kept.nnz < self.nnz:
                kept = kept._also_seen(self.take(~reached))
        else:
            kept = self._of_cells(kept.cells, self.user_ids, self.item_ids, self.origin)
        if self.nnz and not kept.nnz and values.min() == values.max() == 1:
            _log.warning(
                "at_least(%g) keeps none of the %d entries, whose values are all 1, as where no "
                "column of values is recognized; name it with value=",
                *(threshold, self.nnz),
            )
        elif self.nnz and not kept.nnz:
            _log.warning(
                "at_least(%g) keeps none of the %d entries, whose values go from %g to %g; lower "
                "the threshold",
                *(threshold, self.nnz, values.min(), values.max()),
            )
        if binary:
            kept = kept._with_values(np.ones_like(kept.user_items.data))
        if weighted:
            _log.warning(
                "at_least(%g) cuts weighted values: models will not know it as the threshold of "
                "other data, whose values are not weighted; to have it known, call at_least before "
                "the values are weighted",
                threshold,
            )
            known = self.threshold
        else:
            known = max(threshold, threshold if self.threshold is None else self.threshold)
        object.__setattr__(kept, "threshold", None if known is None else float(known))
        return kept

    def weighted(self, weights: ArrayLike) -> Self:
        """Multiply the value of each entry by its own weight, such as a weight of its source.

        For weights by time, use :func:`mfrank.recency_weight`. The effect depends on the model:
        ``WRMF`` reads values as confidences; objectives without values ignore them.

        Parameters
        ----------
        weights : array-like of numbers, shape (nnz,)
            >= 0, aligned with ``user_items.data``. Entries that become 0 are only seen: models do
            not learn from them, and lists leave them out. To remove entries, use ``take``.

        Returns
        -------
        Interactions
            With the same shape, ids and dtype.

        Raises
        ------
        ValueError
            There is not one weight >= 0 per entry, or a value becomes too large for the dtype.
        TypeError
            The weights are not numbers.

        Examples
        --------
        >>> import mfrank
        >>> data = mfrank.Interactions.from_arrays(["ann", "ben"], ["tea", "tea"])
        >>> data.weighted([1, 0.25]).user_items.data.tolist()
        [1.0, 0.25]
        """
        remedy = "make them of to_pandas(), which has the order of the entries"
        refuse_labels("weights", weights, remedy)
        each = floats_of("weights", to_host(weights, "weights"))
        if each.shape != (self.nnz,):
            raise ValueError(f"weights must have the shape ({self.nnz},), got {each.shape}")
        if each.size and not (each.min() >= 0 and np.isfinite(each.max())):
            raise ValueError(
                f"weights must be finite numbers >= 0, got {each.min():g} to {each.max():g}"
            )
        with np.errstate(over="ignore"):
            values = (self.user_items.data * each).astype(self.user_items.dtype)
        if not np.isfinite(values).all():
            raise ValueError(f"a weighted value is beyond the range of {values.dtype}")
        kept = values != 0
        if kept.all():
            return self._weighted(values)
        dropped = counted(self.nnz - int(kept.sum()), "entry")
        _log.info("%s dropped: weighted 0 (still seen: not recommended)", dropped)
        return self.take(kept)._weighted(values[kept])._also_seen(self.take(~kept))

    def k_core(self, k: int, *, user_k: int | None = None, item_k: int | None = None) -> Self:
        """The largest part with at least ``user_k`` entries per user and ``item_k`` per item.

        Users and items with fewer entries are dropped, with their ids, until none is left. Both
        bounds default to ``k``; 0 drops none. Cells that are only seen do not count, and stay if
        their user and item stay. An empty result is logged as a warning.
        """
        least = k if user_k is None else user_k, k if item_k is None else item_k
        for name, bound in zip(("k", "user_k", "item_k"), (k, *least), strict=True):
            if not is_count(bound) or bound < 0:
                raise ValueError(f"{name} must be a whole number, 0 or more, got {shown(bound)}")
        kept, rows, columns = cells.core(self.user_items, *least)
        has = self.counts.users, self.counts.items
        if self.nnz and not len(kept):
            _log.warning(
                "k_core keeps none of %s of %s and %s: each user would need %d and each item %d, "
                "and they have up to %d and %d; lower k, user_k= or item_k=",
                counted(self.nnz, "entry"),
                counted(int(np.count_nonzero(has[0])), "user"),
                counted(int(np.count_nonzero(has[1])), "item"),
                *(*least, *map(np.max, has)),
            )
        core, only = self._narrowed(kept, rows, columns), self.seen_only
        if only is not None:
            inside = np.isin(only.entry_users, rows) & np.isin(only.user_items.indices, columns)
            only = only._narrowed(np.flatnonzero(inside), rows, columns)
            core = core._with_seen_only(only.cells)
        return core

    def _narrowed(
        self, kept: NDArray[np.int64], rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> Self:
        """The cells at the places ``kept``, which are all in the given rows and columns."""
        found = self.cells.take(kept)
        found = found._replace(rows=cells.narrow(found.rows, rows, columns))
        ids = self.user_ids.take(rows), self.item_ids.take(columns)
        return self._of_cells(found, *ids, self.origin, self.threshold)

    def _with_cells(self, found: Cells) -> Self:
        """These cells in the place of its own, and the same that are only seen."""
        if self.seen_only is not None:
            found = found._replace(seen_only=self.seen_only.cells)
        return self._of_cells(found, self.user_ids, self.item_ids, self.origin, self.threshold)

    def _also_seen(self, more: Self) -> Self:
        """The same, with the cells of ``more``, none of which has a value here, as only seen."""
        if self.seen_only is not None:
            return self._with_seen_only(cells.joined([self.seen_only.cells, more.cells]))
        return self._with_seen_only(Cells(cells.ones(more.user_items), more.timestamps))

    def _with_seen_only(self, found: Cells) -> Self:
        every = self.cells._replace(seen_only=found)
        return self._of_cells(every, self.user_ids, self.item_ids, self.origin, self.threshold)

    def _warn_of_sums(self, reached: NDArray[np.bool_], threshold: float) -> None:
        """Warn of cells that reach a threshold, though none of their entries does."""
        if self._summed is None:
            return
        places, largest = self._summed
        if only := int(np.count_nonzero(reached[places] & (largest < float(threshold)))):
            _log.warning(
                "at_least(%g) keeps %s only as the sum of repeated entries, each of them lower; "
                'for ratings, read the data with duplicates="last" or duplicates="max"',
                threshold,
                counted(only, "entry"),
            )

    def _with_values(self, values: NDArray[Any]) -> Self:
        """The same cells with other values, none of them 0."""
        rows = self.user_items
        return replace(
            self, user_items=sp.csr_array((values, rows.indices, rows.indptr), rows.shape)
        )

    def _weighted(self, values: NDArray[Any]) -> Self:
        """The same cells with weighted values, none of them 0; of ones, the weights are values."""
        made = self._with_values(values)
        if not (self.user_items.data == 1).all():
            object.__setattr__(made, "_values_from", "weights")
        return made
