"""What ids probably mean otherwise is told or refused alike, whatever door they come through."""

from __future__ import annotations

import logging
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank import Interactions
from mfrank.cli.typed_ids import ids_in
from mfrank.data import Ids, odd_ids, spelled_like, tell_empty_rows
from tests.support.cases import in_one_test
from tests.support.errors import refuses

ITEMS = [3, 1, 2, 3, 1]


def frame_of(library: str) -> Callable[[list[Any], Path], Interactions]:
    def read(users: list[Any], _: Path) -> Interactions:
        return Interactions.from_frame(table_of(library, users))

    return read


def table_of(library: str, users: list[Any]) -> Any:
    columns = {"user": users, "item": ITEMS[: len(users)]}
    module = pytest.importorskip(library)
    if library == "pyarrow":
        return module.table(columns)
    return module.DataFrame(columns)


def text(users: list[Any], folder: Path) -> Path:
    path = folder / "plays.csv"
    rows = (f'"{user}",{item}' for user, item in zip(users, ITEMS, strict=False))
    path.write_text("\n".join(["user,item", *rows]), encoding="utf-8", newline="")
    return path


def parquet(users: list[Any], folder: Path) -> Path:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow.parquet").write_table(
        table_of("pyarrow", users), folder / "plays.parquet"
    )
    return folder / "plays.parquet"


def matrix(users: list[Any], _: Path) -> Interactions:
    """Ids of rows; here each has one entry, so users must not repeat."""
    rows = list(dict.fromkeys(users))
    places = [rows.index(user) for user in users]
    entries = sp.coo_array((np.ones(len(users)), (places, ITEMS[: len(users)])))
    return Interactions.from_sparse(entries.tocsr(), user_ids=rows)


DOORS: dict[str, Callable[[list[Any], Path], Interactions]] = {
    "arrays": lambda users, _: Interactions.from_arrays(users, ITEMS[: len(users)]),
    "array": lambda users, _: Interactions.from_arrays(np.array(users), ITEMS[: len(users)]),
    "user_ids": lambda users, _: Interactions.from_arrays(
        users, ITEMS[: len(users)], user_ids=list(dict.fromkeys(users))
    ),
    "matrix": matrix,
    "pandas": frame_of("pandas"),
    "polars": frame_of("polars"),
    "pyarrow": frame_of("pyarrow"),
    "csv": lambda users, folder: Interactions.from_file(text(users, folder)),
    "parquet": lambda users, folder: Interactions.from_file(parquet(users, folder)),
    "ingest csv": lambda users, folder: Interactions.ingest([text(users, folder)], folder / "to"),
    "ingest parquet": lambda users, folder: Interactions.ingest(
        [parquet(users, folder)], folder / "to"
    ),
}
every_door = pytest.mark.parametrize("door", DOORS)


