"""What is said about values: that a fit does not read them, or takes them as confidences.

And that data beside a model are not cut by a threshold, as those of its fit were: a rating of 1
would count as a like.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.als.quadratic import QuadraticObjective
from mfrank.arrays.counted import counted
from mfrank.arrays.warned import warn_caller
from mfrank.data.cells import ValuesFrom
from mfrank.data.interactions import Interactions

__all__ = [
    "n_below",
    "source_of",
    "tell_below",
    "tell_readers",
    "tell_unread_values",
    "values_told",
    "values_vary",
    "warn_if_unscaled",
]

_log = logging.getLogger("mfrank")

_HEAVY = 100.0
"""Largest confidence times the root of the density without a warning. For this product, ``tune``
begins to search with an average near 1, and ends at 10."""
_OVER_MEDIAN = 10.0
"""The least factor by which it exceeds the median: below, all weigh about the same."""
_LOOKED_AT = 1_000_000
"""Maximum number of values looked at, in all or at a time: data may be mapped from a disk."""


def warn_if_unscaled(objective: QuadraticObjective, data: Interactions) -> None:
    """Warn if an objective that reads values as confidences is given some that drown the rest.

    Values of at most 1 count as scaled: if they weigh much, that is by the caller's ``alpha``.
    """
    if not objective.uses_values:
        return
    values = data.user_items.data[:: -(-data.nnz // _LOOKED_AT)]
    sizes = np.abs(values)
    slope = objective.observed(np.ones(1, np.int64), data.n_items).curvature.slope
    density = data.nnz / (data.n_users * data.n_items)
    largest, median = float(sizes.max()), float(np.median(sizes))
    if largest <= 1 or largest < _OVER_MEDIAN * median:
        return
    if slope * largest * np.sqrt(density) <= _HEAVY:
        return
    logarithms = "fit to mfrank.log_weight(data), or " if values.min() > 0 else ""
    warn_caller(
        f"{type(objective).__name__} takes values as confidences, and they go up to "
        f"{largest:,.6g} (the median is {median:,.6g}): a few cells outweigh all "
        f"others; {logarithms}lower alpha"
    )


_READS = "mfrank.ALS(mfrank.WRMF(alpha=...)) reads them as confidences"
_REMEDY = f"{_READS}; if they are ratings, at_least(threshold) keeps those that count as positive"
_told: ContextVar[bool] = ContextVar("_told", default=False)


@contextmanager
def values_told() -> Iterator[None]:
    """Within, nothing is said about values: who makes several fits says it once for all."""
    before = _told.set(True)
    try:
        yield
    finally:
        _told.reset(before)


def tell_unread_values(
    name: str,
    given: Interactions | NDArray[np.floating],
    values_from: ValuesFrom | None = None,
    before: NDArray[np.floating] | None = None,
) -> None:
    """Log that a model does not read values, unless all are 1.

    It is a warning where they vary, because then the model ignores what they say; but not where it
    is nothing new to the caller: a threshold was set, the values are numbers of equal rows, or the
    model had such values ``before``.

    Parameters
    ----------
    name : str
        Of the objective, loss or model.
    given : Interactions, or values of shape (n,)
        Models that do not read values leave out, or refuse, those that are not above 0.
    values_from : {"given", "repeats", "threshold"}, optional
        By default that of the interactions.
    before : values of shape (n,), optional
    """
    values = given.user_items.data if isinstance(given, Interactions) else given
    if _told.get() or not len(values):
        return
    least, most = _range(values)
    if least == most == 1:
        return
    source = values_from or source_of(given)
    if source == "repeats":
        _log.info(
            "%s counts equal rows of a user and an item once, and does not read these values, the "
            "numbers of such rows, up to %g; %s",
            *(name, most, _READS),
        )
        return
    if least == most:
        _log.info("%s does not read values, which are all %g", name, most)
        return
    if source == "threshold" or _are_within(before, least, most):
        _log.info("%s does not read values, which go from %g to %g", name, least, most)
        return
    _log.warning(
        "%s does not read values, which go from %g to %g: to it, all interactions are alike; %s",
        *(name, least, most, _REMEDY),
    )


def tell_readers(data: Interactions, readers: Sequence[str], others: Sequence[str]) -> None:
    """Log which of several models read values that vary, and which others do not."""
    least, most = _range(data.user_items.data)
    if least == most or not others:
        return
    source = source_of(data)
    _log.log(
        logging.WARNING if source == "given" else logging.INFO,
        "values%s go from %g to %g: read by %s; not read by %s",
        ", the numbers of equal rows," if source == "repeats" else "",
        *(least, most, ", ".join(readers) or "none", ", ".join(others)),
    )


def source_of(given: Any) -> ValuesFrom:
    """Where the values of interactions come from; of all else, they are as given."""
    if not isinstance(given, Interactions):
        return "given"
    has_dropped = given.threshold is not None and given.seen_only is not None
    return "threshold" if has_dropped else given.cells.values_from


def n_below(given: Any, threshold: float | None) -> int:
    """Number of values above 0 and below the threshold that a model's data were cut by.

    It is 0 for interactions that were cut by any threshold, because the caller has chosen what
    counts, and where all values are 1, as in data that have none.

    Parameters
    ----------
    given : Interactions, or sparse matrix or values on the host
    threshold : float or None
    """
    if threshold is None or (isinstance(given, Interactions) and given.threshold is not None):
        return 0
    stored: Any = given.user_items if isinstance(given, Interactions) else given
    values = cast(Any, stored).tocsr().data if sp.issparse(stored) else np.asarray(stored)
    parts = [values[begin : begin + _LOOKED_AT] for begin in range(0, len(values), _LOOKED_AT)]
    if all((part == 1).all() for part in parts):
        return 0
    return sum(int(np.count_nonzero((part > 0) & (part < threshold))) for part in parts)


def tell_below(name: str, given: Any, threshold: float | None, effect: str) -> None:
    """Warn of values below the threshold of a model's fit, and say what becomes of them.

    Parameters
    ----------
    name : str
        Of the argument.
    given, threshold
        As in :func:`n_below`.
    effect : str
        Such as ``"count as hits"``.
    """
    if not _told.get() and (below := n_below(given, threshold)):
        remedy = f"keep only values from {threshold:g} on"
        if isinstance(given, Interactions):
            remedy = f"pass {name}.at_least({threshold:g}), or {name}.at_least(0) if that is meant"
        _log.warning(
            "%s has %s below %g, and the fit's data were cut by at_least(%g): these %s; %s",
            *(name, counted(below, "value"), threshold, threshold, effect, remedy),
        )


def values_vary(values: NDArray[np.floating]) -> bool:
    """Whether the values above 0 are not all the same."""
    least, most = _range(values)
    return least < most


def _are_within(before: NDArray[np.floating] | None, least: float, most: float) -> bool:
    """Whether values that vary were there before, and these are among them."""
    if before is None:
        return False
    first, last = _range(before)
    return first < last and first <= least and most <= last


def _range(values: NDArray[np.floating]) -> tuple[float, float]:
    """The least and the largest value above 0; both 1 if there is none."""
    if not len(values) or (most := float(values.max())) <= 0:
        return 1.0, 1.0
    least = float(values.min())
    return (least if least > 0 else float(values[values > 0].min())), most
