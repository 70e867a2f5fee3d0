"""A descent by rotation: blocks meet as they should, and nothing depends on who runs the tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from engines import Delayed, Shuffled
from every_loss import LOSSES

import mfrank
from mfrank.arrays import CSR
from mfrank.backends import choose
from mfrank.backends.sharded import RowBlock
from mfrank.cluster import Processes
from mfrank.descent import ListDrawer, Sampling
from mfrank.descent.rotation import layout, meet
from tests.support.errors import refuses

DATA = mfrank.synthetic(120, 60, 1500, random_state=0)
DECOMPOSING = {name: loss for name, loss in LOSSES.items() if loss.decomposes}
N_BLOCKS = 4

OPTIONS: dict[str, dict[str, Any]] = {
    "users": {},
    "positives": {"batches": "positives", "batch_size": 100},
    "popularity": {"negative_sampling": "popularity"},
    "in-batch": {"negative_sampling": "in-batch"},
    "shared": {"shared_negatives": True},
    "all": {"negatives": None, "positives": None},
    "distances": {"scores": "distance", "dtype": "float64"},
    "momentum": {"optimizer": mfrank.SGD(0.1, momentum=0.5), "weight_decay": 0.01, "clip": 0.1},
    "adagrad": {"optimizer": mfrank.Adagrad(0.1), "item_biases": True},
    "numpy": {"backend": "reference", "batch_size": 60, "negatives": 4, "iterations": 1},
}


@pytest.fixture
def four_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_MOST_BLOCKS", N_BLOCKS)
    monkeypatch.setattr(layout, "_FEWEST_VISITS", 1)
    monkeypatch.setattr(layout, "_FEWEST_ITEMS", 1)


def made(loss: mfrank.Loss | None = None, **options: Any) -> mfrank.Descent:
    few: dict[str, Any] = {"factors": 5, "iterations": 2, "batch_size": 16, "negatives": 12}
    return mfrank.Descent(loss or mfrank.SampledSoftmax(), **few | {"random_state": 0} | options)


def bits(model: mfrank.Descent) -> list[Any]:
    """Factors, biases, and the losses of all epochs."""
    store = model.store
    arrays = store.user_factors, store.item_factors, store.item_biases, store.user_biases
    losses = [epoch["objective"] for epoch in store.history]
    return [None if array is None else array.tobytes() for array in arrays] + losses


@pytest.mark.parametrize("batches", ["users", "positives"])
def test_blocks_are_as_many_as_an_epochs_visits_and_the_items_need(
    batches: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user without positives is not visited; nor are there blocks without a cluster."""
    data = mfrank.Interactions.from_arrays([0, 0, 2], [1, 4, 3], shape=(4, 6))
    asked = list[tuple[int, int]]()

    def watched(*given: int) -> int:
        asked.append(given)  # type: ignore[arg-type]
        return 1

    monkeypatch.setattr("mfrank.models.descent.count_blocks", watched)
    made(mfrank.BPR(), batches=batches).fit(data)
    made(mfrank.BPR(), batches=batches).fit(data, cluster=Shuffled(1))
    assert asked == [(3 if batches == "positives" else 2, 6)]


def test_a_checkpoint_of_one_process_goes_on_on_a_cluster_with_one_block(tmp_path: Path) -> None:
    whole = made(iterations=3).fit(DATA)
    made(iterations=3).fit(DATA, checkpoint=tmp_path, callback=lambda epoch, *_: epoch == 1)
    there = made(iterations=3).fit(DATA, cluster=Shuffled(2), checkpoint=tmp_path)
    assert bits(there) == bits(whole)


# The same bits


@pytest.mark.parametrize("name", DECOMPOSING)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_one_block_has_the_bits_of_one_process(name: str, options: dict[str, Any]) -> None:
    alone, there = made(LOSSES[name], **options), made(LOSSES[name], **options)
    assert bits(there.fit(DATA, cluster=Shuffled(2))) == bits(alone.fit(DATA))


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.usefixtures("four_blocks")
def test_more_blocks_do_not_depend_on_the_workers_nor_on_the_order_of_the_tasks(
    options: dict[str, Any],
) -> None:
    fits = [made(**options).fit(DATA, cluster=Shuffled(n, seed=n)) for n in (1, 2, 3, 7)]
    assert all(bits(fit) == bits(fits[0]) for fit in fits)
    assert bits(made(**options).fit(DATA)) != bits(fits[0])
    assert np.isfinite(fits[0].user_factors).all()


