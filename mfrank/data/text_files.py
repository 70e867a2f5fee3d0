"""Text files: opened as UTF-8, and their faults named by file, line, cause and remedy.

A file may be damaged (a download that ended early), in another encoding, compressed under the name
of text, or one line of gigabytes. Each is a ValueError as soon as it is met, so that no reader
needs to know the errors of gzip, zlib and codecs, and none takes more memory than a long line.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn, cast

from mfrank.files.regular import path_of

__all__ = [
    "LONGEST_LINE",
    "Text",
    "lines_of",
    "local_file",
    "open_text",
    "refuse_elsewhere",
]

LONGEST_LINE = 1 << 22
"""Characters of a line that are read; a file without line breaks would fill the memory."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")  # Path makes one slash of two; C:/ is a drive
_KNOWN = (".csv", ".tsv", ".txt", ".dat", ".data", ".gz", ".parquet")
_PACKED = {
    b"\x1f\x8b": "gzip: name it with .gz, or unpack it",
    b"PK\x03\x04": "zip, or an Excel sheet: unpack it, or save the sheet as .csv",
    b"PAR1": "Parquet: name it .parquet",
    b"\x28\xb5\x2f\xfd": "zstandard: unpack it with zstd -d",
    b"\xfd7zXZ": "xz: unpack it with xz -d",
    b"BZh": "bzip2: unpack it with bzip2 -d",
}
"""First bytes of files that are not text -> what they are, and the remedy."""


class Text(io.TextIOWrapper):
    """Lines of a text file in UTF-8, with or without a byte order mark.

    Parameters
    ----------
    raw : binary file
    name : str
        Of the file, for the remedies.

    Raises
    ------
    ValueError
        While it is read; the message names the line, and not the file.
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
            raise ValueError(
                f"line {self._line}: longer than {LONGEST_LINE:,} characters; is it a text file "
                "with line breaks?"
            )
        if self._line == 1 and line.count("\0") * 3 > len(line):
            raise ValueError(
                f"line 1: {self._recoded('UTF-16BE' if line[0] == chr(0) else 'UTF-16LE')}"
            )
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
            raise ValueError(self._not_utf8()) from error
        if isinstance(error, gzip.BadGzipFile) and self._line <= 1:
            raise ValueError(
                "it is not compressed by gzip, as its name says; if it is plain text, name it "
                "without .gz"
            ) from error
        if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
            raise error
        how = "ends early" if isinstance(error, EOFError) else "is damaged"
        raise ValueError(
            f"line {max(1, self._line)}: the compressed file {how} there ({error}); copy or "
            "download it again"
        ) from error

    def _not_utf8(self) -> str:
        """What is wrong, by a second look at the bytes."""
        self._raw.seek(0)
        head = self._raw.read(8)
        for first, what in _PACKED.items():
            if head.startswith(first):
                return f"it is compressed by or written as {what}"
        if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return f"line 1: {self._recoded('UTF-16')}"
        self._raw.seek(0)
        lines = iter(partial(self._raw.readline, LONGEST_LINE), b"")
        for number, line in enumerate(lines, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                byte = line[error.start]
                return f"line {number}: byte 0x{byte:02x} is not UTF-8; {self._converted('LATIN1')}"
        return f"it is not UTF-8; {self._converted('LATIN1')}"

    def _recoded(self, encoding: str) -> str:
        return f"it is {encoding[:6]}, and not UTF-8; {self._converted(encoding)}"

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
            raise ValueError(f"{file}: {error}") from error


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
    """Raise ValueError for a URL or a folder where a file is needed, and say what to pass."""
    file = path_of(path)
    if file.is_dir():
        raise ValueError(f"{file} is a folder; {_in_place_of(file)}")
    url = _URL.match(str(path))
    if url and url[1].lower() == "file":
        raise ValueError(f"{path} is a URL: pass the path without file://")
    if url and not file.exists():
        raise ValueError(
            f"{path} is not a file of this computer: download it first, or read it with pandas or "
            "pyarrow and pass the table to Interactions.from_frame"
        )


def _in_place_of(folder: Path) -> str:
    parts = sorted(each for each in folder.glob("part-*") if each.is_file())
    if not parts:
        return (
            "pass the files in it to Interactions.ingest; Interactions.open opens one that ingest "
            "wrote, and mfrank.movielens reads MovieLens as distributed"
        )
    pattern = f"{folder}/part-*" + "".join(s for s in parts[0].suffixes[-2:] if s in _KNOWN)
    return (
        "Spark wrote a table to it in parts, which Interactions.ingest reads: "
        f"Interactions.ingest(glob.glob({pattern!r}), 'new-folder'), or mfrank ingest {pattern} "
        "--folder new-folder"
    )
