"""The model that answers now: replaced as a whole when a newer one is saved to its folder."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from mfrank.arrays.checks import shown
from mfrank.files.manifest import MANIFEST
from mfrank.models.loading import load
from mfrank.retrieval.recommender import Recommender

__all__ = ["LiveModel"]

_LOG = logging.getLogger("mfrank.serving")

_Version = tuple[int, int, int] | None
_T = TypeVar("_T")


class LiveModel:
    """A model, and the folder in which a newer one may appear.

    A request takes :attr:`current` once and answers from that. A newer model is loaded and asked
    once, in a thread, before it takes the place of the old: no request waits for it or fails
    because of it. If the folder cannot be read, the old model stays.

    Attributes
    ----------
    current : Recommender
    folder : Path or None
        None if the model was not read from a folder.
    since : float
        Unix time at which the current model was loaded.
    loads, failures : int
        How many newer models were loaded, and how many could not be.
    """

    def __init__(self, model: Recommender | str | os.PathLike[str]) -> None:
        self.folder = None if isinstance(model, Recommender) else _folder(model)
        self._version = self._look()
        self.current = model if isinstance(model, Recommender) else load(model)
        _warm(self.current)
        self.since, self.loads, self.failures = time.time(), 0, 0
        self._hurry: Callable[[], object] | None = None

    def look_now(self) -> None:
        """Check the folder at once instead of at the next turn; safe in a signal handler."""
        if self._hurry is not None:
            self._hurry()

    async def watch(self, seconds: float, pool: ThreadPoolExecutor) -> None:
        """Check the folder forever, with this many seconds between checks."""
        loop, hurry = asyncio.get_running_loop(), asyncio.Event()
        self._hurry = lambda: loop.call_soon_threadsafe(hurry.set)
        try:
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(hurry.wait(), seconds)
                hurry.clear()
                await loop.run_in_executor(pool, self.refresh)
        finally:
            self._hurry = None

    def refresh(self) -> None:
        """Load the folder's model if it is not the current one."""
        version = self._look()
        if self.folder is None or version is None or version == self._version:
            return
        self._version = version  # a folder that cannot be read is not read again until it changes
        try:
            newer = load(self.folder)
            _warm(newer)
        except (OSError, ValueError, TypeError, MemoryError) as error:
            self.failures += 1
            _LOG.warning("the model that was loaded before still answers: %s", error)
            return
        self.current, self.since, self.loads = newer, time.time(), self.loads + 1
        _LOG.info("%s: a newer model answers", self.folder)

    def _look(self) -> _Version:
        """What changes whenever a model is saved to the folder."""
        if self.folder is None:
            return None
        try:
            found = (self.folder / MANIFEST).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def _folder(model: object) -> Path:
    if not isinstance(model, str | os.PathLike):
        raise TypeError(f"model must be a fitted model or a folder, got {shown(model)}")
    return Path(model)


def _warm(model: Recommender) -> None:
    """Ask twice: what is computed only once, on the first or second call, delays no request."""
    users, items = model.user_ids.labels[:2], model.item_ids.labels[:1]
    if not len(users) or not len(items):
        return
    for _ in range(2):
        model.recommend(users, N=1, filter_already_liked_items=model.seen is not None, n_threads=1)
        model.similar_items(items, N=1, n_threads=1)