class Watched(Shuffled):
    """Notes the meetings that were sent."""

    def __init__(self, n_workers: int) -> None:
        super().__init__(n_workers)
        self.meetings: list[Any] = []
        self.blocks: list[RowBlock] = []

    def submit(self, function: Callable[..., Any], *args: Any) -> Delayed:
        if function is meet:
            self.meetings.append(args[2])
        elif isinstance(args[0], RowBlock):
            self.blocks.append(args[0])
        return super().submit(function, *args)


@pytest.mark.usefixtures("four_blocks")
def test_a_user_travels_once_an_epoch_and_an_item_once_a_round() -> None:
    engine = Watched(3)
    made(iterations=1).fit(DATA, cluster=engine)
    users = sum(len(meeting.tables["users"].table) for meeting in engine.meetings)
    items = sum(len(meeting.tables["items"].table) for meeting in engine.meetings)
    assert users == np.count_nonzero(np.diff(DATA.user_items.indptr))
    assert items == N_BLOCKS * DATA.n_items
    assert not engine.alive


@pytest.mark.parametrize("batches", ["users", "positives"])
@pytest.mark.usefixtures("four_blocks")
def test_blocks_of_users_have_about_as_many_visits_each(batches: Any) -> None:
    """The first user has half of all positives, and half of the users have none."""
    few = np.arange(1, 31)
    users, items = np.concatenate([np.zeros(30, int), few]), np.concatenate([few, few])
    data = mfrank.Interactions.from_arrays(users, items, shape=(61, 31))
    engine = Watched(2)
    made(mfrank.BPR(), batches=batches, iterations=1).fit(data, cluster=engine)
    rows = [block.pattern().counts for block in engine.blocks]
    visits = [counts.sum() if batches == "positives" else (counts > 0).sum() for counts in rows]
    assert sum(len(counts) for counts in rows) == 61
    most = 30 if batches == "positives" else 1
    assert max(visits) <= sum(visits) / N_BLOCKS + most
    assert min(visits) >= (0 if batches == "positives" else sum(visits) / N_BLOCKS - 1)


@pytest.mark.usefixtures("four_blocks")
def test_visits_are_told_as_they_are_done_until_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[tuple[int, int, float]]()
    pace = "mfrank.models.descent.Pace"
    monkeypatch.setattr(pace, lambda *_: lambda *at: told.append(at))  # type: ignore[arg-type]
    began = perf_counter()
    model = made(iterations=1).fit(DATA, cluster=Shuffled(3))
    passed = perf_counter() - began
    done, totals, seconds = (list(column) for column in zip(*told, strict=True))
    assert set(totals) == {np.count_nonzero(DATA.counts.users)}
    assert done == sorted(set(done))
    assert done[-1] == totals[0]
    assert seconds == sorted(seconds)
    for each in (*seconds, model.store.history[0]["seconds"]):
        assert 0 <= each <= passed


class Exclusive(Shuffled):
    """Refuses a meeting of rows that another one has, or that an earlier one is still to have."""

    def __init__(self, n_workers: int, seed: int) -> None:
        super().__init__(n_workers, seed)
        self.taken: dict[Delayed, tuple[Any, set[int]]] = {}
        self.most, self.last = 0, dict[Any, tuple[int, int]]()

    def submit(self, function: Callable[..., Any], *args: Any) -> Delayed:
        task = super().submit(function, *args)
        if function is meet:
            block, items = args[0], set(args[2].items.tolist())
            for other, theirs in self.taken.values():
                assert block is not other
                assert not items & theirs
            self.taken[task] = block, items
            now = args[2].epoch, args[2].share.first
            for key in (block, (args[2].epoch, frozenset(items))):
                assert self.last.get(key, (0, -1)) < now
                self.last[key] = now
            self.most = max(self.most, len(self.taken))
        return task

    def wait(self, tasks: Any) -> set[Delayed]:
        kept = dict(self.taken)
        done = super().wait(tasks)
        self.taken = kept  # done, and not yet collected
        return done

    def gather(self, tasks: Any) -> list[Any]:
        for task in tasks:
            self.taken.pop(task, None)
        return super().gather(tasks)


