"""Kinds of events, such as views and purchases, as values."""

from __future__ import annotations

import difflib
import itertools
import logging
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import check_above_zero, counted, is_number, shown
from mfrank.data.columns import Chosen
from mfrank.data.distinct import Coded
from mfrank.data.feature_columns import is_missing
from mfrank.data.notes import log as _log
from mfrank.data.notes import note_weights
from mfrank.data.odd_times import tell_of_duration
from mfrank.data.row_choice import RowChoice, Where, as_kind, distinct_values
from mfrank.data.time_units import Moments
from mfrank.errors import InputTypeError, InputValueError, Notice

KindWeights = Mapping[Any, float | None]
"""A weight for each kind of event; rows of None are left out."""

_SHOWN, _LONG_AGO = 8, np.iinfo(np.int64).min
_NEARLY = 0.85
"""Similarity of two kinds of which one is probably a slip, as purchse is; review is not."""
_FADED = 100
"""Half-lives after which events count the same: a weight of 0 would be of what is only seen."""


@dataclass(frozen=True, slots=True)
class EventWeights:
    """What an event of each kind counts, and which rows are read.

    Attributes
    ----------
    column : column name, or None
        Of the kinds; None recognizes it by its name.
    weights : mapping of str to float or None
        By the kinds as text, so that 1 and "1" are the same kind. Rows of None are left out. Empty
        for values as they are.
    rows : RowChoice
        The rows that are read.
    cap, half_life : float or None
        Of the sums of weights, as in :meth:`mfrank.Events.weighted`.
    counts : Counter
        Rows that were ``"given"`` to :meth:`weighed`, and those ``"kept"``.
    met : set of str
        The kinds that rows have.
    """

    column: Hashable | None
    weights: Mapping[str, float | None]
    rows: RowChoice = field(default_factory=RowChoice)
    cap: float | None = None
    half_life: float | None = None
    counts: Counter[str] = field(default_factory=Counter)
    met: set[str] = field(default_factory=set)

    @classmethod
    def of(
        cls,
        column: Hashable | None,
        weights: KindWeights | None,
        where: Where | None = None,
        cap: float | None = None,
        half_life: float | None = None,
    ) -> Self | None:
        """Check, and note, the arguments ``event``, ``weights`` and so on; None if there are none.

        Raises
        ------
        ValueError, TypeError
            Only the event is given, the weights are not finite numbers, or ``where`` is no mapping
            of columns to values.
        """
        rows = RowChoice.of(where)
        both = {"cap": cap, "half_life": half_life}
        sums = {name: own for name, own in both.items() if own is not None}
        check_above_zero(**sums)
        if weights is None and sums:
            raise InputValueError(
                f"`{next(iter(sums))}` is of weighted events:",
                "pass `weights={'view': 1, 'purchase': 5}`; `capped` and `mfrank.recency_weight` "
                "are for values",
            )
        if weights is None:
            if column is None:
                return cls(None, {}, rows) if rows else None
            raise InputValueError(
                "`event` names the kinds of events, and nothing says what each kind counts:",
                "pass `weights={'view': 1, 'purchase': 5}`",
            )
        if not isinstance(weights, Mapping):
            raise InputTypeError(
                "`weights` must be a mapping such as {'view': 1, 'purchase': 5}, got "
                f"{type(weights).__name__}"
            )
        known = {as_kind(kind): weight for kind, weight in weights.items()}
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
        each = {k: None if w is None else float(w) for k, w in known.items()}
        note_weights(each)
        return cls(column, each, rows, cap, half_life)

    @classmethod
    def of_arrays(
        cls,
        events: Any,
        weights: KindWeights | None,
        cap: float | None = None,
        half_life: float | None = None,
    ) -> Self | None:
        """Check the arguments ``events``, an array, ``weights`` and so on."""
        if (events is None) != (weights is None):
            given, other = ("events", "weights") if weights is None else ("weights", "events")
            raise InputValueError(
                f"`{given}` needs `{other}`:",
                "pass the kind of each event, such as ['view', 'purchase'], and what each kind "
                "counts, such as {'view': 1, 'purchase': 5}",
            )
        return cls.of(None, weights, None, cap, half_life)

    def chosen(self, chosen: Chosen) -> Chosen:
        """The chosen columns, with that of the events and those of ``where``."""
        self.rows.note()
        events = {"event": self.column} if self.weights else {}
        return {**chosen, **events, **self.rows.roles}

    def weighed(self, columns: dict[str, Any], first_row: int = 0) -> dict[str, Any]:
        """Columns of the rows that are read, with values in place of events."""
        found = dict(columns)
        self.counts["given"] += len(found["user"])
        for role, column in self.rows.roles.items():
            kept = self.rows.among(column, found.pop(role))
            found = {role: kept_rows(each, kept) for role, each in found.items()}
        if self.weights:
            found["value"], left = self.values(found.pop("event"), found.get("value"), first_row)
            if left is not None:
                found = {role: kept_rows(each, left) for role, each in found.items()}
        self.counts["kept"] += len(found["user"])
        return found

    def tell(self) -> None:
        """Log how many rows are read, and warn of values that none of them has."""
        given, kept = self.counts["given"], self.counts["kept"]
        if kept < given:
            by = " and ".join(["`where`"] * bool(self.rows) + ["`weights`"] * bool(self.weights))
            _log.info(Notice(f"{kept:,} of {counted(given, 'row')} are read, by {by}"))
        self.rows.tell_unmet()
        self.tell_unmet()

    def tell_unmet(self) -> None:
        """Tell of kinds with a weight that no row has, as a warning if one is nearly written so."""
        for kind in sorted(self.weights.keys() - self.met) if self.met else ():
            near = _nearly(kind, sorted(self.met))
            told = f"; nearest to it is {near[0]!r}" if near else ""
            level = logging.WARNING if near else logging.INFO
            _log.log(level, Notice(f"`weights`: no row is of the kind {kind!r}{told}"))

    @property
    def facts(self) -> dict[str, Any]:
        """What was read so far, as JSON, for a run that resumes."""
        return {"counts": dict(self.counts), "where": self.rows.facts, "met": sorted(self.met)}

    def resume(self, facts: Mapping[str, Any]) -> None:
        """Go on after a run that read this."""
        self.counts.update(facts["counts"])
        self.rows.resume(facts["where"])
        self.met.update(facts.get("met", ()))  # journals of earlier versions have none

    def values(
        self, events: Any, values: Any = None, first_row: int = 0
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
        """The weights of events, times their values if there are some; which rows stay, if not all.

        Raises
        ------
        ValueError
            A kind has no weight, or a row has no kind; rows count from ``first_row``.
        """
        kinds, codes = kinds_of(events, first_row)
        weights = self.of_kinds(kinds)
        each = np.array(weights, np.float64)[codes]
        kept = np.array([weight is not None for weight in weights], bool)[codes]
        return each if values is None else each * values, None if kept.all() else kept

    def of_kinds(self, kinds: Sequence[str]) -> list[float | None]:
        """The weight of each kind, all of them met; ValueError if one has none."""
        self.met.update(kinds)
        unknown = [kind for kind in kinds if kind not in self.weights]
        if unknown:
            more = f" and {len(unknown) - _SHOWN:,} more" * (len(unknown) > _SHOWN)
            unmet = [kind for kind in self.weights if kind not in kinds]
            meant = {kind: near[0] for kind in unmet if (near := _nearly(kind, unknown))}
            known = {meant.get(kind, kind): weight for kind, weight in self.weights.items()}
            example = known | {kind: 1.0 for kind in unknown[:_SHOWN] if kind not in known}
            instead = f"; no row is of {', '.join(map(repr, meant))}" * bool(meant)
            listed = ", ".join(
                f"{kind!r}: {weight if weight is None else format(weight, 'g')}"
                for kind, weight in example.items()
            )
            raise InputValueError(
                f"`weights` has no weight for {', '.join(map(repr, unknown[:_SHOWN]))}{more}, of "
                f"{counted(len(kinds), 'kind')} of events{instead}",
                f"give each a weight, as in `weights={{{listed}}}`; 0 is only seen, and None "
                "leaves the rows out",
            )
        return [self.weights[kind] for kind in kinds]

    def aged(
        self, values: NDArray[Any], times: NDArray[np.int64] | None, newest: int | None = None
    ) -> NDArray[Any]:
        """Values of events by their age at the newest, if there is a half-life.

        Raises
        ------
        ValueError
            There are no timestamps to age by.
        """
        if self.half_life is None:
            return values
        if times is None:
            raise InputValueError(
                "`half_life` needs timestamps, and these events have none", "name their column"
            )
        if newest is None:
            tell_of_duration("half_life", self.half_life, times)
            newest = int(times.max(initial=_LONG_AGO))
        return values * np.exp2(-np.clip((newest - times) / self.half_life, 0, _FADED))

    def told(self) -> dict[str, Any]:
        """All that the result depends on, as JSON."""
        told: dict[str, Any] = {"column": self.column, "weights": dict(self.weights)}
        sums = {"cap": self.cap, "half_life": self.half_life}
        told |= {name: own for name, own in sums.items() if own is not None}
        if self.rows:
            told["where"] = self.rows.told()
        return told

    def none_left(self) -> InputValueError:
        """The error of weights, or of values of columns, that leave out every row."""
        return self.rows.none_left() if self.rows else none_left()


def _nearly(kind: str, kinds: Sequence[str]) -> list[str]:
    """The one of these kinds that is written nearly so, if there is one."""
    return difflib.get_close_matches(kind, kinds, 1, _NEARLY)


def none_left() -> InputValueError:
    """The error of weights that leave out every row."""
    return InputValueError("`weights` leave out all rows:", "give one of their kinds a weight")


def weighed(
    columns: dict[str, Any], events: EventWeights | None, first_row: int = 0
) -> dict[str, Any]:
    """Columns of the rows that are read, with values in place of events, if there are some."""
    return columns if events is None else events.weighed(columns, first_row)


def kept_rows(column: Any, kept: NDArray[np.bool_]) -> Any:
    """Some rows of a column, which may be None, a list or :class:`Moments`."""
    if column is None:
        return None
    if isinstance(column, Moments):
        return column._replace(numbers=column.numbers[kept])
    if hasattr(column, "dtype"):
        return (column if isinstance(column, Coded) else np.asarray(column))[kept]
    return list(itertools.compress(column, kept))


def kinds_of(events: Any, first_row: int = 0) -> tuple[list[str], NDArray[np.int64]]:
    """The kinds as text, in order, and for each row the position of its kind.

    Raises
    ------
    ValueError
        A kind is missing; rows count from ``first_row``.
    """
    distinct, codes = distinct_values(events)
    for place, kind in enumerate(distinct):
        if is_missing(kind):
            row = first_row + int(np.argmax(codes == place))
            raise InputValueError(
                f"`event`: the kind of event is missing, {kind!r} in row {row}",
                "drop the row, or give it a kind",
            )
    texts = list(map(as_kind, distinct))
    kinds = sorted(set(texts))
    return kinds, np.array([kinds.index(text) for text in texts], np.int64)[codes]
