"""A fit whose half-steps run elsewhere, in blocks of rows, has the bits of one that does not."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engines import Delayed, Shuffled
from problems import OBJECTIVES, toy

import mfrank
from mfrank.als import QuadraticObjective
from mfrank.backends import SolveOptions, choose
from mfrank.backends.sharded import backend, blocks, solve
from mfrank.backends.sharded import routes as sent
from mfrank.cluster import held
from mfrank.models import told_of_cluster

DATA = mfrank.synthetic(120, 60, 1500, random_state=0)


EVERYWHERE = "all fixed factors everywhere"


@pytest.fixture(autouse=True, params=[EVERYWHERE, "those of each block"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which factors travel, with small blocks and pieces."""
    monkeypatch.setattr(blocks, "_FEWEST_ENTRIES", 100)
    monkeypatch.setattr(sent, "_PIECE", 700)
    if request.param != EVERYWHERE:
        monkeypatch.setattr(backend, "_SHARE_OF_MEMORY", 0.0)
    return str(request.param)


def als(objective: QuadraticObjective, **options: Any) -> mfrank.ALS:
    how = {"factors": 9, "iterations": 2, "random_state": 0, "track_objective": True}
    return mfrank.ALS(objective, **how | options)


def digest(model: mfrank.ALS) -> str:
    """SHA-256 of the factors and of the objective after each epoch."""
    store = model.store
    sha = hashlib.sha256(store.user_factors.tobytes() + store.item_factors.tobytes())
    sha.update(repr([epoch["objective"] for epoch in store.history]).encode())
    return sha.hexdigest()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_has_the_bits_of_one_process(name: str) -> None:
    alone = als(OBJECTIVES[name]).fit(DATA)
    for n in (1, 7):
        there = als(OBJECTIVES[name]).fit(DATA, cluster=Shuffled(n, seed=n))
        assert digest(there) == digest(alone)


@pytest.mark.parametrize("n_threads", [1, 4])
@pytest.mark.parametrize(
    "options",
    [
        {"solver": "cg"},
        {"solver": "cholesky", "dtype": "float64"},
        {"solver": "auto", "cg_tolerance": 1e-3},
        {"backend": "reference", "factors": 3},
    ],
)
def test_every_solver_and_dtype_do(options: dict[str, Any], n_threads: int) -> None:
    objective = OBJECTIVES["wrmf"]
    alone = als(objective, **options).fit(DATA)
    for n in (2, 3):
        there = als(objective, n_threads=n_threads, **options)
        assert digest(there.fit(DATA, cluster=Shuffled(n, seed=n))) == digest(alone)


