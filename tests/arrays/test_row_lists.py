"""Lists of columns: what they hold, on either side."""

from __future__ import annotations

from typing import Any

import numpy as np
from emulated_gpu import EmulatedGPU
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank.arrays import CSR, Listed, Picked, holds, listed_on_host, to_host, union

N_COLUMNS = 9
rows_of_columns = st.lists(st.sets(st.integers(0, N_COLUMNS - 1)), min_size=1, max_size=6)


def csr(rows: list[set[int]], place: Any = np.asarray) -> CSR:
    columns = np.array([c for row in rows for c in sorted(row)], dtype=np.int32)
    indptr = np.cumsum([0, *map(len, rows)])
    return CSR(place(indptr), place(columns), None, N_COLUMNS)


def sets(lists: Listed) -> list[set[int]]:
    rows = listed_on_host(lists)
    return [set(rows.row(r)[0].tolist()) for r in range(rows.n_rows)]


@settings(deadline=None)
@given(rows_of_columns, st.data(), st.booleans(), st.booleans(), st.booleans())
def test_a_list_holds_what_is_on_it(
    device: EmulatedGPU,
    rows: list[set[int]],
    data: st.DataObject,
    rows_there: bool,
    picked_there: bool,
    asked_there: bool,
) -> None:
    places = [device.asarray if there else np.asarray for there in (rows_there, picked_there)]
    at = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8))
    columns = np.array(data.draw(st.lists(st.integers(0, N_COLUMNS - 1), min_size=8, max_size=8)))
    whole = csr(rows, places[0])
    lists = Picked(whole, places[1](np.array(at, dtype=np.int64)))
    assert (lists.n_rows, lists.n_columns) == (len(at), N_COLUMNS)
    assert sets(lists) == [rows[r] for r in at]
    asked = (device.asarray if asked_there else np.asarray)(columns[: len(at)])
    found = holds(lists, asked)
    assert isinstance(found, type(asked))
    wanted = [c in rows[r] for r, c in zip(at, columns, strict=False)]
    assert to_host(found, "").tolist() == wanted
    one_each = columns[: len(rows)]
    shared = len(rows) == 1
    found = holds(whole, columns if shared else one_each)
    wanted = [c in rows[0 if shared else r] for r, c in enumerate(columns if shared else one_each)]
    assert found.tolist() == wanted


@given(rows_of_columns, st.randoms())
def test_a_union_holds_what_any_of_them_does(rows: list[set[int]], random: Any) -> None:
    others = [{random.randrange(N_COLUMNS) for _ in range(3)} for _ in rows]
    backwards = Picked(csr(rows), np.arange(len(rows))[::-1])
    both = union([csr(others), backwards])
    assert both is not None
    assert sets(both) == [a | b for a, b in zip(others, rows[::-1], strict=True)]
    assert both.data is None
    assert union([]) is None
    alone = union([backwards])
    assert alone is not None
    assert sets(alone) == rows[::-1]


def test_lists_without_columns_hold_nothing() -> None:
    for lists in (csr([set(), set()]), Picked(csr([set()]), np.array([0, 0]))):
        found = holds(lists, np.array([0, 3]))
        assert (found.dtype, found.tolist()) == (bool, [False, False])
    assert holds(csr([{1}, {2}]), np.array([1, 1])).tolist() == [True, False]
    assert holds(Picked(csr([{1}]), np.arange(0)), np.arange(0)).tolist() == []
