"""Headers, names and numbers of columns, and lists of items: recognized, told or refused."""

from __future__ import annotations

import logging
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import DOORS, triples

import mfrank
from mfrank.cli.main import main
from mfrank.data import write_table
from tests.support.errors import refuses

FEW = settings(max_examples=60, deadline=None)
ROWS = "x,2,5,9,s\ny,3,4,8,t\n"
WANTED = [(2, "x", 5.0, 9), (3, "y", 4.0, 8)]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "how",
    [
        {"columns": ["item", "user", "value", "timestamp", "-"]},
        {"columns": ("movieId", "userId", "rating", "date", "-")},
        {"columns": ["a", "b", "c", "d", "e"], "user": "b", "item": "a", "value": "c"},
        {"user": 2, "item": 1, "value": 3, "timestamp": 4},
        {"user": "2", "item": "1", "value": "3", "timestamp": "4", "header": False},
    ],
)
def test_columns_without_names_are_given_names_or_numbers(
    tmp_path: Path, door: str, how: dict[str, Any]
) -> None:
    file = tmp_path / "a.csv"
    file.write_text(ROWS)
    wanted = WANTED if how.get("user") != "b" else [row[:3] for row in WANTED]
    assert triples(DOORS[door](file, **how)) == wanted


@pytest.mark.parametrize("door", DOORS)
def test_names_replace_those_of_a_header_if_it_is_said_to_be_one(tmp_path: Path, door: str) -> None:
    file = tmp_path / "a.csv"
    file.write_text("user_id,item_id\n1,2\n3,4\n")
    swapped = ["item", "user"]
    with refuses(ValueError, "header"):
        DOORS[door](file, columns=swapped)
    assert triples(DOORS[door](file, columns=swapped, header=True)) == [(2, 1, 1.0), (4, 3, 1.0)]
    assert DOORS[door](file, columns=swapped, header=False).nnz == 3
    assert DOORS[door](file, header=True).nnz == 2
    assert DOORS[door](file, header=False).nnz == 3


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("alice,film", "bob,book"),
        ("17,film,3", "18,book,4"),
        ("member,3", "guest,4"),
        ("17,book,3,2020-01-01", "18,song,4,2020-01-02"),
    ],
)
def test_a_first_row_of_data_that_holds_a_known_name_is_refused_or_read(
    tmp_path: Path, door: str, first: str, second: str
) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"{first}\n{second}\n")
    with refuses(ValueError, None, remedy="header=False"):
        DOORS[door](file)
    assert DOORS[door](file, header=False).nnz == 2


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("persona,pelicula\nana,matrix\neva,dune\n", "header=True"),
        ("0,1,2\n5,10,3.0\n7,3,2.0\n", "header=True"),  # pandas wrote it
        ("0 1 2\n1 3 4\n2 5 6\n", "lines='lists'"),
        ("0 1 2 3\n1 3 4 5\n2 5 6 7\n", "lines='lists'"),
    ],
)
def test_doubtful_columns_are_a_warning(
    tmp_path: Path, door: str, text: str, remedy: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "a.txt"
    file.write_text(text)
    DOORS[door](file)
    warned = [r.message for r in caplog.records if r.levelno == logging.WARNING]
    assert any(remedy in message for message in warned)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "text", ["1,2\n3,4\n", "1,2,3\n3,4,5\n", "1,2,3,880000000\n5,4,5,880000001\n"]
)
def test_numbers_without_a_header_are_taken_in_order_which_is_told(
    tmp_path: Path, door: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "a.csv"
    file.write_text(text)
    with caplog.at_level(logging.INFO, "mfrank"):
        assert DOORS[door](file).nnz == 2
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert "no header found; columns taken as user, item" in record.message


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("mark", [" ", ",", "\t"])
@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=2, max_size=6).filter(lambda sizes: len(set(sizes)) > 1)
)
def test_lists_of_items_are_never_half_read(
    tmp_path_factory: pytest.TempPathFactory, door: str, mark: str, sizes: list[int]
) -> None:
    lists = [[user, *range(40, 40 + size)] for user, size in enumerate(sizes)]
    file = tmp_path_factory.mktemp("lists") / "train.txt"
    file.write_text("".join(mark.join(map(str, each)) + "\n" for each in lists))
    pairs = [(user, item, 1.0) for user, *items in lists for item in items]
    may_be_cut_off = {*sizes[:-1]} == {sizes[0]} and sizes[-1] < sizes[0] < 4
    if mark == "," or may_be_cut_off:
        with pytest.raises(ValueError, match=r"train.txt|^-: "):
            DOORS[door](file)
    else:
        assert triples(DOORS[door](file)) == pairs
    assert triples(DOORS[door](file, lines="lists")) == pairs


