"""Columns of values and rows of ids: what is converted, refused by its place, or told."""

from __future__ import annotations

import logging
from array import array
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from mfrank import Interactions
from mfrank.data import BadRow, Ids, known, values
from tests.support.errors import refuses

ENDLESS = np.broadcast_to(np.int64(1), 10**15)  # is not read
Extent, as_numbers = values.Extent, values.as_numbers


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint64, np.float16, bool])
def test_values_of_any_width_become_floats(dtype: Any) -> None:
    given = np.array([1, 0, 1], dtype)
    found = as_numbers(given)
    assert found.dtype == (dtype if dtype in (np.float32, np.float64) else np.float64)
    assert found.tolist() == [1, 0, 1]
    assert (found is given) == (dtype in (np.float32, np.float64))
    assert as_numbers(["1", "2.5", "1e3"]).tolist() == [1, 2.5, 1000]


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ([1, "x", 2], BadRow, "values must be numbers, got 'x' in row 1"),
        ([1.5, None, "y"], BadRow, "got None in row 1"),
        ([1, 2, 10**400], BadRow, "got 1000.* in row 2"),
        ([[1], [2, 3]], ValueError, "inhomogeneous"),
        ([[1, 2]], ValueError, r"in one dimension, got shape \(1, 2\)"),
        (3.0, ValueError, r"in one dimension, got shape \(\)"),
        ([1j], TypeError, "real numbers, got complex ones"),
        (np.array([1], "M8[s]"), BadRow, "got times, which are passed as timestamps, in row 0"),
        (
            np.array([1], "m8[s]"),
            BadRow,
            "got durations, of which column.dt.total_seconds\\(\\) makes",
        ),
    ],
)
def test_values_that_are_no_numbers_are_named_by_their_row(
    values: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        as_numbers(values)


PORTIONS = [
    ([[1, 5], [2]], (1, 5), {}, (1, 5)),
    ([[-1, 8, -1], [3, -1]], (-1, 8), {"-1": 3}, (3, 8)),
    ([[99, 3.5, 99], [-99, 1]], (-99, 99), {"99": 2, "-99": 1}, (1, 3.5)),
    ([[-1, -1], [7]], (-1, 7), {"-1": 2}, (7, 7)),
    ([[-1, 99, 4]], (-1, 99), {"-1": 1, "99": 1}, (4, 4)),
    ([[], [2, 3], []], (2, 3), {}, (2, 3)),
    ([[-1]], (-1, -1), {"-1": 1}, (np.inf, -np.inf)),
    ([[]], (np.inf, -np.inf), {}, (np.inf, -np.inf)),
]


@pytest.mark.parametrize(("portions", "ends", "codes", "others"), PORTIONS)
def test_the_extent_of_portions_is_known(
    portions: Any, ends: Any, codes: dict[str, int], others: Any
) -> None:
    extent = Extent()
    for portion in portions:
        extent.add(np.array(portion, float))
    assert (extent.lowest, extent.highest) == ends
    assert extent.codes == codes
    assert (extent.least, extent.most) == others
    assert Extent(**extent.to_dict()) == extent
    assert all(isinstance(own, dict) or np.isfinite(own) for own in extent.to_dict().values())


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        ([-1, 2, 0], {"-1": 1}),
        ([-1, 1, 1], {}),  # likes and dislikes
        ([-1, 1.5], {"-1": 1}),
        ([-1, -0.5, 3], {}),  # others are below 0, too
        ([-9, 5], {}),  # once
        ([-9, -9, 5], {"-9": 2}),
        ([-9, -9, 9], {"-9": 2}),
        ([-9, -9, 9.5], {}),  # of a scale as wide
        ([-9, -9, 1], {}),
        ([-99, -99, -11, 2], {"-99": 2}),
        ([-99, -99, -12, 2], {}),
        ([99, 99, 11], {"99": 2}),  # nine times as large
        ([99, 99, 11.5], {}),
        ([99, 99, -11, 2], {"99": 2}),
        ([99, 99, -12, 2], {}),
        ([99, 3], {}),
        ([999, 999, 111], {"999": 2}),
        ([-1, -1], {}),
    ],
)
def test_which_values_may_stand_for_none(
    values: list[float], missing: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    extent = Extent.of(np.array(values, float))
    assert extent.missing() == missing
    extent.tell()
    assert len(caplog.records) == len(missing)
    for (code, n), record in zip(missing.items(), caplog.records, strict=True):
        assert record.levelno == logging.WARNING
        rows = "1 row" if n == 1 else f"{n} rows"
        others = [value for value in values if f"{value:.0f}" not in missing]
        assert f"the value {code}, in {rows}, may" in record.getMessage()
        assert f"from {min(others):g} to {max(others):g};" in record.getMessage()


def test_values_that_look_like_times_are_told(caplog: pytest.LogCaptureFixture) -> None:
    Extent.of(np.array([1.7e9, 1.6e9])).tell()
    (line,) = caplog.messages
    assert line.startswith("values from 1600000000 to 1700000000 look like times")
    caplog.clear()
    Extent.of(np.array([5, 1.7e9])).tell()
    assert not caplog.records


# ids and rows


def test_errors_name_the_column_of_ids() -> None:
    for users, items, fault in (
        ([None, 1], [1, 1], {"argument": "users", "remedy": "drop them"}),
        ([1, 1], [[1], [2]], {"argument": "items"}),
    ):
        with refuses((TypeError, ValueError), **fault):
            Interactions.from_arrays(users, items)
    for name in ("user_ids", "item_ids"):
        with refuses(ValueError, name):
            Interactions.from_arrays([1], [1], **{name: [1, 1]})
        with refuses(ValueError, name):
            Interactions.from_sparse(sp.csr_array(np.eye(2)), **{name: [1, 1]})
    ids = Ids.of([1])
    assert known("x", ids) is ids
    assert known("x", None) is None
    assert known("x", [4, 5]) == Ids.of([4, 5])


@pytest.mark.parametrize(
    ("rows", "error", "fault"),
    [
        ([0, 3], ValueError, {"argument": "users"}),
        ([0, -1, 5], ValueError, {"argument": "users"}),
        ([0.0, 1], TypeError, {"argument": "shape", "remedy": "leave shape out"}),
        ([[0]], TypeError, {"argument": "shape", "remedy": "leave shape out"}),
        ([True], TypeError, {"argument": "shape", "remedy": "leave shape out"}),
    ],
)
def test_with_a_shape_ids_are_rows_within_it(
    rows: Any, error: type[Exception], fault: dict[str, str]
) -> None:
    with refuses(error, **fault):
        Interactions.from_arrays(rows, [0] * len(rows), shape=(3, 1))
    if error is ValueError:
        with refuses(error, "items"):
            Interactions.from_arrays([0] * len(rows), rows, shape=(1, 3))
    assert Interactions.from_arrays([], [], shape=(3, 1)).nnz == 0
    assert Interactions.from_arrays(np.array([2], np.uint8), [0], shape=(3, 1)).nnz == 1


def test_as_many_ids_as_rows_and_columns() -> None:
    data = Interactions.from_arrays([0, 1], [0, 0], shape=(2, 1), user_ids=["a", "b"])
    assert data.user_ids == Ids.of(["a", "b"])
    assert data.item_ids == Ids.numbered(1)
    for name in ("user_ids", "item_ids"):
        with refuses(ValueError, name):
            Interactions.from_arrays(
                [0, 1], [0, 0], shape=(2, 1), **{name: ["x"] * 0 + list("pqr")}
            )


@pytest.mark.parametrize(
    ("column", "given", "shape"),
    [
        ("items", [0, 1], r"\(2,\)"),
        ("values", np.ones(4), r"\(4,\)"),
        ("values", np.ones((3, 1)), r"\(3, 1\)"),
        ("timestamps", (1, 2), r"\(2,\)"),
        ("timestamps", range(5), r"\(5,\)"),
        ("items", array("q", [0, 1]), r"\(2,\)"),  # known when it has been read
        ("values", array("d", [1.0]), r"\(1,\)"),
        ("timestamps", array("q", [1]), r"\(1,\)"),
        *((name, ENDLESS, r"\(10{15},\)") for name in ("items", "values", "timestamps")),
    ],
)
def test_columns_of_other_lengths_are_named(column: str, given: Any, shape: str) -> None:
    columns = {"users": [0, 1, 2], "items": [0, 1, 2]} | {column: given}
    with refuses(ValueError, column):
        Interactions.from_arrays(**columns)


def test_ids_that_were_given_are_looked_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mfrank")
    known = Ids.of(["nan", "b"])  # may stand for a missing one
    Interactions.from_arrays(["b"], [0], user_ids=known)
    Interactions.from_sparse(sp.csr_array(np.eye(2)), user_ids=known)
    assert not caplog.records
    for side, rows in (("user", "1 row"), ("item", "2 rows")):
        caplog.clear()
        matrix = sp.csr_array(np.array([[1, 1], [0, 1]]))
        Interactions.from_sparse(matrix, **{f"{side}_ids": ["b", "nan"]})
        (line,) = caplog.messages
        assert line.startswith(f"{side} ids may stand for missing ones: 'nan' in {rows};")
        caplog.clear()
        columns: dict[str, Any] = {"users": ["b", "b", "c"], "items": [1, 2, 3]}
        columns["users" if side == "user" else "items"] = ["nan", "b", "nan"]
        Interactions.from_arrays(**columns)
        (line,) = caplog.messages
        assert line.startswith(f"{side} ids may stand for missing ones: 'nan' in 2 rows;")
    caplog.clear()
    Interactions.from_arrays([b"a"], ["x"])
    assert caplog.messages == ["user ids are bytes, which are read as text in UTF-8"]


def test_a_shape_of_hardly_any_rows_is_told(caplog: pytest.LogCaptureFixture) -> None:
    n = 1_000_000
    for made in (
        lambda shape: Interactions.from_arrays([1, 2], [1, 2], shape=shape),
        lambda shape: Interactions.from_sparse(sp.csr_array(([1.0, 1], ([1, 2], [1, 2])), shape)),
    ):
        for shape, side in (((n, 3), "users"), ((3, n), "items")):
            caplog.clear()
            made(shape)
            (line,) = caplog.messages
            assert line.startswith(f"2 of 1,000,000 {side} have interactions")


def test_values_are_looked_at_by_every_door(caplog: pytest.LogCaptureFixture) -> None:
    for made in (
        lambda: Interactions.from_arrays([0, 1], [0, 1], [-1, 8]),
        lambda: Interactions.from_sparse(sp.csr_array(np.diag([-1.0, 8]))),
    ):
        caplog.clear()
        made()
        assert "the value -1, in 1 row, may stand for a missing one" in caplog.messages[0]
    caplog.clear()
    Interactions.from_arrays([0, 1], [0, 1])
    assert not caplog.records
    Interactions.from_arrays([0, 1, 2], [0, 1, 2], None, [0, 1_700_000_000, 1_700_000_001])
    assert "1 of 3 timestamps are not of the years 1990 to 2100" in caplog.messages[0]


@pytest.mark.parametrize(
    ("users", "values", "values_from"),
    [
        ([0, 1], None, "given"),
        ([0, 1], [1, 1], "ones"),
        ([0, 1], [1, 2], "given"),
        ([0, 0], [1, 1], "repeats"),
        ([0, 0], None, "repeats"),
        ([0, 0], [1, 2], "given"),
    ],
)
def test_where_values_are_from(users: list[int], values: Any, values_from: str) -> None:
    data = Interactions.from_arrays(users, users, values)
    assert data.cells.values_from == values_from


def test_numbers_of_rows_have_a_limit() -> None:
    for name in ("user", "item"):
        with refuses(ValueError, place=f"{name}s"):
            Interactions.from_arrays([0], [0], **{f"{name}_ids": Ids.numbered(2**31)})
    with refuses(ValueError, "timestamp_unit"):
        Interactions.from_arrays([0], [0], timestamp_unit="weeks")  # type: ignore[arg-type]
    timed = Interactions.from_arrays([0], [0], None, [5000], timestamp_unit="ms")
    assert timed.timestamps.tolist() == [5]


def test_values_that_are_not_finite_are_named_by_ids() -> None:
    with refuses(ValueError, "values", remedy="drop or replace it"):
        Interactions.from_arrays(["a", "b"], [5, 7], [1, np.inf])
    with refuses(ValueError, "values", remedy="drop or replace it"):
        Interactions.from_arrays(["b", "a"], [7, 5], [np.nan, 1])
    with refuses(ValueError, "values", remedy="drop or replace it"):
        Interactions.from_arrays(["a", "b", "a"], [5, 7, 5], [3e38, 1, 3e38])


def test_only_matrices_are_read_as_such() -> None:
    with refuses(TypeError, remedy=r"pass scipy\.sparse\.csr_array\(matrix\)"):
        Interactions.from_sparse(np.eye(2))
    with refuses(ValueError, "duplicates"):
        Interactions.from_sparse(sp.csr_array(np.eye(2)), duplicates="min")  # type: ignore[arg-type]
