"""Joined interactions are those of all rows written down together, in the first part's rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.data import Interactions
from tests.support.errors import refuses

WORDS = st.sampled_from(["ann", "bob", "cy", "dee", "eve"])
TABLE = st.lists(st.tuples(WORDS, st.integers(0, 6), st.integers(1, 5)), max_size=12)


def made(table: list[tuple[str, int, int]], times: bool = False) -> Interactions:
    users, items, values = ([row[at] for row in table] for at in range(3))
    return Interactions.from_arrays(
        np.array(users, dtype=object),
        np.array(items, dtype=np.int64),
        values,
        values if times else None,
    )


def cells(data: Interactions) -> dict[tuple[object, object], float]:
    users, items = data.user_ids.raw(data.entry_users), data.item_ids.raw(data.user_items.indices)
    pairs = zip(users.tolist(), items.tolist(), strict=True)
    return dict(zip(pairs, data.user_items.data.tolist(), strict=True))


@settings(max_examples=60, deadline=None)
@given(st.lists(TABLE, min_size=1, max_size=4))
def test_parts_are_one_table(tables: list[list[tuple[str, int, int]]]) -> None:
    parts = [made(table) for table in tables]
    joined = Interactions.concat(parts)
    assert cells(joined) == cells(made([row for table in tables for row in table]))
    first = next((part for part in parts if len(part.user_ids)), parts[0])
    assert joined.user_ids.labels[: first.n_users].tolist() == first.user_ids.labels.tolist()
    assert joined.item_ids.labels[: first.n_items].tolist() == first.item_ids.labels.tolist()


def test_the_sum_of_two_merges_cells_and_timestamps() -> None:
    before, today = made([("ann", 1, 2), ("bob", 1, 1)], True), made([("ann", 1, 3)], True)
    joined = before + today
    assert cells(joined) == {("ann", 1): 5, ("bob", 1): 1}
    assert joined.timestamps is not None
    assert joined.timestamps.tolist() == [3, 1]
    assert cells(Interactions.concat([before, today], duplicates="last"))["ann", 1] == 3
    assert cells(Interactions.concat([before, today], duplicates="max"))["ann", 1] == 3


def test_a_part_without_values_beside_ratings_is_told(caplog: pytest.LogCaptureFixture) -> None:
    users, items = np.divmod(np.arange(60), 6)
    plain = Interactions.from_arrays(users, items)
    ratings = Interactions.from_arrays(users, items + 9, 1 + np.arange(60) % 5)
    ones = Interactions.from_arrays(users, items, np.ones(60))
    likes = ratings.at_least(3, binary=True)
    for flat in (plain, ones, likes, plain + plain):
        for parts in ([ratings, flat], [flat, ratings], [flat, ratings, ones]):
            caplog.clear()
            Interactions.concat(parts)
            assert caplog.text.count("all values of part") == 1
            assert f"of part {1 + (parts[0] is ratings)} are 1" in caplog.text
            rated = f"of part {1 + parts.index(ratings)} look like ratings, from 1 to 5"
            assert rated in caplog.text
    counts = Interactions.from_arrays(users, items, np.arange(60) % 30)
    weighted = ratings.weighted(np.ones(60) * 0.5)
    few = plain.take(np.arange(60) < 9)
    for parts in (
        *([plain, ones], [plain, counts], [plain, weighted], [few, ratings], [ratings, ratings]),
        [plain, ratings.at_least(3)],  # of which no value says that an item is disliked
    ):
        caplog.clear()
        Interactions.concat(parts)
        assert "all values of part" not in caplog.text


def test_users_without_entries_and_numbered_rows_stay() -> None:
    empty = Interactions.from_arrays([], [], shape=(3, 2))
    joined = empty + Interactions.from_arrays([4], [0], shape=(5, 2))
    assert joined.user_items.shape == (5, 2)
    assert joined.user_ids.table is None


def test_what_does_not_fit_is_refused() -> None:
    words, numbers = made([("ann", 1, 1)]), Interactions.from_arrays([7], [1])
    with refuses(ValueError, "ids"):
        words + numbers
    timed = replace(words, timestamps=np.array([5]))
    with refuses(ValueError, remedy="leave them out"):
        words + timed
    assert cells(words + replace(timed, timestamps=None)) == {("ann", 1): 2}
    with refuses(ValueError, "parts"):
        Interactions.concat([])
    with refuses(TypeError, "parts"):
        Interactions.concat(words)  # type: ignore[arg-type]
    with refuses(TypeError, "parts"):
        Interactions.concat([words, [1]])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        words + 1


S = 1_700_000_000
UNITS: dict[str, list[int] | list[str]] = {
    "seconds": [S, S + 60],
    "milliseconds": [1000 * S, 1000 * S + 60_000],
    "microseconds": [10**6 * S, 10**6 * S + 60 * 10**6],
    "nanoseconds": [10**9 * S, 10**9 * S + 60 * 10**9],
    "dates": ["2023-11-14T22:13:20", "2023-11-14T22:14:20"],
    "digits": [20231114221320, 20231114221420],
}
ODD: dict[str, list[int]] = {
    **{unit: numbers for unit, numbers in UNITS.items() if unit not in ("seconds", "dates")},
    "days": [19_000, 19_001],
    "days as digits": [20231114, 20231115],
    "an order": [0, 1],
}  # type: ignore[assignment]
"""Numbers that stay as they are with ``timestamp_unit="s"``, or anyway."""


def timed(times: list[int] | list[str], unit: str | None = None, first: int = 0) -> Interactions:
    return Interactions.from_arrays([1, 2], [first, first + 1], None, times, timestamp_unit=unit)


@pytest.mark.parametrize("one", UNITS)
@pytest.mark.parametrize("other", UNITS)
def test_parts_in_units_that_are_known_are_joined_in_seconds(one: str, other: str) -> None:
    joined = timed(UNITS[one]) + timed(UNITS[other], first=5)
    assert sorted(joined.timestamps.tolist()) == [S, S, S + 60, S + 60]


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("is_first", [True, False])
def test_parts_in_different_units_are_refused(kind: str, is_first: bool) -> None:
    known, odd = timed(UNITS["seconds"]), timed(ODD[kind], "s", first=5)
    before = replace(known.take(known.timestamps > S), seen_only=known)
    dropped = replace(odd.take(np.zeros(2, bool)), seen_only=odd)
    for one in (known, before, timed(UNITS["dates"])):
        for other in (odd, dropped):
            parts = [other, one] if is_first else [one, other]
            with refuses(ValueError, "timestamps", remedy="read each part"):
                Interactions.concat(parts)
            with refuses(ValueError, "timestamps", remedy="timestamp_unit="):
                Interactions.concat([parts[0], known.take([False] * 2), parts[1]])


@pytest.mark.parametrize("kind", ODD)
def test_parts_in_one_unit_are_joined_whatever_it_is(kind: str) -> None:
    joined = timed(ODD[kind], "s") + timed(ODD[kind], "s", first=5)
    assert sorted(joined.timestamps.tolist()) == sorted(2 * ODD[kind])
    unknown = timed([0, 0], first=5)  # where there is no time, it is often 0
    assert (timed(UNITS["seconds"]) + unknown).timestamps.tolist() == [S, 0, S + 60, 0]


def test_the_search_refuses_a_valid_part_in_another_unit() -> None:
    with refuses(ValueError, "timestamps", remedy="timestamp_unit="):
        mfrank.tune(timed(UNITS["seconds"]), valid=timed(UNITS["milliseconds"], "s"), trials=1)


@pytest.mark.parametrize("other", [*UNITS, *ODD])
def test_files_of_an_ingest_are_in_one_unit_or_refused(other: str, tmp_path: Path) -> None:
    """Dates fit to every known unit; a unit that is given is that of all numbers."""
    times = (ODD | UNITS)[other]
    for name, column in (("1", UNITS["seconds"]), ("2", times), ("3", UNITS["dates"])):
        rows = [f"{name},{row},{time}" for row, time in enumerate(column)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["user,item,time", *rows]))
    one, two, dates = (tmp_path / f"{name}.csv" for name in "123")
    if other in ("seconds", "dates"):
        data = Interactions.ingest([one, two], tmp_path / "data")
        assert sorted(data.timestamps.tolist()) == [S, S, S + 60, S + 60]
    else:
        with refuses(ValueError, "timestamps", remedy=r"one unit|dates like.*1\.csv"):
            Interactions.ingest([one, two], tmp_path / "data")
    if other in UNITS or other == "days as digits":
        data = Interactions.ingest([two, dates], tmp_path / "data")
        assert data.timestamps.min() > S - 86_400
        assert data.timestamps.max() < S + 86_400
    else:
        with refuses(ValueError, "timestamps", remedy="timestamp"):
            Interactions.ingest([two, dates], tmp_path / "data")
    if other == "milliseconds":
        with refuses(ValueError, "timestamps", remedy="convert the times"):
            Interactions.ingest([one, two], tmp_path / "data", timestamp_unit="ms")
        kept = Interactions.ingest([one, two], tmp_path / "data", timestamp_unit="s")
        assert kept.timestamps.max() == 1000 * S + 60_000
