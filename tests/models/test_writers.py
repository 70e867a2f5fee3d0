"""Changes of one model from several threads: one after another, as if by one thread."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from children import run

import mfrank
from mfrank.als import HalfSteps
from mfrank.arrays import without_turns
from mfrank.retrieval import Recommender

DATA = mfrank.synthetic(30, 20, 300, names=True, random_state=0)
USERS, ITEMS = DATA.user_ids.labels.tolist(), DATA.item_ids.labels.tolist()
NEW = mfrank.Interactions.from_arrays(["somebody"], [ITEMS[3]])


CELLS = mfrank.Interactions.from_arrays([USERS[0]] * 3 + USERS[1:3], ITEMS[:3] + ITEMS[:1] * 2)

WRITERS: dict[str, Callable[[mfrank.ALS], Any]] = {
    "fit": lambda model: model.fit(DATA),
    "partial_fit": lambda model: model.partial_fit(NEW),
    "partial_fit_users": lambda model: model.partial_fit_users(USERS[:1], CELLS),
    "partial_fit_items": lambda model: model.partial_fit_items(ITEMS[:1], CELLS),
    "remove": lambda model: model.remove(users=USERS[5:6], items=ITEMS[4:5]),
    "remove another": lambda model: model.remove(users=USERS[6:7]),
    "set_params": lambda model: model.set_params(factors=4, random_state=1),
}
HOLD = [name for name in WRITERS if name not in ("set_params", "remove another")]


@pytest.fixture(scope="module")
def fitted() -> mfrank.ALS:
    return mfrank.ALS(mfrank.IALS(), 3, 2, random_state=0, n_threads=1).fit(DATA)


def state(model: mfrank.ALS) -> list[Any]:
    store, seen = model.store, model.seen
    assert seen is not None
    return [
        model.get_params(),
        store.fitter,
        store.user_factors.tobytes(),
        store.item_factors.tobytes(),
        store.user_ids.labels.tolist(),
        seen.matrix.toarray().tolist(),
        [(record["epoch"], record.get("content")) for record in store.history],
    ]


def meeting(monkeypatch: pytest.MonkeyPatch, other: Callable[[], Any], wait: float) -> list[Any]:
    """Run a function in another thread where a change replaces what a model holds; its errors."""
    errors, threads, hold = list[Any](), list[threading.Thread](), Recommender._hold

    def guarded() -> None:
        try:
            other()
        except Exception as error:
            errors.append(error)

    def replaced(self: Any, *args: Any) -> None:
        if not threads:
            threads.append(threading.Thread(target=guarded))
            threads[0].start()
            threads[0].join(wait)
            errors.append(threads[0].is_alive())
        hold(self, *args)

    monkeypatch.setattr(Recommender, "_hold", replaced)
    errors.append(threads)
    return errors


@pytest.mark.parametrize("first", HOLD)
@pytest.mark.parametrize("second", [name for name in WRITERS if name != "remove"])
def test_the_second_of_two_changes_is_of_what_the_first_made(
    first: str, second: str, fitted: mfrank.ALS, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, expected = copy.deepcopy(fitted), copy.deepcopy(fitted)
    WRITERS[first](expected)
    WRITERS[second](expected)
    notes = meeting(monkeypatch, lambda: WRITERS[second](model), 0.05)
    WRITERS[first](model)
    notes[0][0].join()
    assert notes[1:] == [True]  # it was waiting, and raised nothing
    assert state(model) == state(expected)


READERS: dict[str, Callable[[mfrank.ALS, Path], Any]] = {
    "store": lambda model, _: model.store,
    "recommend": lambda model, _: model.recommend(USERS[:2], N=3),
    "similar_items": lambda model, _: model.similar_items(ITEMS[:2], N=3),
    "save": lambda model, folder: model.save(folder / "m"),
    "pickle": lambda model, _: pickle.dumps(model),
    "deepcopy": lambda model, _: copy.deepcopy(model),
    "change of a copy": lambda model, _: copy.copy(model).remove(users=USERS[:1]),
    "change of a deep copy": lambda model, _: copy.deepcopy(model).remove(users=USERS[:1]),
    "change of a pickled copy": lambda model, _: pickle.loads(pickle.dumps(model)).fit(DATA),
    "fit of a clone": lambda model, _: mfrank.ALS(**model.get_params(deep=False)).fit(DATA),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("writer", HOLD)
def test_what_does_not_change_the_model_waits_for_no_change(
    reader: str,
    writer: str,
    fitted: mfrank.ALS,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = copy.deepcopy(fitted)
    notes = meeting(monkeypatch, lambda: READERS[reader](model, tmp_path), 30)
    WRITERS[writer](model)
    assert notes[1:] == [False]


def test_of_many_threads_no_update_is_lost_and_nobody_comes_back(fitted: mfrank.ALS) -> None:
    model = copy.deepcopy(fitted)

    def work(number: int) -> None:
        model.remove(users=USERS[number])
        for place in range(5):
            added = mfrank.Interactions.from_arrays([f"new {number} {place}"], ITEMS[:1])
            model.partial_fit(added, alternations=0)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left = set(model.user_ids.labels.tolist())
    assert {f"new {number} {place}" for number in range(4) for place in range(5)} <= left
    assert not set(USERS[:4]) & left
    assert len(left) == model.store.n_users == DATA.n_users - 4 + 20


def test_a_callback_may_change_its_model(fitted: mfrank.ALS) -> None:
    """Until the next epoch; what it sets is for the next fit."""
    model, seen = copy.deepcopy(fitted), []

    def change(epoch: int, *_: Any) -> None:
        model.remove(users=USERS[epoch])
        seen.append(model.store.n_users)
        model.set_params(factors=5)

    model.fit(DATA, callback=change)
    assert seen == [DATA.n_users - 1] * 2
    assert model.store.fitter["options"]["factors"] == 3
    assert model.fit(DATA).store.factors == 5


def test_the_newest_state_is_saved_last(
    fitted: mfrank.ALS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread saves while another changes the model and saves it, too."""
    model, threads, errors = copy.deepcopy(fitted), list[threading.Thread](), list[Exception]()
    _save_over = mfrank.FactorStore._save_over

    def change_and_save() -> None:
        try:
            model.remove(users=USERS[0]).save(tmp_path / "m")
        except ValueError as error:
            errors.append(error)

    def slow(*args: Any, **options: Any) -> Any:
        if not threads:
            threads.append(threading.Thread(target=change_and_save))
            threads[0].start()
            threads[0].join(0.2)
        return _save_over(*args, **options)

    monkeypatch.setattr(mfrank.FactorStore, "_save_over", slow)
    model.save(tmp_path / "m")
    threads[0].join()
    assert not errors
    assert mfrank.load(tmp_path / "m").store.n_users == DATA.n_users - 1


