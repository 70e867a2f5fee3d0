"""A descent's state on disk: a resumed fit gives the same bits as one never interrupted."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mfrank.arrays.placement import Array, beside, on_host
from mfrank.data.interactions import Interactions
from mfrank.descent.factor_tables import Tables
from mfrank.files.folder import metadata_of
from mfrank.losses import Memory
from mfrank.store.factors import FORMAT, FactorStore

__all__ = ["Checkpoint", "State", "fingerprint"]

_MAY_CHANGE = {"iterations", "n_threads", "backend", "random_state"}


class State(NamedTuple):
    """Everything the next epoch depends on; the fit updates tables and memory in place."""

    seed: int
    tables: Tables
    memory: Memory


def fingerprint(data: Interactions) -> Array:
    """SHA-256 of the shape and the positive cells of the interactions, uint8, shape (32,)."""
    matrix = data.user_items
    digest = hashlib.sha256(np.array(matrix.shape, dtype=np.int64).tobytes())
    for array, dtype in ((matrix.indptr, np.int64), (matrix.indices, np.int64)):
        digest.update(np.ascontiguousarray(array, dtype=dtype).tobytes())
    digest.update((matrix.data > 0).tobytes())
    return np.frombuffer(digest.digest(), dtype=np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A folder that keeps the state after each epoch, as a :class:`FactorStore` with extras.

    Attributes
    ----------
    folder : Path
    data : uint8, shape (32,)
        Fingerprint of the interactions.
    blocks : int
        Blocks of users and items that the fit is cut into; 1 in one process.
    """

    folder: Path
    data: Array
    blocks: int = 1

    @classmethod
    def of(cls, folder: str | os.PathLike[str], data: Interactions, blocks: int = 1) -> Checkpoint:
        """Return the checkpoint of a fit to these interactions."""
        return cls(Path(folder), fingerprint(data), blocks)

    def save(self, store: FactorStore, state: State) -> None:
        """Replace the folder's content by the state after the store's epoch."""
        seed, tables, memory = state
        arrays = {"checkpoint_data": self.data, "checkpoint_seed": np.array([seed], np.uint64)}
        arrays["checkpoint_blocks"] = np.array([self.blocks])
        arrays |= _named(tables, memory)
        here = {name: on_host(array) for name, array in arrays.items()}
        replace(store, extras=here).save(self.folder)

    def load(self, fitter: Mapping[str, Any]) -> FactorStore | None:
        """Return the saved state of a fit with the same options; None if the folder has none.

        Raises
        ------
        ValueError
            The folder contains something other than a checkpoint, a checkpoint of other options or
            data, or a damaged one.
        """
        if metadata_of(self.folder, FORMAT) is None:
            return None
        store, remedy = FactorStore.load(self.folder, verify=True), self._remedy
        if "checkpoint_data" not in store.extras:
            raise ValueError(f"checkpoint holds a saved model, not the state of a fit{remedy}")
        if not np.array_equal(store.extras["checkpoint_data"], self.data):
            raise ValueError(f"checkpoint is of a fit to other interactions{remedy}")
        if not np.array_equal(store.extras.get("checkpoint_blocks", [1]), [self.blocks]):
            where = "in one process" if self.blocks > 1 else "on a cluster"
            raise ValueError(f"checkpoint is of a fit {where}{remedy}")
        if changed := sorted(_changes(store.fitter, fitter)):
            raise ValueError(f"checkpoint is of a fit with another {', '.join(changed)}{remedy}")
        return store

    def resume(self, store: FactorStore, tables: Tables, memory: Memory) -> int:
        """Copy a checkpoint's state into fresh tables (after ``begin``) and memory.

        Returns
        -------
        int
            The seed.

        Raises
        ------
        ValueError
            An array is missing or has another shape or dtype.
        """
        kept = {**store.extras, "users": store.user_factors, "items": store.item_factors}
        arrays = {"checkpoint_seed": np.empty(1, np.uint64), **_named(tables, memory)}
        arrays |= {"users": tables.users, "items": tables.items}
        for name, array in arrays.items():
            saved = kept.get(name)
            if saved is None or (saved.shape, saved.dtype) != (array.shape, array.dtype):
                raise ValueError(
                    f"checkpoint is damaged: its {name} are missing or have another shape or "
                    f"dtype{self._remedy}"
                )
            array[:] = beside(saved, array)
        return int(arrays["checkpoint_seed"][0])

    @property
    def _remedy(self) -> str:
        return f"; name another folder than {self.folder}, or remove it to start over"


def _named(tables: Tables, memory: Memory) -> dict[str, Array]:
    """Arrays of the state, except the factors, by the names they are saved under."""
    named = {f"memory_{name}": array for name, array in memory.items()}
    for table, state in tables.kept.items():
        named |= {f"{table}_{name}": array for name, array in state.items()}
    if tables.biases is not None:
        named["checkpoint_biases"] = tables.biases
    return named


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    """Options that differ between two fits and change the result."""
    if before["name"] != now["name"]:
        return {"estimator"}
    old, new = before["options"], now["options"]
    return {
        name for name in old.keys() | new.keys() if old.get(name) != new.get(name)
    } - _MAY_CHANGE
