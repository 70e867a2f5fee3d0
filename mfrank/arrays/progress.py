"""A progress bar on stderr, for work that is counted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Protocol

__all__ = ["Advance", "progress_bar"]

_WIDTH = 70
_MANY = 100_000  # from here on tqdm prints 1.2M instead of 1234567


class Advance(Protocol):
    """The function by which work tells the bar how much more is done."""

    def __call__(self, n: int, note: str = "") -> None:
        """Count ``n`` more units, and show ``note`` behind them."""


@contextmanager
def progress_bar(
    total: int | None, label: str, unit: str, *, shown: bool = True
) -> Iterator[Advance]:
    """Show how much is done and the remaining time, and yield the function to call with more.

    This is a tqdm bar if tqdm is installed (``pip install mfrank[progress]``), otherwise a line of
    text that is overwritten. Nothing is shown if ``shown`` is False.

    Parameters
    ----------
    total : int or None
        Units of the whole work; None if unknown.
    label, unit : str
        Name of the work, and of what is counted, in the singular.
    shown : bool, default True
    """
    if not shown:
        yield lambda n, note="": None
        return
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        with _plain(total, label, unit) as advance:
            yield advance
        return
    many = total is None or total >= _MANY
    with tqdm(total=total, desc=label, unit=unit, unit_scale=many) as bar:

        def advance(n: int, note: str = "") -> None:
            if note:
                bar.set_postfix_str(note, refresh=False)
            bar.update(n)

        yield advance


@contextmanager
def _plain(total: int | None, label: str, unit: str) -> Iterator[Advance]:
    began, done = perf_counter(), 0

    def advance(n: int, note: str = "") -> None:
        nonlocal done
        done += n
        behind = f", {note}" if note else ""
        if total is None:
            _overwrite(f"{label}: {unit} {done:,}{behind}")
            return
        left = (perf_counter() - began) / max(done, 1) * (total - done)
        _overwrite(f"{label}: {unit} {done}/{total}{behind}, {left:.0f} s left")

    try:
        _overwrite(f"{label}: {unit} 0" + ("" if total is None else f"/{total}"))
        yield advance
    finally:
        sys.stderr.write("\n")


def _overwrite(line: str) -> None:
    """Write over the line before, which may be longer."""
    sys.stderr.write(f"\r{line:<{_WIDTH}}")
    sys.stderr.flush()
