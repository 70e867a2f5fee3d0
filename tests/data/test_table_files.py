"""Files are read alike at once and field by field, and written whole or not at all."""

from __future__ import annotations

import gzip
import io
import logging
import os
import re
import sys
import threading

import numpy as np
import pytest
from hostile import nested
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import one_by_one

from mfrank.data import Dialect, Interactions, UnknownIdError, layout_of, movielens
from mfrank.data import tables as table_files
from mfrank.data import tables as table_writer
from tests.support.errors import refuses

quick = settings(max_examples=25, deadline=None)
WORDS = st.text(
    st.characters(exclude_categories=["C", "Z"], exclude_characters="\ufeff"), min_size=1
)
NAMES = ["userId", "movieId", "rating", "timestamp"]
ROWS = [["7", "10", "3.5", "100"], ["5", "11", "4", "101"], ["7", "12", "0.5", "99"]]


@pytest.fixture(params=["at once", "one by one"])
def reader(request, monkeypatch):
    if request.param == "one by one":
        one_by_one(monkeypatch)


def write(path, rows, mark):
    text = "".join(mark.join(row) + "\n" for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("header", [[NAMES], []])
@pytest.mark.parametrize(
    ("suffix", "mark"),
    [
        *[(".csv", mark) for mark in (",", ";", "|", "\t", "::")],
        *[(".txt", mark) for mark in (",", ";", "|", "\t", "::", " ")],
        *[(".tsv", "\t"), (".TSV", "\t"), (".tsv", ","), (".data", "\t"), (".dat", "::")],
    ],
)
@pytest.mark.parametrize("gz", ["", ".gz"])
def test_formats_agree(tmp_path, header, suffix, mark, gz):
    file = write(tmp_path / f"ratings.v1{suffix}{gz}", [*header, *ROWS], mark)
    made = Interactions.from_file(file)
    assert made.user_ids.labels.tolist() == [5, 7]
    assert made.item_ids.labels.tolist() == [10, 11, 12]
    assert made.user_items.toarray().tolist() == [[0, 4, 0], [3.5, 0, 0.5]]
    assert made.timestamps.tolist() == [101, 100, 99]


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("width", [2, 3, 4])
def test_a_file_without_header_is_read_in_order(tmp_path, width, caplog):
    file = write(tmp_path / "a.tsv", [row[:width] for row in ROWS], "\t")
    with caplog.at_level(logging.INFO, "mfrank"):
        columns = table_files.read_columns(file, {})
    assert list(columns) == ["user", "item", "value", "timestamp"][:width]
    assert columns["user"].tolist() == [7, 5, 7]
    assert "no header found" in caplog.text


@pytest.mark.parametrize(
    ("name", "text", "separator"),
    [
        ("a.csv", "1;2;3,5\n4;5;2,5\n", ";"),
        ("a.csv", "user,item,title\n1,2,a;b;c;d\n", ","),
        ("a.csv", "user,item\n1,2,\n", ","),
        ("a.csv", 'user;item\n"1,2";3\n', ";"),
        ("a.csv", "1,2,3\n4,5\n", ","),
        ("a.txt", "user\titem\n1\t2\t\n", "\t"),
        ("a.txt", "user\titem\ttitle\n1\t2\ta,b,c,d\n", "\t"),
        ("a.txt", "1\t2,5\n3\t4,5\n", "\t"),
        ("a.txt", '1,"2\n3"\n4,5\n', ","),
        ("a.txt", "1   2  3\n", " "),
    ],
)
def test_the_separator_is_what_splits_the_first_rows_alike(name, text, separator):
    usual = {"a.csv": ","}.get(name)
    layout = layout_of(io.StringIO(text), Dialect(), usual, {}, lambda level, line: None)
    assert layout.separator == separator


@pytest.mark.usefixtures("reader")
def test_a_separator_can_be_named(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("a;b,1#x;2#0.5\na;b,1#y#1\n", encoding="utf-8")
    columns = table_files.read_columns(file, {}, dialect=Dialect(sep="#"))
    assert columns["user"].tolist() == ["a;b,1", "a;b,1"]
    assert columns["item"].tolist() == ["x;2", "y"]


@pytest.mark.parametrize("sep", ["", ";;", "\n", '"', ":::", 7, nested()])
def test_what_cannot_separate_is_refused_before_the_file_is_read(tmp_path, sep):
    with refuses(ValueError, "sep"):
        Interactions.from_file(tmp_path / "none.csv", sep=sep)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("header", [[NAMES], []])
def test_columns_can_be_ignored(tmp_path, header):
    rows = [[user, item, "good", "01/02/2024"] for user, item, *_ in ROWS]
    file = write(tmp_path / "a.csv", [*header, *rows], ",")
    made = Interactions.from_file(file, value=False, timestamp=False)
    assert made.timestamps is None
    assert made.user_items.toarray().tolist() == [[0, 1, 0], [1, 0, 1]]
    with refuses(ValueError, "timestamps", remedy="write dates"):
        Interactions.from_file(file, value=False)
    with refuses(ValueError, "item"):
        table_files.read_columns(file, {"item": False})


@pytest.mark.usefixtures("reader")
def test_the_standard_input_and_pipes_are_read(tmp_path, monkeypatch):
    text = b"\xef\xbb\xbfuser;item\n1;2\n3;4\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert Interactions.from_file("-").user_ids.labels.tolist() == [1, 3]
    os.mkfifo(pipe := tmp_path / "pipe")
    writer = threading.Thread(target=pipe.write_bytes, args=[text])
    writer.start()
    assert Interactions.from_file(pipe).item_ids.labels.tolist() == [2, 4]
    writer.join()


def test_a_device_that_never_ends_is_refused():
    with refuses(ValueError, place="/dev/zero", remedy="name it by its format"):
        Interactions.from_file("/dev/zero")


@pytest.mark.usefixtures("reader")
def test_named_columns_are_read_wherever_they_are(tmp_path):
    rows = [["x", "y", "session", "z"], ["9", "a", "1", "2.5"], ["8", "b", "2", "1"]]
    file = write(tmp_path / "a.csv", rows, ",")
    columns = table_files.read_columns(file, {"user": "session", "item": "y", "value": "z"})
    assert {role: values.tolist() for role, values in columns.items()} == {
        "user": [1, 2],
        "item": ["a", "b"],
        "value": [2.5, 1.0],
    }


@pytest.mark.usefixtures("reader")
def test_text_is_read_as_it_is(tmp_path):
    file = tmp_path / "a.csv"
    text = 'user,item,rating\n"x, ""y""",NA,1\n\nnull, 1_0,2\nJosé,1e5,3\n'
    file.write_text("\ufeff" + text, encoding="utf-8")
    columns = table_files.read_columns(file, {})
    assert columns["user"].tolist() == ['x, "y"', "null", "José"]
    assert columns["item"].tolist() == ["NA", "1_0", "1e5"]


@pytest.mark.usefixtures("reader")
def test_long_numbers_do_not_become_others(tmp_path):
    longest = 2**63 - 1
    rows = [["user", "item"], [str(longest), "9" * 25], [str(longest - 1), "9" * 24 + "8"]]
    made = Interactions.from_file(write(tmp_path / "a.csv", rows, ","))
    assert made.user_ids.labels.tolist() == [longest - 1, longest]
    assert made.item_ids.labels.tolist() == ["9" * 24 + "8", "9" * 25]


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", {"place": "a.csv"}),
        ("\n\n", {"place": "a.csv"}),
        ("1,2,3,4,5\n", {"argument": "columns", "remedy": "name the columns"}),
        ("1\n2\n", {"argument": "columns", "remedy": "name the columns"}),
        ("The Matrix\nStar Wars\n", {"argument": "columns", "remedy": "name the columns"}),
        ("a,b\n1,2\n", {"argument": "user", "remedy": "name it with user="}),
        ("user,b\n1,2\n", {"argument": "item", "remedy": "name it with item="}),
        ("user,item\n", {"place": "a.csv"}),
        ("user,item\n\n \t\n\r\n", {"place": "a.csv"}),
    ],
)
def test_damaged_files_are_refused(tmp_path, text, fault):
    file = tmp_path / "a.csv"
    file.write_text(text, encoding="utf-8")
    with refuses(ValueError, **fault):
        Interactions.from_file(file)