def test_a_forked_child_may_change_what_its_parent_was_changing() -> None:
    code = """
import os, sys, threading, mfrank
from mfrank.retrieval import Recommender
data = mfrank.synthetic(30, 20, 300, random_state=0)
model = mfrank.ALS(mfrank.IALS(), 3, 2, random_state=0, n_threads=1).fit(data)
changing, over, hold = threading.Event(), threading.Event(), Recommender._hold
def slow(self, *args):
    if threading.current_thread() is not threading.main_thread():
        changing.set()
        over.wait()
    hold(self, *args)
Recommender._hold = slow
thread = threading.Thread(target=model.remove, args=([1],))
thread.start()
changing.wait()
child = os.fork()
if not child:
    model.remove([2])
    os._exit(model.store.n_users)
status = os.waitpid(child, 0)[1]
over.set()
thread.join()
print(os.waitstatus_to_exitcode(status), model.store.n_users)
"""
    done = run(code)
    assert done.stdout.split() == ["29", "29"], done.stderr


LATE_CHANGES: dict[str, Callable[[mfrank.ALS], Any]] = {
    "remove users": lambda model: model.remove(users=USERS[0]),
    "remove items": lambda model: model.remove(items=ITEMS[0]),
    "partial_fit": lambda model: model.partial_fit(NEW),
}


def check_is_whole(model: mfrank.ALS, folder: Path) -> None:
    seen = model.seen
    assert seen is not None
    assert seen.matrix.shape == (model.store.n_users, model.store.n_items)
    again = mfrank.load(model.save(folder))
    assert again.recommend(USERS[1:4]).ids.tolist() == model.recommend(USERS[1:4]).ids.tolist()


