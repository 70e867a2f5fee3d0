"""Fits with biases: against the sum as it is printed, and rows solved one by one in numpy."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import BACKENDS, als, labeled
from problems import OBJECTIVES, gradient, stated_loss, toy

import mfrank
from mfrank.als import Biased, BiasedSteps, HalfSteps, QuadraticObjective
from mfrank.backends import SolveOptions, choose
from tests.support.errors import refuses

Dense = np.ndarray[Any, np.dtype[np.float64]]

CLOSED = [name for name, each in OBJECTIVES.items() if not each.interaction(1)]


def fitted(objective: QuadraticObjective, data: Any, **options: Any) -> mfrank.ALS:
    small = {"factors": 2, "iterations": 4, "dtype": "float64", "track_objective": True}
    return als(objective, biases=True, **(small | options)).fit(data)


def data_of(name: str) -> mfrank.Interactions:
    values = "dislikes" if OBJECTIVES[name].accepts_dislikes else "counts"
    return mfrank.Interactions.from_sparse(toy(values=values))


def steps_of(objective: QuadraticObjective, data: mfrank.Interactions, backend: str) -> BiasedSteps:
    options = SolveOptions("cholesky")
    return BiasedSteps(HalfSteps(objective, data.counts, choose(backend), options))


def drawn(data: mfrank.Interactions, width: int = 2) -> tuple[Biased, Biased]:
    rng = np.random.default_rng(0)
    users, items = (
        Biased(rng.standard_normal((n, width)), rng.standard_normal(n))
        for n in (data.n_users, data.n_items)
    )
    return users, items


def whole(objective: QuadraticObjective, data: mfrank.Interactions) -> Any:
    """The printed loss of scores with biases, with their ridge, of P, b, Q and c."""
    loss = stated_loss(objective, data.user_items.toarray().astype(np.float64))
    users = objective.user_problem(data.user_rows("float64"), data.counts)
    items = objective.item_problem(data.item_rows("float64"), data.counts)
    of_ones = users.ridge.sum() + items.ridge.sum()

    def value(p: Dense, b: Dense, q: Dense, c: Dense) -> float:
        wide_p = np.column_stack([p, b, np.ones(len(p))])
        wide_q = np.column_stack([q, np.ones(len(q)), c])
        return float(loss(wide_p, wide_q) - of_ones)

    return value


def rows_alone(
    objective: QuadraticObjective, data: mfrank.Interactions, items: Biased
) -> tuple[Dense, Dense]:
    """Users of WRMF or IALS one by one: a ridge regression of what the items' biases leave."""
    r = data.user_items.toarray().astype(np.float64)
    ridge = objective.user_problem(data.user_rows("float64"), data.counts).ridge
    if isinstance(objective, mfrank.WRMF):
        base = 1.0 if objective.confidence == "1+alpha*r" else 0.0
        confidence, target = np.where(r != 0, base + objective.alpha * abs(r), 1.0), 1.0 * (r > 0)
    else:
        assert isinstance(objective, mfrank.IALS)
        weight = abs(r) if objective.weighted else 1.0 * (r != 0)
        confidence = objective.alpha0 + weight
        target = weight * (r > 0) / confidence
    design = np.column_stack([items.factors, np.ones(len(items.factors))])
    solved = np.array(
        [
            np.linalg.solve(
                (design.T * c) @ design + rho * np.eye(design.shape[1]),
                (design.T * c) @ (t - items.biases),
            )
            for c, t, rho in zip(confidence, target, ridge, strict=True)
        ]
    )
    return solved[:, :-1], solved[:, -1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CLOSED)
