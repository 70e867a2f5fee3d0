"""scikit-learn's searches, pipelines and checks with models, metrics and splits of mfrank."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import mfrank
from tests.support.errors import refuses

selection = pytest.importorskip("sklearn.model_selection", reason="needs scikit-learn")
pytest.importorskip("pandas", reason="makes tables")
DATA = mfrank.synthetic(60, 40, 1200, random_state=0)
FRAME = DATA.to_pandas()
SPLIT = mfrank.by_time(DATA, test=0.2)
MODEL = mfrank.ALS(factors=4, iterations=3, random_state=0, n_threads=1)
NDCG = mfrank.scorer("ndcg@10")


def value(model: Any, split: Any) -> float:
    return mfrank.evaluate(model, split.test, metrics="ndcg@10")["ndcg@10"].value


# --- scorers


@pytest.mark.parametrize("model", [MODEL, mfrank.EASE(), mfrank.Popularity()], ids=str)
def test_known_users_are_scored_as_by_evaluate(model: Any) -> None:
    fitted = model.fit(SPLIT.train)
    wanted = value(fitted, SPLIT)
    assert NDCG(fitted, SPLIT.test) == pytest.approx(wanted)
    assert NDCG(fitted, SPLIT.test.to_pandas()) == pytest.approx(wanted)
    assert NDCG(fitted, SPLIT.test.to_pandas().sample(frac=1, random_state=1)) == pytest.approx(
        wanted
    )


def test_new_users_are_folded_in_as_by_evaluate() -> None:
    held_out = mfrank.held_out_users(DATA, test=0.3, random_state=0)
    fitted = mfrank.EASE().fit(held_out.train)
    own = held_out.test.fold_in.user_items + held_out.test.target.user_items
    rows = sp.csr_array(own)[held_out.test.users]
    part = mfrank.by_ratio(rows, train=0.8, test=0.2, random_state=3)
    same = mfrank.data.HeldOut(np.arange(rows.shape[0]), part.train, part.test)
    as_fitted = mfrank.EASE().fit(
        mfrank.Interactions.from_sparse(
            sp.vstack([held_out.train.user_items, sp.csr_array(rows.shape)], format="csr")
        )
    )
    ids = mfrank.data.Ids.numbered(as_fitted.store.n_users)
    at = as_fitted.store.n_users - rows.shape[0]
    in_place = [
        mfrank.data.placed(
            each, at + np.arange(rows.shape[0]), np.arange(DATA.n_items), ids, DATA.item_ids
        )
        for each in (same.fold_in, same.target)
    ]
    judged = mfrank.evaluate(
        as_fitted, mfrank.data.HeldOut(at + same.users, *in_place), metrics="ndcg@10"
    )
    found = mfrank.scorer("ndcg@10", random_state=3)(fitted, rows)
    assert found == pytest.approx(judged["ndcg@10"].value)


def test_unknown_items_count_as_missed_and_unknown_users_as_zero() -> None:
    fitted = mfrank.Popularity().fit(mfrank.Interactions.from_arrays([0, 1, 1], [5, 6, 5]))
    of = mfrank.Interactions.from_arrays
    assert NDCG(fitted, of([0], [6])) == 1
    with refuses(ValueError, "X", remedy="of the fit"):
        NDCG(fitted, of([0], [99]))
    both = 1 / (1 + 1 / np.log2(3))
    assert NDCG(fitted, of([0, 0], [6, 99])) == pytest.approx(both)
    assert NDCG(fitted, of([0, 77], [6, 5])) == pytest.approx(0.5)


def test_values_below_the_threshold_of_the_fit_are_no_hits() -> None:
    fitted = mfrank.Popularity().fit(
        mfrank.Interactions.from_arrays([0, 1, 1], [5, 6, 5], [4, 5, 5]).at_least(4)
    )
    test = mfrank.Interactions.from_arrays([0, 1], [6, 5], [4, 1])
    assert NDCG(fitted, test) == 1


def test_what_cannot_be_scored_is_refused() -> None:
    with refuses(ValueError, "metrics", remedy="ndcg@10"):
        mfrank.scorer()
    for metric in ("auc", "coverage@10", "ndcg"):
        with refuses(ValueError, "metrics", remedy="ndcg@10"):
            mfrank.scorer(metric)
    with refuses(ValueError, "fold_in"):
        mfrank.scorer("ndcg@10", fold_in=1.0)
    with refuses(TypeError, "estimator"):
        NDCG(object(), FRAME)
    fitted = mfrank.Popularity().fit(DATA.user_items)
    with refuses(TypeError, "y"):
        NDCG(fitted, FRAME, FRAME)
    with refuses(ValueError, "X"):
        NDCG(fitted, DATA.user_items[:, :30])
    with refuses(TypeError, "itemid", remedy="scorer"):
        fitted.score(FRAME)
    for model in (MODEL, mfrank.Descent(), mfrank.EASE(), mfrank.Popularity()):
        with refuses(TypeError, "y", remedy="EarlyStopping"):
            model.fit(DATA, DATA)


# --- splits


def test_rows_of_a_split_are_those_of_its_parts() -> None:
    shuffled = FRAME.sample(frac=1, random_state=0)
    split = mfrank.by_time(shuffled, test=0.2, valid=0.1)
    ((train, test),) = mfrank.fold_rows(shuffled, split)
    for rows, part in ((train, split.train), (test, split.test)):
        own = shuffled.iloc[rows].sort_values(["user", "item"])
        assert own.reset_index(drop=True).equals(part.to_pandas())
    assert len(train) + len(test) == split.train.nnz + split.test.nnz


def test_repeated_rows_stay_together() -> None:
    pandas = pytest.importorskip("pandas")
    twice = pandas.concat([FRAME, FRAME[::3]])
    for train, test in mfrank.fold_rows(twice, [mfrank.leave_k_out(twice)]):
        pairs = [
            set(twice.iloc[rows][["user", "item"]].itertuples(False)) for rows in (train, test)
        ]
        assert not pairs[0] & pairs[1]
        assert len(train) + len(test) == len(twice)


def test_folds_of_something_else_are_refused() -> None:
    with refuses(TypeError, "frame", remedy="to_pandas"):
        mfrank.fold_rows(DATA.user_items, SPLIT)
    with refuses(TypeError, "splits", remedy="GroupKFold"):
        mfrank.fold_rows(FRAME, [mfrank.held_out_users(DATA, test=0.2)])
    with refuses(ValueError, "splits"):
        mfrank.fold_rows(FRAME, mfrank.by_ratio(mfrank.synthetic(9, 9, 40, random_state=0)))
    with refuses(ValueError, "splits"):
        mfrank.fold_rows(FRAME, [])


# --- searches


def test_a_grid_finds_what_a_loop_finds() -> None:
    grid = {"factors": np.array([2, 4]), "objective__alpha": np.logspace(-2, 0, 2)}
    folds = mfrank.fold_rows(FRAME, SPLIT)
    search = selection.GridSearchCV(MODEL, grid, cv=folds, scoring=NDCG).fit(FRAME)
    wanted = [
        NDCG(MODEL.__class__(**MODEL.get_params(deep=False)).set_params(**chosen).fit(
            FRAME.iloc[folds[0][0]]), FRAME.iloc[folds[0][1]])
        for chosen in selection.ParameterGrid(grid)
    ]  # fmt: skip
    assert search.cv_results_["mean_test_score"].tolist() == pytest.approx(wanted)
    ids = pickle.loads(pickle.dumps(search)).best_estimator_.recommend(3).ids
    assert ids.tolist() == search.best_estimator_.recommend(3).ids.tolist()
    new = DATA.user_items  # whose rows are new users
    assert NDCG(search, new) == NDCG(search.best_estimator_, new) > 0


@pytest.mark.parametrize("resource", ["iterations", "n_samples"])
def test_halving_ends_with_one(resource: str) -> None:
    pytest.importorskip("sklearn.experimental.enable_halving_search_cv")
    most = {"max_resources": 4} if resource == "iterations" else {}
    search = selection.HalvingRandomSearchCV(
        MODEL, {"factors": [1, 2, 3]}, n_candidates=3, resource=resource, **most,
        min_resources=1 if most else 400, cv=mfrank.fold_rows(FRAME, SPLIT), scoring=NDCG,
        random_state=0, return_train_score=False,
    ).fit(FRAME)  # fmt: skip
    assert search.n_resources_[-1] > search.n_resources_[0]
    assert np.isfinite(search.best_score_)


@pytest.mark.parametrize("by_user", [False, True])
def test_several_metrics_of_entries_and_of_users(by_user: bool) -> None:
    folds = selection.GroupKFold(2) if by_user else selection.KFold(2, shuffle=True, random_state=0)
    several = pickle.loads(pickle.dumps(mfrank.scorer("ndcg@10", "recall@5")))
    found = selection.cross_validate(
        MODEL,
        FRAME,
        groups=FRAME["user"] if by_user else None,
        cv=folds,
        scoring=several,
        error_score="raise",
    )
    for name in ("test_NDCG@10", "test_Recall@5"):
        assert (found[name] > 0.05).all()


def test_steps_before_the_model_read_what_users_are_folded_in_from() -> None:
    pipeline = pytest.importorskip("sklearn.pipeline")
    function = pytest.importorskip("sklearn.preprocessing").FunctionTransformer
    steps = pipeline.make_pipeline(function(mfrank.bm25_weight), mfrank.ItemKNN(neighbors=20))
    for data, folds in ((DATA.user_items, 3), (FRAME, selection.KFold(3, shuffle=True))):
        grid = {"itemknn__neighbors": [5, 20]}
        search = selection.GridSearchCV(steps, grid, cv=folds, scoring=NDCG, error_score="raise")
        assert search.fit(data).best_score_ > 0.05

    def without(data: Any) -> Any:
        return mfrank.Interactions.of(data).take(np.zeros(mfrank.Interactions.of(data).nnz, bool))

    fitted = pipeline.Pipeline([("none", function(without)), ("model", mfrank.EASE().fit(DATA))])
    assert NDCG(fitted, DATA.user_items) == 0


# --- scikit-learn's own checks


def dense(kind: type[Any]) -> type[Any]:
    """A model that reads the arrays of the checks; it refuses them, and names this conversion."""

    class Dense(kind):  # type: ignore[misc]
        def fit(self, X: Any, y: Any = None) -> Any:
            return super().fit(sp.csr_array(X) if isinstance(X, np.ndarray) and X.ndim == 2 else X)

        def __sklearn_tags__(self) -> Any:
            tags = super().__sklearn_tags__()
            tags.input_tags.two_d_array = tags.input_tags.positive_only = True
            return tags

    Dense.__name__ = Dense.__qualname__ = f"Dense{kind.__name__}"
    return Dense


DenseALS, DenseDescent, DenseEASE = map(dense, (mfrank.ALS, mfrank.Descent, mfrank.EASE))
DenseItemFilter, DenseItemKNN = map(dense, (mfrank.ItemFilter, mfrank.ItemKNN))
DensePopularity, DenseBlend = map(dense, (mfrank.Popularity, mfrank.Blend))
CHECKED = [
    DenseALS(factors=2, random_state=0, n_threads=1),
    DenseDescent(factors=2, iterations=2, random_state=0, n_threads=1),
    DenseEASE(),
    DenseItemFilter(),
    DenseItemKNN(),
    DensePopularity(),
    DenseBlend([mfrank.ALS(factors=2, random_state=0), mfrank.EASE()]),
]
WORDS = "the error names the argument and the remedy, in other words than scikit-learn's"
FAIL = {
    "check_fit_score_takes_y": "`score` is of pairs of users and items",
    "check_pipeline_consistency": "`score` is of pairs of users and items",
    "check_do_not_raise_errors_in_init_or_set_params": "options are checked when they are set",
    "check_n_features_in_after_fitting": "items are known by id, not by the number of columns",
    "check_n_features_in": "items are known by id, not by the number of columns",
    "check_complex_data": WORDS,
    "check_dtype_object": WORDS,
    "check_estimators_empty_data_messages": WORDS,
    "check_estimators_nan_inf": WORDS,
    "check_fit1d": WORDS,
    "check_positive_only_tag_during_fit": WORDS,
    "check_fit_non_negative": "a value of 0 or less is no like to models that read no dislikes",
    "check_parameters_default_constructible": "an objective, a loss or parts are objects",
}


@pytest.mark.parametrize("model", CHECKED, ids=lambda model: type(model).__name__[5:])
def test_checks_of_scikit_learn_pass_or_fail_for_a_reason(
    model: Any, recwarn: pytest.WarningsRecorder
) -> None:
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    pytest.importorskip("sklearn", minversion="1.6")
    found = checks.check_estimator(model, expected_failed_checks=FAIL, on_fail=None, on_skip=None)
    failed = {each["check_name"]: each["exception"] for each in found if each["status"] == "failed"}
    assert not failed
    known = {each["check_name"] for each in found if each["status"] == "xfail"}
    assert known <= FAIL.keys()
    assert sum(each["status"] == "passed" for each in found) > 25


def test_a_fit_is_known_to_scikit_learn() -> None:
    validation = pytest.importorskip("sklearn.utils.validation")
    exceptions = pytest.importorskip("sklearn.exceptions")
    for model in (MODEL, mfrank.EASE(), mfrank.Blend([MODEL, mfrank.EASE()])):
        new = type(model)(**model.get_params(deep=False))
        with pytest.raises(exceptions.NotFittedError):
            validation.check_is_fitted(new)
        validation.check_is_fitted(new.fit(DATA))
