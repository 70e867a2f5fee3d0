"""What is printed while a fit runs: that it began, and its epochs."""

from __future__ import annotations

import sys

from mfrank.data.interactions import Interactions

__all__ = ["announce", "print_objective", "somebody_watches"]


def somebody_watches() -> bool:
    """Whether progress is worth showing: stderr is a terminal."""
    return sys.stderr.isatty()


def announce(fitted: object, data: Interactions) -> None:
    """Tell somebody who watches that the fit began: its first epoch may take long."""
    if somebody_watches():
        print(f"mfrank: fitting {fitted} to {data}", file=sys.stderr)


def print_objective(epoch: int, seconds: float, objective: float | None) -> None:
    """Print the objective after an epoch (a callback of ``fit``, which counts epochs from 0)."""
    print(f"epoch {epoch + 1:,}: objective {objective:.8g}, {seconds:.2f} s", flush=True)
