"""A fit overwrites its users where nobody holds them, and nobody ever sees it."""

from __future__ import annotations

import gc
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from problems import OBJECTIVES

import mfrank
from mfrank.als import FoldIn
from mfrank.arrays import memory as recycled
from mfrank.backends import cpu
from mfrank.models import als as models
from mfrank.models import factor_model
from mfrank.retrieval import DeferredState
from mfrank.store import Step
from tests.support.errors import refuses

DATA = mfrank.synthetic(90, 40, 1200, random_state=0)
EPOCHS = 4


def als(objective: Any = None, **options: Any) -> mfrank.ALS:
    few = {"factors": 6, "iterations": EPOCHS, "random_state": 0, "solver": "cholesky"}
    return mfrank.ALS(mfrank.IALS() if objective is None else objective, **few | options)


def bits(model: mfrank.ALS) -> tuple[bytes, bytes]:
    return model.user_factors.tobytes(), model.item_factors.tobytes()


def after(epochs: int, **options: Any) -> tuple[bytes, bytes]:
    return bits(als(iterations=epochs, **options).fit(DATA))


@contextmanager
def tables() -> Iterator[list[tuple[int, ...]]]:
    """Notes the shapes of the tables for which a fit's engine takes new memory."""
    made = list[tuple[int, ...]]()
    empty = recycled.empty_aligned

    def noted(shape: tuple[int, ...], dtype: Any) -> Any:
        made.append(shape)
        return empty(shape, dtype)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recycled, "empty_aligned", noted)
        yield made


@contextmanager
def solving(solve: Callable[..., Any]) -> Iterator[None]:
    """Every system of a fit in this process is solved by this function."""
    backend = SimpleNamespace(**vars(cpu) | {"solve_rows": solve})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mfrank.backends.sharded.backend.choose", lambda name: backend)
        yield


def users_of(made: list[tuple[int, ...]]) -> int:
    return made.count((DATA.n_users, 6))


@pytest.mark.parametrize("progress", [False, True])
def test_a_fit_takes_no_second_table_of_users(progress: bool) -> None:
    with tables() as made:
        als().fit(DATA, show_progress=progress)
    assert users_of(made) == 0
    assert 1 <= made.count((DATA.n_items, 6)) <= 2


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_who_holds_epochs_changes_no_bit(name: str, solver: str) -> None:
    """Held or not, with momentum that restarts: the bits and objectives are the same."""
    options = {"iterations": 8, "solver": solver, "track_objective": True}
    free, held = (als(OBJECTIVES[name], **options) for _ in range(2))
    kept = []
    free.fit(DATA)
    held.fit(DATA, callback=lambda *_: kept.append(held.store))
    assert bits(free) == bits(held)
    objectives = [[epoch["objective"] for epoch in model.store.history] for model in (free, held)]
    assert objectives[0] == objectives[1]


def test_what_a_callback_kept_stays_as_it_is() -> None:
    kept, copies = [], []

    def keep(epoch: int, *_: object) -> None:
        if epoch != 1:
            kept.append(model.user_factors[3:, ::2])
            copies.append(kept[-1].copy())

    model = als(iterations=6)
    with tables() as made:
        model.fit(DATA, callback=keep)
    assert 1 < users_of(made) <= len(kept)
    for one, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(one, copy)


def test_stopping_keeps_the_best_epoch_beside_the_last() -> None:
    split = mfrank.by_ratio(DATA, train=0.8, valid=0.2, test=0.0, random_state=0)
    stopping = mfrank.EarlyStopping(split.valid, patience=20)
    model = als(iterations=12)
    with tables() as made:
        model.fit(split.train, stopping=stopping)
    values = [epoch["valid"] for epoch in model.store.history]
    best = int(np.argmax(values))
    assert 0 < best < 11  # else nothing would be kept beside
    assert users_of(made) == 1
    assert bits(model) == bits(als(iterations=best + 1).fit(split.train))


