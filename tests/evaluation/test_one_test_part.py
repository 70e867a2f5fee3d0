"""Only evaluations of one test part are compared: the same users, items and values."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from rankings import Factors, per_user, problem

import mfrank
from mfrank import Recall
from mfrank.evaluation import Score
from mfrank.evaluation import evaluate as anywhere
from tests.support.errors import refuses

evaluate = partial(anywhere, backend="reference")


def shifted(rows: sp.csr_array) -> sp.csr_array:
    """As many items for each user, but others."""
    moved = sp.csr_array((rows.data, (rows.indices + 1) % rows.shape[1], rows.indptr), rows.shape)
    moved.sort_indices()
    return moved


@pytest.mark.parametrize(
    "other_test",
    [shifted, lambda test: sp.csr_array((test.data + 1, test.indices, test.indptr), test.shape)],
    ids=["other items", "other values"],
)
def test_test_parts_that_differ_cannot_be_compared(other_test: Any) -> None:
    """Whatever is the same of them: the users, the number of items of each, the metric."""
    rng = np.random.default_rng(0)
    test = sp.csr_array(sp.random(30, 20, 0.3, format="csr", random_state=rng))
    model = Factors(rng.normal(size=(30, 4)), rng.normal(size=(20, 4)))
    groups = mfrank.Groups.of(["a", "b"] * 10)
    one, two = (
        evaluate(
            model,
            each,
            metrics=("ndcg@5", "recall@5"),
            filter_already_liked_items=False,
            item_groups=groups,
        )
        for each in (test, other_test(test))
    )
    everybody = mfrank.Groups.of(["all"] * 30)
    pairs = [(one, two), (one.by_group(everybody)["all"], two.by_group(everybody)["all"])]
    if other_test is not shifted:
        pairs.append((one.by_item_group["a"], two.by_item_group["a"]))
    for first, second in pairs:
        with refuses(ValueError, place="row 0", remedy="one test part"):
            first.compare(second, "recall@5")
        with refuses(ValueError, place="row 0", remedy="one test part"):
            mfrank.paired_differences({"first": first, "second": second}, "recall@5")
        assert first.compare(first, "recall@5").p_value == 1


def test_any_other_relevant_item_is_another_test_part() -> None:
    """A hash that were the same for two of these items would let them be compared."""
    n = 3000
    test = sp.csr_array((np.ones(2 * n), (np.arange(2 * n), np.repeat(np.arange(n), 2))))
    test.data[::2] = 2.0
    factors = Factors(np.zeros((2 * n, 1)), np.zeros((n, 1)))
    found = evaluate(factors, test, filter_already_liked_items=False, metrics="hitrate@1")
    assert found.relevant.dtype == np.uint64
    assert len(np.unique(found.relevant)) == 2 * n


def test_queries_with_other_grades_cannot_be_compared() -> None:
    features, queries = np.zeros((6, 1)), np.repeat([0, 1], 3)
    one, two = (
        mfrank.evaluate_queries(mfrank.Judged(features, grades, queries), np.arange(6.0), "ndcg@2")
        for grades in ([1, 0, 2, 0, 1, 0], [0, 1, 2, 0, 1, 0])
    )
    with refuses(ValueError, place="row 0", remedy="one test part"):
        one.compare(two, "ndcg@2")
    assert (one.n_cold_users, one.known_users["ndcg@2"].value) == (0, one["ndcg@2"].value)
    assert one.n_in_train == 0


def test_a_test_part_that_is_not_known_is_compared_by_its_users_and_weights() -> None:
    model, train, test = problem(12, n_users=40)
    micro = Recall(micro=True) @ 3
    one = evaluate(model, test, train=train, metrics=micro)
    unknown = replace(one, relevant=None)
    for first, second in ((one, unknown), (unknown, one), (unknown, unknown)):
        assert first.compare(second, micro).p_value == 1
    heavier = Score.of_users(per_user(one, micro), np.arange(1.0, one.n_users + 1))
    with refuses(ValueError, "metric"):
        unknown.compare(replace(unknown, scores={micro: heavier}), micro)
