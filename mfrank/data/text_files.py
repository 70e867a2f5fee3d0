"""Text files: read as UTF-8, with errors by file and line, and checks of quotes.

A file may be damaged (a truncated download), in another encoding, compressed with a suffix of text,
or one line of gigabytes. Each is a ValueError as soon as it is read, so readers need not handle
errors of gzip, zlib and codecs, and memory is bounded by a long line.
"""

from __future__ import annotations

import gzip
import io
import logging
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import counted, shown
from mfrank.errors import InputValueError, within
from mfrank.files import path_of

LONGEST_LINE = 1 << 22
"""Characters of a line that are read; a file without line breaks would fill the memory."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")  # Path makes one slash of two; C:/ is a drive
_KNOWN = (".csv", ".tsv", ".txt", ".dat", ".data", ".gz", ".parquet")
_PACKED = {
    b"\x1f\x8b": ("gzip", "name it with .gz, or unpack it"),
    b"PK\x03\x04": ("zip, or an Excel sheet", "unpack it, or save the sheet as .csv"),
    b"PAR1": ("Parquet", "name it .parquet"),
    b"\x28\xb5\x2f\xfd": ("zstandard", "unpack it with zstd -d"),
    b"\xfd7zXZ": ("xz", "unpack it with xz -d"),
    b"BZh": ("bzip2", "unpack it with bzip2 -d"),
}
"""First bytes of files that are not text -> what they are, and the remedy."""


class Text(io.TextIOWrapper):
    """Lines of a text file in UTF-8, with or without a byte order mark.

    Parameters
    ----------
    raw : binary file
    name : str
        Name of the file, for remedies.

    Raises
    ------
    ValueError
        During reading; the message names the line, but not the file.
    """

    def __init__(self, raw: IO[bytes], name: str) -> None:
        super().__init__(cast(Any, raw), encoding="utf-8-sig", newline="")
        self._raw, self._of, self._line = raw, name, 0

    def __next__(self) -> str:  # type: ignore[override]  # the stubs mean bytes
        self._line += 1
        try:
            line = super().readline(LONGEST_LINE + 1)
        except (EOFError, OSError, UnicodeDecodeError, zlib.error) as error:
            self._tell(error)
        if len(line) > LONGEST_LINE:
            raise InputValueError(
                f"longer than {LONGEST_LINE:,} characters", "is it a text file with line breaks?"
            ).within(f"line {self._line}")
        if self._line == 1 and line.count("\0") * 3 > len(line):
            raise self._recoded("UTF-16BE" if line[0] == chr(0) else "UTF-16LE")
        if not line:
            raise StopIteration
        return line

    def read(self, size: int | None = -1) -> str:
        """Read as any text file; the error names no line."""
        try:
            return super().read(size)
        except (EOFError, OSError, UnicodeDecodeError, zlib.error) as error:
            self._tell(error)

    def _tell(self, error: Exception) -> NoReturn:
        if isinstance(error, UnicodeDecodeError):
            raise self._not_utf8() from error
        if isinstance(error, gzip.BadGzipFile) and self._line <= 1:
            raise InputValueError(
                "it is not compressed by gzip, as its name says",
                "if it is plain text, name it without .gz",
            ) from error
        if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
            raise error
        how = "ends early" if isinstance(error, EOFError) else "is damaged"
        raise InputValueError(
            f"the compressed file {how} there ({error})", "copy or download it again"
        ).within(f"line {max(1, self._line)}") from error

    def _not_utf8(self) -> InputValueError:
        """What is wrong, by a second look at the bytes."""
        self._raw.seek(0)
        head = self._raw.read(8)
        for first, (what, remedy) in _PACKED.items():
            if head.startswith(first):
                return InputValueError(f"it is compressed by or written as {what}:", remedy)
        if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return self._recoded("UTF-16")
        self._raw.seek(0)
        lines = iter(partial(self._raw.readline, LONGEST_LINE), b"")
        for number, line in enumerate(lines, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                byte = line[error.start]
                problem = f"byte 0x{byte:02x} is not UTF-8"
                return InputValueError(problem, self._converted("LATIN1")).within(f"line {number}")
        return InputValueError("it is not UTF-8", self._converted("LATIN1"))

    def _recoded(self, encoding: str) -> InputValueError:
        problem = f"it is {encoding[:6]}, and not UTF-8"
        return InputValueError(problem, self._converted(encoding)).within("line 1")

    def _converted(self, encoding: str) -> str:
        condition = "if it is Latin-1, " if encoding == "LATIN1" else ""
        new = "new" + Path(self._of.removesuffix(".gz")).suffix
        source = f"{self._of} >" if not self._of.endswith(".gz") else f"<(gzip -dc {self._of}) >"
        return f"{condition}convert it: iconv -f {encoding} -t UTF-8 {source} {new}"


def open_text(path: str | os.PathLike[str]) -> Text:
    """Open a file of text for reading; unpack it if its name ends in .gz."""
    file = path_of(path)
    opener = gzip.open if file.suffix.lower() == ".gz" else open
    return Text(cast(Callable[..., IO[bytes]], opener)(file, "rb"), str(file))


def lines_of(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the lines of a local file of text.

    Raises
    ------
    ValueError
        The file cannot be read as text; the message names the file.
    FileNotFoundError
        There is no such file.
    """
    file = local_file(path)
    with open_text(file) as lines:
        try:
            yield from lines
        except ValueError as error:
            raise within(file, error) from error


