"""A backend whose half-steps run in blocks of rows, as tasks of an engine.

It wraps another backend, and changes only :meth:`~mfrank.backends.Backend.solve_rows`. Small work
(Gram matrices, rotations, the algebra of K x K matrices) stays in this process, which has the
factors of both sides. In a half-step, the task of a block receives the fixed factors that the
block's entries refer to, and returns the block's solutions.

Blocks depend only on the data, and every row is solved by the same kernel from the same numbers.
The bits are therefore the same as in one process, wherever and however often a task runs.
"""

from mfrank.backends.sharded.backend import Sharded, check_one_place, solving
from mfrank.backends.sharded.blocks import Cuts, RowBlock, SumPlan, block_of, range_of, route
from mfrank.backends.sharded.half_step import ShardedHalfStep, solve, sum_rows
from mfrank.backends.sharded.machine import (
    Arithmetic,
    Worker,
    arithmetic,
    refuse_joined,
    refuse_other,
    same_workers,
    threads_of_a_task,
)
from mfrank.backends.sharded.routes import Routes, Sent, held

__all__ = [
    "Arithmetic",
    "Cuts",
    "Routes",
    "RowBlock",
    "Sent",
    "Sharded",
    "ShardedHalfStep",
    "SumPlan",
    "Worker",
    "arithmetic",
    "block_of",
    "check_one_place",
    "held",
    "range_of",
    "refuse_joined",
    "refuse_other",
    "route",
    "same_workers",
    "solve",
    "solving",
    "sum_rows",
    "threads_of_a_task",
]
