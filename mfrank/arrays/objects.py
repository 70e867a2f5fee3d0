"""Objects: attributes computed on first access, pickles of fields, turns, values of a block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from functools import wraps
from threading import RLock
from typing import Any, ClassVar, Generic, ParamSpec, Self, TypeVar, overload

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

    All other attributes are left out, such as caches and backends, except those that ``_noted``
    names. Arrays that the constructor makes read-only are read-only again.
    """

    _noted: ClassVar[tuple[str, ...]] = ()
    """Attributes that copies have although the constructor does not take them."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """See the class."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        noted = {name: vars(self)[name] for name in self._noted if name in vars(self)}
        return _made, (type(self), given), noted


def _made(kind: type[Any], state: dict[str, Any]) -> Any:
    return kind(**state)


# Changes of one object by several threads, one after another.
#
# A change reads the object, computes, and replaces what it read: of two at once, the later would
# undo the earlier. So a method that changes a model takes a turn; other threads' changes wait until
# it ends. Methods that only read do not wait.
#
# Each object has its own locks in each process: a copy has others, and so has a forked child, where
# a turn of the parent's thread would never end.


_P = ParamSpec("_P")
_T = TypeVar("_T")

_PREFIX = "_turn to "


def in_turn(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorate a method so that it waits while another thread changes the object.

    Such methods may call each other.
    """

    @wraps(method)
    def waiting(*args: _P.args, **options: _P.kwargs) -> _T:
        with turn_of(args[0], "change"):
            return method(*args, **options)

    return waiting


def turn_of(owner: Any, what: str) -> Any:
    """The object's lock, in this process, for one kind of work."""
    return vars(owner).setdefault(f"{_PREFIX}{what} in {os.getpid()}", RLock())


def without_turns(state: dict[str, Any]) -> dict[str, Any]:
    """The attributes of an object that its copy gets: all but the locks."""
    # Copied first, in one step: another thread may add an attribute at any moment.
    return {name: value for name, value in state.copy().items() if not name.startswith(_PREFIX)}


# What holds in a block of statements, and in what they call.


@contextmanager
def set_in_block(variable: ContextVar[_T], value: _T) -> Iterator[None]:
    """Give a variable this value until the block ends."""
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)
