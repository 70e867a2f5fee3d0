"""Text for people: counts and sizes, tables, HTML of notebooks, warnings."""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

from mfrank.errors import Notice


def counted(number: int, noun: str) -> str:
    """Such as ``"1 epoch"``, ``"2,000 epochs"``, ``"0 entries"``; ``noun`` is the singular."""
    if number != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{number:,} {noun}"


def sized(size: int) -> str:
    """Bytes as text, such as "1.5 MiB": three digits, or all digits of the whole number."""
    number, unit = (size / 2**20, "MiB") if size < 2**30 else (size / 2**30, "GiB")
    return f"{number:.3g} {unit}" if number < 999.5 else f"{number:,.0f} {unit}"


# Tables as text: aligned columns, in blocks that fit the terminal.


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
        Columns beyond it follow in blocks below, each with the first column again.
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    blocks = _blocks(table[0], widths, width)
    return "\n\n".join("\n".join(_line(row, widths, block) for row in table) for block in blocks)


def _blocks(header: Sequence[str], widths: list[int], width: int | None) -> Iterator[list[int]]:
    """The column numbers of each block."""
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


# Plain HTML for ``_repr_html_`` in notebooks; all text is escaped.


def table(title: str, rows: Iterable[Sequence[str]], header: Sequence[str] = ()) -> str:
    """An HTML table captioned with its title; the first cell of each row is the row's header."""
    head = f"<thead><tr>{_cells('th', header)}</tr></thead>" if header else ""
    body = "".join(f"<tr>{_cells('th', row[:1])}{_cells('td', row[1:])}</tr>" for row in rows)
    return f"<table><caption>{_text(title)}</caption>{head}<tbody>{body}</tbody></table>"


def paragraphs(texts: Iterable[str]) -> str:
    """One HTML paragraph per text."""
    return "".join(f"<p>{_text(text)}</p>" for text in texts)


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{_text(text)}</{tag}>" for text in texts)


def _text(text: str) -> str:
    """Escape the text; lone surrogates, which UTF-8 cannot encode, become backslash escapes."""
    return escape(text.encode("utf-8", "backslashreplace").decode("utf-8"))


# Warnings from fits, which name the line that called mfrank.


_PACKAGE = str(Path(__file__).parents[1])


def warn_caller(message: str) -> None:
    """Issue a warning, with names marked as in errors, from the line that called mfrank."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(Notice(message), RuntimeWarning, stacklevel=level)


def tell_idle(problem: str, remedy: str) -> None:
    """Warn of an option that nothing reads, as options that are searched may be beside others."""
    warn_caller(f"{problem} {remedy}")
