"""Backends by name: mfrank's own and third-party ones."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, cast

from mfrank.arrays import shown
from mfrank.backends import cpu, reference
from mfrank.backends import numpy as by_numpy
from mfrank.backends.dense import eigh, sparse_product
from mfrank.backends.surface import PARTS, Backend, members
from mfrank.errors import InputTypeError, InputValueError

# Imported here, not on first use: a thread cannot import them during interpreter exit, nor can a
# child process that was forked in the middle of the import.
_FASTEST_FIRST = {
    "cpu": cast(Backend, cpu),
    "numpy": cast(Backend, by_numpy),
    "reference": cast(Backend, reference),
}
_BY_NAME_ONLY = ("cuda",)
_GROUP = "mfrank.backends"

_registered: dict[str, Backend] = {}


def choose(name: str = "auto") -> Backend:
    """Return the backend with that name; ``"auto"`` picks the fastest CPU backend that can run.

    ``"auto"`` never picks a GPU, because GPU results agree only to rounding and detecting a GPU
    would import CuPy. It never picks a third-party backend, either.

    Raises
    ------
    TypeError
        If the name is not a str.
    ValueError
        If there is no such backend, or it cannot run here; the message says why.
    """
    if not isinstance(name, str):
        raise InputTypeError(f"`backend` must be a name such as 'auto', got {shown(name)}")
    if name == "auto":
        for fastest in _FASTEST_FIRST.values():
            if fastest.why_unavailable() is None:
                return fastest
    backend = named(name)
    if reason := backend.why_unavailable():
        raise InputValueError(f"`backend` {name!r} cannot run here: {reason}")
    return backend


def named(name: str) -> Backend:
    """Return the backend with that name, whether or not it can run here.

    Raises
    ------
    ValueError
        If there is no such backend.
    """
    if name in _FASTEST_FIRST:
        return _FASTEST_FIRST[name]
    if name in _BY_NAME_ONLY:
        return cast(Backend, import_module(f"mfrank.backends.{name}"))
    if name in _registered:
        return _registered[name]
    if name in (entries := _installed()):
        register(name, entries[name].load())
        return _registered[name]
    raise InputValueError(
        f"`backend` must be one of {', '.join(('auto', *names()))}; got {shown(name)}"
    )


def names() -> tuple[str, ...]:
    """Names of all backends, whether or not they can run here."""
    return (*_FASTEST_FIRST, *_BY_NAME_ONLY, *sorted({*_registered, *_installed()}))


def register(name: str, backend: Any) -> None:
    """Make ``backend=name`` select your own backend, in this process.

    An installed package needs no call: it declares an entry point ``name`` in the group
    ``mfrank.backends``.

    Parameters
    ----------
    name : str
        A Python identifier.
    backend : module or object
        Implements one or more parts of :class:`mfrank.backends.Backend`, or some of their
        functions; a call of a missing function raises NotImplementedError. Without ``place``,
        factors are passed unchanged; without ``why_unavailable``, the backend can always run;
        ``eigh``, ``sparse_product`` and the constants have defaults. :func:`mfrank.testing.check`
        tests the backend.

    Raises
    ------
    ValueError
        If ``name`` is a backend of mfrank or not an identifier, or ``backend`` has none of the
        functions.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise InputValueError(f"`name` must be an identifier such as 'mine', got {shown(name)}")
    if name == "auto" or name in _FASTEST_FIRST or name in _BY_NAME_ONLY:
        raise InputValueError(
            f"`name` must not be the name of one of mfrank's backends, got {shown(name)}"
        )
    if not any(hasattr(backend, part) for part in members(Backend)):
        raise InputValueError(
            f"`backend` must have some of {', '.join(sorted(members(Backend)))}; {shown(backend)} "
            "has none"
        )
    _registered[name] = guest(name, backend)


def guest(name: str, backend: Any) -> Backend:
    """A backend that has all constants, and raises NotImplementedError for functions it lacks."""
    return cast(Backend, _Guest(name, backend))


class _Guest:
    """A third-party backend, with defaults for constants and an error for missing functions."""

    def __init__(self, name: str, backend: Any) -> None:
        self._name, self._backend = name, backend

    def __getattr__(self, part: str) -> Any:
        if part.startswith("_"):  # also before __init__, when the object is being copied
            raise AttributeError(part)
        if hasattr(self._backend, part):
            return getattr(self._backend, part)
        if part in _DEFAULTS:
            return _DEFAULTS[part]
        if part in members(Backend):
            of = next((name for name, own in PARTS.items() if part in members(own)), "any")
            raise NotImplementedError(
                f"backend {self._name!r} has no {part} (of the part {of!r}), which this call "
                "needs; add it, or use another backend"
            )
        raise AttributeError(part)


_DEFAULTS: dict[str, Any] = {
    "TOLERANCE": {"float32": 1e-4, "float64": 1e-9},
    "GATHERS": (),
    "PRIORS": False,
    "SUMS": None,
    "place": lambda factors: factors,
    "eigh": eigh,
    "sparse_product": sparse_product,
    "why_unavailable": lambda: None,
}


@cache
def _installed() -> dict[str, Any]:
    """Entry points of installed packages, looked up once, when first needed."""
    return {entry.name: entry for entry in entry_points(group=_GROUP)}