@pytest.mark.parametrize("change", LATE_CHANGES)
@pytest.mark.parametrize("epoch", [0, 1])
@pytest.mark.parametrize("with_checkpoint", [False, True])
def test_what_a_callback_changed_is_whole_after_the_fit(
    change: str, epoch: int, with_checkpoint: bool, fitted: mfrank.ALS, tmp_path: Path
) -> None:
    model = copy.deepcopy(fitted)

    def callback(now: int, *_: Any) -> None:
        if now == epoch:
            LATE_CHANGES[change](model)

    model.fit(DATA, callback=callback, checkpoint=tmp_path / "c" if with_checkpoint else None)
    is_changed = model.store.item_ids.labels.tolist() != ITEMS or model.store.n_users != len(USERS)
    assert is_changed == (epoch == 1)
    check_is_whole(model, tmp_path / "m")


@pytest.mark.parametrize("change", LATE_CHANGES)
def test_what_a_callback_changed_is_whole_if_the_next_epoch_is_stopped(
    change: str, fitted: mfrank.ALS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = copy.deepcopy(fitted)

    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    def callback(*_: Any) -> None:
        LATE_CHANGES[change](model)
        monkeypatch.setattr(HalfSteps, "solve_items", stopped)

    with pytest.raises(KeyboardInterrupt):
        model.fit(DATA, callback=callback)
    check_is_whole(model, tmp_path / "m")


def test_a_copy_may_be_made_while_another_thread_adds_a_lock() -> None:
    state: dict[str, Any] = {}

    class Late(str):
        def startswith(self, *_: Any) -> bool:  # type: ignore[override]
            state["_turn of another thread"] = threading.RLock()
            return False

    state |= {Late("factors"): 3, "dtype": "f4"}
    assert without_turns(state) == {"factors": 3, "dtype": "f4"}


def parts_of(explained: Any) -> list[Any]:
    return [explained.score, explained.baseline, *zip(*explained.contributions, strict=True)]


READ_ROWS: dict[str, Callable[[mfrank.ALS], Any]] = {
    "recalculate_user": lambda model: model.recalculate_user(USERS[0], CELLS),
    "recalculate_item": lambda model: model.recalculate_item(ITEMS[0], CELLS),
    "recalculate_user in recommend": lambda model: model.recommend(
        USERS[0], CELLS, N=5, recalculate_user=True
    ),
    "explain": lambda model: parts_of(model.explain(USERS[0], CELLS, ITEMS[5])),
    "explain by itself": lambda model: parts_of(model.explain(USERS[0], None, ITEMS[5])),
}


@pytest.mark.parametrize("change", ["fit", "remove"])
@pytest.mark.parametrize("reader", READ_ROWS)
def test_a_reader_of_rows_has_one_model_to_its_end(
    reader: str, change: str, fitted: mfrank.ALS, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where another thread changes the model after each of its steps."""
    model, changes = copy.deepcopy(fitted), 0
    expected = READ_ROWS[reader](copy.deepcopy(fitted))
    now = mfrank.ALS._now

    def changed(self: mfrank.ALS) -> Any:
        nonlocal changes
        held = now(self)
        if self is model:
            with monkeypatch.context() as patch:
                patch.setattr(mfrank.ALS, "_now", now)
                if change == "fit":
                    model.fit(mfrank.synthetic(9, 8, 40, names=True, random_state=changes))
                else:
                    model.remove(items=model.item_ids.labels[-1], users=model.user_ids.labels[-1])
            changes += 1
        return held

    monkeypatch.setattr(mfrank.ALS, "_now", changed)
    got = READ_ROWS[reader](model)
    assert changes
    assert [np.asarray(part).tolist() for part in got] == [
        np.asarray(part).tolist() for part in expected
    ]


def test_a_walk_is_copied_while_another_thread_first_asks_for_a_list() -> None:
    """Asking adds to what is cached beside the fields, which a copy does not read."""
    model = mfrank.SupervisedPageRank(method=None).fit(DATA)
    before = copy.deepcopy(model)._walk
    model.recommend(USERS[:2])
    assert set(vars(model._walk)) > set(vars(before))
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert set(vars(copied._walk)) == set(vars(before))
        assert copied.recommend(USERS[:2]).ids.tolist() == model.recommend(USERS[:2]).ids.tolist()
