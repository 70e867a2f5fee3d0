"""What a fit needs is compared with the memory there is, and refused by the option to lower."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from engines import Shuffled

import mfrank
from mfrank.als import epoch_seconds, tables_at_once
from mfrank.arrays import CSR
from mfrank.backends import SolveOptions, choose
from mfrank.backends.sharded import Sharded
from mfrank.descent import Batches, Sampling
from mfrank.models import FitPlan, cost, told_of_cluster
from tests.support.errors import refuses


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str, str]]:
    """What a fit asks for: bytes, for which work, and the remedy."""
    calls = list[tuple[int, str, str]]()

    def check(*given: Any) -> None:
        calls.append(given)
        raise MemoryError("before any work")

    monkeypatch.setattr(cost, "check_memory", check)
    return calls


def likes(n_users: int, n_items: int, nnz: int) -> mfrank.Interactions:
    entries = np.arange(nnz)
    return mfrank.Interactions.from_arrays(
        entries % n_users, entries % n_items, shape=(n_users, n_items)
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_narrow_fit_holds_some_tables_of_all_factors(asked: list[Any], dtype: Any) -> None:
    with pytest.raises(MemoryError):
        mfrank.ALS(factors=7, dtype=dtype).fit(likes(300, 200, 600))
    ((needed, work, remedy),) = asked
    row = 7 * np.dtype(dtype).itemsize
    assert needed == pytest.approx(tables_at_once(300, 200, row) * 500 * row, abs=1)
    assert work == "a fit of 7 factors to 500 users and items"
    assert remedy == "lower `factors`"


def test_a_wide_fit_holds_square_matrices_beside_one_table(asked: list[Any]) -> None:
    with pytest.raises(MemoryError):
        mfrank.ALS(factors=1_000, dtype="float64").fit(likes(3, 2, 6))
    assert asked[0][0] == 5 * 1_000 * 8 + 6 * 1_000**2 * 8


@pytest.mark.parametrize("nnz", [1, 2, 4, 5, 6])
def test_rows_most_of_which_are_empty_are_named(asked: list[Any], nnz: int) -> None:
    """An entry has one user and one item, so that 5 entries leave half of 20 rows empty."""
    with pytest.raises(MemoryError):
        mfrank.ALS(factors=2).fit(likes(10, 10, nnz))
    remedy = asked[0][2]
    assert remedy.endswith("lower `factors`")
    assert (remedy != "lower `factors`") == (nnz < 5)
    if nnz < 5:
        assert remedy.startswith(f"at most {2 * nnz} of them have interactions: if row numbers are")


def test_a_fit_whose_factors_are_elsewhere_is_not_compared(asked: list[Any]) -> None:
    elsewhere: Any = SimpleNamespace(place=lambda array: array.tolist())
    data = likes(3, 2, 6)
    cost.check_width(data, 4, "float32", elsewhere, tables=2, matrices=1)
    assert not asked
    with pytest.raises(MemoryError):
        cost.check_width(data, 4, "float32", choose("reference"), tables=2, matrices=1)


ROWS = CSR.from_scipy(sp.csr_array([[1, 1, 1, 0], [0, 1, 0, 0], [0, 0, 1, 1]]), np.float32)


@pytest.mark.parametrize("holds_pairs", [False, True])
@pytest.mark.parametrize(
    ("batches", "sampling", "lists"),
    [
        (Batches("users", 2), Sampling(None, None), (2, 3, 4)),
        (Batches("users", 9), Sampling(None, 7), (3, 3, 7)),
        (Batches("users", 9), Sampling(2, 7), (3, 2, 7)),
        (Batches("users", 9), Sampling(5, None), (3, 3, 4)),
        (Batches("positives", 9), Sampling(None, None), (6, 1, 4)),
        (Batches("positives", 4), Sampling(2, 7), (4, 1, 7)),
    ],
)
def test_the_largest_array_of_a_batch_is_that_of_its_lists(
    monkeypatch: pytest.MonkeyPatch, batches: Batches, sampling: Any, lists: Any, holds_pairs: bool
) -> None:
    size, positives, negatives = lists
    loss: Any = SimpleNamespace(
        largest_array=lambda n, m: 100 * n + m, largest_pair_array=lambda n, m: 10_000 * n + m
    )
    backend: Any = SimpleNamespace(list_sums=lambda: SimpleNamespace(holds_pairs=holds_pairs))
    numbers = size * ((10_000 if holds_pairs else 100) * positives + negatives)
    monkeypatch.setattr(cost, "_MOST_NUMBERS", numbers)
    cost.check_batch_memory(ROWS, loss, batches, sampling, backend)
    monkeypatch.setattr(cost, "_MOST_NUMBERS", numbers - 1)
    with refuses(ValueError, "batch_size", remedy="lower batch_size"):
        cost.check_batch_memory(ROWS, loss, batches, sampling, backend)


@pytest.mark.parametrize(
    ("options", "fit", "more"),
    [
        ({}, {}, 0),
        ({}, {"item_features": np.ones((200, 2))}, 3),
        ({}, {"user_features": np.ones((300, 2))}, 4),
        ({}, {"user_features": np.ones((300, 2)), "item_features": np.ones((200, 2))}, 4),
        ({"biases": True}, {}, 5),
    ],
)
def test_features_and_biases_take_tables_of_their_own(
    asked: list[Any], options: dict[str, Any], fit: dict[str, Any], more: int
) -> None:
    """Means in float64 and in the dtype, those of users in two epochs; wider rows, and priors."""
    with pytest.raises(MemoryError):
        mfrank.ALS(factors=8, **options).fit(likes(300, 200, 600), **fit)
    tables = tables_at_once(300, 200, 8 * 4) + more
    assert asked[0][0] == pytest.approx(tables * 500 * 8 * 4, abs=1)


@pytest.mark.parametrize(
    ("optimizer", "states"),
    [(mfrank.SGD(0.1), 0), (mfrank.SGD(0.1, momentum=0.5), 1), (mfrank.Adam(0.1), 2)],
    ids=["SGD", "momentum", "Adam"],
)
def test_a_descent_holds_two_tables_and_its_optimizers(
    asked: list[Any], optimizer: Any, states: int
) -> None:
    """Of a wide one, spectral factors take square matrices: five, where it begins with these."""
    data = likes(300, 200, 600)
    with pytest.raises(MemoryError):
        mfrank.Descent(factors=7, optimizer=optimizer).fit(data)
    assert asked[0][0] == (2 + states) * 500 * 7 * 4
    start = mfrank.FactorStore(np.ones((300, 2_000), np.float32), np.ones((200, 2_000), np.float32))
    for options, begun, matrices in (
        ({}, None, 5),
        ({"init": "random"}, None, 0),
        ({}, start, 0),
    ):
        asked.clear()
        model = mfrank.Descent(factors=2_000, optimizer=optimizer, **options)  # type: ignore[arg-type]
        with pytest.raises(MemoryError):
            model.fit(data, start=begun)
        table = 500 * 2_000 * 4
        assert asked[0][0] == max((2 + states) * table, table + matrices * 2_000**2 * 8)


def test_the_best_epoch_is_held_beside_the_others(asked: list[Any]) -> None:
    data = likes(300, 200, 600)
    valid = mfrank.Interactions.from_arrays([0, 1], [1, 2], shape=(300, 200))
    with pytest.raises(MemoryError):
        mfrank.ALS(factors=8).fit(data, stopping=mfrank.EarlyStopping(valid))
    tables = tables_at_once(300, 200, 8 * 4, best=True)
    assert tables > tables_at_once(300, 200, 8 * 4)
    assert asked[0][0] == pytest.approx(tables * 500 * 8 * 4, abs=1)


@pytest.mark.parametrize("biases", [False, True])
def test_a_plan_is_what_the_fit_takes(asked: list[Any], tmp_path: Path, biases: bool) -> None:
    data = mfrank.synthetic(300, 200, 4_000, random_state=0)
    model = mfrank.ALS(factors=12, solver="auto", n_threads=1, biases=biases)
    plan = FitPlan.of(model, data)
    sides = 12 * 4 * np.array([data.n_users, data.n_items])
    assert plan.factors == sides.sum()
    assert plan.state == sides.sum() + sides[1] // 2  # and the momentum of the items
    arrays = [getattr(rows, name) for rows in (data.user_items, data.item_users) for name in PARTS]
    assert plan.data == sum(array.nbytes for array in arrays)
    with pytest.raises(MemoryError):
        model.fit(data)
    assert plan.held == asked[0][0]
    told = plan.told(10)
    assert f"{plan.epoch:.2g} seconds an epoch, {10 * plan.epoch:.2g} for 10 epochs" in told
    assert "for interactions" in told
    mapped = FitPlan.of(model, mfrank.Interactions.open(data.to_folder(tmp_path / "data")))
    assert replace(mapped, mapped=False) == plan
    assert "of interactions are mapped from their folder" in mapped.told(10)


def test_a_plan_counts_features_and_the_best_epoch(asked: list[Any]) -> None:
    data = mfrank.synthetic(300, 200, 4_000, random_state=0)
    model, alone = mfrank.ALS(factors=12), FitPlan.of(mfrank.ALS(factors=12), data).held
    users, items = (sp.csr_array(np.ones((n, 3))) for n in (300, 200))
    valid = mfrank.EarlyStopping(mfrank.Interactions.from_arrays([0], [1], shape=(300, 200)))
    for features in ({}, {"user_features": users}, {"item_features": items}):
        for stopping in (None, valid):
            plan = FitPlan.of(model, data, **features, has_best=stopping is not None)
            with pytest.raises(MemoryError):
                model.fit(data, stopping=stopping, **features)
            own = sum(getattr(each, name).nbytes for each in features.values() for name in PARTS)
            assert plan.held == asked[-1][0] + own
            assert (plan.held > alone) == bool(features or stopping)


def test_a_plan_of_many_factors_counts_their_matrices(asked: list[Any]) -> None:
    data = mfrank.synthetic(30, 20, 400, random_state=0)
    plan = FitPlan.of(mfrank.ALS(factors=1_000), data)
    assert plan.held == 50 * 1_000 * 4 + 6 * 1_000**2 * 8


def test_the_time_of_a_plan_is_that_of_its_solver() -> None:
    """Biases are solved exactly, whatever the solver."""
    data = mfrank.synthetic(300, 200, 30_000, random_state=0)
    exact, quick = (
        epoch_seconds(data.counts, 256, SolveOptions(solver, n_threads=1))
        for solver in ("cholesky", "auto")
    )
    assert quick < exact
    for biases, seconds in ((True, exact), (False, quick)):
        assert (
            FitPlan.of(mfrank.ALS(factors=256, n_threads=1, biases=biases), data).epoch == seconds
        )


PARTS = "indptr", "indices", "data"


@pytest.mark.parametrize("free", [np.inf, 1e12, "task", 1000.0])
def test_a_plan_on_a_cluster_names_what_its_workers_have(
    monkeypatch: pytest.MonkeyPatch, free: Any
) -> None:
    data = mfrank.synthetic(300, 200, 4_000, random_state=0)
    model = mfrank.ALS(factors=12)
    task = largest_task(model, data)
    monkeypatch.setattr(Sharded, "free", float(task if free == "task" else free))
    told = told_of_cluster(model, data, Shuffled(2))
    memory = told.splitlines()[-1]
    assert memory.startswith("memory of a worker: about ")
    assert ("that are free" in memory) == (free != np.inf)
    assert memory.endswith("B") or free != np.inf
    assert ("too little" in memory) == (free == 1000.0)


def largest_task(model: mfrank.ALS, data: mfrank.Interactions) -> int:
    tasks = list[int]()
    shipped = Sharded.shipped

    def watched(self: Any, *given: Any) -> Any:
        half = shipped(self, *given)
        tasks.append(half.task)
        return half

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sharded, "shipped", watched)
        told_of_cluster(model, data, Shuffled(2))
    return max(tasks)
