"""Kinds of events, such as views and purchases, as values: each kind has a weight."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import counted, is_number, shown
from mfrank.data.columns import Chosen
from mfrank.data.feature_columns import is_missing
from mfrank.data.labels import objects
from mfrank.data.time_units import Moments
from mfrank.errors import InputTypeError, InputValueError

KindWeights = Mapping[Any, float | None]
"""A weight for each kind of event; rows of None are left out."""

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class EventWeights:
    """What an event of each kind counts.

    Attributes
    ----------
    column : column name, or None
        Of the kinds; None recognizes it by its name.
    weights : mapping of str to float or None
        By the kinds as text, so that 1 and "1" are the same kind. Rows of None are left out.
    """

    column: Hashable | None
    weights: Mapping[str, float | None]

    @classmethod
    def of(cls, column: Hashable | None, weights: KindWeights | None) -> Self | None:
        """Check the arguments ``event`` and ``weights``; None if there are neither.

        Raises
        ------
        ValueError, TypeError
            Only the event is given, or the weights are not finite numbers.
        """
        if weights is None:
            if column is None:
                return None
            raise InputValueError(
                "`event` names the kinds of events, and nothing says what each kind counts:",
                "pass `weights={'view': 1, 'purchase': 5}`",
            )
        if not isinstance(weights, Mapping):
            raise InputTypeError(
                "`weights` must be a mapping such as {'view': 1, 'purchase': 5}, got "
                f"{type(weights).__name__}"
            )
        known = {_text(kind): weight for kind, weight in weights.items()}
        if len(known) < len(weights) or not known:
            raise InputValueError(
                f"`weights` must have each kind of event once, got {shown(list(weights))}"
            )
        for kind, weight in known.items():
            if not (weight is None or is_number(weight)):
                raise InputValueError(
                    f"`weights` must be finite numbers, or None for rows to leave out, got "
                    f"{shown(weight)} for {kind!r}"
                )
        return cls(column, {k: None if w is None else float(w) for k, w in known.items()})

    @classmethod
    def of_arrays(cls, events: Any, weights: KindWeights | None) -> Self | None:
        """Check the arguments ``events``, an array, and ``weights``; None if there are neither."""
        if (events is None) != (weights is None):
            given, other = ("events", "weights") if weights is None else ("weights", "events")
            raise InputValueError(
                f"`{given}` needs `{other}`:",
                "pass the kind of each event, such as ['view', 'purchase'], and what each kind "
                "counts, such as {'view': 1, 'purchase': 5}",
            )
        return None if weights is None else cls.of(None, weights)

    def chosen(self, chosen: Chosen) -> Chosen:
        """The chosen columns, with that of the events."""
        return {**chosen, "event": self.column}

    def values(
        self, events: Any, values: Any = None, first_row: int = 0
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
        """The weights of events, times their values if there are some; which rows stay, if not all.

        Raises
        ------
        ValueError
            A kind has no weight, or a row has no kind; rows count from ``first_row``.
        """
        kinds, codes = _distinct(events, first_row)
        unknown = [kind for kind in kinds if kind not in self.weights]
        if unknown:
            more = f" and {len(unknown) - _SHOWN:,} more" * (len(unknown) > _SHOWN)
            example = {**self.weights, **dict.fromkeys(unknown[:_SHOWN], 1.0)}
            listed = ", ".join(
                f"{kind!r}: {weight if weight is None else format(weight, 'g')}"
                for kind, weight in example.items()
            )
            raise InputValueError(
                f"`weights` has no weight for {', '.join(map(repr, unknown[:_SHOWN]))}{more}, of "
                f"{counted(len(kinds), 'kind')} of events",
                f"give each a weight, as in `weights={{{listed}}}`; 0 is only seen, and None "
                "leaves the rows out",
            )
        weights = [self.weights[kind] for kind in kinds]
        each = np.array(weights, np.float64)[codes]
        kept = np.array([weight is not None for weight in weights], bool)[codes]
        return each if values is None else each * values, None if kept.all() else kept

    def told(self) -> dict[str, Any]:
        """All that the result depends on, as JSON."""
        return {"column": self.column, "weights": dict(self.weights)}


def none_left() -> InputValueError:
    """The error of weights that leave out every row."""
    return InputValueError("`weights` leave out all rows:", "give one of their kinds a weight")


def weighed(
    columns: dict[str, Any], events: EventWeights | None, first_row: int = 0
) -> dict[str, Any]:
    """Columns of a table with values in place of events, if it has some."""
    if events is None:
        return columns
    rest = dict(columns)
    rest["value"], kept = events.values(rest.pop("event"), rest.get("value"), first_row)
    return rest if kept is None else {role: rows_of(each, kept) for role, each in rest.items()}


def rows_of(column: Any, kept: NDArray[np.bool_]) -> Any:
    """Some rows of a column, which may be None, a list or :class:`Moments`."""
    if column is None:
        return None
    if isinstance(column, Moments):
        return column._replace(numbers=column.numbers[kept])
    if hasattr(column, "dtype"):
        return np.asarray(column)[kept]
    return list(itertools.compress(column, kept))


def _distinct(events: Any, first_row: int) -> tuple[list[str], NDArray[np.int64]]:
    """The kinds as text, and for each row the position of its kind."""
    # numpy would make text of all in a list that has some, and so of NaN.
    events = np.asarray(events) if hasattr(events, "__array__") else objects(events)
    if events.dtype.kind in "iu":
        numbers, codes = np.unique(events, return_inverse=True)
        return [str(number) for number in numbers.tolist()], codes
    places = dict[Any, int]()
    codes = np.fromiter(
        (places.setdefault(kind, len(places)) for kind in events.tolist()), np.int64, len(events)
    )
    for kind, place in places.items():
        if is_missing(kind):
            row = first_row + int(np.argmax(codes == place))
            raise InputValueError(
                f"`event`: the kind of event is missing, {kind!r} in row {row}",
                "drop the row, or give it a kind",
            )
    kinds = list(map(_text, places))
    distinct = sorted(set(kinds))
    return distinct, np.array([distinct.index(kind) for kind in kinds], np.int64)[codes]


def _text(kind: object) -> str:
    if isinstance(kind, bytes):
        return kind.decode(errors="backslashreplace")  # two kinds are never the same text
    whole = isinstance(kind, float | np.floating) and kind.is_integer()
    return str(int(kind)) if whole else str(kind)  # type: ignore[call-overload]
