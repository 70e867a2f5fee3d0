"""Text files: read as UTF-8, with errors by file and line.

A file may be damaged (a truncated download), in another encoding, compressed with a suffix of text,
or one line of gigabytes. Each is a ValueError as soon as it is read, so readers need not handle
errors of gzip, zlib and codecs, and memory is bounded by a long line.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Self, cast

import numpy as np

from mfrank.errors import InputValueError, within
from mfrank.files import path_of

LONGEST_LINE = 1 << 22
"""Characters of a line that are read; a file without line breaks would fill the memory."""

PACKERS: Mapping[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
"""Suffix of a packed file -> what opens it, as ``open`` does."""

_UNPACK: Mapping[str, str] = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz"}
"""Suffix of a packed file -> the program that packs, and with -dc unpacks."""

_BLOCK = 1 << 20
"""Bytes that are read at a time; arrays of that size stay in the caches."""
_HEAD = 1 << 20
"""Bytes of the first lines, which show the format."""
_FEED = ord("\n")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")  # Path makes one slash of two; C:/ is a drive
_KNOWN = (".csv", ".tsv", ".txt", ".dat", ".data", ".parquet", *PACKERS)
_PACKED = {
    b"\x1f\x8b": ("gzip", "name it with .gz, or unpack it"),
    b"PK\x03\x04": ("zip, or an Excel sheet", "unpack it, or save the sheet as .csv"),
    b"PAR1": ("Parquet", "name it .parquet"),
    b"\x28\xb5\x2f\xfd": ("zstandard", "unpack it with zstd -d"),
    b"\xfd7zXZ": ("xz", "name it with .xz, or unpack it"),
    b"BZh": ("bzip2", "name it with .bz2, or unpack it"),
}
"""First bytes of files that are not text -> what they are, and the remedy."""


class Text:
    """A text file in UTF-8, with or without a byte order mark, as blocks of whole lines.

    Lines end with a line feed, a carriage return, or both. Whatever is wrong in a line is raised
    after the blocks before it, so that the first error of a file is the one that is told.

    Parameters
    ----------
    raw : binary file
    name : str
        Name of the file, for remedies.
    """

    def __init__(self, raw: io.BufferedIOBase, name: str) -> None:
        self._raw, self._of, self._line = raw, name, 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    def __iter__(self) -> Iterator[str]:
        """Yield the lines, as :meth:`blocks` does, with what ends them."""
        for block in self.blocks():
            yield from io.StringIO(block.decode(), newline="")

    def blocks(self) -> Iterator[bytes]:
        """Yield the text in blocks of one or more lines; only the last may lack a line break.

        Raises
        ------
        ValueError
            The bytes are no text, or damaged; the message names the line, but not the file.
        """
        rest = b""
        for part in self._parts():
            block = rest + part
            # A carriage return at the end may be followed by a line feed.
            end = max(block.rfind(b"\n"), block.rfind(b"\r", 0, -1)) + 1
            rest = block[end:]
            yield from self._checked(block[:end])
            self._refuse_long(rest)
        yield from self._checked(rest)

    def head(self) -> str:
        """The first lines, whole unless the first is long; what is wrong is no error here."""
        start = b""
        with suppress(ValueError, OSError):
            for part in self._parts():
                start += part
                if len(start) >= _HEAD:
                    break
        whole = start[: 1 + max(start.rfind(b"\n", 0, _HEAD), start.rfind(b"\r", 0, _HEAD))]
        is_all = len(start) < _HEAD
        return (start if is_all else whole or start[:_HEAD]).decode("utf-8-sig", "replace")

    def pieces(self) -> Iterator[str]:
        """Yield the text in pieces that end anywhere, where lines do not matter.

        Raises
        ------
        ValueError
            As :meth:`blocks`, but lines may have any length.
        """
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        for part in self._parts():
            try:
                piece = decoder.decode(part)
            except UnicodeDecodeError:
                raise self._not_utf8() from None
            yield piece
            self._line += _n_ends(part)
        if decoder.getstate()[0]:
            raise self._not_utf8()

    def _parts(self) -> Iterator[bytes]:
        """Yield the bytes as they are, many at a time, before any error."""
        error: Exception | None = None
        while error is None:
            part = b""
            try:
                while len(part) < _BLOCK and (more := self._raw.read1(_BLOCK)):
                    part += more
            except (EOFError, OSError, zlib.error, lzma.LZMAError) as caught:
                error = caught
            if not part and error is None:
                return
            yield part
        self._tell(error)

    def _checked(self, block: bytes) -> Iterator[bytes]:
        """Yield a block, up to the first line that is not UTF-8; raise for that."""
        if self._line == 1:
            block = block.removeprefix(codecs.BOM_UTF8)
            self._refuse_utf16(block)
        # The line that was begun in earlier parts; others are no longer than a part.
        self._refuse_long(block[: 1 + _first_end(block)] if len(block) > LONGEST_LINE else b"")
        good = len(block)
        try:
            block.decode()
        except UnicodeDecodeError as error:
            before = error.start
            good = max(block.rfind(b"\n", 0, before), block.rfind(b"\r", 0, before)) + 1
        if good:
            yield block[:good]
        if good < len(block):
            raise self._not_utf8()
        self._line += _n_ends(block)

    def _refuse_long(self, line: bytes) -> None:
        if len(line) > LONGEST_LINE and len(line.decode(errors="ignore")) > LONGEST_LINE:
            raise InputValueError(
                f"longer than {LONGEST_LINE:,} characters", "is it a text file with line breaks?"
            ).within(f"line {self._line}")

    def _refuse_utf16(self, block: bytes) -> None:
        """Raise if the first line is of every other character a NUL."""
        line = block[: 1 + _first_end(block)]
        marked = line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # and not UTF-8
        if line and not marked and line.count(b"\0") * 3 > len(line.decode(errors="ignore")):
            raise self._recoded("UTF-16BE" if line[0] == 0 else "UTF-16LE")

    def _tell(self, error: Exception) -> NoReturn:
        if isinstance(error, OSError) and error.errno is not None:
            raise error
        suffix = Path(self._of).suffix.lower()
        if self._line <= 1 and suffix in _UNPACK and not isinstance(error, EOFError | zlib.error):
            raise InputValueError(
                f"it is not compressed by {_UNPACK[suffix]}, as its name says",
                f"if it is plain text, name it without {suffix}",
            ) from error
        how = "ends early" if isinstance(error, EOFError) else "is damaged"
        raise InputValueError(
            f"the compressed file {how} there ({error})", "copy or download it again"
        ).within(f"line {self._line}") from error

    def _not_utf8(self) -> InputValueError:
        """What is wrong, by a second look at the bytes."""
        self._raw.seek(0)
        head = self._raw.read(8)
        for first, (what, remedy) in _PACKED.items():
            if head.startswith(first):
                return InputValueError(f"it is compressed by or written as {what}:", remedy)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
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
        suffix = Path(self._of).suffix
        new = "new" + Path(self._of.removesuffix(suffix) if suffix in _UNPACK else self._of).suffix
        source = f"<({_UNPACK[suffix]} -dc {self._of}) >" if suffix in _UNPACK else f"{self._of} >"
        return f"{condition}convert it: iconv -f {encoding} -t UTF-8 {source} {new}"


def _first_end(block: bytes) -> int:
    """Where the first line ends, at the end of the block if nowhere."""
    ends = [at for at in (block.find(b"\n"), block.find(b"\r")) if at >= 0]
    return min(ends, default=len(block))


def _n_ends(block: bytes) -> int:
    """How many lines end in the block."""
    feeds = int(np.count_nonzero(np.frombuffer(block, np.uint8) == _FEED))
    return feeds + (block.count(b"\r") - block.count(b"\r\n") if b"\r" in block else 0)


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether the path is standard input or a pipe, which can be read only once.

    A device is not a stream: reading /dev/zero would never end.
    """
    return str(path) == "-" or path_of(path).is_fifo()


