"""Where two sets of ids meet, rows are matched by id or refused, however many rows there are."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank import Interactions
from mfrank.data import Ids
from tests.support.errors import refuses

N_USERS, N_ITEMS = 24, 16


def all_data() -> Interactions:
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((N_USERS, N_ITEMS)) < 0.5)
    return Interactions.from_arrays(
        [f"u{u:02}" for u in users],
        [f"i{i:02}" for i in items],
        timestamps=rng.permutation(len(users)) + 10**9,
    )


SPLIT = mfrank.by_ratio(all_data(), train=0.7, valid=0.0, test=0.3, random_state=0)
TRAIN, OTHER = SPLIT.train, SPLIT.test
FEW: dict[str, Any] = {"factors": 3, "iterations": 2, "random_state": 0}
MODEL = mfrank.ALS(mfrank.IALS(), **FEW).fit(TRAIN)
KNN = mfrank.ItemKNN().fit(TRAIN)
SOME = TRAIN.user_ids.labels[:4]
HELD = mfrank.held_out_users(all_data(), test=6, random_state=0)


def spoken(answer: Any) -> dict[Any, float]:
    """Scores by id, which do not depend on the order of rows."""
    return {
        (user, item): float(score)
        for user, (ids, scores) in enumerate(zip(*map(np.atleast_2d, answer), strict=True))
        for item, score in zip(ids.tolist(), np.round(scores, 4).tolist(), strict=True)
    }


def values(evaluation: Any) -> list[float]:
    return [score.value for score in evaluation.scores.values()]


DOORS: dict[str, Callable[[Any], Any]] = {
    "evaluate": lambda other: values(mfrank.evaluate(MODEL, other)),
    "evaluate, neighbors": lambda other: values(mfrank.evaluate(KNN, other)),
    "evaluate, a store and train": lambda other: values(
        mfrank.evaluate(MODEL.store, OTHER, train=other)
    ),
    "compare": lambda other: [
        values(row.evaluation)
        for row in mfrank.compare(
            TRAIN, other, models={"m": deepcopy(MODEL)}, repeats=1, peak_memory=False
        ).rows
    ],
    "tune": lambda other: [
        round(row["value"], 6)
        for row in mfrank.tune(
            replace(TRAIN, timestamps=None), valid=without_times(other), trials=1, factors=3
        ).leaderboard
        if row["value"] is not None
    ],
    "stopping": lambda other: (
        mfrank.ALS(mfrank.IALS(), **FEW)
        .fit(TRAIN, stopping=mfrank.EarlyStopping(other))
        .store.history[-1]["valid"]
    ),
    "recommend": lambda other: spoken(MODEL.recommend(SOME, other, N=3)),
    "recommend, folded in": lambda other: spoken(
        MODEL.recommend(SOME, other, N=3, recalculate_user=True)
    ),
    "recommend, neighbors": lambda other: spoken(
        KNN.recommend(SOME, other, N=3, recalculate_user=True)
    ),
    "recommend_users": lambda other: spoken(
        MODEL.recommend_users(
            TRAIN.item_ids.labels[:2], other.T if not isinstance(other, Interactions) else other
        )
    ),
    "recalculate_user": lambda other: np.round(MODEL.recalculate_user(SOME, other), 4).tolist(),
    "partial_fit": lambda other: spoken(
        deepcopy(MODEL).partial_fit(other).recommend(SOME, N=3, filter_already_liked_items=False)
    ),
    "partial_fit, old": lambda other: spoken(
        deepcopy(MODEL)
        .partial_fit(OTHER, user_items=other)
        .recommend(SOME, N=3, filter_already_liked_items=False)
    ),
    "partial_fit_users": lambda other: spoken(
        deepcopy(MODEL)
        .partial_fit_users(SOME, other)
        .recommend(SOME, N=3, filter_already_liked_items=False)
    ),
    "labels of a walk": lambda other: np.round(
        mfrank.SupervisedPageRank(random_state=0, queries=20, n_threads=1)
        .fit(TRAIN, other)
        .weights,
        4,
    ).tolist(),
}


def without_times(other: Any) -> Any:
    return replace(other, timestamps=None) if isinstance(other, Interactions) else other


def moved(data: Interactions, users: Any, items: Any) -> Interactions:
    """The same cells in other rows and columns, under the same ids."""
    return Interactions.from_arrays(
        data.user_ids.raw(data.entry_users),
        data.item_ids.raw(data.user_items.indices),
        data.user_items.data,
        data.timestamps,
        user_ids=data.user_ids.labels[users],
        item_ids=data.item_ids.labels[items],
    )


def relabelled(data: Interactions, users: Any, items: Any) -> Interactions:
    return Interactions(data.user_items, users, items, data.timestamps)


RNG = np.random.default_rng(1)
SAME: dict[str, Callable[[Interactions], Any]] = {
    "reversed": lambda data: moved(data, slice(None, None, -1), slice(None, None, -1)),
    "shuffled": lambda data: moved(data, RNG.permutation(N_USERS), RNG.permutation(N_ITEMS)),
    "a matrix": lambda data: data.to_scipy(),
}
OTHERS: dict[str, Callable[[Interactions], Any]] = {
    "numbered": lambda data: Interactions.from_sparse(data.to_scipy()),
    "users numbered": lambda data: relabelled(data, Ids.numbered(N_USERS), data.item_ids),
    "items numbered": lambda data: relabelled(data, data.user_ids, Ids.numbered(N_ITEMS)),
    "other numbers": lambda data: relabelled(
        data, Ids.of(np.arange(N_USERS) + 7), Ids.of(np.arange(N_ITEMS) + 7)
    ),
    "rows without ids": lambda data: data.to_scipy()[1:],
}


@pytest.mark.parametrize("change", SAME)
@pytest.mark.parametrize("door", DOORS)
def test_the_same_ids_in_any_rows_give_the_same(door: str, change: str) -> None:
    if (door, change) == ("partial_fit", "a matrix"):  # which might have new rows
        with refuses(ValueError, "ids"):
            DOORS[door](SAME[change](OTHER))
        return
    expected = DOORS[door](OTHER)
    if door in ("labels of a walk",) and change == "a matrix":
        assert DOORS[door](OTHER.user_items) == expected
    else:
        assert DOORS[door](SAME[change](OTHER)) == expected


@pytest.mark.parametrize("change", OTHERS)
@pytest.mark.parametrize("door", DOORS)
def test_other_ids_are_refused_however_many_they_are(door: str, change: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        DOORS[door](OTHERS[change](OTHER))


NUMBERED = relabelled(TRAIN, Ids.of(np.arange(N_USERS) + 1), Ids.of(np.arange(N_ITEMS) + 1))


@pytest.mark.parametrize(
    "call",
    [
        lambda model, other: mfrank.evaluate(model, other),
        lambda model, other: model.recommend([3], other),
        lambda model, other: model.recalculate_user([3], other),
        lambda model, other: deepcopy(model).partial_fit(other),
        lambda model, other: deepcopy(model).partial_fit_users([3], other),
        lambda model, other: mfrank.compare(
            NUMBERED, other, models={"m": deepcopy(model)}, repeats=1, peak_memory=False
        ),
        lambda model, other: mfrank.tune(
            without_times(NUMBERED), valid=without_times(other), trials=1, factors=2
        ),
        lambda model, other: deepcopy(model).fit(other, start=model),
        lambda model, other: deepcopy(model).fit(NUMBERED, stopping=mfrank.EarlyStopping(other)),
    ],
)
def test_row_numbers_are_no_ids_from_1_on(call: Callable[..., Any]) -> None:
    """Ids 1..n beside rows 0..n-1 without the first: all but one would be taken for another."""
    model = mfrank.ALS(mfrank.IALS(), **FEW).fit(NUMBERED)
    numbered = Interactions.from_sparse(OTHER.to_scipy())
    without_first = numbered.take((numbered.entry_users > 0) & (numbered.user_items.indices > 0))
    with refuses(mfrank.UnknownIdError, None, remedy="are only numbered|fit without start"):
        call(model, without_times(without_first))


def test_numbers_in_another_order_are_ids() -> None:
    order = np.random.default_rng(2).permutation(N_USERS)
    model = mfrank.ALS(mfrank.IALS(), **FEW).fit(relabelled(TRAIN, Ids.of(order), TRAIN.item_ids))
    test = relabelled(OTHER, Ids.of(order), OTHER.item_ids)
    expected = values(mfrank.evaluate(model, test))
    assert values(mfrank.evaluate(model, moved(test, np.argsort(order), slice(None)))) == expected


def test_ids_that_are_as_many_numbers_are_not_rows() -> None:
    """Ids 0, 1, 2, 5 and a test set of 0, 1, 2, 3: 3 is not 5."""
    data = Interactions.from_arrays([0, 1, 2, 5, 5], [0, 1, 2, 5, 0])
    model = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(data)
    test = Interactions.from_arrays([0, 1, 2, 3], [1, 2, 0, 3])
    with refuses(mfrank.UnknownIdError, "test", remedy="only numbered") as error:
        mfrank.evaluate(model, test)
    assert error.value.ids == (3,)
    known = Interactions.from_arrays([0, 1, 2], [1, 2, 0])  # numbers that the model has
    assert mfrank.evaluate(model, known).n_users == 3


def test_a_model_of_a_matrix_has_the_ids_of_the_data_that_it_was_fitted_to() -> None:
    bare = mfrank.ALS(mfrank.IALS(), **FEW).fit(TRAIN.to_scipy())
    expected = values(mfrank.evaluate(MODEL, OTHER))
    assert values(mfrank.evaluate(bare, OTHER, train=TRAIN)) == expected
    assert values(mfrank.evaluate(bare, SAME["shuffled"](OTHER), train=TRAIN)) == expected
    assert values(mfrank.evaluate(bare, OTHER.user_items)) == expected
    with refuses(ValueError, "test", remedy=r"Interactions\.user_items"):
        mfrank.evaluate(bare, OTHER)
    with refuses(ValueError, "test", remedy="only numbered"):  # not the data of the fit
        mfrank.evaluate(bare, OTHER, train=OTHER)


def test_held_out_users_are_those_of_the_model() -> None:
    model = mfrank.ALS(mfrank.IALS(), **FEW).fit(HELD.train)
    assert mfrank.evaluate(model, HELD.test).n_users > 0
    bare = mfrank.ALS(mfrank.IALS(), **FEW).fit(HELD.train.to_scipy())
    with refuses(ValueError, remedy=r"split\.train"):
        mfrank.evaluate(bare, HELD.test)


def test_a_start_of_other_ids_is_refused() -> None:
    start = mfrank.ALS(mfrank.IALS(), **FEW).fit(
        relabelled(TRAIN, Ids.numbered(N_USERS), TRAIN.item_ids)
    )
    with refuses(ValueError, "start"):
        mfrank.ALS(mfrank.IALS(), **FEW).fit(TRAIN, start=start)


def test_a_day_as_a_matrix_is_for_models_that_number_their_rows() -> None:
    numbers = relabelled(TRAIN, Ids.of(np.arange(N_USERS) + 100), Ids.of(np.arange(N_ITEMS) + 100))
    model = mfrank.ALS(mfrank.IALS(), **FEW).fit(numbers)
    with refuses(ValueError, "new", remedy=r"pass Interactions\.from_sparse\(new"):
        model.partial_fit(OTHER.to_scipy())
    bare = mfrank.ALS(mfrank.IALS(), **FEW).fit(TRAIN.to_scipy())
    assert len(bare.partial_fit(OTHER.to_scipy()).user_ids) == N_USERS