def test_half_steps_end_where_the_printed_sum_is_flat(name: str, backend: str) -> None:
    """In the factors and biases of the side that is solved, by finite differences."""
    objective, data = OBJECTIVES[name], data_of(name)
    users, items = drawn(data)
    steps, value = steps_of(objective, data, backend), whole(objective, data)
    problem = objective.user_problem(data.user_rows("float64"), data.counts)
    users = steps.solve(problem, steps.fixed_items(items))
    at = users.factors, users.biases, items.factors, items.biases
    scale = 1e-6 * max(1.0, abs(value(*at)))
    assert abs(gradient(lambda p: value(p, *at[1:]), at[0])).max() < scale
    assert abs(gradient(lambda b: value(at[0], b, *at[2:]), at[1])).max() < scale
    problem = objective.item_problem(data.item_rows("float64"), data.counts)
    items = steps.solve(problem, steps.fixed_users(users))
    at = users.factors, users.biases, items.factors, items.biases
    assert abs(gradient(lambda q: value(*at[:2], q, at[3]), at[2])).max() < scale
    assert abs(gradient(lambda c: value(*at[:3], c), at[3])).max() < scale


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [name for name in CLOSED if name.startswith(("wrmf", "ials"))])
def test_a_bias_is_the_factor_against_a_column_of_ones(name: str, backend: str) -> None:
    objective, data = OBJECTIVES[name], data_of(name)
    items = drawn(data)[1]
    problem = objective.user_problem(data.user_rows("float64"), data.counts)
    steps = steps_of(objective, data, backend)
    solved = steps.solve(problem, steps.fixed_items(items))
    factors, biases = rows_alone(objective, data, items)
    np.testing.assert_allclose(solved.factors, factors, atol=1e-9)
    np.testing.assert_allclose(solved.biases, biases, atol=1e-9)


@pytest.mark.parametrize("name", CLOSED)
def test_the_tracked_objective_is_the_printed_sum_and_falls(name: str) -> None:
    objective, data = OBJECTIVES[name], data_of(name)
    store = fitted(objective, data).store
    values = [record["objective"] for record in store.history]
    parts = store.user_factors, store.user_biases, store.item_factors, store.item_biases
    constant = 0.0
    if isinstance(objective, mfrank.RGXPrinted):  # printed without its constant
        users, items = drawn(data)
        rows = data.user_rows("float64"), data.item_rows("float64")
        problems = (
            objective.user_problem(rows[0], data.counts),
            objective.item_problem(rows[1], data.counts),
        )
        constant = steps_of(objective, data, "auto").value(*problems, users, items)
        constant -= whole(objective, data)(users.factors, users.biases, items.factors, items.biases)
    assert whole(objective, data)(*parts) + constant == pytest.approx(values[-1], rel=1e-9)
    assert all(later <= earlier + 1e-9 * abs(earlier) for earlier, later in pairwise(values))


def test_a_long_fit_is_flat_in_everything() -> None:
    objective, data = mfrank.WRMF(alpha=2.5, regularization=0.8), data_of("wrmf")
    store = fitted(objective, data, iterations=400, track_objective=False).store
    at = (store.user_factors, store.user_biases, store.item_factors, store.item_biases)
    value = whole(objective, data)
    for place, part in enumerate(at):
        slope = gradient(lambda x, i=place: value(*at[:i], x, *at[i + 1 :]), part)  # type: ignore[misc]
        assert abs(slope).max() < 1e-5


def test_float32_is_near_float64() -> None:
    data = mfrank.synthetic(200, 80, 3000, random_state=0)
    narrow, wide = (
        als(mfrank.RG2(), biases=True, dtype=dtype).fit(data) for dtype in ("float32", "float64")
    )
    users, items = np.arange(200), np.arange(200) % 80
    np.testing.assert_allclose(
        narrow.score(users, items), wide.score(users, items), rtol=1e-3, atol=1e-3
    )


