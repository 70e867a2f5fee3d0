"""Which columns are read as what, and which are not, is told once through every door."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import DOORS

import mfrank
from mfrank.cli.main import main
from mfrank.data import ROLES, assign, tell_columns, write_table
from tests.support.cases import in_one_test
from tests.support.errors import refuses

FEW = settings(max_examples=80, deadline=None)

VALUES = [
    *["overall", "Book-Rating", "rating:float", "star_rating", "User Rating", "starRating"],
    *["play_count", "stars", "score", "reviewScore", "watch_duration", "label", "Is Click"],
    *["listen_count", "num_plays", "USER_SCORE", "RatingValue", "feedback", "purchased"],
    *["playtime_forever", "watchtime", "listencount", "watch_ratio", "clk"],
    *["sum(n)", "SUM(amount)", "avg(x)", "max(level)", "total"],
    *["watched", "percent_viewed", "listened", "progress", "completion"],
]
TIMES = [
    *["event_time", "when", "date", "created_at", "createdAt", "reviewTime", "RATED_AT"],
    *["Order Date", "visit_time", "timestamp:float", "time_of_day", "updated", "event-date"],
    *["orderdate", "createtime", "invoicedate", "max(ts)", "MIN(created_at)"],
]
EVENTS = ["event_type", "event", "EventType", "action", "behavior_type", "interaction type", "type"]
EVENTS += ["kind"]
MARKS = ["is_deleted", "cancelled", "isCanceled", "returned", "refund", "is_bot", "test_user"]
MARKS += ["deleted_at", "isTestUser", "fraud"]
PLAIN = ["title", "genres", "country", "age", "session_id", "event_id", "average_rating", "zip"]
PLAIN += [
    "bottle",
    "robot",
    "returning_user",
    "test_score_of_item_id",
    "runtime",
    "discount",
    "candidate",
    "bankaccount",
    "release_year",
    "lifetime",
]


def tables() -> dict[str, Callable[[Path, list[str], list[list[Any]]], mfrank.Interactions]]:
    """Each door, as a function of the folder, the names of the columns and the columns."""

    def text(door: str) -> Any:
        def read(place: Path, names: list[str], columns: list[list[Any]]) -> mfrank.Interactions:
            file = place / "a.csv"
            rows = zip(*columns, strict=True)
            lines = [",".join(names), *(",".join(map(str, row)) for row in rows)]
            file.write_text("\n".join(lines) + "\n")
            return DOORS[door](file)

        return read

    def json_text(door: str, write: Callable[[list[Any]], str]) -> Any:
        def read(place: Path, names: list[str], columns: list[list[Any]]) -> mfrank.Interactions:
            rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
            (place / "a.json").write_text(write(rows))
            return DOORS[door](place / "a.json")

        return read

    def lines_of(rows: list[Any]) -> str:
        return "".join(f"{json.dumps(row)}\n" for row in rows)

    def pandas(place: Path, names: list[str], columns: list[list[Any]]) -> mfrank.Interactions:
        library = pytest.importorskip("pandas", reason="the extra pandas is not installed")
        return mfrank.Interactions.of(library.DataFrame(dict(zip(names, columns, strict=True))))

    def polars(place: Path, names: list[str], columns: list[list[Any]]) -> mfrank.Interactions:
        library = pytest.importorskip("polars", reason="polars is not installed")
        frame = library.DataFrame(dict(zip(names, columns, strict=True)))
        return mfrank.Interactions.from_frame(frame)

    def arrow(place: Path, names: list[str], columns: list[list[Any]]) -> mfrank.Interactions:
        library = pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
        table = library.table(dict(zip(names, columns, strict=True)))
        return mfrank.Interactions.from_frame(table)

    def parquet(door: str) -> Any:
        def read(place: Path, names: list[str], columns: list[list[Any]]) -> mfrank.Interactions:
            library = pytest.importorskip("pandas", reason="the extra pandas is not installed")
            pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
            frame = library.DataFrame(dict(zip(names, columns, strict=True)))
            frame.to_parquet(place / "a.parquet")
            return DOORS[door](place / "a.parquet")

        return read

    def stream(place: Path, names: list[str], columns: list[list[Any]]) -> mfrank.Interactions:
        library = pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
        table = library.table(dict(zip(names, columns, strict=True)))
        return mfrank.Interactions.from_frame(table.to_reader())

    def arrays(place: Path, names: list[str], columns: list[list[Any]]) -> mfrank.Interactions:
        np.savez(place / "a.npz", **dict(zip(names, map(np.array, columns), strict=True)))  # type: ignore[arg-type]
        return mfrank.Interactions.from_file(place / "a.npz")

    return {
        **{f"text, {door}": text(door) for door in DOORS},
        **{f"json, {door}": json_text(door, lines_of) for door in DOORS},
        "json, an array": json_text("whole", json.dumps),
        "dicts of Python": json_text("whole", lambda rows: "".join(f"{row}\n" for row in rows)),
        "stream": stream,
        "arrays": arrays,
        "pandas": pandas,
        "polars": polars,
        "arrow": arrow,
        "parquet, whole": parquet("whole"),
        "parquet, portions": parquet("portions"),
    }


TABLES = tables()


def messages(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(r.levelno, r.getMessage()) for r in caplog.records if "columns read" in r.getMessage()]


@pytest.mark.parametrize("door", TABLES)
@in_one_test(
    ("name", "column"),
    [
        *[(name, [3, 4]) for name in VALUES],
        *[(name, ["2024-01-01", "2024-01-02"]) for name in TIMES],
        *[(name, ["view", "buy"]) for name in EVENTS],
    ],
)
def test_what_looks_like_a_value_or_a_time_is_read_or_warned_of(
    tmp_path: Path, door: str, name: str, column: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "mfrank"):
        data = TABLES[door](tmp_path, ["user", "item", name], [[1, 2], [5, 6], column])
    ((level, said),) = messages(caplog) or [(logging.INFO, "")]
    is_read = data.timestamps is not None or data.user_items.data.tolist() == [3, 4]
    if name in EVENTS:
        assert not is_read
    if is_read:
        assert f"{name!r}" in said or name.partition(":")[0] in ROLES
        return
    assert level == logging.WARNING
    argument = "timestamp" if name in TIMES else "value"
    assert f"ignored: {name!r}" in said
    assert f"{argument}=" in said


@pytest.mark.parametrize("door", TABLES)
@pytest.mark.parametrize(
    "dates", [["2024-01-31", "2024-02-13"], ["31.01.2024 10:00", "13.02.2024 11:00"]]
)
def test_dates_are_told_whatever_their_column_is_called(
    tmp_path: Path, door: str, dates: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    names, ids = ["user", "item", "t_dat"], [[1, 2], [5, 6]]
    data = TABLES[door](tmp_path, names, [*ids, dates])
    assert data.timestamps is None
    ((level, said),) = messages(caplog)
    assert level == logging.WARNING
    assert "'t_dat' has dates: timestamp='t_dat' reads them" in said
    for others in (["title", "1.2"], ["20240131", "20240213"], ["", "2024-01-31 or so"], dates):
        caplog.clear()
        name = "dob" if others is dates else "t_dat"
        TABLES[door](tmp_path, ["user", "item", name], [*ids, others])
        assert not [said for level, said in messages(caplog) if level == logging.WARNING]


DAYS = {
    "as text": ["2022-04-08", "2022-04-09", "2022-04-09"],
    "as numbers": [20220408, 20220409, 20220409],
    "of one zone": [f"2022-04-0{day}T00:00:00+08:00" for day in (8, 9, 9)],
}
MILLIS = [1649430000000, 1649476800000, 1649480400000]


@pytest.mark.parametrize("door", TABLES)
@pytest.mark.parametrize("days", DAYS)
def test_a_day_that_is_read_beside_a_finer_time_is_told(
    tmp_path: Path, door: str, days: str, caplog: pytest.LogCaptureFixture
) -> None:
    ids, date = [[1, 2, 3], [5, 6, 7]], DAYS[days]
    for name, column, remedy in (
        ("time_ms", MILLIS, "timestamp='time_ms' reads it"),
        ("hourmin", [2300, 1200, 1300], "make one column of both"),
        ("order_hour_of_day", [23, 12, 13], "make one column of both"),
    ):
        caplog.clear()
        data = TABLES[door](tmp_path, ["user", "item", "date", name], [*ids, date, column])
        assert data.timestamps is not None
        (said,) = (text for text in caplog.messages if "whole days" in text)
        assert f"column {name!r}, which looks finer, is not read: {remedy}" in said
        assert said in data.notes
    caplog.clear()
    for name in ("play_time_ms", "delivery_time", "weekday", "runtime", "release_time"):
        TABLES[door](tmp_path, ["user", "item", "date", name], [*ids, date, [7, 8, 9]])
    moments = ["2022-04-08 23:00:00", "2022-04-09 12:00:00", "2022-04-09 13:00:00"]
    TABLES[door](tmp_path, ["user", "item", "date", "hourmin"], [*ids, moments, [7, 8, 9]])
    assert "whole days" not in caplog.text


def test_days_that_are_asked_for_are_read_quietly(caplog: pytest.LogCaptureFixture) -> None:
    pandas = pytest.importorskip("pandas", reason="the extra pandas is not installed")
    frame = pandas.DataFrame(
        {"user": [1, 2, 3], "item": [5, 6, 7], "date": DAYS["as text"], "time_ms": MILLIS}
    )
    finer = mfrank.Interactions.from_frame(frame, timestamp="time_ms")
    mfrank.Interactions.from_frame(frame, timestamp="date")
    assert "whole days" not in caplog.text
    assert finer.timestamps is not None
    assert finer.timestamps.tolist() == [each // 1000 for each in MILLIS]


@pytest.mark.parametrize("kind", ["M8[s]", "M8[D]", "M8[ns]", object])
def test_dates_of_tables_are_told_by_their_type(
    kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    pandas = pytest.importorskip("pandas", reason="the extra pandas is not installed")
    frame = pandas.DataFrame({"user": [1, 2, 3], "item": [5, 6, 7]})
    dates = np.array(["2024-01-31", "NaT", "2024-02-13"], "M8[s]").astype(kind)
    mfrank.Interactions.from_frame(frame.assign(x=dates))
    assert "'x' has dates: timestamp='x' reads them" in caplog.text
    for quiet in (frame.assign(x=pandas.NaT), frame.assign(x=dates, time=[1, 2, 3])):
        caplog.clear()
        mfrank.Interactions.from_frame(quiet)
        mfrank.Interactions.from_frame(quiet.assign(x=dates), timestamp=False)
        assert "has dates" not in caplog.text


def test_arrays_that_are_ignored_are_not_read_for_their_dates(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ids = np.arange(30)
    for x in (np.array([{}] * 30), np.zeros((30, 2)), np.array("2024-01-31"), np.array([], "U")):
        np.savez(tmp_path / "a.npz", user=ids, item=ids, x=x)  # type: ignore[arg-type]
        assert mfrank.Interactions.from_file(tmp_path / "a.npz").nnz == 30
    assert caplog.text.count("has dates") == 1
    np.savez(tmp_path / "a.npz", user=ids, item=ids, x=ids.astype("M8[D]"))
    assert mfrank.Interactions.from_file(tmp_path / "a.npz").nnz == 30
    assert caplog.text.count("'x' has dates") == 2


@pytest.mark.parametrize("door", TABLES)
@in_one_test("name", ["Bewertung", "Quantité", "nota", "评分"])
def test_values_are_told_in_other_languages(
    tmp_path: Path, door: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    data = TABLES[door](tmp_path, ["user", "item", name], [[1, 2], [5, 6], [3, 4]])
    assert data.user_items.data.tolist() == [1, 1]
    ((level, said),) = messages(caplog)
    assert level == logging.WARNING
    assert f"{name!r} looks like a value: value={name!r} reads it" in said


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_keys_of_folders_are_told_as_columns_are(
    tmp_path: Path, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    def told_of(*folders: str) -> str:
        place = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        for number, folder in enumerate(folders):
            (place / folder).mkdir(parents=True)
            file = place / folder / f"a{suffix}"
            if suffix == ".jsonl":
                file.write_text(json.dumps({"user": number, "item": 7}))
            else:
                write_table(file, {"user": np.array([number]), "item": np.array([7])})
        caplog.clear()
        assert mfrank.Interactions.from_file(place).n_users == len(folders)
        return "\n".join(r.getMessage() for r in caplog.records if r.levelno == logging.WARNING)

    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    assert "'is_deleted' looks like a mark" in told_of("is_deleted=0", "is_deleted=1")
    assert not told_of("is_deleted=false", "is_deleted=__HIVE_DEFAULT_PARTITION__")
    assert "'tag' has dates" in told_of("tag=2024-01-31", "tag=2024-02-13")
    assert not told_of("tag=a", "tag=b")


def marks_told(caplog: pytest.LogCaptureFixture) -> list[str]:
    texts = (r.getMessage() for r in caplog.records if r.levelno == logging.WARNING)
    return [text for text in texts if "looks like a mark of rows that are not meant" in text]


@pytest.mark.parametrize("door", TABLES)
@in_one_test("name", MARKS)
def test_marks_of_rows_that_are_not_meant_are_warned_of(
    tmp_path: Path, door: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    columns = [[1, 2], [5, 6], [3, 4], [0, 1]]
    TABLES[door](tmp_path, ["user", "item", "rating", name], columns)
    (said,) = marks_told(caplog)
    assert f"{name!r} looks like a mark" in said


NO_MARKS: list[list[Any]] = [[0, 0], [False, False], ["no", "No"], [0.0, 0.0], ["", "null"]]


@pytest.mark.parametrize("door", TABLES)
@in_one_test("values", NO_MARKS)
def test_a_column_that_marks_no_row_is_not_warned_of(
    tmp_path: Path, door: str, values: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Beside one that does; of columns that may be empty, too."""
    names, rows = ["user", "item", "is_deleted", "isBot"], [[1, 2], [5, 6]]
    TABLES[door](tmp_path, names, [*rows, values, values])
    assert not marks_told(caplog)
    caplog.clear()
    mark = "yes" if isinstance(values[0], str) else type(values[0])(1)
    data = TABLES[door](tmp_path, names, [*rows, values, [values[0], mark]])
    (said,) = marks_told(caplog)
    assert "'isBot' looks like a mark" in said
    assert "'is_deleted' looks" not in said
    assert (data.user_ids.labels.tolist(), data.item_ids.labels.tolist()) == ([1, 2], [5, 6])


