"""A progress bar that wraps the steps of a fit; the engines do not depend on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from mfrank.arrays.progress import progress_bar

__all__ = ["follow"]


class _Counted(Protocol):
    """A step with its objective."""

    @property
    def objective(self) -> float | None: ...


_Step = TypeVar("_Step", bound=_Counted)


def follow(
    steps: Iterable[_Step], total: int, label: str = "fit", unit: str = "epoch"
) -> Iterator[_Step]:
    """Yield the steps unchanged, showing progress and the remaining time on stderr.

    See :func:`mfrank.arrays.progress.progress_bar`; the first step may take long, so the bar is
    shown before it.
    """
    with progress_bar(total, label, unit) as advance:
        for step in steps:
            note = "" if step.objective is None else f"objective {step.objective:.6g}"
            advance(1, note)
            yield step
            del step  # which has large arrays: the next ones may take their place
