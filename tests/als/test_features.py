"""Fits with features: descent to where the joint objective is flat, as it is written."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import BACKENDS, als
from problems import OBJECTIVES, gradient, stated_loss, toy

import mfrank
from mfrank.als import FeaturePrior, QuadraticObjective
from mfrank.arrays import CSR
from mfrank.backends import CellTerm, ObservedLoss, RowProblem, choose
from mfrank.data import Ids
from mfrank.store import weights_of

Dense = np.ndarray[Any, np.dtype[np.float64]]

USER_FEATURES = np.random.default_rng(1).standard_normal((9, 2))
ITEM_FEATURES = np.random.default_rng(2).standard_normal((7, 3))


def everybody() -> sp.csr_array:
    """The toy data with an entry in every row and column."""
    return sp.csr_array(toy() + sp.csr_array(np.arange(9)[:, None] % 7 == np.arange(7)))


def ridges(objective: QuadraticObjective, data: mfrank.Interactions) -> tuple[Dense, Dense]:
    users = objective.user_problem(data.user_rows("float64"), data.counts)
    items = objective.item_problem(data.item_rows("float64"), data.counts)
    return users.ridge, items.ridge


def joint(objective: QuadraticObjective, data: mfrank.Interactions, ratio: float) -> Any:
    """The joint objective as :mod:`mfrank.als.feature_priors` prints it, of P, Q, U and V."""
    loss = stated_loss(objective, data.user_items.toarray().astype(np.float64))
    rho, sigma = ridges(objective, data)

    def value(p: Dense, q: Dense, u: Dense, v: Dense) -> float:
        plain = loss(p, q) - rho @ (p**2).sum(1) - sigma @ (q**2).sum(1)
        users = rho @ ((p - USER_FEATURES @ u) ** 2).sum(1)
        items = sigma @ ((q - ITEM_FEATURES @ v) ** 2).sum(1)
        weights = rho.mean() * (u**2).sum() + sigma.mean() * (v**2).sum()
        return float(plain + users + items + ratio * weights)

    return value


def fitted(
    objective: QuadraticObjective, data: Any, start: Any = None, **options: Any
) -> mfrank.ALS:
    small: dict[str, Any] = {
        "factors": 3,
        "iterations": 6,
        "random_state": 0,
        "dtype": "float64",
        "solver": "cholesky",
        "track_objective": True,
        "feature_regularization": 0.7,
    }
    model = mfrank.ALS(objective, **(small | options))
    features = sp.csr_array(ITEM_FEATURES)
    return model.fit(data, start=start, user_features=USER_FEATURES, item_features=features)


def parts(model: mfrank.ALS) -> tuple[Dense, ...]:
    store = model.store
    return (
        store.user_factors,
        store.item_factors,
        weights_of(store, "user"),
        weights_of(store, "item"),
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_joint_objective_never_rises_and_is_what_is_tracked(name: str, backend: str) -> None:
    data = mfrank.Interactions.of(everybody())
    model, early = (fitted(OBJECTIVES[name], data, backend=backend, iterations=n) for n in (6, 1))
    values = [record["objective"] for record in model.store.history]
    assert all(b <= a + 1e-9 * abs(a) for a, b in pairwise(values))
    written = joint(OBJECTIVES[name], data, 0.7)  # some are printed without a constant
    fall = written(*parts(early)) - written(*parts(model))
    assert values[0] - values[-1] == pytest.approx(fall, rel=1e-8)


@pytest.mark.parametrize("name", ["wrmf", "ials nu", "rg2", "rgx"])
def test_a_long_fit_ends_where_the_joint_objective_is_flat(name: str) -> None:
    data = mfrank.Interactions.of(everybody())
    model = fitted(OBJECTIVES[name], data, iterations=300, track_objective=False)
    value, at = joint(OBJECTIVES[name], data, 0.7), list(parts(model))
    scale = max(1.0, abs(value(*at)))
    for which in range(4):

        def along(part: Dense, which: int = which) -> float:
            return value(*at[:which], part, *at[which + 1 :])

        assert np.abs(gradient(along, at[which])).max() < 1e-7 * scale
    assert np.abs(at[2]).max() > 0.01
    assert np.abs(at[3]).max() > 0.01
    p, q, *_ = parts(fitted(OBJECTIVES[name], data, model, iterations=1))
    np.testing.assert_allclose(p @ q.T, at[0] @ at[1].T, atol=1e-6)  # it goes on with the weights


@pytest.mark.parametrize("side", ["user", "item"])
def test_the_objective_of_features_of_one_side_is_tracked(side: str) -> None:
    objective, data = OBJECTIVES["wrmf"], mfrank.Interactions.of(everybody())
    model = als(objective, dtype="float64", track_objective=True, feature_regularization=0.7)
    features = {"user": USER_FEATURES, "item": ITEM_FEATURES}[side]
    model.fit(data, **{f"{side}_features": features})
    p, q = model.user_factors, model.item_factors
    weights = {"user": np.zeros((2, 4)), "item": np.zeros((3, 4))}
    weights[side] = weights_of(model.store, side)
    expected = joint(objective, data, 0.7)(p, q, weights["user"], weights["item"])
    assert model.store.history[-1]["objective"] == pytest.approx(expected, rel=1e-9)


def test_rows_without_interactions_are_no_part_of_the_objective() -> None:
    """A fit with them goes as one without; they follow from their features alone."""
    users, items = np.delete(np.arange(9), 4), np.delete(np.arange(7), 2)
    warm = toy()[users][:, items]
    store = als(dtype="float64", solver="cholesky", iterations=1).fit(warm).store
    start = replace(store, user_ids=Ids.of(users), item_ids=Ids.of(items))
    models = []
    for matrix, ids, features in (
        (warm, (users, items), (USER_FEATURES[users], ITEM_FEATURES[items])),
        (toy(), (np.arange(9), np.arange(7)), (USER_FEATURES, ITEM_FEATURES)),
    ):
        data = mfrank.Interactions.from_sparse(matrix, user_ids=ids[0], item_ids=ids[1])
        model = als(
            mfrank.WRMF(alpha=2.5, regularization=0.3),
            dtype="float64",
            solver="cholesky",
            track_objective=True,
        )
        models.append(
            model.fit(data, start=start, user_features=features[0], item_features=features[1])
        )
    alone, among = (model.store for model in models)
    for one, other in zip(alone.history, among.history, strict=True):
        assert other["objective"] == pytest.approx(one["objective"], rel=1e-9)
    scores = alone.user_factors @ alone.item_factors.T
    all_scores = among.user_factors @ among.item_factors.T
    np.testing.assert_allclose(all_scores[np.ix_(users, items)], scores, atol=1e-8)
    cold = USER_FEATURES[4] @ weights_of(among, "user")
    np.testing.assert_allclose(among.user_factors[4], cold, atol=1e-9)


def prior_of(features: Dense, ridge: Dense, warm: int, factors: Dense) -> FeaturePrior:
    """Of rows of which the first ``warm`` have an entry."""
    n = len(ridge)
    rows = CSR(np.minimum(np.arange(n + 1), warm), np.zeros(warm, np.int32), None, 1)
    none = CellTerm(np.zeros(n))
    problem = RowProblem(rows, np.ones(n), ridge, ObservedLoss(none, none, none), True)
    return FeaturePrior(sp.csr_array(features), problem, 0.5, factors, choose("reference"))


def ridge_regression(features: Dense, ridge: Dense, warm: int, factors: Dense) -> Dense:
    ridge = ridge * (np.arange(len(ridge)) < warm)
    own = 0.5 * ridge.sum() / warm * np.eye(features.shape[1])
    normal = (features.T * ridge) @ features + own
    return np.linalg.solve(normal, (features.T * ridge) @ factors)


def test_weights_come_to_those_of_a_ridge_regression() -> None:
    rng = np.random.default_rng(0)
    for n_features in (3, 40):
        features, factors = rng.standard_normal((30, n_features)), rng.standard_normal((30, 4))
        given = features, rng.random(30) + 0.1, 28, factors
        prior = prior_of(*given)
        penalties = [prior.penalty(factors)]
        for _ in range(400):
            prior.regress(factors)
            penalties.append(prior.penalty(factors))
        assert all(b <= a * (1 + 1e-12) for a, b in pairwise(penalties))
        np.testing.assert_allclose(prior.weights, ridge_regression(*given), atol=1e-9)
        assert prior.empty.tolist() == [28, 29]


@pytest.mark.parametrize(
    ("n_features", "n_rows", "warm"), [(3, 30, 28), (5, 30, 30), (3, 4, 1), (2, 1, 1)]
)
def test_few_features_are_fitted_at_once(n_features: int, n_rows: int, warm: int) -> None:
    """An epoch takes as many steps as they need, one for each."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((n_rows, n_features))
    given = features, rng.random(n_rows) + 0.1, warm, rng.standard_normal((n_rows, 4))
    prior = prior_of(*given)
    prior.regress(given[-1])
    np.testing.assert_allclose(prior.weights, ridge_regression(*given), rtol=1e-6, atol=1e-9)


def test_features_of_any_length_are_fitted_at_once_if_they_are_apart() -> None:
    rng = np.random.default_rng(0)
    features = np.linalg.qr(rng.standard_normal((30, 20)))[0] * np.logspace(-3, 3, 20)
    given = features, np.full(30, 0.7), 30, rng.standard_normal((30, 4))
    prior = prior_of(*given)
    prior.regress(given[-1])
    np.testing.assert_allclose(prior.weights, ridge_regression(*given), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("options", [{}, {"solver": "auto"}, {"dtype": "float32"}])
def test_the_number_of_threads_changes_no_bit(options: dict[str, Any]) -> None:
    models = [fitted(mfrank.IALS(), everybody(), n_threads=n, **options) for n in (1, 3)]
    for one, three in zip(*map(parts, models), strict=True):
        np.testing.assert_array_equal(one, three)
