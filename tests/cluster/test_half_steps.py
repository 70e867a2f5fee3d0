"""A half-step on an engine: its solutions, and what it sends, returns and holds, as was told."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from engines import Delayed, Shuffled, Spoiling
from hypothesis import given
from hypothesis import strategies as st

from mfrank.arrays import CSR
from mfrank.backends import CellTerm, ObservedLoss, RowProblem, Shared, SolveOptions, choose, cpu
from mfrank.backends.sharded import (
    Sent,
    Sharded,
    backend,
    blocks,
    machine,
    route,
    solve,
    sum_rows,
)
from mfrank.backends.sharded import routes as on_the_way
from mfrank.cluster import held

SMALL = 50_000
"""Bytes of objects, and of vectors with a number for each row, which are not counted."""


class Measured(Shuffled):
    """Notes tasks, bytes of factors and results, and how many tasks are under way at a time.

    ``change`` is of a result, given how many of its kind there were.
    """

    def __init__(self, n_workers: int = 3, change: Callable[..., Any] | None = None) -> None:
        super().__init__(n_workers)
        self.tasks, self.back, self.largest = list[Delayed](), 0, 0
        self.under_way, self.most_under_way = set[Delayed](), 0
        self.held, self.change = 0, change

    def of(self, *functions: Any) -> list[Delayed]:
        return [task for task in self.tasks if task.function in functions]

    @property
    def sent(self) -> int:
        given = [arg for task in self.of(solve, sum_rows, held) for arg in task.args]
        return sum(arg.factors.nbytes for arg in given if isinstance(arg, Sent))

    def submit(self, function: Callable[..., Any], *args: Any) -> Delayed:
        task = super().submit(function, *args)
        self.tasks.append(task)
        if function in (solve, sum_rows):
            self.under_way.add(task)
            self.most_under_way = max(self.most_under_way, len(self.under_way))
        return task

    def gather(self, tasks: Iterable[Delayed]) -> list[Any]:
        tasks = list(tasks)
        for task in tasks:
            if task in self.under_way and not task.results:
                tracemalloc.start()
                found = self._result(task)
                self.held = max(self.held, tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()
                parts = found if isinstance(found, tuple) else (found,)
                self.back += sum(part.nbytes for part in parts)
                self.largest = max(self.largest, *(part.nbytes for part in parts))
        self.under_way -= {*tasks}
        given = super().gather(tasks)
        if self.change is None:
            return given
        return [self.change(task, one) for task, one in zip(tasks, given, strict=True)]


class HalfStep:
    """A half-step of random rows, which can be solved here and on an engine."""

    def __init__(
        self,
        shape: tuple[int, int],
        density: Any,
        width: int,
        solver: Any = "cholesky",
        gathered: Any = None,
        *,
        name: str = "cpu",
        dislikes: bool = False,
    ) -> None:
        self.random = random = np.random.default_rng(0)
        dense = random.random(shape) < random.choice(density, (shape[0], 1))
        values = np.where(random.random(shape) < 0.3, -1, 1) if dislikes else 1
        self.rows = CSR.from_scipy(sp.csr_array((dense * values).astype(np.float32)))
        self.fixed = 0.1 * random.standard_normal((shape[1], width), np.float32)
        self.start = 0.1 * random.standard_normal((shape[0], width), np.float32)
        self.options = SolveOptions(solver, 3, None, 1, gathered)
        self.shared = Shared(np.ones(width), np.ones(width))
        self.prior: Any = None
        self.pull = random.uniform(0.5, 2, shape[0])
        self.name, self.curved = name, True

    def problem(self) -> RowProblem:
        n_rows, random = self.rows.n_rows, np.random.default_rng(1)
        cells, none = CellTerm(random.uniform(0.5, 2, n_rows)), CellTerm(np.zeros(n_rows))
        observed = ObservedLoss(cells if self.curved else none, CellTerm(self.pull), none)
        weight, ridge = random.uniform(0.1, 1, n_rows), random.uniform(0.5, 1, n_rows)
        return RowProblem(self.rows, weight, ridge, observed, users_are_rows=True)

    def on(self, sharded: Any) -> Any:
        out = np.empty_like(self.start)
        turn = np.eye(self.fixed.shape[1])
        given = self.problem(), self.fixed, self.shared, out, self.options, self.start, turn
        sharded.solve_rows(*given, prior=self.prior)
        return out

    def here(self) -> Any:
        return self.on(choose(self.name))

    def there(self, engine: Shuffled) -> Any:
        return self.on(self.sharded(engine))

    def sharded(self, engine: Shuffled) -> Sharded:
        return Sharded(choose(self.name), self.name, engine)


@pytest.fixture(params=["everywhere", "of each block"])
def everywhere(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "everywhere")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_FEWEST_ENTRIES", 5000)


def memory(patch: pytest.MonkeyPatch, half: HalfStep, everywhere: bool) -> None:
    """Workers have just enough for all fixed factors, which may be a quarter, or a byte too few."""
    enough = 4 * half.fixed.nbytes
    patch.setattr(backend, "memory_of_a_task", lambda _: enough if everywhere else enough - 4)


def summed(patch: pytest.MonkeyPatch, popular: int, width: int, at_once: int = 50) -> None:
    """Rows of so many entries are solved from sums, so many of them together."""
    patch.setattr(cpu.SUMS, "summed_from", lambda *_, **__: popular)
    patch.setattr(blocks, "_SUMS_AT_ONCE", 4 * width * (width + 1) * at_once)


COSTS: dict[
    str, tuple[Any, ...]
] = {  # the shape, densities, the width, the solver; what is popular
    "factors": ((300, 2000), [0.01, 0.05, 0.2], 64, "cholesky", 0),
    "sums": ((300, 2000), [0.01, 0.05, 0.2], 64, "cholesky", 300),
    "iterations": ((300, 2000), [0.01, 0.05, 0.2], 64, "cg", 0),
    "entries": ((300, 2000), [0.01, 0.05, 0.2], 2, "cg", 0),
    "rows": ((9000, 30), [0.1], 64, "cg", 0),
    "columns": ((60, 40_000), [0.05], 1, "cholesky", 0),
}


@pytest.mark.parametrize("gathered", [None, "float16"])
@pytest.mark.parametrize("most", COSTS)
def test_it_costs_what_was_told(
    everywhere: bool, most: str, gathered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    *given, popular = COSTS[most]
    half, engine = HalfStep(*given, gathered), Measured()
    memory(monkeypatch, half, everywhere)
    if popular:
        summed(monkeypatch, popular, half.fixed.shape[1])
    sharded = half.sharded(engine)
    told = sharded.shipped(half.rows, half.fixed.shape[1], half.fixed.dtype, half.options)
    there = half.on(sharded)
    assert bool(engine.of(held)) == everywhere
    assert bool(engine.of(sum_rows)) == bool(popular)
    tasks = len(engine.of(solve, sum_rows))
    assert (told.tasks, told.sent, told.back) == (tasks, engine.sent, engine.back)
    if popular:
        assert engine.largest == blocks._SUMS_AT_ONCE
    held_and_small, told_and_small = engine.held + SMALL, told.task + SMALL
    assert 0.7 * held_and_small < told_and_small < 1.9 * held_and_small
    assert engine.most_under_way == 2 * 3  # of each worker two
    np.testing.assert_allclose(there, half.here(), rtol=0, atol=1e-3 if gathered else 1e-5)


@pytest.mark.parametrize("gathered", [None, "float16"])
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
@pytest.mark.parametrize("popular", [0, 60])
def test_a_prior_and_a_start_reach_every_row(
    everywhere: bool, popular: int, solver: Any, gathered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = HalfStep((300, 200), [0.1, 0.5], 6, solver, gathered)
    half.prior = half.random.standard_normal(half.start.shape, np.float32)
    half.options = replace(half.options, cg_tolerance=1e-6)
    memory(monkeypatch, half, everywhere)
    if popular:
        summed(monkeypatch, popular, 6)
    atol = 1e-3 if gathered else 1e-5
    np.testing.assert_allclose(half.there(Measured()), half.here(), rtol=0, atol=atol)


@pytest.mark.parametrize("n_threads", [0, 5])
def test_threads_of_a_machine_are_divided_among_its_tasks(
    n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "usable_cores", lambda: 7)
    half, engine = HalfStep((30, 20), [0.2], 3), Measured()
    half.options = replace(half.options, n_threads=n_threads)
    half.there(engine)
    used = {task.args[1].options.n_threads for task in engine.of(solve)}
    assert used == {n_threads or 2}  # of three tasks


def test_a_vector_of_equal_numbers_is_sent_as_one() -> None:
    half, engine = HalfStep((300, 200), [0.2], 3), Measured()
    alike = replace(half.problem(), weight=np.full(300, 0.5))
    half.problem = lambda: alike  # type: ignore[method-assign]
    half.there(engine)
    sent = [task.args[2] for task in engine.of(solve)]
    assert {len(one.weight) for one in sent} == {1}
    assert sum(len(one.ridge) for one in sent) == 300


# Zeros and NaN that are right, or not: a row is solved here, too.


@pytest.mark.parametrize("gathered", [None, "float16"])
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
@pytest.mark.parametrize("popular", [0, 60])
@pytest.mark.parametrize("right", ["zeros", "infinite"])
def test_what_is_right_is_taken(
    everywhere: bool,
    right: str,
    popular: int,
    solver: Any,
    gathered: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows have solutions of zeros, or such that their dtype cannot hold."""
    half = HalfStep((300, 200), [0.1, 0.5], 6, solver, gathered)
    half.options = replace(half.options, cg_tolerance=1e-6)
    memory(monkeypatch, half, everywhere)
    if popular:
        summed(monkeypatch, popular, 6)
    half.start[:] = 0
    half.shared = Shared(np.ones(6), np.zeros(6))
    if right == "zeros":  # of whole blocks, but for what is summed
        some = (np.arange(300) >= 150) & (half.rows.counts < (popular or np.inf))
    else:
        some = np.arange(300) % 2 == 1
    half.pull[some] = 0 if right == "zeros" else 1e60
    half.prior = None if right == "zeros" else half.random.random(half.start.shape, np.float32)
    with np.errstate(over="ignore"):
        here, there = half.here(), half.there(Measured())
    assert not (here[some] if right == "zeros" else np.isfinite(here[some])).any()
    assert np.isfinite(here[~some]).all()
    np.testing.assert_allclose(there, here, rtol=0, atol=1e-3)


