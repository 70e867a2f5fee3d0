"""What a descent's next epoch depends on, as the arrays of a checkpoint."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

from mfrank.arrays.csr import CSR
from mfrank.arrays.placement import Array, beside
from mfrank.data.interactions import Interactions
from mfrank.descent.factor_tables import Tables
from mfrank.descent.optimizers import Optimizer
from mfrank.losses import Loss, Memory, Sizes
from mfrank.models.checkpoint import Checkpoint
from mfrank.retrieval import fingerprint
from mfrank.store.factors import FactorStore

__all__ = ["DescentState", "blocks_fingerprint", "positives_fingerprint"]


class DescentState(NamedTuple):
    """Everything the next epoch depends on; the fit updates tables and memory in place."""

    seed: int
    tables: Tables
    memory: Memory

    @classmethod
    def begun(
        cls, seed: int, tables: Tables, loss: Loss, optimizer: Optimizer, rows: CSR
    ) -> DescentState:
        """The state before the first epoch, in memory where the tables lie."""
        sizes = Sizes(len(rows.indices), rows.n_rows, rows.n_columns)
        place = tables.backend.place
        memory = {name: place(array) for name, array in loss.memory(sizes).items()}
        tables.begin(optimizer)
        return cls(seed, tables, memory)

    def arrays(self) -> dict[str, Array]:
        """The arrays, except the factors, by the names they are saved under."""
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
        for table, state in self.tables.kept.items():
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
    """SHA-256 of the number of blocks of users and items that a fit is cut into, 1 if into none."""
    return hashlib.sha256(str(n_blocks).encode()).hexdigest()
