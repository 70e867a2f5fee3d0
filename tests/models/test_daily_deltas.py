"""Interactions that join a fitted model day by day, and how far from a fit to all it stays."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import als, labeled
from problems import OBJECTIVES, toy

import mfrank
from mfrank.als import HalfSteps, solve_in_own_basis
from mfrank.arrays import CSR
from mfrank.backends import SolveOptions, choose
from tests.support.errors import refuses

DAYS = 10


def objective_of(model: mfrank.ALS, data: mfrank.Interactions) -> float:
    """The objective on the data, with the model's factors."""
    steps = HalfSteps(model.objective, data.counts, choose("auto"), SolveOptions("cholesky"))
    users = model.user_factors[model.user_ids.rows(data.user_ids.labels)]
    items = model.item_factors[model.item_ids.rows(data.item_ids.labels)]
    dtype = model.store.dtype
    return steps.value(
        model.objective.user_problem(data.user_rows(dtype), data.counts),
        model.objective.item_problem(data.item_rows(dtype), data.counts),
        users,
        items,
    )


def ndcg(model: mfrank.ALS, test: mfrank.Interactions, train: mfrank.Interactions) -> Any:
    """NDCG@20 on held-out interactions of the users and items of ``train``."""
    ids = train.user_ids, train.item_ids
    users = model.user_factors[model.user_ids.rows(ids[0].labels)]
    items = model.item_factors[model.item_ids.rows(ids[1].labels)]
    held_out = mfrank.Interactions.from_arrays(
        test.user_ids.raw(test.entry_users),
        test.item_ids.raw(test.user_items.indices),
        user_ids=ids[0],
        item_ids=ids[1],
    )
    ranker = mfrank.Recommender.of(mfrank.FactorStore(users, items, *ids))
    return mfrank.evaluate(ranker, held_out, train=train, metrics=["ndcg@20"])["ndcg@20"]


def days(data: mfrank.Interactions, by_time: bool) -> list[mfrank.Interactions]:
    """Nine tenths of the entries, and ten days with the rest, by time or drawn."""
    keys = data.timestamps if by_time else np.random.default_rng(0).random(data.nnz)
    order = np.argsort(keys, kind="stable")
    first = data.nnz * 9 // 10
    parts = [order[:first], *np.array_split(order[first:], DAYS)]
    masks = [np.isin(np.arange(data.nnz), part) for part in parts]
    return [data.take(mask).k_core(1) for mask in masks]  # only who is there that day


@pytest.mark.parametrize("by_time", [True, False])
@pytest.mark.parametrize(
    "objective", [mfrank.IALS(alpha0=0.1, regularization=0.01), mfrank.RG2(), mfrank.WRMF(alpha=10)]
)
def test_ten_days_end_near_a_fit_to_all(objective: Any, by_time: bool) -> None:
    """Within 1% of its objective and one standard error of its NDCG, solving fewer rows."""
    data = mfrank.synthetic(1500, 600, 40_000, names=True)
    split = mfrank.by_ratio(data, train=0.9, valid=0, test=0.1, random_state=0)
    before, *each = days(split.train, by_time)
    options = {"factors": 16, "iterations": 10, "random_state": 0}
    model, refit = (mfrank.ALS(objective, **options) for _ in range(2))
    model.fit(before)
    for day in each:
        model.partial_fit(day)
    refit.fit(split.train)
    goal = objective_of(refit, split.train)
    assert objective_of(model, split.train) <= goal + 0.01 * abs(goal)
    wanted = ndcg(refit, split.test, split.train)
    assert ndcg(model, split.test, split.train).value > wanted.value - wanted.standard_error
    rows = sum(record["rows"] for record in model.store.history[10:])
    of_refits = DAYS * 10 * (split.train.n_users + split.train.n_items)
    assert rows <= of_refits / (10 if by_time else 5)