@pytest.mark.parametrize(
    ("objective", "values"),
    [
        (mfrank.WRMF(alpha=1.0, regularization=0.0), "dislikes"),
        (mfrank.IALS(alpha0=0.0, regularization=0.0), "ones"),
        (mfrank.RGX(regularization=0.0), "counts"),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_with_less_than_they_need_do(
    objective: QuadraticObjective, values: str, dtype: str
) -> None:
    data, how = toy(60, 40, 0.15, values=values), {"dtype": dtype, "iterations": 1}
    for factors in (5, 30):
        alone = als(objective, factors=factors, **how).fit(data)
        there = als(objective, factors=factors, **how).fit(data, cluster=Shuffled(3))
        assert digest(there) == digest(alone)


@pytest.mark.parametrize("name", ["ials", "rgx"])
def test_features_of_both_sides_do(name: str) -> None:
    rng, options = np.random.default_rng(0), {"item_features": np.eye(60, 4)}
    options["user_features"] = rng.standard_normal((120, 3))
    alone = als(OBJECTIVES[name]).fit(DATA, **options)
    there = als(OBJECTIVES[name]).fit(DATA, cluster=Shuffled(3), **options)
    assert digest(there) == digest(alone)
    for extra, array in alone.store.extras.items():
        np.testing.assert_array_equal(there.store.extras[extra], array)


def test_biases_do() -> None:
    options = {"biases": True, "solver": "cholesky"}
    alone = als(mfrank.WRMF(), **options).fit(DATA)
    there = als(mfrank.WRMF(), **options).fit(DATA, cluster=Shuffled(3))
    assert digest(there) == digest(alone)
    np.testing.assert_array_equal(there.store.item_biases, alone.store.item_biases)


def test_a_warm_start_and_early_stopping_do() -> None:
    split = mfrank.by_ratio(DATA, train=0.8, valid=0.2, test=0.0, random_state=0)
    first = als(mfrank.IALS()).fit(split.train)

    def fitted(**where: Any) -> mfrank.ALS:
        stopping = mfrank.EarlyStopping(split.valid, patience=1)
        model = als(mfrank.IALS(), iterations=6)
        return model.fit(split.train, start=first, stopping=stopping, **where)

    assert digest(fitted(cluster=Shuffled(2))) == digest(fitted())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_folder_of_interactions_does_and_its_entries_do_not_travel(
    tmp_path: Path, dtype: str
) -> None:
    DATA.to_folder(tmp_path / "data")
    opened, objective = mfrank.Interactions.open(tmp_path / "data"), OBJECTIVES["wrmf"]
    engine = Watched(2)
    there = als(objective, dtype=dtype).fit(opened, cluster=engine)
    assert digest(there) == digest(als(objective, dtype=dtype).fit(DATA))
    given = [args[0] for function, args in engine.sent if function is blocks.route]
    assert given
    pieces = [piece for block in given for piece in block.columns]
    assert all(isinstance(piece, blocks.FilePart) for piece in pieces)


class Watched(Shuffled):
    """Notes what was sent."""

    def __init__(self, n_workers: int) -> None:
        super().__init__(n_workers)
        self.sent: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def submit(self, function: Callable[..., Any], *args: Any) -> Delayed:
        self.sent.append((function, args))
        return super().submit(function, *args)

    def factors(self) -> list[np.ndarray]:
        """All factors that were sent."""
        args = (arg for function, args in self.sent if function in (solve, held) for arg in args)
        return [arg.factors for arg in args if isinstance(arg, sent.Sent)]


@pytest.mark.parametrize(("solver", "warm"), [("cholesky", False), ("cg", True)])
def test_a_half_step_sends_each_row_that_is_needed_once(solver: str, warm: bool, way: str) -> None:
    engine = Watched(2)
    width, epochs = 9, 2
    options = {"solver": solver, "factors": width, "iterations": epochs}
    als(mfrank.IALS(), **options).fit(DATA, cluster=engine, start=als(mfrank.IALS()).fit(DATA))

    def rows(matrix: Any) -> int:
        """Rows that all blocks touch or the matrix has columns, and their own as a start."""
        bounds = blocks.bounds(blocks.CSR.from_scipy(matrix))
        touched = [len(np.unique(matrix[begin:end].indices)) for begin, end in pairwise(bounds)]
        assert len(touched) > 5
        fixed = matrix.shape[1] if way == EVERYWHERE else sum(touched)
        return int(fixed + warm * matrix.shape[0])

    # The first user step and, in each epoch, both. Momentum has not begun to be undone so early.
    steps = (1 + epochs) * rows(DATA.user_items) + epochs * rows(DATA.item_users)
    assert sum(each.nbytes for each in engine.factors()) == steps * width * 4


@pytest.mark.parametrize("gathered", [None, "float16"])
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_what_is_told_before_is_what_an_epoch_sends(solver: str, gathered: Any) -> None:
    model = als(mfrank.IALS(), solver=solver, gather_dtype=gathered)
    sent_until = list[int]()
    engine = Watched(3)
    model.fit(
        DATA,
        cluster=engine,
        callback=lambda *_: sent_until.append(sum(each.nbytes for each in engine.factors())),
    )
    there = backend.Sharded(choose("cpu"), "cpu", engine)
    options = SolveOptions(solver, 3, None, 1, gathered)
    halves = [
        there.shipped(rows, 9, np.dtype("float32"), options)
        for rows in (DATA.user_rows("float32"), DATA.item_rows("float32"))
    ]
    assert sum(half.sent for half in halves) == sent_until[1] - sent_until[0]
    told = told_of_cluster(model, DATA, engine)
    assert "cluster: 3 workers; an epoch is" in told
    assert f"sends {sum(half.sent for half in halves) / 2**20:.3g} MiB" in told
    assert "too little" not in told


def test_too_little_memory_of_a_worker_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend.Sharded, "free", 1000.0)
    assert "too little: take fewer workers" in told_of_cluster(
        als(mfrank.IALS()), DATA, Shuffled(2)
    )


@pytest.mark.parametrize("relays", [True, False])
def test_all_fixed_factors_go_where_that_is_less(relays: bool) -> None:
    sent_by = []
    for n in (1, 500):
        engine = Watched(n)
        engine.relays = relays
        als(mfrank.IALS()).fit(DATA, cluster=engine)
        sent_by.append(any(function is held for function, _ in engine.sent))
    assert sent_by == [backend._SHARE_OF_MEMORY > 0, backend._SHARE_OF_MEMORY > 0 and relays]


def test_float16_on_the_way_is_what_a_backend_that_gathers_it_computes() -> None:
    options = {"backend": "reference", "factors": 3, "gather_dtype": "float16"}
    for dtype in ("float32", "float64"):
        alone = als(mfrank.RG2(), dtype=dtype, **options).fit(DATA)
        there = als(mfrank.RG2(), dtype=dtype, **options).fit(DATA, cluster=Shuffled(3))
        assert digest(there) == digest(alone)


DTYPES = "float32", "float16"


def test_float16_halves_what_is_sent_and_loses_little() -> None:
    sizes, fits = [], []
    for gathered in (None, "float16"):
        engines = Watched(1), Watched(7)
        made = [als(mfrank.IALS(), gather_dtype=gathered).fit(DATA, cluster=e) for e in engines]
        assert digest(made[0]) == digest(made[1])
        travelled = engines[0].factors()
        sizes.append([sum(e.nbytes for e in travelled if e.dtype == dtype) for dtype in DTYPES])
        fits.append(made[0].store)
    (full, none), (start, half) = sizes  # the spectral start is not rounded
    assert none == 0 < half
    assert full == start + 2 * half
    exact, rounded = (float(fit.history[-1]["objective"] or 0) for fit in fits)
    assert rounded == pytest.approx(exact, rel=1e-3)
    assert rounded != exact


def test_the_number_of_tasks_does_not_grow_with_the_epochs() -> None:
    counts = []
    for iterations in (2, 12):
        engine = Shuffled(2)
        als(mfrank.RG2(), iterations=iterations).fit(DATA, cluster=engine)
        counts.append(engine.most_alive)
        assert not engine.alive
    assert counts[0] == counts[1]


def test_an_error_of_a_task_leaves_the_last_complete_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Failing(Shuffled):
        left = 10**9

        def submit(self, function: Callable[..., Any], *args: Any) -> Delayed:
            self.left -= 1
            if self.left < 0:
                raise OSError("lost")
            return super().submit(function, *args)

    engine, model = Failing(2), als(mfrank.RG2(), iterations=5)

    def fail_in_the_third(epoch: int, *_: object) -> None:
        engine.left = 10 if epoch == 1 else engine.left

    with pytest.raises(OSError, match="lost"):
        model.fit(DATA, cluster=engine, callback=fail_in_the_third)
    assert digest(model) == digest(als(mfrank.RG2(), iterations=2).fit(DATA))


def test_one_engine_keeps_objectives_and_matrices_apart() -> None:
    """What workers hold of one fit has no part in the next, of the same matrix or of another."""
    engine = Shuffled(3)
    fits: list[tuple[Any, dict[str, Any], Any]] = [
        (mfrank.WRMF(), {}, DATA),
        (mfrank.IALS(), {}, DATA),
        (mfrank.WRMF(alpha=3.0), {}, DATA),
        (mfrank.WRMF(), {"solver": "cg"}, DATA),
        (mfrank.WRMF(), {}, DATA.weighted(np.linspace(0.5, 2, DATA.nnz))),
        (mfrank.WRMF(), {}, DATA),
    ]
    for objective, options, data in fits:
        there = als(objective, **options).fit(data, cluster=engine)
        here = als(objective, **options).fit(data)
        np.testing.assert_array_equal(there.user_factors, here.user_factors)
        np.testing.assert_array_equal(there.item_factors, here.item_factors)
