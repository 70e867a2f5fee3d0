"""Errors of a full disk name the path, because the system does not name a file that is open."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["wanting_room"]

_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}  # not on Windows


@contextmanager
def wanting_room(path: Path) -> Iterator[None]:
    """Name ``path`` in the error if the disk is full, a quota is used up or a file cannot grow."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.errno not in _FULL or error.filename is not None:
            raise
        message = f"{os.strerror(error.errno)}; make room and do the same again"
        raise OSError(error.errno, message, str(path)) from error
