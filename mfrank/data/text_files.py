"""Text files: read as UTF-8, with errors by file and line.

A file may be damaged (a truncated download), in another encoding than it says, or one line of
gigabytes. Each is a ValueError as soon as it is read, so readers need not handle errors of gzip,
zlib and codecs, and memory is bounded by a long line.
"""

from __future__ import annotations

import codecs
import io
import itertools
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NoReturn, Self

import numpy as np

from mfrank.data.remote import file_of
from mfrank.data.text_bytes import (
    DAMAGE,
    HEAD,
    UNPACK,
    archive_of,
    first_end,
    opened_bytes,
    refuse_packed,
    settled_encoding,
    unpacked,
)
from mfrank.data.text_rows import Tell
from mfrank.errors import InputValueError, within

LONGEST_LINE = 1 << 22
"""Characters of a line that are read; a file without line breaks would fill the memory."""

_BLOCK = 1 << 18
"""Bytes that are read at a time; arrays of that size stay in the caches."""
_HEAD = 1 << 20
"""Bytes of the first lines, which show the format."""
_FEED = ord("\n")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")  # Path makes one slash of two; C:/ is a drive


class Text:
    """A text file as UTF-8, without its byte order mark, as blocks of whole lines.

    Lines end with a line feed, a carriage return, or both. Whatever is wrong in a line is raised
    after the blocks before it, so that the first error of a file is the one that is told.

    Parameters
    ----------
    raw : binary file
        Unpacked.
    name : str
        Name of the file, for remedies.
    encoding : str, optional
        None recognizes UTF-16 and UTF-32, and takes all else as UTF-8.
    tell : callable, optional
        Called of an encoding that was recognized.
    has_encoding : bool
        Whether the caller can name an encoding, for remedies.

    Attributes
    ----------
    fallback : str or None
        Encoding of lines that are not UTF-8, if it is known.
    """

    def __init__(
        self,
        raw: io.BufferedIOBase,
        name: str,
        encoding: str | None = None,
        tell: Tell | None = None,
        *,
        has_encoding: bool = False,
    ) -> None:
        self._raw, self._of, self._line, self._head = raw, name, 1, b""
        self._encoding, self._say, self._has_encoding = encoding, tell, has_encoding
        self._stored_in: IO[bytes] | None = None
        self.fallback: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()
        if self._stored_in is not None:  # what unpacks a file leaves it open
            self._stored_in.close()

    @classmethod
    def of(
        cls,
        stored: IO[bytes],
        name: str,
        encoding: str | None = None,
        tell: Tell | None = None,
        *,
        has_encoding: bool = False,
    ) -> Self:
        """The text of a file that may be packed, which is closed with it."""
        try:
            raw = unpacked(stored, name, tell)
        except BaseException:
            stored.close()
            raise
        made = cls(raw, name, encoding, tell, has_encoding=has_encoding)
        made._stored_in = stored
        return made

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
            # A carriage return at the end may be followed by a line feed.
            if rest.endswith(b"\r"):
                part, rest = rest + part, b""
            end = max(part.rfind(b"\n"), part.rfind(b"\r", 0, -1)) + 1
            block = b"".join((rest, memoryview(part)[:end])) if end else b""
            rest = part[end:] if end else rest + part
            yield from self._checked(block)
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
            except UnicodeDecodeError as error:
                raise self._not_utf8(error.object, error.start) from None
            yield piece
            self._line += _n_ends(part)
        if rest := decoder.getstate()[0]:
            raise self._not_utf8(rest, 0)

    def estimated_lines(self) -> int:
        """About how many lines there are, from the bytes of the first ones; none is read after."""
        n_bytes = n_lines = 0
        for part in self._parts():  # of any bytes: lines are only counted, and may be of any length
            n_bytes, n_lines = n_bytes + len(part), n_lines + _n_ends(part)
            if n_bytes >= _BLOCK:
                break
        stored = self._raw if self._stored_in is None else self._stored_in
        consumed, size = stored.tell(), stored.seek(0, io.SEEK_END)
        return round(n_lines * size / max(1, consumed))

    def _parts(self) -> Iterator[bytes]:
        """Yield the bytes in UTF-8, many at a time, before any error."""
        parts = self._stored()
        refuse_packed(self._head, self._of)
        encoding = settled_encoding(self._encoding, self._head, self._say)
        if encoding is None:
            yield from parts
            return
        decoder = codecs.getincrementaldecoder(encoding)()
        for part in itertools.chain(parts, [b""]):
            try:
                yield decoder.decode(part, final=not part).encode()
            except UnicodeDecodeError as error:
                before = error.object[: error.start]
                with suppress(UnicodeDecodeError):
                    yield before.decode(encoding).encode()
                raise InputValueError(
                    f"byte 0x{error.object[error.start]:02x} is not {self._encoding or encoding}",
                    "pass another `encoding`, such as 'latin-1'" if self._encoding else "",
                ).within(f"line {self._line}") from error

    def _stored(self) -> Iterator[bytes]:
        """Read the head, and return an iterator of the bytes as they are, before any error."""
        error: Exception | None = None
        try:
            while len(self._head) < HEAD and (more := self._raw.read1(HEAD)):
                self._head += more
        except DAMAGE as caught:
            error = caught
        return self._rest(error)

    def _rest(self, error: Exception | None) -> Iterator[bytes]:
        part = self._head
        while len(part) > _BLOCK:
            yield part[:_BLOCK]
            part = part[_BLOCK:]
        while error is None:
            try:
                while len(part) < _BLOCK and (more := self._raw.read1(_BLOCK)):
                    part += more
            except DAMAGE as caught:
                error = caught
            if not part and error is None:
                return
            yield part
            part = b""
        yield part
        self._tell(error)

    def _checked(self, block: bytes) -> Iterator[bytes]:
        """Yield a block, up to the first line that is not UTF-8; raise for that."""
        if self._line == 1:
            block = block.removeprefix(codecs.BOM_UTF8)
        # The line that was begun in earlier parts; others are no longer than a part.
        self._refuse_long(block[: 1 + first_end(block)] if len(block) > LONGEST_LINE else b"")
        try:
            if not block.isascii():
                block.decode()
        except UnicodeDecodeError as error:
            if self.fallback is not None:
                if self._say is not None:
                    self._say(logging.INFO, f"lines that are not UTF-8 are read as {self.fallback}")
                yield b"".join(_in_utf8(e, self.fallback) for e in block.splitlines(keepends=True))
                self._line += _n_ends(block)
                return
            if good := _begin_of_line(block, error.start):
                yield block[:good]
            raise self._not_utf8(block, error.start) from None
        if block:
            yield block
        self._line += _n_ends(block)

    def _refuse_long(self, line: bytes) -> None:
        if len(line) > LONGEST_LINE and len(line.decode(errors="ignore")) > LONGEST_LINE:
            raise InputValueError(
                f"longer than {LONGEST_LINE:,} characters", "is it a text file with line breaks?"
            ).within(f"line {self._line}")

    def _tell(self, error: Exception) -> NoReturn:
        if isinstance(error, OSError) and error.errno is not None:
            raise error
        how = "ends early" if isinstance(error, EOFError) else "is damaged"
        raise InputValueError(
            f"the compressed file {how} there ({error})", "copy or download it again"
        ).within(f"line {self._line}") from error

    def _not_utf8(self, block: bytes, at: int) -> InputValueError:
        """The error of a byte, with how its line would read in the encoding that is most likely."""
        begin = _begin_of_line(block, at)
        number = self._line + _n_ends(block[:begin])
        line = block[begin : begin + first_end(block[begin:])]
        return self._of_line(line, at - begin).within(f"line {number}")

    def _of_line(self, line: bytes, at: int) -> InputValueError:
        problem, likely = f"byte 0x{line[at]:02x} is not UTF-8", "cp1252"
        try:
            text = line.decode(likely).strip()
        except UnicodeDecodeError:
            return InputValueError(problem, self._converted("latin-1", "name its encoding, or, "))
        begin = max(0, min(at - 30, len(text) - 60))  # a byte is a character
        said = repr("..." * (begin > 0) + text[begin : begin + 60])
        return InputValueError(
            f"{problem}; in {likely} the line reads {said}",
            self._converted(likely, "if that is right, "),
        )

    def _converted(self, encoding: str, condition: str) -> str:
        if self._has_encoding:
            return f"{condition}pass `encoding={encoding!r}`"
        suffix = Path(self._of).suffix
        new = "new" + Path(self._of.removesuffix(suffix) if suffix in UNPACK else self._of).suffix
        source = f"<({UNPACK[suffix]} -dc {self._of}) >" if suffix in UNPACK else f"{self._of} >"
        return f"{condition}convert it: iconv -f {encoding.upper()} -t UTF-8 {source} {new}"


