"""Parts of observed cells, by a mask, by their values, and k-cores; and their weights."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays.checks import floats_of, is_number, shown
from mfrank.arrays.counted import counted
from mfrank.arrays.interop import as_array, to_host
from mfrank.arrays.labelled import refuse_labels
from mfrank.data import cells
from mfrank.data.cells import Cells
from mfrank.data.observed import Observed

__all__ = ["Selectable"]

_log = logging.getLogger("mfrank")


@dataclass(frozen=True, eq=False, repr=False)
class Selectable(Observed):
    """Observed cells of which a part can be kept."""

    def take(self, mask: ArrayLike) -> Self:
        """Keep only the entries where ``mask`` is true; shape and ids stay.

        ``mask`` is bool of shape (nnz,), aligned with ``user_items.data``. The others are not seen
        any more, as those of a test part must not be; ``seen_only`` stays as it is.
        """
        refuse_labels("mask", mask, "make it of to_pandas(), which has the order of the entries")
        chosen = as_array(mask, "mask")
        if chosen.dtype != bool or chosen.shape != (self.nnz,):
            raise ValueError(
                f"mask must be bool of shape ({self.nnz},), got {chosen.dtype} of {chosen.shape}"
            )
        return self._with_cells(self.cells.take(np.flatnonzero(chosen)))

    def at_least(self, threshold: float, *, binary: bool = False, keep_seen: bool = True) -> Self:
        """Keep only the entries with values >= ``threshold``: implicit feedback from ratings.

        The others are not learned from, but the users have seen these items: they stay in
        ``seen_only``, and lists leave them out. Splits divide them too, by the timestamps if the
        split is by time; else they are known to the training part.

        The result has the threshold as ``threshold``, and so has a model that is fitted to it:
        other data with values below, such as a test part that was not cut, are then told.

        An empty result is logged as a warning; so is the number of entries that are kept only
        because several were added up, such as two ratings of an item by the same user.

        Parameters
        ----------
        threshold : float
        binary : bool, default False
            The values that are kept become 1.
        keep_seen : bool, default True
            False forgets the others and all of ``seen_only``: they can be recommended.
        """
        if not is_number(threshold):
            raise ValueError(f"threshold must be a finite number, got {shown(threshold)}")
        values = self.user_items.data
        reached = values >= float(threshold)
        self._warn_of_sums(reached, threshold)
        kept = self.take(reached)
        if keep_seen:
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
        highest = max(threshold, threshold if self.threshold is None else self.threshold)
        object.__setattr__(kept, "threshold", float(highest))
        return kept

    def weighted(self, weights: ArrayLike) -> Self:
        """Multiply the value of each entry by a weight of its own, such as one for its source.

        For weights by timestamps, use :func:`mfrank.recency_weight`. How values are used depends on
        the model: ``WRMF`` takes them as confidences, objectives without values do not read them.

        Parameters
        ----------
        weights : array-like of numbers, shape (nnz,)
            >= 0, aligned with ``user_items.data``. Entries that become 0 are then only seen: the
            models do not learn from them, and lists leave them out. ``take`` forgets entries.

        Returns
        -------
        Interactions
            With the same shape, ids and dtype.

        Raises
        ------
        ValueError
            The weights are not one number >= 0 for each entry, or a value becomes too large for
            the dtype.
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
            return self._with_values(values)
        dropped = counted(self.nnz - int(kept.sum()), "entry")
        _log.info("%s dropped: weighted 0 (still seen: not recommended)", dropped)
        return self.take(kept)._with_values(values[kept])._also_seen(self.take(~kept))

    def k_core(self, k: int, *, user_k: int | None = None, item_k: int | None = None) -> Self:
        """The largest part in which users have at least ``user_k`` entries and items ``item_k``.

        Users and items with fewer are dropped repeatedly, with their ids, until there are none.
        Both bounds are ``k`` by default; 0 drops none. Cells that are only seen do not count, and
        stay if their user and item do. An empty result is logged as a warning.
        """
        least = k if user_k is None else user_k, k if item_k is None else item_k
        for bound in least:
            if isinstance(bound, bool) or not isinstance(bound, int | np.integer) or bound < 0:
                raise ValueError(f"k must be a whole number, 0 or more, got {shown(bound)}")
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
