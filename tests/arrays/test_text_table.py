"""Tables fit the terminal, and every cell of theirs is shown once."""

from __future__ import annotations

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfrank.arrays import aligned, terminal_width

TABLE = [["model", "ms", "", "peak", "objective"], ["a", "1.0", "2x", "30", "-"]]


def test_without_a_width_a_row_is_a_line() -> None:
    assert aligned(TABLE).splitlines() == [
        "model   ms      peak  objective",
        "a      1.0  2x    30          -",
    ]


@given(st.integers(20, 40))
def test_no_line_is_wider_and_blocks_begin_with_the_first_column(width: int) -> None:
    shown = aligned(TABLE, width)
    assert max(map(len, shown.splitlines())) <= width
    blocks = [block.splitlines() for block in shown.split("\n\n")]
    assert all(block[0].startswith("model ") and block[1].startswith("a ") for block in blocks)
    below = [
        " ".join(cell for block in blocks for cell in block[row].split()[1:]) for row in (0, 1)
    ]
    assert below == ["ms peak objective", "1.0 2x 30 -"]


@pytest.mark.parametrize(
    ("width", "blocks"),
    [
        (31, [[0, 1, 2, 3, 4]]),
        (30, [[0, 1, 2, 3], [0, 4]]),
        (20, [[0, 1, 2, 3], [0, 4]]),
        (19, [[0, 1, 2], [0, 3], [0, 4]]),
        (1, [[0, 1, 2], [0, 3], [0, 4]]),
    ],
)
def test_a_block_has_all_columns_that_fit(width: int, blocks: list[list[int]]) -> None:
    """Those of the table are 5, 3, 2, 4 and 9 wide, with 2 between them."""
    expected = [aligned([[row[n] for n in block] for row in TABLE]) for block in blocks]
    assert aligned(TABLE, width) == "\n\n".join(expected)


def test_later_blocks_are_as_wide_as_the_first_column_makes_them() -> None:
    table = [["ninewide9", "x", "five5", "fives"], ["a", "1", "2", "3"]]
    assert max(map(len, aligned(table, 18).splitlines())) == 16
    assert aligned(table, 18).count("ninewide9") == 3


def test_an_empty_cell_is_no_column_without_a_name() -> None:
    shown = aligned([["model", "first", "second"], ["a", "1", ""]], 14)
    assert [block.split()[1] for block in shown.split("\n\n")] == ["first", "second"]


def test_a_column_without_a_name_stays_with_the_one_before() -> None:
    for block in aligned(TABLE, 14).split("\n\n"):
        assert ("1.0" in block) == ("2x" in block)


def test_what_is_too_wide_for_any_terminal_is_shown_all_the_same() -> None:
    assert aligned([["model", "x"], ["a" * 30, "1"]], 10).splitlines()[1].split() == ["a" * 30, "1"]


def test_only_a_terminal_has_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert terminal_width() is None
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "61")
    assert terminal_width() == 61
