"""Checks of options that estimators share, and the option classes of saved models."""

from __future__ import annotations

from dataclasses import is_dataclass
from functools import cache
from inspect import isabstract
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank import als, descent, losses
from mfrank.als import QuadraticObjective
from mfrank.arrays import counted, installed, shown, warn_caller
from mfrank.backends import GatherDtype, choose
from mfrank.descent import Optimizer, Schedule
from mfrank.errors import InputTypeError, InputValueError
from mfrank.losses import Loss

OPTION_KINDS = (Loss, QuadraticObjective, Optimizer, Schedule)
"""Base classes that a caller's own option class may derive from."""

_warned = False


def check_backend(backend: Any) -> None:
    """Raise unless it is the name of a backend that can run."""
    choose(backend)


def check_no_dislikes(argument: str, values: NDArray[np.floating]) -> None:
    """Raise ValueError if there are negative values, which ranking losses cannot use."""
    if values.size and values.min() < 0:
        raise InputValueError(
            f"`{argument}` has {counted(int((values < 0).sum()), 'negative value')} (dislikes); "
            "ranking losses accept positives only",
            "drop them with `Interactions.at_least(0)`",
        )


def check_dtype(dtype: Any) -> None:
    """Raise unless the dtype is float32 or float64; None (float64 to numpy) is refused."""
    if not _is_dtype(dtype, "float32", "float64"):
        raise InputValueError(f"`dtype` must be float32 or float64, got {shown(dtype)}")


def check_kind(name: str, value: object, kind: type, example: str) -> None:
    """Raise unless an option is a dataclass derived from ``kind``, from mfrank or the caller."""
    if not isinstance(value, kind):
        raise InputTypeError(
            f"`{name}` must be one of mfrank's, such as {example}; got {shown(value)}"
        )
    if not is_dataclass(value):
        raise InputTypeError(
            f"`{name}` must be a dataclass of its options",
            f"put `@dataclass(frozen=True)` above class {type(value).__name__}",
        )


def gather_dtype(given: Any) -> GatherDtype | None:
    """Return ``"float16"``, or None for the dtype of the factors; raise ValueError otherwise."""
    if given is not None and not _is_dtype(given, "float16"):
        raise InputValueError(f"`gather_dtype` must be None or float16, got {shown(given)}")
    return None if given is None else "float16"


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
    if _warned or backend != "auto" or choose() is not choose("numpy"):
        return
    _warned = True
    warn_caller(f"fits run in numpy, up to hundreds of times slower: {installed.why_missing}")


def objective_classes() -> dict[str, type[QuadraticObjective]]:
    """Every ALS objective by class name, as ``mfrank.als`` names them."""
    return _concrete(als, QuadraticObjective)


def loss_classes() -> dict[str, type[Loss]]:
    """Every ranking loss by class name, as ``mfrank.losses`` names them."""
    return _concrete(losses, Loss)


@cache
def option_classes() -> dict[str, type[Any]]:
    """Option classes of mfrank by name; a saved model may name these."""
    of_descent = _concrete(descent, Optimizer) | _concrete(descent, Schedule)
    return {**objective_classes(), **loss_classes(), **of_descent}


def _concrete(folder: ModuleType, kind: type[Any]) -> dict[str, type[Any]]:
    """The classes of a kind that a folder's face names, without abstract ones."""
    named = {name: getattr(folder, name) for name in dir(folder)}
    classes = {name: one for name, one in named.items() if isinstance(one, type)}
    return {
        name: one for name, one in classes.items() if issubclass(one, kind) and not isabstract(one)
    }


def _is_dtype(given: Any, *names: str) -> bool:
    """Whether it is one of these dtypes, or names one."""
    try:
        return given is not None and np.dtype(given) in map(np.dtype, names)
    except (TypeError, ValueError, SyntaxError, RecursionError):  # numpy parses strs and lists
        return False
