"""Whatever stops a fit while its state is saved, the next one goes on to the same bits."""

from __future__ import annotations

import inspect
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from children import PATHS
from faults import Fault

import mfrank
from mfrank.cli.main import main
from mfrank.data import Ids
from mfrank.retrieval import AllLists
from tests.support.errors import refuses

DATA = mfrank.synthetic(30, 20, 200, random_state=0)


def made(**options: Any) -> mfrank.Descent:
    few: dict[str, Any] = {
        "factors": 2,
        "iterations": 3,
        "optimizer": mfrank.SGD(0.1),
        "scores": "dot",
        "negatives": 5,
        "n_threads": 1,
        "random_state": 0,
    }
    return mfrank.Descent(**(few | options))


def als() -> mfrank.ALS:
    return mfrank.ALS(factors=2, iterations=3, n_threads=1, random_state=0, track_objective=True)


Model = mfrank.ALS | mfrank.Descent
MADE: dict[str, Callable[[], Model]] = {"ALS": als, "Descent": made}


def same(a: Model, b: Model) -> bool:
    """Whether two fits ended in the same bits after the same epochs."""
    objectives = [[epoch["objective"] for epoch in model.store.history] for model in (a, b)]
    return (
        np.array_equal(a.user_factors, b.user_factors)
        and np.array_equal(a.item_factors, b.item_factors)
        and objectives[0] == objectives[1]
    )


class Kill(Fault):
    def strike(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def killed(model: Model, folder: Path, epoch: int, call: int) -> bool:
    """Whether a fit in a child of this process was killed at a call of the epoch's save."""
    child = os.fork()
    if not child:
        patch, fault = pytest.MonkeyPatch(), Kill(call, forever=True)

        def arm(done: int, *_: Any) -> None:
            if done + 1 == epoch:
                fault.install(patch)
            else:
                patch.undo()

        arm(-1)
        model.fit(DATA, checkpoint=folder, callback=arm)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def kill_at_every_call(name: str, folder: Path, epoch: int) -> int:
    """Calls at which a fit was killed, each gone on from."""
    made = MADE[name]
    whole = made().fit(DATA)
    for call in itertools.count():
        where = folder / f"{epoch}-{call}"
        if not killed(made(), where, epoch, call):
            return call
        assert same(made().fit(DATA, checkpoint=where), whole), (epoch, call)
        assert len(list(where.glob("data-*"))) == 1
    raise AssertionError


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process that can be killed is forked")
@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("epoch", [0, 1])
def test_a_fit_that_was_killed_in_a_save_goes_on(tmp_path: Path, epoch: int, name: str) -> None:
    # In a process of its own, which has no threads when it forks, and nothing to wait for.
    program = f"""
import os, sys
sys.path[:0] = {PATHS!r}
os.fsync = lambda descriptor: None
from pathlib import Path
import test_checkpoints
print(test_checkpoints.kill_at_every_call({name!r}, Path({str(tmp_path)!r}), {epoch}))
"""
    one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **one_thread},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 20


@pytest.mark.parametrize("forever", [False, True], ids=["one call fails", "dead from there on"])
@pytest.mark.parametrize("epoch", [1, 2])
@pytest.mark.parametrize("name", MADE)
def test_a_full_disk_leaves_the_epoch_in_the_model(
    tmp_path: Path, name: str, epoch: int, forever: bool
) -> None:
    made = MADE[name]
    whole, after = made(), list[Any]()
    whole.fit(DATA, callback=lambda *_: after.append(whole.user_factors))
    for call in itertools.count():
        folder, model = tmp_path / str(call), made()
        fault = Fault(call, forever=forever)
        with pytest.MonkeyPatch.context() as patch:

            def arm(done: int, *_: Any, fault: Fault = fault, patch: Any = patch) -> None:
                if done + 2 == epoch:
                    fault.install(patch)
                else:
                    patch.undo()

            arm(-1)
            try:
                model.fit(DATA, checkpoint=folder, callback=arm)
            except OSError:
                np.testing.assert_array_equal(model.user_factors, after[epoch - 1])
                assert len(model.store.history) == epoch
                assert model.recommend(DATA.user_ids.raw([0]))[0].shape == (1, 10)
            else:
                if not fault.struck:
                    break
        assert same(made().fit(DATA, checkpoint=folder), whole)
    assert call > 20


