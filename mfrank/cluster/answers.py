"""Results of tasks as an engine returns them, checked before they are used.

An engine of somebody else may lose or change what tasks return. A fit would go on with it and end
in another model, so what comes back must have the form that its task gives it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays.checks import shown
from mfrank.cluster.surface import Engine

__all__ = ["array_of", "kind_of", "parts_of", "wrong"]


def wrong(engine: Engine, what: str, task: str) -> RuntimeError:
    """The error for a result that no task gives; ``task`` says what was computed."""
    return RuntimeError(
        f"cluster: the engine {type(engine).__name__} returned {what} for {task}, which is not "
        "what the task gives; use another engine, or cluster=None"
    )


def parts_of(result: Any, n: int, engine: Engine, task: str) -> tuple[Any, ...]:
    """A result of so many parts; raise RuntimeError if it is another."""
    if not isinstance(result, tuple) or len(result) != n:
        raise wrong(engine, kind_of(result), task)
    return result


def kind_of(result: Any) -> str:
    """What a result is, in a few words."""
    if isinstance(result, str | int | float | None):
        return shown(result)
    return f"a {type(result).__name__}"


def array_of(
    result: Any, shape: tuple[int, ...], dtype: DTypeLike, engine: Engine, task: str
) -> NDArray[Any]:
    """A result that is an array of this form; raise RuntimeError if it is another.

    -1 in ``shape`` is any length.
    """
    if not isinstance(result, np.ndarray):
        raise wrong(engine, f"{kind_of(result)} in place of an array", task)
    is_form = len(shape) == result.ndim and all(
        wanted in (-1, length) for wanted, length in zip(shape, result.shape, strict=True)
    )
    if not is_form or result.dtype != dtype:
        wanted = ", ".join("any" if length < 0 else str(length) for length in shape)
        raise wrong(
            engine,
            f"{result.dtype} of shape {result.shape} in place of {np.dtype(dtype)} of shape "
            f"({wanted})",
            task,
        )
    return result
