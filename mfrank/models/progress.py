"""A progress bar that wraps the steps of a fit; the engines do not depend on it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Protocol, TypeVar

__all__ = ["follow"]

_WIDTH = 70


class _Counted(Protocol):
    """A step with its epoch number (from 1) and objective."""

    @property
    def epoch(self) -> int: ...

    @property
    def objective(self) -> float | None: ...


_Step = TypeVar("_Step", bound=_Counted)


def follow(
    steps: Iterable[_Step], total: int, label: str = "fit", unit: str = "epoch"
) -> Iterator[_Step]:
    """Yield the steps unchanged, showing progress and the remaining time on stderr.

    This is a tqdm bar if tqdm is installed (``pip install mfrank[progress]``), otherwise a line of
    text that is overwritten after every step.
    """
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        yield from _plain(steps, total, label, unit)
        return
    with tqdm(total=total, desc=label, unit=unit) as bar:
        for step in steps:
            if step.objective is not None:
                bar.set_postfix_str(f"objective {step.objective:.6g}", refresh=False)
            bar.update()
            yield step


def _plain(steps: Iterable[_Step], total: int, label: str, unit: str) -> Iterator[_Step]:
    began = perf_counter()
    try:
        _overwrite(f"{label}: {unit} 0/{total}")  # the first may take long
        for step in steps:
            left = (perf_counter() - began) / step.epoch * (total - step.epoch)
            value = "" if step.objective is None else f", objective {step.objective:.6g}"
            _overwrite(f"{label}: {unit} {step.epoch}/{total}{value}, {left:.0f} s left")
            yield step
    finally:
        sys.stderr.write("\n")


def _overwrite(line: str) -> None:
    """Write over the line before, which may be longer."""
    sys.stderr.write(f"\r{line:<{_WIDTH}}")
    sys.stderr.flush()