def calls_of_a_fit() -> int:
    calls = 0

    def counting(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        return cpu.solve_rows(*arguments, **more)

    with solving(counting):
        als().fit(DATA)
    return calls


CALLS = calls_of_a_fit()


@pytest.mark.parametrize("before_the_end", range(2 * EPOCHS - 1))
@pytest.mark.parametrize("written", [False, True])
def test_after_ctrl_c_in_any_half_step_the_model_has_the_last_epoch(
    before_the_end: int, written: bool
) -> None:
    left = CALLS - before_the_end

    def struck(*arguments: Any, **more: Any) -> Any:
        nonlocal left
        left -= 1
        if left:
            return cpu.solve_rows(*arguments, **more)
        if written:
            cpu.solve_rows(*arguments, **more)
            arguments[3][::2] = np.nan  # and the other half as it may be
        raise KeyboardInterrupt

    model, epochs = als(), EPOCHS - 1 - before_the_end // 2
    with solving(struck), tables() as made:
        with pytest.raises(KeyboardInterrupt):
            model.fit(DATA)
        if epochs == 0:
            assert model._held is None
            return
        assert isinstance(model._held, DeferredState)
        assert bits(model) == after(epochs)
    assert users_of(made) == 0  # those of the fit that was struck serve again
    assert len(model.store.history) == epochs


def changed_at(epoch: int, change: Callable[[Step], None]) -> Any:
    """The engine of ALS; ``change`` gets the step of an epoch before the model does."""
    steps = models.als

    def changed(*arguments: Any, **options: Any) -> Iterator[Step]:
        for step in steps(*arguments, **options):
            if step.epoch == epoch:
                change(step)
            yield step
            del step

    return changed


def strike(_: Step) -> None:
    raise KeyboardInterrupt


def test_users_by_conjugate_gradients_are_then_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """What their steps began from is gone."""
    options = {"solver": "cg", "cg_steps": 1, "dtype": "float64"}
    model = als(**options)
    monkeypatch.setattr(models, "als", changed_at(3, strike))
    with pytest.raises(KeyboardInterrupt):
        model.fit(DATA)
    monkeypatch.undo()
    whole = als(**options, iterations=2).fit(DATA)
    assert model.item_factors.tobytes() == whole.item_factors.tobytes()
    solved = FoldIn(mfrank.IALS(), whole.store).users_and_biases(DATA.user_rows("float64"))[0]
    np.testing.assert_allclose(model.user_factors, solved, rtol=1e-9, atol=1e-12)
    assert np.abs(whole.user_factors - solved).max() > 1e-4


def test_another_thread_reads_the_last_complete_epoch() -> None:
    """While users are overwritten: it has them solved again, and the fit goes on."""
    model, seen, calls = als(), [], 0

    def read() -> None:
        seen.append((len(model.store.history), bits(model)))

    def watched(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        gain = cpu.solve_rows(*arguments, **more)
        if calls in (CALLS - 2, CALLS - 3):  # the last but one user step and the item step before
            reader = threading.Thread(target=read)
            reader.start()
            reader.join()
        return gain

    with solving(watched):
        model.fit(DATA)
    assert seen == [(EPOCHS - 2, after(EPOCHS - 2))] * 2
    assert bits(model) == after(EPOCHS)


def test_a_promise_is_pickled_as_what_it_promises() -> None:
    fitted = als().fit(DATA)
    made = []

    def make() -> Any:
        made.append(True)
        return fitted.store

    model = als()
    model._held = DeferredState(make, fitted.seen)
    again = pickle.loads(pickle.dumps(model))
    assert bits(again) == bits(model) == bits(fitted)
    assert len(made) == 1
    source = weakref.ref(make)
    del make
    gc.collect()
    assert source() is None  # what it was made from may go


def test_a_fit_that_diverges_has_the_epoch_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def diverge(step: Step) -> None:
        step.user_factors[:] = np.nan

    monkeypatch.setattr(models, "als", changed_at(3, diverge))
    model = als()
    with refuses(ValueError, "user_factors", remedy="diverged"):
        model.fit(DATA)
    monkeypatch.undo()
    assert bits(model) == after(2)


def test_a_fit_with_features_of_users_keeps_whole_epochs() -> None:
    """Their means would have to be kept, too; those of items change nothing for users."""
    rng, told = np.random.default_rng(0), []
    let_go = factor_model.FactorModel._let_go

    def noted(self: Any, step: Step) -> None:
        told.append(step.users_again is None)
        let_go(self, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factor_model.FactorModel, "_let_go", noted)
        als().fit(DATA, user_features=rng.random((DATA.n_users, 3)))
        als().fit(DATA, item_features=rng.random((DATA.n_items, 3)))
    assert told == EPOCHS * [True] + (EPOCHS - 1) * [False] + [True]
