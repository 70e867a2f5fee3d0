"""Pickling and copying of dataclasses that have caches besides their fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

__all__ = ["MadeOfFields"]


@dataclass(frozen=True, eq=False)
class MadeOfFields:
    """A dataclass that is pickled as its fields and rebuilt by its constructor.

    Everything else is left out: caches, and objects that cannot be pickled, such as backends;
    except for what ``_noted`` names. Arrays that the constructor makes read-only are read-only
    again.
    """

    _noted: ClassVar[tuple[str, ...]] = ()
    """Attributes that are no arguments of the constructor, and that copies have, too."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """See the class."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        noted = {name: vars(self)[name] for name in self._noted if name in vars(self)}
        return _made, (type(self), given), noted


def _made(kind: type[Any], state: dict[str, Any]) -> Any:
    return kind(**state)
