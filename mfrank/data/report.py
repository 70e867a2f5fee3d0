"""What interactions look like, and what is odd about them: the first look when a model is odd."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import counted, table
from mfrank.data.joining import check_numbering
from mfrank.data.time_units import FIRST_SECOND, LAST_SECOND

if TYPE_CHECKING:
    from mfrank.data.ids import Ids
    from mfrank.data.interactions import Interactions

_DAY = 86_400
_SINCE = 20 * 365 * _DAY
"""Timestamps that begin after 1990 are taken for seconds; days since 1970 are less."""
_MANY = 1_000
"""A user with so many entries, and 50 times those of the median, may be no person."""
_MANY_TIMES = 50
_LONG_DAYS = 3
"""A gap of less than these days may be a weekend."""
_RARE = 10.0
"""Logarithm of the odds against the longest gap, if the times were random."""
_COMMON = 0.01
"""A moment with such a share of all entries, and at least 100 of them, may be that of an import."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Least, median and most of some numbers."""

    least: float
    median: float
    most: float

    @classmethod
    def of(cls, numbers: NDArray[Any]) -> Self:
        """Of an array; zeros of an empty one."""
        if not len(numbers):
            return cls(0.0, 0.0, 0.0)
        return cls(float(numbers.min()), float(np.median(numbers)), float(numbers.max()))

    def __str__(self) -> str:
        return f"{self.least:,.6g} to {self.most:,.6g}, median {self.median:,.6g}"


@dataclass(frozen=True, slots=True)
class Times:
    """Timestamps of interactions.

    Attributes
    ----------
    first, last : int
    seconds : bool
        Whether they are seconds since 1970, to judge by their size; others may be dates before
        1990, or numbers of another unit.
    whole_days : bool
        Whether all seconds are those of midnight.
    gap : (int, int), or None
        The longest time without an entry, if it is too long for chance.
    moment : int, or None
        The timestamp of most entries, if these are more than a hundredth of all.
    at_moment : int
        Entries of that moment.
    """

    first: int
    last: int
    seconds: bool
    whole_days: bool
    gap: tuple[int, int] | None
    moment: int | None
    at_moment: int

    @classmethod
    def of(cls, times: NDArray[np.int64]) -> Self:
        """Of at least one timestamp."""
        moments, counts = np.unique(times, return_counts=True)
        first, last = int(moments[0]), int(moments[-1])
        seconds = first >= _SINCE and last <= LAST_SECOND
        whole_days = seconds and not (moments % _DAY).any()
        # At a resolution of days, hundreds of entries of one are nothing odd.
        most = int(counts.argmax())
        is_common = counts[most] >= max(100, _COMMON * len(times)) and not whole_days and seconds
        return cls(
            *(first, last, seconds, bool(whole_days)),
            gap=_long_gap(moments, len(times)) if seconds else None,
            moment=int(moments[most]) if is_common else None,
            at_moment=int(counts[most]) if is_common else 0,
        )

    def __str__(self) -> str:
        if not self.seconds:
            return f"{self.first} to {self.last}{_as_days(self.first, self.last)}"
        days = (self.last - self.first) / _DAY
        unit = ", in whole days" if self.whole_days else ""
        return f"{_moment(self.first)} to {_moment(self.last)} UTC, {days:,.3g} days{unit}"


@dataclass(frozen=True, slots=True)
class TestPart:
    """A test part beside the training data.

    Attributes
    ----------
    n_users, n_items, n_entries : int
        Of the test part, with entries.
    new_users, new_items, new_entries : int
        Those that the training data do not have; entries of a new user or item.
    repeated : int
        Entries that the training data have too.
    earlier : int, or None
        Entries before the last one of the training data; None without timestamps.
    other_ids : tuple of str
        Of "user" and "item": whose ids are numbers in one part and text in the other, which are
        never equal.
    """

    n_users: int
    n_items: int
    n_entries: int
    new_users: int
    new_items: int
    new_entries: int
    repeated: int
    earlier: int | None
    other_ids: tuple[str, ...]

    @classmethod
    def of(cls, train: Interactions, test: Interactions) -> Self:
        """Compare two parts by their ids."""
        sides = {
            "user": (test.user_ids, train.user_ids),
            "item": (test.item_ids, train.item_ids),
        }
        for side, both in sides.items():
            check_numbering(*both, "test", side)
        users = train.user_ids.rows(test.user_ids.labels, missing=-1)
        items = train.item_ids.rows(test.item_ids.labels, missing=-1)
        known_user = _have_entries(users, train.counts.users)
        known_item = _have_entries(items, train.counts.items)
        of_users, of_items = test.entry_users, test.user_items.indices
        known = known_user[of_users] & known_item[of_items]
        pairs = users[of_users[known]], items[of_items[known]]
        repeated = np.count_nonzero(train.user_items[pairs]) if len(pairs[0]) else 0
        earlier = None
        if train.timestamps is not None and test.timestamps is not None and train.nnz:
            earlier = int((test.timestamps < train.timestamps.max()).sum())
        has_users, has_items = test.counts.users > 0, test.counts.items > 0
        return cls(
            *(int(has_users.sum()), int(has_items.sum()), test.nnz),
            new_users=int((has_users & ~known_user).sum()),
            new_items=int((has_items & ~known_item).sum()),
            new_entries=test.nnz - int(known.sum()),
            repeated=int(repeated),
            earlier=earlier,
            other_ids=tuple(
                side
                for side, (own, ids) in sides.items()
                if own.are_numbers != ids.are_numbers and len(own) and len(ids)
            ),
        )