@pytest.mark.parametrize("name", [n for n, each in OBJECTIVES.items() if not each.uses_values])
def test_days_with_everybody_are_epochs(name: str) -> None:
    """Where every row is touched and nothing is new, the objective falls to that of a long fit."""
    everybody = toy() + sp.csr_array(np.arange(9)[:, None] % 7 == np.arange(7))
    data = mfrank.Interactions.from_sparse(everybody)
    model = als(OBJECTIVES[name], dtype="float64", iterations=1).fit(data)
    values = [objective_of(model, data)]
    for _ in range(3):
        values.append(objective_of(model.partial_fit(data, alternations=2), data))
    assert all(b <= a + 1e-9 * abs(a) for a, b in pairwise(values))
    assert values[-1] < values[0]
    assert model.store.history[-1]["rows"] == 3 * data.n_users + 2 * data.n_items


def test_a_day_without_interactions_solves_nothing() -> None:
    model = als().fit(toy())
    before = model.user_factors
    np.testing.assert_array_equal(model.partial_fit(toy() * 0).user_factors, before)
    assert model.store.history[-1]["rows"] == 0


def touched(everything: Any, new_users: Any, new_items: Any) -> list[tuple[Any, Any]]:
    """Which users, and which items, take part in some alternation, and which of them in each."""
    of_users, of_items = (everything > 0).sum(1), (everything > 0).sum(0)
    fresh_items = (new_items > 0) & (new_items >= 0.15 * of_items)
    of_fresh = (everything[:, fresh_items] > 0).sum(1)
    fresh_users = (new_users > 0) & (new_users >= 0.15 * of_users)
    fresh_users |= (of_fresh > 0) & (of_fresh >= 0.3 * of_users)
    return [((new_users > 0) | fresh_users, fresh_users), (new_items > 0, fresh_items)]


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("alternations", [0, 1, 2, 5])
def test_rows_with_a_long_history_take_part_in_one_alternation(
    alternations: int, biases: bool
) -> None:
    """In all: those of whose interactions 15% are new, and users 30% of whose items are such."""
    data = mfrank.synthetic(120, 40, 2000, random_state=0)
    today = data.take(np.random.default_rng(0).random(data.nnz) < 0.08)
    model = als(iterations=2, random_state=0, biases=biases)
    model.fit(data.take(np.arange(data.nnz) % 3 > 0))
    model.partial_fit(today, alternations=alternations)
    new = today.counts.users, today.counts.items
    assert model.seen is not None
    both = touched(model.seen.matrix.toarray(), *new)
    every, fresh = (np.array([side[kind].sum() for side in both]) for kind in (0, 1))
    assert every[0] > (new[0] > 0).sum()  # some users only follow
    assert (fresh > 0).all()
    assert (fresh < every).all()
    wanted = every[0] + (alternations - 1) * fresh.sum() + every.sum()
    assert model.store.history[-1]["rows"] == (wanted if alternations else (new[0] > 0).sum())


def test_the_history_has_a_record_of_each_update() -> None:
    model = als(iterations=2).fit(labeled())
    for _ in range(2):
        model.partial_fit(mfrank.Interactions.from_arrays(["u0"], ["i0"]))
    assert [record["epoch"] for record in model.store.history] == [1, 2, 3, 4]
    for record in model.store.history[2:]:
        assert record["objective"] is None
        assert 0 <= record["seconds"] < 60
        assert record["rows"] > 0


def test_new_items_that_are_not_solved_have_no_bias() -> None:
    model = als(biases=True).fit(labeled())
    model.partial_fit(mfrank.Interactions.from_arrays(["u0"], ["fresh"]), alternations=0)
    assert model.item_ids.raw([7]).tolist() == ["fresh"]
    assert model.store.item_biases[7] == 0
    assert not model.item_factors[7].any()