def test_whoever_is_folded_in_is_ranked_and_scored_as_in_the_fit(tmp_path: Path) -> None:
    model = fitted(mfrank.IALS(), labeled())
    known = model.recommend(model.user_ids.labels, N=3)
    everybody = labeled().user_items
    again = model.recommend(model.user_ids.labels, everybody, N=3, recalculate_user=True)
    np.testing.assert_array_equal(known.ids, again.ids)
    np.testing.assert_allclose(known.scores, again.scores, atol=1e-9)
    users = model.recalculate_user(model.user_ids.labels, everybody)
    np.testing.assert_allclose(users, model.user_factors, atol=1e-9)
    liked = labeled().user_items[[2]]
    from_items = model.recommend_from_items(
        model.item_ids.raw(liked.indices), N=3, values=liked.data
    )
    one = model.recommend("u2", N=3)
    np.testing.assert_array_equal(from_items.ids, one.ids)
    np.testing.assert_allclose(from_items.scores, one.scores, atol=1e-9)
    items = model.recalculate_item("i1", labeled().user_items.T.tocsr()[[1]])
    assert items.shape == (2,)

    model.save(tmp_path / "model")
    loaded = mfrank.load(tmp_path / "model")
    assert loaded.biases
    replace(model.store, user_biases=None).save(tmp_path / "damaged")
    with refuses(ValueError, place="damaged, the store", remedy="restore it"):
        mfrank.load(tmp_path / "damaged")
    folded = loaded.recommend(model.user_ids.labels, everybody, N=3, recalculate_user=True)
    np.testing.assert_array_equal(folded.scores, again.scores)


@pytest.mark.parametrize("name", ["ials", "wrmf", "rg2"])
def test_what_explains_a_score_adds_up_to_it(name: str) -> None:
    model = fitted(OBJECTIVES[name], toy())
    for user, item in ((0, 1), (3, 6)):
        why = model.explain(user, None, item, N=7)
        assert why.score == pytest.approx(float(model.score([user], [item])[0]), abs=1e-9)
        total = why.baseline + sum(part for _, part in why.contributions)
        assert total == pytest.approx(why.score, abs=1e-9)
        other = model.explain(user, None, 5, user_weights=why.user_weights)
        assert other.score == pytest.approx(float(model.score([user], [5])[0]), abs=1e-9)


def test_scores_are_products_and_both_biases() -> None:
    model = fitted(mfrank.RG2(), toy())
    store = model.store
    wanted = store.user_factors @ store.item_factors.T
    wanted += store.user_biases[:, None] + store.item_biases
    np.testing.assert_allclose(model.score([3, 3, 8], [0, 6, 5]), wanted[[3, 3, 8], [0, 6, 5]])


def test_a_fit_goes_on_from_another_and_the_number_of_threads_changes_no_bit() -> None:
    data = mfrank.synthetic(300, 100, 4000, random_state=0)
    options: dict[str, Any] = {"biases": True, "track_objective": True, "factors": 4}
    first = als(**options, iterations=2, n_threads=1).fit(data)
    three = als(**options, iterations=2, n_threads=3).fit(data)
    for name in ("user_factors", "item_factors", "user_biases", "item_biases"):
        assert np.array_equal(getattr(first.store, name), getattr(three.store, name))
    long = als(**options, iterations=4).fit(data)
    on = als(**options, iterations=2).fit(data, start=first)
    np.testing.assert_allclose(on.store.item_biases, long.store.item_biases, rtol=1e-3, atol=1e-4)


def test_without_likes_nothing_is_told() -> None:
    """A user without interactions gets the background's factors; in RG2 there is none."""
    store = fitted(mfrank.RG2(), toy()).store
    assert not store.user_factors[4].any()
    assert store.user_biases[4] == 0


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"objective": mfrank.RGX()}, {"argument": "biases", "remedy": "use RG2"}),
        ({"objective": mfrank.IALS(regularization=0)}, {"argument": "biases"}),
        ({"solver": "cg"}, {"argument": "biases", "remedy": "leave out"}),
        ({"cg_tolerance": 0.1}, {"argument": "biases", "remedy": "leave out"}),
        ({"gather_dtype": "float16"}, {"argument": "biases", "remedy": "leave out"}),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: Any, fault: dict[str, str]) -> None:
    with refuses(ValueError, **fault):
        mfrank.ALS(**({"biases": True} | options))


@pytest.mark.parametrize(
    "arguments",
    [
        {"checkpoint": "somewhere"},
        {"item_features": np.eye(7)},
        {"user_features": np.eye(9)},
    ],
)
def test_fits_that_do_not_go_together_are_refused(arguments: Any) -> None:
    with refuses(ValueError, "biases"):
        als(biases=True).fit(toy(), **arguments)


