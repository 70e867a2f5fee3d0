"""What is said about values: that a fit does not read them, or that data are not cut as its own.

Of data that are not cut as those of the fit were, a rating of 1 would count as a like, a view as a
purchase.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Protocol, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import counted, set_in_block
from mfrank.data import Interactions, ReadWeights, ReadWhere, ValuesFrom, has_kinds
from mfrank.errors import Notice

_log = logging.getLogger("mfrank")

_LOOKED_AT = 1_000_000
"""Maximum number of values looked at, in all or at a time: data may be mapped from a disk."""

_READS = "`mfrank.ALS(mfrank.WRMF(alpha=...))` reads them as confidences"
_REMEDY = f"{_READS}; if they are ratings, `at_least(threshold)` keeps those that count as positive"
_told: ContextVar[bool] = ContextVar("_told", default=False)


def values_told() -> AbstractContextManager[None]:
    """Suppress notices about values in this block; a caller with several fits logs them once."""
    return set_in_block(_told, True)


def are_values_told() -> bool:
    """Whether notices about values are suppressed."""
    return _told.get()


def tell_unread_values(
    name: str,
    given: Interactions | NDArray[np.floating],
    values_from: ValuesFrom | None = None,
    before: NDArray[np.floating] | None = None,
) -> None:
    """Log that a model does not read values, unless all are 1.

    The level is WARNING if the values vary, because the model then ignores information. It is lower
    if the caller knows: a threshold was set, the values count equal rows, or the model had such
    values ``before``.

    Parameters
    ----------
    name : str
        Name of the objective, loss or model.
    given : Interactions, or values of shape (n,)
        Models that do not read values leave out, or refuse, values that are not above 0.
    values_from : ValuesFrom, optional
        Default: the source of the interactions.
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
            Notice(
                f"{name} counts equal rows of a user and an item once, and does not read these "
                f"values, the numbers of such rows, up to {most:g}; {_READS}"
            )
        )
        return
    if least == most:
        _log.info("%s does not read values, which are all %g", name, most)
        return
    if source == "threshold" or _are_within(before, least, most):
        _log.info("%s does not read values, which go from %g to %g", name, least, most)
        return
    _log.warning(
        Notice(
            f"{name} does not read values, which go from {least:g} to {most:g}: to it, all "
            f"interactions are alike; {_REMEDY}"
        )
    )


def tell_readers(data: Interactions, uses: Iterable[tuple[str, bool | None]]) -> None:
    """Log which of several models read values that vary, and which not, as far as is known."""
    least, most = _range(data.user_items.data)
    known = list(uses)
    readers, others = ([name for name, use in known if use is each] for each in (True, False))
    if least == most or not others:
        return
    source = source_of(data)
    _log.log(
        logging.INFO if source in ("repeats", "threshold") else logging.WARNING,
        "values%s go from %g to %g: read by %s; not read by %s",
        ", the numbers of equal rows," if source == "repeats" else "",
        *(least, most, ", ".join(readers) or "none", ", ".join(others)),
    )


def source_of(given: Any) -> ValuesFrom:
    """The source of the values of interactions; for other inputs, the values as passed."""
    if not isinstance(given, Interactions):
        return "given"
    has_dropped = given.threshold is not None and given.seen_only is not None
    return "threshold" if has_dropped else given.cells.values_from


def n_below(given: Any, threshold: float | None) -> int:
    """Number of values above 0 and below the threshold of a model's data.

    It is 0 for

    - interactions with a threshold of their own: the caller has chosen what counts;
    - weighted interactions, which are in other units;
    - values that are all 1: the data have no values, or only marks of what counts.

    Parameters
    ----------
    given : Interactions, or sparse matrix or values on the host
    threshold : float or None
    """
    if threshold is None:
        return 0
    if isinstance(given, Interactions) and (
        given.threshold is not None or given.cells.values_from == "weights"
    ):
        return 0
    stored: Any = given.user_items if isinstance(given, Interactions) else given
    values = cast(Any, stored).tocsr().data if sp.issparse(stored) else np.asarray(stored)
    parts = [values[begin : begin + _LOOKED_AT] for begin in range(0, len(values), _LOOKED_AT)]
    if all((part == 1).all() for part in parts):
        return 0
    return sum(int(np.count_nonzero((part > 0) & (part < threshold))) for part in parts)


def tell_of_liked(
    reader: Any, values: NDArray[Any], threshold: float | None, *, given: bool
) -> None:
    """Tell of values of somebody's items that a model or objective does not read, or are low."""
    if given and not reader.uses_values:
        tell_unread_values(type(reader).__name__, values)
    _tell_below("values", values, threshold, "count as likes")


class _Fitted(Protocol):
    """What knows how the data of a fit were cut: a model, its store or the data themselves."""

    @property
    def threshold(self) -> float | None: ...

    @property
    def where(self) -> ReadWhere: ...

    @property
    def event_weights(self) -> ReadWeights: ...


