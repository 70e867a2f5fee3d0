"""Interactions, judged documents and splits tell what they are, and escape what users named."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from pages import page

from mfrank import Interactions, Judged, Split, by_ratio, held_out_users, leave_last, synthetic
from mfrank.data import Ids

EVIL = "<script>alert('&')</script>"


def test_interactions_show_sizes_values_and_times() -> None:
    data = Interactions.from_arrays(["u", "v", "v"], [5, 5, 9], [1, 2.5, -3], [30, 10, 20])
    assert page(data).rows == [
        ["users", "2, like 'u', 'v'"],
        ["items", "2, like 5, 9"],
        ["entries", "3"],
        ["density", "75.000%"],
        ["values", "-3.0 to 2.5"],
        ["timestamps", "10 to 30"],
    ]


def test_times_in_seconds_are_shown_as_dates() -> None:
    dates = np.array(["2024-02-29", "2024-01-01T10:30"], "datetime64[s]")
    data = Interactions.from_arrays([0, 1], [0, 1], timestamps=dates)
    assert page(data).cell("timestamps") == "2024-01-01 10:30:00 to 2024-02-29"


def test_cells_that_are_only_seen_are_shown() -> None:
    data = Interactions.from_arrays(["u", "v", "v"], [5, 5, 9], [1, 2.5, 0])
    assert page(data).cell("only seen") == "1"
    assert "only seen" not in str(page(Interactions.from_arrays([0, 1], [0, 1])).rows)


def test_values_of_one_are_named() -> None:
    shown = page(Interactions.from_arrays([0, 1], [0, 1]))
    assert shown.cell("values") == "ones"
    assert shown.cell("timestamps") == "none"


def test_no_interactions_are_shown_too() -> None:
    empty = Interactions.from_arrays([], [], timestamps=[])
    for data in (empty, Interactions.from_arrays([], [], shape=(0, 3))):
        assert page(data).cell("density") == "none"
        assert page(data).cell("users") == "0"
        assert repr(data)
        assert repr(Split(data, data, data))
        page(Split(data, data, data))
    assert page(empty).cell("timestamps") == "none"


@pytest.mark.parametrize(
    "name", [EVIL, '"><img src=x onerror=alert(1)>', "<!-- ", "&lt;", "\ud800"]
)
def test_ids_are_escaped(name: str) -> None:
    data = Interactions.from_arrays([name, "b"], [name, "b"], user_ids=[name, "b"])
    assert page(data).cell("users") == f"2, like {name!r}, 'b'"
    assert page(Judged([[1.0]], [1], [name])).cell("queries") == f"1, like {name!r}"


@given(
    st.lists(
        st.text(st.characters()).map("id".__add__),
        min_size=1,
        max_size=4,
        unique=True,
    )
)
def test_any_ids_are_shown_as_python_writes_them(names: list[str]) -> None:
    data = Interactions.from_sparse(sp.eye_array(len(names)), user_ids=names)
    told = f"{len(names)}, like {', '.join(map(repr, names[:3]))}"
    assert Ids.of(names).summary == told
    assert page(data).cell("users") == told


def test_judged_documents_are_shown() -> None:
    judged = Judged([[0.1, 3], [0.4, 1], [0.2, 0]], relevance=[2, 0, 1], queries=[7, 7, 9])
    assert page(judged).rows == [
        ["documents", "3"],
        ["relevant", "2"],
        ["relevance", "0 to 2"],
        ["queries", "2, like 7, 9"],
        ["features", "2"],
    ]


def test_a_split_tells_its_parts() -> None:
    data = synthetic(1200, 100, 9000, random_state=0)
    split = by_ratio(data, random_state=0)
    sizes = [part.nnz for part in (split.train, split.valid, split.test)]
    assert repr(split) == (
        f"Split(1,200 users x 100 items, entries: {sizes[0]:,} train, {sizes[1]:,} valid, "
        f"{sizes[2]:,} test)"
    )
    header, *rows = page(split).rows
    assert [row[0] for row in rows] == ["train", "valid", "test"]
    assert [int(row[1].replace(",", "")) for row in rows] == sizes
    assert sum(float(row[2].rstrip("%")) for row in rows) == pytest.approx(100, abs=0.2)
    assert header == ["part", "entries", "fraction", "users with entries", "items with entries"]
    assert {len(row) for row in rows} == {len(header)}
    assert rows[2][3] == f"{np.count_nonzero(np.diff(split.test.user_items.indptr)):,}"
    assert rows[2][4] == f"{len(set(split.test.user_items.indices)):,}"


def test_a_split_by_users_tells_its_parts() -> None:
    data = synthetic(30, 20, 300, random_state=0)
    split = held_out_users(data, test=5, random_state=0)
    test = split.test
    told = f"HeldOut(5 users, entries: {test.fold_in.nnz} fold_in, {test.target.nnz} target)"
    assert repr(test) == told
    assert repr(split) == f"HeldOutSplit(train={split.train!r}, test={told})"
    split = held_out_users(data, test=5, valid=3, random_state=0)
    assert f", valid={split.valid!r}, test={split.test!r})" in repr(split)


def test_a_split_without_a_validation_part_is_shown() -> None:
    data = Interactions.from_arrays([0, 0, 1], [0, 1, 1], timestamps=[1, 2, 3])
    assert page(leave_last(data)).cell("valid") == "0"