@pytest.mark.parametrize("name", ["ials", "wrmf", "rg2"])
def test_new_interactions_join_with_their_biases(name: str) -> None:
    """Days with everybody and nothing new are epochs; users fit the items, then, as in a fit."""
    everybody = toy() + sp.csr_array(np.arange(9)[:, None] % 7 == np.arange(7))
    data = mfrank.Interactions.from_sparse(everybody)
    model = fitted(OBJECTIVES[name], data, iterations=1)
    value = whole(OBJECTIVES[name], mfrank.Interactions.from_sparse(everybody * 1.0))
    if name != "wrmf":  # under which equal interactions add up
        before = value(*parts(model))
        model.partial_fit(data, alternations=2)
        assert value(*parts(model)) < before
    new = mfrank.Interactions.from_arrays([0, 9, 9], [6, 7, 0], shape=(10, 8))
    model.partial_fit(new)
    store = model.store
    assert store.user_biases.shape == (10,)
    assert store.item_biases.shape == (8,)
    folded = model.recommend([9], model.seen.matrix[[9]] * 1.0, N=3, recalculate_user=True)
    stored = model.recommend([9], N=3)
    np.testing.assert_array_equal(folded.ids, stored.ids)
    np.testing.assert_allclose(folded.scores, stored.scores, atol=1e-9)


def test_a_day_with_biases_is_its_half_steps_written_out() -> None:
    """Items go beyond their solutions by half of the way from the solution before."""
    everybody = toy(values="ones") + sp.csr_array(np.arange(9)[:, None] % 7 == np.arange(7))
    data = mfrank.Interactions.from_sparse(everybody)
    model = fitted(mfrank.IALS(), data, iterations=1)
    steps = steps_of(model.objective, data, "reference")
    problems = (
        model.objective.user_problem(data.user_rows(np.float64), data.counts),
        model.objective.item_problem(data.item_rows(np.float64), data.counts),
    )
    store = model.store
    users, items = (
        Biased(getattr(store, f"{side}_factors"), getattr(store, f"{side}_biases"))
        for side in ("user", "item")
    )
    users, before = steps.solve(problems[0], steps.fixed_items(items)), items
    for _ in range(3):
        solved = steps.solve(problems[1], steps.fixed_users(users))
        items, before = (
            Biased(
                1.5 * solved.factors - 0.5 * before.factors,
                1.5 * solved.biases - 0.5 * before.biases,
            ),
            solved,
        )
        users = steps.solve(problems[0], steps.fixed_items(items))
    model.partial_fit(data, alternations=3)
    wanted = users.factors, users.biases, items.factors, items.biases
    found = ("user_factors", "user_biases", "item_factors", "item_biases")
    for name, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(getattr(model.store, name), expected, atol=1e-8)


def test_rows_are_stored_with_their_biases() -> None:
    model = fitted(mfrank.IALS(), toy())
    before = model.store
    row = toy()[[2]]
    model.partial_fit_users([4, 9], sp.vstack([row, row], format="csr"))
    for at in (4, 9):
        np.testing.assert_allclose(model.user_factors[at], before.user_factors[2], atol=1e-9)
        assert model.store.user_biases[at] == pytest.approx(before.user_biases[2])
    np.testing.assert_array_equal(model.store.item_biases, before.item_biases)
    model.partial_fit_items([2], padded(toy(), 2))
    assert model.store.item_biases.shape == (7,)
    assert np.array_equal(model.store.user_biases[:4], before.user_biases[:4])


def padded(matrix: sp.csr_array, item: int) -> sp.csr_array:
    """The users of an item, ten of them."""
    rows = sp.csr_array(matrix.T)[[item]]
    rows.resize((1, 10))
    return rows


def parts(model: mfrank.ALS) -> tuple[Dense, ...]:
    store = model.store
    return store.user_factors, store.user_biases, store.item_factors, store.item_biases
