"""A fit's state on disk: a resumed fit gives the same bits as one never interrupted.

    <folder>/            a store: the last complete epoch, and what the next one depends on
    <folder>/half-step/  the state within the epoch after it, if one was saved

A half-step names the generation of the store that it follows, and is ignored with any other.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from mfrank.arrays.placement import Array, on_host
from mfrank.files.folder import (
    ChangedFolderError,
    Origin,
    generation_of,
    metadata_of,
    paths_of,
    read,
    write,
)
from mfrank.files.manifest import Contents, Format
from mfrank.files.regular import path_of
from mfrank.store.factors import FORMAT, FactorStore

__all__ = ["Checkpoint", "as_begun"]

_HALF_STEP = "half-step"
_HALF_FORMAT = Format("mfrank.half_step", version=1)

_log = logging.getLogger("mfrank")

_MAY_CHANGE = {"iterations", "n_threads", "backend", "random_state"}
_OTHER = {
    "data": "to other interactions",
    "blocks": "cut into other blocks, on a cluster or in one process",
    "start": "from another start",
    "stopping": "with another stopping",
    "features": "with other features",
}


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A folder that keeps the state after each epoch, as a :class:`FactorStore` with extras.

    Attributes
    ----------
    folder : Path
    origin : mapping of str to uint8, shape (32,)
        SHA-256 of the ``"data"`` of the fit and, if it has them, of its ``"start"`` and
        ``"stopping"``.
    """

    folder: Path
    origin: Mapping[str, Array]
    _state: Origin = field(default_factory=dict)
    """The generation that was loaded or saved last: another one is of another fit."""

    @classmethod
    def of(cls, folder: str | os.PathLike[str], **origin: str | None) -> Checkpoint:
        """Return the checkpoint of a fit; SHA-256 as hexadecimal digits, None for nothing."""
        digests = {name: bytes.fromhex(digest or 64 * "0") for name, digest in origin.items()}
        arrays = {name: np.frombuffer(digest, np.uint8) for name, digest in digests.items()}
        return cls(path_of(folder), arrays)

    def save(self, store: FactorStore, arrays: Mapping[str, Array]) -> None:
        """Replace the folder's content by the store of an epoch, and more arrays of its state."""
        state = {f"checkpoint_{name}": digest for name, digest in self.origin.items()}
        state |= {name: on_host(array) for name, array in arrays.items()}
        try:
            replace(store, extras=state)._save_over(self.folder, self._state)
        except ChangedFolderError:
            raise ValueError(
                f"checkpoint: another fit saves its state to {self.folder}; give each fit a folder "
                "of its own"
            ) from None

    def save_half_step(self, arrays: Mapping[str, Array]) -> None:
        """Save the state after a half-step that follows the epoch in the folder."""
        metadata = {"follows": self._generation}
        contents = Contents({name: on_host(array) for name, array in arrays.items()}, metadata)
        write(self.folder / _HALF_STEP, contents, _HALF_FORMAT)

    def half_step(self) -> Mapping[str, Array] | None:
        """The half-step that follows the epoch in the folder; None if none was saved.

        Raises
        ------
        ValueError
            It is damaged, or something else is in its place.
        """
        folder = self.folder / _HALF_STEP
        metadata = metadata_of(folder, _HALF_FORMAT)
        if metadata is None or metadata.get("follows") != self._generation:
            return None
        return read(folder, _HALF_FORMAT, verify=True).arrays

    def load(self, fitter: Mapping[str, Any], *, mmap: bool = False) -> FactorStore | None:
        """Return the saved state of a fit with the same options; None if the folder has none.

        The fit goes on as it was begun: a warning says so where another seed is asked for.

        Raises
        ------
        ValueError
            The folder contains something other than a checkpoint, a checkpoint of other options or
            data, or a damaged one.
        """
        if metadata_of(self.folder, FORMAT) is None:
            self._state.update(dict.fromkeys(paths_of(self.folder), ("none",)))
            return None
        store, remedy = FactorStore.load(self.folder, mmap=mmap, verify=True), self._remedy
        if "checkpoint_data" not in store.extras:
            raise ValueError(f"checkpoint holds a saved model, not the state of a fit{remedy}")
        if changed := sorted(_changes(store.fitter, fitter)):
            raise ValueError(f"checkpoint is of a fit with another {', '.join(changed)}{remedy}")
        for name, digest in self.origin.items():
            if not np.array_equal(store.extras.get(f"checkpoint_{name}", ()), digest):
                raise ValueError(f"checkpoint is of a fit {_OTHER[name]}{remedy}")
        self._state.update(store.origin)
        seed, given = (each["options"].get("random_state") for each in (store.fitter, fitter))
        if given is not None and given != seed:
            _log.warning(
                "checkpoint goes on with random_state=%r, with which the fit was begun, and not "
                "with %r%s",
                *(seed, given, remedy),
            )
        return store

    @property
    def _generation(self) -> str:
        """The name of the generation that was loaded or saved last, else of that in the folder."""
        names = next(iter(self._state.values()), None)
        return names[-1] if names else generation_of(self.folder, FORMAT)

    def array(
        self, store: FactorStore, name: str, shape: tuple[int, ...], dtype: DTypeLike
    ) -> Array:
        """An array of a saved state, with this shape and dtype.

        Raises
        ------
        ValueError
            It is missing or has another shape or dtype.
        """
        kept = {**store.extras, "users": store.user_factors, "items": store.item_factors}
        return self.fitting(kept, name, shape, dtype)

    def fitting(
        self, kept: Mapping[str, Array], name: str, shape: tuple[int, ...], dtype: DTypeLike
    ) -> Array:
        """An array of a saved state with this shape and dtype; raises as :meth:`array`."""
        saved = kept.get(name)
        if saved is None or (saved.shape, saved.dtype) != (shape, dtype):
            raise ValueError(
                f"checkpoint is damaged: its {name} are missing or have another shape or "
                f"dtype{self._remedy}"
            )
        return saved

    @property
    def _remedy(self) -> str:
        return f"; name another folder than {self.folder}, or remove it to start over"


def as_begun(fitter: Mapping[str, Any], past: FactorStore | None) -> dict[str, Any]:
    """A fitter's description with the seed of the fit that it goes on with, if there is one."""
    if past is None:
        return dict(fitter)
    seed = {"random_state": past.fitter["options"].get("random_state")}
    return {**fitter, "options": {**fitter["options"], **seed}}


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    """Options that differ between two fits and change the result."""
    if before["name"] != now["name"]:
        return {"estimator"}
    old, new = before["options"], now["options"]
    return {
        name for name in old.keys() | new.keys() if old.get(name) != new.get(name)
    } - _MAY_CHANGE
