"""Files elsewhere, by their URLs: what fsspec reads, such as s3://, gs://, hf:// and https://.

Text is read as a stream. Parquet needs parts of a file; one of an HTTP server that does not give
parts is copied to a temporary file. What opens a file, such as a password in its URL, is in no
message.
"""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from mfrank.arrays import needs
from mfrank.errors import InputValueError
from mfrank.files import path_of

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(?:::[^/]*)?://")  # C:/ is a drive
_PASSWORD = re.compile(r"(?P<before>//[^/@:]*:)(?P<secret>.*)(?P<after>@)")
_SECRETS = re.compile(
    r"(?P<before>[?&][^=&]*(?:credential|key|password|pwd|secret|sig|signature|token)[^=&]*=)"
    r"(?P<secret>[^&#]+)",
    re.IGNORECASE,
)
_BUFFER = 1 << 20


def without_password(url: str) -> str:
    """A URL without what opens it, for messages."""
    hidden = _PASSWORD.sub(r"\g<before>***\g<after>", url)
    return _SECRETS.sub(r"\g<before>***", hidden)


def password_in(url: str) -> str:
    """What :func:`without_password` leaves out first; empty if nothing."""
    found = _PASSWORD.search(url) or _SECRETS.search(url)
    return found["secret"] if found else ""


def is_url(given: object) -> bool:
    """Whether it is a text that begins as a URL."""
    return isinstance(given, str) and _URL.match(given) is not None