UNDER_A_HEAD = {
    "% bip unweighted\n% 3 2 2\n1 7\n1 8\n2 7\n": [(1, 7, 1.0), (1, 8, 1.0), (2, 7, 1.0)],
    "% bip weighted posweighted\n1 7 3 9\n1 8 4 8\n": [(1, 7, 3.0, 9), (1, 8, 4.0, 8)],
    "% bip weighted posweighted\n1 7\t3\t9\n1 8 \t4\t8\n": [(1, 7, 3.0, 9), (1, 8, 4.0, 8)],
    "# Wiki vote\n# FromNodeId\tToNodeId\n30\t14\n30\t33\n": [(30, 14, 1.0), (30, 33, 1.0)],
    "# FromNodeId\tToNodeId\n30\t14\n30\t33\n": [(30, 14, 1.0), (30, 33, 1.0)],
    "# users and items, by time\n#\n1 7\n1 8\n": [(1, 7, 1.0), (1, 8, 1.0)],
    "# item,user\n7,1\n": [(1, 7, 1.0)],
    '# "quoted, and\n% more\n\n1,7\n2,7\n': [(1, 7, 1.0), (2, 7, 1.0)],
    "sep=;\nuser;item;rating\n1;7;3\n": [(1, 7, 3.0)],
    '\n"sep=;"\r\nuser;item;rating\r\n1;7;3,5\r\n2;7;1,25\r\n': [(1, 7, 3.5), (2, 7, 1.25)],
}
"""Text with lines above its rows, and what it means."""


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("text", UNDER_A_HEAD)
def test_lines_above_the_rows_are_skipped_and_told(
    tmp_path: Path, door: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mfrank")
    file = tmp_path / "a.txt"
    file.write_bytes(text.encode())
    assert triples(DOORS[door](file)) == UNDER_A_HEAD[text]
    n_told = sum("comments at the head" in line for line in caplog.messages)
    assert n_told == (text[0] in "#%" and not text.startswith(("# item", "# From")))
    with file.open("ab") as bad:
        bad.write(b"x\n")
    with refuses(ValueError, None, place=f"line {len(text.splitlines()) + 1}"):
        DOORS[door](file)


@pytest.mark.parametrize("door", DOORS)
def test_comments_among_rows_are_skipped_by_wish_and_never_in_silence(
    tmp_path: Path, door: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mfrank")
    file = tmp_path / "a.csv"
    file.write_text('# a\nuser,item,x\n#1,2,3\n1,7,2\n# so, "it is\n2,7,"#\n# b"\n#\n3,7,2\n')
    with refuses(ValueError, None, place="line 5", remedy=r"quote=None|comment='#'"):
        DOORS[door](file)
    assert triples(DOORS[door](file, comment="#")) == [(1, 7, 1.0), (2, 7, 1.0), (3, 7, 1.0)]
    assert "3 lines of comments skipped, which begin with '#'" in caplog.text
    file.write_text("user,item\n1,7\n# note\n2,7\n")
    with refuses(ValueError, None, place="line 3", remedy="comment='#'"):
        DOORS[door](file)


FOREIGN = {
    "(1, 7, 3.0)\n(2, 8, 4.0)\n": [(1, 7, 3.0), (2, 8, 4.0)],
    "[1,7]\n[2,8]\n": [(1, 7, 1.0), (2, 8, 1.0)],
}
"""Files that are no tables by their first lines -> what they mean."""


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("text", FOREIGN)
@pytest.mark.parametrize("how", [{}, {"header": False}])
def test_a_file_of_another_format_is_refused_with_a_command_that_mends_it(
    tmp_path: Path, door: str, text: str, how: dict[str, Any]
) -> None:
    file = tmp_path / "a.txt"
    file.write_text(text)
    with refuses(ValueError, None, place="line 1", remedy="such as by ") as refused:
        DOORS[door](file, **how)
    command, _, new = str(refused.value).partition("such as by ")[2].partition(" FILE > ")
    written = tmp_path / new.partition(";")[0]
    written.write_bytes(subprocess.check_output(f"{command} a.txt", shell=True, cwd=tmp_path))
    assert triples(DOORS[door](written)) == FOREIGN[text]


PRINTED = {
    "sqlcmd": "user,item\n----,----\n1,7\n2,8\n",
    "sqlite": "user  item\n----  ----\n1     7   \n2     8   \n",
    "tabs": "user\titem\n----\t----\n1\t7\n2\t8\n",
    "equals": "user,item\n====,====\n1,7\n2,8\n",
    "quoted": '"user","item"\n"----","----"\n1,7\n2,8\n',
    "psql": " user | item \n------+------\n    1 |    7\n    2 |    8\n(2 rows)\n\n",
    "without a name that is known": " u | i \n---+---\n a | x\n b | y\n",
    "Markdown": "| user | item |\n|---|---|\n| ann | x |\n| bob | y |\n",
    "Markdown, aligned": "user | item\n:--- | ---:\n1 | 7\n2 | 8\n",
    "mysql": "+------+------+\n| user | item |\n+------+------+\n|    1 |    7 |\n",
    "DuckDB": "┌──────┬──────┐\n│ user │ item │\n├──────┼──────┤\n│    1 │    7 │\n",
    "polars": "shape: (1, 2)\n┌──────┬──────┐\n│ user ┆ item │\n╞══════╪══════╡\n│ 1    ┆ 7    │\n",
    "after a comment": "# of yesterday\nuser,item\n----,----\n1,7\n2,8\n",
}
"""Tables as consoles print them, and other people write them by hand."""


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", PRINTED)
def test_a_line_that_is_drawn_is_no_row(tmp_path: Path, door: str, name: str) -> None:
    file = tmp_path / "a.txt"
    file.write_text(PRINTED[name], encoding="utf-8")
    lines = PRINTED[name].splitlines()
    number = 1 + next(at for at, line in enumerate(lines) if re.search("--|==|──", line))
    with refuses(
        ValueError, None, place=f"line {number}", remedy="write the table as CSV"
    ) as found:
        DOORS[door](file)
    if "comment='-'" in str(found.value) and "|" not in PRINTED[name]:
        assert triples(DOORS[door](file, comment="-")) == [(1, 7, 1.0), (2, 8, 1.0)]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "text",
    [
        "user,item\n-,7\nann,-\n",
        "user,item,rating\n--,--,3\nann,x,2\n",
        "user,item\n-=-,a--b\nann,x\n",
        "-1,7\n-2,8\n",
    ],
)
def test_marks_beside_letters_and_digits_are_no_drawn_line(
    tmp_path: Path, door: str, text: str
) -> None:
    file = tmp_path / "a.csv"
    file.write_text(text)
    assert DOORS[door](file).nnz == 2


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "count", ["(2 rows)", "2 rows in set (0.01 sec)", "2 record(s) selected.", "(1 row affected)"]
)
@pytest.mark.parametrize("mark", [",", "\t", "|"])
def test_a_count_below_the_rows_is_refused_as_one(
    tmp_path: Path, door: str, mark: str, count: str
) -> None:
    file = tmp_path / "a.txt"
    file.write_text(f"user{mark}item\n1{mark}7\n2{mark}8\n\n{count}\n")
    with refuses(ValueError, None, place="line 5", remedy="a count of them"):
        DOORS[door](file)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("odd", "line"), [("(2", "(2 rows)"), ("..", ".. .."), ("--", "-- --")])
