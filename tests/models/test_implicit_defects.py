"""What goes wrong in implicit 0.7.3, and does not here.

Where it can be shown without harm, a test shows both, so that the claim stays honest: it fails on
the day implicit does better. What kills the process there is not run.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import BACKEND, als, same_factors
from problems import toy

import mfrank
from mfrank.data import leave_k_out
from mfrank.evaluation import evaluate
from tests.support.errors import refuses

WORST = np.finfo(np.float32).min


@pytest.fixture
def theirs() -> Iterator[Any]:
    """A function that fits implicit's ALS to the toy data; its own warnings are not ours."""
    module = pytest.importorskip("implicit.cpu.als", reason="needs implicit")

    def fit(matrix: Any = None, **options: Any) -> Any:
        small = {"factors": 4, "iterations": 3, "random_state": 0, "num_threads": 1}
        model = module.AlternatingLeastSquares(**(small | options))
        rows = sp.csr_matrix(toy() if matrix is None else matrix).astype(np.float32)
        model.fit(rows, show_progress=False)
        return model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield fit


def ours(objective: Any = None, **options: Any) -> mfrank.ALS:
    return als(objective or mfrank.WRMF(), **options).fit(toy())


# --- fitting


def test_fit_can_be_chained(theirs: Any) -> None:
    assert theirs().fit(sp.csr_matrix(toy(), dtype=np.float32), show_progress=False) is None
    model = als()
    assert model.fit(toy()) is model


def test_a_second_fit_on_another_shape() -> None:
    """There: fewer items segfault, more end in NaN. Not run."""
    model = ours()
    for shape in ((5, 4), (20, 19), (9, 4), (4, 7)):
        again = model.fit(toy(*shape))
        assert same_factors(again, als(mfrank.WRMF()).fit(toy(*shape)))


def test_a_second_fit_starts_afresh_unless_told(theirs: Any) -> None:
    matrix = sp.csr_matrix(toy(), dtype=np.float32)
    model = theirs(iterations=1)
    before = model.user_factors.copy()
    model.fit(matrix, show_progress=False)
    assert not np.array_equal(model.user_factors, before)  # went on, silently
    model = ours(iterations=1)
    before = model.user_factors.copy()
    np.testing.assert_array_equal(model.fit(toy()).user_factors, before)


def test_from_explicit_zeros_nothing_is_learned(theirs: Any) -> None:
    matrix = toy()
    dense = matrix.toarray()
    users, items = np.nonzero(dense == 0)
    coo = matrix.tocoo()
    rows, columns = np.concatenate([coo.coords, [users[:9], items[:9]]], axis=1)
    zeros = sp.csr_array((np.concatenate([coo.data, np.zeros(9)]), (rows, columns)), matrix.shape)
    assert zeros.nnz == matrix.nnz + 9
    assert not np.array_equal(theirs(zeros).user_factors, theirs(matrix).user_factors)
    a, b = als(mfrank.WRMF()).fit(zeros), als(mfrank.WRMF()).fit(matrix)
    assert same_factors(a, b)  # and these items are seen, so lists do not have them
    listed = a.recommend(np.arange(matrix.shape[0]), N=matrix.shape[1])[0]
    assert not any(item in listed[user] for user, item in zip(users[:9], items[:9], strict=True))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_no_numbers_are_found_before_the_fit(theirs: Any, value: float) -> None:
    matrix = toy()
    matrix.data[3] = value
    with pytest.raises(Exception, match="NaN"):
        theirs(matrix)
    with refuses(ValueError, "values", remedy="drop or replace it"):
        als(mfrank.WRMF()).fit(matrix)


def test_options_out_of_range_are_refused(theirs: Any) -> None:
    assert theirs(regularization=-0.5).regularization == -0.5
    with refuses(ValueError, "regularization"):
        mfrank.WRMF(regularization=-0.5)
    with refuses(ValueError, "factors"):  # there, a flood of LAPACK's complaints
        als(factors=0)


def test_half_precision_is_refused_by_name(theirs: Any) -> None:
    with pytest.raises(TypeError):
        theirs(dtype=np.float16)
    with refuses(ValueError, "dtype"):
        als(dtype=np.float16)


