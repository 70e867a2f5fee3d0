"""A fit's state on disk: a resumed fit gives the same bits as an uninterrupted one.

    <folder>/            a store: the last complete epoch, and what the next one depends on
    <folder>/half-step/  the state within the epoch after it, if one was saved

A half-step names the generation of the store that it follows; with another store it is ignored.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from mfrank.als import Features, Halfway, Momentum, OnHalfStep
from mfrank.arrays import CSR, Array, beside, copied, on_host
from mfrank.backends import half_of
from mfrank.data import Interactions
from mfrank.descent import FactorTables, Optimizer
from mfrank.errors import InputTypeError, InputValueError, Notice
from mfrank.files import (
    ChangedFolderError,
    Contents,
    Format,
    Origin,
    generation_of,
    metadata_of,
    path_of,
    paths_of,
    read,
    write,
)
from mfrank.losses import Loss, Memory, Sizes
from mfrank.models.factor_model import KnownStopping, Stopping
from mfrank.retrieval import fingerprint
from mfrank.store import (
    FORMAT,
    STATE_OF_FIT,
    FactorStore,
    Step,
    check_features,
    columns_name,
    is_mapped,
    names_of,
)

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
        """Return the checkpoint of a fit; each origin is a SHA-256 in hexadecimal, or None."""
        digests = {name: bytes.fromhex(digest or 64 * "0") for name, digest in origin.items()}
        arrays = {name: np.frombuffer(digest, np.uint8) for name, digest in digests.items()}
        return cls(path_of(folder, "checkpoint"), arrays)

    def save(self, store: FactorStore, arrays: Mapping[str, Array]) -> None:
        """Replace the folder's content by the store of an epoch and further arrays of its state."""
        state = {f"checkpoint_{name}": digest for name, digest in self.origin.items()}
        state |= {name: on_host(array) for name, array in arrays.items()}
        try:
            replace(store, extras=state)._save_over(self.folder, self._state)
        except ChangedFolderError:
            raise InputValueError(
                f"`checkpoint`: another fit saves its state to {self.folder}",
                "give each fit a folder of its own",
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
            The half-step is damaged, or something else is in its place.
        """
        folder = self.folder / _HALF_STEP
        metadata = metadata_of(folder, _HALF_FORMAT)
        if metadata is None or metadata.get("follows") != self._generation:
            return None
        return read(folder, _HALF_FORMAT, verify=True).arrays

    def load(self, fitter: Mapping[str, Any], *, mmap: bool = False) -> FactorStore | None:
        """Return the saved state of a fit with the same options; None if the folder has none.

        The fit continues with its own seed; a warning is logged if ``fitter`` has another one.

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
        if STATE_OF_FIT not in store.extras:
            raise InputValueError(
                f"`checkpoint` holds a saved model, not the state of a fit{remedy}"
            )
        if changed := sorted(_changes(store.fitter, fitter)):
            raise InputValueError(
                f"`checkpoint` is of a fit with another {', '.join(changed)}{remedy}"
            )
        for name, digest in self.origin.items():
            if not np.array_equal(store.extras.get(f"checkpoint_{name}", ()), digest):
                raise InputValueError(f"`checkpoint` is of a fit {_OTHER[name]}{remedy}")
        self._state.update(store.origin)
        seed, given = (each["options"].get("random_state") for each in (store.fitter, fitter))
        if given is not None and given != seed:
            _log.warning(
                Notice(
                    f"`checkpoint` goes on with `random_state={seed!r}`, with which the fit was "
                    f"begun, and not with {given!r}{remedy}"
                )
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
            raise InputValueError(
                f"`checkpoint` is damaged: its {name} are missing or have another shape or "
                f"dtype{self._remedy}"
            )
        return saved

    @property
    def _remedy(self) -> str:
        return f"; name another folder than {self.folder}, or remove it to start over"


def as_begun(fitter: Mapping[str, Any], past: FactorStore | None) -> dict[str, Any]:
    """A fitter's description, with the seed of the resumed fit if there is one."""
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


# What the next half-step of ALS depends on, as the arrays of a checkpoint.


class Resumed(NamedTuple):
    """The state from which a fit is resumed.

    Attributes
    ----------
    store : FactorStore
        Factors, memory-mapped, and history of the last epoch. Before the first epoch ends, the
        factors after the first user step.
    momentum : mapping or None
        See ``Momentum.resume``.
    halfway : Halfway, or None
        Factors within the next epoch, if some of its half-steps were done; in memory of their own.
    best : FactorStore or None
        The best epoch so far, with early stopping; memory-mapped.
    """

    store: FactorStore
    momentum: Mapping[str, Array] | None
    halfway: Halfway | None
    best: FactorStore | None


def checkpoint_of(
    folder: str | os.PathLike[str],
    data: Interactions,
    start: FactorStore | None,
    stopping: Stopping | None,
    features: Features,
) -> Checkpoint:
    """The checkpoint of a fit to these interactions, in one pass over them.

    Raises
    ------
    ValueError
        Ids are neither integers nor strings.
    TypeError
        The stopping rule has no fingerprint.
    """
    if stopping is not None and not isinstance(stopping, KnownStopping):
        raise InputTypeError(
            "`stopping`: a checkpoint must know the rule again, and it has no fingerprint()",
            "use mfrank.EarlyStopping, or leave `checkpoint` out",
        )
    return Checkpoint.of(
        folder,
        data=fingerprint.of_filter(data, with_values=True),
        start=None if start is None else fingerprint.of_store(start),
        stopping=None if stopping is None else stopping.fingerprint(),
        features=_of_features(features),
    )


def saver(
    checkpoint: Checkpoint, momentum: Momentum
) -> Callable[[FactorStore, FactorStore | None], None]:
    """A function that saves an epoch, and the best epoch so far if it is another one."""

    def save(store: FactorStore, best: FactorStore | None) -> None:
        arrays = {f"momentum_{name}": array for name, array in momentum.state().items()}
        arrays |= store.extras
        if best is not None and len(best.history) < len(store.history):
            arrays |= {"best_users": best.user_factors, "best_items": best.item_factors}
            arrays |= {f"best_{name}": array for name, array in best.extras.items()}
        checkpoint.save(store, arrays)

    return save


def half_step_saver(
    checkpoint: Checkpoint, momentum: Momentum, stored: Callable[[Step], FactorStore]
) -> OnHalfStep:
    """A function that saves half-steps within epochs; ``stored`` makes a store from factors."""

    def save(epoch: int, user_factors: Array, item_factors: Array) -> None:
        if not epoch:
            checkpoint.save(stored(Step(0, 0.0, None, user_factors, item_factors)), {})
            return
        state = {"items": item_factors, **momentum.state()}
        if "turn" in state:  # after a user step; else the users are those of the epoch, turned
            state["users"] = user_factors
        checkpoint.save_half_step(state)

    return save


def resumed(
    checkpoint: Checkpoint,
    fitter: Mapping[str, Any],
    stopping: Stopping | None,
    data: Interactions,
) -> Resumed | None:
    """The state of a fit to these interactions in the folder; None if there is none.

    Raises
    ------
    ValueError
        The folder contains something else; see ``Checkpoint.load``.
    """
    store = checkpoint.load(fitter, mmap=True)
    if store is None:
        return None
    users, items, width = store.user_factors, store.item_factors, store.factors
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {
        "numbers": ((3,), np.float64),
        "displacements": (items.shape, half_of(items.dtype)),
    }
    momentum = halfway = None
    half = checkpoint.half_step()
    if half is not None:
        halfway = Halfway(checkpoint.fitting(half, "items", items.shape, items.dtype))
        if "users" in half:
            solved = checkpoint.fitting(half, "users", users.shape, users.dtype)
            halfway = halfway._replace(user_factors=solved)
        momentum = {name: checkpoint.fitting(half, name, *shapes[name]) for name in shapes}
    elif store.history:
        shapes["turn"] = ((width, width), np.float64)
        momentum = {
            name: checkpoint.array(store, f"momentum_{name}", *shapes[name]) for name in shapes
        }
        momentum = {name: array.copy() for name, array in momentum.items()}
    epoch = replace(
        store,
        user_ids=data.user_ids,
        item_ids=data.item_ids,
        counts=data.counts,
        extras=_of_fit(store, ""),
    )
    check_features(epoch)
    if stopping is None or not store.history:
        return Resumed(epoch, momentum, halfway, None)
    if "best_users" not in store.extras:
        return Resumed(epoch, momentum, halfway, epoch)
    best_users = checkpoint.array(store, "best_users", users.shape, users.dtype)
    best_items = checkpoint.array(store, "best_items", items.shape, items.dtype)
    best = replace(
        epoch,
        user_factors=best_users,
        item_factors=best_items,
        extras=_of_fit(store, "best_"),
    )
    return Resumed(epoch, momentum, halfway, best)


def in_memory(store: FactorStore) -> FactorStore:
    """The store, with factors in memory rather than in a checkpoint's files."""
    if not is_mapped(store.user_factors):
        return store
    users, items = map(copied, (store.user_factors, store.item_factors))
    return replace(store, user_factors=users, item_factors=items)


def _of_fit(store: FactorStore, prefix: str) -> dict[str, Array]:
    """The arrays of features among those that were saved of an epoch."""
    names = [*names_of("user"), *names_of("item"), columns_name("user"), columns_name("item")]
    kept = {name: store.extras[prefix + name] for name in names if prefix + name in store.extras}
    return {name: array.copy() for name, array in kept.items()}


def _of_features(features: Features) -> str | None:
    """SHA-256 of all features; None if there are none."""
    if not features.sides:
        return None
    each = (
        fingerprint.of_filter(side, with_values=True) for side in (features.users, features.items)
    )
    text = " ".join(f"{digest}" for digest in each)
    return hashlib.sha256(text.encode()).hexdigest()


# What a descent's next epoch depends on, as the arrays of a checkpoint.


class DescentState(NamedTuple):
    """Everything the next epoch depends on; the fit updates tables and memory in place."""

    seed: int
    tables: FactorTables
    memory: Memory

    @classmethod
    def begun(
        cls, seed: int, tables: FactorTables, loss: Loss, optimizer: Optimizer, rows: CSR
    ) -> DescentState:
        """The state before the first epoch, on the device of the tables."""
        sizes = Sizes(len(rows.indices), rows.n_rows, rows.n_columns)
        place = tables.backend.place
        memory = {name: place(array) for name, array in loss.memory(sizes).items()}
        tables.begin(optimizer)
        return cls(seed, tables, memory)

    def arrays(self) -> dict[str, Array]:
        """The arrays, except the factors, by their names in the file."""
        return {"checkpoint_seed": np.array([self.seed], np.uint64), **self._updated()}

    def resumed(self, checkpoint: Checkpoint, store: FactorStore) -> DescentState:
        """Copy a checkpoint's state into these tables (after ``begin``) and memory, with its seed.

        Raises
        ------
        ValueError
            An array is missing or has another shape or dtype.
        """
        (seed,) = checkpoint.array(store, "checkpoint_seed", (1,), np.uint64)
        updated = {**self._updated(), "users": self.tables.users, "items": self.tables.items}
        for name, array in updated.items():
            array[:] = beside(checkpoint.array(store, name, array.shape, array.dtype), array)
        return self._replace(seed=int(seed))

    def _updated(self) -> dict[str, Array]:
        named = {f"memory_{name}": array for name, array in self.memory.items()}
        for table, state in self.tables.states.items():
            named |= {f"{table}_{name}": array for name, array in state.items()}
        if self.tables.biases is not None:
            named["checkpoint_biases"] = self.tables.biases
        return named


def positives_fingerprint(data: Interactions) -> str:
    """SHA-256 of the shape, the ids and the positive cells of the interactions."""
    matrix = data.user_items
    digest = hashlib.sha256(np.array(matrix.shape, dtype=np.int64).tobytes())
    for array, dtype in ((matrix.indptr, np.int64), (matrix.indices, np.int64)):
        digest.update(np.ascontiguousarray(array, dtype=dtype).tobytes())
    digest.update((matrix.data > 0).tobytes())
    digest.update(fingerprint.of_ids(data.user_ids, data.item_ids).encode())
    return digest.hexdigest()


def blocks_fingerprint(n_blocks: int) -> str:
    """SHA-256 of the number of blocks of users and items in a fit; 1 without a cluster."""
    return hashlib.sha256(str(n_blocks).encode()).hexdigest()
