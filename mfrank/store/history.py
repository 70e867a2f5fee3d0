"""Summaries of the history of a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

__all__ = ["History", "epochs_of", "seconds_of", "summary"]

History: TypeAlias = Sequence[Mapping[str, float | int | None]]
"""One record per epoch, see :meth:`mfrank.store.step.Step.record`. Epoch 0 is a start that
was judged."""


def epochs_of(history: History) -> int:
    """Number of epochs; epoch 0, which is the start of a fit, is none."""
    return sum(record.get("epoch") != 0 for record in history)


def seconds_of(history: History) -> float:
    """Total seconds of all epochs; epochs without a time count 0."""
    return sum(float(epoch.get("seconds") or 0) for epoch in history)


def summary(history: History) -> list[tuple[str, str]]:
    """Names and values of the number of epochs, the seconds and, if recorded, the objective."""
    if not history:
        return []
    rows = [("epochs", f"{epochs_of(history):,}"), ("seconds", f"{seconds_of(history):.2f}")]
    objective = history[-1].get("objective")
    return rows if objective is None else [*rows, ("last objective", f"{objective:.6g}")]