def test_what_a_console_adds_among_rows_is_told(
    tmp_path: Path, door: str, odd: str, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.txt").write_text(f"user item\n1 7\n2 8\n{line}\n")
    assert DOORS[door](tmp_path / "a.txt").nnz == 3
    assert f"user ids like {odd!r} in 1 row look like lines or a count of rows" in caplog.text


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("# user,item\n1,7\n", {}),
        ("#user,item\n1,7\n", {}),
        ("# FromNodeId,ToNodeId\n1,7\n", {"user": 1, "item": 2, "header": True}),
        ("1,7:30\n", {"columns": ["user", "item"]}),
    ],
)
def test_marks_before_names_and_within_ids_are_no_other_format(
    tmp_path: Path, door: str, text: str, how: dict[str, Any]
) -> None:
    file = tmp_path / "a.csv"
    file.write_text(text)
    assert DOORS[door](file, **how).nnz == 1


COLUMNS = {
    "user": ["3", "4"],
    "item": ["a7", "a8"],
    "value": ["3.5", "4"],
    "timestamp": ["2019-10-01T10:00:00.5Z", "2019-10-02 10:00:00"],
    "-": ["The Film", "Other, The"],
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "order",
    [
        *[
            "user timestamp item",
            "timestamp user item",
            "item timestamp user value",
            "user value item",
        ],
        *["value item user", "user item timestamp", "user item timestamp value", "user item -"],
        *["user - item value", "user item - value", "user item value -"],
    ],
)
def test_columns_in_another_order_are_refused_and_read_by_their_names(
    tmp_path: Path, door: str, order: str
) -> None:
    names = order.split()
    file = tmp_path / "a.tsv"
    rows = ["\t".join(COLUMNS[name][row] for name in names) + "\n" for row in (0, 1)]
    file.write_text("".join(rows))
    for how in ({}, {"header": False}):
        with refuses(ValueError, "columns"):
            DOORS[door](file, **how)
    read = DOORS[door](file, columns=names)
    assert [row[:2] for row in triples(read)] == [(3, "a7"), (4, "a8")]
    assert (read.timestamps is not None) == ("timestamp" in names)


