"""Amounts that callers ask for, checked: counts and shares."""

from __future__ import annotations

import math
from numbers import Integral

import numpy as np

__all__ = [
    "check_above_zero",
    "check_at_least_zero",
    "check_count",
    "check_length",
    "check_shares",
    "is_count",
    "is_number",
    "share",
]


def is_count(value: object) -> bool:
    """Whether the value is an integer, of Python or numpy, and no bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether the value is a finite real number, of Python or numpy, and no bool."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond any float
        return False


def check_count(
    name: str, value: int, least: int, most: int | None = None, remedy: str = ""
) -> None:
    """Raise unless the value is an integer from ``least`` to ``most``, if larger with a remedy."""
    if not is_count(value):
        raise TypeError(f"{name} must be an int, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    if most is not None and value > most:
        end = f"; {remedy}" if remedy else ""
        raise ValueError(f"{name} must be at most {most}, got {value}{end}")


def check_length(name: str, value: int) -> None:
    """Raise unless a list can be so long: items are numbered in 32 bits."""
    check_count(name, value, 1, 2**31 - 1)


def check_above_zero(**values: float) -> None:
    """Raise unless each is a finite number above 0."""
    for name, value in values.items():
        if not is_number(value) or value <= 0:
            raise ValueError(f"{name} must be a finite number > 0, got {value!r}")


def check_at_least_zero(**values: float) -> None:
    """Raise unless each is a finite number and not below 0."""
    for name, value in values.items():
        if not is_number(value) or value < 0:
            raise ValueError(f"{name} must be a finite number >= 0, got {value!r}")


def share(name: str, value: object, otherwise: str = "") -> float:
    """The value as a share in (0, 1); ``otherwise`` tells what else might have been given."""
    if not isinstance(value, float | np.floating):
        raise TypeError(f"{name} must be {otherwise}a share (float), got {value!r}")
    if not 0 < value < 1:
        raise ValueError(f"{name} must be {otherwise}a share in (0, 1), got {value!r}")
    return float(value)


def check_shares(**shares: float) -> None:
    """Raise unless the shares are >= 0, the first > 0, and sum to 1."""
    first = next(iter(shares))
    if not all(value >= 0 for value in shares.values()) or shares[first] == 0:
        raise ValueError(f"shares must be >= 0 and {first} > 0, got {shares}")
    total = math.fsum(shares.values())
    if not math.isclose(total, 1):
        raise ValueError(f"{', '.join(shares)} must sum to 1, got {total:g}")
