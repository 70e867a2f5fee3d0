"""Formats of text that are no tables: what is read by every door, what is told, what is refused."""

from __future__ import annotations

import gzip
import json
import logging
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import DOORS, triples

import mfrank
from mfrank.cli.main import main
from mfrank.data import ingest, text_files
from tests.support.errors import refuses

YELP = """\
{"review_id":"r1","user_id":"7","business_id":"b-1","stars":4.0,"useful":1,"text":"a \\"b\\"","date":"2018-07-07 22:09:11"}
{"review_id":"r2","user_id":"8","business_id":"b-2","stars":5.0,"useful":0,"text":"","date":"2018-07-08 00:00:00"}
"""  # noqa: E501
AMAZON_2014 = """\
{"reviewerID": "A2S", "asin": "0000013714", "helpful": [0, 0], "overall": 5.0, "unixReviewTime": 1386028800, "reviewTime": "12 3, 2013"}
{"reviewerID": "A3M", "asin": "0000013714", "helpful": [2, 3], "overall": 3.0, "unixReviewTime": 1400457600, "reviewTime": "05 19, 2014"}
"""  # noqa: E501
AMAZON_2023 = """\
{"rating": 5.0, "title": "Good", "images": [], "asin": "B01", "parent_asin": "B00", "user_id": "AG", "timestamp": 1618416608000, "verified_purchase": true}
{"rating": 1.0, "title": "Bad", "images": [{}], "asin": "B02", "parent_asin": "B00", "user_id": "AF", "timestamp": 1618416609000, "verified_purchase": false}
"""  # noqa: E501
OLD_AMAZON = """\
{'reviewerID': 'A2S', 'asin': '0000013714', 'reviewText': "It's", 'overall': 5.0, 'unixReviewTime': 1386028800}
{'reviewerID': 'A3M', 'asin': '0000013714', 'reviewText': 'a', 'overall': 3.0, 'unixReviewTime': 1400457600}
"""  # noqa: E501
STEAM = """\
{u'username': u'Zo\\xeb', u'hours': 0.5, u'product_id': u'35140', u'date': u'2017-12-17', u'early_access': False}
{u'username': u'7', u'hours': 10, u'product_id': u'328100', u'date': u'2018-01-05', u'early_access': True}
"""  # noqa: E501
MIND = """\
1\tU13740\t11/11/2019 9:05:58 AM\tN55189 N42782\tN55689-1 N35729-0
2\tU91836\t11/12/2019 6:11:30 PM\t\tN20678-0 N5-1-1 N39317-1
"""
CLICKS = [
    ("U13740", "N55689", 1.0, 1573463158),
    *[("U91836", item, 1.0, 1573582290) for item in ("N39317", "N5-1")],
]
SHOWN = [
    ("U13740", "N35729", 0.5, 1573463158),
    *[("U13740", "N55689", 1.0, 1573463158), ("U91836", "N20678", 0.5, 1573582290)],
    *[("U91836", item, 1.0, 1573582290) for item in ("N39317", "N5-1")],
]
LISTS = "0 7 9 8\n1 7\n2 \n4 9 7\n"
PAIRS = [(0, 7, 1.0), (0, 8, 1.0), (0, 9, 1.0), (1, 7, 1.0), (4, 7, 1.0), (4, 9, 1.0)]
RETAIL = "0 1 2 3 4\n30 31 32\n33 34\n1 3\n"
BASKETS = [
    *[(0, item, 1.0) for item in range(5)],
    *[(1, 30, 1.0), (1, 31, 1.0), (1, 32, 1.0), (2, 33, 1.0), (2, 34, 1.0)],
    *[(3, 1, 1.0), (3, 3, 1.0)],
]
BY_COMMAS = {"lines": "lists"}
NETFLIX = "7:\n1,3,2005-09-06\n2,5,1970-01-02\n18:\n1,4,1970-01-03\n"
FILMS = [(1, 7, 3.0, 1125964800), (1, 18, 4.0, 172800), (2, 7, 5.0, 86400)]
LIBFM = "5 12:1 9005:1\n3 13:1 9005:1.0\n1 12:1 9006:1\n"
ONE_HOT = [(12, 9005, 5.0), (12, 9006, 1.0), (13, 9005, 3.0)]
LIBSVM = "1 1:0.5 3:1 # a user\n# none\n-1 2:1 5:.25\n1 2:4\n"
WIDE = [(0, 1, 0.5), (0, 3, 1.0), (1, 2, 1.0), (1, 5, 0.25), (2, 2, 4.0)]
MATRIX = "%%MatrixMarket matrix coordinate {}\n% by scipy\n\n3 4 3\n1 1{}\n3\t2{}\n2 4{}\n"
CELLS = [(0, 0, 5.0), (1, 3, 2.0), (2, 1, 1.5)]
FORMATS: dict[str, tuple[str, dict[str, Any], list[tuple[Any, ...]], str]] = {
    "Yelp": (
        YELP,
        {},
        [("7", "b-1", 4.0, 1531001351), ("8", "b-2", 5.0, 1531008000)],
        "value 'stars'",
    ),
    "Amazon 2014": (
        AMAZON_2014,
        {},
        [("A2S", "0000013714", 5.0, 1386028800), ("A3M", "0000013714", 3.0, 1400457600)],
        "user 'reviewerID'",
    ),
    "Amazon 2023": (
        AMAZON_2023,
        {},
        [("AF", "B02", 1.0, 1618416609), ("AG", "B01", 5.0, 1618416608)],
        "item 'asin'",
    ),
    "Amazon 2023, by parents": (
        AMAZON_2023,
        {"item": "parent_asin", "timestamp": False},
        [("AF", "B00", 1.0), ("AG", "B00", 5.0)],
        "ignored: 'title'",
    ),
    "dicts of Python": (
        OLD_AMAZON,
        {},
        [("A2S", "0000013714", 5.0, 1386028800), ("A3M", "0000013714", 3.0, 1400457600)],
        "dicts of Python",
    ),
    "Steam": (
        STEAM,
        {"value": "hours", "timestamp": False},
        [("7", "328100", 10.0), ("Zoë", "35140", 0.5)],
        "dicts of Python",
    ),
    "numbers": (
        '{"user": 7, "item": 3.0, "liked": true}\n\n{"user": 8, "item": 4, "liked": false}\n',
        {"value": "liked"},
        [(7, 3, 1.0)],
        "",
    ),
    "an array": (
        '[{"user": 7, "item": "a"},\n  {"user": 8, "item": "b"}]\n',
        {},
        [(7, "a", 1.0), (8, "b", 1.0)],
        "",
    ),
    "an array in one line": (
        '[{"user": 7, "item": "a"},{"user": 8, "item": "b", "rating": 2}]',
        {"value": False},
        [(7, "a", 1.0), (8, "b", 1.0)],
        "",
    ),
    "objects of several lines": (
        '{\n  "user": 7,\n  "item": "a"\n}\n{\n  "user": 8,\n  "item": "b"\n}\n',
        {},
        [(7, "a", 1.0), (8, "b", 1.0)],
        "",
    ),
    "events": (
        '{"user": 1, "item": 2, "event": "view"}\n{"user": 1, "item": 2, "event": "buy"}\n',
        {"weights": {"view": 1, "buy": 3}},
        [(1, 2, 4.0)],
        "",
    ),
    "MIND": (MIND, {}, CLICKS, "only clicks are read"),
    "MIND, shown": (MIND, {"weights": {"clicked": 1, "shown": 0.5}}, SHOWN, "histories"),
    "MIND, without times": (MIND, {"timestamp": False}, [row[:3] for row in CLICKS], "MIND"),
    "LightGCN": (LISTS, {}, PAIRS, "lines='baskets' takes it as items alone"),
    "LightGCN, users without items": (LISTS, {}, PAIRS, "1 user without items"),
    "LightGCN by tabs": (LISTS.replace(" ", "\t"), {}, PAIRS, "a user and their items"),
    "lists of values": (
        "0 7:2 8:.5\n1 7:1\n2 8:1 9:3 7:1\n",
        {},
        [(0, 7, 2.0), (0, 8, 0.5), (1, 7, 1.0), (2, 7, 1.0), (2, 8, 1.0), (2, 9, 3.0)],
        "items with values",
    ),
    "users and colons": (
        "a: x y\nb:\nc:\tx\n",
        {},
        [("a", "x", 1.0), ("a", "y", 1.0), ("c", "x", 1.0)],
        "1 user without items",
    ),
    "a list in quotes": ('user,items\n0,"7 9 8"\n1,7\n4,"9 7"\n', BY_COMMAS, PAIRS, ""),
    "lists as printed": ("0;[7, 9, 8]\n1;[7]\n4;[9, 7]\n", BY_COMMAS, PAIRS, ""),
    "lists by commas": ("0,7,9,8\n1,7\n2\n4,9,7\n", BY_COMMAS, PAIRS, "1 user without items"),
    "a header, then lists": ("user items\n0 7 9 8\n1 7\n4 9 7\n", BY_COMMAS, PAIRS, ""),
    "RecBole": (
        "user_id:token\titem_id:token\trating:float\ttimestamp:float\n7\ta\t3.0\t880000000\n",
        {},
        [(7, "a", 3.0, 880000000)],
        "'rating:float'",
    ),
    "RecBole, sequences": (
        "user_id:token\titem_id:token_seq\n0\t7 9 8\n1\t7\n4\t9 7\n",
        {},
        PAIRS,
        "a user and their items",
    ),
    "FIMI": (RETAIL, {"lines": "baskets"}, BASKETS, "by their numbers from 0"),
    "names in baskets": (
        "whole milk,beer\nbeer\n",
        {"lines": "baskets"},
        [(0, "beer", 1.0), (0, "whole milk", 1.0), (1, "beer", 1.0)],
        "",
    ),
    "baskets taken as users": (
        RETAIL,
        {"lines": "lists"},
        [
            (0, 1, 1.0),
            (0, 2, 1.0),
            (0, 3, 1.0),
            (0, 4, 1.0),
            (1, 3, 1.0),
            (30, 31, 1.0),
            (30, 32, 1.0),
            (33, 34, 1.0),
        ],
        "",
    ),
    "Netflix": (NETFLIX, {}, FILMS, ""),
    "Netflix of Windows": (
        NETFLIX.replace("\n", "\r\n"),
        {"value": False},
        [(user, item, 1.0, time) for user, item, _, time in FILMS],
        "",
    ),
    "LibFM": (LIBFM, {}, ONE_HOT, "lines='libsvm'"),
    "LibFM as rows": (
        LIBFM,
        {"lines": "libsvm"},
        [
            (row, item, 1.0)
            for row, of in enumerate([(12, 9005), (13, 9005), (12, 9006)])
            for item in of
        ],
        "",
    ),
    "LIBSVM": (LIBSVM, {}, WIDE, "labels are ignored"),
    "MatrixMarket": (MATRIX.format("real general", " 5", " 1.5", " 2"), {}, CELLS, "1 of 4 items"),
    "MatrixMarket of whole numbers": (
        MATRIX.format("integer general", " 5", " 1", " 2"),
        {"value": False},
        [(user, item, 1.0) for user, item, _ in CELLS],
        "",
    ),
    "MatrixMarket of ones": (
        MATRIX.format("pattern general", "", "", ""),
        {},
        [(user, item, 1.0) for user, item, _ in CELLS],
        "",
    ),
    "MatrixMarket with symmetry": (
        "%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n1 1 5\n3 2 1.5\n",
        {},
        [(0, 0, 5.0), (1, 2, 1.5), (2, 1, 1.5)],
        "in both orders",
    ),
    "keys of later rows": (
        '{"user": 1, "item": 2}\n' * 2100 + '{"user": 1, "item": 3, "rating": 4}\n',
        {"duplicates": "max"},
        [(1, 2, 1.0), (1, 3, 1.0)],
        "'rating' (line 2101); value='rating' reads it",
    ),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", FORMATS)
def test_each_format_is_read_by_every_door(
    tmp_path: Path, name: str, door: str, caplog: pytest.LogCaptureFixture
) -> None:
    text, how, expected, told = FORMATS[name]
    if len(text) > 10_000 and "portions" in door:
        pytest.skip("so many portions of two rows take seconds")
    file = tmp_path / "a.txt"
    file.write_text(text, newline="")
    caplog.set_level(logging.INFO)
    read = DOORS[door](file, **how)
    seen = [] if read.seen_only is None else triples(read.seen_only)
    assert [row for row in triples(read) if row not in seen] == sorted(expected, key=repr)
    assert told in caplog.text


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".ndjson.gz", ".JSONL.xz"])
def test_suffixes_of_json(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a{suffix}"
    pack: Any = {".gz": gzip.open, ".xz": lzma.open}.get(file.suffix, open)
    with pack(file, "wt", encoding="utf-8") as text:
        text.write(YELP)
    assert triples(mfrank.Interactions.from_file(file)) == FORMATS["Yelp"][2]
    assert main(["info", str(file)]) == 0


ROW = '{"user": 1, "item": 2, "rating": 3}\n'
REFUSED: dict[str, tuple[str, str, str]] = {
    "null": (ROW + '\n{"user": 1, "item": null, "rating": 1}', "line 3", "give it an id"),
    "missing": (ROW + '{"user": 1, "rating": 1}', "line 2", "give it an id"),
    "empty": ('{"user": "", "item": 2}\n' + ROW, "line 1", "give it an id"),
    "no value": (ROW + '{"user": 1, "item": 3}', "line 2", "value=False"),
    "NaN": (ROW + '{"user": 1, "item": 3, "rating": NaN}', "line 2", "value=False"),
    "text for numbers": (ROW + '{"user": 1, "item": "3", "rating": 1}', "line 2", "ids='text'"),
    "numbers for text": (
        '{"user": 1, "item": "2"}\n{"user": 1, "item": 2}',
        "line 2",
        "ids='text'",
    ),
    "fraction": (ROW + '{"user": 1.5, "item": 2, "rating": 1}', "line 2", "ids='text'"),
    "large": (ROW + '{"user": 9223372036854775808, "item": 2, "rating": 1}', "line 2", "text"),
    "truth": (ROW + '{"user": true, "item": 2, "rating": 1}', "line 2", "ids='text'"),
    "list": (ROW + '{"user": 1, "item": [2, 3], "rating": 1}', "line 2", "row for each"),
    "object": (ROW + '{"user": {"id": 1}, "item": 2, "rating": 1}', "line 2", "another key"),
    "twice": (ROW + '{"user": 1, "item": 2, "user": 3, "rating": 1}', "line 2", "keep one"),
    "half": (ROW + '{"user": 1, "item": "\\ud83d", "rating": 1}', "line 2", "give it an id"),
    "cut off": (ROW + '{"user": 1, "item"', "line 2", "cut off"),
    "no object": (ROW + "[1, 2]", "line 2", ""),
    "two in a line": (ROW + ROW.strip() + ROW, "line 2", "one object a line"),
    "array without end": (f"[{ROW},\n{ROW}", "line 4", "cut off"),
    "text after an array": (f"[{ROW}]\n{ROW}", "line 3", ""),
    "an array of others": (f"[{ROW},\n7]", "line 3", ""),
    "MIND without clicks": (MIND.replace("-1", "").replace("-0", ""), "line 1", "training"),
    "a damaged impression": (MIND + "3\tU1\n", "line 3", "again"),
    "a time of no day": (MIND.replace("11/12", "13/32"), "line 2", ""),
    "baskets that may be lists": (RETAIL, "", "lines='baskets'"),
    "a colon is missing": ("a: x y\n" * 2001 + "b x\n", "line 2002", "write one"),
    "Netflix to predict": ("7:\n1,2005-09-06\n", "line 1", "training set"),
    "Netflix, probe": ("7:\n1\n2\n8:\n", "line 1", "training set"),
    "a rating that is none": (NETFLIX + "3,x,1970-01-01\n", "line 6", "write a number"),
    "a rating cut off": (NETFLIX + "3,4\n", "line 6", ""),
    "reviews as records": (
        "beer/name: Red Moon\nreview/time: 1234817823\nreview/profileName: ann\n\n" * 2,
        "line 1",
        "row for each record",
    ),
    "predictions as they are printed": (
        "user: 1    item: 5    est = 3.5\nanswer: 2    item: 6    est = 3.6\n" * 3,
        "line 1",
        "lines='lists'",
    ),
    "ranking data": ("2 qid:1 1:0.5\n0 qid:1 2:1\n", "line 1", "Judged.from_svmlight"),
    "LibFM with contexts": ("5 1:1 7:1 9:1\n4 2:1 8:1 9:1\n", "line 1", "libsvm"),
    "LibFM cut off": (LIBFM + "5 12:1 90", "line 4", "cut off"),
    "three features": (LIBFM * 700 + "5 12:1 9005:1 9006:1\n", "line 2101", "libsvm"),
    "a value that is no 1": (LIBFM * 700 + "5 12:1 9005:2\n", "line 2101", "libsvm"),
    "an item among the users": (LIBFM * 700 + "5 12:1 13:1\n", "line 2101", "libsvm"),
    "entries are missing": (MATRIX.format("real general", " 5", " 1.5", " 2")[:-6], "", "again"),
    "beyond the matrix": (MATRIX.format("pattern general", "0", "", ""), "line 5", "again"),
    "a full matrix": ("%%MatrixMarket matrix array real general\n1 1\n2\n", "line 1", "mmread"),
    "complex": (MATRIX.format("complex general", " 1 1", " 1 1", " 1 1"), "line 1", "mmread"),
    "no size": ("%%MatrixMarket matrix coordinate real general\n%\n", "line 1", "again"),
    "by columns": ('{"user": {"0": 1}, "item": {"0": 2}}', "line 1", "row for each"),
}


@pytest.mark.parametrize("door", ["whole", "portions", "piped", "portions, in small blocks"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, name: str, door: str) -> None:
    text, place, remedy = REFUSED[name]
    file = tmp_path / ("a.jsonl" if text[0] in "[{" else "a.txt")
    file.write_text(text)
    if len(text) > 9_000 and door == "portions, in small blocks":
        pytest.skip("so many blocks take seconds")
    with refuses(ValueError, None, place=place, remedy=remedy):
        DOORS[door](file)


@pytest.mark.parametrize("argument", ["sep", "header", "columns"])
def test_arguments_for_tables_are_refused(tmp_path: Path, argument: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(YELP)
    given = {"sep": ",", "header": True, "columns": ["user", "item"]}[argument]
    with refuses(ValueError, argument, remedy="leave it out"):
        mfrank.Interactions.from_file(file, **{argument: given})


NAMES = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1)
WHOLE = st.integers(-(2**63), 2**63 - 1)
VALUES = st.integers(1, 9) | st.floats(0.5, 9, width=32)


@settings(deadline=None, max_examples=40)
@given(
    rows=st.one_of(
        *(
            st.lists(st.tuples(users, items, VALUES), min_size=1, max_size=12)
            for users in (NAMES, WHOLE)
            for items in (NAMES, WHOLE)
        )
    ),
    as_array=st.booleans(),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
    block=st.integers(8, 200),
)
def test_random_rows_are_read_back_from_json(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[Any, ...]],
    as_array: bool,
    indent: int | None,
    ascii_only: bool,
    block: int,
) -> None:
    folder = tmp_path_factory.mktemp("json")
    file = folder / "a.json"
    each = [{"user": u, "x": [u], "item": i, "rating": v} for u, i, v in rows]
    dumped = [
        json.dumps(one, indent=indent, ensure_ascii=ascii_only)
        for one in ([each] if as_array else each)
    ]
    file.write_text("\n".join(dumped), encoding="utf-8")
    users, items, values = map(list, zip(*rows, strict=True))
    expected = triples(mfrank.Interactions.from_arrays(users, items, values))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "_BLOCK", block)
        patch.setattr(ingest, "_ROWS_AT_ONCE", 3)
        assert triples(mfrank.Interactions.from_file(file)) == expected
        assert triples(mfrank.Interactions.ingest([file], folder / "in")) == expected


