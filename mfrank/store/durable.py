"""What is on the disk when it is said to be, whatever happens next."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO, Any

__all__ = ["flush", "sync"]


def flush(file: IO[Any]) -> None:
    """Make what was written to a file durable."""
    file.flush()
    os.fsync(file.fileno())


def sync(folder: Path) -> None:
    """Make a folder's own entries durable; Windows has no such call."""
    if sys.platform != "win32":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