@pytest.mark.parametrize("n_before", [1, 30_000])
def test_a_mark_that_only_a_later_object_has_is_found(
    tmp_path: Path, n_before: int, caplog: pytest.LogCaptureFixture
) -> None:
    row = '{"user": 1, "item": 2}\n'
    (tmp_path / "a.jsonl").write_text(n_before * row + '{"user": 2, "item": 2, "deleted": true}\n')
    mfrank.Interactions.from_file(tmp_path / "a.jsonl")
    (said,) = marks_told(caplog)
    assert "'deleted' looks like a mark" in said


@pytest.mark.parametrize("n_rows", [3, 200_000])
def test_a_mark_in_the_last_row_is_found(
    tmp_path: Path, n_rows: int, caplog: pytest.LogCaptureFixture
) -> None:
    marks = np.zeros(n_rows, int)
    frame = {"user": np.arange(n_rows), "item": np.arange(n_rows) % 7, "deleted": marks}
    for last in (0, 1):
        marks[-1] = last
        write_table(tmp_path / "a.csv", frame)
        write_table(tmp_path / "a.parquet", frame)
        doors: list[Callable[[], Any]] = [
            lambda: mfrank.Interactions.from_file(tmp_path / "a.csv"),
            lambda: mfrank.Interactions.from_file(tmp_path / "a.parquet"),
            lambda: mfrank.Interactions.ingest(tmp_path / "a.csv", tmp_path / "folder"),
            lambda: mfrank.Interactions.from_file(tmp_path / "a.csv", where={"deleted": [0, 1]}),
        ]
        for number, door in enumerate(doors):
            caplog.clear()
            assert door().n_users == n_rows
            assert len(marks_told(caplog)) == (last if number < 3 else 0)