@pytest.mark.parametrize("n_workers", [1, 2, 5])
@pytest.mark.usefixtures("four_blocks")
def test_meetings_of_a_block_are_one_after_another_in_the_order_of_rounds(n_workers: int) -> None:
    engine = Exclusive(n_workers, seed=n_workers)
    made(mfrank.BPR(), iterations=2).fit(DATA, cluster=engine)
    assert engine.most == min(2 * n_workers, N_BLOCKS)  # two for each worker, if there are as many
    assert not engine.taken


@pytest.mark.usefixtures("four_blocks")
def test_each_positive_is_in_one_meeting_of_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = list[int]()

    class Counted(ListDrawer):
        def __init__(self, rows: CSR, *given: Any) -> None:
            counts.append(len(rows.indices))
            super().__init__(rows, *given)

    monkeypatch.setattr("mfrank.descent.rotation.meeting.ListDrawer", Counted)
    engine: Any = Shuffled(2)
    engine.random = SimpleNamespace(permutation=np.arange, random=lambda: 1.0)  # nothing is lost
    made(mfrank.BPR(), batches="positives", iterations=1).fit(DATA, cluster=engine)
    assert len(counts) == N_BLOCKS**2
    assert sum(counts) == DATA.nnz


def test_the_loss_of_a_single_visit_is_that_of_one_process() -> None:
    one = mfrank.Interactions.from_arrays([0, 0], [1, 2], shape=(1, 5))
    assert bits(made().fit(one, cluster=Shuffled(1))) == bits(made().fit(one))


@pytest.mark.usefixtures("four_blocks")
def test_a_fit_survives_the_death_of_its_workers() -> None:
    whole = made().fit(DATA, cluster=Shuffled(1))
    with Processes(2) as engine:

        def kill(epoch: int, *_: object) -> None:
            for worker in engine._workers:
                worker.process.kill()

        assert bits(made().fit(DATA, cluster=engine, callback=kill)) == bits(whole)


@pytest.mark.usefixtures("four_blocks")
def test_a_folder_of_interactions_has_the_bits_of_memory(tmp_path: Path) -> None:
    DATA.to_folder(tmp_path / "data")
    opened = mfrank.Interactions.open(tmp_path / "data")
    there = made().fit(opened, cluster=Shuffled(2))
    assert bits(there) == bits(made().fit(DATA, cluster=Shuffled(2)))


@pytest.mark.usefixtures("four_blocks")
def test_a_checkpoint_is_gone_on_from_to_the_same_bits_and_only_there(tmp_path: Path) -> None:
    whole = made(iterations=4).fit(DATA, cluster=Shuffled(2))
    first = made(iterations=4)
    first.fit(DATA, cluster=Shuffled(3), checkpoint=tmp_path, callback=lambda epoch, *_: epoch == 1)
    with refuses(ValueError, "checkpoint"):
        made(iterations=4).fit(DATA, checkpoint=tmp_path)
    second = made(iterations=4, random_state=9)
    assert bits(second.fit(DATA, cluster=Shuffled(1), checkpoint=tmp_path)) == bits(whole)


@pytest.mark.usefixtures("four_blocks")
def test_a_checkpoint_of_one_process_is_refused_on_a_cluster(tmp_path: Path) -> None:
    made().fit(DATA, checkpoint=tmp_path)
    with refuses(ValueError, "checkpoint"):
        made(iterations=4).fit(DATA, cluster=Shuffled(2), checkpoint=tmp_path)


