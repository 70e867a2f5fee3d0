"""What values probably mean otherwise is told alike, whatever door they come through."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reading
import scipy.sparse as sp

from mfrank import Interactions
from mfrank.cli.main import main
from tests.support.errors import refuses


def columns_of(values: list[float]) -> dict[str, Any]:
    if any(isinstance(value, float) for value in values):
        values = list(map(float, values))
    return {"user": list(range(len(values))), "item": list(range(len(values))), "rating": values}


def by_library(library: str) -> Callable[[list[float], Path], Interactions]:
    def read(values: list[float], _: Path) -> Interactions:
        module = pytest.importorskip(library)
        make = module.table if library == "pyarrow" else module.DataFrame
        return Interactions.from_frame(make(columns_of(values)))

    return read


def by_text(door: str) -> Callable[[list[float], Path], Interactions]:
    def read(values: list[float], folder: Path) -> Interactions:
        path = folder / "ratings.csv"
        rows = zip(*columns_of(values).values(), strict=True)
        path.write_text("user,item,rating\n" + "".join(f"{u},{i},{v}\n" for u, i, v in rows))
        return reading.DOORS[door](path)

    return read


def parquet(values: list[float], folder: Path) -> Path:
    table = pytest.importorskip("pyarrow").table(columns_of(values))
    pytest.importorskip("pyarrow.parquet").write_table(table, folder / "ratings.parquet")
    return folder / "ratings.parquet"


DOORS: dict[str, Callable[[list[float], Path], Interactions]] = {
    "arrays": lambda values, _: Interactions.from_arrays(*columns_of(values).values()),
    **{library: by_library(library) for library in ("pandas", "polars", "pyarrow")},
    **{door: by_text(door) for door in reading.DOORS},
    "parquet": lambda values, folder: Interactions.from_file(parquet(values, folder)),
    "ingest parquet": lambda values, folder: Interactions.ingest(
        [parquet(values, folder)], folder / "to"
    ),
    "matrix": lambda values, _: Interactions.from_sparse(
        sp.csr_array(np.diag(np.array(values, np.float64)))
    ),
}


def table_of_pairs(n_users: int, n_items: int, values: Any = None) -> dict[str, Any]:
    """Every pair of users and items."""
    users, items = np.divmod(np.arange(n_users * n_items), n_items)
    columns = {"user": users, "item": items}
    return columns if values is None else {**columns, "v": values}


def told(log: pytest.LogCaptureFixture, word: str) -> list[str]:
    lines = [record.getMessage() for record in log.records if record.levelno >= logging.WARNING]
    return [line for line in lines if word in line]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("values", "code", "rows"),
    [
        ([-1, 8, -1, 10, 7], "-1", "2 rows"),  # as in lists of anime
        ([5, -1, 3.5, 2], "-1", "1 row"),
        ([99, -3.5, 7.25, 99, 9], "99", "2 rows"),  # as in Jester
        ([1, 999, 5, 999], "999", "2 rows"),
        ([1, -99, 5, -99], "-99", "2 rows"),
        ([5, -(2**31), 3.5, 2], "-2147483648", "1 row"),  # NaN as a whole number
        ([1, 1, -(2**63)], "-9223372036854775808", "1 row"),
        ([0.5, -999, -2.5, -999], "-999", "2 rows"),  # among values around 0
    ],
)
def test_a_value_that_may_stand_for_none_is_told_and_kept(
    door: str,
    values: list[float],
    code: str,
    rows: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    data = DOORS[door](values, tmp_path)
    assert sorted(data.user_items.data.tolist()) == sorted(values)
    (line,) = told(caplog, "missing one")
    assert f"the value {code}, in {rows}," in line


@pytest.mark.parametrize("door", DOORS)
def test_ordinary_values_are_not_talked_about(
    door: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number, values in enumerate(
        (
            *([1, -1, 1, -1], [-1, -1], [-1, -2, 5], [-10, 9.5, -9, 3], [1, 2, 5, 4]),
            *([1, 99, 12], [99, 99], [3, 99, 4], [1, 98, 99, 99], [100, 250, 999, 999]),
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        DOORS[door](list(values), folder)
    assert not told(caplog, "")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("values", "may_be"),
    [
        ([1.234, 2.5, 3.5, 999.0], False),
        ([1.234, 2.345, 999.0, 5.0], True),
        ([12.345, 7.0, 0.0], True),
        ([3.5, 4.0, 2.5], False),  # stars
        ([1.25, 4.0], False),
        ([0.125, 2.0], False),
        ([1.234, 1000.0], False),
        ([1.2345, 2.0], False),
        ([1.234, 2.345], False),  # no whole number
        ([1.234] * 20 + [3.0], False),  # rounded to three decimals
        ([-1.234, 2.0, 5.0], True),
        ([1.5, 2.5, 3.125, 4.0], False),
    ],
)
def test_values_that_may_be_thousands_are_told(
    door: str, values: list[float], may_be: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    DOORS[door](values, tmp_path)
    told = [line for line in caplog.messages if "thousands" in line]
    assert len(told) == may_be
    if may_be:
        assert "three decimals like" in told[0]


MARKED = {
    "1.234,5": "thousands='.', decimal=','",
    "1,234": "thousands=','",
    "1,234,567": "thousands=','",
    "1.234.567": "thousands='.'",
    "12,345.67": "thousands=','",
    "1'234": 'thousands="\'"',
    "1 234": "thousands=' '",
    "1\xa0234,5": "thousands='\\xa0', decimal=','",
}


@pytest.mark.parametrize("door", reading.DOORS)
@pytest.mark.parametrize("separator", [";", "\t", "|"])
@pytest.mark.parametrize("field", MARKED)
def test_numbers_with_marks_are_refused_with_the_remedy(
    door: str, separator: str, field: str, tmp_path: Path
) -> None:
    path = tmp_path / "plays.csv"
    for column, header in (("plays", True), ("timestamp", True), ("", False)):
        rows = [["user", "item", column]] * header + [["a", "x", field], ["b", "y", field]]
        path.write_text("".join(f"{separator.join(row)}\n" for row in rows), encoding="utf-8")
        with refuses(ValueError, None, remedy="no mark between thousands") as refused:
            reading.DOORS[door](path)
        assert f"sep=..., {MARKED[field]}" in str(refused.value)


@pytest.mark.parametrize("door", reading.DOORS)
@pytest.mark.parametrize("separator", [";", "\t", "|"])
@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        (["3,5", "2"], [3.5, 2]),
        (["2", "4", "-1,25", "1,234"], [2, 4, -1.25, 1.234]),
        (["0,125", "1234,567"], [0.125, 1234.567]),
        (["1,234", "2"], None),  # perhaps thousands
        (["3,5", "1.5"], None),
        (["1.234", "2", "3,5"], None),
        (["3,5", "1,234,567"], None),
        (["3,5", "x"], None),
    ],
)
def test_decimal_commas_are_read_if_nothing_else_can_be_meant(
    door: str,
    separator: str,
    fields: list[str],
    wanted: list[float] | None,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "mfrank")
    path = tmp_path / "plays.csv"
    rows = [["user", "item", "plays"], *(["u", str(n), each] for n, each in enumerate(fields))]
    path.write_text("".join(f"{separator.join(row)}\n" for row in rows), encoding="utf-8")
    if wanted is None:
        line = 2 + next(n for n, each in enumerate(fields) if "," in each or each == "x")
        line = 3 if "1,234,567" in fields or "x" in fields else line
        with refuses(ValueError, None, place=f"line {line}", remedy="point|number"):
            reading.DOORS[door](path)
        return
    found = reading.DOORS[door](path)
    assert found.user_items.data.tolist() == np.float32(wanted).tolist()
    assert sum("decimals with a comma" in line for line in caplog.messages) == 1
    path.write_text('user,item,plays\nu,7,"3,5"\n')
    with refuses(ValueError, None, place="line 2", remedy="decimal=','"):
        reading.DOORS[door](path)


@pytest.mark.parametrize("field", MARKED)
def test_text_with_marks_in_a_frame_is_refused_with_the_remedy(field: str) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"user": ["a"], "item": ["x"], "plays": [field]})
    with refuses(ValueError, "values", remedy="no mark between thousands"):
        Interactions.from_frame(frame)


@pytest.mark.parametrize("door", reading.DOORS)
@pytest.mark.parametrize(
    "fields", [["1.234", "999"], ["7", "12.345", "1.230"], ["1.234"] * 3 + ["2"]]
)
def test_points_between_semicolons_are_refused_if_they_may_stand_between_thousands(
    door: str, fields: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def read(separator: str) -> Interactions:
        rows = [
            ["user", "item", "plays"],
            *(["u", str(n), field] for n, field in enumerate(fields)),
        ]
        path = tmp_path / f"{ord(separator)}.csv"
        path.write_text("".join(f"{separator.join(row)}\n" for row in rows))
        return reading.DOORS[door](path)

    with refuses(ValueError, remedy="write thousands without a point"):
        read(";")
    read("\t")
    assert ["thousands" in line for line in caplog.messages] == [True]


@pytest.mark.parametrize("door", reading.DOORS)
def test_only_decimals_between_semicolons_are_told(
    door: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "plays.csv"
    path.write_text("user;item;plays\na;x;1.234\na;y;2.345\n")
    data = reading.DOORS[door](path)
    np.testing.assert_allclose(sorted(data.user_items.data), [1.234, 2.345])
    assert ["taken as decimals" in line for line in caplog.messages] == [True]


def test_the_command_line_says_how_to_write_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plays.csv").write_text("user;item;plays\na;x;1.234,5\n")
    assert main(["fit", str(tmp_path / "plays.csv"), "--model", str(tmp_path / "m")]) == 2
    told = capsys.readouterr().err
    assert "no mark between thousands" in told
    assert "from_frame" not in told


def pairs_by_library(library: str) -> Callable[[dict[str, Any], Path], Interactions]:
    def read(columns: dict[str, Any], _: Path) -> Interactions:
        module = pytest.importorskip(library)
        make = module.table if library == "pyarrow" else module.DataFrame
        return Interactions.from_frame(make(columns))

    return read


def pairs_by_text(door: str) -> Callable[[dict[str, Any], Path], Interactions]:
    def read(columns: dict[str, Any], folder: Path) -> Interactions:
        path = folder / "pairs.csv"
        rows = zip(*columns.values(), strict=True)
        lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
        return reading.DOORS[door](path)

    return read


def matrix_of_pairs(columns: dict[str, Any], _: Path) -> Interactions:
    cells = np.ones(len(columns["user"])), (columns["user"], columns["item"])
    return Interactions.from_sparse(sp.coo_array(cells))


PAIRS: dict[str, Callable[[dict[str, Any], Path], Interactions]] = {
    "arrays": lambda columns, _: Interactions.from_arrays(columns["user"], columns["item"]),
    "matrix": matrix_of_pairs,
    **{library: pairs_by_library(library) for library in ("pandas", "polars", "pyarrow")},
    **{door: pairs_by_text(door) for door in reading.DOORS},
}


@pytest.mark.parametrize("door", PAIRS)
def test_a_table_of_all_pairs_is_told(
    door: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As by unstacking a matrix of ratings: those that are missing are in a column of any name."""
    values = np.where(np.arange(30) % 4, 0.0, np.nan)
    PAIRS[door](table_of_pairs(6, 5, values), tmp_path)
    (line,) = told(caplog, "each of the 6 users has each of the 5 items")
    assert "value=" in line