def local_file(path: str | os.PathLike[str]) -> Path:
    """The path, if there is such a file.

    Raises
    ------
    ValueError
        As :func:`refuse_elsewhere`.
    FileNotFoundError
        There is no such file.
    """
    refuse_elsewhere(path)
    file = path_of(path)
    if not file.exists():
        raise FileNotFoundError(f"there is no file {file}")
    return file


def refuse_elsewhere(path: str | os.PathLike[str]) -> None:
    """Raise ValueError, with a remedy, for a URL or a folder instead of a file."""
    file = path_of(path)
    if file.is_dir():
        raise InputValueError(f"{file} is a folder", _in_place_of(file), place=file)
    url = _URL.match(str(path))
    if url and url[1].lower() == "file":
        raise InputValueError(f"{path} is a URL:", "pass the path without file://", place=path)
    if url and not file.exists():
        raise InputValueError(
            f"{path} is not a file of this computer:",
            "download it first, or read it with pandas or pyarrow and pass the table to "
            "`Interactions.from_frame`",
            place=path,
        )


def _in_place_of(folder: Path) -> str:
    parts = sorted(each for each in folder.glob("part-*") if each.is_file())
    if not parts:
        return (
            "pass the files in it to `Interactions.ingest`; `Interactions.open` opens one that "
            "ingest wrote, and `mfrank.movielens` reads MovieLens as distributed"
        )
    pattern = f"{folder}/part-*" + "".join(s for s in parts[0].suffixes[-2:] if s in _KNOWN)
    return (
        "Spark wrote a table to it in parts; in the shell, read them by mfrank ingest "
        f"{pattern} --folder new-folder; in Python, by "
        f"`Interactions.ingest(glob.glob({pattern!r}), 'new-folder')`"
    )


# Quotes of delimited text: what they join is found, told, or refused.
#
# In a file whose fields are not quoted, such as most with tabs, a field may begin with a quote: the
# rows up to the next quote then become one field. So rows of several lines are always told, and
# refused if each of their lines is a row by itself. Text after a closing quote is told, too.


AS_USUAL = "auto"
"""Fields may stand in double quotes, and what else a quote may mean is told or refused."""

Tell = Callable[[int, str], None]
"""Logs one line at a level."""

_OF_CALLER = "pass `quote=None` if quotes are part of the text, `quote='\"'` if they enclose fields"
_NEW_LINE, _BLANK = ord("\n"), ord(" ")


def check_quote(quote: str | None, sep: str | None) -> None:
    """Raise ValueError unless it is "auto", None, or one character that can be a quote."""
    one = isinstance(quote, str) and len(quote) == 1 and quote not in f" \r\n\0{sep or ''}"
    if not (quote is None or quote == AS_USUAL or one):
        raise InputValueError(
            f"`quote` must be 'auto', None or one character other than sep, got {shown(quote)}"
        )


