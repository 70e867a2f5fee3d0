"""Numbers of things, and sizes, are told in one way."""

import pytest

from mfrank.arrays import counted, sized


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


@pytest.mark.parametrize(
    ("size", "told"),
    [
        (0, "0 MiB"),
        (2**19, "0.5 MiB"),
        (3 * 2**19 + 1, "1.5 MiB"),
        (998 * 2**20, "998 MiB"),
        (2**30 - 1, "1,024 MiB"),
        (2**30, "1 GiB"),
        (999 * 2**30 + 2**28, "999 GiB"),
        (999 * 2**30 + 2**29, "1,000 GiB"),
        (12_345 * 2**30, "12,345 GiB"),
    ],
)
def test_sizes_are_told_without_powers_of_ten(size: int, told: str) -> None:
    assert sized(size) == told
