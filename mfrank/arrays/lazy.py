"""Attributes that are computed on first access and then cached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

__all__ = ["lazy"]

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
