"""Numbers of things are told in one way."""

import pytest

from mfrank.arrays.counted import counted


@pytest.mark.parametrize(
    ("number", "noun", "told"),
    [
        (1, "epoch", "1 epoch"),
        (0, "entry", "0 entries"),
        (1, "test entry", "1 test entry"),
        (2, "day", "2 days"),
        (2_000, "user", "2,000 users"),
    ],
)
def test_numbers_have_commas_and_nouns_agree(number: int, noun: str, told: str) -> None:
    assert counted(number, noun) == told
