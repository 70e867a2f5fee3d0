"""Events of several kinds, one by one: one kind is to be ranked, and all of them may train."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import (
    MadeOfFields,
    check_same_rows,
    counted,
    read_only,
    shown,
    to_host,
)
from mfrank.data import sources
from mfrank.data.cells import CellTally, from_triples
from mfrank.data.columns import Chosen
from mfrank.data.divided import NEVER
from mfrank.data.events import EventWeights, KindWeights, kinds_of, none_left
from mfrank.data.feature_columns import tell_twins
from mfrank.data.fields import IdsAs
from mfrank.data.frame_chunks import ROWS_AT_ONCE
from mfrank.data.frames import is_frame
from mfrank.data.ids import Ids
from mfrank.data.interactions import Interactions
from mfrank.data.labels import RawIds
from mfrank.data.layouts import Dialect
from mfrank.data.locations import Location
from mfrank.data.notes import Noted, gathered
from mfrank.data.row_choice import ReadWeights, ReadWhere, RowChoice, Where, as_kind
from mfrank.data.splits import Split, by_ratio, by_time, leave_k_out, leave_last, timestamps_of
from mfrank.data.sql import rows_of_query
from mfrank.data.time_units import TimestampUnit, check_unit
from mfrank.data.times import epoch_seconds
from mfrank.data.values import as_numbers
from mfrank.errors import InputTypeError, InputValueError

_BY_TIME = (by_time, leave_last)
_AT_RANDOM = (by_ratio, leave_k_out)


@dataclass(frozen=True, eq=False, repr=False)
class Events(MadeOfFields):
    """Events of several kinds, such as views and purchases, before anything says what each counts.

    Create with :meth:`from_frame`, :meth:`from_file` or :meth:`from_arrays`. ``events["purchase"]``
    are the interactions of one kind; :meth:`weighted` adds up all kinds. All have the same ids, so
    models of all events can be evaluated on purchases (:meth:`split`).

    Attributes
    ----------
    users, items : int32, shape (n,)
        Rows of the ids.
    codes : int16, shape (n,)
        Position in ``kinds``.
    kinds : tuple of str
    user_ids, item_ids : Ids
    values : float64, shape (n,), or None
        Such as quantities; None for 1 each.
    timestamps : int64, shape (n,), or None
    where : mapping of str to tuple of str, or None
        The other columns that were read, as of :class:`mfrank.Interactions`.
    column : str
        The column with the kinds.

    Examples
    --------
    >>> import mfrank
    >>> seen, kinds = ["tea", "tea", "milk"], ["view", "purchase", "view"]
    >>> events = mfrank.Events.from_arrays(["ann", "ann", "ben"], seen, kinds)
    >>> events["purchase"].to_pandas()["item"].tolist()
    ['tea']
    >>> events.weighted({"view": 1, "purchase": 5}).to_pandas()["value"].tolist()
    [6.0, 1.0]
    """

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    codes: NDArray[np.int16]
    kinds: tuple[str, ...]
    user_ids: Ids
    item_ids: Ids
    values: NDArray[np.float64] | None = None
    timestamps: NDArray[np.int64] | None = None
    where: ReadWhere = field(default_factory=dict)
    column: str = "event"

    def __post_init__(self) -> None:
        for name in ("users", "items", "codes", "values", "timestamps"):
            if (column := getattr(self, name)) is not None:
                object.__setattr__(self, name, read_only(column))

    # Constructors.

    @classmethod
    def of(cls, data: Any) -> Self:
        """Events (unchanged), or those of a table (:meth:`from_frame`); TypeError for others."""
        if isinstance(data, cls):
            return data
        if is_frame(data):
            return cls.from_frame(data)
        raise InputTypeError(
            f"expected Events or a table with a column of kinds, got {type(data).__name__}",
            "make them with `Events.from_file` or `Events.from_arrays`",
        )

    @classmethod
    def from_arrays(
        cls,
        users: RawIds,
        items: RawIds,
        events: ArrayLike,
        values: ArrayLike | None = None,
        timestamps: ArrayLike | None = None,
        *,
        timestamp_unit: TimestampUnit | None = None,
        user_ids: sources.IdsLike | None = None,
        item_ids: sources.IdsLike | None = None,
    ) -> Self:
        """Events from one array per column, as in :meth:`mfrank.Interactions.from_arrays`.

        ``events`` are their kinds: text or whole numbers, where 1 and "1" are the same kind.
        """
        check_unit(timestamp_unit)
        given = {"users": users, "items": items, "values": values, "timestamps": timestamps}
        check_same_rows(**given, events=events)
        users, items, values, timestamps = (to_host(each, name) for name, each in given.items())
        times, unit = None, timestamp_unit
        if timestamps is not None:  # in seconds from here on, which "s" leaves as they are
            times, unit = epoch_seconds(timestamps, timestamp_unit), "s"
        _, *ids = sources.from_arrays(
            users, items, values, times, unit, "sum", (user_ids, item_ids)
        )
        kinds = to_host(events, "events")
        read = {"user": users, "item": items, "event": kinds, "value": values, "timestamp": times}
        return cls._of_columns(read, ids)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        user: Hashable | None = None,
        item: Hashable | None = None,
        value: Hashable | Literal[False] | None = None,
        timestamp: Hashable | Literal[False] | None = None,
        event: Hashable | None = None,
        where: Where | None = None,
        timestamp_unit: TimestampUnit | None = None,
        user_ids: sources.IdsLike | None = None,
        item_ids: sources.IdsLike | None = None,
    ) -> Self:
        """Events from a table, as in :meth:`mfrank.Interactions.from_frame`.

        A column of values is read only if ``value`` names it.
        """
        chosen = {"user": user, "item": item, "value": value, "timestamp": timestamp}
        rows = _Rows.every(event, where)
        known = user_ids, item_ids
        with gathered() as noted:
            _, *ids = sources.from_frame(frame, chosen, timestamp_unit, "sum", known, rows)
        return cls._of_columns(rows.read[0], ids, noted)

    @classmethod
    def from_sql(
        cls,
        query: Any,
        connection: Any,
        *,
        params: Any = None,
        user: Hashable | None = None,
        item: Hashable | None = None,
        value: Hashable | Literal[False] | None = None,
        timestamp: Hashable | Literal[False] | None = None,
        event: Hashable | None = None,
        where: Where | None = None,
        timestamp_unit: TimestampUnit | None = None,
    ) -> Self:
        """Events from the rows of a database, as in :meth:`mfrank.Interactions.from_sql`."""
        chosen = {"user": user, "item": item, "value": value, "timestamp": timestamp}
        rows = _Rows.every(event, where)
        with (
            gathered() as noted,
            closing(rows_of_query(query, connection, params, ROWS_AT_ONCE)) as chunks,
        ):
            read = chunks, "`query`", chosen, timestamp_unit
            _, *ids = sources.from_chunks(*read, "sum", (None, None), rows)
        return cls._of_columns(rows.read[0], ids, noted)

    @classmethod
    def from_file(
        cls,
        path: Location,
        *,
        user: str | int | None = None,
        item: str | int | None = None,
        value: str | int | Literal[False] | None = None,
        timestamp: str | int | Literal[False] | None = None,
        event: str | int | None = None,
        where: Where | None = None,
        timestamp_unit: TimestampUnit | None = None,
        ids: IdsAs = "auto",
        user_ids: sources.IdsLike | None = None,
        item_ids: sources.IdsLike | None = None,
        **text: Any,
    ) -> Self:
        """Events from files, as in :meth:`mfrank.Interactions.from_file`.

        A column of values is read only if ``value`` names it. ``text`` are further arguments of
        that method that describe text, such as ``sep`` and ``header``.
        """
        chosen = {"user": user, "item": item, "value": value, "timestamp": timestamp}
        rows = _Rows.every(event, where)
        dialect, known = Dialect(**text), (user_ids, item_ids)
        how = chosen, dialect, ids, timestamp_unit
        with gathered() as noted:
            _, *found = sources.from_file(path, *how, "sum", known, rows)
        return cls._of_columns(rows.read[0], found, noted)

    @classmethod
    def _of_columns(
        cls, columns: Mapping[str, Any], ids: Sequence[Ids], noted: Noted | None = None
    ) -> Self:
        (user_ids, item_ids), (kinds, codes) = ids, kinds_of(columns["event"])
        tell_twins("the column of events", kinds)
        values, users = columns.get("value"), user_ids.rows(columns["user"])
        if len(codes) != len(users):
            raise InputValueError(f"{len(users)} users, but {len(codes)} `events`")
        return cls(
            users.astype(np.int32),
            item_ids.rows(columns["item"]).astype(np.int32),
            codes.astype(np.int16),
            tuple(kinds),
            user_ids,
            item_ids,
            None if values is None else as_numbers(values).astype(np.float64),
            columns.get("timestamp"),
            {} if noted is None else noted.where,
            (noted and noted.event) or "event",
        )

    # What they are.

    def __len__(self) -> int:
        return len(self.users)

    def __repr__(self) -> str:
        each = ", ".join(f"{n:,} {kind}" for kind, n in self.counts.items())
        users, items = len(self.user_ids), len(self.item_ids)
        return f"Events({counted(users, 'user')} x {counted(items, 'item')}: {each})"

    @property
    def counts(self) -> dict[str, int]:
        """Number of events of each kind."""
        numbers = np.bincount(self.codes, minlength=len(self.kinds)).tolist()
        return dict(zip(self.kinds, numbers, strict=True))

    def take(self, mask: NDArray[np.bool_]) -> Self:
        """The events where the mask, shape (n,), is True; kinds and ids stay."""
        rows = np.flatnonzero(mask)
        return replace(
            self,
            users=self.users[rows],
            items=self.items[rows],
            codes=self.codes[rows],
            values=None if self.values is None else self.values[rows],
            timestamps=None if self.timestamps is None else self.timestamps[rows],
        )

    def code_of(self, kind: object) -> int:
        """The position of a kind; ValueError if there is none."""
        if (text := as_kind(kind)) not in self.kinds:
            raise InputValueError(
                f"`target` must be a kind of event, got {shown(kind)}",
                f"the kinds are {', '.join(map(repr, self.kinds))}",
            )
        return self.kinds.index(text)

    def weights_of(self, weights: KindWeights) -> dict[str, float | None]:
        """The weight of each kind, checked as in :meth:`weighted`."""
        found = EventWeights.of(None, weights)
        if found is None:
            raise InputTypeError("`weights` must be a mapping such as {'view': 1, 'purchase': 5}")
        each = found.of_kinds(self.kinds)
        found.tell_unmet()
        return dict(zip(self.kinds, each, strict=True))

    # As interactions.

    def __getitem__(self, kind: object) -> Interactions:
        """The interactions of one kind; the value is the number of events, or their sum."""
        code = self.code_of(kind)
        return self._summed(self.codes == code, None, {self.column: (self.kinds[code],)})

    def weighted(
        self,
        weights: KindWeights,
        *,
        cap: float | None = None,
        half_life: float | None = None,
    ) -> Interactions:
        """Add up the weights of the events of each user and item.

        Parameters
        ----------
        weights : mapping of kind to number
            As in :meth:`mfrank.Interactions.from_arrays`.
        cap : float or None, default None
            > 0. Larger sums are lowered to it (:meth:`mfrank.Interactions.capped`).
        half_life : float or None, default None
            > 0, in the unit of the timestamps. Each event counts half as much with each half-life
            before the latest event that has a weight, by its own time
            (:func:`mfrank.recency_weight` ages sums).

        Raises
        ------
        ValueError, TypeError
            A kind has no weight, or there are no timestamps to age by.
        """
        each = list(self.weights_of(weights).values())
        found = EventWeights.of(None, weights, None, cap, half_life)
        assert found is not None
        kept = np.array([weight is not None for weight in each], bool)[self.codes]
        own = np.array([weight or 0.0 for weight in each])[self.codes]
        if not kept.any() and len(kept):
            raise none_left()
        times = None if self.timestamps is None else self.timestamps[kept]
        own[kept] = found.aged(own[kept], times)
        summed = self._summed(kept, own, {}, found.weights)
        return summed if cap is None else summed.capped(cap)

    def _summed(
        self,
        kept: NDArray[np.bool_],
        weights: NDArray[Any] | None,
        kinds: ReadWhere,
        event_weights: ReadWeights | None = None,
    ) -> Interactions:
        values = np.ones(len(self)) if self.values is None else self.values
        values = (values if weights is None else values * weights)[kept]
        times = None if self.timestamps is None else self.timestamps[kept]
        shape = len(self.user_ids), len(self.item_ids)
        cells = from_triples(
            *(self.users[kept], self.items[kept], values, times),
            shape=shape,
            duplicates="sum",
            tally=CellTally("sum"),
        )
        found = sources.finite(cells, self.user_ids, self.item_ids)
        known = {**self.where, **kinds}, event_weights
        return Interactions._of_cells(*found, None, None, *known)

    def split(self, target: object, by: Callable[..., Split], **options: Any) -> EventSplit:
        """Hold out interactions of one kind, such as purchases, and what would give them away.

        The interactions of the target are divided by ``by``. Of the other events, the training part
        has those

        - before the first interaction that is held out: of all users (:func:`mfrank.by_time`), or
          of the same user (:func:`mfrank.leave_last`);
        - of other pairs of user and item, if ``by`` draws at random (:func:`mfrank.by_ratio`,
          :func:`mfrank.leave_k_out`): views that led to a purchase are left out with it.

        Parameters
        ----------
        target : kind of event
        by : function
            One of these four.
        **options
            Of the function, such as ``test=0.1``.

        Examples
        --------
        >>> import mfrank
        >>> kinds, days = ["view", "view", "purchase"], ["2026-03-01", "2026-03-03", "2026-03-02"]
        >>> seen = ["tea", "milk", "tea"], ["milk", "tea", "milk"]
        >>> users, items = ["ann"] * 3 + ["ben"] * 3, [*seen[0], *seen[1]]
        >>> events = mfrank.Events.from_arrays(users, items, kinds * 2, timestamps=days * 2)
        >>> events.split("purchase", mfrank.by_ratio, train=0.5, test=0.5)
        EventSplit(train: 6 events, valid: 0 entries, test: 0 entries)
        """
        code = self.code_of(target)
        if by not in (*_BY_TIME, *_AT_RANDOM):
            names = ", ".join(f"mfrank.{each.__name__}" for each in (*_BY_TIME, *_AT_RANDOM))
            raise InputValueError(f"`by` must be one of {names}, got {shown(by)}")
        if options.get("folder") is not None:
            raise InputValueError("`folder` is for interactions: these events are in memory")
        parts = by(self[self.kinds[code]], **options)
        held_out = [part for part in (parts.valid, parts.test) if part.nnz]
        n_items = len(self.item_ids)
        keys = [part.entry_users * np.int64(n_items) + part.user_items.indices for part in held_out]
        own = self.users * np.int64(n_items) + self.items
        kept = ~np.isin(own, np.concatenate([*keys, np.empty(0, np.int64)]))
        if by in _BY_TIME and self.timestamps is not None:
            since = np.full(len(self.user_ids), NEVER)
            for part in held_out:
                np.minimum.at(since, part.entry_users, timestamps_of(part, "split", "by_ratio"))
            since = since if by is leave_last else since.min(initial=NEVER, keepdims=True)
            first = since[self.users if by is leave_last else 0]
            kept = np.where(self.codes == code, kept, self.timestamps < first)
        return EventSplit(self.take(kept), parts.valid, parts.test)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EventSplit:
    """Events to train on, and held-out interactions of one kind with the same ids.

    Attributes
    ----------
    train : Events
    valid, test : Interactions
        ``valid`` is empty unless it was requested.
    """

    train: Events
    valid: Interactions
    test: Interactions

    def __repr__(self) -> str:
        held_out = (f"{name}: {counted(getattr(self, name).nnz, 'entry')}" for name in _HELD_OUT)
        return f"EventSplit(train: {counted(len(self.train), 'event')}, {', '.join(held_out)})"


_HELD_OUT = ("valid", "test")


@dataclass(frozen=True, slots=True)
class _Rows(EventWeights):
    """Reads all kinds, and keeps the columns as they were read, row by row."""

    read: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def every(cls, column: Hashable | None, where: Where | None) -> Self:
        """Of a column, None to recognize it, and the rows to read."""
        return cls(column, {}, RowChoice.of(where))

    def chosen(self, chosen: Chosen) -> Chosen:
        return {**EventWeights.chosen(self, chosen), "event": self.column}

    def weighed(self, columns: dict[str, Any], first_row: int = 0) -> dict[str, Any]:
        found = EventWeights.weighed(self, columns, first_row)
        self.read.append(found)
        return {role: each for role, each in found.items() if role != "event"}
