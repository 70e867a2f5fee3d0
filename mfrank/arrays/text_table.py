"""Tables as text: aligned columns, which fit the terminal where they are shown in one."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence

__all__ = ["aligned", "terminal_width"]

Cells = Sequence[Sequence[str]]
_GAP = "  "


def terminal_width() -> int | None:
    """Columns of the terminal on stdout; None if stdout is a file, a pipe or a notebook."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def aligned(table: Cells, width: int | None = None) -> str:
    """Pad columns to their longest cell, the first left-aligned, the others right-aligned.

    Parameters
    ----------
    table : rows of cells
        The first row is the header. A column without a name belongs to the one before it.
    width : int, optional
        Columns that would go beyond it follow in blocks below, with the first column again.
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    blocks = _blocks(table[0], widths, width)
    return "\n\n".join("\n".join(_line(row, widths, block) for row in table) for block in blocks)


def _blocks(header: Sequence[str], widths: list[int], width: int | None) -> Iterator[list[int]]:
    """Numbers of the columns of each block."""
    block, together = [0], [0]
    for number in range(1, len(widths) + 1):
        if number < len(widths) and not header[number]:
            together.append(number)
            continue
        both = [*block, *together] if together[0] else block
        if width is not None and len(block) > 1 and _length(both, widths) > width:
            yield block
            both = [0, *together]
        block, together = both, [number]
    yield block


def _length(block: Sequence[int], widths: Sequence[int]) -> int:
    return sum(widths[number] for number in block) + len(_GAP) * (len(block) - 1)


def _line(row: Sequence[str], widths: Sequence[int], block: Sequence[int]) -> str:
    cells = [row[0].ljust(widths[0]), *(row[n].rjust(widths[n]) for n in block[1:])]
    return _GAP.join(cells).rstrip()
