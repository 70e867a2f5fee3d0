"""What the bytes of a text file are: what packs them, and in which encoding they are.

Both are told by the first bytes, whatever the name of the file. Text is unpacked and converted to
UTF-8 while it is read, in bounded memory.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import importlib
import io
import logging
import lzma
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from mfrank.arrays import needs, shown
from mfrank.data.notes import note
from mfrank.data.text_rows import Tell
from mfrank.errors import InputValueError

HEAD = 1 << 12
"""Bytes from which the encoding is recognized."""


def _zstandard(file: Any, mode: str = "rb", **how: Any) -> Any:
    """Open a file of zstandard, as ``gzip.open`` does one of gzip."""
    if mode == "rb":
        return io.BufferedReader(_Frames(file if hasattr(file, "read") else open(file, "rb")))
    return _zstandard_module().open(file, mode, **how)


def _zstandard_module() -> Any:
    """``compression.zstd`` of Python 3.14, or the package."""
    try:
        return importlib.import_module("compression.zstd")
    except ModuleNotFoundError:
        with needs("zstd", "files of zstandard need Python 3.14 or the package zstandard"):
            return importlib.import_module("zstandard")


class _Frames(io.RawIOBase):
    """What frames of zstandard hold; a last one that is cut is an EOFError."""

    def __init__(self, raw: IO[bytes]) -> None:
        module = _zstandard_module()
        self._raw, self._rest = raw, b""
        self._frame: Any = None
        self._new: Callable[[], Any] = (
            module.ZstdDecompressor
            if hasattr(module, "ZstdFile")
            else module.ZstdDecompressor().decompressobj
        )
        self._error: type[Exception] = module.ZstdError

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            packed = self._frame.unused_data if self._frame is not None and self._frame.eof else b""
            packed = packed or self._raw.read(1 << 16)
            if not packed:
                if self._frame is not None and not self._frame.eof:
                    raise EOFError("a frame is not complete")
                return 0
            if self._frame is None or self._frame.eof:
                self._frame = self._new()
            try:
                self._rest = self._frame.decompress(packed)
            except self._error as error:
                raise zlib.error(str(error)) from error
        n = min(len(buffer), len(self._rest))
        buffer[:n], self._rest = self._rest[:n], self._rest[n:]
        return n

    def close(self) -> None:
        self._raw.close()
        super().close()


PACKERS: Mapping[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _zstandard,
}
"""Suffix of a packed file -> what opens it, as ``open`` does."""

ZIP = ".zip"
UNPACK: Mapping[str, str] = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
"""Suffix of a packed file -> the program that packs, and with -dc unpacks."""

_FIRST: Mapping[bytes, str] = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\0": ".xz",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"PK\x03\x04": ZIP,
    b"PK\x05\x06": ZIP,  # of nothing
}
"""First bytes of packed files -> the usual suffix."""
_TAR, _TAR_AT = b"ustar", 257
"""What archives of tar have, and where."""
DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
"""What reading a damaged packed file raises."""
_SHOWN = 20

_MARKS: Mapping[bytes, str] = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",  # begins as that of UTF-16
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""Byte order marks."""


# What packs a file.


def unpacked(raw: IO[bytes], name: str, tell: Tell | None = None) -> Any:
    """The text of a file, unpacked by what its first bytes say; told if its name says otherwise.

    Raises
    ------
    ValueError
        It is Parquet, an Excel sheet, or a zip file of several members or of none.
    """
    head, named = raw.read(8), Path(name).suffix.lower()
    raw.seek(0)
    if head.startswith(b"PAR1"):
        raise InputValueError("it is written as Parquet:", "name it .parquet")
    packer = _packer(head)
    if not packer and named in (*UNPACK, ZIP) and head:
        begin = raw.read(HEAD)
        raw.seek(0)
        if not _is_text(begin):
            raise InputValueError(
                f"it is not compressed by {UNPACK.get(named, 'zip')}, as its name says",
                f"if it is plain text, name it without {named}",
            )
    if tell is not None and head and packer != (named if named in (*PACKERS, ZIP) else ""):
        how = f"compressed by {UNPACK.get(packer, 'zip')}" if packer else "plain text"
        tell(logging.INFO, f"it is {how}, though its name does not say so, and is read as that")
    if packer:
        note(f"compressed by {UNPACK.get(packer, 'zip')}")
    if packer == ZIP:
        member = only_member(raw, name)
        return unpacked(_opened(raw, member), member)
    return PACKERS[packer](raw, "rb") if packer else raw


def _packer(head: bytes) -> str:
    """The usual suffix of a file that begins so, if it is packed; else ""."""
    return next((suffix for first, suffix in _FIRST.items() if head.startswith(first)), "")


def refuse_packed(head: bytes, name: str) -> None:
    """Raise ValueError if a text, unpacked, begins as what is packed once more, or an archive."""
    if packer := _packer(head):
        raise InputValueError(
            f"it is compressed twice: what it holds is compressed by {UNPACK.get(packer, 'zip')}",
            f"unpack it once, and name what comes out with {packer}",
        )
    if head[_TAR_AT:].startswith(_TAR):
        raise InputValueError("it is an archive of tar", f"unpack it: tar -xf {name}")