def test_a_folder_of_something_else_is_refused_before_any_epoch(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    epochs: list[int] = []
    with refuses(ValueError, remedy="pass a new or an empty folder"):
        made().fit(DATA, checkpoint=tmp_path, callback=lambda epoch, *_: epochs.append(epoch))
    with refuses(ValueError, place="notes", remedy="pass a folder"):
        made().fit(DATA, checkpoint=tmp_path / "notes")
    assert not epochs


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("checkpoint_seed", lambda array: None),
        ("checkpoint_seed", lambda array: array.astype(np.float64)),
        ("memory_means", lambda array: array[:1].copy()),
        ("users_momentum", lambda array: None),
        ("users_momentum", lambda array: np.zeros((1, 1), array.dtype)),
        ("items_momentum", lambda array: array.astype(np.float64)),
    ],
)
def test_a_state_that_is_not_all_there_is_told(tmp_path: Path, name: str, change: Any) -> None:
    options: dict[str, Any] = {"loss": mfrank.SONG(), "optimizer": mfrank.SGD(0.1, momentum=0.5)}
    made(iterations=1, **options).fit(DATA, checkpoint=tmp_path)
    store = mfrank.FactorStore.load(tmp_path)
    extras = {**store.extras, name: change(store.extras[name])}
    kept = {key: array for key, array in extras.items() if array is not None}
    replace(store, extras=kept).save(tmp_path)
    with pytest.raises(ValueError, match=rf"checkpoint is damaged: its {name} .*name another"):
        made(**options).fit(DATA, checkpoint=tmp_path)


def test_a_state_with_a_flipped_bit_is_told(tmp_path: Path) -> None:
    made(iterations=1, optimizer=mfrank.Adam()).fit(DATA, checkpoint=tmp_path)
    for path in tmp_path.glob("data-*/*.npy"):
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with refuses(ValueError, remedy="restore it"):
            made(optimizer=mfrank.Adam()).fit(DATA, checkpoint=tmp_path)
        path.write_bytes(whole)


SEEDED: dict[str, Callable[..., Any]] = {
    "ALS": lambda **options: mfrank.ALS(mfrank.IALS(), 2, **options),
    "Descent": lambda **options: mfrank.Descent(mfrank.BPR(), 2, **options),
}


def stopped(model: Any, folder: Path, **how: Any) -> Any:
    """A fit that is stopped after its first epoch, with its state saved."""
    return model.fit(DATA, checkpoint=folder, callback=lambda *_: True, **how)


