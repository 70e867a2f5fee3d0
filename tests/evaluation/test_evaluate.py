"""The protocol: who is evaluated, what is ranked, and the numbers that come out."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from engines import Shuffled
from hypothesis import given, settings
from hypothesis import strategies as st
from rankings import EVERYTHING, Factors, per_user, problem, ranked, values
from scipy import stats

import mfrank
from mfrank.arrays import OutOfTimeError, time_limit
from mfrank.cli.main import main
from mfrank.evaluation import AUC, AUPRC, MAP, MRR, NDCG, Coverage, Gini, Recall, Score, definitions
from mfrank.evaluation import full_ranking as protocol
from tests.support.errors import refuses

evaluate = partial(protocol.evaluate, backend="reference")


# --- what comes out


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 9), st.integers(1, 12))
def test_by_hand(seed: int, n_users: int, n_items: int, k: int) -> None:
    model, train, test = problem(seed, n_users, n_items)
    result = evaluate(
        model, test, train=train, metrics=(Recall @ k, NDCG @ k, MAP, AUC, Coverage @ k)
    )
    seen, wanted = train.toarray() > 0, test.toarray() > 0
    np.testing.assert_array_equal(result.users, np.flatnonzero(wanted.any(axis=1)))
    assert result.n_without_test_items == n_users - len(result.users)
    shown: set[int] = set()
    for place, u in enumerate(result.users):
        order = ranked(model.scores[u], seen[u])
        hits = [bool(wanted[u, i]) for i in order[:k]]
        shown |= set(order[:k])
        n = int(wanted[u].sum())
        dcg = sum(h / math.log2(r + 2) for r, h in enumerate(hits))
        ideal = sum(1 / math.log2(r + 2) for r in range(min(k, n)))
        assert per_user(result, Recall @ k)[place] == pytest.approx(sum(hits) / n)
        assert per_user(result, NDCG @ k)[place] == pytest.approx(dcg / ideal)
        s, others = model.scores[u], ~seen[u] & ~wanted[u]
        pairs = [float(a > b) + (a == b) / 2 for a in s[wanted[u]] for b in s[others]]
        assert per_user(result, AUC)[place] == pytest.approx(np.mean(pairs) if pairs else 1.0)
    if len(result.users):
        assert result[Coverage @ k].value == pytest.approx(len(shown) / n_items)


def test_means_and_standard_errors() -> None:
    model, train, test = problem(1)
    result = evaluate(model, test, train=train, metrics=EVERYTHING)
    for metric in (NDCG @ 3, AUC, MRR):
        per = per_user(result, metric)
        assert result[metric].value == pytest.approx(per.mean())
        assert result[metric].standard_error == pytest.approx(stats.sem(per))
    assert result["coverage@2"].per_user is None


def test_micro_average_is_a_ratio_of_sums() -> None:
    model, train, test = problem(2)
    micro = Recall(capped=True, micro=True) @ 2
    score = evaluate(model, test, train=train, metrics=micro)[micro]
    hits = sum(
        len(set(ranked(model.scores[u], train.toarray()[u] > 0)[:2]) & set(test[[u]].indices))
        for u in range(test.shape[0])
    )
    assert score.value == pytest.approx(hits / np.minimum(np.diff(test.indptr), 2).sum())


def test_standard_error_of_a_micro_average_is_its_spread_over_samples() -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(1, 5, (4000, 200)).astype(float)
    shares = rng.binomial(4, 0.2 + 0.1 * weights) / 4
    scores = [Score.of_users(v, w) for v, w in zip(shares, weights, strict=True)]
    spread = np.std([s.value for s in scores])
    assert np.mean([s.standard_error for s in scores]) == pytest.approx(spread, rel=0.05)


@pytest.mark.parametrize("batch_size", [1, 5, 100])
def test_blocks_do_not_matter(batch_size: int) -> None:
    model, train, test = problem(3)
    whole = evaluate(model, test, train=train, metrics=EVERYTHING)
    blocks = evaluate(model, test, train=train, metrics=EVERYTHING, batch_size=batch_size)
    np.testing.assert_allclose(values(blocks), values(whole), rtol=1e-14)


def test_equal_items_tie_wherever_they_stand() -> None:
    rng = np.random.default_rng(0)
    items = np.repeat(rng.normal(size=(1, 33)), 101, axis=0).astype(np.float32)
    model = Factors(rng.normal(size=(7, 33)).astype(np.float32), items)
    test = sp.csr_array(np.eye(7, 101))
    result = evaluate(model, test, metrics=(AUC, AUPRC), filter_already_liked_items=False)
    assert (per_user(result, AUC) == 0.5).all()
    np.testing.assert_allclose(per_user(result, AUPRC), 1 / 101)


# --- who and what is evaluated


def test_train_items_leave_the_relevant_items() -> None:
    model, train, test = problem(4)
    both = (test + train).tocsr()
    mixed = evaluate(model, both, train=train, metrics=EVERYTHING)
    clean = evaluate(model, test, train=train, metrics=EVERYTHING)
    np.testing.assert_array_equal(values(mixed), values(clean))
    assert (mixed.n_in_train, clean.n_in_train) == (train.nnz, 0)
    assert f"{train.nnz:,} test entries left out: in train too" in str(mixed)


def test_every_item_is_ranked_where_that_is_asked_for() -> None:
    model, train, _ = problem(5)
    result = evaluate(model, train, metrics=Recall @ 9, filter_already_liked_items=False)
    assert (result["recall@9"].value, result.n_in_train) == (1, 0)
    with refuses(ValueError, "train", remedy="leave it out to rank every item"):
        evaluate(model, train, train=train, filter_already_liked_items=False)


@pytest.mark.parametrize("model", ["factors", "store", "function", "served", "saved without"])
def test_what_is_not_known_to_the_model_is_asked_for(model: str, tmp_path: Path) -> None:
    factors, train, test = problem(5)
    fitted = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(train)
    unaware: dict[str, Any] = {
        "factors": factors,
        "store": fitted.store,
        "function": fitted.recommend,
        "served": mfrank.Recommender.of(fitted.store),
        "saved without": mfrank.load(fitted.save(tmp_path / "model", with_seen=False)),
    }
    with refuses(ValueError, "train"):
        evaluate(unaware[model], test)


def test_a_fitted_model_leaves_out_what_it_has_seen(tmp_path: Path) -> None:
    _, train, test = problem(5)
    both = train + test
    models: list[Any] = [
        mfrank.ALS(factors=2, iterations=1, random_state=0).fit(train),
        mfrank.Descent(factors=2, iterations=1, random_state=0).fit(train),
    ]
    models.append(mfrank.load(models[0].save(tmp_path / "model")))
    for model in models:
        told = evaluate(model, both, train=train, metrics=EVERYTHING)
        known = evaluate(model, both, metrics=EVERYTHING)
        np.testing.assert_array_equal(values(known), values(told))
        assert known.n_in_train == told.n_in_train == train.nnz
        everything = evaluate(model, both, metrics=AUC, filter_already_liked_items=False)
        assert everything[AUC].value != known["auc"].value
    with refuses(ValueError, remedy="give test the rows"):
        evaluate(models[0], test[:3])


def test_evaluate_compare_and_the_command_line_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = mfrank.synthetic(60, 40, 1500, random_state=0)
    split = mfrank.by_ratio(data, random_state=0)
    model = mfrank.ALS(factors=4, iterations=3, random_state=0)
    told = mfrank.compare(
        split, models={"mine": model}, repeats=1, metrics=["ndcg@10", "recall@5"], peak_memory=False
    )["mine"].evaluation.to_dict()
    model.fit(split.train)
    assert evaluate(model, split.test, metrics=["ndcg@10", "recall@5"]).to_dict() == told
    model.save(tmp_path / "model")
    split.test.to_pandas().to_csv(tmp_path / "test.csv", index=False)
    flags = ["--model", f"{tmp_path}/model", "--test", f"{tmp_path}/test.csv"]
    metrics = ["--metric", "ndcg@10", "--metric", "recall@5", "--json", f"{tmp_path}/scores.json"]
    assert main(["evaluate", *flags, *metrics]) == 0
    assert json.loads((tmp_path / "scores.json").read_text()) == told
    capsys.readouterr()


def test_the_command_line_asks_for_what_a_model_does_not_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = mfrank.synthetic(60, 40, 1500, random_state=0)
    model = mfrank.ALS(factors=4, iterations=1, random_state=0).fit(data)
    model.save(tmp_path / "model", with_seen=False)
    data.to_pandas().to_csv(tmp_path / "test.csv", index=False)
    flags = ["evaluate", "--model", f"{tmp_path}/model", "--test", f"{tmp_path}/test.csv"]
    assert main(flags) == 2
    assert "pass their file with --train, or rank every item with --include-seen" in (
        capsys.readouterr().err
    )
    assert main([*flags, "--include-seen", "--json", f"{tmp_path}/scores.json"]) == 0
    told = evaluate(model, data, filter_already_liked_items=False).to_dict()
    assert json.loads((tmp_path / "scores.json").read_text()) == told


def test_only_values_above_zero_are_relevant() -> None:
    model, train, test = problem(6)
    noise = test.copy()
    extra = sp.csr_array((test.toarray() == 0) & (train.toarray() == 0)).astype(float)
    extra.data[:] = np.where(np.arange(extra.nnz) % 2, -1.0, 0.0)
    noise = sp.csr_array(
        (
            np.concatenate([test.data, extra.data]),
            (
                np.concatenate([test.nonzero()[0], np.repeat(range(12), np.diff(extra.indptr))]),
                np.concatenate([test.indices, extra.indices]),
            ),
        ),
        shape=test.shape,
    )
    assert noise.nnz > test.nnz
    a, b = (evaluate(model, t, train=train, metrics=EVERYTHING) for t in (test, noise))
    np.testing.assert_array_equal(values(a), values(b))


def test_an_evaluation_ends_with_the_time() -> None:
    model, train, test = problem(7)
    with time_limit(0.0), pytest.raises(OutOfTimeError):
        evaluate(model, test, train=train)


def test_some_users() -> None:
    model, train, test = problem(7)
    whole = evaluate(model, test, train=train, metrics=NDCG @ 3)
    some = evaluate(model, test, train=train, metrics=NDCG @ 3, users=whole.users[[4, 1, 1]])
    np.testing.assert_array_equal(some.users, whole.users[[1, 4]])
    np.testing.assert_array_equal(per_user(some, NDCG @ 3), per_user(whole, NDCG @ 3)[[1, 4]])


N_NAMED = 12
NAMED: dict[str, Any] = {
    "text": [f"u{row}" for row in range(N_NAMED)],
    "numbers": np.arange(N_NAMED) + 1,
    "numbers of the rows in another order": np.arange(N_NAMED)[::-1],
    "numbers of the rows": None,
}


def named(kind: str, seed: int) -> mfrank.Interactions:
    rows = sp.csr_array((np.random.default_rng(seed).random((N_NAMED, 9)) < 0.4).astype(float))
    return mfrank.Interactions.from_sparse(rows, user_ids=NAMED[kind])


def labels_only(kind: str) -> tuple[Any, mfrank.Interactions, dict[str, Any]]:
    """A function knows no ids, so that those of the test part name the users."""
    scores = np.random.default_rng(0).random((N_NAMED, 9))

    def recommend(users: Any, user_items: Any, N: int) -> Any:
        ids = np.argsort(-scores[users], axis=1)[:, :N]
        return ids, np.take_along_axis(scores[users], ids, axis=1)

    return recommend, named(kind, 1), {"filter_already_liked_items": False}


USERS_DOORS: dict[str, Any] = {
    "a model": lambda kind: (mfrank.ItemKNN().fit(named(kind, 0)), named(kind, 1), {}),
    "a model of a matrix": lambda kind: (
        mfrank.ItemKNN().fit(named(kind, 0).user_items),
        named(kind, 1),
        {"train": named(kind, 0)},
    ),
    "a matrix as the test part": lambda kind: (
        mfrank.ItemKNN().fit(named(kind, 0)),
        named(kind, 1).user_items,
        {},
    ),
    "a function": labels_only,
    "a cluster": lambda kind: (
        mfrank.ItemKNN().fit(named(kind, 0)),
        named(kind, 1),
        {"cluster": Shuffled(2)},
    ),
}


@pytest.mark.parametrize("kind", NAMED)
@pytest.mark.parametrize("door", USERS_DOORS)
def test_users_are_named_by_their_ids(door: str, kind: str) -> None:
    model, test, options = USERS_DOORS[door](kind)
    ids = named(kind, 0).user_ids
    whole = mfrank.evaluate(model, test, **options)
    some = whole.users[[4, 1, 1]]
    as_given = ids.raw(some)
    forms: list[Any] = [as_given, as_given.tolist(), set(as_given.tolist()), iter(as_given)]
    if ids.are_numbers:
        forms += [as_given.astype(float), list(map(np.int8, as_given))]
    found = [mfrank.evaluate(model, test, users=form, **options) for form in forms]
    found.append(mfrank.evaluate(model, test, users=some, by_row=True, **options))
    for one in found:
        assert one.users.tolist() == whole.users[[1, 4]].tolist()
        per = one["ndcg@10"].per_user
        np.testing.assert_array_equal(per, whole["ndcg@10"].per_user[[1, 4]])
    with pytest.raises(mfrank.UnknownIdError, match=r"users: unknown ids: 99.*by_row=True"):
        mfrank.evaluate(model, test, users=[99], **options)
    for wrong in (np.ones(N_NAMED, dtype=bool), [None], [1.5]):
        with refuses((TypeError, ValueError), "users"):
            mfrank.evaluate(model, test, users=wrong, **options)


def test_users_of_matrices_are_rows() -> None:
    model, train, test = problem(7)
    for wrong in (["a"], np.ones(3, dtype=bool)):
        with refuses(TypeError, "users"):
            evaluate(model, test, train=train, users=wrong)


def test_no_user_at_all() -> None:
    model, train, test = problem(8)
    result = evaluate(model, sp.csr_array(test.shape), train=train, metrics=EVERYTHING)
    assert (result.n_users, result.n_without_test_items) == (0, 12)
    assert np.isnan(values(result)).all()
    assert "0 users; 12 without test items" in str(result)
    assert result.to_dict()["metrics"]["AUC"] == {"value": None, "standard_error": None}


def test_forms_of_the_input() -> None:
    model, train, test = problem(9)
    both = (test + train).tocsr()

    @dataclass
    class Held:
        user_items: sp.csr_array

    expected = values(evaluate(model, both, train=train, metrics=EVERYTHING))
    for form in (sp.csc_array, sp.coo_matrix, Held, backwards):
        result = evaluate(model, form(both), train=form(train), metrics=EVERYTHING)
        assert result.n_in_train == train.nnz
        np.testing.assert_array_equal(values(result), expected)


def backwards(rows: sp.csr_array) -> sp.csr_matrix:
    """The same matrix with each row's columns in descending order."""
    users = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    order = np.lexsort((-rows.indices, users))
    return sp.csr_matrix((rows.data[order], rows.indices[order], rows.indptr), shape=rows.shape)


