"""One search space for all data: what the axes mean, and that they are in units of the data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import mfrank
from mfrank.tuning import (
    BASELINES,
    FAMILIES,
    TIMED_SPACE,
    Axis,
    Closed,
    Facts,
    Family,
    Recent,
    Setting,
    named,
    near,
    spread_out,
)

CLOSED = [family for family in FAMILIES["ALS"] if isinstance(family, Closed)]
IDS = [family.name for family in CLOSED]


def biregular(n: int = 60, each: int = 6) -> mfrank.Interactions:
    """Every user has as many items, and every item as many users: six diagonals."""
    rows = np.repeat(np.arange(n), each)
    columns = (rows + np.tile(np.array([0, 1, 2, 30, 31, 32][:each]), n)) % n
    return mfrank.Interactions.from_sparse(sp.csr_array((np.ones(n * each), (rows, columns))))


@pytest.mark.parametrize("family", CLOSED, ids=IDS)
@pytest.mark.parametrize(("part", "learns"), [(1.05, False), (0.5, True)])
def test_the_ridge_is_in_units_of_singular_values(
    family: Closed, part: float, learns: bool
) -> None:
    """Above the largest one nothing is learned: the best factors are 0. Below it something is."""
    data = biregular()
    facts = Facts.of(data)
    largest = np.linalg.svd(data.user_items.toarray(), compute_uv=False)[0]
    values = {"background": 1e-3, "ridge": part * largest / facts.spread, "nu": 0.5}
    objective = family.scaled(values, facts)
    model = mfrank.ALS(objective, factors=4, iterations=150, dtype="float64", random_state=0)
    scores = model.fit(data).user_factors @ model.item_factors.T
    assert (np.abs(scores).max() > 0.01) == learns


@pytest.mark.parametrize("family", CLOSED, ids=IDS)
def test_nu_redistributes_the_ridge_and_does_not_raise_it(family: Closed) -> None:
    data = mfrank.synthetic(100, 80, 1500, random_state=0)
    facts = Facts.of(data)
    products = []
    for nu in (0.0, 0.5, 1.0):
        objective = family.scaled({"background": 1.0, "ridge": 0.2, "nu": nu}, facts)
        users = objective.user_problem(data.user_rows("float32"), data.counts)
        items = objective.item_problem(data.item_rows("float32"), data.counts)
        products.append(users.ridge.mean() * items.ridge.mean())
    np.testing.assert_allclose(products, products[0], rtol=0.03)  # options have three digits


@pytest.mark.parametrize("family", CLOSED, ids=IDS)
def test_the_background_is_a_share_of_what_observed_cells_weigh(family: Closed) -> None:
    data = mfrank.synthetic(100, 80, 1500, random_state=0)
    facts = Facts.of(data)
    objective = family.scaled({"background": 0.5, "ridge": 0.2, "nu": 0.5}, facts)
    users = objective.user_problem(data.user_rows("float32"), data.counts)
    items = objective.item_problem(data.item_rows("float32"), data.counts)
    background = users.weight.sum() * items.weight.sum()
    cells = users.row_sums(users.observed.curvature).sum()
    if family.name == "WRMF":  # whose observed cells have no background
        cells += data.nnz
    assert background / cells == pytest.approx(0.5 / np.sqrt(facts.density), rel=0.02)


def test_values_in_other_units_give_the_same_model() -> None:
    """Seconds watched or minutes: WRMF's alpha makes up for it."""
    data = mfrank.synthetic(100, 80, 1500, random_state=0)
    family, point = named("WRMF"), (0.3, 0.6, 0.5)
    models = []
    for unit in (1.0, 64.0):
        scaled = mfrank.Interactions.from_sparse(unit * data.to_scipy())
        setting = Setting(Facts.of(scaled), 16, 0, 1)
        model = family.model(point, 0, setting)
        assert isinstance(model, mfrank.ALS)
        models.append(model.set_params(iterations=3).fit(scaled))
    scores = [model.user_factors @ model.item_factors.T for model in models]
    np.testing.assert_allclose(scores[0], scores[1], rtol=0.05, atol=0.01)


