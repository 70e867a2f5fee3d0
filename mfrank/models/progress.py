"""A progress bar of the steps of a fit, and the text after it; engines do not depend on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from mfrank.arrays.progress import progress_bar
from mfrank.models.stopping import Stopping

__all__ = ["follow", "note"]


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
            advance(1, note(step.objective))
            yield step
            del step  # which has large arrays: the next ones may take their place


def note(
    objective: float | None, stopping: Stopping | None = None, values: Sequence[float] = ()
) -> str:
    """The text after the bar: the objective or loss, and the last and best held-out value."""
    told = [] if objective is None else [f"objective {objective:.6g}"]
    if stopping is not None and values:
        name = getattr(stopping, "metric", "held-out value")
        told.append(f"{name} {values[-1]:.4f} (best {max(values):.4f})")
    return ", ".join(told)
