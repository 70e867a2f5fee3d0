"""A backend whose half-steps run in blocks of rows, as tasks of an engine.

It wraps another backend, and changes only :meth:`~mfrank.backends.Backend.solve_rows`. Small work
(Gram matrices, rotations, the algebra of K x K matrices) stays in this process, which has the
factors of both sides. In a half-step, the task of a block receives the fixed factors that the
block's entries refer to, and returns the block's solutions.

Blocks depend only on the data, and every row is solved by the same kernel from the same numbers.
The bits are therefore the same as in one process, wherever and however often a task runs.
"""

from mfrank.backends.sharded.backend import Sharded as Sharded
from mfrank.backends.sharded.backend import check_one_place as check_one_place
from mfrank.backends.sharded.backend import solving as solving
from mfrank.backends.sharded.blocks import Cuts as Cuts
from mfrank.backends.sharded.blocks import RowBlock as RowBlock
from mfrank.backends.sharded.blocks import SumPlan as SumPlan
from mfrank.backends.sharded.blocks import block_of as block_of
from mfrank.backends.sharded.blocks import range_of as range_of
from mfrank.backends.sharded.blocks import route as route
from mfrank.backends.sharded.half_step import ShardedHalfStep as ShardedHalfStep
from mfrank.backends.sharded.half_step import solve as solve
from mfrank.backends.sharded.half_step import sum_rows as sum_rows
from mfrank.backends.sharded.machine import Arithmetic as Arithmetic
from mfrank.backends.sharded.machine import Worker as Worker
from mfrank.backends.sharded.machine import arithmetic as arithmetic
from mfrank.backends.sharded.machine import refuse_joined as refuse_joined
from mfrank.backends.sharded.machine import refuse_other as refuse_other
from mfrank.backends.sharded.machine import same_workers as same_workers
from mfrank.backends.sharded.machine import threads_of_a_task as threads_of_a_task
from mfrank.backends.sharded.routes import Routes as Routes
from mfrank.backends.sharded.routes import Sent as Sent
