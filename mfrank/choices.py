"""Options that are one of a few names."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["check_choice"]


def check_choice(name: str, value: object, known: Iterable[object]) -> None:
    """Raise unless the value is one of the known: texts, None, True or False."""
    known = tuple(known)
    if not any(value is one or (isinstance(value, str) and value == one) for one in known):
        raise ValueError(f"{name} must be one of {', '.join(map(str, known))}; got {value!r}")