@pytest.mark.usefixtures("four_blocks")
def test_stopping_and_callback_see_every_epoch() -> None:
    split = mfrank.by_ratio(DATA, train=0.8, valid=0.2, test=0.0, random_state=0)
    stopping, seen = mfrank.EarlyStopping(split.valid, patience=1), list[int]()
    model = made(iterations=9)
    model.fit(
        split.train,
        stopping=stopping,
        callback=lambda epoch, *_: seen.append(epoch),
        cluster=Shuffled(2),
    )
    values = [epoch["valid"] for epoch in model.store.history]
    assert seen == list(range(len(values)))
    assert len(values) == 9 or max(values) not in values[-1:]
    again = made(iterations=9)
    best = int(np.argmax(values))
    again.fit(split.train, cluster=Shuffled(1), callback=lambda epoch, *_: epoch == best)
    assert bits(again)[:4] == bits(model)[:4]


@pytest.mark.usefixtures("four_blocks")
def test_a_fit_that_diverges_keeps_the_last_complete_epoch() -> None:
    model = made(mfrank.BPR(), optimizer=mfrank.SGD(1e30), iterations=9, schedule=mfrank.Constant())
    with pytest.raises(FloatingPointError, match="the fit diverged in epoch"):
        model.fit(DATA, cluster=Shuffled(2))


# A part of a list stands for all of it


POSITIVES = [[0, 2], [1, 4, 5]]
N_ITEMS = 8


