"""A backend whose half-steps run in blocks of rows, as tasks of an engine.

It wraps another backend, and changes only :meth:`~mfrank.backends.Backend.solve_rows`: what is
small (Gram matrices, rotations, the algebra of K x K matrices) stays in this process, which has the
factors of both sides. For a half-step, the task of each block is sent the fixed factors that the
block's entries refer to, and returns the block's solutions.

The blocks depend on the data alone, and every row is solved by the same kernel from the same
numbers. So the bits are those of one process, whatever runs a task, when, and how often.
"""

from mfrank.backends.sharded.one_place import check_one_place
from mfrank.backends.sharded.opening import solving

__all__ = ["check_one_place", "solving"]