def test_legacy_random_states_are_refused_with_the_remedy(theirs: Any) -> None:
    with pytest.raises(AttributeError):
        theirs(random_state=np.random.RandomState(0))
    with refuses(TypeError, "random_state", remedy=r"pass a seed or numpy\.random\.default_rng"):
        als(random_state=np.random.RandomState(0))


def test_zero_is_a_seed() -> None:
    """On its GPU, 0 takes the time of day."""
    assert same_factors(ours(random_state=0), ours(random_state=0))


def test_float64_data_are_not_rounded_for_float64_factors(theirs: Any) -> None:
    """There they pass through float32."""
    matrix = toy()
    tiny = sp.csr_array((matrix.data * (1 + 1e-9), matrix.indices, matrix.indptr), matrix.shape)
    options = {"dtype": np.float64}
    a, b = theirs(matrix, **options), theirs(tiny, **options)
    np.testing.assert_array_equal(a.user_factors, b.user_factors)
    fit = als(mfrank.WRMF(), dtype="float64").fit
    assert fit(matrix).user_factors[0, 0] != fit(tiny).user_factors[0, 0]


def test_the_class_is_a_class(theirs: Any) -> None:
    factory = pytest.importorskip("implicit.als", reason="needs implicit").AlternatingLeastSquares
    assert not isinstance(factory, type)
    assert not hasattr(theirs(), "get_params")
    assert isinstance(als(), mfrank.ALS)
    base = pytest.importorskip("sklearn.base", reason="needs scikit-learn")
    assert base.clone(als(factors=3)).factors == 3


def test_a_callback_can_stop(theirs: Any) -> None:
    calls: list[int] = []
    model = pytest.importorskip("implicit.cpu.als").AlternatingLeastSquares(factors=2, iterations=5)
    rows = sp.csr_matrix(toy(), dtype=np.float32)
    model.fit(rows, show_progress=False, callback=lambda i, *_: calls.append(i) or True)
    assert calls == [0, 1, 2, 3, 4]
    calls.clear()
    als(iterations=5).fit(toy(), callback=lambda i, *_: calls.append(i) or True)
    assert calls == [0]


# --- recommending