def local_path(url: str) -> Path | None:
    """The path of a URL ``file://``; None for others."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme.lower() == "file" else None


class _Stat(NamedTuple):
    """Size of a file, and a number that changes with it."""

    st_size: int
    st_mtime_ns: int


class RemoteFile(os.PathLike[str]):
    """A file elsewhere, with what readers need of a path.

    Parameters
    ----------
    fs : fsspec.AbstractFileSystem
    path : str
        In this file system.
    shown : str
        Its URL, without what opens it.
    """

    def __init__(self, fs: Any, path: str, shown: str) -> None:
        self.fs, self.path, self._shown = fs, path, shown
        self.is_http = "http" in ([fs.protocol] if isinstance(fs.protocol, str) else fs.protocol)

    def __str__(self) -> str:
        return self._shown

    def __fspath__(self) -> str:
        return self._shown

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteFile) and (self.fs, self.path) == (other.fs, other.path)

    def __hash__(self) -> int:
        return hash(self.path)

    @property
    def name(self) -> str:
        """The last part of the path."""
        path = self.path.partition("?")[0] if self.is_http else self.path
        return PurePosixPath(path).name

    @property
    def suffix(self) -> str:
        """The last suffix of the name."""
        return PurePosixPath(self.name).suffix

    @property
    def suffixes(self) -> list[str]:
        """The suffixes of the name."""
        return PurePosixPath(self.name).suffixes

    def with_name(self, name: str) -> PurePosixPath:
        """The path with another name, to compare."""
        return PurePosixPath(self.path).with_name(name)

    def exists(self) -> bool:
        """Whether it is there, as it was when it was listed."""
        return True

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        return False

    def is_file(self) -> bool:
        """Whether it is a file."""
        return True

    def is_fifo(self) -> bool:
        """Whether it is a pipe."""
        return False

    def stat(self) -> _Stat:
        """The size, -1 if unknown, and what changes with the content, as far as it is told."""
        with _faults(self):
            info = self.fs.info(self.path)
        marks = [str(info[key]) for key in sorted(info) if key.lower() in _CHANGES]
        size = info.get("size")
        return _Stat(-1 if size is None else int(size), zlib.crc32("\n".join(marks).encode()))

    def open(self, mode: str = "rb") -> IO[bytes]:
        """Open the file for reading."""
        return io.BufferedReader(_Opened(self), _BUFFER)


_CHANGES = {"etag", "mtime", "lastmodified", "last_modified", "created", "updated", "md5hash"}


class _Opened(io.RawIOBase):
    """The bytes of a file elsewhere, read as they come, and anew from elsewhere after a seek."""

    def __init__(self, of: RemoteFile) -> None:
        self._of, self._at, self._in_file, self._has_parts = of, 0, 0, not of.is_http
        self._file, self._size = self._connected()

    def _connected(self) -> tuple[Any, int | None]:
        """The file from its begin, and its size; one of HTTP as a stream."""
        with _faults(self._of):
            how = {} if self._has_parts else {"block_size": 0}
            file = self._of.fs.open(self._of.path, "rb", **how)
            return file, getattr(file, "size", None)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END and self._size is None:
            self._take_parts()
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at}.get(whence, self._size or 0)
        return self._at

    def readinto(self, buffer: Any) -> int:
        if self._at == self._size:
            return 0
        if self._in_file != self._at:
            if not self._has_parts and self._at:
                self._take_parts()
            elif not self._has_parts:
                self._file.close()
                self._file, _ = self._connected()
            self._in_file = self._at
            if self._has_parts:
                self._file.seek(self._at)
        with _faults(self._of):
            found = self._file.read(len(buffer))
        buffer[: len(found)] = found
        self._at = self._in_file = self._at + len(found)
        if not found and self._size is not None:
            raise _lost(self._of, self._at, self._size)
        return len(found)

    def _take_parts(self) -> None:
        """Read from now on a file of HTTP of which any part can be read."""
        self._file.close()
        with _faults(self._of):
            if self._of.fs.info(self._of.path).get("partial"):
                self._file = self._of.fs.open(self._of.path, "rb")
                self._size = self._file.size
            else:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115
                stream, size = self._connected()
                with stream:
                    shutil.copyfileobj(stream, self._file, _BUFFER)
                self._size = self._file.tell()
                if size is not None and self._size < size:
                    raise _lost(self._of, self._size, size)
        self._has_parts, self._in_file = True, -1

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _lost(file: RemoteFile, at: int, size: int) -> OSError:
    why = f"the connection was lost after {at:,} of {size:,} bytes; try again"
    return OSError(errno.EIO, why, str(file))


def _unread(file: object, error: BaseException) -> OSError:
    """An error of a file system or of a network, without a URL that it may show."""
    status = getattr(error, "status", "")
    cause = str(error).partition("\n")[0]
    what = f"{type(error).__name__} {status} {getattr(error, 'message', '') or ''}".strip()
    told = what if status or "://" in str(error) else f"{what}: {cause}".strip(": ")
    return OSError(errno.EIO, f"cannot be read ({told}); try again", str(file))


@contextmanager
def _faults(file: object) -> Iterator[None]:
    """Raise errors of file systems and of networks as OSError, with no secret of a URL."""
    try:
        yield
    except (InputValueError, MemoryError):
        raise
    except FileNotFoundError as error:
        cause = error.__cause__  # every error of a server is one of these
        is_missing = cause is None or isinstance(cause, FileNotFoundError)
        if is_missing or getattr(cause, "status", 0) in (404, 410):
            raise FileNotFoundError(f"there is no file {file}") from None
        raise _unread(file, cause or error) from None
    except ImportError as error:  # of the package for this kind of URL
        raise ModuleNotFoundError(f"{file}: {error}") from None
    except Exception as error:
        if isinstance(error, OSError) and error.filename == str(file):
            raise
        raise _unread(file, error) from None


def remote_files(url: str) -> tuple[list[RemoteFile], bool]:
    """The files at a URL, and whether it is of a folder or a pattern.

    Raises
    ------
    ValueError
        There is no such kind of URL.
    FileNotFoundError
        There is none.
    ModuleNotFoundError
        fsspec, or the package for this kind of URL, is not installed.
    """
    with needs("remote", "URLs are read with fsspec"):
        import fsspec.core
    shown = without_password(url)
    with _faults(shown):
        try:
            fs, path = fsspec.core.url_to_fs(url)
        except ValueError as error:
            raise InputValueError(
                f"{shown} is a URL that fsspec does not know", "download the file", place=shown
            ) from error
        one = RemoteFile(fs, path, shown)
        if magic := re.search(r"[*[]" if one.is_http else r"[*?[]", path):
            root, matching = path[: magic.start()].rpartition("/")[0], fs.glob(path)
            folders = [each for each in matching if fs.isdir(each)]
            found = {*matching}.difference(folders).union(*map(fs.find, folders))
        elif path.endswith("/") or (not one.is_http and fs.isdir(path)):
            root, found = path.rstrip("/"), {*fs.find(path)}
        else:
            return [one], False
        names = [each for each in sorted(found) if not _is_hidden(each[len(root) :])]
        return [RemoteFile(fs, n, without_password(fs.unstrip_protocol(n))) for n in names], True


def _is_hidden(path: str) -> bool:
    return any(part.startswith(("_", ".")) for part in path.split("/"))


def file_of(given: str | os.PathLike[str]) -> Path:
    """The path that a caller gave, or the file elsewhere, which has what readers need of a path."""
    return cast(Path, given) if isinstance(given, RemoteFile) else path_of(given)


def for_library(file: Path) -> Any:
    """What other libraries open: the path, or a file elsewhere as an open file."""
    return file if isinstance(file, Path) else file.open("rb")
