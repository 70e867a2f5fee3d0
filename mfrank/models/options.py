"""Options that estimators have in common, checked, and what a saved model may name."""

from __future__ import annotations

import pkgutil
import warnings
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from mfrank import native, objectives, optimisers, schedules, trainers
from mfrank.backends import GatherDtype, choose
from mfrank.langevin import Langevin
from mfrank.trainers import Loss

__all__ = [
    "check_backend",
    "check_dtype",
    "check_gathers",
    "check_kind",
    "gather_dtype",
    "losses",
    "option_classes",
    "runnable",
    "warn_if_slow",
]

_warned = False


def check_backend(backend: Any) -> None:
    """Raise unless it is the name of a backend that can run."""
    if not isinstance(backend, str):
        raise TypeError(f"backend must be a name such as 'auto', got {backend!r}")
    choose(backend)


def check_dtype(dtype: Any) -> None:
    """Raise unless the dtype is one that factors have; None, numpy's float64, is not meant."""
    try:
        known = dtype is not None and np.dtype(dtype) in (np.float32, np.float64)
    except (TypeError, ValueError, SyntaxError):  # numpy parses texts as Python does
        known = False
    if not known:
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")


def check_kind(name: str, value: object, kind: type, example: str) -> None:
    """Raise unless an option is an object of that class of mfrank's."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be one of mfrank's, such as {example}; got {value!r}")


def gather_dtype(given: Any) -> GatherDtype | None:
    """The dtype that is meant, None where that of the factors is; raise where it is another."""
    try:
        known = given is None or np.dtype(given) == np.float16
    except (TypeError, ValueError, SyntaxError):
        known = False
    if not known:
        raise ValueError(f"gather_dtype must be None or float16, got {given!r}")
    return None if given is None else "float16"


def check_gathers(given: Any, backend: str) -> None:
    """Raise unless the backend reads fixed factors in that dtype."""
    dtype = gather_dtype(given)
    if dtype is not None and dtype not in choose(backend).GATHERS:
        raise ValueError(
            f"backend {backend!r} reads factors in their own dtype only; leave gather_dtype out, "
            "or fit on a GPU with backend='cuda'"
        )


def runnable(backend: str) -> str:
    """The backend, or, where it cannot run (saved on a machine that has it), "auto"."""
    try:
        choose(backend)
    except ValueError:
        return "auto"
    return backend


def warn_if_slow(backend: str = "auto") -> None:
    """Warn, at the first fit in the process, where "auto" has no C++ to take; asked for is fine."""
    global _warned
    if _warned or backend != "auto" or choose() is not choose("reference"):
        return
    _warned = True
    message = f"fits run in numpy, up to hundreds of times slower: {native.why_missing}"
    warnings.warn(message, RuntimeWarning, stacklevel=3)  # where fit was called


@cache
def losses() -> dict[str, type[Loss]]:
    """Every ranking loss by name, from the files of ``mfrank.trainers``."""
    files = [
        import_module(f"{trainers.__name__}.{found.name}")
        for found in pkgutil.iter_modules(trainers.__path__)
    ]
    named = {name: getattr(file, name) for file in files for name in file.__all__}
    return {name: kind for name, kind in named.items() if issubclass(kind, Loss)}


@cache
def option_classes() -> dict[str, type[Any]]:
    """Classes of options that a saved model may name."""
    files = objectives, optimisers, schedules
    named = {name: getattr(file, name) for file in files for name in file.__all__}
    return {**named, **losses(), "Langevin": Langevin}
