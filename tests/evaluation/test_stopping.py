"""Early stopping ends a fit after its best epoch and gives that epoch back."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import als
from problems import toy

import mfrank
from mfrank import NDCG, EarlyStopping, Recall
from tests.support.errors import refuses

DATA = mfrank.synthetic(400, 150, 6000, random_state=0)
SPLIT = mfrank.by_ratio(DATA, train=0.8, valid=0.1, test=0.1, random_state=0)


@pytest.mark.parametrize("patience", [1, 2, 30])
@pytest.mark.parametrize("metric", [NDCG @ 10, "recall@20"])
def test_the_best_epoch_is_kept(metric: object, patience: int) -> None:
    options = {"factors": 24, "iterations": 12}
    curve: list[float] = []
    every = als(mfrank.IALS(), **options)

    def judge(*_: object) -> None:
        result = mfrank.evaluate(every, SPLIT.valid, train=SPLIT.train, metrics=metric)
        curve.append(next(iter(result.scores.values())).value)

    every.fit(SPLIT.train, callback=judge)
    stopping = EarlyStopping(SPLIT.valid, metric=metric, patience=patience)  # type: ignore[arg-type]
    model = als(mfrank.IALS(), **options).fit(SPLIT.train, stopping=stopping)
    seen = [epoch["valid"] for epoch in model.store.history]
    assert seen == curve[: len(seen)]
    best = int(np.argmax(seen))
    assert len(seen) == min(len(curve), best + 1 + patience)
    again = als(mfrank.IALS(), factors=24, iterations=best + 1).fit(SPLIT.train)
    np.testing.assert_array_equal(model.item_factors, again.item_factors)
    np.testing.assert_array_equal(model.user_factors, again.user_factors)


def test_a_callback_may_stop_sooner() -> None:
    stopping = EarlyStopping(SPLIT.valid, patience=9)
    model = als(iterations=9).fit(
        SPLIT.train, stopping=stopping, callback=lambda epoch, *_: epoch == 2
    )
    assert [epoch["epoch"] for epoch in model.store.history] == [1, 2, 3]


@pytest.mark.parametrize("kind", ["ALS", "Descent"])
def test_the_callback_receives_the_held_out_metric(kind: str) -> None:
    model: Any = getattr(mfrank, kind)(factors=4, iterations=4, random_state=0)
    calls: list[Any] = []

    def after(epoch: int, seconds: float, objective: float | None, valid: float | None) -> bool:
        assert model.history[-1]["valid"] == valid
        calls.append((epoch, valid))
        return epoch == 2

    model.fit(SPLIT.train, stopping=EarlyStopping(SPLIT.valid, patience=9), callback=after)
    assert calls == [(epoch, record["valid"]) for epoch, record in enumerate(model.history)]
    assert len(calls) == 3
    assert all(value is not None for _, value in calls)
    model.fit(SPLIT.train, callback=lambda *call: calls.append(call[3]))  # nothing is held out
    assert calls[3:] == [None] * 4


def test_the_rule_counts_epochs_without_a_new_best() -> None:
    rule = EarlyStopping(SPLIT.valid, patience=2)
    course = [0.1, 0.3, 0.2, 0.3, 0.9]
    over = [rule.is_over(course[:n]) for n in range(1, 6)]
    assert over == [False, False, False, True, False]
    assert not any(a > b for a, b in pairwise(over[:4]))


@pytest.mark.parametrize(
    ("options", "error", "argument"),
    [
        ({"patience": 0}, ValueError, "patience"),
        ({"patience": 1.5}, TypeError, "patience"),
        ({"metric": mfrank.Coverage @ 10}, ValueError, "metric"),
        ({"metric": "miscalibration@10"}, ValueError, "metric"),
        ({"metric": 10}, ValueError, "metric"),
        ({"users": 0}, ValueError, "users"),
        ({"random_state": -1}, ValueError, "random_state"),
        ({"random_state": None}, TypeError, "random_state"),
    ],
)
def test_bad_rules_are_refused(
    options: dict[str, object], error: type[Exception], argument: str
) -> None:
    with refuses(error, argument):
        EarlyStopping(SPLIT.valid, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("valid", "error", "argument"),
    [
        (toy(5, 7), ValueError, "valid"),
        (np.ones((9, 7)), TypeError, "valid"),
        (sp.csr_array((9, 7)), ValueError, "valid"),
        (toy(), ValueError, "valid"),
    ],
)
def test_held_out_interactions_that_do_not_fit_are_refused(
    valid: object, error: type[Exception], argument: str
) -> None:
    with refuses(error, argument):
        als().fit(toy(), stopping=EarlyStopping(valid))  # type: ignore[arg-type]


def test_what_is_no_rule_is_refused() -> None:
    with refuses(TypeError, "stopping"):
        als().fit(toy(), stopping=3)  # type: ignore[arg-type]


def test_the_value_is_that_of_evaluate() -> None:
    model = als().fit(SPLIT.train)
    rule = EarlyStopping(SPLIT.valid, metric=Recall @ 5)
    expected = mfrank.evaluate(model, SPLIT.valid, train=SPLIT.train, metrics=Recall @ 5)
    assert rule.value(model, SPLIT.train, "auto", 0) == expected[Recall @ 5].value


def test_a_sample_of_users_is_judged_the_same_after_every_epoch() -> None:
    model = als().fit(SPLIT.train)
    rule = EarlyStopping(SPLIT.valid, users=40, random_state=3)
    value = rule.value(model, SPLIT.train, "auto", 0)
    assert value == rule.value(model, SPLIT.train, "auto", 0)
    assert value != EarlyStopping(SPLIT.valid, users=40, random_state=4).value(
        model, SPLIT.train, "auto", 0
    )


def test_a_sample_has_the_stated_size_and_only_users_who_can_be_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[np.ndarray] = []
    how: list[tuple[object, object]] = []
    real = mfrank.evaluation.stopping.evaluate

    def noting(*args: object, **options: object) -> object:
        asked.append(options["users"])  # type: ignore[arg-type]
        how.append((options["backend"], options["n_threads"]))
        return real(*args, **options)

    monkeypatch.setattr("mfrank.evaluation.stopping.evaluate", noting)
    model = als().fit(SPLIT.train)
    rule = EarlyStopping(SPLIT.valid, users=40)
    rule.value(model, SPLIT.train, "auto", 0)
    with_some = np.flatnonzero(SPLIT.valid.counts.users)
    assert len(np.unique(asked[0])) == 40
    assert np.isin(asked[0], with_some).all()
    for users in (None, len(with_some)):
        EarlyStopping(SPLIT.valid, users=users).value(model, SPLIT.train, "auto", 0)
    assert asked[1:] == [None, None]
    rule.value(model, SPLIT.train, "reference", 1)
    assert how == [("auto", 0)] * 3 + [("reference", 1)]


def test_the_sample_is_of_the_rows_of_the_fit() -> None:
    """Held-out interactions with the users in another order are matched by id first."""
    names = [f"u{n}" for n in range(30)]
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 30, 300), rng.integers(0, 12, 300)
    data = mfrank.Interactions.from_arrays(
        users, items, shape=(30, 12), user_ids=names, duplicates="max"
    )
    split = mfrank.by_ratio(data, train=0.5, test=0.1, random_state=0)
    turned = split.valid.user_items[::-1]
    there = mfrank.Interactions.from_sparse(turned, user_ids=names[::-1])
    model = als(factors=4).fit(split.train)
    values = [
        EarlyStopping(valid, users=7).value(model, split.train, "auto", 0)
        for valid in (split.valid, there)
    ]
    assert values[0] == values[1]
    some = there.take(there.entry_users < 9)
    ids = some.user_ids.raw(some.entry_users), some.item_ids.raw(some.user_items.indices)
    apart = mfrank.Interactions.from_arrays(*ids)  # with ids of their own, of whom occurs
    assert apart.n_users == 9
    courses = [
        [record["valid"] for record in als(factors=4).fit(split.train, stopping=rule).store.history]
        for rule in map(EarlyStopping, (some, apart))
    ]
    assert courses[0] == courses[1]


def test_a_fit_that_is_resumed_knows_the_rule_by_all_that_it_judges_by() -> None:
    """Not by how it is spelled."""
    valid = SPLIT.valid
    rule = EarlyStopping(valid, metric="recall@5")
    assert rule.metric == Recall @ 5
    assert EarlyStopping(valid, Recall @ 5).fingerprint() == rule.fingerprint()
    of_matrix = EarlyStopping(valid.user_items, Recall @ 5).fingerprint()
    doubled = valid.user_items.copy()
    doubled.data[0] = 2
    for other in (
        EarlyStopping(valid, NDCG @ 5),
        EarlyStopping(valid, Recall @ 6),
        EarlyStopping(valid, Recall @ 5, patience=3),
        EarlyStopping(doubled, Recall @ 5),
        EarlyStopping(SPLIT.test, Recall @ 5),
    ):
        assert other.fingerprint() not in (rule.fingerprint(), of_matrix)
    assert EarlyStopping(valid.to_scipy(), Recall @ 5).fingerprint() == of_matrix
