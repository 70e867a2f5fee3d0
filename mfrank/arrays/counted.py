"""Numbers of things, and sizes, in words, written in the same way everywhere."""

from __future__ import annotations

__all__ = ["counted", "sized"]


def counted(number: int, noun: str) -> str:
    """Such as ``"1 epoch"``, ``"2,000 epochs"``, ``"0 entries"``; ``noun`` is the singular."""
    if number != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{number:,} {noun}"


def sized(size: int) -> str:
    """Bytes as text, such as "1.5 MiB"; three digits, or all before the point if these are more."""
    number, unit = (size / 2**20, "MiB") if size < 2**30 else (size / 2**30, "GiB")
    return f"{number:.3g} {unit}" if number < 999.5 else f"{number:,.0f} {unit}"
