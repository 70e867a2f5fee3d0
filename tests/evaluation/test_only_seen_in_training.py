"""An evaluation does not rank what users have only seen, such as ratings below a threshold."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import mfrank
from mfrank import NDCG, HitRate, Recall
from mfrank.retrieval import without_relevant
from mfrank.tuning import Shortlists, TrialJudge

N_USERS, N_ITEMS = 40, 25


@pytest.mark.parametrize("seed", range(6))
def test_only_zeros_that_are_relevant_are_ranked(seed: int) -> None:
    """Cells with a relevance of 0 are not relevant; of seed 5, there are no zeros."""
    rng = np.random.default_rng(seed)
    (had, values), (held, relevances) = (
        (rng.random((5, 6)) < share, rng.integers(least, 3, (5, 6)))
        for share, least in ((0.6, seed == 5), (seed / 5, 0))
    )
    seen, relevance = (
        sp.csr_array((values[cells], np.nonzero(cells)), cells.shape)
        for cells, values in ((had, values), (held, relevances))
    )
    left = without_relevant(seen, relevance)
    out = had & (values == 0) & held & (relevances > 0)
    marks = sp.csr_array((np.ones(left.nnz), left.indices, left.indptr), left.shape)
    np.testing.assert_array_equal(marks.toarray() > 0, had & ~out)
    np.testing.assert_array_equal(left.toarray(), np.where(had, values, 0))


def ratings() -> mfrank.Interactions:
    rng = np.random.default_rng(1)
    cells = np.argwhere(rng.random((N_USERS, N_ITEMS)) < 0.6)
    values, times = rng.integers(1, 6, len(cells)), rng.integers(0, 500, len(cells))
    return mfrank.Interactions.from_arrays(*cells.T, values, times, shape=(N_USERS, N_ITEMS))


RAW = ratings()
SPLIT = mfrank.by_ratio(RAW.at_least(3), train=0.6, valid=0.2, test=0.2, random_state=0)
TRAIN, VALID, TEST = SPLIT.train, SPLIT.valid, SPLIT.test
CUT = 4


def model() -> mfrank.ALS:
    return mfrank.ALS(mfrank.RG2(), factors=4, iterations=2, random_state=0).fit(TRAIN)


def recall(scores: Any, test: mfrank.Interactions, known: Any) -> float:
    """Written out: the mean over users of the share of test items among the best four."""
    found = []
    for user in range(N_USERS):
        row = test.user_items[[user]]
        relevant = set(row.indices[row.data > 0].tolist()) - known[user]["liked"]
        ranked = [
            item
            for item in np.argsort(-scores[user], kind="stable").tolist()
            if item not in known[user]["liked"]
            and (item in relevant or item not in known[user]["only seen"])
        ]
        if relevant:
            found.append(len(relevant & set(ranked[:CUT])) / len(relevant))
    return float(np.mean(found))


def known_of(train: mfrank.Interactions) -> list[dict[str, set[int]]]:
    liked, seen = train.user_items, train.seen
    every = [set(seen[[u]].indices.tolist()) for u in range(N_USERS)]
    return [
        {"liked": set(liked[[u]].indices.tolist()), "only seen": each - set(liked[[u]].indices)}
        for u, each in enumerate(every)
    ]


def expected(fitted: Any, test: mfrank.Interactions, train: mfrank.Interactions = TRAIN) -> float:
    return recall(fitted.user_factors @ fitted.item_factors.T, test, known_of(train))


def as_function(fitted: Any) -> Any:
    def recommend(users: Any, user_items: Any, N: int) -> Any:
        return fitted.recommend(users, user_items, N, by_row=True)

    return recommend


WAYS: Mapping[str, Callable[[Any, Path], tuple[Any, dict[str, Any]]]] = {
    "the model's own": lambda fitted, _: (fitted, {}),
    "loaded": lambda fitted, folder: (mfrank.load(fitted.save(folder / "m")), {}),
    "mapped": lambda fitted, folder: (mfrank.load(fitted.save(folder / "m"), mmap=True), {}),
    "given": lambda fitted, _: (fitted, {"train": TRAIN}),
    "in a folder": lambda fitted, folder: (
        fitted,
        {"train": mfrank.Interactions.open(TRAIN.to_folder(folder / "f"))},
    ),
    "a matrix": lambda fitted, _: (fitted, {"train": TRAIN.seen}),
    "factors": lambda fitted, _: (fitted.store, {"train": TRAIN}),
    "a function": lambda fitted, _: (as_function(fitted), {"train": TRAIN}),
    "steered": lambda fitted, _: (fitted, {"steer": mfrank.Steering(boosts={0: 0.0, 1: 1e-30})}),
    "in blocks": lambda fitted, _: (fitted, {"batch_size": 3}),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_only_seen_is_not_ranked(tmp_path: Path, way: str) -> None:
    fitted = model()
    judged, options = WAYS[way](fitted, tmp_path)
    found = mfrank.evaluate(judged, TEST, metrics=Recall @ CUT, **options)
    assert found["recall@4"].value == pytest.approx(expected(fitted, TEST))
    forgetful = mfrank.Interactions(TRAIN.user_items, TRAIN.user_ids, TRAIN.item_ids)
    plain = mfrank.evaluate(fitted, TEST, train=forgetful, metrics=Recall @ CUT)
    assert plain["recall@4"].value < found["recall@4"].value


@pytest.mark.parametrize("way", WAYS)
def test_a_held_out_like_counts_even_if_it_was_seen_before(tmp_path: Path, way: str) -> None:
    """Somebody who rated an item low in training likes it in the test part."""
    only = TRAIN.seen_only
    chosen = np.arange(0, only.nnz, 3)
    more = mfrank.Interactions.from_arrays(
        only.entry_users[chosen], only.user_items.indices[chosen], shape=(N_USERS, N_ITEMS)
    )
    test = mfrank.Interactions(TEST.user_items, TEST.user_ids, TEST.item_ids) + more
    fitted = model()
    judged, options = WAYS[way](fitted, tmp_path)
    found = mfrank.evaluate(judged, test, metrics=Recall @ CUT, **options)
    assert found["recall@4"].value == pytest.approx(expected(fitted, test))
    assert found.n_in_train == 0


def test_low_ratings_of_the_test_part_are_neither_relevant_nor_left_out() -> None:
    fitted = model()
    raw = mfrank.by_time(RAW.at_least(3), test=0.3)
    assert raw.test.seen_only is not None
    plain = mfrank.Interactions(raw.test.user_items, raw.test.user_ids, raw.test.item_ids)
    values = [
        mfrank.evaluate(fitted, test, train=raw.train, metrics=Recall @ CUT)["recall@4"].value
        for test in (raw.test, plain)
    ]
    assert values[0] == values[1] == pytest.approx(expected(fitted, plain, raw.train))


def test_metrics_of_the_training_data_read_what_was_learned() -> None:
    fitted = model()
    metrics = ["novelty@4", "serendipity@4"]
    filtered = mfrank.evaluate(fitted, TEST, metrics=metrics)
    lists = fitted.recommend(filtered.users, N=CUT, by_row=True).ids
    counts = np.maximum(TRAIN.counts.items, 1)
    n_users = np.count_nonzero(TRAIN.counts.users)
    listed = np.ma.masked_equal(lists, -1)
    told = np.ma.masked_array(-np.log2(counts[lists] / n_users), listed.mask)
    np.testing.assert_allclose(filtered["novelty@4"].value, told.mean(axis=1).mean())


def test_sampled_negatives_are_not_what_was_seen() -> None:
    """With as many negatives as there are, the sample is the full ranking."""
    fitted = model()
    sampled = mfrank.evaluate(fitted, TEST, metrics=HitRate @ CUT, negatives=N_ITEMS)
    whole = mfrank.evaluate(fitted, TEST, metrics=HitRate @ CUT)
    assert sampled["hitrate@4"].value == whole["hitrate@4"].value


def test_held_out_users_do_not_get_what_they_have_seen() -> None:
    split = mfrank.held_out_users(RAW.at_least(3), test=12, random_state=0)
    fitted = mfrank.ALS(mfrank.RG2(), factors=4, iterations=2, random_state=0).fit(split.train)
    found = mfrank.evaluate(fitted, split.test, metrics=Recall @ CUT)
    users = np.arange(N_USERS)
    rows = fitted.recalculate_user(users, split.test.fold_in)
    scores = rows @ fitted.item_factors.T
    values = recall(scores, split.test.target, known_of(split.test.fold_in))
    assert found["recall@4"].value == pytest.approx(values)


@pytest.mark.parametrize("kind", [mfrank.ItemKNN, mfrank.EASE, mfrank.ItemFilter])
def test_models_of_rows_fold_in_what_was_liked(kind: Any) -> None:
    split = mfrank.held_out_users(RAW.at_least(3), test=12, random_state=0)
    fitted = kind().fit(split.train)
    found = mfrank.evaluate(fitted, split.test, metrics=Recall @ CUT)
    lists = fitted.recommend(
        np.arange(N_USERS), split.test.fold_in, N_ITEMS, recalculate_user=True
    ).ids
    scores = np.full((N_USERS, N_ITEMS), -np.inf)
    for user, row in enumerate(lists):
        there = row[row >= 0]
        scores[user, there] = -np.arange(len(there))
    values = recall(scores, split.test.target, known_of(split.test.fold_in))
    assert found["recall@4"].value == pytest.approx(values)


def test_early_stopping_judges_as_evaluate_does() -> None:
    rule = mfrank.EarlyStopping(VALID, metric=NDCG @ CUT, patience=9)
    values: list[float] = []
    curve = mfrank.ALS(factors=3, iterations=4, random_state=0)
    curve.fit(
        TRAIN,
        callback=lambda *_: values.append(
            mfrank.evaluate(curve, VALID, metrics=NDCG @ CUT)["ndcg@4"].value
        ),
    )
    stopped = mfrank.ALS(factors=3, iterations=4, random_state=0).fit(TRAIN, stopping=rule)
    assert [each["valid"] for each in stopped.store.history] == values
    assert stopped.seen.matrix.nnz == TRAIN.nnz + TRAIN.seen_only.nnz


def test_shortlists_of_a_search_rank_what_an_evaluation_ranks() -> None:
    fitted = model()
    judge = TrialJudge.of(TRAIN, NDCG @ CUT, 0, 1, VALID)
    value = Shortlists.of([fitted], judge).value([1.0])
    assert value == pytest.approx(judge.score(fitted).value)


def test_a_comparison_filters_every_library_alike() -> None:
    implicit = pytest.importorskip("implicit", reason="implicit is the extra compare")
    threads = pytest.importorskip("threadpoolctl", reason="it is of the extra compare")
    with threads.threadpool_limits(1, "blas"):  # it warns about more
        theirs = implicit.cpu.als.AlternatingLeastSquares(
            factors=4, iterations=2, random_state=0, num_threads=1, use_cg=False
        )
    models = {"ours": mfrank.ALS(factors=4, iterations=2, random_state=0), "theirs": theirs}
    table = mfrank.compare(
        TRAIN, TEST, models=models, metrics=[Recall @ CUT], repeats=1, peak_memory=False
    )
    for name, unfitted in models.items():
        fitted = unfitted
        fitted.fit(TRAIN.to_scipy(), **({"show_progress": False} if name == "theirs" else {}))
        assert table[name].evaluation["recall@4"].value == pytest.approx(expected(fitted, TEST))


GRADES: Mapping[str, tuple[Callable[[], Any], int]] = {
    "without the threshold": (lambda: RAW, logging.WARNING),
    "with it": (lambda: RAW.at_least(3), 0),
    "of the same split": (lambda: TEST, 0),
    "values of one size": (lambda: RAW.at_least(5, binary=True, keep_seen=False), 0),
}


@pytest.mark.parametrize("of", ["a model", "a saved model", "train="])
@pytest.mark.parametrize("name", GRADES)
def test_test_values_below_the_threshold_of_the_fit_are_told(
    name: str, of: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make, level = GRADES[name]
    fitted: Any = model()
    if of == "a saved model":  # it has no values, so that any that differ are told as a fact
        fitted = mfrank.load(fitted.save(tmp_path / "model"))
        level = 0 if "size" in name or name == "with it" else logging.INFO
    test, train = make(), TRAIN if of == "train=" else None
    caplog.clear()
    caplog.set_level(logging.INFO, "mfrank")
    mfrank.evaluate(fitted.store if train else fitted, test, train=train)
    told = [line for line in caplog.records if "all count as relevant" in line.getMessage()]
    assert [line.levelno for line in told] == [level] * (level > 0)
    caplog.clear()
    mfrank.evaluate(
        fitted.store if train else fitted, test, train=train, metrics=NDCG(gain="linear") @ 5
    )
    assert not [line for line in caplog.records if "all count as" in line.getMessage()]