def test_shares_of_exactly_15_and_30_percent_are_enough() -> None:
    """3 of 20 users of an item are new, and 3 of 10 items of the other users are such items."""
    before, after = np.zeros((20, 10)), np.ones((20, 10))
    before[:17] = 1
    after[17:, 3:] = 0
    model = als(mfrank.IALS()).fit(sp.csr_array(before))
    model.partial_fit(sp.csr_array(after - before), alternations=2)
    (every_user, fresh_users), (every_item, fresh_items) = touched(
        after, (after - before).sum(1), (after - before).sum(0)
    )
    assert [each.sum() for each in (every_user, fresh_users)] == [20, 20]
    assert [each.sum() for each in (every_item, fresh_items)] == [3, 3]
    assert model.store.history[-1]["rows"] == 20 + 2 * (3 + 20)


def test_who_has_fresh_items_follows_them() -> None:
    """An old user of them is solved anew, for where they are; all others stay."""
    first = labeled(sp.csr_array([[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 1, 1], [0, 0, 1, 1]]))
    today = mfrank.Interactions.from_arrays(["a", "b", "c"], ["i0"] * 3)
    model = als(dtype="float64").fit(first)
    before = model.user_factors
    model.partial_fit(today)
    again = model.recalculate_user(["u0", "u2"], first)
    np.testing.assert_allclose(model.user_factors[[0, 2]], again, atol=1e-10)
    np.testing.assert_array_equal(model.user_factors[[1, 3]], before[[1, 3]])
    assert (np.abs(model.user_factors[[0, 2]] - before[[0, 2]]).max(1) > 1e-3).all()


@pytest.mark.parametrize("alternations", [0, 1])
def test_a_day_ends_with_users_that_fit_the_items(alternations: int) -> None:
    """Also those with a history so long that a fit iterates; users that are not touched stay."""
    data = mfrank.synthetic(120, 80, 5000, random_state=0)
    new = np.random.default_rng(0).random(data.nnz) < 0.02
    today, model = data.take(new), als(factors=48, iterations=2, dtype="float64")
    model.fit(data.take(~new))
    before = model.user_factors
    model.partial_fit(today, alternations=alternations)
    there = today.counts.users > 0
    np.testing.assert_array_equal(model.user_factors[~there], before[~there])
    users = np.flatnonzero(there)
    again = model.recalculate_user(users, data.user_items[users])
    np.testing.assert_allclose(model.user_factors[users], again, atol=1e-9)


@pytest.mark.parametrize("name", ["ials", "wrmf", "rg2", "rgx"])
@pytest.mark.parametrize("alternations", [1, 2, 5])
def test_a_day_is_its_half_steps_written_out(name: str, alternations: int) -> None:
    """New users and items among few that are touched, each solved among all rows of the other."""
    data = mfrank.synthetic(300, 90, 4000, random_state=0)
    first = data.take((data.entry_users < 295) & (data.user_items.indices < 88)).k_core(1)
    today = data.take(data.entry_users >= 280)
    today = today.take((today.user_items.indices % 4 == 0) | (today.user_items.indices > 87))
    model = als(OBJECTIVES[name], dtype="float64", random_state=0).fit(first)
    users, items, counts = model.user_factors, model.item_factors, (first + today).counts
    model.partial_fit(today.k_core(1), alternations=alternations)
    everything = model.seen.matrix.astype(float)
    new = np.bincount(model.user_ids.rows(today.user_ids.raw(today.entry_users)))
    of_items = np.bincount(model.item_ids.rows(today.item_ids.raw(today.user_items.indices)))
    users = np.pad(users, [(0, model.store.n_users - len(users)), (0, 0)])
    items = np.pad(items, [(0, model.store.n_items - len(items)), (0, 0)])
    counts = model.store.counts
    steps = HalfSteps(model.objective, counts, choose("reference"), SolveOptions("cholesky"))

    of_users, across = np.pad(new, (0, len(users) - len(new))), sp.csr_array(everything.T)
    of_items = np.pad(of_items, (0, len(items) - len(of_items)))
    sides = touched(everything.toarray(), of_users, of_items)
    solution = items.copy()

    def solve(own: Any, all_fresh: Any, only: bool, rows: sp.csr_array) -> None:
        some, fresh = all_fresh
        number = np.flatnonzero(fresh if only else some)
        csr = CSR.from_scipy(sp.csr_array(rows[number]), np.float64)
        if own is users:
            problem, fixed, at = steps.user_problem(csr), items, steps.users_basis(items)
        else:
            total = steps.item_weights @ items
            problem, fixed = steps.item_problem(csr), users
            at = steps.items_basis(users, total if "rgx" in name else None)
        found = solve_in_own_basis(steps.backend, problem, fixed, at, steps.options)
        own[number] = found
        if own is items:
            own[number] += (0.5 if alternations > 1 else 0) * (found - solution[number])
            solution[number] = found

    solve(users, sides[0], False, everything)
    for turn in range(alternations):
        only = turn != alternations // 2
        solve(items, sides[1], only, across)
        solve(users, sides[0], only, everything)
    assert (of_users > 0).sum() > ((of_users > 0) & (of_users >= 0.15 * counts.users)).sum()
    np.testing.assert_allclose(model.user_factors, users, atol=1e-8)
    np.testing.assert_allclose(model.item_factors, items, atol=1e-8)