@dataclass(frozen=True, slots=True, repr=False)
class DataReport:
    """What interactions look like; ``print`` it. Made by :meth:`mfrank.Interactions.report`.

    Attributes
    ----------
    n_users, n_items, n_entries, n_seen_only : int
    threshold : float, or None
        Of :meth:`mfrank.Interactions.at_least`.
    values : Spread
    n_values : int
        How many different values there are.
    per_user, per_item : Spread
        Entries of a user and of an item, of those that have some.
    empty_users, empty_items : int
        Users and items without entries.
    half : int
        The fewest items that have half of all entries.
    busiest : tuple of (id, entries)
        Users with a thousand entries and fifty times those of the median: robots, or several
        people? At most three, the busiest first.
    n_busy : int
        How many such users there are.
    times : Times, or None
    test : TestPart, or None
    ids : tuple of str
        What the ids of users and of items are, such as "text".
    read : tuple of str
        What was read and left out to make the interactions; empty if that is not known.
    """

    n_users: int
    n_items: int
    n_entries: int
    n_seen_only: int
    threshold: float | None
    values: Spread
    n_values: int
    per_user: Spread
    per_item: Spread
    empty_users: int
    empty_items: int
    half: int
    busiest: tuple[tuple[Any, int], ...]
    n_busy: int
    times: Times | None
    test: TestPart | None
    ids: tuple[str, str]
    read: tuple[str, ...]

    @classmethod
    def of(cls, data: Interactions, test: Interactions | None = None) -> Self:
        """Count interactions, and a test part beside them."""
        users, items = data.counts.users, data.counts.items
        per_user, per_item = Spread.of(users[users > 0]), Spread.of(items[items > 0])
        shares = np.cumsum(np.sort(items)[::-1])
        busy = np.flatnonzero(users >= max(_MANY, _MANY_TIMES * per_user.median))
        busiest = busy[np.argsort(-users[busy], kind="stable")[:3]]
        values = data.user_items.data
        has_times = data.timestamps is not None and data.nnz
        return cls(
            *(data.n_users, data.n_items, data.nnz),
            n_seen_only=0 if data.seen_only is None else data.seen_only.nnz,
            threshold=data.threshold,
            values=Spread.of(values),
            n_values=len(np.unique(values)),
            per_user=per_user,
            per_item=per_item,
            empty_users=int((users == 0).sum()),
            empty_items=int((items == 0).sum()),
            half=int(np.searchsorted(2 * shares, data.nnz)) + 1 if data.nnz else 0,
            busiest=tuple(
                (label, int(n))
                for label, n in zip(
                    data.user_ids.raw(busiest).tolist(), users[busiest], strict=True
                )
            ),
            n_busy=len(busy),
            times=Times.of(data.timestamps) if has_times else None,  # type: ignore[arg-type]
            test=None if test is None else TestPart.of(data, test),
            ids=(_kind_of(data.user_ids), _kind_of(data.item_ids)),
            read=data.notes,
        )

    def rows(self) -> Iterator[tuple[str, str]]:
        """Names and texts of the lines of the report, but for what is odd."""
        for number, line in enumerate(self.read):
            yield "" if number else "read", line
        yield "ids", f"users {self.ids[0]}, items {self.ids[1]}"
        cells = self.n_users * self.n_items
        density = f", {self.n_entries / cells:.3%} of the cells" if cells else ""
        yield "users", _side(self.n_users, self.empty_users, self.per_user)
        yield "items", _side(self.n_items, self.empty_items, self.per_item)
        yield "entries", f"{self.n_entries:,}{density}"
        if self.n_seen_only:
            below = "" if self.threshold is None else f", such as values below {self.threshold:g}"
            yield "only seen", f"{self.n_seen_only:,} more{below}"
        if self.n_values == 1:
            yield "values", f"all {self.values.least:g}"
        elif self.n_values:
            yield "values", f"{self.values}; {self.n_values:,} different ones"
        if self.n_entries:
            share = self.half / (self.n_items - self.empty_items)
            yield "popular", f"{counted(self.half, 'item')} ({share:.2%}) have half of all entries"
        yield "times", "none" if self.times is None else str(self.times)
        if self.test is not None:
            test = self.test
            yield (
                "test",
                f"{counted(test.n_entries, 'entry')} of {counted(test.n_users, 'user')} and "
                f"{counted(test.n_items, 'item')}",
            )

    def odd(self) -> Iterator[str]:
        """What to look at, a sentence each."""
        if self.busiest:
            most = ", ".join(f"{label!s} has {n:,} entries" for label, n in self.busiest)
            yield (
                f"{counted(self.n_busy, 'user')} with at least {_MANY:,} entries and {_MANY_TIMES} "
                f"times the median: robots, or accounts of many people? {most}"
            )
        if self.times is not None:
            yield from self._odd_times(self.times)
        if self.test is not None:
            yield from self._odd_test(self.test)

    def _odd_times(self, times: Times) -> Iterator[str]:
        if times.gap is not None:
            begin, end = times.gap
            yield (
                f"no entry for {(end - begin) / _DAY:.3g} days, from {_moment(begin)} to "
                f"{_moment(end)}: is a file missing?"
            )
        if times.moment is not None:
            yield (
                f"{times.at_moment:,} entries ({times.at_moment / self.n_entries:.1%}) at "
                f"{_moment(times.moment)}: the moment of an import?"
            )

    def _odd_test(self, test: TestPart) -> Iterator[str]:
        for side in test.other_ids:
            yield (
                f"{side} ids are numbers in one part and text in the other, which are never the "
                "same: convert one of them"
            )
        if test.new_users or test.new_items:
            yield (
                f"{test.new_users:,} of {counted(test.n_users, 'user')} and {test.new_items:,} of "
                f"{counted(test.n_items, 'item')} of the test part have no entry here; nothing "
                f"can be learned of {test.new_entries:,} of its {test.n_entries:,} entries"
            )
        if test.repeated:
            yield f"these interactions have {counted(test.repeated, 'entry')} of the test part too"
        if test.earlier and test.n_entries:
            yield (
                f"{test.earlier:,} of {test.n_entries:,} entries of the test part are older than "
                "the last one here: a model is asked for what came before what it learns from"
            )

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.rows())
        lines = [f"{name:<{width}}  {text}" for name, text in self.rows()]
        return "\n".join([*lines, *(f"look at: {sentence}" for sentence in self.odd())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table("Interactions", [*self.rows(), *(("look at", odd) for odd in self.odd())])


def _side(n: int, empty: int, each: Spread) -> str:
    without = f", {empty:,} of them without entries" if empty else ""
    return f"{n:,}{without}; each has {each}" if each.most else f"{n:,}{without}"


def _kind_of(ids: Ids) -> str:
    if ids.are_numbers:
        return "whole numbers"
    return "text" if ids.are_text else "of several types"


def _have_entries(rows: NDArray[np.int64], counts: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows have entries; -1 has none."""
    found = rows >= 0
    found[found] = counts[rows[found]] > 0
    return found


def _long_gap(moments: NDArray[np.int64], n: int) -> tuple[int, int] | None:
    """The longest time between moments, if n random times would hardly leave such a gap."""
    if len(moments) < 3:
        return None
    gaps = np.diff(moments)
    longest = int(gaps.argmax())
    chance = (np.log(n) + _RARE) * float(moments[-1] - moments[0]) / n
    # A few old entries before the others are odd times, no gap.
    within = 0.01 * len(moments) <= longest + 1 <= 0.99 * len(moments)
    if not within or gaps[longest] < max(chance, _LONG_DAYS * _DAY):
        return None
    return int(moments[longest]), int(moments[longest + 1])


def span_of(times: NDArray[np.int64]) -> str:
    """From when to when, as dates if these are seconds since 1970 by their size."""
    if not times.size:
        return "none"
    first, last = int(times.min()), int(times.max())
    if first < _SINCE or last > LAST_SECOND:
        return f"{first} to {last}"
    return f"{_moment(first)} to {_moment(last)}"


def _as_days(first: int, last: int) -> str:
    """Which days these numbers are if they are seconds since 1970; "" if they cannot be."""
    if first < FIRST_SECOND or last > LAST_SECOND:
        return ""
    begin, end = (_moment(second).partition(" ")[0] for second in (first, last))
    days = begin if begin == end else f"{begin} to {end}"
    return f" ({days}, if these are seconds since 1970)"


def _moment(second: int) -> str:
    second = min(max(second, FIRST_SECOND), LAST_SECOND)
    written = datetime.fromtimestamp(second, UTC).isoformat(" ").removesuffix("+00:00")
    return written.removesuffix(" 00:00:00")
