"""A descent's state on disk: it goes on with the bits it would have had without an interruption."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mfrank.arrays import beside, on_host
from mfrank.data.interactions import Interactions
from mfrank.lists import Array
from mfrank.steps import Record, Step
from mfrank.store.factors import FactorStore
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

    def saving(
        self,
        steps: Iterator[Step],
        store_of: Callable[[Step, Sequence[Record]], FactorStore],
        history: Sequence[Record],
        state: State,
    ) -> Iterator[Step]:
        """The steps, each after the state that it left is on the disk.

        ``store_of`` makes the store of a step from it and the records of all epochs up to it, of
        which ``history`` holds those before.
        """
        records = list(history)
        for step in steps:
            records.append(step.record())
            self.save(store_of(step, records), state)
            yield step

    def save(self, store: FactorStore, state: State) -> None:
        """Replace what the folder holds by the state after the store's epoch."""
        seed, tables, memory = state
        arrays = {"checkpoint_data": self.data, "checkpoint_seed": np.array([seed], np.uint64)}
        arrays |= {f"memory_{name}": array for name, array in memory.items()}
        for table, kept in tables.kept.items():
            arrays |= {f"{table}_{name}": array for name, array in kept.items()}
        if tables.biases is not None:
            arrays["checkpoint_biases"] = tables.biases
        here = {name: on_host(array) for name, array in arrays.items()}
        replace(store, extras=here).save(self.folder)

    def load(self, fitter: Mapping[str, Any]) -> FactorStore | None:
        """The state of an interrupted fit by the same options, None where there is none.

        Raises
        ------
        ValueError
            The folder holds something else: no checkpoint, or one of other options or data.
        """
        if not self.folder.exists() or not any(self.folder.iterdir()):
            return None
        store = FactorStore.load(self.folder)
        remedy = f"; name another folder than {self.folder}, or remove it to begin anew"
        if "checkpoint_data" not in store.extras:
            raise ValueError(f"checkpoint holds a saved model, not the state of a fit{remedy}")
        if not np.array_equal(store.extras["checkpoint_data"], self.data):
            raise ValueError(f"checkpoint is of a fit to other interactions{remedy}")
        if changed := sorted(_changes(store.fitter, fitter)):
            raise ValueError(f"checkpoint is of a fit with another {', '.join(changed)}{remedy}")
        return store


def resume(store: FactorStore, tables: Tables, memory: Memory) -> int:
    """Put a checkpoint's state into fresh tables (whose optimiser has begun) and memory.

    Returns the seed.
    """
    arrays = store.extras
    pairs = [(tables.users, store.user_factors), (tables.items, store.item_factors)]
    if tables.biases is not None:
        pairs.append((tables.biases, arrays["checkpoint_biases"]))
    for table, state in tables.kept.items():
        pairs += [(array, arrays[f"{table}_{name}"]) for name, array in state.items()]
    pairs += [(array, arrays[f"memory_{name}"]) for name, array in memory.items()]
    for array, saved in pairs:
        array[:] = beside(saved, array)
    return int(arrays["checkpoint_seed"][0])


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    """Options in which two fits differ and which change what comes out."""
    if before["name"] != now["name"]:
        return {"estimator"}
    old, new = before["options"], now["options"]
    return {
        name for name in old.keys() | new.keys() if old.get(name) != new.get(name)
    } - _MAY_CHANGE
