"""The current model of a service, replaced when a newer one is saved to its folder."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import threading
import time
import weakref
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Literal

from mfrank.arrays import shown
from mfrank.data import Ids
from mfrank.errors import InputTypeError, InputValueError
from mfrank.files import MANIFEST, path_of
from mfrank.models import load, roll_back, values_told
from mfrank.retrieval import Recommender, unannounced
from mfrank.serving.catalogue import Catalogue, ItemsOfModel
from mfrank.serving.item_source import ItemSource

_LOG = logging.getLogger("mfrank.serving")
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a folder that could not be loaded is tried again: they double each time."""

_AWAITED = 5.0
"""Seconds to wait for a model that another process has loaded first."""

_Version = tuple[int, int, int, int] | None
_Order = Literal["load", "end"]


class CannotRollBackError(InputValueError):
    """There is no version before the current one, or the current one is another."""


class LiveModel:
    """A model, and the folder in which a newer one may appear.

    A request reads :attr:`now`, the current model and its version, once. A newer model is loaded,
    and called once, in a thread before it replaces the old one, so no request waits or fails
    because of it. If a load raises an error, the old model stays, and the load is retried.

    Attributes
    ----------
    name : str or None
        The arm of an experiment that it is; None in a service of one model.
    now : tuple of Recommender and str
        The current model and its version, replaced as a whole.
    current : Recommender
    version : str
        A name of the current model, the same in all processes that serve its folder.
    folder : Path or None
        None if the model was not read from a folder.
    since : float
        Unix time at which the current model was loaded.
    loads, failures : int
        Numbers of loaded newer models and of failed loads.
    error : str or None
        Reason of the last load's failure; None if it succeeded.
    catalogue : Catalogue or None
        The table of items.
    """

    def __init__(
        self,
        model: Recommender | str | os.PathLike[str],
        classes: Iterable[type] | type = (),
        trust: bool = False,
        mmap: bool = False,
        items: ItemSource | None = None,
        name: str | None = None,
    ) -> None:
        self.name = name
        self.folder = None if isinstance(model, Recommender) else _folder(model)
        self._classes = (classes,) if isinstance(classes, type) else tuple(classes)
        self._trust, self._mmap = trust, mmap
        if self.folder is None and (self._classes or trust or mmap):
            raise InputValueError(
                "`classes`, `trust` and `mmap` are for a folder", "this model is loaded already"
            )
        self._version = self._look()
        first = model if isinstance(model, Recommender) else self._loaded(_folder(model))
        _warm(first)
        self.now: tuple[Recommender, str] = first, self._name()
        # The version before, for pages that were begun with it; replaced as a whole.
        self._held: tuple[Recommender, str, float] | None = None
        self._paged_until, self._holds = 0.0, 0.0
        self.catalogue = None if items is None else Catalogue(items, self.current.item_ids)
        self.since, self.loads, self.failures = time.time(), 0, 0
        self.error: str | None = None
        self._failed: _Version = None
        self._pause, self._again = 0.0, 0.0
        # A SimpleQueue, because a signal handler may put into it at any moment.
        self._orders: SimpleQueue[_Order] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._beginning, self._loading = threading.Lock(), threading.Lock()

    @property
    def current(self) -> Recommender:
        """The current model."""
        return self.now[0]

    @property
    def version(self) -> str:
        """The version of the current model."""
        return self.now[1]

    def stated(self, version: str) -> dict[str, str]:
        """What an answer says of its model: nothing where there is one model without a name."""
        return {} if self.name is None else {"arm": self.name, "version": version}

    def stated_bytes(self, version: str) -> bytes:
        """The same as what takes the place of the last brace of an object of JSON."""
        told = self.stated(version)
        return b"," + json.dumps(told, separators=(",", ":"))[1:].encode() if told else b"}"

    def of_version(self, version: str) -> Recommender | None:
        """The model of a version, if it is the current one or still held."""
        model, current = self.now
        if version == current:
            return model
        held = self._held
        if held is not None and held[1] == version and time.monotonic() < held[2]:
            return held[0]
        return None

    async def awaited(self, version: str) -> Recommender | None:
        """The same; if another process already answers with it, this one loads it first."""
        until = time.monotonic() + _AWAITED
        if self.of_version(version) is None and self._name() == version:
            self.look_now()
            while self.of_version(version) is None and time.monotonic() < until:
                await asyncio.sleep(0.01)
        return self.of_version(version)

    def hold(self, version: str, seconds: float) -> None:
        """Hold a version for so long, also if it is replaced: more pages may be asked of it."""
        until, held = time.monotonic() + seconds, self._held
        if version == self.version:
            self._paged_until = until
        elif held is not None and held[1] == version:
            self._held = held[0], version, until

    def hold_always(self, seconds: float) -> None:
        """Hold every replaced version for so long: other processes may have begun pages of it."""
        self._holds = seconds

    @property
    def is_watched(self) -> bool:
        """Whether a thread checks the folder."""
        return self.folder is not None and self._thread is not None

    def items_of(self, model: Recommender) -> ItemsOfModel | None:
        """The table of items in the order of a model's; None if there is no table."""
        return None if self.catalogue is None else self.catalogue.of(model.item_ids)

    @property
    def _is_of_files(self) -> bool:
        return self.folder is not None or (
            self.catalogue is not None and self.catalogue.source.is_watched
        )

    def look_now(self) -> None:
        """Read the folder and the items at once, newer or not; safe in a signal handler."""
        if not self._is_of_files:
            _LOG.warning("there is nothing to reload: this model was not read from a folder")
        else:
            self._orders.put("load")

    def watch(self, seconds: float) -> None:
        """Check the folder from now on, in a thread, with this many seconds between checks.

        The thread ends with :meth:`stop`, or when nothing else holds this object.
        """
        with self._beginning:
            if not self._is_of_files or self._thread is not None:
                return
            orders = self._orders
            held = weakref.ref(self, lambda _: orders.put("end"))
            self._thread = threading.Thread(
                target=_keep_watch,
                args=(held, orders, seconds),
                name="mfrank-reload",
                daemon=True,
            )
            self._thread.start()

    def stop(self) -> None:
        """End the thread that checks the folder, after the load that it is busy with."""
        with self._beginning:
            if self._thread is not None:
                self._orders.put("end")
                self._thread, self._orders = None, SimpleQueue()

    def refresh(self, *, forced: bool = False) -> None:
        """Load the folder's model if it is not the current one, or ``forced``.

        A failed load is retried after a pause, or at once if the folder changes. The table of
        items is read again, too, if its file has changed.
        """
        if self.folder is not None:
            self._refresh_model(forced)
        if self.catalogue is not None:  # last: it may take long, and no newer model waits for it
            self.catalogue.refresh(self.current.item_ids, forced=forced)

    def _refresh_model(self, forced: bool) -> None:
        if self._held is not None and time.monotonic() >= self._held[2]:
            self._held = None
        with self._loading:
            version = self._look()
            try:
                if forced or self._is_due(version):
                    self._load(version)
            # A model's own class may raise anything, SystemExit too: this thread goes on.
            except BaseException as error:
                self._note(version, error)

    def roll_back(self, version: str) -> str:
        """Make the version before the current one current again, in the folder and here.

        The folder loses the current version, so that no reload brings it back. ``version`` must
        name it, so that nobody rolls back twice what two have found wrong. Returns the version that
        answers now, under the name that it had before.

        Raises
        ------
        CannotRollBackError
            Nothing has changed.
        """
        if self.folder is None:
            raise CannotRollBackError("this model was not read from a folder,", "replace it there")
        # No newer model is being loaded meanwhile, which would take over after this.
        with self._loading:
            if (current := self._name()) != version:
                raise CannotRollBackError(
                    f"the folder's version is {current}, and not {version}:", "look at /health"
                )
            try:
                self._loaded(self.folder, version=1)
                roll_back(self.folder)
            except (OSError, ValueError) as error:
                raise CannotRollBackError(f"{error}") from error
            self._load(self._look())
        _LOG.warning("%s: rolled back from %s to %s", self.folder, version, self.version)
        return self.version

    def _is_due(self, version: _Version) -> bool:
        if version is None:  # a folder that is being replaced
            return False
        if version == self._failed:
            return time.monotonic() >= self._again
        if version == self._version:  # what could not be loaded is gone
            self._failed, self.error = None, None
        return version != self._version

    def _load(self, version: _Version) -> None:
        assert self.folder is not None
        newer = self._loaded(self.folder)
        _warm(newer)
        if self.catalogue is not None:
            self.catalogue.meet(newer.item_ids)
        _tell_other_items(self.folder, newer.item_ids, self.current.item_ids)
        self._version, self._failed, self.error = version, None, None
        until = max(self._paged_until, time.monotonic() + self._holds)
        if time.monotonic() < until:
            self._held = self.current, self.version, until
            self._paged_until = 0.0
        self.now = newer, self._name()
        self.since, self.loads = time.time(), self.loads + 1
        _LOG.info("%s: a newer model answers", self.folder)

    def _loaded(self, folder: Path, version: int = 0) -> Recommender:
        # Mapped values are not checked, so the checksums are; this also reads them before requests.
        mmap, classes, trust = self._mmap, self._classes, self._trust
        how: dict[str, Any] = {"mmap": mmap, "verify": mmap, "version": version}
        return load(folder, classes=classes, trust=trust, **how)

    def _name(self) -> str:
        """A name of what the folder has, the same in all processes; random without a folder."""
        with suppress(OSError):
            if self.folder is not None:
                return sha256((self.folder / MANIFEST).read_bytes()).hexdigest()[:12]
        return secrets.token_hex(6)

    def _note(self, version: _Version, error: BaseException) -> None:
        """Count a failed load, and say when the next one is due."""
        is_new = version != self._failed
        self._pause = _FIRST_PAUSE if is_new else min(2 * self._pause, _LONGEST_PAUSE)
        self._failed, self._again = version, time.monotonic() + self._pause
        sentence = f"{type(error).__name__}: {error}"
        is_news = is_new or sentence != self.error  # not told again and again
        # The reason before the number: who sees a failure counted, sees why.
        self.error, self.failures = sentence, self.failures + 1
        if is_news:
            _LOG.warning(
                "the model that was loaded before still answers, and %s is tried again: %s",
                self.folder,
                sentence,
            )

    def _look(self) -> _Version:
        """What changes whenever a model is saved to the folder."""
        if self.folder is None:
            return None
        try:
            found = (self.folder / MANIFEST).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def _keep_watch(live: weakref.ref[LiveModel], orders: SimpleQueue[_Order], seconds: float) -> None:
    while True:
        order: _Order | None = None
        with suppress(Empty):
            order = orders.get(timeout=seconds)
            while order != "end":  # one load serves all who have asked for one until now
                order = orders.get_nowait()
        held = live()
        if held is None or order == "end":
            return
        held.refresh(forced=order == "load")
        del held


def _folder(model: object) -> Path:
    if not isinstance(model, str | os.PathLike):
        raise InputTypeError(f"`model` must be a fitted model or a folder, got {shown(model)}")
    return path_of(model)


def _warm(model: Recommender) -> None:
    """Ask twice: what is computed only once, on the first or second call, delays no request."""
    users, items = model.user_ids.labels[:2], model.item_ids.labels[:1]
    with unannounced(), values_told():
        if model.folds_in and len(items):
            with suppress(ValueError):  # it lacks the interactions of its fit: requests say so
                model.recommend_from_items(items, N=1, n_threads=1)
        for _ in range(2):
            filters = model.seen is not None
            model.recommend(users, N=1, filter_already_liked_items=filters, n_threads=1)
            model.similar_items(items, N=1, n_threads=1)


def _tell_other_items(folder: Path, newer: Ids, before: Ids) -> None:
    """Warn if a model has none of the items of the one that it replaces."""
    if not len(newer) or newer.overlap(before):
        return
    _LOG.warning(
        "%s: the newer model has none of the items that the one before has: its ids are like %r, "
        "and were like %r; mfrank rollback brings a version back that --keep has kept",
        *(folder, newer.labels[:1].tolist()[0], before.labels[:1].tolist()[0]),
    )
