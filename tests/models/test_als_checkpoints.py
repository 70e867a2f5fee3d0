"""An ALS fit that was stopped after an epoch, or killed, goes on to the bits of a whole one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import children
import numpy as np
import pytest
from engines import Shuffled
from problems import OBJECTIVES

import mfrank
from mfrank.als import HalfSteps
from mfrank.backends.sharded import blocks
from mfrank.store import is_mapped, names_of
from tests.support.errors import refuses

DATA = mfrank.synthetic(120, 60, 1500, names=True, random_state=0)
SPLIT = mfrank.by_ratio(DATA, train=0.8, valid=0.2, test=0.0, random_state=0)


class Stopped(Exception):
    pass


class Lost(Exception):
    """As if the scheduler or the connection to it were gone."""


@contextmanager
def lost_in(half_step: int) -> Iterator[list[str]]:
    """Fail at the beginning of a half-step, from 0; notes the half-steps that begin."""
    begun = list[str]()

    def failing(name: str, function: Any) -> Any:
        def called(*args: Any, **options: Any) -> Any:
            if len(begun) == half_step:
                raise Lost
            begun.append(name)
            return function(*args, **options)

        return called

    with pytest.MonkeyPatch.context() as patch:
        for name in ("solve_users", "solve_items"):
            patch.setattr(HalfSteps, name, failing(name, getattr(HalfSteps, name)))
        yield begun


NEVER = 10**9


def stop_after(epochs: int) -> Callable[..., None]:
    def after(epoch: int, *_: object) -> None:
        if epoch + 1 == epochs:
            raise Stopped

    return after


def als(objective: Any = None, **options: Any) -> mfrank.ALS:
    few = {"factors": 6, "iterations": 5, "random_state": 0, "track_objective": True}
    return mfrank.ALS(mfrank.IALS() if objective is None else objective, **few | options)


def bits(model: mfrank.ALS) -> tuple[Any, ...]:
    store = model.store
    history = [{**epoch, "seconds": 0} for epoch in store.history]
    return store.user_factors.tobytes(), store.item_factors.tobytes(), history


def stopped(folder: Path, epochs: int, made: mfrank.ALS, data: Any = DATA, **how: Any) -> None:
    with pytest.raises(Stopped):
        made.fit(data, checkpoint=folder, callback=stop_after(epochs), **how)


EVERY_SOLVER = pytest.mark.parametrize(
    "options",
    [
        {"solver": "cg"},
        {"solver": "cholesky", "dtype": "float64"},
        {"cg_tolerance": 1e-3, "n_threads": 2},
        {"backend": "reference", "factors": 3, "track_objective": False},
    ],
)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_goes_on_from_every_epoch(tmp_path: Path, name: str) -> None:
    whole = bits(als(OBJECTIVES[name]).fit(DATA))
    for epochs in range(1, 5):
        folder = tmp_path / str(epochs)
        stopped(folder, epochs, als(OBJECTIVES[name]))
        again = als(OBJECTIVES[name]).fit(DATA, checkpoint=folder)
        assert bits(again) == whole
        assert not again.store.extras  # the state is the checkpoint's, no part of the model
        assert again.recommend(DATA.user_ids.raw([0]))[0].shape == (1, 10)


@EVERY_SOLVER
def test_every_solver_and_dtype_does(tmp_path: Path, options: dict[str, Any]) -> None:
    stopped(tmp_path, 2, als(**options))
    assert bits(als(**options).fit(DATA, checkpoint=tmp_path)) == bits(als(**options).fit(DATA))


def test_a_fit_whose_momentum_begins_anew_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mfrank.als import Momentum

    done, anew, restart = list[int](), set[int](), Momentum.restart

    def noted(self: Momentum, ahead: Any) -> None:
        anew.add(len(done))
        restart(self, ahead)

    monkeypatch.setattr(Momentum, "restart", noted)
    whole = als(mfrank.WRMF(), iterations=25)
    whole.fit(DATA, callback=lambda epoch, *_: done.append(epoch))
    assert anew
    for epoch in sorted(anew):
        for epochs in (epoch, epoch + 1):
            folder = tmp_path / f"{epochs}"
            stopped(folder, epochs, als(mfrank.WRMF(), iterations=25))
            again = als(mfrank.WRMF(), iterations=25).fit(DATA, checkpoint=folder)
            assert bits(again) == bits(whole)


def test_a_warm_start_does(tmp_path: Path) -> None:
    start = als(random_state=3).fit(DATA)
    stopped(tmp_path, 3, als(), start=start)
    again = als().fit(DATA, start=start, checkpoint=tmp_path)
    assert bits(again) == bits(als().fit(DATA, start=start))


def features_of(kind: str) -> dict[str, Any]:
    """None, of items, or tables of both sides."""
    if kind != "tables":
        return {"item_features": np.eye(60, 4)} if kind == "of items" else {}
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    tables = {}
    for side, ids in (("user", DATA.user_ids), ("item", DATA.item_ids)):
        index = pandas.Index(ids.labels, name=side)
        tables[f"{side}_features"] = pandas.DataFrame({"size": np.arange(len(ids)) % 5}, index)
    return tables


@pytest.mark.parametrize("kind", ["none", "of items", "tables"])
def test_early_stopping_keeps_its_best_epoch_and_its_end(tmp_path: Path, kind: str) -> None:
    features = features_of(kind)
    stopping = mfrank.EarlyStopping(SPLIT.valid, patience=2)
    how: dict[str, Any] = {"stopping": stopping, **features}
    options: dict[str, Any] = {"factors": 20, "iterations": 30}
    whole = als(**options).fit(SPLIT.train, **how)
    n_epochs = len(whole.store.history)
    assert 3 <= n_epochs < 30
    for epochs in range(1, n_epochs + 1):  # after the last, nothing is left to do
        folder, done = tmp_path / str(epochs), list[int]()
        stopped(folder, epochs, als(**options), SPLIT.train, stopping=stopping, **features)
        again = als(**options)
        again.fit(
            SPLIT.train,
            checkpoint=folder,
            callback=lambda *at, done=done: done.append(at[0]),
            **how,
        )
        assert bits(again) == bits(whole)
        assert done == list(range(epochs, n_epochs))
        assert again.store.extras.keys() == whole.store.extras.keys()
        for name, array in whole.store.extras.items():
            np.testing.assert_array_equal(again.store.extras[name], array)


def test_damaged_features_in_a_checkpoint_are_told(tmp_path: Path) -> None:
    features = {"item_features": np.eye(60, 4)}
    als(iterations=1).fit(DATA, checkpoint=tmp_path, **features)
    store = mfrank.FactorStore.load(tmp_path)
    weights, _ = names_of("item")
    extras = {**store.extras, weights: np.full_like(store.extras[weights], np.nan)}
    replace(store, extras=extras).save(tmp_path)
    with refuses(
        ValueError, place="the items' feature weights saved with the model", remedy="restore it"
    ):
        als().fit(DATA, checkpoint=tmp_path, **features)


@pytest.mark.parametrize("first", [True, False], ids=["begun there", "ended there"])
def test_a_fit_goes_on_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    monkeypatch.setattr(blocks, "_FEWEST_ENTRIES", 100)
    DATA.to_folder(tmp_path / "data")
    mapped = mfrank.Interactions.open(tmp_path / "data")
    where: list[tuple[Any, dict[str, Any]]] = [(mapped, {"cluster": Shuffled(3)}), (DATA, {})]
    (begin, begun), (end, ended) = where if first else where[::-1]
    stopped(tmp_path / "state", 2, als(), begin, **begun)
    again = als(n_threads=2).fit(end, checkpoint=tmp_path / "state", **ended)
    assert bits(again) == bits(als().fit(DATA))


def test_a_complete_checkpoint_gives_the_model_back_and_takes_more_epochs(tmp_path: Path) -> None:
    first = als(random_state=None).fit(DATA, checkpoint=tmp_path)
    assert bits(als(random_state=None).fit(DATA, checkpoint=tmp_path)) == bits(first)
    longer = als(random_state=None, iterations=7).fit(DATA, checkpoint=tmp_path)
    assert len(longer.store.history) == 7
    assert longer.store.history[:5] == first.store.history


def test_a_start_is_not_computed_where_there_is_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mfrank.models import als as module

    whole = als().fit(DATA, checkpoint=tmp_path)
    monkeypatch.delattr(module, "first_factors")
    assert bits(als().fit(DATA, checkpoint=tmp_path)) == bits(whole)


def test_what_is_not_the_fit_that_was_begun_is_refused(tmp_path: Path) -> None:
    folder, start = tmp_path / "state", als(iterations=1).fit(DATA)
    als(iterations=1).fit(DATA, checkpoint=folder)
    ends = rf"; name another folder than {folder}, or remove it to start over"
    for other, change in (
        (als(mfrank.WRMF(), factors=5), "another factors, objective"),
        (als(cg_steps=4), "another cg_steps"),
        (mfrank.Descent(mfrank.SONG(), 6, 1, random_state=0), "another estimator"),
    ):
        with pytest.raises(ValueError, match=f"checkpoint is of a fit with {change}{ends}"):
            other.fit(DATA, checkpoint=folder)  # type: ignore[attr-defined]
    values = DATA.user_items.copy()
    values.data[0] += 1
    ids = {"user_ids": DATA.user_ids, "item_ids": DATA.item_ids}
    with pytest.raises(ValueError, match=f"checkpoint is of a fit to other interactions{ends}"):
        als().fit(mfrank.Interactions.from_sparse(values, **ids), checkpoint=folder)
    same = mfrank.Interactions.from_sparse(DATA.user_items, **ids)
    als(iterations=1).fit(same, checkpoint=folder)
    with pytest.raises(ValueError, match=f"checkpoint is of a fit from another start{ends}"):
        als().fit(DATA, start=start, checkpoint=folder)
    start.save(tmp_path / "model")
    with pytest.raises(ValueError, match="holds a saved model, not the state of a fit"):
        als().fit(DATA, checkpoint=tmp_path / "model")


@pytest.mark.parametrize(
    "other",
    [
        None,
        mfrank.EarlyStopping(SPLIT.valid, patience=1),
        mfrank.EarlyStopping(SPLIT.valid, mfrank.Recall @ 10),
        mfrank.EarlyStopping(SPLIT.valid, mfrank.NDCG @ 5),
        mfrank.EarlyStopping(DATA),
    ],
)
def test_another_stopping_is_refused(tmp_path: Path, other: Any) -> None:
    stopped(tmp_path, 1, als(), SPLIT.train, stopping=mfrank.EarlyStopping(SPLIT.valid))
    with refuses(ValueError, "checkpoint"):
        als().fit(SPLIT.train, stopping=other, checkpoint=tmp_path)
    again = mfrank.EarlyStopping(SPLIT.valid.user_items, "NDCG@10")  # the same in other words
    if isinstance(other, mfrank.EarlyStopping):
        assert again.fingerprint() != other.fingerprint()
    assert again.fingerprint() == mfrank.EarlyStopping(SPLIT.valid.user_items).fingerprint()


@pytest.mark.parametrize("name", ["numbers", "turn", "displacements"])
def test_a_state_that_is_not_all_there_is_told(tmp_path: Path, name: str) -> None:
    als(iterations=1).fit(DATA, checkpoint=tmp_path)
    store = mfrank.FactorStore.load(tmp_path)
    kept = {key: array for key, array in store.extras.items() if key != f"momentum_{name}"}
    replace(store, extras=kept).save(tmp_path)
    with pytest.raises(ValueError, match=f"checkpoint is damaged: its momentum_{name} .*or remove"):
        als().fit(DATA, checkpoint=tmp_path)


def lost(folder: Path, half_step: int, made: mfrank.ALS, data: Any = DATA, **how: Any) -> None:
    with lost_in(half_step), pytest.raises(Lost):
        made.fit(data, checkpoint=folder, cluster=Shuffled(2), **how)


@pytest.mark.parametrize("there", [True, False], ids=["on a cluster", "in one process"])
def test_a_fit_whose_cluster_is_lost_goes_on_from_the_last_half_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    monkeypatch.setattr(blocks, "_FEWEST_ENTRIES", 100)
    with lost_in(NEVER) as every:
        whole = bits(als().fit(DATA))
    assert every == ["solve_users"] + 5 * ["solve_items", "solve_users"]
    for half_step in range(1, len(every)):
        folder, where = tmp_path / str(half_step), {"cluster": Shuffled(3)} if there else {}
        lost(folder, half_step, als())
        with lost_in(NEVER) as again:
            assert bits(als().fit(DATA, checkpoint=folder, **where)) == whole
        assert again == every[half_step:]


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_goes_on_from_every_half_step(tmp_path: Path, name: str) -> None:
    whole = bits(als(OBJECTIVES[name], iterations=3).fit(DATA))
    for half_step in range(1, 7):
        folder = tmp_path / str(half_step)
        lost(folder, half_step, als(OBJECTIVES[name], iterations=3))
        again = als(OBJECTIVES[name], iterations=3).fit(DATA, checkpoint=folder)
        assert bits(again) == whole


@EVERY_SOLVER
def test_every_solver_and_dtype_goes_on_from_every_half_step(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    few = {"iterations": 3, **options}
    whole = bits(als(**few).fit(DATA))
    for half_step in range(1, 7):
        folder = tmp_path / str(half_step)
        lost(folder, half_step, als(**few))
        assert bits(als(**few).fit(DATA, checkpoint=folder)) == whole


def test_a_half_step_of_an_epoch_whose_momentum_begins_anew_does(tmp_path: Path) -> None:
    options: dict[str, Any] = {"objective": mfrank.WRMF(), "iterations": 25, "solver": "cg"}
    with lost_in(NEVER) as every:
        whole = bits(als(**options).fit(DATA))
    anew = [at for at in range(len(every) - 1) if every[at] == every[at + 1]]
    assert anew
    for half_step in (anew[0], anew[0] + 1, anew[0] + 2):
        folder = tmp_path / str(half_step)
        lost(folder, half_step, als(**options))
        with lost_in(NEVER) as again:
            assert bits(als(**options).fit(DATA, checkpoint=folder)) == whole
        assert again == every[half_step:]


def test_a_half_step_with_early_stopping_does(tmp_path: Path) -> None:
    stopping = mfrank.EarlyStopping(SPLIT.valid, patience=2)
    options: dict[str, Any] = {"factors": 20, "iterations": 30}
    with lost_in(NEVER) as every:
        whole = als(**options).fit(SPLIT.train, stopping=stopping)
    for half_step in (1, 2, 3, len(every) - 2, len(every) - 1):
        folder = tmp_path / str(half_step)
        lost(folder, half_step, als(**options), SPLIT.train, stopping=stopping)
        again = als(**options).fit(SPLIT.train, stopping=stopping, checkpoint=folder)
        assert bits(again) == bits(whole)


def test_a_warm_start_goes_on_from_a_half_step(tmp_path: Path) -> None:
    start = als(random_state=3).fit(DATA)
    for half_step in (1, 2, 4):
        folder = tmp_path / str(half_step)
        lost(folder, half_step, als(), start=start)
        again = als().fit(DATA, start=start, checkpoint=folder)
        assert bits(again) == bits(als().fit(DATA, start=start))


def test_a_fit_with_features_goes_on_from_the_last_epoch(tmp_path: Path) -> None:
    features = {"item_features": np.eye(60, 4)}
    whole = als().fit(DATA, **features)
    for half_step in (4, 5):  # the second of epoch 2, the first of epoch 3
        folder = tmp_path / str(half_step)
        lost(folder, half_step, als(), **features)
        with lost_in(NEVER) as again:
            there = als().fit(DATA, checkpoint=folder, cluster=Shuffled(3), **features)
        assert bits(there) == bits(whole)
        assert again == ["solve_items", "solve_users"] * (5 - (half_step - 1) // 2)


def test_a_half_step_leaves_its_epoch_as_it_was(tmp_path: Path) -> None:
    lost(tmp_path, 6, als())  # the third epoch's items are solved, its users are not
    unfinished = als(iterations=2).fit(DATA, checkpoint=tmp_path)
    assert bits(unfinished) == bits(als(iterations=2).fit(DATA))
    assert bits(als().fit(DATA, checkpoint=tmp_path)) == bits(als().fit(DATA))


def test_a_half_step_counts_only_until_its_epoch_is_saved(tmp_path: Path) -> None:
    lost(tmp_path, 6, als())
    stopped(tmp_path, 4, als())  # in one process, which saves no half-steps
    whole = bits(als().fit(DATA))
    with lost_in(NEVER) as again:
        assert bits(als().fit(DATA, checkpoint=tmp_path)) == whole
    assert again == ["solve_items", "solve_users"]


def test_a_fit_that_was_lost_before_its_first_epoch_has_no_factors(tmp_path: Path) -> None:
    lost(tmp_path, 1, als())
    model = als()
    with lost_in(0), pytest.raises(Lost):
        model.fit(DATA, checkpoint=tmp_path)
    with pytest.raises(mfrank.NotFittedError):
        _ = model.store


@pytest.mark.parametrize("name", ["numbers", "items", "displacements"])
def test_a_half_step_that_is_not_all_there_is_told(tmp_path: Path, name: str) -> None:
    from mfrank.models import resume as checkpoint

    lost(tmp_path, 4, als())
    made = checkpoint.Checkpoint(tmp_path, {})
    arrays = made.half_step() or {}
    made.save_half_step({key: array for key, array in arrays.items() if key != name})
    with pytest.raises(ValueError, match=f"checkpoint is damaged: its {name} .*or remove it"):
        als().fit(DATA, checkpoint=tmp_path)


def test_what_lies_in_the_place_of_a_half_step_is_told_before_any_work(tmp_path: Path) -> None:
    als(iterations=1).fit(DATA, checkpoint=tmp_path)
    (tmp_path / "half-step").mkdir()
    (tmp_path / "half-step" / "notes").write_text("mine")
    with lost_in(0), refuses(ValueError, place="half-step", remedy="pass a new or an empty folder"):
        als().fit(DATA, checkpoint=tmp_path, cluster=Shuffled(2))


KILLED_IN = """
import os, signal
from mfrank.als.half_steps import HalfSteps
from test_als_checkpoints import DATA, als
step, left = HalfSteps.{step}, {epoch}
def killing(self, problem, *factors):
    global left
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return step(self, problem, *factors)
HalfSteps.{step} = killing
als().fit(DATA, checkpoint={folder!r}, cluster={cluster})
"""


def test_the_epoch_gone_on_from_is_mapped_while_the_fit_needs_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, mapped, solve = als(), list[bool](), HalfSteps.solve_items
    with pytest.raises(Stopped):
        als().fit(DATA, checkpoint=tmp_path, callback=stop_after(4))

    def noted(*args: Any, **options: Any) -> Any:
        mapped.append(is_mapped(model.user_factors))
        return solve(*args, **options)

    monkeypatch.setattr(HalfSteps, "solve_items", noted)
    assert bits(model.fit(DATA, checkpoint=tmp_path)) == bits(als().fit(DATA))
    assert mapped[0]
    finished = als().fit(DATA, checkpoint=tmp_path)
    assert len(mapped) == 6  # five of them by the fit without a checkpoint
    for held in (model, finished):
        assert not is_mapped(held.user_factors)
        assert not is_mapped(held.item_factors)


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize("cluster", [None, 2])
@pytest.mark.parametrize(("step", "epoch"), [("solve_items", 0), ("solve_users", 3)])
def test_a_fit_that_was_killed_in_a_half_step_goes_on(
    tmp_path: Path, step: str, epoch: int, cluster: int | None
) -> None:
    where = {"step": step, "epoch": epoch, "folder": str(tmp_path / "state"), "cluster": cluster}
    killed = children.run(KILLED_IN.format(**where), OMP_NUM_THREADS="1")
    assert killed.returncode == -9, killed.stderr
    assert (tmp_path / "state").exists() == (epoch > 0 or cluster is not None)
    again = als().fit(DATA, checkpoint=tmp_path / "state")
    assert bits(again) == bits(als().fit(DATA))
    left = {path.name for path in (tmp_path / "state").iterdir() if "data-" not in path.name}
    assert left - {"half-step"} == {".lock", "manifest.json"}
    assert len(list((tmp_path / "state").glob("data-*"))) == 1


def test_users_are_those_of_a_whole_fit_after_two_losses_of_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Conjugate gradients start from the users that the first restart saved."""
    monkeypatch.setattr(blocks, "_FEWEST_ENTRIES", 100)
    options: dict[str, Any] = {"objective": mfrank.WRMF(), "solver": "cg", "cg_steps": 2}
    whole = bits(als(**options).fit(DATA))
    for first, second in ((1, 1), (2, 1), (2, 3), (3, 2), (4, 5)):
        folder = tmp_path / f"{first} {second}"
        lost(folder, first, als(**options))
        lost(folder, second, als(**options))
        again = als(**options).fit(DATA, checkpoint=folder, cluster=Shuffled(3))
        assert bits(again) == whole


def test_a_flipped_byte_of_a_saved_half_step_is_told(tmp_path: Path) -> None:
    lost(tmp_path / "state", 2, als(iterations=2))
    files = sorted((tmp_path / "state" / "half-step").rglob("*.npy"))
    assert [file.stem for file in files] == ["displacements", "items", "numbers"]
    for file in files:
        content = file.read_bytes()
        for at in (len(content) - 1, len(content) // 2):
            file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            with refuses(ValueError, remedy="restore it"):
                als(iterations=2).fit(DATA, checkpoint=tmp_path / "state")
        file.write_bytes(content)
    again = als(iterations=2).fit(DATA, checkpoint=tmp_path / "state")
    assert bits(again) == bits(als(iterations=2).fit(DATA))