@pytest.mark.parametrize("door", DOORS)
def test_times_in_the_place_of_users_are_a_warning(
    tmp_path: Path, door: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("881250949,196,242\n891717742,186,302\n")
    DOORS[door](file)
    (warned,) = [r.message for r in caplog.records if r.levelno == logging.WARNING]
    assert "the user 881250949 looks like a time" in warned
    assert "columns=" in warned


@pytest.mark.parametrize("door", DOORS)
def test_a_table_of_r_is_refused_with_the_remedy(tmp_path: Path, door: str) -> None:
    file = tmp_path / "a.txt"
    file.write_text('"user" "item" "rating"\n"1" "a" "x" 4\n"2" "b" "y" 5\n')
    with refuses(ValueError, "sep", remedy="quote fields that contain"):
        DOORS[door](file)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("how", "fault"),
    [
        ({"columns": ["user", "item"]}, {"argument": "columns", "remedy": "write - for each"}),
        ({"columns": ["user", "user", "item", "-", "-"]}, {"argument": "columns"}),
        (
            {"columns": ["a", "item", "-", "-", "-"]},
            {"argument": "user", "remedy": "name it with user="},
        ),
        ({"user": 6, "item": 1}, {"argument": "user"}),
        ({"user": 0, "item": 1}, {"argument": "user"}),
        (
            {"user": "who", "item": 1, "header": False},
            {"argument": "user", "remedy": "give its number"},
        ),
        ({}, {"argument": "columns", "remedy": "name the columns"}),
    ],
)
def test_what_does_not_fit_the_file_is_refused(
    tmp_path: Path, door: str, how: dict[str, Any], fault: dict[str, str]
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1,2,3,4,5\n6,7,8,9,0\n")
    with refuses(ValueError, **fault):
        DOORS[door](file, **how)


@pytest.mark.parametrize(
    "how", [{"columns": "user,item"}, {"columns": [1, 2]}, {"header": 1}, {"header": "no"}]
)
def test_what_is_no_description_is_refused_before_the_file_is_read(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    for door in ("whole", "portions"):
        with refuses(TypeError, next(iter(how))):
            DOORS[door](tmp_path, **how)


@pytest.mark.parametrize("how", [{"columns": ["user", "item"]}, {"header": False}])
def test_a_parquet_file_has_names_of_its_own(tmp_path: Path, how: dict[str, Any]) -> None:
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    file = tmp_path / "a.parquet"
    write_table(file, {"user": [1], "item": [2]})
    for door in ("whole", "portions"):
        with refuses(ValueError, "columns"):
            DOORS[door](file, **how)


def test_the_command_line_names_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, folder = tmp_path / "a.csv", str(tmp_path / "data")
    file.write_text(ROWS)
    ingest = ["ingest", str(file), "--folder", folder]
    assert main(ingest) == 2
    assert "--columns" in capsys.readouterr().err
    assert main([*ingest, "--columns", "item,user,value,timestamp,-"]) == 0
    assert triples(mfrank.Interactions.open(folder)) == WANTED
    numbers = ["--no-header", "--user", "2", "--item", "1", "--value", "3", "--timestamp", "4"]
    assert main([*ingest, *numbers]) == 0
    assert triples(mfrank.Interactions.open(folder)) == WANTED
    assert main([*ingest, "--columns", "-,user,item"]) == 2
    assert "--columns=-,user,item" in capsys.readouterr().err