Cells = dict[tuple[int, int], float]


def _lists(cells: Cells, item: str, line: str, between: str = " ") -> str:
    """A line for each user, also of those without items."""
    users = range(1 + max(user for user, _ in cells))
    each = [[item.format(i=i, v=v) for (u, i), v in cells.items() if u == user] for user in users]
    return "".join(line.format(user=u, items=between.join(own)) for u, own in enumerate(each))


def _each(cells: Cells, line: str) -> str:
    return "".join(line.format(u=u, i=i, v=v, u1=u + 1, i1=i + 1) for (u, i), v in cells.items())


LISTED, HEAD = {"lines": "lists"}, "%%MatrixMarket matrix coordinate real general\n10 10 "
WRITERS: dict[str, tuple[Callable[[Cells], str], dict[str, str], bool]] = {
    "lists": (lambda c: _lists(c, "{i}", "{user} {items}\n"), LISTED, False),
    "lists of values": (
        lambda c: _lists(c, "{i}:{v}", "{user}\t{items}\n", "\t"),
        LISTED,
        True,
    ),
    "colons": (lambda c: _lists(c, "{i}", "{user}: {items}\r\n"), LISTED, False),
    "quotes": (lambda c: "user,x\n" + _lists(c, "{i}", '{user},"{items}"\n'), LISTED, False),
    "LIBSVM": (
        lambda c: _lists(c, "{i}:{v}", "0 {items} # {user}\n"),
        {"lines": "libsvm"},
        True,
    ),
    "LibFM": (lambda c: _each(c, "{v} {u}:1 1{i}:1.0\n"), {"lines": "libfm"}, True),
    "Netflix": (lambda c: _each(c, "{i}:\n{u},{v}\n"), {}, True),
    "MatrixMarket": (lambda c: f"{HEAD}{len(c)}\n" + _each(c, "{u1} {i1} {v}\n"), {}, True),
    "JSON": (lambda c: _each(c, '{{"user": {u}, "item": {i}, "rating": {v}}}\n'), {}, True),
}


