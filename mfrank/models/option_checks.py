"""Checks of the options that estimators share, and the classes a saved model may name."""

from __future__ import annotations

import pkgutil
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from mfrank import losses
from mfrank.als import objectives
from mfrank.als.quadratic import QuadraticObjective
from mfrank.arrays import native
from mfrank.arrays.checks import shown
from mfrank.arrays.warned import warn_caller
from mfrank.backends import Backend, choose
from mfrank.backends.solve_options import GatherDtype
from mfrank.descent import optimizers, schedules
from mfrank.descent.langevin import Langevin
from mfrank.descent.optimizers import Optimizer
from mfrank.descent.schedules import Schedule
from mfrank.losses import Loss

__all__ = [
    "OPTION_KINDS",
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

OPTION_KINDS = (Loss, QuadraticObjective, Optimizer, Schedule)
"""Base classes that a caller's own option class may derive from."""

_warned = False


def check_backend(backend: Any) -> None:
    """Raise unless it is the name of a backend that can run."""
    choose(backend)


def check_dtype(dtype: Any) -> None:
    """Raise unless the dtype is float32 or float64; None (float64 to numpy) is refused."""
    if not _is_dtype(dtype, "float32", "float64"):
        raise ValueError(f"dtype must be float32 or float64, got {shown(dtype)}")


def check_kind(name: str, value: object, kind: type, example: str) -> None:
    """Raise unless an option is a dataclass derived from ``kind``, mfrank's or the caller's."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be one of mfrank's, such as {example}; got {shown(value)}")
    if not is_dataclass(value):
        raise TypeError(
            f"{name} must be a dataclass of its options; put @dataclass(frozen=True) above "
            f"class {type(value).__name__}"
        )


def gather_dtype(given: Any) -> GatherDtype | None:
    """Return ``"float16"``, or None for the factors' own dtype; raise ValueError for others."""
    if given is not None and not _is_dtype(given, "float16"):
        raise ValueError(f"gather_dtype must be None or float16, got {shown(given)}")
    return None if given is None else "float16"


def check_gathers(given: Any, name: str, backend: Backend) -> None:
    """Raise unless the backend of that name can read fixed factors in the given dtype."""
    dtype = gather_dtype(given)
    if dtype is not None and dtype not in backend.GATHERS:
        raise ValueError(
            f"backend {name!r} reads factors in their own dtype only; leave gather_dtype out, "
            "or fit on a GPU with backend='cuda' or on a cluster"
        )


def runnable(backend: str) -> str:
    """Return ``backend``, or "auto" if it cannot run here (the model was saved elsewhere)."""
    try:
        choose(backend)
    except ValueError:
        return "auto"
    return backend


def warn_if_slow(backend: str = "auto") -> None:
    """Warn, once per process, if "auto" falls back to numpy because the extension is missing."""
    global _warned
    if _warned or backend != "auto" or choose() is not choose("reference"):
        return
    _warned = True
    warn_caller(f"fits run in numpy, up to hundreds of times slower: {native.why_missing}")


@cache
def loss_classes() -> dict[str, type[Loss]]:
    """Every ranking loss by class name, found in the modules of ``mfrank.losses``."""
    files = [
        import_module(f"{losses.__name__}.{found.name}")
        for found in pkgutil.iter_modules(losses.__path__)
        if not found.ispkg
    ]
    named = {name: getattr(file, name) for file in files for name in file.__all__}
    return {name: kind for name, kind in named.items() if issubclass(kind, Loss)}


@cache
def option_classes() -> dict[str, type[Any]]:
    """Option classes of mfrank by name; a saved model may name these."""
    files = objectives, optimizers, schedules
    named = {name: getattr(file, name) for file in files for name in file.__all__}
    return {**named, **loss_classes(), "Langevin": Langevin}


def _is_dtype(given: Any, *names: str) -> bool:
    """Whether it is one of these dtypes, or names one."""
    try:
        return given is not None and np.dtype(given) in map(np.dtype, names)
    except (TypeError, ValueError, SyntaxError, RecursionError):  # numpy parses strs and lists
        return False