def mean_over_deals(sampling: Sampling, user: int, powers: np.ndarray) -> float:
    """Mean over all deals into halves of sum exp(h) / (expected count), where the user is visited.

    Both halves are visited if the positives are divided evenly.
    """
    indptr = np.cumsum([0, *map(len, POSITIVES)])
    rows = CSR(indptr, np.concatenate(POSITIVES).astype(np.int32), None, N_ITEMS)
    catalog, sums = sampling.catalog(rows), list[float]()
    for half in combinations(range(N_ITEMS), N_ITEMS // 2):
        items = np.array(half)
        places = np.flatnonzero(np.isin(items, POSITIVES[user])).astype(np.int32)
        if 2 * len(places) < len(POSITIVES[user]):
            continue
        part = CSR(np.array([0, len(places)]), places, None, len(items))
        of = catalog.part(np.array([user]), items)
        drawer = ListDrawer(part, sampling, choose("reference"), catalog=of)
        drawn = drawer.of_users(np.array([0]), 7)
        lists = drawn.lists
        assert (lists.n_items[0], lists.n_positives[0]) == (N_ITEMS, len(POSITIVES[user]))
        each = powers[items[drawn.negatives.ravel()]] / np.exp(lists.log_expected_counts[0])
        sums.append(float(each[lists.negatives[0]].sum()))
    return float(np.mean(sums))


@pytest.mark.parametrize("user", [0, 1])
@pytest.mark.parametrize(
    ("negatives", "shared", "tolerance"),
    [(None, False, 1e-9), (50, True, 1e-5), (9999, False, 0.01)],
)
def test_the_sum_over_a_parts_negatives_is_that_of_the_catalog_in_the_mean(
    user: int, negatives: int | None, shared: bool, tolerance: float
) -> None:
    powers = np.exp(np.random.default_rng(0).normal(size=N_ITEMS))
    mean = mean_over_deals(Sampling(10, negatives, shared=shared), user, powers)
    assert mean == pytest.approx(np.delete(powers, POSITIVES[user]).sum(), rel=tolerance)


def gradient(
    loss: mfrank.Loss, scores: np.ndarray, own: list[int], items: np.ndarray, corrected: bool
) -> np.ndarray:
    """Of the loss of the part of a list in these items, by the scores of all items."""
    places = np.flatnonzero(np.isin(items, own)).astype(np.int32)
    rows = CSR(np.array([0, len(own)]), np.array(own, np.int32), None, len(scores))
    part = CSR(np.array([0, len(places)]), places, None, len(items))
    sampling = Sampling(None, None)
    catalog = sampling.catalog(rows).part(np.array([0]), items) if corrected else None
    drawn = ListDrawer(part, sampling, choose("reference"), catalog=catalog)
    lists = drawn.of_users(np.array([0]), 1).lists
    here = scores[items][None]
    found = loss.gradients(lists, here[:, places], here, {})
    by_items = np.zeros(len(scores))
    by_items[items] = found.negatives[0]
    by_items[items[places]] += found.positives[0]
    return by_items


@pytest.mark.parametrize("name", DECOMPOSING)
def test_the_gradient_by_parts_is_in_the_mean_that_of_the_catalog(name: str) -> None:
    loss, own, n_items = LOSSES[name], [1, 4, 6], 10

    def error(spread: float, corrected: bool) -> float:
        scores = spread * np.random.default_rng(0).normal(size=n_items)
        whole = gradient(loss, scores, own, np.arange(n_items), corrected=False)
        halves = (np.array(half) for half in combinations(range(n_items), n_items // 2))
        homes = [half for half in halves if 2 * np.isin(half, own).sum() > len(own)]
        each = [gradient(loss, scores, own, half, corrected) for half in homes]
        return float(np.abs(np.mean(each, axis=0) - whole).max() / np.abs(whole).max())

    if name != "sampled softmax":
        assert error(1.0, corrected=True) < 1e-12
        return
    # The softmax divides by the sum over the part, which is right for each part of equal scores,
    # and errs by its variance between the parts.
    assert error(0.0, corrected=True) < 1e-12
    assert error(0.1, corrected=True) < error(0.3, corrected=True) / 2 < 0.03
    assert error(0.0, corrected=False) > 0.1


def test_samples_by_popularity_stand_for_the_catalogs_weight() -> None:
    """The ratio of weights, not of numbers, is what makes a constant score exact in any block."""
    sampling = Sampling(10, 20_000, "popularity", power=1.0)
    data = mfrank.synthetic(30, 12, 100, random_state=0)
    rows = data.user_rows("float32").pattern()
    catalog = sampling.catalog(rows)
    popularity = np.maximum(np.bincount(rows.indices, minlength=12), 1)
    user = int(np.argmax(rows.counts))
    own = rows.row(user)[0]
    items = np.sort(np.concatenate([own[:1], np.setdiff1d(np.arange(12), own)[:3]]))
    column = np.flatnonzero(items == own[0]).astype(np.int32)
    part = CSR(np.array([0, 1]), column, None, len(items))
    of = catalog.part(np.array([user]), items)
    lists = ListDrawer(part, sampling, choose(), catalog=of).of_users(np.array([0]), 3)
    drawn = popularity[items[lists.negatives[0]]]
    total = (drawn / np.exp(lists.lists.log_expected_counts[0])).sum()
    outside = np.delete(popularity, own).sum()
    np.testing.assert_allclose(total, outside, rtol=1e-9)


# What is refused before any work


@pytest.mark.parametrize("name", [name for name in LOSSES if name not in DECOMPOSING])
def test_losses_of_whole_lists_are_refused(name: str) -> None:
    with refuses(ValueError, "cluster", remedy="use BPR"):
        made(LOSSES[name]).fit(object(), cluster=Shuffled(2))  # the data are not looked at


def test_the_losses_that_decompose_are_these() -> None:
    kinds = {type(loss).__name__ for loss in DECOMPOSING.values()}
    assert kinds == {"BPR", "BCE", "SampledSoftmax"}


@dataclass(frozen=True)
class Remembering(mfrank.BPR):
    decomposes: ClassVar[bool] = True

    def memory(self, sizes: Any) -> dict[str, np.ndarray]:
        return {"u": np.zeros(sizes.cells)}


@dataclass(frozen=True)
class Counting(mfrank.SGD):
    """One number for all rows."""

    def state(self, table: Any) -> dict[str, np.ndarray]:
        return {"calls": np.zeros(1)}


@dataclass(frozen=True)
class Drifting(mfrank.SGD):
    drifts: ClassVar[bool] = True


def test_a_memory_and_a_state_of_all_rows_are_refused() -> None:
    with refuses(ValueError, "cluster"):
        made(Remembering()).fit(object(), cluster=2)
    for optimizer in (mfrank.Langevin(), Counting(), Drifting()):
        with refuses(ValueError, "cluster", remedy="use Adam"):
            made(optimizer=optimizer).fit(object(), cluster=2)


def test_a_bad_cluster_is_refused_before_the_data_are_looked_at() -> None:
    with refuses(ValueError, "cluster"):
        made().fit(object(), cluster=0)
    with refuses(TypeError, "cluster"):
        made(mfrank.SONG()).fit(object(), cluster=1.5)  # type: ignore[arg-type]