@pytest.mark.parametrize("name", WRITERS)
@settings(deadline=None, max_examples=20)
@given(
    cells=st.dictionaries(
        st.tuples(st.integers(0, 9), st.integers(0, 9)),
        st.sampled_from([0.5, 1.0, 3.25]),
        min_size=1,
    ),
    block=st.integers(8, 90),
)
def test_random_cells_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, name: str, cells: Cells, block: int
) -> None:
    write, how, has_values = WRITERS[name]
    folder = tmp_path_factory.mktemp("cells")
    file = folder / "a.txt"
    file.write_text(write(cells), newline="")
    shift = 10 * (name == "LibFM")
    expected = [(u, i + shift, v if has_values else 1.0) for (u, i), v in cells.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "_BLOCK", block)
        patch.setattr(ingest, "_ROWS_AT_ONCE", 3)
        for read in (
            mfrank.Interactions.from_file(file, **how),
            mfrank.Interactions.ingest([file], folder / "in", **how),
        ):
            assert triples(read) == sorted(expected, key=repr)


@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
def test_a_matrix_is_read_as_scipy_reads_it(tmp_path: Path, symmetry: str) -> None:
    matrix = scipy.sparse.random_array((9, 9), density=0.4, random_state=1)
    matrix.data = np.ceil(8 * matrix.data)
    matrix = matrix + matrix.T if symmetry == "symmetric" else matrix
    file = tmp_path / "a.mtx"
    scipy.io.mmwrite(file, matrix, symmetry=symmetry)
    expected = mfrank.Interactions.from_sparse(scipy.sparse.csr_array(scipy.io.mmread(file)))
    assert triples(mfrank.Interactions.from_file(file)) == triples(expected)
    assert main(["info", str(file)]) == 0


