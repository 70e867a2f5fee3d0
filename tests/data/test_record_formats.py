"""Formats of text that are no tables: what is read by every door, what is told, what is refused."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import DOORS, triples

import mfrank
from mfrank.cli.main import main
from mfrank.data import ingest, text_bytes, text_files
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
    assert [row for row in triples(read) if row not in seen] == expected
    assert told in caplog.text


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".ndjson.gz", ".JSONL.xz"])
def test_suffixes_of_json(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a{suffix}"
    pack = text_bytes.PACKERS.get(file.suffix, open)
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
    "by columns": ('{"user": {"0": 1}, "item": {"0": 2}}', "line 1", "row for each"),
}


@pytest.mark.parametrize("door", ["whole", "portions", "piped", "portions, in small blocks"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, name: str, door: str) -> None:
    text, place, remedy = REFUSED[name]
    file = tmp_path / "a.jsonl"
    file.write_text(text)
    with refuses(ValueError, None, place=place, remedy=remedy):
        DOORS[door](file)


@pytest.mark.parametrize("argument", ["sep", "header", "columns"])
def test_arguments_for_tables_are_refused(tmp_path: Path, argument: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(YELP)
    given = {"sep": ",", "header": True, "columns": ["user", "item"]}[argument]
    with refuses(ValueError, argument, remedy="leave it out"):
        mfrank.Interactions.from_file(file, **{argument: given})


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6).filter(str.strip)
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