def tell_uncut(name: str, given: Any, fitted: _Fitted | None, effect: str) -> None:
    """Warn of data that are not cut as those of a fit: by a threshold, by a choice of rows.

    Parameters
    ----------
    name : str
        Name of the argument.
    given
        As in :func:`n_below`.
    fitted : model, FactorStore, Interactions, or None if nothing is known
    effect : str
        What is done with the values, such as ``"count as hits"``.
    """
    if fitted is not None:
        _tell_below(name, given, fitted.threshold, effect)
        _tell_other_rows(name, given, fitted.where, effect)
        _tell_other_kinds(name, given, fitted.where, effect)
        _tell_unweighted(name, given, fitted.event_weights, effect)


def _tell_other_rows(name: str, given: Any, where: ReadWhere, effect: str) -> None:
    """Warn of rows with any value in a column by which those of the fit were chosen.

    Data with a choice of their own are as their caller means them. Of data without the column
    nobody knows: they may well be of such rows alone.
    """
    own = given.where if isinstance(given, Interactions) else {}
    other = {
        column: values[0] if len(values) == 1 else [*values]
        for column, values in where.items()
        if values is not None and own.get(column) is None and not _weighs(given, column)
    }
    if _told.get() or not other or (isinstance(given, Interactions) and not given.nnz):
        return
    columns = ", ".join(map(repr, other))
    if any(column in own for column in other):
        _log.warning(
            Notice(
                f"`{name}` has rows with any value in column {columns}, and the fit's data only "
                f"those of `where={other}`: all {effect}; read `{name}` with the same `where`, or "
                "with all values if that is meant"
            )
        )
    else:
        _log.info(
            Notice(
                f"`{name}` has no column {columns}, and the fit's data only rows of "
                f"`where={other}`: all of `{name}` is taken as such rows"
            )
        )


def _weighs(given: Any, column: str) -> bool:
    """Whether data have weights of kinds, and the column has these."""
    return isinstance(given, Interactions) and bool(given.event_weights) and has_kinds(column)


def _tell_other_kinds(name: str, given: Any, where: ReadWhere, effect: str) -> None:
    """Log that data with a choice of their own have none of the fit's kinds, or weigh others."""
    if _told.get() or not isinstance(given, Interactions) or not given.nnz:
        return
    for column, values in where.items():
        weighed = [kind for kind, weight in given.event_weights.items() if weight is not None]
        own = given.where.get(column) or (weighed if _weighs(given, column) else ())
        other = sorted({*own} - {*values}) if values else []
        if other and (len(other) == len(own) or _weighs(given, column)):
            _log.info(
                Notice(
                    f"`{name}` has rows with {', '.join(map(repr, other))} in column {column!r}, "
                    f"and the fit's data only with {', '.join(map(repr, values or ()))}: all "
                    f"{effect}"
                )
            )


def _tell_unweighted(name: str, given: Any, weights: ReadWeights, effect: str) -> None:
    """Warn of events of all kinds without the weights that those of the fit had."""
    if _told.get() or not weights or not isinstance(given, Interactions) or given.event_weights:
        return
    columns = [column for column, of in given.where.items() if of is None and has_kinds(column)]
    if not columns:
        return
    _log.warning(
        Notice(
            f"`{name}` has kinds of events in column {columns[0]!r}, which are not read, and those "
            f"of the fit had `weights={dict(weights)}`: all {effect}; read `{name}` with these"
        )
    )


def _tell_below(name: str, given: Any, threshold: float | None, effect: str) -> None:
    if _told.get():
        return
    if are_marks(given, threshold):
        _log.warning(
            Notice(
                f"`{name}` has values that are all 1, and the fit's data were cut by "
                f"`at_least({threshold:g})`: they are taken as marks of what counts; if they are "
                f"ratings, pass `{name}.at_least({threshold:g})`, and `{name}.at_least(1)` if not"
            )
        )
    if below := n_below(given, threshold):
        remedy = f"keep only values from {threshold:g} on"
        if isinstance(given, Interactions):
            remedy = (
                f"pass `{name}.at_least({threshold:g})`, or `{name}.at_least(0)` if that is meant"
            )
        _log.warning(
            Notice(
                f"`{name}` has {counted(below, 'value')} below {threshold:g}, and the fit's data "
                f"were cut by `at_least({threshold:g})`: these {effect}; {remedy}"
            )
        )


def are_marks(given: Any, threshold: float | None) -> bool:
    """Whether all values are 1 while the threshold of a model's data is higher.

    Such values are ambiguous: ratings below the threshold, or marks of what counts.
    """
    if threshold is None or threshold <= 1 or not isinstance(given, Interactions):
        return False
    return given.threshold is None and given.cells.values_from == "ones" and given.nnz > 0


def values_vary(values: NDArray[np.floating]) -> bool:
    """Whether the values above 0 differ."""
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