def _in_utf8(line: bytes, encoding: str) -> bytes:
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.decode(encoding).encode()
    return line


def _begin_of_line(block: bytes, at: int) -> int:
    return max(block.rfind(b"\n", 0, at), block.rfind(b"\r", 0, at)) + 1


def _n_ends(block: bytes) -> int:
    """How many lines end in the block."""
    feeds = int(np.count_nonzero(np.frombuffer(block, np.uint8) == _FEED))
    return feeds + (block.count(b"\r") - block.count(b"\r\n") if b"\r" in block else 0)


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether the path is standard input or a pipe, which can be read only once.

    A device is not a stream: reading /dev/zero would never end.
    """
    return str(path) == "-" or file_of(path).is_fifo()


class Opener:
    """Opens a text from its begin, each time; a stream is read at once.

    Parameters
    ----------
    path : path
        ``-`` is standard input.
    encoding : str, optional
        None recognizes it.
    tell : callable, optional
        Called of what was recognized.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        encoding: str | None = None,
        tell: Tell | None = None,
    ) -> None:
        self.path, self.encoding, self.tell = path, encoding, tell
        self._content: bytes | None = None
        if is_stream(path):
            is_input = str(path) == "-"
            self._content = sys.stdin.buffer.read() if is_input else file_of(path).read_bytes()

    def __call__(self, encoding: str | None = None) -> Text:
        """Open the text, in another encoding than that which is recognized, if it is given."""
        stored = io.BytesIO(self._content or b"")
        own = opened_bytes(file_of(self.path)) if self._content is None else stored
        return Text.of(own, str(self.path), self.encoding or encoding, self.tell, has_encoding=True)


def open_text(path: str | os.PathLike[str], tell: Tell | None = None) -> Text:
    """Open a file of text for reading; unpack it if it is packed."""
    file = file_of(path)
    return Text.of(opened_bytes(file), str(file), tell=tell)


def estimated_lines(path: str | os.PathLike[str], encoding: str | None = None) -> int:
    """About how many lines a file of text has, from the bytes of its first lines."""
    file = file_of(path)
    with errors_of(file):
        text = Text.of(opened_bytes(file), str(file), encoding, has_encoding=True)
        with text:
            return text.estimated_lines()


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
    file = file_of(path)
    if not (file.exists() or archive_of(file)):
        raise FileNotFoundError(f"there is no file {file}")
    return file


def refuse_elsewhere(path: str | os.PathLike[str]) -> None:
    """Raise ValueError, with a remedy, for a URL or a folder instead of a file."""
    file = file_of(path)
    if file.is_dir():
        raise InputValueError(f"{file} is a folder", "pass a file in it", place=file)
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
