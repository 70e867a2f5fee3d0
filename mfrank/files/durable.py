"""Durable writes: files and folders flushed to the disk."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO, Any

__all__ = ["flush", "sync"]


def flush(file: IO[Any]) -> None:
    """Write a file's buffered contents to the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync(folder: Path) -> None:
    """Write a folder's entries to the disk; does nothing on Windows, which has no such call."""
    if sys.platform != "win32":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