@pytest.mark.parametrize("name", SEEDED)
@pytest.mark.parametrize(
    ("begun", "asked", "told"),
    [(0, 0, False), (0, None, False), (0, 1, True), (None, None, False), (None, 1, True)],
)
def test_a_seed_that_is_not_used_is_told(
    name: str,
    begun: int | None,
    asked: int | None,
    told: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    make = SEEDED[name]
    stopped(make(iterations=3, random_state=begun), tmp_path)
    with caplog.at_level("WARNING", "mfrank"):
        again = make(iterations=3, random_state=asked).fit(DATA, checkpoint=tmp_path)
    assert ("random_state" in caplog.text) == told
    assert not told or f"{asked}" in caplog.text
    assert again.store.fitter["options"]["random_state"] == begun
    if begun is not None:
        whole = make(iterations=3, random_state=begun).fit(DATA)
        assert again.item_factors.tobytes() == whole.item_factors.tobytes()


@pytest.mark.parametrize("name", SEEDED)
@pytest.mark.parametrize("iterations", [1, 3])
def test_another_start_and_other_ids_are_refused(
    name: str, iterations: int, tmp_path: Path
) -> None:
    make, start = SEEDED[name], SEEDED["ALS"](iterations=2, random_state=5).fit(DATA)
    how = {"iterations": iterations, "random_state": 0}
    stopped(make(**how), tmp_path / "new")
    stopped(make(**how), tmp_path / "started", start=start)
    other = SEEDED["ALS"](iterations=2, random_state=6).fit(DATA)
    for folder, given in (("new", start), ("started", None), ("started", other)):
        with pytest.raises(ValueError, match=r"from another start.*remove it"):
            make(**how).fit(DATA, start=given, checkpoint=tmp_path / folder)
    names = [f"user {row}" for row in range(DATA.n_users)]
    named = replace(DATA, user_ids=Ids.of(names))
    with pytest.raises(ValueError, match=r"other interactions.*remove it"):
        make(**how).fit(named, checkpoint=tmp_path / "new")
    whole = make(**how).fit(DATA, start=start)
    again = make(**how).fit(DATA, start=start, checkpoint=tmp_path / "started")
    assert again.item_factors.tobytes() == whole.item_factors.tobytes()


@pytest.mark.parametrize("name", SEEDED)
@pytest.mark.parametrize("epoch", [0, 1])
def test_two_fits_do_not_share_a_folder(name: str, epoch: int, tmp_path: Path) -> None:
    """The second begins where the first has just begun, or saved an epoch: one of them ends."""
    make = SEEDED[name]

    def begin_another(at: int, *_: Any) -> None:
        if at == epoch:
            make(iterations=4, random_state=0).fit(DATA, checkpoint=tmp_path)

    first = make(iterations=4, random_state=0)
    with refuses(ValueError, "checkpoint", remedy="a folder of its own"):
        first.fit(DATA, checkpoint=tmp_path, callback=begin_another)
    assert len(first.store.history) == epoch + 2
    whole = make(iterations=4, random_state=0).fit(DATA)
    again = make(iterations=4, random_state=0).fit(DATA, checkpoint=tmp_path)
    assert again.item_factors.tobytes() == whole.item_factors.tobytes()


@pytest.mark.parametrize("resumed", [False, True])
def test_a_fit_does_not_write_over_one_that_began_later_and_saved_first(
    resumed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mfrank.models import descent as module

    make, later, descend = SEEDED["Descent"], list[Any](), module.descend
    if resumed:
        stopped(make(iterations=3, random_state=0), tmp_path)

    def begin_another(*given: Any) -> Any:
        monkeypatch.setattr(module, "descend", descend)
        later.append(make(iterations=3, random_state=0).fit(DATA, checkpoint=tmp_path))
        return descend(*given)

    monkeypatch.setattr(module, "descend", begin_another)
    with refuses(ValueError, "checkpoint", remedy="a folder of its own"):
        make(iterations=3, random_state=0).fit(DATA, checkpoint=tmp_path)
    kept = mfrank.FactorStore.load(tmp_path)
    assert len(kept.history) == 3
    np.testing.assert_array_equal(kept.item_factors, later[0].item_factors)


@pytest.mark.parametrize("name", MADE)
def test_an_option_of_another_version_is_another_fit(name: str, tmp_path: Path) -> None:
    """Whether this version has it and that of the checkpoint had not, or the other way round."""
    MADE[name]().fit(DATA, checkpoint=tmp_path)
    store = mfrank.FactorStore.load(tmp_path)
    options = store.fitter["options"]
    fewer = {key: value for key, value in options.items() if key != "dtype"}
    for changed, told in ((fewer, "dtype"), ({**options, "lookahead": 2}, "lookahead")):
        replace(store, fitter={**store.fitter, "options": changed}).save(tmp_path)
        with pytest.raises(ValueError, match=f"checkpoint is of a fit with another {told};"):
            MADE[name]().fit(DATA, checkpoint=tmp_path)


@pytest.mark.parametrize("name", MADE)
def test_what_a_callback_sets_is_no_option_of_the_fit(name: str) -> None:
    model = MADE[name]()
    model.fit(DATA, callback=lambda *_: setattr(model, "iterations", 9))
    assert model.iterations == 9
    assert model.store.fitter["options"]["iterations"] == 3


@pytest.mark.parametrize("name", SEEDED)
@pytest.mark.parametrize("change", [{"n_threads": 2}, {"backend": "reference"}], ids=str)
def test_where_a_fit_runs_is_no_part_of_it(
    name: str, change: dict[str, Any], tmp_path: Path
) -> None:
    how = {"iterations": 2, "random_state": 0}
    stopped(SEEDED[name](**how), tmp_path)
    again = SEEDED[name](**how, **change).fit(DATA, checkpoint=tmp_path)
    assert len(again.store.history) == 2


def test_values_of_likes_are_no_part_of_a_descent(tmp_path: Path) -> None:
    stopped(made(), tmp_path)
    doubled = replace(DATA, user_items=2 * DATA.user_items)
    assert same(made().fit(doubled, checkpoint=tmp_path), made().fit(DATA))


def test_other_features_are_refused_and_the_same_go_on(tmp_path: Path) -> None:
    of_items, other = np.eye(20, 3), np.eye(20, 3)
    other[7, 1] = 0.5
    of_users = np.eye(30, 3)
    begun = {"item_features": of_items, "user_features": of_users}
    stopped(als(), tmp_path, **begun)
    for given in (
        {},
        {"item_features": of_items},
        {"item_features": other, "user_features": of_users},
        {"item_features": of_items, "user_features": 2 * of_users},
    ):
        with pytest.raises(ValueError, match=r"checkpoint is of a fit with other features; name"):
            als().fit(DATA, checkpoint=tmp_path, **given)
    assert same(als().fit(DATA, checkpoint=tmp_path, **begun), als().fit(DATA, **begun))
    stopped(als(), tmp_path / "without")
    with pytest.raises(ValueError, match=r"checkpoint is of a fit with other features"):
        als().fit(DATA, checkpoint=tmp_path / "without", **begun)


def test_a_rule_that_cannot_be_known_again_is_refused_before_any_work(tmp_path: Path) -> None:
    class Never:
        def check(self, train: Any) -> None: ...

        def value(self, *_: Any) -> float:
            raise AssertionError("it began")

        def is_over(self, values: Any) -> bool:
            return False

    with refuses(TypeError, "stopping"):
        als().fit(DATA, stopping=Never(), checkpoint=tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_what_changes_lists_is_known_of_a_folder_of_lists() -> None:
    """Every argument of recommend_all that changes lists is compared when a run is resumed."""
    no_change = {"self", "folder", "n_threads", "show_progress", "cluster"}
    named = set(inspect.signature(mfrank.Recommender.recommend_all).parameters) - no_change
    model = SEEDED["ALS"](iterations=1, random_state=0).fit(DATA)
    options = dict.fromkeys(named - {"N", "format"}) | {
        "filter_already_liked_items": True,
        "recalculate_user": False,
        "by_row": False,
        "on_unknown": "error",
        "fallback": "popularity",
        "n_threads": 1,
        "steer": mfrank.Steering(diversity=0.1),
    }
    assert named <= set(AllLists(model, 3, "csv", options)._origin())


def test_a_fit_that_saves_its_state_leaves_out_what_was_seen_as_any_other(tmp_path: Path) -> None:
    users = DATA.user_ids.labels
    expected = als().fit(DATA).recommend(users, N=9)
    for _ in range(2):  # the second one finds all of it done
        kept = als().fit(DATA, checkpoint=tmp_path / "state").recommend(users, N=9)
        np.testing.assert_array_equal(kept.ids, expected.ids)


COMMANDS = (
    "recommend --model state --user 1 --include-seen",
    "recommend-all --model state --folder lists --format csv",
    "evaluate --model state --test day.csv",
    "update day.csv --model state",
    "serve state --port 0",
    "similar-items 1 --model state",
)


@pytest.mark.parametrize("kind", ["als", "descent"])
def test_the_state_of_a_fit_is_taken_for_a_model_nowhere(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has arrays that no model reads: lists of a descent would lack their biases."""
    monkeypatch.chdir(tmp_path)
    {"als": als, "descent": made}[kind]().fit(DATA, checkpoint="state")
    store = mfrank.FactorStore.load("state")  # its factors can be read
    own = mfrank.ALS if kind == "als" else mfrank.Descent
    for load in (
        lambda: mfrank.load("state"),
        lambda: own.load("state"),
        lambda: mfrank.Recommender.load("state"),
        lambda: mfrank.Recommender.of(store),
    ):
        with refuses(ValueError, remedy="run the same fit") as raised:
            load()
        assert "run the same fit with this checkpoint again" in str(raised.value)
    Path("day.csv").write_text("user,item\n1,2\n")
    for line in COMMANDS:
        before = sorted(os.listdir())
        assert main(line.split()) == 2
        assert "state of a fit" in capsys.readouterr().err
        assert sorted(os.listdir()) == before
