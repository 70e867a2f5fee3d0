"""One search space for all data: what the axes mean, and that they are in units of the data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import mfrank
from mfrank.arrays import usable_cores
from mfrank.tuning import (
    BASELINES,
    EPOCHS,
    FAMILIES,
    TIMED_SPACE,
    Axis,
    Closed,
    Facts,
    Family,
    Recent,
    Setting,
    Space,
    fit_costs,
    named,
    near,
    short,
    spread_out,
    timed_families,
)
from mfrank.tuning import families as module

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


@pytest.mark.parametrize("family", list(TIMED_SPACE.families()), ids=lambda f: f.name)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 40, 20), (400, 5, 900)])
def test_every_corner_makes_a_model_that_fits_any_data(
    family: Family, shape: tuple[int, int, int]
) -> None:
    n_users, n_items, nnz = shape
    data = mfrank.synthetic(n_users, n_items, nnz, random_state=0)
    data = replace(data, timestamps=np.arange(data.nnz))
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


@pytest.mark.parametrize("family", list(TIMED_SPACE.families()), ids=lambda f: f.name)
def test_the_first_point_is_in_the_cube_and_powers_and_shares_are_at_most_1(family: Family) -> None:
    assert all(0 <= place <= 1 for place in family.first)
    assert list(family.values(family.first).values()) == pytest.approx(list(family.first_values))
    for axis in family.axes:
        if axis.name == "share" or axis.name.endswith("power"):
            assert 0 <= axis.low < axis.high <= 1
        is_linear = axis.name in ("nu", "dropout") or axis.name.endswith("power")
        assert axis.logarithmic != is_linear


def test_only_models_with_factors_have_rungs() -> None:
    rungs = {family.name: family.rungs for family in (*BASELINES, *TIMED_SPACE.families())}
    assert {name for name, number in rungs.items() if number > 1} == {
        *IDS,
        "SampledSoftmax",
        "AsymmetricALS",
    }
    assert {*rungs.values()} == {1, 2, 3}


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


def test_the_smallest_window_has_the_latest_interaction() -> None:
    for times, counted in (((0, 100, 200, 300), 1), ((0, 298, 300, 300), 2), ((0, 299, 300), 2)):
        n = len(times)
        data = mfrank.Interactions.from_arrays(np.arange(n), np.arange(n), None, np.array(times))
        model = Recent().model((0.0,), 0, Setting(Facts.of(data), 512, 0, 1))
        assert model.fit(data).item_factors.sum() == counted


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
    above = np.array([near((1.0, 0.5), number, 0) for number in range(200)])
    assert (above[:, 0].min() < 1, above.max()) == (True, 1.0)
    assert np.abs(around[:, 1] - 0.5).max() > 0.1
    assert np.abs(around[:, 1].mean() - 0.5) < 0.05


# --- what the places on the axes mean


LARGE = Setting(
    Facts.of(mfrank.synthetic(20_000, 3000, 40_000, random_state=0)), 512, seed=7, n_threads=2
)


def at(family: Family, *values: float) -> tuple[float, ...]:
    return tuple(axis.place(value) for axis, value in zip(family.axes, values, strict=True))


def test_facts_by_hand() -> None:
    matrix = sp.csr_array([[2.0, 0.0, 4.0], [-1.0, 0.0, 0.0]])
    facts = Facts.of(mfrank.Interactions.from_sparse(matrix))
    assert (facts.per_user, facts.per_item, facts.density) == (1.5, 1.0, 0.5)
    assert facts.mean_value == 3.0  # of the likes
    with_0 = mfrank.Interactions.from_arrays([0, 0, 0, 1], [0, 1, 2, 0], [2.0, 0.0, 4.0, -1.0])
    assert Facts.of(with_0).mean_value == 3.0
    assert facts.spread == pytest.approx(np.sqrt(1.5) + 1)


def test_a_width_is_a_share_of_the_factors_within_the_data() -> None:
    few = Setting(Facts.of(mfrank.synthetic(30, 20, 200, random_state=0)), 512, 0, 1)
    many = Setting(Facts.of(mfrank.synthetic(20, 30, 200, random_state=0)), 512, 0, 1)
    assert [LARGE.width(share) for share in (1, 2, 8)] == [512, 256, 64]
    assert [few.width(1), many.width(1)] == [20, 20]
    assert replace(few, factors=3).width(8) == 1


@pytest.mark.parametrize("family", CLOSED, ids=IDS)
def test_als_has_an_eighth_a_third_and_all_of_the_factors(family: Closed) -> None:
    models = [family.model(family.first, rung, LARGE) for rung in range(family.rungs)]
    assert [model.factors for model in models] == [64, 170, 512]
    assert {(m.iterations, m.random_state, m.n_threads) for m in models} == {(EPOCHS, 7, 2)}
    assert all(isinstance(model.objective, family.objective) for model in models)
    assert family.uses_values == family.objective().uses_values
    (nu,) = {
        family.model(at(family, 1.0, 0.1, 0.25), rung, LARGE).objective.nu for rung in range(3)
    }
    assert nu == 0.25


def test_eals_weighs_missing_items_by_the_root_of_their_popularity() -> None:
    assert named("EALS").model(named("EALS").first, 0, LARGE).objective.exponent == 0.5


def test_higher_rungs_of_a_descent_have_more_epochs_and_negatives() -> None:
    family = named("SampledSoftmax")
    models = [family.model(at(family, 0.2, 0.1), rung, LARGE) for rung in range(3)]
    assert [model.factors for model in models] == [64, 128, 256]
    assert [model.iterations for model in models] == [6, 10, 16]
    assert [model.negatives for model in models] == [512, 1024, 2048]
    for model in models:  # a step is a part of a component of a row of length 1
        assert model.optimizer.learning_rate == pytest.approx(0.2 / model.factors**0.5, rel=0.01)
        assert model.optimizer.decay_1 == 0.5  # as in the optimizer that Descent has by itself
        assert model.temperature == pytest.approx(0.1)
        assert (model.scores, model.shared_negatives, model.positives) == ("cosine", True, 30)
        assert (model.random_state, model.n_threads) == (7, 2)
        assert type(model.loss).__name__ == "SampledSoftmax"
    few = replace(LARGE, facts=Facts.of(mfrank.synthetic(100, 600, 900, random_state=0)))
    assert [family.model(family.first, rung, few).negatives for rung in range(2)] == [512, 600]


@pytest.mark.parametrize(("n_users", "lists"), [(100, 32), (6400, 100), (30_000, 256)])
def test_an_epoch_has_dozens_of_batches_where_data_are_small(n_users: int, lists: int) -> None:
    data = mfrank.synthetic(n_users, 20, 2 * n_users, random_state=0)
    family = named("SampledSoftmax")
    model = family.model(family.first, 0, Setting(Facts.of(data), 8, 0, 1))
    assert model.batch_size == lists


def test_options_of_item_models_are_those_of_the_point() -> None:
    ease = named("EASE")
    model = ease.model(at(ease, 2.0, 0.25, 0.75, 60.0), 0, LARGE)
    assert model.regularization == pytest.approx(2 * LARGE.facts.spread**2, rel=0.01)
    assert (model.user_power, model.item_power) == (0.25, 0.75)
    kept = named("ItemFilter")
    model = kept.model(at(kept, 0.25, 0.75), 0, LARGE)
    assert (model.user_power, model.item_power) == (0.25, 0.75)
    for name, kind in (("ItemKNN", mfrank.ItemKNN), ("Popularity", mfrank.Popularity)):
        assert isinstance(named(name).model((), 0, LARGE), kind)
        assert named(name).uses_values == kind().uses_values


def test_more_weights_are_kept_where_items_are_few() -> None:
    """Five million in all, and at least the default of each item."""
    ease = named("EASE")
    assert ease.model(ease.first, 0, LARGE).neighbors == 5_000_000 // 3000
    many = replace(LARGE, facts=Facts.of(mfrank.synthetic(10, 60_000, 900, random_state=0)))
    assert ease.model(ease.first, 0, many).neighbors == mfrank.EASE.neighbors > 5_000_000 // 60_000


def test_where_users_and_items_are_many_an_item_is_predicted_from_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ease, most = named("EASE"), mfrank.EASE.bytes_needed(20_000, 3000, 250)
    point = at(ease, 2.0, 0.25, 0.75, 60.0)
    assert ease.model(point, 0, LARGE).candidates is None
    exact = ease.work(0, LARGE)
    monkeypatch.setattr(module, "_MOST_INVERTED", 2999)
    assert ease.model(point, 0, LARGE).candidates == 60
    assert ease.work(0, LARGE) < exact
    assert ease.bytes_needed(0, LARGE) == most
    monkeypatch.setattr(module, "multiply_add_seconds", lambda: 1e-3)
    one, two = (seconds("EASE", 4000, n_items, 5000) for n_items in (3000, 6000))
    assert two / one == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize(("name", "decays"), [("NextItem", 1), ("NextItem of two decays", 2)])
def test_where_items_are_many_or_histories_short_what_follows_is_predicted_from_few(
    monkeypatch: pytest.MonkeyPatch, name: str, decays: int
) -> None:
    family = TIMED_SPACE.named(name)
    monkeypatch.setattr(timed_families, "_PRODUCTS_AN_ENTRY", 1e9)
    assert family.model(family.first, 0, LARGE).candidates is None
    exact = family.work(0, LARGE), family.bytes_needed(0, LARGE)
    monkeypatch.setattr(timed_families, "_PRODUCTS_AN_ENTRY", 1)
    assert family.model(family.first, 0, LARGE).candidates == 150
    assert family.work(0, LARGE) < exact[0]
    counts = LARGE.facts.data.counts.users
    entries = 2 * sum(int((counts * np.minimum(counts, each)).sum()) for each in (4, 40)[:decays])
    needed = mfrank.NextItem.bytes_needed(decays, 3000, 400, entries)
    weights = 40 * decays * 3000 * family.model(family.first, 0, LARGE).neighbors
    assert family.bytes_needed(0, LARGE) == needed + weights


def test_factors_of_histories_look_ahead_only_as_far_as_it_counts() -> None:
    family = TIMED_SPACE.named("AsymmetricALS")
    first = family.model(family.first, 1, LARGE)
    assert (first.factors, first.ahead, family.model(family.first, 0, LARGE).factors) == (
        128,
        0,
        64,
    )
    far = family.model((*family.first[:4], 1.0, *family.first[5:]), 1, LARGE)
    assert far.ahead == 1
    weights = 40 * 2 * 3000 * far.neighbors
    needed = replace(far, backward=1.0).bytes_needed(3000, LARGE.facts.data.nnz)
    assert family.bytes_needed(1, LARGE) == needed + weights
    assert family.work(0, LARGE) < family.work(1, LARGE)


def test_a_softmax_over_histories_has_more_epochs_where_they_are_few() -> None:
    families = [TIMED_SPACE.named(f"{wide}AsymmetricALS by a softmax") for wide in ("", "wide ")]
    models = [family.model(family.first, 0, LARGE) for family in families]
    assert [model.factors for model in models] == [128, 256]
    assert models[0].decays == pytest.approx(np.geomspace(0.5, 20, 4), rel=1e-2)
    few = Setting(Facts.of(mfrank.synthetic(200, 100, 4000, random_state=0)), 512, 0, 1)
    assert families[0].model(families[0].first, 0, few).softmax_epochs == 6
    many = replace(models[0], softmax_epochs=2 * models[0].softmax_epochs)
    bare = replace(models[0], softmax_epochs=0)
    costs = [
        fit_costs.fit_seconds(model, LARGE.facts, LARGE.n_threads)
        for model in (bare, models[0], many)
    ]
    assert costs[2] - costs[1] == pytest.approx(costs[1] - costs[0])
    narrow, wide = (family.work(0, LARGE) for family in families)
    assert narrow == costs[1] < wide
    narrow, wide = (family.bytes_needed(0, LARGE) for family in families)
    assert narrow < wide


def test_memory_is_that_of_the_tables_of_a_fit() -> None:
    """In bytes: float32 has 4, and a sparse weight between items 40 while it is found."""
    rows = 20_000 + 3000
    for family in CLOSED:
        for rung, width in enumerate((64, 170, 512)):
            tables, matrices = 3 * rows * width, 12 * width**2
            assert family.bytes_needed(rung, LARGE) == 4 * (tables + matrices)
    softmax = named("SampledSoftmax")
    for rung, width in enumerate((64, 128, 256)):
        assert softmax.bytes_needed(rung, LARGE) == 4 * 4 * rows * width
    kept = 40 * 3000 * mfrank.ItemFilter.neighbors
    assert named("ItemFilter").bytes_needed(0, LARGE) == kept
    few = replace(LARGE, facts=Facts.of(mfrank.synthetic(20, 30, 200, random_state=0)))
    assert named("ItemFilter").bytes_needed(0, few) == 40 * 30 * 30
    weights = 40 * 3000 * (5_000_000 // 3000)
    assert named("EASE").bytes_needed(0, LARGE) == mfrank.EASE.bytes_needed(20_000, 3000) + weights
    assert named("EASE").bytes_needed(0, few) == mfrank.EASE.bytes_needed(20, 30) + 40 * 30 * 30
    assert named("Popularity").bytes_needed(0, LARGE) == 0


def test_a_fit_may_take_all_the_memory_that_there_is() -> None:
    family = named("SampledSoftmax")
    needed = family.bytes_needed(1, LARGE)
    assert family.fits(1, replace(LARGE, memory=needed))
    assert not family.fits(1, replace(LARGE, memory=needed - 1))
    assert family.fits(1, LARGE)


# --- how long a fit takes


def seconds(name: str, n_users: int, n_items: int, nnz: int, threads: int = 1) -> float:
    facts = Facts.of(mfrank.synthetic(n_users, n_items, nnz, random_state=0))
    return named(name).work(0, Setting(facts, 64, 0, threads))


def test_a_multiply_add_is_measured_as_the_fastest_of_some_products(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_TIMES", 3)
    times = iter([0.0, 5.0, 10.0, 12.0, 20.0, 23.0])
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(times))
    assert module.multiply_add_seconds.__wrapped__() == 2.0 / 512**3
    assert next(times, None) is None


def test_regression_takes_the_cube_of_the_fewer_and_the_square_of_items(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "multiply_add_seconds", lambda: 1e-3)
    monkeypatch.setattr(mfrank.EASE, "inverts_in_float32", staticmethod(lambda *_: False))
    one, two = seconds("EASE", 400, 100, 2000), seconds("EASE", 400, 200, 2000)
    assert two / one == pytest.approx(8, rel=0.01)
    assert seconds("EASE", 100, 400, 2000) == pytest.approx(one, rel=0.01)
    monkeypatch.setattr(
        mfrank.EASE, "inverts_in_float32", staticmethod(lambda users, items: users > items)
    )
    assert one / 2 < seconds("EASE", 400, 100, 2000) < one
    monkeypatch.setattr(module, "multiply_add_seconds", lambda: 0.0)
    square = seconds("EASE", 2000, 1000, 3000)
    assert square > 0
    assert square / seconds("EASE", 1500, 500, 3000) == pytest.approx(4)
    # Where users are fewer, their products are summed up, too: for each entry, over the items.
    sparse, dense = (seconds("EASE", 100, 1000, nnz) - square for nnz in (3000, 6000))
    assert 0 < sparse < dense
    assert dense / sparse == pytest.approx(2)
    assert (seconds("EASE", 100, 2000, 3000) - 4 * square) / sparse == pytest.approx(2)


def test_a_filter_takes_pairs_of_items_and_the_square_of_items() -> None:
    one = mfrank.Interactions.from_sparse(sp.csr_array(np.ones((3, 1000))))
    other = mfrank.Interactions.from_sparse(sp.csr_array(np.ones((6, 1000))))
    few, many = (
        named("ItemFilter").work(0, Setting(Facts.of(data), 64, 0, 1)) for data in (one, other)
    )
    square = few - (many - few)  # what three further users do not change
    assert 0 < square < few
    half = mfrank.Interactions.from_sparse(sp.csr_array(np.tile(np.arange(1000) % 2 * 1.0, (3, 1))))
    pairs = named("ItemFilter").work(0, Setting(Facts.of(half), 64, 0, 1)) - square
    assert (few - square) / pairs == pytest.approx(4)
    assert seconds("ItemFilter", 1, 2000, 1) == pytest.approx(4 * square, rel=0.01)
    knn = [named("ItemKNN").work(0, Setting(Facts.of(data), 64, 0, 1)) for data in (one, other)]
    assert knn[1] == pytest.approx(2 * knn[0])
    assert seconds("ItemKNN", 1, 10, 10) == pytest.approx(100 / 3e6 * knn[0])
    popular = seconds("Popularity", 50, 40, 900)
    assert seconds("Popularity", 50, 40, 1800) == pytest.approx(2 * popular)
    recent = [
        Recent().work(0, Setting(Facts.of(mfrank.synthetic(50, 40, n, random_state=0)), 8, 0, 1))
        for n in (900, 1800)
    ]
    assert recent[1] == pytest.approx(2 * recent[0])


def test_no_fit_to_small_data_is_expected_to_take_long() -> None:
    setting = Setting(Facts.of(mfrank.synthetic(300, 200, 4000, random_state=0)), 64, 0, 1)
    for family in (*BASELINES, *TIMED_SPACE.families()):
        assert 0 < family.work(family.rungs - 1, setting) < 10


def test_only_models_that_read_values_say_so() -> None:
    reading = {f.name for f in (*BASELINES, *TIMED_SPACE.families()) if f.uses_values}
    assert reading == {"WRMF", "ItemKNN"}


def of_descent(n_users: int, rung: int) -> tuple[float, float]:
    """Seconds of the products of one epoch, which threads share, and of its batches."""
    facts = Facts.of(mfrank.synthetic(n_users, 900, 2 * n_users, random_state=0))
    alone, shared = (
        named("SampledSoftmax").work(rung, Setting(facts, 64, 0, threads)) for threads in (1, 2)
    )
    epochs = (6, 10, 16)[rung]
    return 2 * (alone - shared) / epochs, (2 * shared - alone) / epochs


def test_a_descent_multiplies_users_negatives_and_width_in_threads() -> None:
    products, batches = of_descent(6400, 0)
    twice, more = of_descent(12_800, 0)
    assert twice / products == pytest.approx(2)
    assert more / batches == pytest.approx(1)  # of twice as many users
    many, most = of_descent(38_400, 0)
    assert many / products == pytest.approx(6)
    assert most / batches == pytest.approx(6 * 100 / 256)
    wider, same = of_descent(6400, 2)
    assert wider / products == pytest.approx(4 * 4)  # four times the factors and negatives
    assert same / batches == pytest.approx(1)


def test_no_number_of_threads_is_all_of_them() -> None:
    every, counted = (
        seconds("SampledSoftmax", 3000, 900, 4000, threads) for threads in (0, usable_cores())
    )
    assert every == counted


# --- a space


def test_a_space_knows_its_families_by_name_and_ladder() -> None:
    assert TIMED_SPACE.ladder_of("RG2") == "ALS"
    assert TIMED_SPACE.ladder_of("RecentPopularity") == "recent popularity"
    assert TIMED_SPACE.ladder_of("ItemKNN") is None
    assert list(TIMED_SPACE.ladders) == [
        "recent popularity",
        "sequential rules",
        "next item",
        "asymmetric ALS",
        "softmax of histories",
        *FAMILIES,
    ]
    readers = TIMED_SPACE.with_readers_first()
    names = [family.name for family in readers.ladders["ALS"]]
    others = [family.name for family in CLOSED if not family.uses_values]
    assert names == ["WRMF", *others]
    assert readers.baselines == BASELINES
    alone = Space.of_one(named("RG2"))
    assert [family.name for family in alone.families()] == ["RG2"]
    assert alone.baselines == ()


def test_options_are_rounded_to_three_digits() -> None:
    assert [short(value) for value in (0.123456, 98765.0, 1.0)] == [0.123, 98800.0, 1.0]


def test_points_near_another_are_a_tenth_of_an_axis_away() -> None:
    steps = np.subtract([near((0.5, 0.5), number, 3) for number in range(300)], 0.5)
    assert steps.std(axis=0) == pytest.approx([0.1, 0.1], rel=0.15)
    assert near((0.5, 0.5), 1, 3) == tuple(0.5 + steps[1])
    assert near((0.5, 0.5), 1, 4) != near((0.5, 0.5), 1, 3)


def test_where_items_are_many_the_whole_regression_is_tried_after_candidates() -> None:
    """As time allows; where they are few, the two would be the same."""
    local, whole = FAMILIES["item regression"]
    few, many = (
        Setting(Facts.of(mfrank.synthetic(*shape, random_state=0)), 8, 0, 1)
        for shape in ((50, 40, 300), (8300, 8300, 20_000))
    )
    assert (local.suits(few.facts), whole.suits(few.facts)) == (True, False)
    assert (local.suits(many.facts), whole.suits(many.facts)) == (True, True)
    assert local.model(local.first, 0, many).candidates
    assert whole.model(whole.first, 0, many).candidates is None
    assert local.work(0, many) < whole.work(0, many)