@pytest.mark.usefixtures("reader")
def test_a_header_alone_is_refused_packed_too(tmp_path):
    file = write(tmp_path / "a.tsv.gz", [NAMES], "\t")
    with refuses(ValueError, place="a.tsv.gz"):
        Interactions.from_file(file)


def test_a_parquet_file_without_rows_is_refused(tmp_path):
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    file = tmp_path / "a.parquet"
    table_writer.write_table(file, {"user": np.array([], int), "item": np.array([], int)})
    with refuses(ValueError, place="a.parquet"):
        Interactions.from_file(file)


FAULTS = {  # a row of user, item, value and timestamp, and what is wrong with it
    "a,b,1,": "the timestamp is missing",
    "a,b,,1": "the value is missing",
    "a,,1,1": "the item is missing",
    ",b,1,1": "the user is missing",
    "a,b,1": "3 fields, the first row has 4",
    "a,b,1,1,x": "5 fields, the first row has 4",
    "a,b,x,1": "values must be finite numbers, got 'x'",
    "a,b,nan,1": "values must be finite numbers, got 'nan'",
    "a,b,-inf,1": "values must be finite numbers, got '-inf'",
    "a,b,1,soon": "got 'soon'",
    "a,b,1,2020-01-01": "all whole numbers or all dates, got '0'",
    "a,b,1,1e300": "timestamps must be finite and fit int64",
    "a,b,1,99999999999999999999": "timestamps must fit int64",
    "a,b,1,9223372036854775808": "timestamps must fit int64",
}


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("before", [0, 3])
def test_a_fault_is_named_by_its_line(tmp_path, fault, before):
    """As an editor counts, with blank lines and with line breaks in quotes."""
    file, good = tmp_path / "a.csv", '\n"u\r\nv",i,1,0\n'
    lines = before * good + fault + "\n" + good
    file.write_bytes(("user,item,value,timestamp\n" + lines).encode())
    line = 2 + 3 * before
    if "2020" in fault:  # beside dates it is the number that is named
        line = 3 if before else 4
    with pytest.raises(ValueError, match=f"a.csv: line {line}: .*{FAULTS[fault]}") as refusal:
        table_files.read_columns(file, {})
    if "fields" not in FAULTS[fault]:
        assert re.search(r"in column '(user|item|value|timestamp)'; \w+", str(refusal.value))


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    ("header", "column"), [("userId,movieId,rating,date\n", "'date'"), ("", "4")]
)
def test_a_date_of_another_style_is_named_with_its_column_and_the_remedy(tmp_path, header, column):
    file = tmp_path / "a.csv"
    file.write_text(f"{header}1,2,3,2024-01-31\n1,3,3,01/02/2024\n")
    place = f"{file}, line {2 + bool(header)}"
    with refuses(ValueError, "timestamps", place=place, remedy="timestamp=False") as raised:
        Interactions.from_file(file)
    assert f"'01/02/2024' in column {column}; write dates" in str(raised.value)