class Quotes:
    """The quotes of a text, checked row by row or part by part.

    Parameters
    ----------
    separator : str
    quote : "auto", str or None
        With "auto", the quote is ``"``, and a row that has swallowed others is an error. With None,
        there are no quotes.
    width : int, optional
        Number of fields in a row; by default, any number that all lines of a row share.
    remedy : str, optional
        What to do if quotes are part of the text.
    """

    def __init__(
        self,
        separator: str,
        quote: str | None,
        width: int | None = None,
        remedy: str = _OF_CALLER,
    ) -> None:
        self.width, self.remedy = width, remedy
        self.mark = '"' if quote == AS_USUAL else quote
        self._is_sure, self._separator = quote != AS_USUAL, separator
        self._joined, self._first_joined = 0, (0, 0)
        self._loose, self._first_loose = 0, 0
        self._rest, self._line = "", 1
        if self.mark is not None:
            self._strict = _row_pattern(separator, self.mark, loose=False)
            self._row = _row_pattern(separator, self.mark, loose=True)

    def row(self, begin: int, lines: Sequence[str], *, is_loose: bool | None = None) -> None:
        """Record a row that begins in this line; raise ValueError if it is several rows.

        ``is_loose`` says whether text follows a closing quote in the row, if known.
        """
        end = begin + len(lines) - 1
        if end > begin:
            if not self._is_sure and self._are_rows(lines):
                raise InputValueError(
                    f"lines {begin} to {end} would be one row, because a quote is opened in line "
                    f"{begin} and closed in line {end}",
                    self.remedy,
                    place=f"lines {begin} to {end}",
                )
            self._joined += 1
            if self._joined == 1:
                self._first_joined = begin, end
        if is_loose is None:
            is_loose = not self._strict.fullmatch("".join(lines).rstrip("\r\n") + "\n")
        if is_loose:
            self._loose += 1
            if self._loose == 1:
                self._first_loose = begin

    def scan(self, part: str) -> None:
        """Record the rows of the next part of a text with line feeds; "" is the end of the text.

        Raises
        ------
        ValueError
            As :meth:`row`, or a quote is never closed.
        """
        if self.mark is None:
            return
        text = self._rest + (part or "\n" * bool(self._rest))
        whole = text.rfind("\n") + 1
        if self.mark not in text:
            self._line += text.count("\n", 0, whole)
            self._rest = text[whole:]
            return
        at, counted_to = 0, 0
        for start in _odd_lines(text[:whole], self._separator, self.mark):
            if start < at:
                continue
            self._line += text.count("\n", counted_to, start)
            counted_to = start
            found = self._strict.match(text, start) or self._row.match(text, start)
            if found is None:  # its end is in a later part
                if not part or len(text) - start > LONGEST_LINE:
                    problem = "a quote is opened there and not closed"
                    raise InputValueError(problem, self.remedy).within(f"line {self._line}")
                self._rest = text[start:]
                return
            lines = found[0][:-1].split("\n")
            self.row(self._line, lines, is_loose=found.re is self._row)
            at = found.end()
        self._line += text.count("\n", counted_to, whole)
        self._rest = text[whole:]

    def told(self, tell: Tell) -> None:
        """Log the findings, after the whole text has been read."""
        level = logging.INFO if self._is_sure else logging.WARNING
        if self._joined:
            begin, end = self._first_joined
            tell(
                level,
                f"quotes join several lines to one in {counted(self._joined, 'row')}, the first "
                f"from line {begin} to {end}; {self.remedy}",
            )
        if self._loose:
            tell(
                level,
                f"text follows a closing quote in {counted(self._loose, 'row')}, the first in line "
                f"{self._first_loose}, and the quotes around what precedes it are dropped; "
                f"{self.remedy}",
            )

    def _are_rows(self, lines: Sequence[str]) -> bool:
        """Whether each line has all fields of a row, two or more, if quotes are text."""
        width = self.width or self._width_of(lines[0])
        if width < 2 or self._width_of(lines[0]) != width:  # nearly always, without a generator
            return False
        return all(self._width_of(line) == width for line in lines)

    def _width_of(self, line: str) -> int:
        if self._separator == " ":
            return len(line.split())
        return line.count(self._separator) + 1


def _row_pattern(separator: str, mark: str, *, loose: bool) -> re.Pattern[str]:
    """Of a row and its line break; a loose one may have text after a closing quote."""
    mark, between = re.escape(mark), re.escape(separator)
    text = rf"(?:(?!{between})[^\r\n])*+"
    quoted = rf" *{mark}(?:[^{mark}]++|{mark}{mark})*+{mark}" + text * loose
    field = rf"(?:{quoted}|(?! *{mark}){text})"
    return re.compile(rf"{field}(?:{between}{field})*+\r?\n")


def _odd_lines(text: str, separator: str, mark: str) -> list[int]:
    """Where lines begin whose quotes do not simply enclose fields, at least those.

    In any other line quotes come in pairs, each opened where a field begins and closed where it
    ends. This is found for all lines at once, because most texts with quotes have many.
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    quotes = np.flatnonzero(codes == ord(mark))
    ends = np.flatnonzero(codes == _NEW_LINE)
    lines = np.searchsorted(ends, quotes)
    first = np.searchsorted(lines, lines)  # of the quotes of the same line
    opens = (np.arange(len(quotes)) - first) % 2 == 0
    before, behind = codes[quotes - 1], codes[np.minimum(quotes + 1, len(codes) - 1)]
    before[quotes == 0] = _NEW_LINE
    blank = before == _BLANK
    if separator != " " and blank.any():  # blanks are part of what is before them
        solid = np.where(codes == _BLANK, -1, np.arange(len(codes)))
        place = np.maximum.accumulate(solid)[quotes[blank] - 1]
        before[blank] = np.where(place < 0, _NEW_LINE, codes[place])
    enters = _is_one_of(before, f"\n{separator[-1]}")
    begins = enters | (before == ord(mark))
    closes = _is_one_of(behind, f"\r\n{separator[0]}{mark}")
    odd = np.where(opens, ~begins, ~closes)
    last = np.append(lines[1:] != lines[:-1], True)
    odd |= last & opens  # one that is opened and not closed
    may_open = np.zeros(len(ends) + 1, dtype=bool)  # in all other lines quotes are text
    may_open[lines[enters]] = True
    starts = np.concatenate([[0], ends + 1])
    found: list[int] = starts[np.unique(lines[odd & may_open[lines]])].tolist()
    return found


def _is_one_of(codes: NDArray[np.uint32], characters: str) -> NDArray[np.bool_]:
    found = np.zeros(len(codes), dtype=bool)
    for character in characters:
        found |= codes == ord(character)
    return found
