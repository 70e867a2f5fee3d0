"""A descent by rotation: blocks meet as they should, and nothing depends on who runs the tasks."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from engines import Delayed, Shuffled
from every_loss import LOSSES
from hypothesis import given
from hypothesis import strategies as st

import mfrank
from mfrank.arrays import CSR
from mfrank.backends import choose
from mfrank.cluster import Processes
from mfrank.descent import Batches, DescentPlan, ListDrawer, Sampling
from mfrank.descent.rotation import Deal, count_blocks, deal, layout, meet, pairs, user_bounds

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


def dealt(
    data: mfrank.Interactions, n_blocks: int, of: str, epoch: int = 1
) -> tuple[CSR, Deal, np.ndarray]:
    """Positives, the blocks of an epoch, and where users are cut."""
    rows = data.user_rows("float32").pattern()
    visits = rows.counts if of == "positives" else np.minimum(rows.counts, 1)
    bounds = user_bounds(visits, n_blocks)
    batches = Batches(of, 16)  # type: ignore[arg-type]
    plan = DescentPlan(mfrank.BPR(), mfrank.SGD(), mfrank.Constant(), 9, batches, 0.0, None, 3)
    return rows, deal(rows, bounds, plan, epoch), bounds


# Who meets whom


@given(st.integers(1, 12))
def test_each_pair_of_blocks_meets_once_and_no_two_of_a_round_share_one(n_blocks: int) -> None:
    every = list(pairs(n_blocks))
    assert len({(pair.users, pair.items) for pair in every}) == len(every) == n_blocks**2
    for number in range(n_blocks):
        of_round = [pair for pair in every if pair.round == number]
        assert len({pair.users for pair in of_round}) == n_blocks
        assert len({pair.items for pair in of_round}) == n_blocks


@given(st.integers(1, 6), st.sampled_from(["users", "positives"]), st.integers(1, 3))
def test_an_epoch_visits_each_once_where_it_lies(n_blocks: int, of: str, epoch: int) -> None:
    data = mfrank.synthetic(37, 23, 150, random_state=n_blocks)
    rows, blocks, bounds = dealt(data, n_blocks, of, epoch)
    assert np.array_equal(np.sort(np.concatenate(blocks.items)), np.arange(23))
    assert max(map(len, blocks.items)) - min(map(len, blocks.items)) <= 1
    visited = []
    for user_block, item_block in product(range(n_blocks), repeat=2):
        users, items = blocks.users[user_block][item_block], blocks.items[item_block]
        assert ((bounds[user_block] <= users) & (users < bounds[user_block + 1])).all()
        here = [np.isin(rows.row(user)[0], items).sum() for user in users]
        assert all(here)
        visits = blocks.visits[user_block, item_block]
        assert visits == (sum(here) if of == "positives" else len(users))
        visited += list(users)
    if of == "users":
        assert sorted(visited) == list(np.flatnonzero(rows.counts))
    else:
        assert blocks.visits.sum() == len(rows.indices)


def test_items_are_dealt_anew_in_every_epoch_until_all_pairs_have_met() -> None:
    met = np.zeros((60, 60), dtype=bool)
    for epoch in range(1, 40):
        for block in dealt(DATA, 3, "users", epoch)[1].items:
            met[np.ix_(block, block)] = True
    assert met.all()


def test_a_user_is_visited_where_most_positives_lie_each_as_often_as_another() -> None:
    epochs, visited = 400, np.zeros(DATA.user_items.nnz)
    for epoch in range(epochs):
        rows, blocks, _ = dealt(DATA, 3, "users", epoch)
        for item_block, items in enumerate(blocks.items):
            users = np.concatenate([of_block[item_block] for of_block in blocks.users])
            here = np.isin(rows.indices, items)
            at_home = here & np.isin(np.repeat(np.arange(rows.n_rows), rows.counts), users)
            visited += at_home
            most = np.add.reduceat(at_home, rows.indptr[users])
            assert (3 * most >= rows.counts[users]).all()
    of_users = np.add.reduceat(visited, rows.indptr[:-1]) / rows.counts
    surplus = (visited - np.repeat(of_users, rows.counts)) / np.sqrt(epochs / 4)
    assert np.abs(surplus).max() < 5
    assert 0.8 < surplus.std() < 1.2


@given(st.integers(1, 10**10), st.integers(1, 10**8))
def test_the_number_of_blocks_grows_with_the_data_up_to_a_bound(n_visits: int, items: int) -> None:
    n_blocks = count_blocks(n_visits, items)
    assert 1 <= n_blocks <= 32
    assert n_blocks <= max(1, items)
    assert count_blocks(2 * n_visits, 2 * items) >= n_blocks


@pytest.mark.parametrize(
    ("n_visits", "items", "n_blocks"),
    [
        (16_383, 10**6, 1),
        (10**6, 1_023, 1),
        (16_384, 1_024, 2),
        (9 * 4_096, 3 * 512, 3),
        (9 * 4_096 - 1, 10**6, 2),
        (10**6, 3 * 512 - 1, 2),
        (10**12, 10**9, 32),
    ],
)
def test_the_number_of_blocks_is_as_stated(n_visits: int, items: int, n_blocks: int) -> None:
    assert count_blocks(n_visits, items) == n_blocks


@given(st.integers(1, 5), st.integers(0, 9))
def test_shares_are_the_places_of_visits_in_their_round_and_epoch(size: int, seed: int) -> None:
    visits = np.random.default_rng(seed).integers(0, 4, (size, size))
    nobody = [np.zeros(0, np.int64)] * size
    shares = Deal(nobody, [nobody] * size, visits).shares()
    rounds = [[pair for pair in pairs(size) if pair.round == number] for number in range(size)]
    of_rounds = [sum(visits[pair.users, pair.items] for pair in of_round) for of_round in rounds]
    n_earlier = 0
    for number, of_round in enumerate(rounds):
        for pair in of_round:
            n_own = visits[pair.users, pair.items]
            expected = (n_earlier, sum(of_rounds[:number]), of_rounds[number], visits.sum())
            assert shares.get(pair) == (expected if n_own else None)
            n_earlier += n_own


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(1, 12))
def test_users_are_cut_into_blocks_of_about_as_many_visits(visits: list[int], size: int) -> None:
    bounds = user_bounds(np.array(visits), size)
    assert (bounds[0], bounds[-1], len(bounds)) == (0, len(visits), size + 1)
    of_blocks = [sum(visits[begin:end]) for begin, end in pairwise(bounds)]
    assert max(of_blocks) <= sum(visits) / size + max(visits)


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

    def submit(self, function: Callable[..., Any], *args: Any) -> Delayed:
        if function is meet:
            self.meetings.append(args[2])
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
    with pytest.raises(ValueError, match="checkpoint is of a fit cut into other blocks"):
        made(iterations=4).fit(DATA, checkpoint=tmp_path)
    second = made(iterations=4, random_state=9)
    assert bits(second.fit(DATA, cluster=Shuffled(1), checkpoint=tmp_path)) == bits(whole)


@pytest.mark.usefixtures("four_blocks")
def test_a_checkpoint_of_one_process_is_refused_on_a_cluster(tmp_path: Path) -> None:
    made().fit(DATA, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="checkpoint is of a fit cut into other blocks"):
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
    loss = LOSSES[name]
    why = f"cluster cannot fit {type(loss).__name__}, which needs lists of the whole catalog"
    with pytest.raises(ValueError, match=re.escape(why)):
        made(loss).fit(object(), cluster=Shuffled(2))  # the data are not looked at


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
    with pytest.raises(ValueError, match="cluster cannot fit Remembering, which keeps a memory"):
        made(Remembering()).fit(object(), cluster=2)
    for optimizer in (mfrank.Langevin(), Counting(), Drifting()):
        why = f"cluster cannot use {type(optimizer).__name__}, which keeps more than"
        with pytest.raises(ValueError, match=why):
            made(optimizer=optimizer).fit(object(), cluster=2)


def test_a_bad_cluster_is_refused_before_the_data_are_looked_at() -> None:
    with pytest.raises(ValueError, match="cluster must be at least 1, got 0"):
        made().fit(object(), cluster=0)
    with pytest.raises(TypeError, match="cluster must be a number of worker processes"):
        made(mfrank.SONG()).fit(object(), cluster=1.5)  # type: ignore[arg-type]