def test_a_value_that_is_no_number_is_named_by_row_and_column(tmp_path):
    pandas = pytest.importorskip("pandas", reason="the extra pandas is not installed")
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    frame = pandas.DataFrame({"user": [1, 2, 3], "item": [1, 1, 1], "rating": ["5", "NULL", "x"]})
    frame.to_parquet(tmp_path / "a.parquet")
    with refuses(ValueError, "values", place="row 1", remedy="value=False"):
        Interactions.of(frame)
    with refuses(ValueError, "values", place="a.parquet, row 1", remedy="value=False"):
        Interactions.from_file(tmp_path / "a.parquet")


def test_what_is_wrong_with_ids_names_the_file(tmp_path):
    file = write(tmp_path / "a.csv", [NAMES, *ROWS], ",")
    with refuses(UnknownIdError, "users") as refusal:
        Interactions.from_file(file, user_ids=[5])
    assert refusal.value.ids == (7,)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    ("name", "separator", "header"),
    [
        ("u.data", "\t", []),
        ("ratings.dat", "::", []),
        ("ratings.csv", ",", ["userId", "movieId", "rating", "timestamp"]),
    ],
)
def test_the_ratings_of_movielens_need_no_reader_of_their_own(tmp_path, name, separator, header):
    rows = [header, ["7", "10", "3.5", "881250949"], ["5", "11", "4", "891717742"]]
    text = "".join(separator.join(row) + "\n" for row in rows if row)
    (tmp_path / name).write_text(text)
    read, by_layout = Interactions.from_file(tmp_path / name), movielens(tmp_path)
    assert np.array_equal(read.user_items.toarray(), by_layout.user_items.toarray())
    assert np.array_equal(read.timestamps, by_layout.timestamps)


def test_a_folder_of_movielens_is_read_elsewhere(tmp_path):
    with refuses(ValueError, remedy=r"mfrank\.movielens reads MovieLens"):
        Interactions.from_file(tmp_path)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("beyond", ["", "\n", "\n3,4\n" * 3, "x" * 200_000])
