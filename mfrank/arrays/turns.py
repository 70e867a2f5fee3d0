"""Changes of one object that wait for each other, so that none is lost.

A change reads the object, computes and replaces what was read: of two at once, the second would
undo the first. So a method that changes a model takes a turn, and calls of other threads wait until
it is over. Methods that only read wait for none.

The locks are those of one object in one process: a copy has its own, and so has a forked child, in
which a thread of the parent would never end its turn.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, ParamSpec, TypeVar

__all__ = ["in_turn", "turn_of", "without_turns"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

_PREFIX = "_turn to "


def in_turn(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Make a method wait until no other one in another thread changes the object.

    A method may call others of the same object that take turns.
    """

    @wraps(method)
    def waiting(*args: _P.args, **options: _P.kwargs) -> _T:
        with turn_of(args[0], "change"):
            return method(*args, **options)

    return waiting


def turn_of(owner: Any, what: str) -> Any:
    """The lock of an object, in this process, for those who do the same with it."""
    return vars(owner).setdefault(f"{_PREFIX}{what} in {os.getpid()}", RLock())


def without_turns(state: dict[str, Any]) -> dict[str, Any]:
    """The attributes of an object that a copy of it gets: those that are no locks."""
    # First a copy, at once: another thread may add an attribute at any moment.
    return {name: value for name, value in state.copy().items() if not name.startswith(_PREFIX)}
