"""The extension reads text as numpy and Python do: the same columns, words and errors."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reading import in_numpy

from mfrank.arrays import ext
from mfrank.data import Dialect, delimited, distinct, fields, text_files, times

pytestmark = pytest.mark.skipif(ext is None, reason="the extension is not built")
FORMS = ["%d-%d-%d", "%04d-%02d-%02d", "%04d-%02d-%02dT00:00:60", "%04d-%02d-%02d 23:59:59.25"]


def by_both(read: Any) -> tuple[Any, Any]:
    """What it returns or raises by the extension, and in numpy."""

    def outcome() -> Any:
        try:
            return read()
        except ValueError as error:
            return type(error), str(error)

    with pytest.MonkeyPatch.context() as patch:
        in_numpy(patch)
        there = outcome()
    return outcome(), there


def columns_of(text: str, size: int, **how: Any) -> Any:
    said = list[tuple[int, str]]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "_BLOCK", size)
        found = delimited.TextTable(
            lambda: text_files.Text(io.BytesIO(text.encode()), "a.csv"),
            Dialect(**how),
            ",",
            {},
            "auto",
            lambda *line: said.append(line),
        ).settled()
    return {role: (column.dtype, column.tolist()) for role, column in found.items()}, said


FIELDS = st.sampled_from(
    [
        *("1", "22", "-3", "4.5", "a", '"b"', '"c,d"', '"e""f"', 'g"h', '"', '""', "", " ", " 7"),
        *("user", '"\n"', "2024-02-29", "2024-02-30 10:00:00", ":", "x:", "é", '"k"l', "8 "),
        " " * 40 + "m",
    ]
)


@given(
    st.lists(st.lists(FIELDS, min_size=2, max_size=4), min_size=1, max_size=12),
    st.sampled_from([",", "\t", "::", " ", ";", "|"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.sampled_from([3, 17, 1 << 18]),
)
@example([["a", "b"], ['"', "d"], ['e"', "f"]], ",", "\n", True, 3)
def test_any_table(
    rows: list[list[str]], separator: str, end: str, has_header: bool, size: int
) -> None:
    header = [["user", "item", "rating", "time"][: len(rows[0])]] * has_header
    text = "".join(separator.join(row) + end for row in header + rows)
    native, numpy = by_both(lambda: columns_of(text, size, sep=separator, header=has_header))
    assert native == numpy


@given(st.integers(0, 10**19 - 1), st.integers(0, 19), st.sampled_from(["", "-", "+"]))
@example(2**53 + 1, 0, "")
@example(9007199254740993, 1, "")
@example(10**19 - 1, 19, "-")
def test_decimals_are_the_nearest_numbers(digits: int, places: int, sign: str) -> None:
    whole = str(digits).rjust(places, "0")
    text = f"{sign}{whole[: len(whole) - places]}.{whole[len(whole) - places :]}"
    for each in (text, text.rstrip("."), f"{sign}{digits}"):
        (found,) = fields.Fields.of([each]).values().tolist()
        assert math.copysign(1, found) == math.copysign(1, float(each))
        assert found == float(each), each


@given(
    st.integers(0, 10_000), st.integers(0, 13), st.integers(0, 32),
    st.sampled_from(FORMS), st.sampled_from(["", "Z", " UTC", "+01:00", " "]),
)  # fmt: skip
@example(2000, 2, 29, FORMS[1], "")
@example(1900, 2, 29, FORMS[3], "Z")
@example(1, 1, 1, FORMS[1], "")
@example(9999, 12, 31, FORMS[3], "")
def test_dates(year: int, month: int, day: int, form: str, zone: str) -> None:
    text = form % (year, month, day) + zone * (len(form) > 20)
    for texts in ([text], ["2024-01-31 15:59:30", text], ["2024-01-31", text, "7"]):
        native, numpy = by_both(
            lambda texts=texts: _told(times.text_moments(fields.Fields.of(texts)))
        )
        assert native == numpy


def _told(moments: Any) -> Any:
    return moments.numbers.tolist(), moments.kind, moments.fraction, moments.zones


@given(st.lists(st.text(max_size=20).filter(lambda text: "\0" not in text), max_size=60))
def test_distinct_texts_are_numbered_as_they_come(texts: list[str]) -> None:
    texts = [text.encode(errors="ignore").decode() for text in texts]
    known = list(dict.fromkeys(texts))
    own = fields.Fields.of(texts)
    both = distinct.Distinct()
    for rows in (slice(0, 7), slice(7, None)):
        column = both.add(own[rows])
        assert column.tolist() == list(column) == np.asarray(column).tolist() == texts[rows]
    assert both.texts() == known


def test_a_table_of_distinct_texts_grows() -> None:
    texts = [f"{number % 5000:>{1 + number % 90}}" for number in range(20_000)]
    column = distinct.Distinct().add(fields.Fields.of(texts))
    assert column.tolist() == texts
    names, numbers = column.present()
    assert len(names) == len(set(texts))
    assert numbers.tolist() == list(range(len(names)))


@pytest.mark.parametrize("n_rows", [0, 1, 1 << 50])
def test_an_estimate_of_rows_may_be_far_from_true(
    n_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(f"u{row % 7},{row % 5},{row / 2}\n" for row in range(300))
    expected, _ = columns_of(text, 1 << 18, header=False)
    monkeypatch.setattr(delimited.TextTable, "_estimated_rows", lambda _: n_rows)
    assert columns_of(text, 100, header=False)[0] == expected


@pytest.mark.parametrize(
    "call",
    [
        lambda raw, at: ext.whole_numbers(raw, at - 20, at, np.empty(1, np.int64)),
        lambda raw, at: ext.whole_numbers(raw, at, at + 99, np.empty(1, np.int64)),
        lambda raw, at: ext.dates(raw, at + 1, at, np.empty(1, np.int64)),
        lambda raw, at: ext.decimals(raw, at, at, np.empty(2), np.empty(1, bool)),
        lambda raw, at: ext.split_rows(
            raw, separator=b",", quote=b"", columns=np.array([0, 5], np.int32), n_needed=2,
            name=None, n_first=0, begins=at[None], ends=at[None], lines=at, odd=at,
        ),
        lambda raw, at: ext.fill_slots((np.zeros(3, np.uint64), at, np.zeros(9, np.uint8)), 0),
        lambda raw, at: ext.fill_slots((np.zeros(6, np.uint64), at // 3, np.zeros(9, np.uint8)), 1),
    ],
)  # fmt: skip
def test_what_lies_outside_is_refused(call: Any) -> None:
    with pytest.raises((IndexError, ValueError)):
        call(b"\0" * 24 + b"1,2\n\0", np.array([24]))
