"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replacing"]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a draft to write beside ``path``, renamed to it when it is complete and durable.

    If the block fails, the draft vanishes and what ``path`` held is still there.
    """
    draft = path.with_name(f".{secrets.token_hex(8)}.{path.name}")
    try:
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