def test_sparse_arrays_are_welcome(theirs: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        theirs().recommend(0, toy()[[0]])
    matrix = toy()
    expected = ours().recommend(0, sp.csr_matrix(matrix)[[0]])
    for rows in (matrix[[0]], matrix, matrix.tocoo(), matrix.tolil()):
        for a, b in zip(ours().recommend(0, rows), expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_whole_matrix_will_do(theirs: Any) -> None:
    with pytest.raises(ValueError, match="1 row for every user"):
        theirs().recommend([0, 1], sp.csr_matrix(toy()))
    assert ours().recommend([0, 1], toy())[0].shape == (2, 10)


def test_short_lists_are_padded_not_filled_with_what_was_seen(theirs: Any) -> None:
    matrix = sp.csr_matrix(toy())
    ids, scores = theirs().recommend(0, matrix[0], N=12)
    assert (scores[: len(ids)] == WORST).any()
    assert set(ids.tolist()) & set(matrix[0].indices.tolist())
    assert ids[-1] == scores[-1] == 0
    ids, scores = ours().recommend(0, matrix[0], N=12)
    left = 7 - matrix[0].nnz
    assert (ids[left:] == -1).all()
    assert np.isnan(scores[left:]).all()
    assert not set(ids.tolist()) & set(matrix[0].indices.tolist())


def test_filters_may_be_arrays() -> None:
    for name, expected in (("filter_items", {0, 4, 5, 6, -1}), ("items", {1, 3, -1})):
        ids, _ = ours().recommend(
            0, N=7, filter_already_liked_items=False, **{name: np.array([1, 3])}
        )
        assert set(ids.tolist()) == expected


def test_both_filters_at_once(theirs: Any) -> None:
    row = sp.csr_matrix(toy())[0]
    with pytest.raises(ValueError, match="filter_items"):
        theirs().recommend(0, row, filter_items=[1], items=[1, 2])
    with pytest.raises(ValueError, match="truth value"):
        theirs().recommend(0, row, filter_items=np.array([1, 3]), items=[1, 2])
    ids, _ = ours().recommend(
        0, N=2, filter_items=[1], items=[1, 3], filter_already_liked_items=False
    )
    assert ids.tolist() == [3, -1]


def test_no_items_and_lists_of_no_length(theirs: Any) -> None:
    row = sp.csr_matrix(toy())[0]
    with pytest.raises(IndexError):
        theirs().recommend(0, row, N=0)
    with refuses(ValueError, "N"):
        ours().recommend(0, N=0)
    ids, scores = ours().recommend(0, N=3, items=[])
    assert ids.tolist() == [-1, -1, -1]
    assert np.isnan(scores).all()


def test_items_named_twice_are_listed_once(theirs: Any) -> None:
    row = sp.csr_matrix(toy())[0]
    there, _ = theirs().recommend(0, row, N=4, items=[3, 3, 5], filter_already_liked_items=False)
    assert there.tolist().count(3) == 2
    ids, _ = ours().recommend(0, N=4, items=[3, 3, 5], filter_already_liked_items=False)
    assert sorted(ids.tolist()) == [-1, -1, 3, 5]


def test_ids_and_scores_keep_their_types(theirs: Any) -> None:
    row = sp.csr_matrix(toy())[0]
    types = {theirs().recommend(0, row, **o)[0].dtype for o in ({}, {"items": [3, 5]})}
    assert len(types) == 2
    for dtype in ("float32", "float64"):
        for options in ({}, {"items": [3, 5]}, {"N": 50}, {"recalculate_user": True}):
            ids, scores = ours(dtype=dtype).recommend(0, toy(), **options)
            assert (ids.dtype, scores.dtype) == (np.int32, dtype)


def test_negative_users_do_not_wrap(theirs: Any) -> None:
    row = sp.csr_matrix(toy())[8]
    assert theirs().recommend(-1, row)[0].tolist() == theirs().recommend(8, row)[0].tolist()
    with refuses(ValueError, "userid"):
        ours().recommend(-1)


def test_a_user_without_items_has_no_list(theirs: Any) -> None:
    there = theirs().recommend(4, sp.csr_matrix(toy())[4], N=3)  # an empty user: all scores are 0
    assert there[0].tolist() != [0, 1, 2]
    assert ours().recommend(4, N=3)[0].tolist() == [-1, -1, -1]


def test_similar_items_of_few_are_padded(theirs: Any) -> None:
    there, _ = theirs().similar_items(0, N=5, items=[4, 5])
    assert there.tolist().count(4) > 1
    ids, scores = ours().similar_items(0, N=5, items=[4, 5])
    assert sorted(ids[:2].tolist()) == [4, 5]
    assert ids[2:].tolist() == [-1, -1, -1]
    assert np.isnan(scores[2:]).all()


def test_more_similar_items_than_there_are() -> None:
    ids, _ = ours().similar_items(0, N=20)
    assert sorted(ids.tolist()) == [-1] * 14 + [0, 1, 3, 4, 5, 6]  # nobody has item 2


# --- fold-in


def test_fold_in_gives_the_fitted_factors_back(theirs: Any) -> None:
    """There, exact fold-in meets factors of three steps of conjugate gradients: percents off."""
    matrix = toy(60, 40, density=0.3)
    there = theirs(matrix, factors=16, alpha=40.0, iterations=15)
    rows = sp.csr_matrix(matrix, dtype=np.float32)
    folded = there.recalculate_user(np.arange(60), rows)
    assert _median_error(folded, there.user_factors) > 1e-3
    model = als(mfrank.WRMF(alpha=40.0), factors=16, iterations=15).fit(matrix)
    assert _median_error(model.recalculate_user(range(60), matrix), model.user_factors) < 1e-4


def _median_error(folded: Any, fitted: Any) -> float:
    fitted_too = np.linalg.norm(fitted, axis=1) > 0
    error = np.linalg.norm(folded - fitted, axis=1)[fitted_too]
    return float(np.median(error / np.linalg.norm(fitted, axis=1)[fitted_too]))


def test_one_user_can_be_fitted(theirs: Any) -> None:
    with pytest.raises(TypeError):
        theirs().partial_fit_users(9, sp.csr_matrix(toy())[0])
    assert ours().partial_fit_users(9, toy()[[0]]).user_factors.shape == (10, 4)


def test_growth_leaves_no_gap(theirs: Any) -> None:
    """There, user 20 brings eleven users of zeros."""
    model = theirs()
    model.partial_fit_users(np.array([20]), sp.csr_matrix(toy())[0])
    assert model.user_factors.shape[0] == 21
    ours_too = ours().partial_fit_users([20], toy()[[0]])
    assert ours_too.user_ids.labels.tolist() == [*range(9), 20]
    assert ours_too.user_factors.shape[0] == 10


def test_explain_takes_a_row_as_recommend_does(theirs: Any) -> None:
    with pytest.raises(IndexError):
        theirs().explain(3, sp.csr_matrix(toy())[3], 2)
    row, whole = (ours().explain(3, m, 2) for m in (toy()[[3]], toy()))
    assert row == whole


# --- saving


def test_paths_and_generators_do_not_hinder_saving(theirs: Any, tmp_path: Path) -> None:
    seeded = np.random.default_rng(0)
    theirs(random_state=seeded).save(tmp_path / "there.npz")
    with pytest.raises(ValueError, match="allow_pickle"):
        type(theirs()).load(tmp_path / "there.npz")
    model = ours(random_state=np.random.default_rng(0))
    model.save(tmp_path / "here")
    assert same_factors(mfrank.load(tmp_path / "here"), model)
    assert same_factors(mfrank.ALS.load(str(tmp_path / "here")), model)


def test_any_class_loads_any_model(tmp_path: Path) -> None:
    """There, only the very class that saved a model loads it."""
    ours().save(tmp_path / "m")
    assert type(mfrank.load(tmp_path / "m")) is mfrank.ALS
    assert mfrank.Recommender.load(tmp_path / "m").recommend(0, N=3)[0].shape == (3,)


def test_keys_of_a_file_do_not_become_attributes(theirs: Any, tmp_path: Path) -> None:
    theirs().save(tmp_path / "there.npz")
    arrays = dict(np.load(tmp_path / "there.npz"))
    np.savez(tmp_path / "there.npz", **arrays, recommend=np.array(5))
    loaded = type(theirs()).load(str(tmp_path / "there.npz"))
    assert not callable(loaded.recommend)
    model = ours()
    vars(model.store)["extras"] = {"recommend": np.zeros(3)}
    model.save(tmp_path / "here")
    assert callable(mfrank.load(tmp_path / "here").recommend)


# --- splits and metrics


def test_metrics_beyond_the_catalog_stay_within_one(theirs: Any) -> None:
    module = pytest.importorskip("implicit.evaluation", reason="needs implicit")
    data = mfrank.Interactions.of(toy(30, 8, density=0.5))
    split = leave_k_out(data, 1)
    parts = [
        sp.csr_matrix((m.data, m.indices.astype(np.int32), m.indptr.astype(np.int32)), m.shape)
        for m in (split.train.user_items, split.test.user_items)
    ]
    there = module.ranking_metrics_at_k(theirs(parts[0]), *parts, K=20, show_progress=False)
    assert max(there.values()) > 1
    model = als().fit(split.train)
    here = evaluate(
        model,
        split.test,
        train=split.train,
        metrics=["precision@20", "recall@20", "ndcg@20", "map@20", "auc"],
        backend=BACKEND,
    )
    assert all(0 < score.value <= 1 for score in here.scores.values())


def test_splits_keep_every_value_and_obey_their_seed() -> None:
    module = pytest.importorskip("implicit.evaluation", reason="needs implicit")
    matrix = toy(30, 20, density=0.5)
    counts = sp.csr_matrix(matrix, dtype=np.float32)
    train, test = module.leave_k_out_split(counts, K=1, random_state=0)
    assert abs(train + test - counts).max() > 0
    data = mfrank.Interactions.of(matrix)
    first, again, other = (leave_k_out(data, 1, random_state=seed) for seed in (0, 0, 1))
    assert abs(first.train.user_items + first.test.user_items - matrix).max() == 0
    assert abs(first.test.user_items - again.test.user_items).max() == 0
    assert abs(first.test.user_items - other.test.user_items).max() > 0