def told(log: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [record.getMessage() for record in log.records if record.levelno >= level]


def _pairs_of(library: str) -> Callable[[list[Any], list[Any], Path], Interactions]:
    def read(users: list[Any], items: list[Any], _: Path) -> Interactions:
        columns = {"user": users, "item": items}
        module = pytest.importorskip(library)
        table = module.table if library == "pyarrow" else module.DataFrame
        return Interactions.from_frame(table(columns))

    return read


def _pairs_in_text(users: list[Any], items: list[Any], folder: Path) -> Path:
    rows = [f"{user},{item}" for user, item in zip(users, items, strict=True)]
    (folder / "pairs.csv").write_text("\n".join(["who,what", *rows]))
    return folder / "pairs.csv"


PAIRS: dict[str, Callable[[list[Any], list[Any], Path], Interactions]] = {
    "arrays": lambda users, items, _: Interactions.from_arrays(users, items),
    "array": lambda users, items, _: Interactions.from_arrays(np.array(users), np.array(items)),
    "pandas": _pairs_of("pandas"),
    "polars": _pairs_of("polars"),
    "pyarrow": _pairs_of("pyarrow"),
    "csv": lambda users, items, folder: Interactions.from_file(
        _pairs_in_text(users, items, folder), user="who", item="what"
    ),
    "ingest csv": lambda users, items, folder: Interactions.ingest(
        [_pairs_in_text(users, items, folder)], folder / "to", user="who", item="what"
    ),
}


@pytest.mark.parametrize("door", PAIRS)
@pytest.mark.parametrize(
    ("header", "is_told"),
    [
        (("user", "item"), True),
        (("User ID", "Item ID"), True),
        (("userId", "movieId"), True),
        (("CUSTOMER_ID", "SKU"), True),
        (("user", "tea"), False),
        (("ann", "item"), False),
        (("users", "items"), False),
        (("item", "user"), False),
    ],
)
def test_a_header_among_the_rows_is_told(
    door: str,
    header: tuple[str, str],
    is_told: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    users, items = ["u1", header[0], "zoe", "u1", "ann"], ["tea", header[1], "oat", "pie", "z"]
    assert PAIRS[door](users, items, tmp_path).nnz == 5
    lines = [line for line in told(caplog) if "names of columns" in line]
    assert len(lines) == is_told
    assert all(repr(name) in line for name in header for line in lines)


def test_a_user_and_an_item_with_names_of_columns_are_no_header_in_rows_of_their_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Interactions.from_arrays(["user", "user", "ann", "x"], ["tea", "pie", "book", "item"])
    assert not [line for line in told(caplog) if "names of columns" in line]


@every_door
@in_one_test(
    ("users", "words"),
    [
        (["a", "NULL", "b", "NULL"], ["'NULL' in 2 rows", "missing"]),
        (["a", r"\N", "nan", "None"], ["in 1 row", "missing"]),
        (["a", "(not set)", "b", "b"], ["'(not set)' in 1 row", "missing"]),
        ([str(UUID(int=0)), str(UUID(int=7)), str(UUID(int=8))], ["in 1 row", "missing"]),
        (["a", "a ", "b", "b"], ["1 user id", "'a '", "blanks"]),
        (["a", "a\x85", "b\u2028", "b"], ["2 user ids", "blanks"]),
        (["caf\xe9", "cafe\u0301", "b"], [r"caf\xe9", r"cafe\u0301", "NFC"]),
        (["12", "\uff11\uff12", "x"], [r"'12' and '\uff11\uff12'", "Unicode (NFKC)"]),
        (["tea", "\uff54ea", "b"], [r"'tea' and '\uff54ea'", "Unicode (NFKC)"]),
        (["\u30ab", "\uff76", "b"], [r"'\u30ab' and '\uff76'", "Unicode (NFKC)"]),
        (["1", "1.0", "x"], ["'1' and '1.0'", "different"]),
        (["123.0", "7.0", "7.0"], ["'123.0'", "asking for 123", "without '.0'"]),
        (["1.23457E+12", "1.23458E+12", "1.23457E+12"], ["'1.23457E+12' in 2 rows", "shorten"]),
        (["1.000000000000000000e+00", "x"], ["e+00' in 1 row", "shorten"]),
        (["7", "007", "x"], ["'7' and '007'", "how a number is written"]),
        (["7.0", "007", "abc"], ["'7.0'", "'007'", "how a number is written"]),
        (["Ann", "ann", "b"], ["'Ann' and 'ann'", "only in capital letters"]),
        (["a b", "a  b", "c"], ["'a b' and 'a  b'", "only in blanks"]),
        (["a b", "a\xa0b", "c"], [r"'a b' and 'a\xa0b'", "only in blanks"]),
        (["ann", "an\xadn", "c"], [r"'ann' and 'an\xadn'", "not shown"]),
        (["\u200fann", "b"], ["1 user id", "blanks"]),
        (["'7'", "'8'"], ["in quotes", "quote="]),
        (["\u201ca\u201d", "\u201cb\u201d"], ["in quotes"]),
        (["caf\xc3\xa9", "b"], ["UTF-8", "Latin-1", "caf\xe9"]),
        (["caf\ufffd", "b"], ["lost letters"]),
        (["1", "2", "3", "Total"], ["whole numbers but for 'Total' in 1 row", "text"]),
        (["a", "b", "# c"], ["'# c' in 1 row", "comments"]),
        (["2024-01-31", "2024-02-01"], ["dates", "another column"]),
        (["ann", "bob", "----", "bob"], ["'----' in 1 row", "printed table"]),
        (["ann", "bob", "(2 rows)"], ["'(2 rows)' in 1 row", "printed table"]),
        (["ann", "...", "bob"], ["'...' in 1 row", "printed table"]),
        (["ann", "####", "bob"], ["'####' in 1 row", "printed table"]),
        (["a", "#ERROR!", "b", "Loading..."], ["'#ERROR!' in 1 row", "missing"]),
        (["1,001", "2,345", "17"], ["marks between thousands"]),
        (["1.001", "12.345", "1.234.567"], ["marks between thousands"]),
        (["x-7", "3-Mar", "Sep-02"], ["'3-Mar' in 1 row", "a spreadsheet made of codes"]),
        (["b'ann'", "b'bob'", "b'ann'"], ["b'ann'", "bytes as they are printed"]),
        (["ObjectId('507f')", "ObjectId('507e')"], ["objects as they are printed"]),
        (["UUID('507f')", "UUID('507e')"], ["objects as they are printed"]),
        (["np.int64(5)", "np.int64(6)", "7"], ["np.int64(5)", "objects as they are printed"]),
        (["Decimal('5')", "Decimal('6')"], ["objects as they are printed"]),
        (["NumberLong(5)", "NumberLong(6)"], ["objects as they are printed"]),
        (["Timestamp('2024-01-31 10:00:00', tz='UTC')"], ["objects as they are printed"]),
        (["datetime.date(2024, 1, 31)"], ["objects as they are printed"]),
        (["<object at 0x7f0a>", "<a.User object at 0x7f0b>"], ["without text of their own"]),
        (["[1]", "[2]", "[3]"], ["'[1]'", "lists, tuples or dicts as they are printed"]),
        (["(1,)", "(2,)"], ["'(1,)'", "lists, tuples or dicts as they are printed"]),
        (["{'id': 1}", "{'id': 2}"], ["lists, tuples or dicts as they are printed"]),
    ],
)
def test_what_text_may_mean_otherwise_is_told_in_a_line(
    door: str, users: list[str], words: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = DOORS[door](users, tmp_path)
    assert sorted(data.user_ids.labels) == sorted({*users})  # nothing is changed
    assert any(all(word in line for word in words) for line in told(caplog))
    assert len(told(caplog)) == len({*told(caplog)})


@pytest.mark.parametrize("header", ["user,item", "item,user"])
@pytest.mark.parametrize("door", ["from_file", "ingest"])
def test_odd_ids_are_told_as_those_of_users_or_items(
    door: str, header: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n1,a\n2,NULL\n3,NULL\n3,b\n")
    if door == "ingest":
        Interactions.ingest([path], tmp_path / "to")
    else:
        Interactions.from_file(path)
    (line,) = told(caplog)
    assert line.startswith(header.split(",")[1])
    assert "'NULL' in 2 rows" in line


@every_door
def test_ordinary_ids_are_not_talked_about(
    door: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number, users in enumerate(
        (
            *(["a b", "\xe9t\xe9", "7.01"], [7, 8, 9], [0, 1, 2], [-1, -2, 0]),
            *(["007", "042", "100"], ["0x1F", "1e5", "100000"], ["#1 hit", "'n sync", "a-ha"]),
            *(
                ["Ann", "Ben"],
                ["X\xe9", "\xe9"],
                ["\U0001f468\u200d\U0001f469", "\u05d0\u05d1", "S\xc3O PAULO"],
            ),
            *(["85123A", "22423", "POST", "71053", "84406B"], ["2024-01-31", "a"]),
            *(["Alien(1979)", "Up(2009)"], ["Love(Live)", "Love(Remix)"], ["{7f-1}", "{7f-2}"]),
            *(["[untitled]", "b", "c"], ["<http://a/1>", "<http://a/2>"], [":)", "-a-", "(1) b"]),
            *(["1.25", "17"], ["1.001", "007"], ["1-May-Ann", "Jan", "May"], ["3-mar", "Mar-2001"]),
            *(["What's (Story)", "Who's (Next)"], ["photo(1)", "photo(2)"], ["b'elanna", "c"]),
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        DOORS[door](list(users), folder)
    assert not told(caplog)


@every_door
@pytest.mark.parametrize("empty", ["", "  ", "\t"])
def test_empty_ids_are_refused_with_their_number(door: str, empty: str, tmp_path: Path) -> None:
    with refuses(ValueError, None, remedy="an id") as caught:
        DOORS[door](["a", empty, "b", empty], tmp_path)
    assert "csv" in door or "2 rows" in str(caught.value)


@pytest.mark.parametrize("door", ["arrays", "pandas", "polars", "pyarrow", "parquet"])
def test_missing_ids_are_refused_with_their_number(door: str, tmp_path: Path) -> None:
    with refuses(ValueError, "users", remedy="give them an id"):
        DOORS[door](["a", None, "b", None], tmp_path)


@every_door
def test_codes_with_a_missing_one_are_told(
    door: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    DOORS[door]([0, -1, 1, -1, 2], tmp_path)
    (line,) = told(caplog)
    assert "-1" in line
    assert "2 rows" in line


LONG = [110612570161021477, 725735641737510623, 1272757217426062279, 90150083017731]
ROUNDED = {
    "by a spreadsheet": ([110612570161021000, 725735641737510000, 1272757217426060000], True),
    "by a float": ([2**58 + 64 * n for n in (3, 8, 21, 55)], True),
    "not": (LONG, False),
    "one alone": ([LONG[3], 7 * 10**15], False),
    "times with zeros below": ([(1700000000123 + n) * 10**6 for n in range(5)], False),
    "times with bits below": ([(288230376151 + n) << 22 for n in range(5)], False),
}
"""Long ids, and whether they are rounded."""


@every_door
@pytest.mark.parametrize("how", ROUNDED)
def test_long_numbers_that_were_rounded_are_told(
    door: str, how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    users, are_rounded = ROUNDED[how]
    assert sorted(DOORS[door](users, tmp_path).user_ids.labels) == sorted(users)
    assert ["look rounded" in line for line in told(caplog)] == [True] * are_rounded


BINARY_DOORS = ["arrays", "pandas", "polars", "pyarrow", "parquet", "ingest parquet", "matrix"]


@pytest.mark.parametrize("door", BINARY_DOORS)
@pytest.mark.parametrize(
    ("users", "ids"),
    [
        ([b"bob", b"al", b"bob"], ["al", "bob"]),
        ([Decimal("7.00"), Decimal("9.00")], [7, 9]),
        ([UUID(int=7), UUID(int=9)], [str(UUID(int=7)), str(UUID(int=9))]),
    ],
)
def test_what_files_have_as_ids_can_be_saved(
    door: str,
    users: list[Any],
    ids: list[Any],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if isinstance(users[0], UUID) and door in ("polars", "pyarrow", "parquet", "ingest parquet"):
        users = uuids_of(door, users)
    caplog.set_level(logging.INFO, "mfrank")
    data = DOORS[door](users, tmp_path)
    assert sorted(data.user_ids.labels) == ids
    assert any("user ids are" in line for line in told(caplog, logging.INFO))
    model = mfrank.Popularity().fit(data)
    loaded = mfrank.load(model.save(tmp_path / "model"))
    for user in (users[0], ids[0]) if isinstance(users, list) else ids:
        np.testing.assert_array_equal(loaded.recommend(user).ids, model.recommend(user).ids)


def uuids_of(door: str, users: list[UUID]) -> Any:
    if door == "polars":
        pytest.skip("polars has no type of UUIDs")
    pyarrow = pytest.importorskip("pyarrow")
    if not hasattr(pyarrow, "uuid"):
        pytest.skip("this pyarrow has no type of UUIDs")
    return pyarrow.array([user.bytes for user in users], pyarrow.uuid())


@pytest.mark.parametrize("door", BINARY_DOORS)
@pytest.mark.parametrize("users", [[b"\xff\xfe", b"a"], [Decimal("1.5"), Decimal(2)]])
def test_what_is_no_id_is_refused_before_any_work(
    door: str, users: list[Any], tmp_path: Path
) -> None:
    with refuses(ValueError, None, remedy="use strings for ids|write other bytes as text"):
        DOORS[door](users, tmp_path)


@pytest.mark.parametrize("door", ["array", "pandas", "polars", "pyarrow", "parquet"])
@pytest.mark.parametrize(("dtype", "first_lost"), [(np.float32, 2**24), (np.float16, 2**11)])
def test_floats_that_may_have_been_other_numbers_are_no_ids(
    door: str, dtype: Any, first_lost: int, tmp_path: Path
) -> None:
    if dtype == np.float16 and door in ("polars", "parquet"):
        pytest.skip("has no such type")
    last = np.array([3, first_lost - 1], dtype)
    assert DOORS[door](last, tmp_path).user_ids.labels.tolist() == [3, first_lost - 1]
    for lost in (first_lost, 3 * first_lost):
        with refuses(ValueError, "users", remedy=r"too large for a float"):
            DOORS[door](np.array([3, lost], dtype), tmp_path)
    ids = Ids.of([3, first_lost])
    with refuses(ValueError, remedy=r"too large for a float"):
        ids.rows([dtype(first_lost)])


def test_numbers_and_text_are_told_and_saved(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = Interactions.from_arrays([1, "1", "a", 2, 1], ITEMS)
    (line,) = told(caplog)
    assert "1 and '1'" in line
    model = mfrank.Popularity().fit(data)
    loaded = mfrank.load(model.save(tmp_path / "model"))
    assert loaded.user_ids.labels.tolist() == [1, "1", "a", 2]
    assert Interactions.open(data.to_folder(tmp_path / "data")).user_ids == data.user_ids


def test_what_is_typed_is_the_number_or_the_text_that_is_known() -> None:
    """Where a model has both; of 1 and "1", the text that was typed."""
    ids = Ids.of([1, "1", 7, "a"])
    for typed, found in (("7", 7), ("1", "1"), ("a", "a"), ("8", "8"), ("7 ", "7 ")):
        assert spelled_like(np.array([typed], object), ids).tolist() == [found]
    assert spelled_like(np.array([7, 1, 8]), ids).tolist() == [7, 1, 8]


def test_what_cannot_be_saved_is_told_when_it_is_read(caplog: pytest.LogCaptureFixture) -> None:
    data = Interactions.from_arrays([("a", 1), ("b", 2), ("a", 1)], [1, 2, 2])
    (line,) = told(caplog)
    assert "cannot be saved" in line
    model = mfrank.ALS(factors=2, iterations=1).fit(data)  # in memory they are ids like any others
    with refuses(ValueError, remedy="str or int"):
        model.save("nowhere")
    with refuses(ValueError, remedy="str or int"):
        mfrank.ALS(factors=2).fit(data, checkpoint="nowhere")
    assert not Path("nowhere").exists()


def test_ids_that_are_known_are_not_told_again(caplog: pytest.LogCaptureFixture) -> None:
    data = Interactions.from_arrays(["a ", "a", "NULL", "b", "b"], ITEMS)
    caplog.clear()
    split = mfrank.by_ratio(data, random_state=0)
    both = split.train + split.test
    Interactions.from_arrays(["a "], [3], user_ids=data.user_ids, item_ids=data.item_ids)
    assert both.user_ids == data.user_ids
    assert not told(caplog)


@pytest.mark.parametrize("separator", [",", "::", "\t"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("names", ["user item", "user item rating", "id user item"])
def test_a_header_within_a_file_is_refused_with_its_line(
    separator: str, mark: str, names: str, tmp_path: Path
) -> None:
    path = tmp_path / "both.csv"
    part = [names, *(f"{n} {n} {n}" for n in "123")]
    lines = [" ".join(line.split()[: names.count(" ") + 1]) for line in part]
    content = "\n".join([*lines, mark + lines[0], *lines[1:]])
    path.write_text(content.replace(" ", separator), encoding="utf-8")
    for read in (Interactions.from_file, lambda path: Interactions.ingest([path], tmp_path / "to")):
        with refuses(ValueError, place="both.csv, line 5", remedy="remove this line"):
            read(path)


def test_lines_end_only_where_files_end_them(tmp_path: Path) -> None:
    odd = ["a\x85b", "a\u2028b", "a\x1cb", "a\x0bb", " a", "a ", "\xa0"]
    path = tmp_path / "users.txt"
    for end in ("\n", "\r\n", "\r"):
        path.write_text(end.join([*odd, "", "last"]), encoding="utf-8", newline="")
        assert ids_in(str(path)) == [*odd, "last"]
    data = Interactions.from_arrays(odd[:4], [1, 2, 3, 4])
    file = tmp_path / "plays.csv"
    file.write_text("user,item\n" + "\n".join(f"{u},1" for u in odd[:4]), encoding="utf-8")
    assert Interactions.from_file(file).user_ids == data.user_ids


@pytest.mark.parametrize("make", ["matrix", "arrays"])
def test_row_numbers_that_are_raw_ids_are_named(
    make: str, caplog: pytest.LogCaptureFixture
) -> None:
    users, items = np.array([3, 1_999_999, 70]), np.array([0, 1, 2])
    if make == "matrix":
        Interactions.from_sparse(sp.csr_array((np.ones(3), (users, items)), (2_000_000, 3)))
    else:
        Interactions.from_arrays(users, items, shape=(2_000_000, 3))
    (line,) = told(caplog)
    assert "3 of 2,000,000 users" in line
    assert "from_arrays" in line


@pytest.mark.parametrize(
    "model", [mfrank.ALS(factors=64), mfrank.Descent(factors=64), mfrank.EASE()]
)
def test_memory_that_is_wanted_for_empty_rows_names_the_ids(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mfrank.arrays.memory.memory_there_is", lambda: 1 << 20)
    sparse = sp.csr_array((np.ones(3), ([3, 70, 9_999], [0, 9_998, 2])), (10_000, 10_000))
    with refuses(MemoryError, None, remedy=r"raw ids.*from_arrays"):
        model.fit(sparse)
    dense = mfrank.synthetic(3000, 500, 40_000, random_state=0)
    with pytest.raises(MemoryError) as caught:
        model.fit(dense)
    assert "raw ids" not in str(caught.value)


@pytest.mark.parametrize(
    ("users", "words"),
    [
        (["a", " a", "b"], ["'a' and ' a'", "only in blanks"]),
        ([" a", "a\t", "b"], ["' a' and 'a\\t'", "only in blanks"]),
        ([" caf\xe9", "cafe\u0301", "b"], ["only in blanks"]),
        (["caf\xe9", "cafe\u0301"], ["only in the form of Unicode (NFC)"]),
        (["1.0", "1"], ["'1' and '1.0'", "only in '.0'"]),
    ],
)
def test_what_two_ids_differ_in_is_named(
    users: list[str], words: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    Interactions.from_arrays(users, ITEMS[: len(users)])
    line = told(caplog)[-1]
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    ("users", "pair"),
    [
        ([7, "x", 8, "y"], ("like 7", "like 'x'")),
        ([7, "x", 8, "8"], ("like 8", "like '8'")),
        (["x", 9], ("like 9", "like 'x'")),
    ],
)
def test_numbers_beside_text_are_shown_as_those_that_look_alike_if_there_are_any(
    users: list[Any], pair: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    Interactions.from_arrays(users, ITEMS[: len(users)])
    (line,) = told(caplog)
    assert all(word in line for word in pair)


@pytest.mark.parametrize(
    ("users", "are_codes"),
    [
        ([-1, 0], True),
        ([1, -1, 0], True),
        ([-1, 1], False),
        ([-1, -1], False),
        ([-2, -1, 0], False),
        ([-1, 0, 2], False),
        ([0, 1], False),
    ],
)
def test_only_minus_one_before_all_numbers_from_zero_is_a_code(
    users: list[int], are_codes: bool, caplog: pytest.LogCaptureFixture
) -> None:
    Interactions.from_arrays(users, ITEMS[: len(users)])
    assert bool(told(caplog)) == are_codes


@every_door
@pytest.mark.parametrize("bits", [32, 64])
def test_the_number_that_nan_becomes_is_told(
    door: str, bits: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    least = -(2 ** (bits - 1))
    data = DOORS[door]([7, least, 9], tmp_path)
    assert least in data.user_ids.labels.tolist()
    assert any(f"{least}, in 1 row, is what NaN becomes" in line for line in told(caplog))


@pytest.mark.parametrize(
    ("n_rows", "rows", "is_told"),
    [
        (1_000_000, range(99_999), True),
        (1_000_000, range(100_000), False),  # a tenth
        (999_999, range(9), False),  # no large matrix
        (1_000_000, [5] * 7, True),
        (1_000_000, [], True),
        (1_000_000, [5] * 2_000_000, True),  # two entries for every row
        (1_000_000, [5] * 2_000_001, False),
    ],
)
def test_rows_without_entries_are_told_of_large_matrices(
    n_rows: int, rows: Any, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    tell_empty_rows("user", n_rows, np.array(rows, np.int64))
    assert bool(told(caplog)) == is_told


MISSING = ["null", "(null)", "none", "nil", "nan", "nat", "na", "n/a", "#n/a", "<na>", "undefined"]
MISSING += [
    "[null]",
    "<null>",
    "(not set)",
    "-",
    "?",
    "#REF!",
    "#VALUE!",
    "#NAME?",
    str(UUID(int=0)),
]
UNSEEN = "\0\xad\u200b\u200e\u200f\u2060\ufeff\u202a\u202b\u202c\u202d\u202e"
QUOTED = ['"a"', "'a'", "`a`", "\u201ca\u201d", "\u201ea\u201c", "\u2018a\u2019", "\xaba\xbb"]


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        *(([word, "a", "b"], "missing") for word in [*MISSING, r"\N", "NaN"]),
        *(([f"{mark} x", "a", "b"], "comments") for mark in ("#", "//", "--", "%")),
        *(([f"a{mark}n", "an", "b"], "not shown") for mark in UNSEEN),
        *(([id_, id_.replace("a", "b")], "in quotes") for id_ in QUOTED),
        *(([f"a1{mark}a2", f"a2{mark}a3", "a1"], "lists") for mark in " ,|;"),
    ],
)
def test_every_way_to_write_what_is_no_id_is_told(
    ids: list[str], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    odd_ids.check_ids("user", Ids.of(ids), lambda row: 1)
    assert any(words in line for line in told(caplog))


def test_ids_are_looked_through_in_parts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(odd_ids, "_AT_ONCE", 2)
    Interactions.from_arrays(["a", "b", "c", "d", "nan"], ITEMS)
    (line,) = told(caplog)
    assert "'nan' in 1 row" in line


def test_letters_at_the_ends_of_ids_are_no_blanks(caplog: pytest.LogCaptureFixture) -> None:
    Interactions.from_arrays(["Xa", "aX", "XaX", "a\xe9", "b "], ITEMS)
    (line,) = told(caplog)
    assert "1 user id, like 'b '" in line


@pytest.mark.parametrize("door", ["arrays", "pandas", "pyarrow"])
@pytest.mark.parametrize(
    ("users", "word"), [([b"a", b"b"], "bytes"), ([Decimal(1), Decimal(2)], "decimals")]
)
def test_what_ids_become_is_told_as_a_matter_of_fact(
    door: str, users: list[Any], word: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "mfrank"):
        DOORS[door](users, tmp_path)
    assert any(f"user ids are {word}" in line for line in told(caplog, logging.INFO))


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
BASE62 = f"0123456789{LETTERS}"


def drawn(symbols: str, length: int, n: int, seed: int = 0) -> list[str]:
    codes = np.random.default_rng(seed).choice([*symbols], (n, length))
    return list(dict.fromkeys(map("".join, codes)))


def counted_in_base62(n: int) -> list[str]:
    pairs = [f"{one}{other}" for one in BASE62 for other in BASE62]
    return [*BASE62, *pairs, *(f"{BASE62[1]}{pair}" for pair in pairs)][:n]


CODES: dict[str, list[str]] = {
    "YouTube": drawn(f"{BASE62}-_", 11, 3000),
    "base64 of hashes": [f"{code}==" for code in drawn(f"{BASE62}+/", 22, 3000)],
    **{f"base62 of {length}": drawn(BASE62, length, 5000) for length in (2, 3, 4, 5, 6, 7)},
    "letters only": drawn(LETTERS, 4, 5000),
    "base62, counted": counted_in_base62(5000),
    "ISBN": [f"{n}{'X' if n % 11 == 10 else n % 10}" for n in range(10**8, 10**8 + 3000)],
    "ISBN and ASIN": [*drawn("0123456789", 10, 500), *(f"B00{n:07d}" for n in range(30))],
    "hex": drawn("0123456789abcdef", 16, 1000),
    "padded": [f"{n:06d}" for n in range(1000)],
}


@pytest.mark.parametrize("side", ["user", "item"])
@pytest.mark.parametrize("kind", CODES)
def test_codes_in_which_capital_letters_count_are_not_talked_about(
    kind: str, side: str, caplog: pytest.LogCaptureFixture
) -> None:
    odd_ids.check_ids(side, Ids.of(CODES[kind]), lambda row: 1)
    assert not told(caplog)


@pytest.mark.parametrize(
    ("kind", "odd", "word"),
    [
        ("YouTube", ["null"], "missing"),
        ("YouTube", ["# comment"], "comments"),
        ("YouTube", ["12345678901 "], "blanks"),
        ("base62 of 5", ["JohnSmith", "johnsmith"], "capital letters"),
        ("hex", ["abcdef0123456789".upper(), "abcdef0123456789"], "capital letters"),
        ("ISBN", ["Total"], "whole numbers but for"),
        ("ISBN", ["12 34"], "whole numbers but for"),
    ],
)
def test_what_is_odd_among_codes_is_told(
    kind: str, odd: list[str], word: str, caplog: pytest.LogCaptureFixture
) -> None:
    odd_ids.check_ids("user", Ids.of([*CODES[kind], *odd]), lambda row: 1)
    assert any(word in line for line in told(caplog))


def test_words_in_capital_letters_are_no_codes(caplog: pytest.LogCaptureFixture) -> None:
    names = [
        f"{first}{last}{n}" for first in ("Jo", "Ann") for last in ("Doe", "Li") for n in "123"
    ]
    odd_ids.check_ids(
        "user", Ids.of([*names, "McDonald", "eBay", "johndoe", "JohnDoe"]), lambda row: 1
    )
    (line,) = told(caplog)
    assert "'johndoe' and 'JohnDoe' differ only in capital letters" in line


def test_a_title_of_dots_that_several_have_is_no_mark(caplog: pytest.LogCaptureFixture) -> None:
    Interactions.from_arrays(["a", "b", "a"], ["...", "...", "Abba"])
    assert not told(caplog)
    Interactions.from_arrays(["a", "b", "a"], ["...", "Abba", "Abba"])
    assert ["printed table" in line for line in told(caplog)] == [True]


def test_a_title_that_several_have_is_no_comment(caplog: pytest.LogCaptureFixture) -> None:
    users, titles = ["a", "b", "a", "b"], ["# 1 Record", "# 1 Record", "Abba", "Abba"]
    Interactions.from_arrays(users, titles)
    assert not told(caplog)
    Interactions.from_arrays([*users, "c"], [*titles, "// plays of 2024"])
    assert not told(caplog)  # beside a title
    Interactions.from_arrays([*users[2:], "c"], [*titles[2:], "# plays of 2024"])
    Interactions.from_arrays(titles, users)
    assert ["comments" in line for line in told(caplog)] == [True, True]


FORMS = [
    "a",
    "A",
    "Ab",
    "ab",
    "7",
    "007",
    "7.0",
    "nan",
    "NaN",
    "x ",
    "# x",
    "\xe9",
    "e\u0301",
    "1.5",
]


@settings(deadline=None)
@given(st.lists(st.sampled_from(FORMS), min_size=1, unique=True), st.integers(1, 5))
def test_parts_are_told_as_the_whole(forms: list[str], at_once: int) -> None:
    """However many ids are looked at as one, and wherever a twin is; examples may be others."""

    def lines(size: int) -> list[str]:
        with pytest.MonkeyPatch.context() as patch:
            said: list[str] = []
            patch.setattr(odd_ids, "_AT_ONCE", size)
            patch.setattr(odd_ids._log, "warning", lambda line, *_: said.append(line))
            odd_ids.check_ids("user", Ids.of(forms), lambda row: 1)
        return said

    assert lines(at_once) == lines(100)