def opener_of(path: str | os.PathLike[str]) -> Callable[[], Text]:
    """The function that opens a text from its begin, each time; a stream is read at once."""
    if not is_stream(path):
        return partial(open_text, path)
    content = sys.stdin.buffer.read() if str(path) == "-" else path_of(path).read_bytes()
    return lambda: Text(io.BytesIO(content), str(path))


def open_text(path: str | os.PathLike[str]) -> Text:
    """Open a file of text for reading; unpack it if its suffix says that it is packed."""
    file = path_of(path)
    opener = PACKERS.get(file.suffix.lower(), open)
    return Text(cast(Callable[..., io.BufferedIOBase], opener)(file, "rb"), str(file))


def estimated_lines(path: str | os.PathLike[str]) -> int:
    """About how many lines a file of text has, from the bytes of its first lines."""
    file = path_of(path)
    opener = PACKERS.get(file.suffix.lower())
    with file.open("rb") as raw:
        text = Text(raw if opener is None else opener(raw, "rb"), str(file))
        n_bytes = n_lines = 0
        with errors_of(file):
            for block in text.blocks():
                n_bytes, n_lines = n_bytes + len(block), n_lines + _n_ends(block)
                if n_bytes >= _BLOCK:
                    break
        consumed = raw.tell()
    return round(n_lines * file.stat().st_size / max(1, consumed))


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
    with errors_of(file), open_text(file) as lines:
        yield from lines


@contextmanager
def errors_of(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise a ValueError as one whose message names the file first."""
    try:
        yield
    except ValueError as error:
        raise within(path, error) from error


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
