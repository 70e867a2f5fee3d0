"""What a URL asks: values within their bounds, sentences for others, and URLs of the same page."""

from __future__ import annotations

import math
from typing import Any

import pytest
from starlette.datastructures import QueryParams

from mfrank.data import Ids, UnknownIdError
from mfrank.pages.page_request import PageRequest
from tests.support.errors import refuses, unknown


def asked(query: str = "", **places: str) -> PageRequest:
    return PageRequest("/page", places, QueryParams(query))


@pytest.mark.parametrize(("query", "number"), [("n=2", 2), ("n=9", 9), ("", 7), ("n=3&n=4", 4)])
def test_whole_numbers_are_read_to_both_ends(query: str, number: int) -> None:
    assert asked(query).number("n", 7, 2, 9) == number


@pytest.mark.parametrize(
    "text", ["1", "10", "", "2.0", "%2B3", "-3", "²", "٣", "3x", "0000000003", "3" * 5000]
)
def test_other_whole_numbers_are_refused_with_the_bounds(text: str) -> None:
    with refuses(ValueError, "n"):
        asked(f"n={text}").number("n", 7, 2, 9)


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("w=-1", -1.0),
        ("w=2", 2.0),
        ("w=%20.5 ", 0.5),
        ("w=", 0.25),
        ("", 0.25),
        (f"w={1.2345678901234567e-05}", 1.2345678901234567e-05),
        (f"w={'0.' + '3' * 60}", 1 / 3),
    ],
)
def test_numbers_are_read_to_both_ends_and_however_long(query: str, number: float) -> None:
    assert asked(query).decimal("w", 0.25, -1, 2) == number


def test_there_is_no_zero_below_zero() -> None:
    assert math.copysign(1, asked("w=-0").decimal("w", 1, -1, 1)) == 1


@pytest.mark.parametrize("text", ["-1.01", "2.01", "nan", "inf", "one", "1,5", "9" * 5000])
def test_other_numbers_are_refused_with_the_bounds(text: str) -> None:
    with refuses(ValueError, "w"):
        asked(f"w={text}").decimal("w", 0.25, -1, 2)


def test_texts_are_as_long_as_is_said() -> None:
    assert asked(f"q= {'x' * 100} ").text("q") == "x" * 100
    assert asked("q=abc").text("q", 3) == "abc"
    assert asked().text("q") == ""
    with refuses(ValueError, "q"):
        asked(f"q={'x' * 101}").text("q")


def test_an_index_is_below_the_size() -> None:
    assert [asked(index=str(place)).index("index", 3) for place in range(3)] == [0, 1, 2]
    for text in ("3", "-1", "x", "1.0", "²", "0000000001", "1" * 5000):
        with refuses(UnknownIdError, "index"):
            asked(index=text).index("index", 3)


def test_ids_are_unquoted_known_and_each_once() -> None:
    known = Ids.of(["a/b", "c%", "d"])
    assert asked(item="a%2Fb").id("item", known) == "a/b"
    assert asked("like=d&like=c%25&like=d").ids("like", known) == ["d", "c%"]
    assert asked("other=d").ids("like", known) == []
    with unknown("e"):
        asked("like=d&like=e").ids("like", known)


@pytest.mark.parametrize(
    ("query", "changed", "url"),
    [
        ("", {}, "/page"),
        ("format=json&a=", {}, "/page"),
        ("a=1&b=2&format=json", {}, "/page?a=1&b=2"),
        ("a=1&b=2", {"a": None}, "/page?b=2"),
        ("a=1&b=2", {"a": 3}, "/page?b=2&a=3"),
        ("a=1&a=2", {"b": ["x y", 0]}, "/page?a=1&a=2&b=x+y&b=0"),
        ("a=1", {"format": "json"}, "/page?a=1&format=json"),
    ],
)
def test_the_url_of_a_page_keeps_all_that_does_not_change(
    query: str, changed: dict[str, Any], url: str
) -> None:
    assert asked(query).url(**changed) == url


def test_pages_have_links_to_those_beside_them() -> None:
    every = list("abcdefg")
    found = [asked(f"a=1&at={page}").paged(every, 3, "at") for page in (1, 2, 3)]
    assert [(first, "".join(some)) for _, first, some in found] == [
        (1, "abc"),
        (4, "def"),
        (7, "g"),
    ]
    links = ["/page?a=1&at=1", "/page?a=1&at=2", "/page?a=1&at=3"]
    for about, page, before, after in zip(
        (about for about, _, _ in found),
        (1, 2, 3),
        [None, *links],
        [*links[1:], None],
        strict=False,
    ):
        assert about == {"page": page, "of": 3, "total": 7, "before": before, "after": after}
    for page in (0, 4):
        with refuses(ValueError, "at"):
            asked(f"at={page}").paged(every, 3, "at")


def test_what_fits_on_a_page_is_one() -> None:
    for n in range(4):
        about, first, some = asked().paged(range(n), 3)
        assert (about["page"], about["of"], about["before"], about["after"]) == (1, 1, None, None)
        assert (first, len(some)) == (1, n)
    assert asked("page=2").paged(range(4), 3)[1:] == (4, range(3, 4))


def test_of_very_long_lists_there_are_two_hundred_pages() -> None:
    about, *_ = asked("page=200").paged(range(10_000), 3)
    assert (about["of"], about["after"], about["total"]) == (200, None, 10_000)
    with refuses(ValueError, "page"):
        asked("page=201").paged(range(10_000), 3)
