"""Table files by their suffix: the kind, what is written, and what Parquet says of its faults."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mfrank.data import (
    Dialect,
    arrow_files,
    check_table_file,
    read_columns,
    read_portions,
    table_parts,
    tables,
    text_files,
    text_rows,
    write_table,
)
from tests.support.errors import refuses

NEEDED = ("user", "item")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.csv", ".csv"), ("a.CSV", ".csv"), ("a.tsv.gz", ".tsv"), ("a.b.txt.GZ", ".txt"),
        ("a.dat", ".dat"), ("u.data", ".data"), ("a.parquet", ".parquet"),
        ("a.snappy.parquet", ".parquet"),
        ("a.parquet.csv.gz", ".csv"), ("a.csv.parquet.gz", None),
        ("a", None), ("a.gz", None), ("a.parquet.gz", None), ("a.xlsx", None),
    ],
)  # fmt: skip
def test_the_suffix_tells_the_kind(name: str, kind: str | None) -> None:
    if kind is None:
        with refuses(ValueError, place=name):
            tables.kind_of(name)
        with refuses(ValueError, place=name):
            check_table_file(name)
        return
    assert tables.kind_of(name) == kind
    assert tables.is_text(name) == (kind != ".parquet")
    check_table_file(name)


def test_streams_are_text_by_their_names() -> None:
    assert tables.is_text("-")
    assert text_files.is_stream(Path("-"))
    assert not text_files.is_stream(Path("a.csv"))
    assert not text_files.is_stream(Path("/dev/zero"))


COLUMNS: dict[str, Any] = {
    "user": np.array(["a", 'b"', "c,d"], object),
    "item": np.array([1, -(2**63), 2**63 - 1]),
    "value": np.array([0.1, 1e-30, 3], np.float32),
    "more": [None, "x", ""],
}


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt", ".csv.gz", ".TSV.GZ"])
def test_text_is_written_with_as_few_digits_as_needed(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    write_table(path, COLUMNS)
    content = path.read_bytes()
    text = gzip.decompress(content).decode() if suffix.lower().endswith("gz") else content.decode()
    mark = "," if ".csv" in suffix else "\t"
    quoted = '"c,d"' if mark == "," else "c,d"
    assert text.split("\n") == [
        mark.join(["user", "item", "value", "more"]),
        mark.join(["a", "1", "0.1", ""]),
        mark.join(['"b"""', str(-(2**63)), "1e-30", "x"]),
        mark.join([quoted, str(2**63 - 1), "3.0", ""]),
        "",
    ]
    assert [path.name for path in tmp_path.iterdir()] == [f"a{suffix}"]