def test_the_input_is_left_alone() -> None:
    model, _, test = problem(10)
    twice = sp.csr_array(
        (np.ones(4), np.array([2, 0, 2, 1]), np.array([0, 4, *[4] * 11])), shape=test.shape
    )
    evaluate(model, twice, train=twice)
    np.testing.assert_array_equal(twice.indices, [2, 0, 2, 1])


def test_an_estimator_is_read_through_its_store() -> None:
    model, train, test = problem(17)

    @dataclass
    class Estimator:
        store: Factors
        user_factors: None = None

    expected = evaluate(model, test, train=train, metrics=EVERYTHING)
    result = evaluate(Estimator(model), test, train=train, metrics=EVERYTHING)
    np.testing.assert_array_equal(values(result), values(expected))


# --- comparison


def test_compare_is_a_paired_t_test() -> None:
    model, train, test = problem(12, n_users=40)
    other = problem(13, n_users=40)[0]
    one, two = (
        evaluate(m, test, train=train, metrics=(NDCG @ 3, Gini @ 3)) for m in (model, other)
    )
    told = stats.ttest_rel(per_user(one, NDCG @ 3), per_user(two, NDCG @ 3))
    low, high = told.confidence_interval(0.95)
    difference = one.compare(two, "ndcg@3")
    assert difference.p_value == pytest.approx(told.pvalue)
    assert (difference.low, difference.high) == pytest.approx((low, high))
    assert difference.mean == pytest.approx(one["ndcg@3"].value - two["ndcg@3"].value)
    assert "paired t-test" in str(difference)
    same = one.compare(one, NDCG @ 3)
    assert (same.mean, same.low, same.high, same.p_value) == (0, 0, 0, 1)
    with refuses(ValueError, "metric"):
        one.compare(two, Gini @ 3)
    with pytest.raises(KeyError, match="was not evaluated"):
        one.compare(two, "ndcg@4")
    fewer = evaluate(model, test, train=train, metrics=NDCG @ 3, users=one.users[:5])
    with refuses(ValueError, remedy="one test part"):
        one.compare(fewer, NDCG @ 3)


