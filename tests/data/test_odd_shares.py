"""How many ids must be odd, and beside which others, for a line to be told about them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mfrank.data import Ids, odd_ids
from tests.support.errors import refuses


@pytest.mark.parametrize(("n", "are_few"), [(18, True), (17, False)])
def test_few_among_whole_numbers_are_a_tenth_of_all(
    n: int, are_few: bool, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = [str(number) for number in range(7, 7 + n)]
    odd_ids.check_ids("user", Ids.of([*numbers, "unknown", "deleted"]), lambda row: 1)
    assert any("whole numbers but for" in line for line in caplog.messages) == are_few


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (["007", "7", "12"], "'7' and '007' differ|'007' and '7' differ"),
        (["00", "0", "5"], "'0' and '00' differ|'00' and '0' differ"),
        (["007", "7", 7], "'7' and '007' differ|'007' and '7' differ"),  # beside a number
        (["\u212b", "\xc5"], "the form of Unicode"),  # of one letter
        (["# c"], ""),
        ([*map(str, range(18)), "# c", "# d"], "look like comments"),
        ([*map(str, range(17)), "# c", "# d"], ""),
    ],
)
def test_what_is_odd_beside_others_is_told(
    ids: list[Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    odd_ids.check_ids("user", Ids.of(ids), lambda row: 1)
    assert any(re.search(words or "comments", line) for line in caplog.messages) == bool(words)


def test_ids_without_an_order_are_refused() -> None:
    with refuses(TypeError, remedy="pass a list"):
        Ids.of({1, 2})  # type: ignore[arg-type]


MOVED, AT_REST = ["x1 c1 c2", "c3 x1 c4"], ["c5 y1 c6", "c7 y1 c8"]
KEYS = [f"a{number % 4},b{number}" for number in range(18)]
NUMBERS = [*range(1, 10), *range(10, 20), *range(100, 109)]


@pytest.mark.parametrize(
    ("ids", "words", "is_told"),
    [
        (["a1,a2,a3", "a2,a1", "b"], "lists", True),
        (["a1,a2,a3", "a2,a1", "b", "c"], "lists", False),  # half of them
        ([("a1", "a2"), ("a2", "a3", "a1"), "b"], "lists", True),
        ([("a1", "a2"), ("a2", "a3", "a1"), "b", "c"], "lists", False),
        (["[a1 a2]", "[a2 a3 a1]", "b", "c"], "lists", False),
        (["a1,a2", "a2,", "a1,"], "lists", False),  # one of them has several parts
        (["a1,a2", "a2,"], "lists", False),
        ([*KEYS, "a1,b18", "a2,b19"], "lists", False),
        ([*KEYS, "a1,b18,c1", "a2,b19,c2"], "lists", False),  # a tenth of other lengths
        ([*KEYS, "a1,b18,c1", "a2,b19,c2", "a3,b20,c1"], "lists", True),
        (MOVED, "lists", True),
        (AT_REST, "lists", False),
        ([*MOVED, *AT_REST], "lists", False),  # half of the parts that recur
        (["x1 c1", "c2 x1"], "lists", False),  # keys of two parts
        (["x1 c1 c2", "c2 x1"], "lists", True),
        (["1", "2", "3", "x"], "whole numbers but for 'x'", True),
        (["1", "2", "x"], "whole numbers but for", False),
        ([*map(str, NUMBERS), "x5"], "whole numbers but for 'x5'", True),
        ([*map(str, range(10, 17)), "x5", "100", "200"], "whole numbers but for 'x5'", True),
        ([*map(str, range(10, 18)), "x5", "100"], "whole numbers but for", False),
        (['="007"', '="008"'], "in quotes", True),
        (['""', '"a"'], "in quotes", True),
        (['"'], "in quotes", False),
        (["a\0", "b"], "blanks at the ends", True),
        ([" 007", "7"], "differ", True),
        ([" 007 ", "7", "a"], "'7' and ' 007 ' differ only in blanks", True),
    ],
)
def test_how_many_ids_must_be_odd(
    ids: list[Any], words: str, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    odd_ids.check_ids("user", Ids.of(ids), lambda row: 1)
    assert any(words in line for line in caplog.messages) == is_told


def test_bytes_of_arrow_are_told_as_text(caplog: pytest.LogCaptureFixture) -> None:
    arrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    caplog.set_level("INFO", "mfrank")
    odd_ids.tell_converted("user", arrow.array([b"a", b"b"]))
    assert "user ids are bytes, which are read as text in UTF-8" in caplog.messages
