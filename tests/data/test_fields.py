"""Fields of text at once are what Python makes of each: ids, values, timestamps, text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank.data import BadRow, Ids, as_text, distinct, fields, objects, times

Fields = fields.Fields
MANY = settings(max_examples=400, deadline=None)
ids = st.integers(-(2**63), 2**63 - 1)
odd = st.sampled_from(["007", "+7", "-0", "1.0", "1e5", "1_000", "", " 1", "9" * 19, "٣", "a", "-"])
decimals = st.one_of(
    st.decimals(-(10**9), 10**9, places=3).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"[+-]?[0-9]{0,12}\.?[0-9]{0,12}", fullmatch=True),
    st.integers(-(10**20), 10**20).map(str),
    st.tuples(st.integers(2**53 - 9, 2**54 + 9), st.integers(1, 15)).map(
        lambda each: f"{str(each[0])[: each[1]]}.{str(each[0])[each[1] :]}"
    ),
)


def is_number(field: str) -> bool:
    """Whether Python prints an int64 so."""
    digits = field.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        return False
    return str(int(field)) == field and -(2**63) <= int(field) < 2**63


@MANY
@given(st.lists(ids.map(str) | st.integers(0, 99).map(str) | odd, min_size=1, max_size=6))
def test_ids_are_numbers_only_if_each_is_spelled_as_python_prints_it(texts: list[str]) -> None:
    found = Fields.of(texts).ids()
    whole = all(map(is_number, texts))
    assert found.dtype == (np.int64 if whole else object)
    assert found.tolist() == (list(map(int, texts)) if whole else texts)
    assert Fields.of(texts).ids("text").tolist() == texts
    assert as_text(found).tolist() == texts
    for text in texts:
        one = fields.whole_number(text)
        assert (type(one), str(one)) == (int if is_number(text) else str, text)


@pytest.mark.parametrize(
    "text",
    [
        *[str(n) for n in (0, 9, 10, -1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1)],
        *[str(2**64 + 1), str(-(2**64) - 1), "9" * 20, "00", "07", "-00", "-07", "-", "--1"],
    ],
)
def test_one_field_is_a_number_only_if_python_prints_an_int64_so(text: str) -> None:
    expected = int(text) if is_number(text) else text
    assert Fields.of([text]).ids().tolist() == [expected]
    assert fields.whole_number(text) == expected


def test_a_sign_without_digits_is_no_number_before_a_separator_that_is_a_digit() -> None:
    raw = b"\0" * fields.AHEAD + b"-1+1"
    places = np.array([fields.AHEAD])
    for begin in (0, 2):
        found = Fields(raw, places + begin, places + begin + 1)
        assert found.whole_numbers() is None
        with pytest.raises(BadRow):
            found.values()


def test_of_no_fields_there_are_no_numbers() -> None:
    none = Fields.of([])
    assert (none.texts(), none.values().tolist(), none.ids().tolist()) == ([], [], [])


def test_ids_of_parts_are_text_if_those_of_one_are() -> None:
    whole, text = Fields.of(["1", "-2"]).ids(), Fields.of(["3", "x"]).ids()
    assert distinct.joined_parts([whole, whole]).dtype == np.int64
    assert distinct.joined_parts([whole, text]).tolist() == ["1", "-2", "3", "x"]
    whole, text = Fields.of(["3", "-2", "3"]).ids(), distinct.Distinct().add(Fields.of(["3", "x"]))
    other = distinct.Distinct().add(Fields.of(["y", "3"]))
    joined = distinct.joined_parts([whole, text, other, whole])
    assert joined.tolist() == ["3", "-2", "3", "3", "x", "y", "3", "3", "-2", "3"]


@pytest.mark.parametrize(
    ("known", "given", "expected"),
    [
        (None, ["1", "x"], ["1", "x"]),
        ([1, 2], ["1", "-5"], [1, -5]),
        ([1, 2], ["1", "07", "x"], [1, "07", "x"]),
        ([1, 2], [1, 3], [1, 3]),
        (["1", "x"], [1, 3], ["1", "3"]),
        (["1", "x"], ["1", "y"], ["1", "y"]),
        (["x", 1, "2"], ["1", "2", "x", "4", "07"], [1, "2", "x", "4", "07"]),
        (["x", 1, "2"], [1, 2, 4], [1, "2", 4]),
        (["1", 1, "x"], ["1", "x"], ["1", "x"]),
        ([1, "x"], ["1", "x"], [1, "x"]),
        ([1, 2], [], []),
    ],
)
def test_ids_of_a_file_are_spelled_as_known_ones(
    known: list[Any] | None, given: list[Any], expected: list[Any]
) -> None:
    """``1`` and ``"1"`` are two ids; of both kinds the known one is meant."""
    labels = np.array(given) if {*map(type, given)} == {int} else objects(given)
    ids = None if known is None else Ids.of(objects(known))
    found = fields.spelled_like(labels, ids)
    assert found.tolist() == expected
    if known == [1, 2]:
        whole = all(isinstance(each, int) for each in expected)
        assert found.dtype == (np.int64 if whole else object)


@MANY
@given(st.lists(decimals, min_size=1, max_size=9))
def test_values_are_those_of_python_to_the_bit(texts: list[str]) -> None:
    def number(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            return np.nan

    each = np.array([number(text) for text in texts])
    bad = np.flatnonzero(~np.isfinite(each))
    if not len(bad):
        assert Fields.of(texts).values().tobytes() == each.tobytes()
        return
    with pytest.raises(BadRow) as refusal:
        Fields.of(texts).values()
    assert refusal.value.row == bad[0]


def test_values_are_finite_numbers_or_truths() -> None:
    found = Fields.of(["1", "-2.5", "1e3", ".5", "True", "false", "1_0", " 2", "٣"]).values()
    assert (found.dtype, found.tolist()) == (np.float64, [1, -2.5, 1000, 0.5, 1, 0, 10, 2, 3])
    for bad in ("x", "nan", "inf", "1,5", "", ".", "-", "1.2.3"):
        with pytest.raises(
            BadRow, match=f"^values must be finite numbers, got {bad!r} in row 1\n"
        ) as no:
            Fields.of(["1", bad, "y"]).values()
        assert (no.value.row, no.value.what) == (1, f"`values` must be finite numbers, got {bad!r}")


@MANY
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), max_size=6))
def test_texts_are_as_they_are(texts: list[str]) -> None:
    found = Fields.of(texts)
    assert found.texts() == texts
    assert [found.text(row) for row in range(len(texts))] == texts
    assert Fields.joined([found, Fields.of(["ä"]), found[1:]]).texts() == [*texts, "ä", *texts[1:]]
    assert found[np.arange(len(texts))[::-1]].texts() == texts[::-1]


def outcome(read: Callable[[], object]) -> object:
    """What is read, or the error."""
    try:
        return read()
    except (BadRow, TypeError) as error:
        return str(error)


TIMES = st.one_of(
    *[ids.map(str), st.integers(-9, 2 * 10**9).map(str)],
    st.sampled_from(
        ["1.5", "2.0", "007", "+5", " 7", "1e3", str(2**63), "2024-01-31", "x", "-4.25"]
    ),
)


@MANY
@given(st.lists(TIMES, min_size=1, max_size=5), st.integers(0, 3))
def test_times_of_text_are_those_of_its_objects(texts: list[str], wider: int) -> None:
    """By their own kind, or a wider one, which other parts of the column have."""
    kinds = [None, "whole", "number", "date"]
    own = kinds.index(times.time_kind([text.strip() for text in texts]))
    kind: Any = kinds[wider] if wider >= own else None

    def plain(read: Callable[[], Any]) -> object:
        found = outcome(read)
        if isinstance(found, str):
            return found
        return found.numbers.tolist(), found.kind, found.fraction, found.zones  # type: ignore[attr-defined]

    at_once = plain(lambda: times.text_moments(Fields.of(texts), kind))
    assert at_once == plain(lambda: times.moments(objects(text.strip() for text in texts), kind))


def test_moments_of_parts_are_those_of_the_whole() -> None:
    texts = ["5", "6", "7.5", "8", "9.5"]
    whole = times.text_moments(Fields.of(texts), "number")
    parts = [
        times.text_moments(Fields.of(part), "number") for part in (texts[:2], texts[2:4], texts[4:])
    ]
    joined = times.joined_moments(parts)
    assert joined.numbers.tolist() == whole.numbers.tolist() == [5, 6, 7, 8, 9]
    assert joined[1:] == whole[1:] == ("number", (2, 7.5), frozenset())
