"""The task of a meeting: descent on the rows of a block of users and of a block of items.

Received arrays may be unaligned and read-only, so all are copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, Array, copied
from mfrank.backends import choose
from mfrank.backends.sharded import Arithmetic, RowBlock, refuse_joined
from mfrank.descent.engine import DescentPlan, Share, visit
from mfrank.descent.factor_tables import FactorTables, Scoring
from mfrank.descent.optimizers import State
from mfrank.descent.rotation.layout import order_key
from mfrank.descent.sampler import Catalog, ListDrawer, Sampling

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RotatingFit:
    """Common data of all meetings.

    Attributes
    ----------
    backend : str
    arithmetic : Arithmetic
        The arithmetic that the worker must have.
    plan : DescentPlan
    sampling : Sampling
    scoring : Scoring
    temperature : float
    n_threads : int
        Threads per task.
    """

    backend: str
    arithmetic: Arithmetic
    plan: DescentPlan
    sampling: Sampling
    scoring: Scoring
    temperature: float
    n_threads: int


class TableRows(NamedTuple):
    """Some rows of a table and of its optimizer state."""

    table: Array
    state: State

    @classmethod
    def of(cls, table: Array, state: State, rows: Ints) -> TableRows:
        """Copy the given rows."""
        return cls(table[rows], {name: array[rows] for name, array in state.items()})

    def put(self, table: Array, state: State, rows: Ints) -> None:
        """Write them back."""
        table[rows] = self.table
        for name, array in self.state.items():
            state[name][rows] = array


@dataclass(frozen=True, slots=True, eq=False)
class Meeting:
    """The input of a meeting.

    Attributes
    ----------
    epoch : int
    share : Share
    users : int64, shape (U,)
        Users to visit, as rows of the block on the worker; ascending.
    items : int64, shape (I,)
        Items of the block, ascending.
    catalog : Catalog
        Catalog of these users and items.
    tables : dict of TableRows
        Rows by name of the table.
    """

    epoch: int
    share: Share
    users: Ints
    items: Ints
    catalog: Catalog
    tables: dict[str, TableRows]


def meet(block: RowBlock, fit: RotatingFit, meeting: Meeting) -> tuple[dict[str, TableRows], float]:
    """Visit the users among the items; return the new rows, and the sum of the losses.

    Raises
    ------
    RuntimeError
        The worker joined later, and its arithmetic differs.
    FloatingPointError
        The fit diverged.
    """
    refuse_joined(fit.arithmetic)
    rows, plan = _among(block.pattern().pick(meeting.users), meeting.items), fit.plan
    tables = _tables(fit, meeting.tables)
    drawer = ListDrawer(
        rows,
        fit.sampling,
        tables.backend,
        plan.loss.cutoff,
        fit.n_threads,
        meeting.catalog,
    )
    n_visits = len(rows.indices) if plan.batches.of == "positives" else rows.n_rows
    random = np.random.default_rng(order_key(plan, meeting.epoch, meeting.share))
    order = random.permutation(n_visits)
    loss = 0.0
    for _, of_batch, _ in visit(plan, meeting.epoch, order, meeting.share, drawer, tables, {}):
        loss += of_batch
    new = {name: TableRows(table, tables.states[name]) for name, table in tables.by_name().items()}
    return new, loss


def _among(rows: CSR, items: Ints) -> CSR:
    """The entries of the rows in the columns ``items``, which are numbered from 0."""
    places = np.full(rows.n_columns, -1, dtype=np.int32)
    places[items] = np.arange(len(items), dtype=np.int32)
    columns = places[rows.indices]
    inside = columns >= 0
    indptr = np.concatenate([[0], np.cumsum(inside)])[rows.indptr]
    return CSR(indptr, columns[inside], None, len(items))


def _tables(fit: RotatingFit, given: dict[str, TableRows]) -> FactorTables:
    tables = {name: copied(rows.table) for name, rows in given.items()}
    states = {
        name: {of: np.array(array) for of, array in rows.state.items()}
        for name, rows in given.items()
    }
    return FactorTables(
        tables["users"],
        tables["items"],
        tables.get("biases"),
        choose(fit.backend),
        fit.scoring,
        fit.temperature,
        fit.n_threads,
        states,
    )
