"""Summaries of the history of a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

__all__ = ["History", "seconds_of", "summary"]

History: TypeAlias = Sequence[Mapping[str, float | int | None]]
"""One record per epoch, see :meth:`mfrank.store.step.Step.record`."""


def seconds_of(history: History) -> float:
    """Total seconds of all epochs; epochs without a time count 0."""
    return sum(float(epoch.get("seconds") or 0) for epoch in history)


def summary(history: History) -> list[tuple[str, str]]:
    """Names and values of the number of epochs, the seconds and, if recorded, the objective."""
    if not history:
        return []
    rows = [("epochs", f"{len(history):,}"), ("seconds", f"{seconds_of(history):.2f}")]
    objective = history[-1].get("objective")
    return rows if objective is None else [*rows, ("last objective", f"{objective:.6g}")]
