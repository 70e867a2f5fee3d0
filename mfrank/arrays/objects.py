"""Attributes that are computed on first access, and pickles without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

Value = TypeVar("Value", covariant=True)


class lazy(Generic[Value]):
    """``functools.cached_property`` without a lock.

    In Python 3.11 all instances of a class share one lock: while one computes, the others wait, and
    a forked child waits forever if a thread of its parent held the lock. Here two threads may
    compute the same value; both return the one that was stored first.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...
    def __get__(self, instance: object | None, owner: type) -> Self | Value:
        if instance is None:
            return self
        value: Value = instance.__dict__.setdefault(self._name, self._compute(instance))
        return value


# Pickling and copying of dataclasses that have caches besides their fields.


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