def test_new_and_old_are_as_if_they_had_come_at_once() -> None:
    """Ids, seen entries, values and counts; touched users fit the items as a fit's users do."""
    new = mfrank.Interactions.from_arrays(
        ["u1", "new", "u1", "u8"], ["i0", "i6", "brand new", "i3"], [2.0, 1, 3, 4]
    )
    all_of_it = labeled() + new
    model = als(mfrank.WRMF(), dtype="float64").fit(labeled()).partial_fit(new)
    assert model.user_ids == all_of_it.user_ids
    assert model.item_ids == all_of_it.item_ids
    np.testing.assert_array_equal(model.seen.matrix.toarray(), all_of_it.user_items.toarray())
    np.testing.assert_array_equal(model.store.counts.users, all_of_it.counts.users)
    np.testing.assert_array_equal(model.store.counts.items, all_of_it.counts.items)
    again = model.recalculate_user(["u1", "new", "u8"], all_of_it)
    rows = model.user_ids.rows(["u1", "new", "u8"])
    np.testing.assert_allclose(model.user_factors[rows], again, atol=1e-10)
    np.testing.assert_array_equal(
        model.user_factors[2], als(mfrank.WRMF(), dtype="float64").fit(labeled()).user_factors[2]
    )
    users, items = 3 + 3, 3  # half of these users only follow
    assert model.store.history[-1]["rows"] == 4 * users + 3 * items + 1  # one item is not fresh


def test_a_model_serves_while_it_is_updated() -> None:
    """Each list is that of one day's model, with its factors, ids and seen items; none is torn."""
    data = mfrank.synthetic(300, 60, 3000, names=True)
    before, *each = days(data, by_time=True)
    model, twin = (als(random_state=0).fit(before) for _ in range(2))
    asked = before.user_ids.labels[200:].tolist()
    wanted = [twin.recommend(asked, N=60).ids.tolist()]
    wanted += [twin.partial_fit(day).recommend(asked, N=60).ids.tolist() for day in each]
    torn, served, done = list[Any](), list[int](), threading.Event()

    def serve() -> None:
        while not done.is_set():
            try:
                served.append(wanted.index(model.recommend(asked, N=60).ids.tolist()))
            except Exception as error:
                torn.append(error)

    reader = threading.Thread(target=serve)
    reader.start()
    for day in each:
        model.partial_fit(day)
    done.set()
    reader.join()
    assert not torn, torn[:3]
    assert served == sorted(served)
    assert len({str(each) for each in wanted}) == DAYS + 1  # they can be told apart


