"""A descent's state on disk: it goes on with the bits it would have had without an interruption."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mfrank.arrays import beside, on_host
from mfrank.data.interactions import Interactions
from mfrank.lists import Array
from mfrank.store.factors import FORMAT, FactorStore
from mfrank.store.folder import metadata_of
from mfrank.tables import Tables
from mfrank.trainers import Memory

__all__ = ["Checkpoint", "State", "fingerprint"]

_MAY_CHANGE = {"iterations", "n_threads", "backend", "random_state"}


class State(NamedTuple):
    """What a descent's next epoch depends on; tables and memory are written to as it goes on."""

    seed: int
    tables: Tables
    memory: Memory


def fingerprint(data: Interactions) -> Array:
    """Checksum of the interactions, uint8, shape (32,)."""
    matrix = data.user_items
    digest = hashlib.sha256(np.array(matrix.shape, dtype=np.int64).tobytes())
    for array, dtype in ((matrix.indptr, np.int64), (matrix.indices, np.int64)):
        digest.update(np.ascontiguousarray(array, dtype=dtype).tobytes())
    digest.update((matrix.data > 0).tobytes())
    return np.frombuffer(digest.digest(), dtype=np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """Where the state after each epoch is kept, as a :class:`FactorStore` with more arrays.

    Attributes
    ----------
    folder : Path
    data : uint8, shape (32,)
        Fingerprint of the interactions.
    """

    folder: Path
    data: Array

    @classmethod
    def of(cls, folder: str | os.PathLike[str], data: Interactions) -> Checkpoint:
        """Checkpoints of a fit to these interactions."""
        return cls(Path(folder), fingerprint(data))

    def save(self, store: FactorStore, state: State) -> None:
        """Replace what the folder holds by the state after the store's epoch."""
        seed, tables, memory = state
        arrays = {"checkpoint_data": self.data, "checkpoint_seed": np.array([seed], np.uint64)}
        arrays |= _named(tables, memory)
        here = {name: on_host(array) for name, array in arrays.items()}
        replace(store, extras=here).save(self.folder)

    def load(self, fitter: Mapping[str, Any]) -> FactorStore | None:
        """The state of an interrupted fit by the same options, None where there is none.

        Raises
        ------
        ValueError
            The folder holds something else: no checkpoint, or one of other options or data, or a
            damaged one.
        """
        if metadata_of(self.folder, FORMAT) is None:
            return None
        store, remedy = FactorStore.load(self.folder, verify=True), self._remedy
        if "checkpoint_data" not in store.extras:
            raise ValueError(f"checkpoint holds a saved model, not the state of a fit{remedy}")
        if not np.array_equal(store.extras["checkpoint_data"], self.data):
            raise ValueError(f"checkpoint is of a fit to other interactions{remedy}")
        if changed := sorted(_changes(store.fitter, fitter)):
            raise ValueError(f"checkpoint is of a fit with another {', '.join(changed)}{remedy}")
        return store

    def resume(self, store: FactorStore, tables: Tables, memory: Memory) -> int:
        """Put a checkpoint's state into fresh tables (whose optimiser has begun) and memory.

        Returns the seed.

        Raises
        ------
        ValueError
            The state is not all there.
        """
        kept = {**store.extras, "users": store.user_factors, "items": store.item_factors}
        arrays = {"checkpoint_seed": np.empty(1, np.uint64), **_named(tables, memory)}
        arrays |= {"users": tables.users, "items": tables.items}
        for name, array in arrays.items():
            saved = kept.get(name)
            if saved is None or (saved.shape, saved.dtype) != (array.shape, array.dtype):
                raise ValueError(f"checkpoint is damaged: its {name} are none{self._remedy}")
            array[:] = beside(saved, array)
        return int(arrays["checkpoint_seed"][0])

    @property
    def _remedy(self) -> str:
        return f"; name another folder than {self.folder}, or remove it to begin anew"


def _named(tables: Tables, memory: Memory) -> dict[str, Array]:
    """What a descent goes on from, beside the factors, by the names it is kept under."""
    named = {f"memory_{name}": array for name, array in memory.items()}
    for table, state in tables.kept.items():
        named |= {f"{table}_{name}": array for name, array in state.items()}
    if tables.biases is not None:
        named["checkpoint_biases"] = tables.biases
    return named


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    """Options in which two fits differ and which change what comes out."""
    if before["name"] != now["name"]:
        return {"estimator"}
    old, new = before["options"], now["options"]
    return {
        name for name in old.keys() | new.keys() if old.get(name) != new.get(name)
    } - _MAY_CHANGE
