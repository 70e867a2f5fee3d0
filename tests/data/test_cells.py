"""Observed cells against dense matrices: zeros, parts, joins, largest entries, moves."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mfrank.data import (
    cells,
    from_triples,
    has_zeros,
    not_in,
    positive_range,
    select,
    without_zeros,
)
from tests.support.errors import refuses

Cells, CellTally, SummedCells = cells.Cells, cells.CellTally, cells.SummedCells

quick = settings(max_examples=60, deadline=None)
SHAPE = 4, 5
seeds = st.integers(0, 10**6)


def drawn(seed: int, dtype: Any = np.float32) -> sp.csr_array:
    """A canonical matrix with about half of its cells, of values 1 to 3."""
    rng = np.random.default_rng(seed)
    return sp.csr_array((rng.random(SHAPE) < rng.random()) * rng.integers(1, 4, SHAPE), dtype=dtype)


def is_canonical(rows: sp.csr_array) -> bool:
    own = sp.csr_array((rows.data, rows.indices, rows.indptr), rows.shape)
    return own.has_canonical_format and rows.indices.dtype == rows.indptr.dtype == np.int32


def there(rows: sp.csr_array) -> np.ndarray:
    """Where cells are stored, also those of value 0."""
    return sp.csr_array((np.ones(rows.nnz), rows.indices, rows.indptr), rows.shape).toarray() > 0


@quick
@given(seeds, seeds, st.sampled_from([np.float32, np.float64]))
def test_zeros_are_put_in_and_taken_out(one: int, other: int, dtype: Any) -> None:
    rows, others = drawn(one, dtype), drawn(other)
    both = cells.with_zeros(rows, others)
    assert np.array_equal(both.toarray(), rows.toarray())
    assert np.array_equal(there(both), there(rows) | there(others))
    assert is_canonical(both)
    assert both.dtype == dtype
    only = there(others) & ~there(rows)
    assert has_zeros(both) == only.any()
    again = without_zeros(both)
    assert np.array_equal(there(again), there(rows))
    assert np.array_equal(again.data, rows.data)
    if not only.any():
        assert without_zeros(both) is both
    if not others.nnz:
        assert both is rows


@quick
@given(seeds, seeds)
def test_entries_that_others_lack_are_found(one: int, other: int) -> None:
    rows, others = drawn(one), drawn(other)
    kept = not_in(rows, others)
    assert np.array_equal(there(select(rows, kept)), there(rows) & ~there(others))
    assert kept.tolist() == sorted(kept.tolist())
    assert np.array_equal(select(rows, kept).data, rows.data[kept])


def test_cells_of_tall_matrices_are_told_apart() -> None:
    rows = sp.csr_array(np.array([[0, 1], [0, 0], [1, 0], [1, 1], [0, 1]]))
    others = sp.csr_array(np.array([[1, 0], [1, 1], [0, 1], [1, 0], [0, 1]]))
    assert not_in(rows, others).tolist() == [0, 1, 3]
    rows, others = (sp.csr_array(([1.0], ([row], [1 - row // 2])), (3, 2)) for row in (0, 2))
    assert not_in(rows, others).tolist() == [0]


def test_numbers_of_columns_are_wide_where_those_of_entries_must_be() -> None:
    assert [cells._index_dtype(n) for n in (0, 2**31 - 1, 2**31)] == [np.int32, np.int32, np.int64]


@pytest.mark.parametrize("at_once", [1, 3, 1 << 20])
def test_values_are_read_by_parts(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "_AT_ONCE", at_once)
    for values in (
        [4, 0.5, 3, 2],
        [9, 1, 1, 0.25, 7],
        [0.5],
        [1, 1, 1, 1, 1, 1, 2.5],
        [-3, 0, 0.125],
    ):
        positive = [value for value in values if value > 0]
        assert positive_range(np.array(values)) == (min(positive), max(positive))
        rows = sp.csr_array(np.array([values]))
        assert not has_zeros(rows)
        for at in range(rows.nnz):
            with_one = rows.copy()
            with_one.data[at] = 0
            assert has_zeros(with_one)
    assert positive_range(np.array([-1.0, 0])) == positive_range(np.array([])) == (np.inf, 0)


@quick
@given(st.lists(seeds, min_size=1, max_size=4), st.booleans())
def test_joined_cells_have_the_latest_time(each: list[int], timed: bool) -> None:
    matrices = [drawn(seed) for seed in each]
    rng = np.random.default_rng(0)
    times = [rng.integers(1, 99, rows.nnz) for rows in matrices]
    several = [Cells(rows, time) for rows, time in zip(matrices, times, strict=True)]
    if not timed:
        several[-1] = several[-1]._replace(timestamps=None)
    found = cells.joined(several)
    latest = np.zeros(SHAPE, int)
    for rows, time in zip(matrices, times, strict=True):
        own = np.zeros(SHAPE, int)
        own[there(rows)] = time
        latest = np.maximum(latest, own)
    assert np.array_equal(found.rows.toarray(), latest > 0)
    assert (found.timestamps is None) == (not timed)
    if timed:
        assert np.array_equal(found.timestamps, latest[latest > 0])
    assert is_canonical(found.rows)
    assert found.rows.dtype == np.float32


def test_joining_and_moving_tell_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mfrank")
    rows = sp.csr_array(np.eye(3))
    cells.joined([Cells(rows), Cells(rows)])
    cells.moved(Cells(rows), np.array([2, 1, 0]), np.array([1, 0, 2]), (3, 3))
    assert not caplog.records
    rows.data[1] = 0
    cells.from_sparse(rows, duplicates="sum")
    assert caplog.messages[0].startswith("1 of 3 entries with the value 0")


@quick
@given(seeds, st.booleans(), st.sampled_from([np.float32, np.float64]))
def test_moved_cells_keep_their_values_and_times(seed: int, timed: bool, dtype: Any) -> None:
    rows, rng = drawn(seed, dtype), np.random.default_rng(seed)
    times = rng.integers(1, 99, rows.nnz) if timed else None
    users = rng.permutation(6)[:4] - 1  # some at -1
    items = rng.permutation(7)[:5] - 1
    found = cells.moved(Cells(rows, times, values_from="repeats"), users, items, (5, 6))
    wanted, when = np.zeros((5, 6)), np.zeros((5, 6), int)
    for at, (user, item) in enumerate(zip(*rows.nonzero(), strict=True)):
        if users[user] >= 0 and items[item] >= 0:
            wanted[users[user], items[item]] = rows.data[at]
            when[users[user], items[item]] = times[at] if times is not None else 1
    assert np.array_equal(found.rows.toarray(), wanted)
    assert found.rows.dtype == dtype
    assert found.values_from == "repeats"
    assert (found.timestamps is None) == (times is None)
    if times is not None:
        assert np.array_equal(found.timestamps, when[when > 0])


triples = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from([-1, 0, 1, 2, 3])), max_size=14
)


@quick
@example([(0, 0, 1), (1, 1, 1), (0, 0, 1)], "sum")
@example([(0, 0, 2), (0, 0, 3)], "sum")
@example([(0, 0, 2), (0, 0, 3), (1, 0, 1), (1, 1, 3), (1, 1, 2)], "sum")
@given(triples, st.sampled_from(["sum", "max", "last"]))
def test_sums_of_several_entries_know_the_largest(table: Any, duplicates: Any) -> None:
    users, items, values = np.array(table, float).reshape(-1, 3).T
    each: dict[tuple[int, int], list[float]] = {}
    for user, item, value in table:
        each.setdefault((user, item), []).append(value)
    tally = CellTally(duplicates)
    found = from_triples(
        users.astype(int), items.astype(int), values, None,
        shape=(3, 3), duplicates=duplicates, tally=tally,
    )  # fmt: skip
    assert (tally.n_merged, tally.n_cells) == (len(table) - len(each), len(each))
    assert tally.n_zeros == (0 if found.seen_only is None else found.seen_only.rows.nnz)
    of_kept = [each[cell] for cell in zip(*(x.tolist() for x in found.rows.nonzero()), strict=True)]
    summed = [(at, max(own)) for at, own in enumerate(of_kept) if sum(own) > max(own)]
    ones = bool(table) and all(value == 1 for *_, value in table)
    several = any(len(own) > 1 for own in each.values())
    if duplicates != "sum" or not several:
        assert (found.summed, found.values_from) == (None, "given")
    elif ones:
        assert (found.summed, found.values_from) == (None, "repeats")
    else:
        assert found.values_from == "given"
        assert found.summed is not None
        pairs = zip(found.summed.places.tolist(), found.summed.largest.tolist(), strict=True)
        assert list(pairs) == summed


@quick
@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)))
def test_largest_entries_follow_their_cells(own: set[int], kept: set[int]) -> None:
    places = np.array(sorted(own), np.int64)
    left = SummedCells(places, places * 10.0).take(np.array(sorted(kept), np.int64))
    wanted = [(new, 10.0 * old) for new, old in enumerate(sorted(kept)) if old in own]
    assert list(zip(left.places.tolist(), left.largest.tolist(), strict=True)) == wanted


@pytest.mark.parametrize(
    ("values", "n_zeros", "levels"),
    [
        ([1, 2], 1, ["WARNING"]),
        ([3, 3], 2, ["INFO"]),
        ([3], 1, ["INFO"]),
        ([], 1, ["WARNING"]),
        ([1, 2], 0, []),
    ],
)
def test_zeros_are_a_warning_unless_the_others_are_marks(
    values: list[float], n_zeros: int, levels: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mfrank")
    CellTally("sum", 0, 5, n_zeros).tell(np.array(values))
    assert [one.levelname for one in caplog.records] == levels
    assert all(f"{n_zeros} of 5 entries" in line for line in caplog.messages)
    caplog.clear()
    CellTally("max", 1, 5, 0).tell(np.array(values))
    assert caplog.messages == ["1 repeated entry merged (max)"]


def test_matrices_that_are_none_are_refused() -> None:
    with refuses(TypeError, "values"):
        cells.from_sparse(sp.csr_array(np.array([[1j]])), duplicates="sum")
    for shape, side in (((2**31, 1), "users"), ((1, 2**31), "items")):
        with refuses(ValueError, place=side):
            cells.check_shape(shape)
    cells.check_shape((2**31 - 1, 0))
    cells.check_shape([0, 2**31 - 1])
    with refuses(ValueError, place="items"):
        cells.check_shape((0, -1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8, bool])
@pytest.mark.parametrize("form", ["csr", "coo", "csc"])
def test_a_matrix_has_its_values_in_floats_of_its_width(dtype: Any, form: str) -> None:
    rows = drawn(5).astype(dtype)
    found = cells.from_sparse(rows.asformat(form), duplicates="sum")
    assert found.rows.dtype == (np.float64 if dtype == np.float64 else np.float32)
    assert np.array_equal(found.rows.toarray(), rows.toarray())
    assert is_canonical(found.rows)
    assert (found.timestamps, found.seen_only, found.summed) == (None, None, None)
    assert found.values_from == "given"


@quick
@given(seeds, st.sets(st.integers(0, 3)), st.sets(st.integers(0, 4)))
def test_narrowed_rows_are_those_of_numpy(seed: int, users: set[int], items: set[int]) -> None:
    dense = drawn(seed).toarray()
    kept = np.array(sorted(users), np.int64), np.array(sorted(items), np.int64)
    inside = np.zeros(SHAPE, bool)
    inside[np.ix_(*kept)] = True
    rows = sp.csr_array(dense * inside)
    found = cells.narrow(rows, *kept)
    assert np.array_equal(found.toarray(), dense[np.ix_(*kept)])
    assert is_canonical(found)
    assert cells.entry_rows(rows).tolist() == rows.nonzero()[0].tolist()
    assert cells.entry_rows(rows).dtype == np.int32
