"""Pickling and copying of dataclasses that have caches besides their fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

__all__ = ["MadeOfFields"]


@dataclass(frozen=True, eq=False)
class MadeOfFields:
    """A dataclass that is pickled as its fields and rebuilt by its constructor.

    Everything else is left out: caches, and objects that cannot be pickled, such as backends.
    Arrays that the constructor makes read-only are read-only again.
    """

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """See the class."""
        return _made, (type(self), {f.name: getattr(self, f.name) for f in fields(self) if f.init})


def _made(kind: type[Any], state: dict[str, Any]) -> Any:
    return kind(**state)