class OneSpoiled(Measured):
    """Returns a value, in place of each number, as the solution of the last block's rows alone."""

    value = 0.0

    def gather(self, tasks: Iterable[Delayed]) -> list[Any]:
        tasks = list(tasks)
        last = self.of(route)[-1]
        return [
            (np.full_like(found[0], self.value), found[1])
            if task.function is solve and task.args[0] is last
            else found
            for task, found in zip(tasks, super().gather(tasks), strict=True)
        ]


@pytest.mark.parametrize("name", ["cpu", "reference"])
@pytest.mark.parametrize("value", [0.0, np.nan])
def test_what_is_wrong_in_one_block_is_told(
    everywhere: bool, value: float, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of the last block have one entry or none; the first of them has none."""
    monkeypatch.setattr(blocks, "_FEWEST_ENTRIES", 100)
    half, engine = HalfStep((30, 12), [0.0], 3, name=name), OneSpoiled()
    counts = np.array([9] * 10 + [0, 1] * 10)
    columns = np.concatenate([np.arange(count, dtype=np.int32) for count in counts])
    half.rows = CSR(np.concatenate([[0], np.cumsum(counts)]), columns, None, 12)
    half.shared = Shared(np.ones(3), np.zeros(3))
    memory(monkeypatch, half, everywhere)
    engine.value = value
    with pytest.raises(RuntimeError, match=r"returned .* for the half-step of rows 10 to 30"):
        half.there(engine)
    assert len(engine.of(route)) == 2


def test_a_row_that_is_summed_says_nothing_of_its_block(
    everywhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second block has a row that is just long enough for sums, and then zeros alone."""
    monkeypatch.setattr(blocks, "_FEWEST_ENTRIES", 100)
    half = HalfStep((30, 12), [0.0], 3)
    counts = np.array([9] * 10 + [12] + [1] * 19)
    columns = np.concatenate([np.arange(count, dtype=np.int32) for count in counts])
    half.rows = CSR(np.concatenate([[0], np.cumsum(counts)]), columns, None, 12)
    half.shared = Shared(np.ones(3), np.zeros(3))
    half.pull[11:] = 0
    memory(monkeypatch, half, everywhere)
    summed(monkeypatch, 12, 3)
    here = half.here()
    assert here[:11].any(axis=1).all()
    assert not here[11:].any()
    np.testing.assert_allclose(half.there(Measured()), here, rtol=0, atol=1e-6)


def test_only_what_serves_a_half_step_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same entries with values and without, summed or not, and with sums of other sizes."""
    half, engine = HalfStep((300, 200), [0.1, 0.5], 6, dislikes=True), Measured()
    summed(monkeypatch, 60, 6)
    sums_from = cpu.SUMS.summed_from  # type: ignore[union-attr]
    iterated = replace(half.options, solver="cg", cg_tolerance=1e-6)
    exact = half.options

    def from_many(*given: Any, **how: Any) -> int:
        return 10**9 if iterated in given else sums_from(*given, **how)

    monkeypatch.setattr(cpu.SUMS, "summed_from", from_many)
    sharded, plain = half.sharded(engine), replace(half.rows, data=None)
    valued, routed = half.rows, list[bool]()
    for rows, options, curved in (
        (plain, exact, True),
        (valued, exact, True),  # has values that are not there
        (plain, exact, True),
        (valued, exact, True),
        (valued, exact, False),  # sums of curved rows are larger
        (plain, exact, False),
        (plain, iterated, False),  # has no sums
    ):
        half.rows, half.options, half.curved = rows, options, curved
        before = len(engine.of(route))
        np.testing.assert_allclose(half.on(sharded), half.here(), rtol=0, atol=1e-5)
        routed.append(len(engine.of(route)) > before)
    assert routed == [True, True, False, False, True, False, True]


# Factors and columns on their way.


@given(st.integers(0, 40), st.integers(1, 5), st.integers(1, 9), st.integers(1, 200), st.booleans())
def test_pieces_make_up_a_table(
    n_rows: int, width: int, n_pieces: int, most: int, rounds: bool
) -> None:
    table = np.random.default_rng(0).random((n_rows, width), np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(on_the_way, "_PIECE", most)
        cut = list(on_the_way.pieces(table, 0.5 if rounds else None, n_pieces))
    sizes = [len(piece.factors) for piece in cut]
    assert max(sizes, default=1) == 1 or max(sizes) * 4 * width <= most
    assert len({*sizes[:-1]}) <= 1
    if len(cut) > n_pieces:  # one row more would be too many for a piece
        assert (sizes[0] + 1) * 4 * width > most
    elif n_rows:
        assert sizes[0] == -(-n_rows // n_pieces)
    rows = np.arange(n_rows, dtype=np.int32)[::-1]
    again = on_the_way.taken(cut, rows) if cut else table
    np.testing.assert_allclose(again, table[rows], atol=1e-3 if rounds else 0)


COLUMNS: dict[str, Callable[[Any], Any]] = {
    "a negative one": lambda columns: np.r_[np.int32(-1), columns[1:]],
    "one too far": lambda columns: np.r_[columns[:-1], np.int32(200)],
    "not ascending": lambda columns: columns[[0, *range(1, len(columns) - 2), -1, -2]],
    "one twice": lambda columns: columns[[0, 0, *range(2, len(columns))]],
    "none": lambda columns: columns[:0],
}


@pytest.mark.parametrize("wrong", COLUMNS)
def test_columns_that_are_none_of_a_block_are_told(wrong: str) -> None:
    engine = Spoiling("columns_of", COLUMNS[wrong])
    with pytest.raises(RuntimeError, match="columns that are not those of a block"):
        HalfStep((300, 200), [0.2], 3).there(engine)


@pytest.mark.parametrize("column", [0, 7])
def test_a_block_may_touch_one_column(everywhere: bool, column: int) -> None:
    half = HalfStep((30, 8), [0.0], 3)
    indptr = np.arange(31)
    half.rows = CSR(indptr, np.full(30, column, np.int32), np.ones(30, np.float32), 8)
    np.testing.assert_array_equal(half.there(Measured(1)), half.here())


@pytest.mark.parametrize("width", [3, 64])
def test_sums_that_overflow_are_no_error(everywhere: bool, width: int) -> None:
    """Rows so long that they are summed anyway: they are solved in float64, as in one process."""
    half, engine = HalfStep((2, 34_000), [1.0], width), Measured()
    half.fixed *= 1e19
    here = half.here()
    np.testing.assert_array_equal(half.there(engine), here)
    assert engine.of(sum_rows)
    assert np.isfinite(here).all()
    assert here.any()