@pytest.mark.parametrize("lines", ["baskets", "libsvm"])
def test_numbers_of_lines_in_two_files_are_not_one_user(tmp_path: Path, lines: str) -> None:
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for file in files:
        file.write_text("1 2:1 3:1\n4 5:1\n" if lines == "libsvm" else "7 8 9\n")
    with refuses(ValueError, None, place="b.txt", remedy="one by one"):
        mfrank.Interactions.ingest(files, tmp_path / "in", lines=lines)


@pytest.mark.parametrize("argument", ["user", "columns", "weights", "where"])
@pytest.mark.parametrize(
    "text", [LISTS, NETFLIX, LIBFM, LIBSVM], ids=["lists", "Netflix", "LibFM", "LIBSVM"]
)
def test_formats_without_columns_have_none_to_choose(
    tmp_path: Path, text: str, argument: str
) -> None:
    file = tmp_path / "a.txt"
    file.write_text(text)
    given: Any = {"columns": ["user", "item"], "weights": {"a": 1}, "where": {"a": 1}}.get(
        argument, 1
    )
    with pytest.raises(ValueError, match=argument):
        mfrank.Interactions.from_file(file, **{argument: given})


ANY_SUFFIX = {
    "out.movielens": ("% bip weighted\n1 7 3\n1 8 4\n", "it is read as text"),
    "u1.base": ("1\t7\t3\n1\t8\t4\n", "the suffix .base names no format"),
    "ratings": ("user,item,rating\n1,7,3\n1,8,4\n", "it has no suffix"),
    "edges.edges": ("1 7 3\n1 8 4\n", "no header found"),
}


