"""A table gives the same interactions whatever library holds it."""

from __future__ import annotations

import sys
from datetime import date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank import Interactions
from tests.support.errors import refuses

quick = settings(max_examples=25, deadline=None)


class Exported:
    """A table of a library that has nothing but Arrow's export."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


def made_by(library: str, columns: dict[str, Any]) -> Any:
    """A table of these columns, or skip where the library is missing."""
    needed = library if library in ("pandas", "polars") else "pyarrow"
    module = pytest.importorskip(needed, reason=f"{needed} is not installed")
    if library in ("pandas", "polars"):
        return module.DataFrame(columns)
    table = module.table(columns)
    if library == "arrow batch":
        return table.to_batches()[0]
    return Exported(table) if library == "any exporter" else table


LIBRARIES = ["pandas", "polars", "arrow", "arrow batch", "any exporter"]
of_each_library = pytest.mark.parametrize("library", LIBRARIES)


def same(one: Interactions, other: Interactions) -> bool:
    return (
        one.user_ids == other.user_ids
        and one.item_ids == other.item_ids
        and (one.user_items != other.user_items).nnz == 0
        and np.array_equal(one.timestamps, other.timestamps)
    )


@of_each_library
@pytest.mark.parametrize("ids", [st.integers(-9, 9), st.text("aäz0", min_size=1)], ids=str)
def test_a_table_is_its_columns(library, ids):
    row = st.tuples(ids, ids, st.floats(-5, 5, width=32), st.integers(0, 99))

    @quick
    @given(st.lists(row, min_size=1, max_size=8))
    def check(rows):
        names = "userId", "title", "item_id", "rating", "ts"
        users, items, values, times = map(list, zip(*rows, strict=True))
        table = made_by(
            library, dict(zip(names, (users, items, items, values, times), strict=True))
        )
        expected = Interactions.from_arrays(users, items, values, times)
        assert same(Interactions.of(table), expected)
        assert same(Interactions.from_frame(table, item="title"), expected)
        assert Interactions.from_frame(table, timestamp=False).timestamps is None

    check()


@of_each_library
@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        ([datetime(2024, 1, 1, 9, tzinfo=timezone(timedelta(hours=2))), None], 1704092400),
        ([datetime(2024, 1, 1, 7), None], 1704092400),
        ([date(2024, 1, 1), None], 1704067200),
        ([date(1969, 12, 31), None], -86400),
    ],
    ids=["zoned", "naive", "date", "before 1970"],
)
def test_dates_are_seconds_in_every_library(library, times, seconds):
    columns = {"user": [1, 2], "item": [3, 4]}
    with refuses(ValueError, "timestamps", remedy="write dates"):  # where the date is missing
        Interactions.of(made_by(library, columns | {"date": times}))
    whole = made_by(library, columns | {"date": [times[0], times[0]]})
    assert Interactions.of(whole).timestamps.tolist() == [seconds, seconds]


def categories(library: str, values: list[str | None]) -> Any:
    if library == "pandas":
        return pytest.importorskip("pandas").Categorical(values)
    if library == "polars":
        polars = pytest.importorskip("polars", reason="polars is not installed")
        return polars.Series(values, dtype=polars.Categorical)
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    return pyarrow.chunked_array([pyarrow.array(values).dictionary_encode()])


@of_each_library
def test_categories_are_their_values(library):
    table = made_by(library, {"user": categories(library, ["b", "a", "b"]), "item": [7, 8, 9]})
    assert same(Interactions.of(table), Interactions.from_arrays(["b", "a", "b"], [7, 8, 9]))


@of_each_library
@pytest.mark.parametrize(
    ("role", "kind"),
    [("user", "text"), ("item", "whole"), ("user", "category"), ("value", "whole"),
     ("value", "fraction"), ("date", "time"), ("timestamp", "whole")],
)  # fmt: skip
def test_a_missing_value_is_refused_in_every_library(library, role, kind):
    held = {
        "text": ["a", "b", None],
        "whole": [2**60, 2, None],
        "fraction": [0.5, 1.5, None],
        "time": [datetime(2020, 1, 1), datetime(2021, 1, 1), None],
    }
    column = categories(library, ["a", "b", None]) if kind == "category" else held[kind]
    table = made_by(library, {"user": [1, 2, 3], "item": [1, 2, 3]} | {role: column})
    with pytest.raises(ValueError, match=r"missing|finite|None") as refusal:
        Interactions.of(table)
    assert any(f"{word} 2" in str(refusal.value) for word in ("row", "entry"))


@of_each_library
def test_a_value_that_is_no_number_is_named_by_its_row_and_column(library):
    table = made_by(library, {"user": [1, 2], "item": [1, 2], "rating": ["1.5", "x"]})
    with refuses(ValueError, "values", remedy="write a number"):
        Interactions.of(table)


@of_each_library
def test_columns_that_are_not_recognized_are_listed(library):
    with refuses(ValueError, "item"):
        Interactions.of(made_by(library, {"user": [1], "what": [2]}))


@of_each_library
def test_fits_take_tables(library):
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 20, 90), rng.integers(0, 12, 90)
    table = made_by(library, {"user": users, "item": items})
    fitted = mfrank.ALS(factors=3, iterations=2, random_state=0).fit(table)
    again = mfrank.ALS(factors=3, iterations=2, random_state=0).fit(
        Interactions.from_arrays(users, items)
    )
    assert np.array_equal(fitted.item_factors, again.item_factors)
    assert fitted.item_ids == again.item_ids


def test_a_single_column_is_no_table():
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with refuses(TypeError, "frame"):
        Interactions.of(pyarrow.chunked_array([[1, 2]]))


def test_a_lazy_table_is_to_be_collected():
    class LazyFrame:
        def collect(self) -> None:
            """What is in it."""

    with refuses(TypeError, remedy=r"collect\(\) it first"):
        Interactions.of(LazyFrame())
    with refuses(TypeError, "frame", remedy=r"collect\(\) it first"):
        Interactions.from_frame(LazyFrame())


def test_an_array_with_names_becomes_a_table_of_pandas():
    named = np.array([(1, 2)], dtype=[("user", "i8"), ("item", "i8")])
    with refuses(TypeError, "frame", remedy="DataFrame"):
        Interactions.from_frame(named)
    with refuses(TypeError, "frame", remedy="from_arrays"):
        Interactions.from_frame(named["user"])


def test_without_pyarrow_the_error_says_how_to_get_it(monkeypatch):
    table = made_by("any exporter", {"user": [1], "item": [2]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match=r"read with pyarrow: pip install mfrank\[par"):
        Interactions.of(table)


INDEXES: dict[str, Any] = {
    "user": lambda frame: frame.set_index("user"),
    "user and item": lambda frame: frame.set_index(["user", "item"]),
    "all": lambda frame: frame.set_index(["user", "item", "rating", "timestamp"]),
    "numbered": lambda frame: frame.set_axis(range(4), axis=1),
    "none": lambda frame: frame,
}


@pytest.mark.parametrize("door", ["from_file", "ingest", "arrow"])
@pytest.mark.parametrize("index", INDEXES)
def test_what_pandas_had_as_an_index_is_a_column_of_the_file(door, index, tmp_path):
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"user": ["a", "b"], "item": ["x", "y"], "rating": [1, 2], "timestamp": [7, 8]}
    frame = INDEXES[index](pandas.DataFrame(columns))
    table, path = pyarrow.Table.from_pandas(frame), tmp_path / "ratings.parquet"
    parquet.write_table(table, path)
    names = "0123" if index == "numbered" else columns
    how = dict(zip(columns, names, strict=True)) if index == "numbered" else {}
    how = {"value" if role == "rating" else role: name for role, name in how.items()}
    if door == "arrow":
        data = Interactions.from_frame(table, **how)
    elif door == "ingest":
        data = Interactions.ingest([path], tmp_path / "to", **how)
    else:
        data = Interactions.from_file(path, **how)
    assert data.user_ids.labels.tolist() == ["a", "b"]
    assert data.user_items.toarray().tolist() == [[1, 0], [0, 2]]
    assert data.timestamps.tolist() == [7, 8]


@pytest.mark.parametrize(
    ("name", "how", "is_told"),
    [
        ("timestamp", {}, True),
        (None, {}, True),  # dates
        ("when", {"timestamp": False}, False),
        ("timestamp", {"timestamp": "at"}, False),
        ("rating", {}, True),
    ],
)
def test_an_index_of_times_or_values_is_told(name, how, is_told, caplog):
    pandas = pytest.importorskip("pandas")
    index = [5.0, 4.0] if name == "rating" else pandas.date_range("2024", periods=2)
    columns = {"user": ["a", "b"], "item": ["x", "y"], "at": [7, 8]}
    frame = pandas.DataFrame(columns, index=pandas.Index(index, name=name))
    Interactions.from_frame(frame, **how)
    told = [line.getMessage() for line in caplog.records if "reset_index()" in line.getMessage()]
    assert len(told) == is_told
    assert all(f"the index ({name or 'dates'}) looks like the " in line for line in told)


def test_periods_of_pandas_in_an_arrow_table_are_dates():
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    months = pandas.period_range("2024-01", periods=2, freq="M")
    frame = pandas.DataFrame({"user": [1, 2], "item": [1, 2], "timestamp": months})
    data = Interactions.from_frame(pyarrow.Table.from_pandas(frame))
    assert data.timestamps.tolist() == [1704067200, 1706745600]