def test_one_user_has_no_standard_error() -> None:
    model, train, test = problem(14)
    alone = evaluate(model, test, train=train, users=evaluate(model, test, train=train).users[:1])
    assert alone["ndcg@10"].value == per_user(alone, NDCG @ 10)[0]
    assert math.isnan(alone["ndcg@10"].standard_error)
    assert math.isnan(alone.compare(alone, "ndcg@10").p_value)


def test_report() -> None:
    model, train, test = problem(15)
    result = evaluate(model, test, train=train, metrics=["ndcg@3", "NDCG@3", "gini@2"])
    told = json.loads(json.dumps(result.to_dict()))
    assert told.pop("metrics")["NDCG@3"]["value"] == pytest.approx(result["ndcg@3"].value)
    assert told.pop("popularity")["all"]["of"] == "the training data"
    assert told == {name: getattr(result, name) for name in told}  # by their names in Python
    lines = str(result).splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["metric", "NDCG@3", "Gini@2"]
    assert f"{result['ndcg@3'].value:.5f}" in lines[1]


# --- the doors


def test_wrong_arguments() -> None:
    model, train, test = problem(16)
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"train": train[:3]}, ValueError, "train must have test's shape"),
        ({"test": test[:3], "train": train[:3]}, ValueError, "the factors have 12"),
        ({"test": np.ones((12, 9))}, TypeError, "test must be Interactions or a scipy"),
        ({"test": test * np.nan}, ValueError, "test must have finite values"),
        ({"metrics": ()}, ValueError, "metrics must have at least one"),
        ({"metrics": range(10**18)}, ValueError, "metrics must be"),
        ({"metrics": [3]}, ValueError, "metrics must be"),
        ({"metrics": 3}, TypeError, "metrics must be metrics such as"),
        ({"backend": ["cpu"]}, TypeError, "backend must be a name"),
        ({"metrics": "ndcg10"}, ValueError, "is not a metric"),
        ({"metrics": Recall}, ValueError, "needs a cutoff"),
        ({"users": [12]}, ValueError, "users must lie in"),
        ({"batch_size": 0}, ValueError, "batch_size"),
        ({"n_threads": -1, "metrics": AUC}, ValueError, "n_threads"),
        ({"item_groups": [0] * 9}, TypeError, "item_groups must be Groups"),
        ({"backend": "abacus"}, ValueError, "backend"),
        ({"model": 3}, TypeError, "model must have user_factors"),
        ({"model": Factors(model.user_factors * np.nan, model.item_factors)}, ValueError,
         "user_factors must be a finite 2-D"),
        ({"model": Factors(model.user_factors, model.item_factors + np.nan)}, ValueError,
         "item_factors must be a finite 2-D"),
        ({"model": Factors(model.user_factors[:, :1], model.item_factors)}, ValueError, "columns"),
        ({"model": Factors(model.user_factors, model.item_factors, np.ones(3))}, ValueError,
         "item_biases must be finite"),
    ]  # fmt: skip
    for change, error, message in wrong:
        arguments: dict[str, Any] = {"model": model, "test": test, "train": train} | change
        with pytest.raises(error, match=message):
            evaluate(**arguments)


# --- implicit's own evaluation


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("k", [1, 4, 10])
def test_equals_the_evaluation_of_implicit(k: int) -> None:
    als = pytest.importorskip("implicit.cpu.als", reason="needs implicit")
    theirs = pytest.importorskip("implicit.evaluation", reason="needs implicit")
    limits = pytest.importorskip("threadpoolctl", reason="needs threadpoolctl")
    rng = np.random.default_rng(0)
    part = rng.random((40, 30))
    train = sp.csr_matrix((part < 0.2).astype(np.float32))
    test = sp.csr_matrix((part > 0.8).astype(np.float32) * (np.arange(40) % 7 > 0)[:, None])
    model = als.AlternatingLeastSquares(factors=6, random_state=0, num_threads=1)
    with limits.threadpool_limits(1, "blas"):
        model.fit(train, show_progress=False)
        told = theirs.ranking_metrics_at_k(model, train, test, K=k, show_progress=False)
    metrics = definitions("implicit", k)
    for form in (model, model.recommend):
        mine = evaluate(form, test, train=train, metrics=metrics)
        for metric, name in zip(metrics, ("precision", "map", "ndcg", "auc"), strict=True):
            assert mine[metric].value == pytest.approx(told[name]), name