def test_a_quote_that_is_never_closed_is_named_by_its_line(tmp_path, beyond):
    file = tmp_path / "a.csv"
    file.write_text('user,item\n1,2\n3,"4' + beyond)
    with refuses(ValueError, "quote", place="a.csv, line 3", remedy="pass quote=None"):
        table_files.read_columns(file, {})


@pytest.mark.usefixtures("reader")
def test_empty_fields_beyond_the_first_row_do_not_count(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("user,item\n1,2,\n3,4,,\n")
    assert table_files.read_columns(file, {})["item"].tolist() == [2, 4]


def test_ids_of_another_file_are_reused(tmp_path):
    train = Interactions.from_file(write(tmp_path / "train.csv", [NAMES, *ROWS], ","))
    file = write(tmp_path / "test.csv", [NAMES, ROWS[2]], ",")
    test = Interactions.from_file(file, user_ids=train.user_ids, item_ids=train.item_ids)
    assert test.user_items.toarray().tolist() == [[0, 0, 0], [0, 0, 0.5]]


@pytest.mark.parametrize("name", ["a.xlsx", "a", "a.gz", "a.parquet.gz", "csv"])
def test_unknown_formats_are_refused(tmp_path, name):
    for call in (
        lambda path: table_files.read_columns(path, {}),
        lambda p: table_writer.write_table(p, {}),
    ):
        with refuses(ValueError, place=name):
            call(tmp_path / name)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv"):
        table_files.read_columns(tmp_path / "nowhere.csv", {})


@quick
@given(
    st.lists(
        st.tuples(
            WORDS,
            st.integers(-(2**62), 2**62),
            st.floats(width=32, allow_nan=False, allow_infinity=False),
        ),
        min_size=1,
    ),
    st.sampled_from([".csv", ".tsv", ".txt", ".csv.gz", ".parquet"]),
    st.booleans(),
)
def test_what_was_written_is_read(tmp_path_factory, rows, suffix, at_once):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    users, items, values = (list(column) for column in zip(*rows, strict=True))
    users[0] += "é, \t\"'"  # what has to be quoted, and keeps the column text
    file = tmp_path_factory.mktemp("tables") / f"a{suffix}"
    numbers = np.array(values, dtype=np.float32)
    table_writer.write_table(file, {"user": users, "item": items, "value": numbers})
    with pytest.MonkeyPatch.context() as patch:
        if not at_once:
            one_by_one(patch)
        columns = table_files.read_columns(file, {})
    assert columns["user"].tolist() == users
    assert columns["item"].tolist() == items
    assert np.array_equal(columns["value"].astype(np.float32), numbers)


def test_padding_is_an_empty_field(tmp_path):
    items = np.array(["a", None], dtype=object)
    scores = np.array([0.1, -np.inf], dtype=np.float32)
    table_writer.write_table(tmp_path / "a.csv", {"item": items, "score": scores})
    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == "item,score\na,0.1\n,-inf\n"


def test_a_failed_write_leaves_the_earlier_file(tmp_path):
    class Unprintable:
        def __str__(self):
            raise OSError("disk full")

    file = tmp_path / "a.csv"
    table_writer.write_table(file, {"item": [1]})
    with pytest.raises(OSError, match="disk full"):
        table_writer.write_table(file, {"item": np.array([2, Unprintable()], dtype=object)})
    assert file.read_text(encoding="utf-8") == "item\n1\n"
    assert list(tmp_path.iterdir()) == [file]


def test_columns_have_one_length(tmp_path):
    with refuses(ValueError, "columns"):
        table_writer.write_table(tmp_path / "a.csv", {"user": [1, 2], "item": [1]})
    assert not list(tmp_path.iterdir())


def test_parquet_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    file = tmp_path / "a.parquet"
    with pytest.raises(ModuleNotFoundError, match=r"pip install mfrank\[parquet\]"):
        table_writer.write_table(file, {"user": [1]})
    file.touch()
    with pytest.raises(ModuleNotFoundError, match=r"pip install mfrank\[parquet\]"):
        table_files.read_columns(file, {})


def test_parquet_guesses_and_takes_names(tmp_path):
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    file = tmp_path / "a.parquet"
    table_writer.write_table(file, {"title": ["t", "u"], "who": ["a", "b"], "item": [1, 2]})
    made = Interactions.from_file(file, user="who")
    assert made.user_ids.labels.tolist() == ["a", "b"]
    with refuses(ValueError, "user"):
        Interactions.from_file(file)