@pytest.mark.parametrize("door", PAIRS)
def test_nearly_all_pairs_are_not_told(
    door: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    most = {name: column[:-1] for name, column in table_of_pairs(6, 5).items()}
    for number, columns in enumerate((most, table_of_pairs(30, 2), table_of_pairs(3, 4))):
        (tmp_path / str(number)).mkdir()
        PAIRS[door](columns, tmp_path / str(number))
    assert not told(caplog, "each of the")


def test_all_pairs_with_their_values_are_not_told(caplog: pytest.LogCaptureFixture) -> None:
    columns = table_of_pairs(6, 5)
    Interactions.from_arrays(*columns.values(), np.arange(1, 31))
    assert not told(caplog, "each of the")


@pytest.mark.parametrize("door", DOORS)
def test_a_few_quantities_below_zero_are_told(
    door: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    DOORS[door]([12, 3, 1, -3, 40, 1, 2, 6, 24, 1, 1], tmp_path)
    (line,) = told(caplog, "quantities of returns")
    assert line.startswith("1 of 11 values are below 0, down to -3")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "values", [[1, 1, 1, 1, -1, 1], [2, 1, 2, 1, -2, 1, 2], [9.5, -7.5, -3, 10], [12, -12, 20, -3]]
)
def test_votes_and_scales_around_zero_are_not_told(
    door: str, values: list[float], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    DOORS[door](values, tmp_path)
    assert not told(caplog, "quantities of returns")


def test_weights_below_zero_are_not_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever gives an event a weight below 0 means it."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"user": range(9), "item": range(9), "event": ["buy"] * 8 + ["back"]})
    weights = {"buy": 20, "back": -20}
    Interactions.from_frame(frame, weights=weights)
    Interactions.ingest(frame, tmp_path / "f", weights=weights)
    assert not told(caplog, "quantities of returns")


@pytest.mark.parametrize("door", DOORS)
def test_a_threshold_of_another_scale_is_told(
    door: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert DOORS[door]([20, 60, 100, 80], tmp_path).at_least(4).nnz == 4
    (line,) = told(caplog, "another scale")
    assert "keeps all 4 entries, whose values go from 20 to 100" in line


@pytest.mark.parametrize(
    ("values", "threshold"), [([4, 5, 4.5], 4), ([1, 2, 9], 1), ([3, 5], 0), ([4, 5], 3)]
)
def test_a_threshold_that_all_reach_may_be_meant(
    values: list[float], threshold: float, caplog: pytest.LogCaptureFixture
) -> None:
    Interactions.from_arrays(range(len(values)), range(len(values)), values).at_least(threshold)
    assert not told(caplog, "another scale")