@pytest.mark.parametrize("name", ["rank", "Chart Position", "listRank", "distance"])
def test_a_value_of_which_less_is_more_is_warned_of(name: str) -> None:
    ((level, said),) = told(["user", "item", name], {"value": name})
    assert level == logging.WARNING
    assert f"if the least of {name!r} is the best" in said
    for other in ("pageRank", "rank_score", "ranked", "v"):
        ((level, _),) = told(["user", "item", other], {"value": other})
        assert level == logging.INFO


@pytest.mark.parametrize("door", TABLES)
@in_one_test("name", PLAIN)
def test_what_is_surely_no_value_and_no_time_is_told_quietly(
    tmp_path: Path, door: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "mfrank"):
        TABLES[door](tmp_path, ["user", "item", "rating", name], [[1, 2], [5, 6], [3, 4], [1, 1]])
    ((level, said),) = messages(caplog)
    assert level == logging.INFO
    assert f"ignored: {name!r}" in said


@pytest.mark.parametrize("door", TABLES)
@pytest.mark.parametrize(
    "parts", [["day", "month", "year"], ["date_day", "date_month", "date_hour", "date_second"]]
)
def test_parts_of_a_time_are_not_said_to_be_one(
    tmp_path: Path, door: str, parts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    names, columns = ["user", "item", *parts], [[1, 2], [5, 6], *([1, 2] for _ in parts)]
    data = TABLES[door](tmp_path, names, columns)
    assert data.timestamps is None
    ((level, said),) = messages(caplog)
    assert level == logging.WARNING
    assert "look like parts of a time: make one column" in said
    assert "timestamp=" not in said


def test_an_index_with_the_name_of_a_role_is_said_to_be_no_column() -> None:
    pandas = pytest.importorskip("pandas", reason="the extra pandas is not installed")
    frame = pandas.DataFrame({"user": ["a", "b"], "item": [1, 2], "rating": [3, 4]})
    for names in (["user"], ["item"], ["user", "item"]):
        indexed = frame.set_index(names)
        with refuses(ValueError, None, remedy=r"reset_index\(\)"):
            mfrank.Interactions.from_frame(indexed)
        assert mfrank.Interactions.from_frame(indexed.reset_index()).nnz == 2


@pytest.mark.parametrize("door", TABLES)
def test_of_two_values_the_one_that_is_read_is_told(
    tmp_path: Path, door: str, caplog: pytest.LogCaptureFixture
) -> None:
    names = ["user", "item", "overall", "rating"]
    data = TABLES[door](tmp_path, names, [[1, 2], [5, 6], [1, 1], [3, 4]])
    assert data.user_items.data.tolist() == [3, 4]
    ((level, said),) = messages(caplog)
    assert level == logging.WARNING
    assert "value='overall' reads it in place of 'rating'" in said


@pytest.mark.parametrize("door", TABLES)
def test_of_two_that_are_alike_one_is_asked_for(tmp_path: Path, door: str) -> None:
    with refuses(ValueError, "value"):
        TABLES[door](tmp_path, ["user", "item", "rating", "score"], [[1], [5], [1], [3]])


def told(names: list[Any], chosen: dict[str, Any]) -> list[tuple[int, str]]:
    said = list[tuple[int, str]]()
    tell_columns(names, assign(names, chosen), chosen, lambda *line: said.append(line))
    return said


@FEW
@given(
    st.lists(st.sampled_from([*VALUES, *TIMES, *EVENTS, *PLAIN]), unique=True, max_size=6),
    st.sampled_from([False, "v"]),
    st.sampled_from([False, "t"]),
)
def test_a_caller_who_says_what_every_role_is_is_not_warned(
    others: list[str], value: Any, timestamp: Any
) -> None:
    names = ["u", "i", "v", "t", *others]
    chosen = {"user": "u", "item": "i", "value": value, "timestamp": timestamp}
    assert [level for level, _ in told(names, chosen)] == [logging.INFO]


@FEW
@given(st.lists(st.text(max_size=12), unique=True, max_size=12), st.randoms())
def test_any_names_give_one_line_that_tells_what_is_ignored(others: list[str], random: Any) -> None:
    names = ["user", "item", *others]
    random.shuffle(names)
    try:
        said = told(names, {})
    except ValueError:
        return  # several may be one
    roles = assign(names, {})
    free = [name for name in names if name not in roles.values() and name != "-"]
    assert len(said) <= 1
    if free:
        assert repr(free[0]) in said[0][1].partition("ignored: ")[2]


def test_files_of_one_layout_are_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a.csv", "b.csv", "c.csv"):
        (tmp_path / name).write_text("user,item,title\n1,2,x\n")
    (tmp_path / "c.csv").write_text("user,item,titel\n1,2,x\n")
    with caplog.at_level(logging.INFO, "mfrank"):
        mfrank.Interactions.ingest(sorted(tmp_path.glob("*.csv")), tmp_path / "x")
    assert [said.partition("ignored: ")[2] for _, said in messages(caplog)] == [
        "'title'",
        "'titel'",
    ]


def test_the_command_line_always_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.csv"
    few = ["--factors", "2", "--iterations", "1"]
    file.write_text("userId,movieId,rating\n1,2,3\n2,2,4\n")
    assert main(["fit", str(file), "--model", str(tmp_path / "m"), *few]) == 0
    assert "user 'userId', item 'movieId', value 'rating'" in capsys.readouterr().err
    file.write_text("userId,movieId,my_score\n1,2,3\n2,2,4\n")
    assert main(["fit", str(file), "--model", str(tmp_path / "m"), *few]) == 0
    assert "--value my_score reads it" in capsys.readouterr().err
    assert main(["ingest", str(file), "--folder", str(tmp_path / "x")]) == 0
    assert "--value my_score reads it" in capsys.readouterr().err


@pytest.mark.parametrize("door", DOORS)
def test_a_threshold_where_no_values_were_read_says_so(
    tmp_path: Path, door: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("user,item,nota\n1,2,5\n2,2,3\n")
    assert not DOORS[door](file).at_least(4).nnz
    assert "no column of values is recognized; name it with value=" in caplog.text
    assert DOORS[door](file, value="nota").at_least(4).nnz == 1


@pytest.mark.parametrize("door", DOORS)
def test_text_that_may_be_the_number_of_a_column_or_its_name_is_refused(
    tmp_path: Path, door: str
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("3,2,1\n4,3,5\n")
    with refuses(ValueError, "user"):
        DOORS[door](file, user="3", item="1")
    by_name = DOORS[door](file, user="3", item="1", header=True)
    by_number = DOORS[door](file, user="3", item="1", header=False)
    assert by_name.user_ids.labels.tolist() == [4]
    assert by_number.user_ids.labels.tolist() == [1, 5]
