"""Parts of interactions, by their values or as k-cores, and weighted interactions.

The methods of :class:`mfrank.Interactions` with the same names have the documentation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import (
    check_flags,
    counted,
    floats_of,
    is_count,
    is_number,
    refuse_labels,
    shown,
    to_host,
)
from mfrank.data import cells
from mfrank.data.cells import Cells
from mfrank.data.notes import log as _log
from mfrank.errors import InputValueError, Notice

if TYPE_CHECKING:
    from mfrank.data.interactions import Interactions

_OTHER_SCALE = 2
"""A threshold is of another scale if all values are at least so many times as large."""


def at_least(
    data: Interactions, threshold: float, *, binary: bool, keep_seen: bool
) -> Interactions:
    """The entries with values >= ``threshold``; the others become only seen, or are removed."""
    if not is_number(threshold):
        raise InputValueError(f"`threshold` must be a finite number, got {shown(threshold)}")
    check_flags(binary=binary, keep_seen=keep_seen)
    reached = data.user_items.data >= float(threshold)
    is_weighted = data.cells.values_from == "weights" and threshold > 0  # the sign is as it was
    _tell_of_threshold(data, reached, threshold, is_weighted)
    found, known = data.cells.take(np.flatnonzero(reached)), data.threshold
    if keep_seen and not reached.all():
        found = found._replace(seen_only=_also_seen(data, ~reached))
    elif keep_seen and data.seen_only is not None:
        found = found._replace(seen_only=data.seen_only.cells)
    if keep_seen and not is_weighted:
        found = found._replace(values_from="threshold")
    if binary:
        found = cells.with_values(found, np.ones_like(found.rows.data))
    if not is_weighted:
        known = threshold if known is None else max(threshold, known)
    known = None if known is None else float(known)
    ids = data.user_ids, data.item_ids
    return data._of_cells(found, *ids, data.origin, known, data.where, data.event_weights)


def _tell_of_threshold(
    data: Interactions, reached: NDArray[np.bool_], threshold: float, is_weighted: bool
) -> None:
    """Warn of a threshold in other units than the values, or that none or all of them reach."""
    values = data.user_items.data
    if (summed := data.cells.summed) is not None:
        lower = summed.largest < float(threshold)
        if only := int(np.count_nonzero(reached[summed.places] & lower)):
            _log.warning(
                Notice(
                    f"`at_least({threshold:g})` keeps {counted(only, 'entry')} only as the sum of "
                    "repeated entries, each of them lower; for ratings, read the data with "
                    '`duplicates="last"` or `duplicates="max"`'
                )
            )
    if data.nnz and not reached.any():
        if values.min() == values.max() == 1:
            _log.warning(
                Notice(
                    f"`at_least({threshold:g})` keeps none of the {data.nnz} entries, whose values "
                    "are all 1, as where no column of values is recognized; name it with `value=`"
                )
            )
        else:
            _log.warning(
                Notice(
                    f"`at_least({threshold:g})` keeps none of the {data.nnz} entries, whose values "
                    f"go from {values.min():g} to {values.max():g}; lower the threshold"
                )
            )
    if data.nnz and threshold > 1 and (least := values.min()) >= _OTHER_SCALE * threshold:
        _log.warning(
            Notice(
                f"`at_least({threshold:g})` keeps all {data.nnz} entries, whose values go from "
                f"{least:g} to {values.max():g}: is the threshold of another scale?"
            )
        )
    if is_weighted:
        _log.warning(
            Notice(
                f"`at_least({threshold:g})` cuts weighted values: models will not know it as the "
                "threshold of other data, whose values are not weighted; to have it known, call "
                "`at_least(threshold)` before the values are weighted"
            )
        )


def weighted(data: Interactions, weights: ArrayLike) -> Interactions:
    """The value of each entry times its own weight; entries that become 0 are only seen."""
    remedy = "make them of to_pandas(), which has the order of the entries"
    refuse_labels("weights", weights, remedy)
    each = floats_of("weights", to_host(weights, "weights"))
    if each.shape != (data.nnz,):
        raise InputValueError(f"`weights` must have the shape ({data.nnz},), got {each.shape}")
    if each.size and not (each.min() >= 0 and np.isfinite(each.max())):
        raise InputValueError(
            f"`weights` must be finite numbers >= 0, got {each.min():g} to {each.max():g}"
        )
    with np.errstate(over="ignore"):
        values = (data.user_items.data * each).astype(data.user_items.dtype)
    if not np.isfinite(values).all():
        raise InputValueError(
            f"`weights` make a value that is beyond the range of {values.dtype}", "scale them down"
        )
    kept = values != 0
    if kept.all():
        return with_weighted_values(data, values)
    dropped = counted(data.nnz - int(kept.sum()), "entry")
    _log.info("%s dropped: weighted 0 (still seen: not recommended)", dropped)
    made = with_weighted_values(data.take(kept), values[kept])
    return made._with_cells(made.cells._replace(seen_only=_also_seen(data, ~kept)))


def capped(data: Interactions, most: float) -> Interactions:
    """The same entries with no value beyond ``most``, nor below ``-most``."""
    if not (is_number(most) and most > 0):
        raise InputValueError(f"`most` must be a finite number > 0, got {shown(most)}")
    if data.threshold is not None and most < data.threshold:
        raise InputValueError(
            f"`most` must be at least the threshold {data.threshold:g} of these values, got {most}",
            "cap before `at_least(threshold)`",
        )
    return data._with_cells(cells.capped(data.cells, most))


def with_weighted_values(data: Interactions, values: NDArray[Any]) -> Interactions:
    """The same cells with weighted values, none of them 0; of ones, the weights are values."""
    are_ones = (data.user_items.data == 1).all()
    found = cells.with_values(data.cells, values)
    return data._with_cells(found if are_ones else found._replace(values_from="weights"))


def k_core(data: Interactions, k: int, *, user_k: int | None, item_k: int | None) -> Interactions:
    """The largest part with at least ``user_k`` entries per user and ``item_k`` per item."""
    least = k if user_k is None else user_k, k if item_k is None else item_k
    for name, bound in zip(("k", "user_k", "item_k"), (k, *least), strict=True):
        if not is_count(bound) or bound < 0:
            raise InputValueError(f"`{name}` must be a whole number, 0 or more, got {shown(bound)}")
    kept, rows, columns = cells.core(data.user_items, *least)
    has = data.counts.users, data.counts.items
    if data.nnz and not len(kept):
        _log.warning(
            "k_core keeps none of %s of %s and %s: each user would need %d and each item %d, "
            "and they have up to %d and %d; lower k, user_k= or item_k=",
            counted(data.nnz, "entry"),
            counted(int(np.count_nonzero(has[0])), "user"),
            counted(int(np.count_nonzero(has[1])), "item"),
            *(*least, *map(np.max, has)),
        )
    found = _narrowed(data.cells, kept, rows, columns)
    if (only := data.seen_only) is not None:
        inside = np.isin(only.entry_users, rows) & np.isin(only.user_items.indices, columns)
        seen_only = _narrowed(only.cells, np.flatnonzero(inside), rows, columns)
        found = found._replace(seen_only=seen_only)
    ids = data.user_ids.take(rows), data.item_ids.take(columns)
    return data._of_cells(found, *(*ids, data.origin, *data._known))


def _narrowed(
    found: Cells, kept: NDArray[np.int64], rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> Cells:
    """The cells at the positions ``kept``, which are all in the given rows and columns."""
    found = found.take(kept)
    return found._replace(rows=cells.narrow(found.rows, rows, columns))


def _also_seen(data: Interactions, more: NDArray[np.bool_]) -> Cells:
    """The cells that are only seen, and those of ``data`` where ``more`` is true."""
    found = data.cells.take(np.flatnonzero(more))
    if data.seen_only is not None:
        return cells.joined([data.seen_only.cells, found])
    return Cells(cells.ones(found.rows), found.timestamps)