@pytest.mark.parametrize(
    "family", [f for of in FAMILIES.values() for f in of], ids=lambda f: f.name
)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 40, 20), (400, 5, 900)])
def test_every_corner_makes_a_model_that_fits_any_data(
    family: Family, shape: tuple[int, int, int]
) -> None:
    n_users, n_items, nnz = shape
    data = mfrank.synthetic(n_users, n_items, nnz, random_state=0)
    setting = Setting(Facts.of(data), 512, 0, 1)
    for corner in np.ndindex(*(2,) * len(family.axes)):
        model = family.model(tuple(map(float, corner)), 0, setting)
        if family.rungs > 1:
            assert model.factors <= min(n_users, n_items)
            model.set_params(iterations=1)
        assert np.isfinite(model.fit(data).score([0], [0])).all()


@pytest.mark.parametrize(
    "family", [f for of in FAMILIES.values() for f in of if f.rungs > 1], ids=lambda f: f.name
)
def test_higher_rungs_are_wider_and_take_longer(family: Family) -> None:
    setting = Setting(Facts.of(mfrank.synthetic(2000, 1000, 20_000, random_state=0)), 512, 0, 1)
    models = [family.model(family.first, rung, setting) for rung in range(family.rungs)]
    works = [family.work(rung, setting) for rung in range(family.rungs)]
    assert [model.factors for model in models] == sorted({model.factors for model in models})
    assert works == sorted(set(works))


@pytest.mark.parametrize(
    "family", [f for of in FAMILIES.values() for f in of], ids=lambda f: f.name
)
def test_the_first_point_is_in_the_cube(family: Family) -> None:
    assert all(0 <= place <= 1 for place in family.first)
    assert list(family.values(family.first).values()) == pytest.approx(list(family.first_values))


def test_recent_popularity_counts_the_share_of_the_interactions_that_is_latest() -> None:
    """In no unit of time: the same for seconds and milliseconds, and where most came at once."""
    rng = np.random.default_rng(0)
    ages = rng.permutation(np.r_[np.arange(1, 901) * 50, np.full(100, 3)])
    data = mfrank.Interactions.from_arrays(np.arange(1000), rng.integers(0, 20, 1000), None, -ages)
    for unit in (1, 1000):
        timed = replace(data, timestamps=unit * data.timestamps)
        setting = Setting(Facts.of(timed), 512, 0, 1)
        for share, counted in ((0.05, 100), (0.2, 200), (0.3, 300)):
            family = Recent()
            model = family.model((family.axes[0].place(share),), 0, setting).fit(timed)
            assert model.item_factors.sum() == counted


def test_one_moment_has_a_window_too() -> None:
    data = mfrank.Interactions.from_arrays(np.arange(50), np.arange(50) % 7, None, np.full(50, 9))
    model = Recent().model((0.5,), 0, Setting(Facts.of(data), 512, 0, 1))
    assert model.fit(data).item_factors.sum() == 50


def test_names_are_different() -> None:
    families = [*BASELINES, *TIMED_SPACE.families()]
    assert len({family.name for family in families}) == len(families)
    assert [TIMED_SPACE.named(family.name) for family in families] == families


def test_places_on_an_axis() -> None:
    axis = Axis("x", 0.1, 10.0)
    assert [axis.at(place) for place in (0.0, 0.5, 1.0)] == pytest.approx([0.1, 1.0, 10.0])
    linear = Axis("y", -1.0, 1.0, logarithmic=False)
    assert [linear.at(place) for place in (0.0, 0.5, 1.0)] == [-1.0, 0.0, 1.0]
    for one in (axis, linear):
        assert [one.place(one.at(place)) for place in (0.0, 0.3, 1.0)] == pytest.approx([0, 0.3, 1])


def test_points_fill_the_cube_and_are_the_same_for_a_seed() -> None:
    points = np.array([spread_out(2, number, 7) for number in range(16)])
    cells = {tuple(cell) for cell in (points * 4).astype(int).tolist()}
    assert len(cells) == 16  # one in each of 4 x 4 cells
    assert spread_out(2, 5, 7) == tuple(points[5])
    assert spread_out(2, 5, 8) != tuple(points[5])


def test_points_near_another_stay_in_the_cube() -> None:
    around = np.array([near((0.0, 0.5), number, 0) for number in range(200)])
    assert ((around >= 0) & (around <= 1)).all()
    assert np.abs(around[:, 1] - 0.5).max() > 0.1
    assert np.abs(around[:, 1].mean() - 0.5) < 0.05
