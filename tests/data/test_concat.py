"""Joined interactions are those of all rows written down together, in the first part's rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank.data.interactions import Interactions

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


def test_users_without_entries_and_numbered_rows_stay() -> None:
    empty = Interactions.from_arrays([], [], shape=(3, 2))
    joined = empty + Interactions.from_arrays([4], [0], shape=(5, 2))
    assert joined.user_items.shape == (5, 2)
    assert joined.user_ids.table is None


def test_what_does_not_fit_is_refused() -> None:
    words, numbers = made([("ann", 1, 1)]), Interactions.from_arrays([7], [1])
    with pytest.raises(ValueError, match=r"user ids are like 'ann' .* and like .*7"):
        words + numbers
    timed = replace(words, timestamps=np.array([5]))
    with pytest.raises(ValueError, match="1 of 2 parts have timestamps; leave them out"):
        words + timed
    assert cells(words + replace(timed, timestamps=None)) == {("ann", 1): 2}
    with pytest.raises(ValueError, match="at least one"):
        Interactions.concat([])
    with pytest.raises(TypeError, match="list of Interactions, got Interactions"):
        Interactions.concat(words)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="got list"):
        Interactions.concat([words, [1]])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        words + 1
