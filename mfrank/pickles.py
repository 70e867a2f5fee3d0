"""Pickles and copies of dataclasses that keep more than their fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

__all__ = ["MadeOfFields"]


@dataclass(frozen=True, eq=False)
class MadeOfFields:
    """Pickled as its fields and made of them again: what is cached is left out.

    So is what cannot be pickled, as backends, and arrays are read-only again where the constructor
    makes them so.
    """

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """See the class."""
        return _made, (type(self), {f.name: getattr(self, f.name) for f in fields(self) if f.init})


def _made(kind: type[Any], state: dict[str, Any]) -> Any:
    return kind(**state)