def test_what_is_old_decays() -> None:
    model = als(mfrank.WRMF(), dtype="float64").fit(labeled())
    today = labeled().take(np.arange(labeled().nnz) < 3)
    model.partial_fit(today, decay=0.5)
    wanted = 0.5 * labeled().user_items.toarray() + today.user_items.toarray()
    np.testing.assert_allclose(model.seen.matrix.toarray(), wanted)
    weighted = mfrank.Interactions.from_sparse(
        sp.csr_array(wanted), user_ids=model.user_ids, item_ids=model.item_ids
    )
    solved = model.recalculate_user(["u0", "u1"], weighted)
    np.testing.assert_allclose(model.user_factors[:2], solved, atol=1e-10)


def test_decay_reaches_rows_without_new_interactions() -> None:
    """Every user is solved for its decayed values, and every item moves, also if nothing is new."""
    data = mfrank.synthetic(80, 40, 900, names=True)
    model = als(mfrank.WRMF(alpha=5), dtype="float64").fit(data)
    before = model.item_factors.copy()
    today = data.take(data.entry_users < 2).k_core(1)
    for new in (today, None):
        model.partial_fit(new, decay=0.5, alternations=1)
        everybody = model.user_ids.labels
        solved = model.recalculate_user(everybody, model.seen.matrix)
        np.testing.assert_allclose(model.user_factors, solved, atol=1e-9)
        assert (np.abs(model.item_factors - before).max(axis=1) > 0).all()
        before = model.item_factors.copy()


def test_a_loaded_model_goes_on(tmp_path: Path) -> None:
    """A saved model has of its interactions what its objective reads."""
    today = labeled().take(np.arange(labeled().nnz) % 5 == 0)
    for objective in (mfrank.IALS(), mfrank.WRMF()):
        model = als(objective).fit(labeled())
        model.save(tmp_path / "m")
        loaded = mfrank.ALS.load(tmp_path / "m", mmap=True)
        loaded.partial_fit(today)
        model.partial_fit(today)
        np.testing.assert_array_equal(loaded.user_factors, model.user_factors)
        np.testing.assert_array_equal(loaded.item_factors, model.item_factors)
        loaded.save(tmp_path / "m")
        assert mfrank.ALS.load(tmp_path / "m").store.history == loaded.store.history


def test_the_number_of_threads_changes_no_bit() -> None:
    data = mfrank.synthetic(400, 150, 6000)
    first, today = data.take(data.entry_users < 300), data.take(data.entry_users >= 250)
    one, three = (
        mfrank.ALS(factors=8, iterations=2, random_state=0, n_threads=n).fit(first) for n in (1, 3)
    )
    one.partial_fit(today)
    three.partial_fit(today)
    np.testing.assert_array_equal(one.user_factors, three.user_factors)
    np.testing.assert_array_equal(one.item_factors, three.item_factors)


def test_rows_of_a_matrix_are_not_taken_for_ids_that_are_other_numbers() -> None:
    numbers = mfrank.Interactions.from_sparse(toy(), item_ids=np.arange(7) * 10)
    model = als().fit(numbers)
    with refuses(ValueError, "new"):
        model.partial_fit(toy())
    assert model.partial_fit() is model


@pytest.mark.parametrize(
    ("new", "options", "fault"),
    [
        (labeled(), {"alternations": -1}, {"argument": "alternations"}),
        (labeled(), {"decay": 1.5}, {"argument": "decay"}),
        (labeled(), {"decay": 0.0}, {"argument": "decay"}),
        (labeled(), {"decay": 0.5}, {"argument": "decay"}),
        (toy(), {}, {"argument": "ids", "remedy": "convert one of them"}),
        (labeled(toy(values="dislikes")), {}, {"argument": "new", "remedy": "Drop them"}),
        ([[1, 2]], {}, {"remedy": r"make them with Interactions\.from_arrays"}),
        (labeled(), {"user_items": toy()[:3]}, {"argument": "user_items"}),
    ],
)
def test_what_cannot_join_changes_nothing(new: Any, options: Any, fault: dict[str, str]) -> None:
    model = als().fit(labeled())
    store = model.store
    with refuses((ValueError, TypeError), **fault):
        model.partial_fit(new, **options)
    assert model.store is store
