"""A disk that fails where a test wants it to, and a fit that Ctrl-C ends."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mfrank.files import npy


def ended_after(engine: Callable[..., Iterator[Any]], epochs: int) -> Callable[..., Iterator[Any]]:
    """An engine that Ctrl-C ends within the epoch after these."""

    def ended(*args: Any, **kwargs: Any) -> Iterator[Any]:
        for step in engine(*args, **kwargs):
            if step.epoch > epochs:
                raise KeyboardInterrupt
            yield step

    return ended


class Fault:
    """Lets the first ``healthy`` calls through and fails the next one, or all from there on."""

    def __init__(self, healthy: int, *, forever: bool) -> None:
        self.left, self.forever, self.struck = healthy, forever, False

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def faulty(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left == -1 or (self.left < -1 and self.forever):
                self.struck = True
                self.strike()
            return function(*args, **kwargs)

        return faulty

    def strike(self) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    def half_written(self, write: Callable[..., int]) -> Callable[..., int]:
        faulty = self.wrap(write)

        def writing(self: Any, part: bytes) -> int:
            half = len(part) // 2
            return write(self, part[:half]) + faulty(self, part[half:])

        return writing

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for owner, name in [
            (os, "replace"),
            (os, "fsync"),
            (os, "open"),
            (Path, "mkdir"),
            (Path, "open"),
            (Path, "unlink"),
            (Path, "rmdir"),
            (np.lib.format, "write_array"),
        ]:
            patch.setattr(owner, name, self.wrap(getattr(owner, name)))
        patch.setattr(npy._Hashing, "write", self.half_written(npy._Hashing.write))
