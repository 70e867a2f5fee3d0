"""Delimited text, at once and one by one, whole and in portions: the same columns and words."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from reading import one_by_one

from mfrank.data import Dialect, delimited, text_files
from tests.support.errors import refuses


def opened(text: str) -> Any:
    return lambda: text_files.Text(io.BytesIO(text.encode()), "a.csv")


def table_of(text: str, said: list[Any], chosen: Any, ids: Any, **how: Any) -> delimited.TextTable:
    def tell(*line: Any) -> None:
        said.append(line)

    return delimited.TextTable(opened(text), Dialect(**how), ",", chosen, ids, tell)


def read(text: str, at_once: bool, chosen: Any = None, ids: Any = "auto", **how: Any) -> Any:
    """The columns, and what was told."""
    said = list[tuple[int, str]]()
    with pytest.MonkeyPatch.context() as patch:
        if not at_once:
            one_by_one(patch)
        unit = how.pop("unit", None)
        found = table_of(text, said, chosen or {}, ids, **how).settled(unit)
    return found, said


def portions(
    text: str, at_once: bool, n_rows: int, times: Any = None, ids: Any = "auto", **how: Any
) -> Iterator[Any]:
    """The columns of each portion, without its timestamps, and these."""
    said, size = how.pop("said", []), how.pop("size", text_files._BLOCK)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "_BLOCK", size)
        if not at_once:
            one_by_one(patch)
        for columns in table_of(text, said, {}, ids, **how).portions(n_rows, times):
            yield columns, columns.pop("timestamp", None)


def plain(columns: dict[str, Any]) -> dict[str, Any]:
    return {role: (column.dtype, column.tolist()) for role, column in columns.items()}


TEXTS = [
    "user,item,rating,timestamp\n1,2,3,4\n5,6,7.5,8\n",
    "1,2\n3,4\n",
    "user,item\n007,a\n7,b\n",
    "user,item\n-5,0\n12,-0\n",
    "user,item\n+5,1\n12,2\n",
    "user,item\n1.0,1\n2,1e5\n",
    f"user,item\n{2**63 - 1},{-(2**63)}\n1,2\n",
    f"user,item\n{2**63},1\n2,3\n",
    "user,item\nNA,nan\nnull,None\n",
    "user,item,rating\n1,2,True\n3,4,False\n",
    'user,item\n"1","2"\n3,"a,b"\n',
    "user,item,x\n1,2,\n3,4,y\n",
    "user,item,date\n1,2,2024-01-31\n3,4,2024-02-01T10:00:00\n",
    "user,item,time\n1,2,1700000000.5\n3,4,1700000001\n",
    "user,item\n 1, 2\n3 ,4\n",
    "user,item\n1,2\n\n \n3,4\n",
    "user;item\n1;2\n3;4\n",
    "user\titem\n1\t2\n3\t4\n",
    "user,item,rating\n1,2,1e3\n3,4,.5\n",
    "user,item\nä,\U0001f600\né,x\n",
    "user::item\n1::2\n3::4\n",
    "user,item\r\n1,2\r\n3,4\r\n",
    "user,item\n10,9\n9,100\n99,101\n",
    "user,item\n1,2,,\n3,4\n",
    "user,item\n0,00\n1,01\n",
    "user,item\n0x10,1_000\n2,3\n",
    "user,item\na\0b,1\na\0c,2\n",
    "\ufeff\ufeff1,2\n",
    "user,item\r1,2\r\r3,4",
    "user,item\r\n1,2\r\n \t\r\n3,4",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("ids", ["auto", "text"])
def test_both_readers_and_any_portions_give_the_same(text: str, ids: Any) -> None:
    whole, said = read(text, False, ids=ids)
    other, said_too = read(text, True, ids=ids)
    assert plain(other) == plain(whole)
    assert list(other) == list(whole)
    assert sorted(said_too) == sorted(said)
    for n_rows in (1, 2, 9):
        for at_once in (True, False):
            parts = list(portions(text, at_once, n_rows, ids=ids))
            assert all(len(columns["user"]) <= n_rows for columns, _ in parts)
            for role in ("user", "item", "value"):
                if role in whole:
                    column = [x for columns, _ in parts for x in columns[role].tolist()]
                    assert list(map(str, column)) == list(map(str, whole[role].tolist()))
            assert [when is not None for _, when in parts] == ["timestamp" in whole] * len(parts)


TIMES = "user,item,time\n1,2,5000\n3,4,1.5\n"

FAULTS = [
    ("user,item\n1,2\n3\n", "^line 3: 1 field, the first row has 2; quote fields that contain ','"),
    ("user,item\n1,2\n3,4,5\n", "^line 3: 3 fields, the first row has 2"),
    ("user,item\n1,2,x\n3,4,5\n", "line 2: 3 fields.*row.names = FALSE"),
    ("1,2\n3,4\n5,6,7\n", "^line 3: 3 fields.*lines='lists'"),
    (
        "user,item\n1,\n",
        "^line 2: the item is missing, its field is empty in column 'item'; give it",
    ),
    ("1,2\n,4\n", "^line 2: the user is missing, its field is empty in column 1; give it an id"),
    (
        "user,item,rating\n1,2,3\n1,3,x\n",
        "^line 3: values must be finite numbers, got 'x' in column 'r",
    ),
    ("user,item,rating\n1,2,nan\n", "^line 2: values must be finite numbers, got 'nan'"),
    ("user,item,rating\n1,2,\n", "^line 2: the value is missing"),
    ("user,item,date\n1,2,2024-13-45\n", "^line 2: .*'2024-13-45'.* in column 'date'; write dates"),
    (
        "user,item\n1,2\nuser,item\n3,4\n",
        "^line 3: the header again, as where files were put together",
    ),
    ("user,item\n", "^the file has a header and no rows"),
    ("user,item\n\n\n", "^the file has a header and no rows"),
    ('user,item\n1,"2\n', "^line 2: a quote is opened there and not closed"),
    ("user,item,rating,time\n1,2,x,y\n", "^line 2: values must be finite numbers, got 'x'"),
    ("user,item,rating,time\n1,2,3,5\n1,2,x,y\n1,\n", "^line 4: 2 fields, the first row has 4"),
    ("user,item,title\n1,2,x\n3,4\n", "^line 3: 2 fields, the first row has 3"),
    (f"user,item\n{2**63},1\n,2\n", "^line 3: the user is missing"),
    ("user,item,date\n1,2,True\n3,4,False\n", "^line 2: .*'True' in column 'date'"),
    ("user,item,date\n1,2,5\n3,4,2024-02-01\n", "^line .* must be all whole numbers or all dates"),
    ("user,item,date\n1,2,2024-02-01\n3,4,5\n5,6,x\n", "^line 4: .*'x'"),
    ("user,item,date\n1,2,x\n3,4,2024-02-01\n5,6,7\n", "^line 2: .*'x'"),
]


@pytest.mark.parametrize(("text", "message"), FAULTS)
@pytest.mark.parametrize("at_once", [True, False])
def test_faults_have_the_same_words_by_every_reader(text: str, message: str, at_once: bool) -> None:
    with pytest.raises(ValueError, match=message) as whole:
        read(text, at_once)
    times = "date" if "date" in text else None  # of dates, only their kind is found at first
    for n_rows in (1, 2, 9):
        with pytest.raises(ValueError, match=message) as part:
            list(portions(text, at_once, n_rows, times))
        assert str(part.value) == str(whole.value)


@pytest.mark.parametrize("at_once", [True, False])
def test_points_between_thousands_are_refused_or_told(at_once: bool) -> None:
    """Also where no portion has all that makes them so."""

    def text(*values: str) -> str:
        return "user;item;rating\n" + "".join(f"{n};7;{v}\n" for n, v in enumerate(values))

    for values in (("1.234", "5"), ("5", "12.345", "7")):
        with refuses(ValueError, remedy="write thousands without a point"):
            read(text(*values), at_once)
        for n_rows in (1, 9):
            with refuses(ValueError, remedy="write thousands without a point"):
                list(portions(text(*values), at_once, n_rows))
    for values, is_told in ((("1.234", "2.345"), True), (("1.5", "2"), False)):
        for sep in (";", ","):
            said = list[Any]()
            list(portions(text(*values).replace(";", sep), at_once, 1, said=said))
            for lines in (said, read(text(*values).replace(";", sep), at_once)[1]):
                told = [level for level, line in lines if "taken as decimals" in line]
                assert told == [logging.WARNING] * (is_told and sep == ";")


@pytest.mark.parametrize("at_once", [True, False])
def test_rows_that_quotes_join_are_told_once(at_once: bool) -> None:
    for text in ('user,item,text\n1,2,"a\nb"\n3,4,x\n', 'user,item,text\n1,2,x\n3,4,"a\nb"\n'):
        said = list[Any]()
        list(portions(text, at_once, 1, said=said))
        for lines in (said, read(text, at_once)[1]):
            assert len([line for _, line in lines if "quotes join" in line]) == 1


def test_lists_of_items_of_equal_length_are_told() -> None:
    lists = "0 5 7\n1 6 8\n2 5 9\n"
    for at_once in (True, False):
        for text, is_told in (
            (lists, True),
            ("0 5 7\n1 6 8\n", True),
            (lists.replace("1 6 8", "3 6 8"), False),
            (lists.replace("7", "7.5"), False),
            ("0 5 7\n", False),
            ("a 5 7\nb 6 8\n", False),
            ("0 a 7\n1 b 8\n", False),
            ("user item rating\n" + lists, False),
            ("0 5\n1 6\n", False),
        ):
            told = [
                line
                for _, line in read(text, at_once, sep=" ")[1]
                if "each row has the next user" in line
            ]
            assert len(told) == is_told
            said = list[Any]()
            list(portions(text, at_once, 9, sep=" ", said=said))
            assert (
                len([line for _, line in said if "each row has the next user" in line]) == is_told
            )
            levels = [level for level, line in read(text, at_once, sep=" ")[1] if line in told]
            assert levels == [logging.WARNING] * is_told
        assert not [
            x for x in read(lists, at_once, sep=" ", header=False)[1] if "next user" in x[1]
        ]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_second_field_that_is_no_item_is_told(at_once: bool) -> None:
    """As of judgements of TREC, or an arrow between users and items."""
    for text, is_told in (
        ("101 0 2005 1\n101 0 2006 0\n102 0 2005 2\n", True),
        ("1 -> 5\n1 -> 6\n2 -> 5\n", True),
        ("1 -> 5\n2 -> 5\n", False),
        ("1 7 5\n1 7 4\n1 7 3\n", False),
        ("1 7 5\n2 7 4\n3 8 3\n", False),
        ("user item rating\n1 7 5\n2 7 4\n4 7 3\n", False),
    ):
        said = list[Any]()
        list(portions(text, at_once, 9, sep=" ", said=said))
        for lines in (said, read(text, at_once, sep=" ")[1]):
            told = [level for level, line in lines if "the same in all rows" in line]
            assert told == [logging.WARNING] * is_told


def test_times_of_portions_are_of_the_kind_that_is_told() -> None:
    text = "user,item,date\n1,2,2024-01-31\n3,4,2024-02-01\n5,6,2024-02-02\n"
    for at_once in (True, False):
        found = [when for _, when in portions(text, at_once, 2, "date")]
        assert [when.kind for when in found] == ["date", "date"]
        numbers = [number for when in found for number in when.numbers.tolist()]
        assert numbers == [1706659200, 1706745600, 1706832000]
        unknown = [when for _, when in portions(text, at_once, 2)]
        assert [when.kind for when in unknown] == ["date", "date"]
        assert set().union(*(when.numbers.tolist() for when in unknown)) <= {*numbers}
        zoned = text.replace("2024-02-02", "2024-02-02T10:00Z")
        assert [when.zones for _, when in portions(zoned, at_once, 2)] == [set(), {True}]
    whole = "user,item,time\n1,2,5\n3,4,6.5\n"
    for at_once in (True, False):
        assert [when.kind for _, when in portions(whole, at_once, 1)] == ["whole", "number"]
        found = [when.kind for _, when in portions(whole, at_once, 1, "number")]
        assert found == ["number", "number"]


@pytest.mark.parametrize("size", [1, 2, 5, 16])
@pytest.mark.parametrize("text", TEXTS)
def test_blocks_of_any_size_have_the_same_rows(text: str, size: int) -> None:
    whole = read(text, False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "_BLOCK", size)
        columns, said = read(text, True)
    assert plain(columns) == plain(whole[0])
    assert said == whole[1]


@pytest.mark.parametrize("size", [9, 16, 40])
@pytest.mark.parametrize("n_rows", [1, 2, 5, 7])
def test_portions_have_as_many_rows_as_asked_whatever_the_blocks(n_rows: int, size: int) -> None:
    text = "user,item\n" + "".join(f"{n},{n % 3}\n" for n in range(20))
    for at_once in (True, False):
        parts = [part["user"].tolist() for part, _ in portions(text, at_once, n_rows, size=size)]
        assert parts == [list(range(20))[at : at + n_rows] for at in range(0, 20, n_rows)]


@pytest.mark.parametrize("size", [4, 16, 1 << 20])
@pytest.mark.parametrize("row", [0, 3, 9])
def test_a_time_with_a_fraction_is_told_by_its_line(row: int, size: int) -> None:
    lines = ["user,item,time", *(f"{n},{n},{1.5 if n == row else 5000}" for n in range(10))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "_BLOCK", size)
        for at_once in (True, False):
            with refuses(ValueError, "timestamp", place=f"line {row + 2}", remedy="write dates"):
                read("\n".join(lines), at_once, {"timestamp": "time"})


def test_a_time_with_a_fraction_is_told_of_a_file_that_is_changed_meanwhile() -> None:
    """It is read again for the line, which is then not there."""
    texts = iter([*[TIMES] * 4, *[TIMES[:20]] * 2])
    tell, how = (lambda *_: None), (",", {"timestamp": "time"}, "auto")
    with pytest.raises(ValueError, match=r"whole numbers or dates, got 1\.5 in row 1"):
        delimited.TextTable(lambda: opened(next(texts))(), Dialect(), *how, tell).settled()


def test_units_and_chosen_columns_are_passed_on() -> None:
    text = "user,item,time\n1,2,5000\n3,4,7000\n"
    for at_once in (True, False):
        assert read(text, at_once, unit="ms")[0]["timestamp"].tolist() == [5, 7]
        assert "timestamp" not in read(text, at_once, {"timestamp": False})[0]
        with refuses(ValueError, "timestamp", place="line 3", remedy="write dates"):
            read(TIMES, at_once, {"timestamp": "time"})


@pytest.mark.parametrize("at_once", [True, False])
def test_quotes_of_a_header_are_told_too(at_once: bool) -> None:
    for header, words in (
        ('user,item,"a\nb"', "lines to one in 1 row"),
        ('user,item,"a"b', "1 row"),
    ):
        (line,) = [line for _, line in read(f"{header}\n1,2,x\n", at_once)[1] if "quote" in line]
        assert words in line


@pytest.mark.parametrize("blanks", [0, 1, 31, 32, 33, 100_000])
def test_any_number_of_blanks_before_a_field_is_dropped(blanks: int) -> None:
    text = f'user,item\n1,{" " * blanks}2\n{" " * blanks}"3",{" " * blanks}"4,5"\n'
    for at_once in (True, False):
        columns, _ = read(text, at_once)
        assert [column.tolist() for column in columns.values()] == [[1, 3], ["2", "4,5"]]