def test_parquet_is_written_with_its_types(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    write_table(path, {"user": np.array([], object), "item": np.array([], np.int64)})
    schema = parquet.read_schema(path)
    assert [schema.field(name).type for name in NEEDED] == [pyarrow.string(), pyarrow.int64()]
    write_table(path, {"user": np.array(["a", None], object), "item": np.array([1, 2])})
    assert parquet.read_table(path).to_pydict() == {"user": ["a", None], "item": [1, 2]}
    assert tables.stored_rows(path) == 2
    assert tables.stored_rows("a.csv") is None


def test_columns_of_unequal_length_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("mine")
    with refuses(ValueError, "columns"):
        write_table(tmp_path / "a.csv", {"user": [1, 2], "item": [1]})
    assert (tmp_path / "a.csv").read_text() == "mine"


@pytest.mark.parametrize(
    "read", [read_columns, lambda *given: next(read_portions(*given, n_rows=2))]
)
def test_options_are_checked_before_a_file_is_looked_for(tmp_path: Path, read: Any) -> None:
    missing = tmp_path / "none.csv"
    with refuses(ValueError, "ids"):
        read(missing, {}, "int")
    with refuses(ValueError, "sep"):
        read(missing, {}, "auto", Dialect(sep="ab"))
    with pytest.raises(FileNotFoundError, match=r"none\.csv"):
        read(missing, {})
    with refuses(ValueError, remedy="pass a file"):
        read(tmp_path, {})
    with refuses(ValueError, place="none.xlsx", remedy="save the sheet"):
        read(tmp_path / "none.xlsx", {})


def test_parquet_is_read_whole_and_in_portions(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    path = tmp_path / "a.parquet"
    write_table(path, {
        "userId": np.arange(5), "x": np.zeros(5), "item": np.array(list("abcde"), object),
        "rating": np.arange(5) / 2, "time": np.arange(5) + 1_700_000_000,
    })  # fmt: skip
    whole = read_columns(path, {})
    assert {role: column.tolist() for role, column in whole.items()} == {
        "user": [0, 1, 2, 3, 4], "item": list("abcde"), "value": [0, 0.5, 1, 1.5, 2],
        "timestamp": [1_700_000_000 + n for n in range(5)],
    }  # fmt: skip
    assert read_columns(path, {}, "text")["user"].tolist() == list("01234")
    assert read_columns(path, {}, unit="ms")["timestamp"].tolist() == [1_700_000] * 5
    assert "timestamp" not in read_columns(path, {"timestamp": False})
    table = table_parts.TableParts()
    for ids, users in (("auto", [0, 1, 2, 3, 4]), ("text", list("01234"))):
        parts = list(read_portions(path, {}, ids, n_rows=2, table=table))
        assert [part.first_row for part in parts] == [0, 2, 4]
        assert [part.n_rows for part in parts] == [2, 2, 1]
        assert all(part.is_timed for part in parts)
        assert [user for part in parts for user in part.columns["user"].tolist()] == users
        times = [time for part in parts for time in part.moments.numbers.tolist()]
        assert times == whole["timestamp"].tolist()
    assert len(table.said) == 1  # once for all files
    assert not next(read_portions(path, {"timestamp": False}, n_rows=9)).is_timed


def test_what_pandas_notes_in_a_file_changes_nothing(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="the extra pandas is not installed")
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    path = tmp_path / "a.parquet"
    frame = pandas.DataFrame({"user": [1, 2], "item": ["ä", "b"], "rating": [3, 4]})
    frame.set_index(["user", "item"]).to_parquet(path)
    for columns in (read_columns(path, {}), next(read_portions(path, {}, n_rows=9)).columns):
        assert {role: column.tolist() for role, column in columns.items()} == {
            "user": [1, 2],
            "item": ["ä", "b"],
            "value": [3, 4],
        }


def test_an_error_of_several_lines_is_told_by_its_first(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    with (
        refuses(ValueError, remedy="copy or write it again"),
        arrow_files.faults_named("a.parquet"),
    ):
        raise pyarrow.ArrowInvalid("bad magic\nof the reader")


def test_faults_of_parquet_begin_with_its_name(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    path = tmp_path / "a.parquet"
    doors = (
        lambda chosen: read_columns(path, chosen),
        lambda chosen: list(read_portions(path, chosen, n_rows=1)),
    )
    path.write_bytes(b"no parquet")
    for door in doors:
        with refuses(ValueError, remedy="copy or write it again"):
            door({})
    with refuses(ValueError, remedy="copy or write it again"):
        tables.stored_rows(path)
    write_table(path, {"user": np.array([], np.int64), "item": np.array([], np.int64)})
    for door in doors:
        with refuses(ValueError, place="a.parquet"):
            door({})
    write_table(path, {"user": [1, 2], "item": [1, 2], "rating": ["1", "x"]})
    for door in doors:
        with refuses(ValueError, "values"):
            door({})
        with refuses(ValueError, place="a.parquet, column 'z'", remedy="columns: 'user'"):
            door({"user": "z"})
    for dialect in (Dialect(columns=["user", "item"]), Dialect(header=False)):
        with refuses(ValueError, "columns"):
            read_columns(path, {}, "auto", dialect)
        with refuses(ValueError, "columns"):
            next(read_portions(path, {}, "auto", dialect, n_rows=2))
    with pytest.raises(PermissionError), arrow_files.faults_named(path):
        raise PermissionError(13, "not yours")
    with pytest.raises(MemoryError), arrow_files.faults_named(path):
        raise MemoryError


def test_portions_of_text_know_the_rows_before_them(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("user item time\n" + "".join(f"{n} {n} {n + 5}\n" for n in range(5)))
    parts = list(read_portions(path, {}, n_rows=2))
    assert [(part.first_row, part.n_rows, part.is_timed) for part in parts] == [
        (0, 2, True), (2, 2, True), (4, 1, True),
    ]  # fmt: skip
    path.write_text("user item time\n1 2 3\n4 5\n")
    for read in (lambda: read_columns(path, {}), lambda: list(read_portions(path, {}, n_rows=1))):
        with refuses(ValueError, "sep", place="a.txt, line 3", remedy="quote fields that contain"):
            read()


def test_streams_are_text(monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (b"user;item\n1;2\n", b"1 2\n3 4\n"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert list(read_columns("-", {})) == ["user", "item"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"user,item\n1\n")))
    with refuses(ValueError, "sep", place="-, line 2", remedy="quote fields that contain"):
        read_columns("-", {})


def test_rows_of_text_keep_their_blanks_and_tell_of_quotes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.csv"
    path.write_text('a, b\n\n"c"d,e\n')
    assert list(text_rows(path, ",")) == [(1, ["a", " b"]), (3, ["cd", "e"])]
    (line,) = caplog.messages
    assert line.startswith(f"{path}: text follows a closing quote in 1 row, the first in line 3")
    assert line.endswith("write a quote that is part of a field twice, in quotes")
    path.write_text('a,b\n"c,d\ne",f\n')
    with refuses(ValueError, place="a.csv, lines 2 to 3", remedy="write a quote"):
        list(text_rows(path, ","))
    path.write_text("item,genre\n----,-----\n7,x\n")
    with refuses(ValueError, place="a.csv, line 2", remedy="as CSV"):
        list(text_rows(path, ","))
    with pytest.raises(FileNotFoundError):
        list(text_rows(tmp_path / "none.csv", ","))


def test_without_pyarrow_the_error_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").touch()
    for call in (
        lambda: check_table_file("a.parquet"),
        lambda: write_table(tmp_path / "b.parquet", {"user": [1]}),
        lambda: read_columns(tmp_path / "a.parquet", {}),
    ):
        with pytest.raises(
            ModuleNotFoundError, match=r"need pandas and pyarrow.*mfrank\[parquet\]"
        ):
            call()
    check_table_file("a.csv")
