"""Whether a descent can be divided into tasks."""

from __future__ import annotations

import numpy as np

from mfrank.descent.optimizers import Optimizer
from mfrank.losses import Loss, Sizes

__all__ = ["check_rotates"]

_ROWS = 3


def check_rotates(loss: Loss, optimizer: Optimizer) -> None:
    """Raise ValueError unless users and items can be trained in blocks.

    A list then contains items of a part of the catalog, and a task has only some rows of a table.
    """
    name = type(loss).__name__
    if not loss.decomposes:
        raise ValueError(
            f"cluster cannot fit {name}, which needs lists of the whole catalog, and workers have "
            "a part of the items each; use BPR, BCE or SampledSoftmax, or leave cluster out"
        )
    if loss.memory(Sizes(1, 1, 1)):
        raise ValueError(
            f"cluster cannot fit {name}, which keeps a memory between batches, and workers take "
            "turns; leave cluster out"
        )
    state = optimizer.state(np.zeros((_ROWS, 2)))
    if optimizer.drifts or any(array.shape[:1] != (_ROWS,) for array in state.values()):
        raise ValueError(
            f"cluster cannot use {type(optimizer).__name__}, which keeps more than a state of each "
            "row, and workers have some rows each; use Adam, Adagrad or SGD, or leave cluster out"
        )