def _is_text(begin: bytes) -> bool:
    try:
        return b"\0" not in codecs.getincrementaldecoder("utf-8")().decode(begin).encode()
    except UnicodeDecodeError:
        return False


def archive_of(path: Path) -> tuple[Path, str] | None:
    """The zip file and the member that a path such as ``ml-1m.zip/ml-1m/ratings.dat`` names."""
    for folder in path.parents:
        if folder.is_file() and zipfile.is_zipfile(folder):
            member = path.relative_to(folder).as_posix()
            return (folder, member) if member in members(folder) else None
    return None


def stored_in(path: Path) -> Path:
    """The file, or the zip file of which it is a member."""
    found = None if path.exists() else archive_of(path)
    return path if found is None else found[0]


def opened_bytes(path: Path) -> IO[bytes]:
    """Open a file, or a member of a zip file, as it is stored there."""
    if path.exists() or (found := archive_of(path)) is None:
        return path.open("rb")
    return _opened(*found)


def _opened(file: Any, member: str) -> IO[bytes]:
    try:
        with zipfile.ZipFile(file) as files:  # the member keeps the file open
            return files.open(member)
    except (RuntimeError, NotImplementedError) as error:  # it has a password, or is packed oddly
        raise InputValueError(f"{member} cannot be read: {error}", "unpack it") from error


def members(file: Any) -> list[str]:
    """The members of a zip file, without folders and what macOS adds.

    Raises
    ------
    ValueError
        It is damaged.
    """
    try:
        with zipfile.ZipFile(file) as files:
            names = [each.filename for each in files.infolist() if not each.is_dir()]
    except zipfile.BadZipFile as error:
        raise InputValueError(
            f"no zip file, or a damaged one: {error}", "copy or download it again"
        ) from error
    return [n for n in names if not (n.startswith("__MACOSX/") or n.endswith(".DS_Store"))]


def only_member(file: Any, name: str) -> str:
    """The name of the only member of a zip file; a ValueError names all if there are others."""
    found = members(file)
    if "[Content_Types].xml" in found:
        raise InputValueError("it is an Excel sheet:", "save it as .csv")
    if len(found) != 1:
        more = f" and {len(found) - _SHOWN:,} more" * (len(found) > _SHOWN)
        listed = ", ".join(found[:_SHOWN]) + more if found else "none"
        raise InputValueError(
            f"a zip file is read if it has one file, and this has {listed}:",
            f"name one as {name}/{found[0]}" if found and name != "-" else "unpack it",
        )
    return found[0]


# The encoding of a text.


def check_encoding(encoding: str | None) -> None:
    """Raise ValueError unless it is None or an encoding of text that Python knows."""
    try:
        if encoding is not None and isinstance("".encode(encoding), bytes):
            return
    except (LookupError, TypeError, ValueError):
        pass
    if encoding is not None:
        raise InputValueError(
            "`encoding` must be one that Python knows, such as 'cp1252' or 'latin-1', got "
            f"{shown(encoding)}"
        )


def encoding_of(head: bytes) -> str | None:
    """The encoding of a text that begins so, if its mark or its zeros tell, else None.

    Raises
    ------
    ValueError
        It has as many zeros as UTF-16, and is not that.
    """
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            return name
    line = head[: 1 + first_end(head)]
    if not line or line.count(b"\0") * 3 <= len(line.decode(errors="ignore")):
        return None
    for name in ("utf-16-be", "utf-16-le") if line[0] == 0 else ("utf-16-le", "utf-16-be"):
        try:
            text = codecs.getincrementaldecoder(name)().decode(head)
        except UnicodeDecodeError:
            continue
        if "\0" not in text and (len(head) < HEAD or "\n" in text or "\r" in text):
            return name
    raise InputValueError(
        "it has zeros, and is no text in UTF-8 or UTF-16",
        "if it is text, convert it to UTF-8",
    ).within("line 1")


def settled_encoding(encoding: str | None, head: bytes, tell: Tell | None) -> str | None:
    """What to convert a text from that begins so; None for UTF-8. Told unless it was given.

    Raises
    ------
    ValueError
        Its mark is that of another encoding than the given one.
    """
    if encoding is None:
        found = encoding_of(head)
        if found in (None, "utf-8"):
            return None
        if tell is not None:
            tell(logging.INFO, f"it is read as {found[:6].upper()} (`encoding=` names another)")
        return found
    name = codecs.lookup(encoding).name
    mark = next((own for mark, own in _MARKS.items() if head.startswith(mark)), None)
    if mark is not None and name not in (mark, mark[:6], f"{mark}-sig"):
        raise InputValueError(
            f"it begins with the mark of {mark[:6].upper()}, and `encoding` is {encoding!r}:",
            "read it without `encoding`",
        )
    if name[:5] == "utf-8":
        return None
    if name in ("utf-16", "utf-32"):
        try:
            return mark or encoding_of(head) or f"{name}-le"
        except InputValueError:
            return f"{name}-le"
    return name


def first_end(block: bytes) -> int:
    """Where the first line ends, at the end of the block if nowhere."""
    ends = [at for at in (block.find(b"\n"), block.find(b"\r")) if at >= 0]
    return min(ends, default=len(block))