@pytest.mark.parametrize("name", ANY_SUFFIX)
def test_a_file_given_by_itself_may_have_any_suffix(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    text, told = ANY_SUFFIX[name]
    file = tmp_path / name
    file.write_text(text)
    caplog.set_level(logging.INFO)
    for door in ("whole", "portions"):
        assert triples(DOORS[door](file)) == [(1, 7, 3.0), (1, 8, 4.0)]
    assert told in caplog.text


@pytest.mark.parametrize(
    ("name", "content", "remedy"),
    [
        ("a.pkl", b"abc", "run code"),
        ("a.xlsx", b"PK", "csv"),
        ("a.npy", b"1,2", "from_arrays"),
        ("a.arff", b"@relation a", "loadarff"),
        ("a.bin", b"1,2\0", "name it by its format"),
        ("a.bin", b"\xff\xfe\xff", "name it by its format"),
        ("a.log", b"", "name it by its format"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, name: str, content: bytes, remedy: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    for door in ("whole", "portions"):
        with refuses(ValueError, None, place=name, remedy=remedy):
            DOORS[door](file)


def test_arrays_of_numpy_are_read_as_columns(tmp_path: Path) -> None:
    file, times = tmp_path / "a.npz", np.array(["2020-01-01", "1970-01-02"], "M8[s]")
    np.savez(file, user=np.array(["a", "b"]), item=[3, 4], rating=[1.5, 2], timestamp=times)
    for door in ("whole", "portions"):
        read = triples(DOORS[door](file))
        assert read == [("a", 3, 1.5, 1577836800), ("b", 4, 2.0, 86400)]
        assert triples(DOORS[door](file, value=False, timestamp=False, ids="text")) == [
            ("a", "3", 1.0),
            ("b", "4", 1.0),
        ]
    assert main(["info", str(file)]) == 0


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "dia", "bsr"])
def test_matrices_of_scipy_are_read_as_from_sparse_reads_them(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    matrix = scipy.sparse.csr_array(np.diag([1.0, 2, 0, 4])).asformat(kind)
    file = tmp_path / "a.npz"
    scipy.sparse.save_npz(file, matrix)
    matrix = scipy.sparse.csr_array(matrix)
    matrix.eliminate_zeros()
    expected = triples(mfrank.Interactions.from_sparse(matrix))
    caplog.set_level(logging.INFO)
    for door in ("whole", "portions"):
        read = DOORS[door](file)
        assert triples(read if kind != "dia" else read.at_least(1)) == expected
    assert "columns items, from 0" in caplog.text


@pytest.mark.parametrize(
    ("arrays", "argument", "remedy"),
    [
        ({"user": np.array(["a", None], object), "item": [1, 2]}, "", "str"),
        ({"user": [1, 2], "item": [1, 2, 3]}, "", "each row"),
        ({"user": 1, "item": [1]}, "", "each row"),
        ({"user": [1, 2], "x": [1, 2]}, "item", "name it"),
        ({"user": [], "item": []}, None, ""),
    ],
)
def test_arrays_that_are_no_columns_are_refused(
    tmp_path: Path, arrays: dict[str, Any], argument: str | None, remedy: str
) -> None:
    file = tmp_path / "a.npz"
    np.savez(file, **arrays)
    for door in ("whole", "portions"):
        with refuses(ValueError, argument, place="a.npz", remedy=remedy):
            DOORS[door](file)
    file.write_bytes(b"PK")
    with refuses(ValueError, None, place="a.npz", remedy="copy it again"):
        DOORS["whole"](file)


@pytest.mark.parametrize("time", ["13/1/2024 8:26", "2024-01-31 08:26", "Tue 8:26"])
@pytest.mark.parametrize("mark", [",", ";", "|", "::"])
def test_times_of_day_are_no_features(tmp_path: Path, mark: str, time: str) -> None:
    file = tmp_path / "a.csv"
    for header in ("user,item,timestamp\n", ""):
        rows = f"{header}1,2{',5' * (not header)},{time}\n3,4{',5' * (not header)},{time}\n"
        file.write_text(rows.replace(",", mark))
        how = {"timestamp": False} if time.startswith("Tue") else {}
        data = mfrank.Interactions.from_file(file, **how)
        assert data.user_ids.labels.tolist() == [1, 3]


HEADS = {
    "lists": "# users\n%\n\n0 7 9 8\n1 7\n2\n4 9 7\n",
    "JSON": "# users\n" + "".join(f'{{"user": {u}, "item": {i}}}\n' for u, i, _ in PAIRS),
    "array": "# users\n" + json.dumps([{"user": u, "item": i} for u, i, _ in PAIRS], indent=1),
    "LibFM": "# users\n" + "".join(f"1 {u}:1 {i}:1\n" for u, i, _ in PAIRS),
    "Netflix": "# films\n" + "".join(f"{i}:\n{u},1\n" for u, i, _ in PAIRS),
    "commas": "# users\n0,7,9,8\n1,7\n4,9,7\n",
}


@pytest.mark.parametrize("door", ["whole", "portions", "portions, in small blocks"])
@pytest.mark.parametrize("name", HEADS)
def test_comments_above_and_among_records_are_no_rows(
    tmp_path: Path, name: str, door: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "a.txt"
    how = {"lines": "lists"} if name == "commas" else {}
    caplog.set_level(logging.INFO)
    file.write_text(HEADS[name])
    assert triples(DOORS[door](file, **how)) == PAIRS
    assert "of comments at the head skipped" in caplog.text
    file.write_text(HEADS[name].replace("\n", "\n// 5 6 7\n", 3))
    assert triples(DOORS[door](file, **how, comment="//")) == PAIRS


def test_a_dry_run_knows_files_of_arrays_and_long_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "a.npz", user=np.arange(7), item=np.arange(7))
    (tmp_path / "a.json").write_text(json.dumps([{"user": 1, "item": 2, "x": "y" * 99}] * 50_000))
    for name, told in (("a.npz", "about 7 rows"), ("a.json", "about")):
        folder = str(tmp_path / "in")
        assert main(["ingest", str(tmp_path / name), "--folder", folder, "--dry-run"]) == 0
        assert told in capsys.readouterr().out


def test_ids_with_colons_between_tabs_are_no_features(tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    file.write_text("7\t12:5\n8\t12:6\n")
    assert triples(mfrank.Interactions.from_file(file)) == [(7, "12:5", 1.0), (8, "12:6", 1.0)]
    assert triples(mfrank.Interactions.from_file(file, lines="lists")) == [(7, 12, 5), (8, 12, 6)]
