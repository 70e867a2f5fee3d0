"""Numbers of things in words, the same way wherever they are told."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, noun: str) -> str:
    """Such as ``"1 epoch"``, ``"2,000 epochs"``, ``"0 entries"``; ``noun`` is the singular."""
    if number != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{number:,} {noun}"
