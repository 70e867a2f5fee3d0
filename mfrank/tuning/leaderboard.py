"""What a search tried, best first."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, overload

from mfrank.arrays.notebook import table
from mfrank.arrays.text_table import terminal_width
from mfrank.files.atomic import replacing
from mfrank.files.regular import path_of

__all__ = ["Leaderboard", "Row"]

Row = dict[str, Any]
"""A line of a leaderboard, as types that JSON has."""

_COLUMNS = ("rank", "value", "interval", "factors", "epochs", "seconds", "used", "model")
_SHOWN = 10


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Leaderboard(Sequence[Row]):
    """A sequence of dicts, best first; ``print`` shows the first ten.

    Each has ``rank`` from 1, ``family``, ``model`` (the call that makes it), ``factors``,
    ``epochs`` (the best number of them), ``rung``, ``metric``, ``value``, ``standard_error``,
    ``low`` and ``high`` (a 95 % interval over the users judged), ``seconds`` (of the trial),
    ``weight`` (in the final model; None if it is not part of it) and ``error`` (why it failed or
    was given up). Kinds of models for which there was no memory or time have a line too: it has no
    value, and its ``error`` says why.

    Values are of the validation part, on which the models were also chosen: those of the best are
    somewhat too high.

    Attributes
    ----------
    rows : tuple of dict
    """

    rows: tuple[Row, ...]

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The rows as JSON, also written to a file, atomically, if ``path`` is given."""
        text = json.dumps(list(self.rows), indent=2)
        if path is not None:
            with replacing(path_of(path)) as draft:
                draft.write_text(text + "\n", encoding="utf-8")
        return text

    def to_frame(self) -> Any:
        """The rows as a DataFrame.

        Raises
        ------
        ImportError
            pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install mfrank[pandas]") from None
        return pd.DataFrame(list(self.rows))

    def __repr__(self) -> str:
        cells = [_COLUMNS, *self._cells()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        most = terminal_width()
        lines = [line for row in cells for line in _lines(row, widths, most)]
        left_out = len(self.rows) - _SHOWN
        return "\n".join([*lines, *([f"... {left_out} more"] if left_out > 0 else [])])

    def _repr_html_(self) -> str:
        return table("Leaderboard", self._cells(), _COLUMNS)

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            (
                str(row["rank"]),
                "-" if row["value"] is None else f"{row['value']:.4f}",
                "-" if row["low"] is None else f"{row['low']:.4f} to {row['high']:.4f}",
                "-" if row["factors"] is None else str(row["factors"]),
                str(row["epochs"]),
                f"{row['seconds']:.1f}",
                "" if row["weight"] is None else f"{row['weight']:g}",
                row["model"] if row["error"] is None else f"{row['model']}: {row['error']}",
            )
            for row in self.rows[:_SHOWN]
        ]


def _lines(row: Sequence[str], widths: Sequence[int], most: int | None) -> list[str]:
    """A row as a line; if it is wider than the terminal, its model is on a line below."""
    line = "  ".join(map(str.ljust, row, widths)).rstrip()
    if most is None or len(line) <= most:
        return [line]
    indent = " " * (widths[0] + 2)
    below = wrap(row[-1], most, initial_indent=indent, subsequent_indent=indent)
    return [line.removesuffix(row[-1]).rstrip(), *below]
