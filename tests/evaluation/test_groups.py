"""Metrics by groups of users and of items."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from rankings import EVERYTHING, problem

import mfrank
from mfrank import Groups, Recall, by_activity, by_popularity
from mfrank.evaluation import ListMetric
from mfrank.evaluation import evaluate as anywhere
from tests.support.errors import refuses

evaluate = partial(anywhere, backend="reference")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(1, 6))
def test_groups_are_ordered_and_keep_equal_rows_together(counts: list[int], n: int) -> None:
    columns = np.concatenate([np.arange(count) for count in counts]).astype(int)
    rows = np.repeat(np.arange(len(counts)), counts)
    data = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(counts), 10))
    for groups in (by_activity(data, n), by_popularity(data.T.tocsr(), n)):
        assert (groups.of_rows >= 0).all()
        assert (groups.sizes > 0).all()
        assert len(groups.names) <= n + (0 in counts)
        order = np.lexsort((groups.of_rows, counts))
        assert (np.diff(groups.of_rows[order]) >= 0).all()
        for count in set(counts):
            assert len(set(groups.of_rows[np.array(counts) == count])) == 1


def test_users_are_divided_evenly_and_items_by_their_interactions() -> None:
    data = sp.csr_array(np.tril(np.ones((12, 12))))  # user u has u + 1 items, item i has 12 - i
    groups = by_activity(data, 4)
    assert groups.names == ("1 to 3 items", "4 to 6 items", "7 to 9 items", "10 to 12 items")
    assert groups.sizes.tolist() == [3, 3, 3, 3]
    items = by_popularity(data, 3)
    counts = np.arange(12, 0, -1)
    shares = [counts[items.of_rows == group].sum() / counts.sum() for group in range(3)]
    assert items.sizes.tolist() == sorted(items.sizes.tolist(), reverse=True)
    assert shares == pytest.approx([1 / 3] * 3, abs=12 / counts.sum())


def test_rows_without_entries_are_a_group_of_their_own() -> None:
    data = sp.csr_array(np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0]]))
    assert by_activity(data, 2).names == ("no items", "1 item", "2 items")
    assert by_popularity(data, 1).names == ("no users", "1 to 2 users")
    assert by_activity(sp.csr_array((3, 2)), 2).names == ("no items",)
    assert by_popularity(sp.csr_array((3, 2)), 1).of_rows.tolist() == [0, 0]
    assert Groups(("a", "b"), np.array([0, 0])).sizes.tolist() == [2, 0]
    assert repr(by_activity(data, 1)) == "Groups(no items (1 row), 1 to 2 items (2 rows))"


def test_groups_of_labels() -> None:
    groups = Groups.of(["war", None, "love", "war"])
    assert groups.names == ("love", "war")
    assert groups.of_rows.tolist() == [1, -1, 0, 1]
    assert Groups.of([2, 1.5, True]).names == ("1.5", "2", "True")
    assert Groups.of(np.array([7, 5, 7])).of_rows.tolist() == [1, 0, 1]
    assert Groups(("a", "b"), np.array([0, 1], np.int8)).of_rows.dtype == np.int64
    with refuses(ValueError, "labels"):
        Groups.of("war")
    for wrong in ([[1], [2]], [None, None], 3):
        with refuses(ValueError, "labels"):
            Groups.of(wrong)  # type: ignore[arg-type]


def test_groups_of_rows_beyond_measure_are_refused_before_they_are_read() -> None:
    with refuses(ValueError, "of_rows"):
        Groups(("a",), np.broadcast_to(np.int64(0), 2**31))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12))
def test_a_group_of_users_is_as_if_only_they_were_evaluated(seed: int, n_users: int) -> None:
    model, train, test = problem(seed, n_users)
    groups = by_activity(train, 3)
    metrics = [one for one in EVERYTHING if one.name not in ("Coverage", "Gini")]
    whole = evaluate(model, test, train=train, metrics=EVERYTHING)
    found = whole.by_group(groups)
    for place, name in enumerate(groups.names):
        users = np.flatnonzero(groups.of_rows == place)
        alone = evaluate(model, test, train=train, metrics=metrics, users=users)
        assert (name in found) == (alone.n_users > 0)
        if name in found:
            np.testing.assert_array_equal(found[name].users, alone.users)
            np.testing.assert_array_equal(found[name].cold_users, alone.cold_users)
            assert (found[name].n_without_test_items, found[name].n_in_train) == (0, 0)
            assert list(found[name].scores) == metrics
            for metric in metrics:
                np.testing.assert_equal(found[name][metric].value, alone[metric].value)
    assert sum(one.n_users for one in found.values()) == whole.n_users


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 4))
def test_a_group_of_items_is_as_if_only_they_were_in_the_test(
    seed: int, n_users: int, batch_size: int
) -> None:
    model, train, test = problem(seed, n_users)
    groups = Groups.of(["a", "b", None, "a", "b", "b", None, "a", "c"])
    result = evaluate(
        model, test, train=train, metrics=EVERYTHING, item_groups=groups, batch_size=batch_size
    )
    plain = evaluate(model, test, train=train, metrics=EVERYTHING)
    assert list(result.by_item_group) == ["a", "b", "c"]
    for metric in EVERYTHING:  # NaN where no user has anything to be found
        np.testing.assert_equal(result[metric].value, plain[metric].value)
    on_lists = [metric for metric in EVERYTHING if isinstance(metric, ListMetric)]
    for place, found in enumerate(result.by_item_group.values()):
        part = test.toarray() * (groups.of_rows == place)
        alone = evaluate(model, sp.csr_array(part), train=train, metrics=on_lists)
        np.testing.assert_array_equal(found.users, alone.users)
        assert found.n_without_test_items == result.n_users - found.n_users
        assert found.n_in_train == 0
        np.testing.assert_array_equal(found.relevant, alone.relevant)
        for metric in on_lists:
            np.testing.assert_array_equal(found[metric].per_user, alone[metric].per_user)


def test_hits_are_the_sum_over_item_groups() -> None:
    model, train, test = problem(5, 50)
    metric = Recall(micro=True) @ 3
    groups = by_popularity(train, 3)
    whole = evaluate(model, test, train=train, metrics=metric, item_groups=groups)
    parts = [one[metric] for one in whole.by_item_group.values()]
    hits = sum(float(one.per_user @ one.weights) for one in parts)
    score = whole[metric]
    assert hits == pytest.approx(float(score.per_user @ score.weights))
    assert set(whole.to_dict()["by_item_group"]) == set(groups.names)


def test_popularity_has_hits_in_the_head_only() -> None:
    data = mfrank.by_ratio(mfrank.synthetic(200, 100, 4000, random_state=0))
    groups = by_popularity(data.train, 3)
    model = mfrank.Popularity().fit(data.train)
    found = evaluate(model, data.test, metrics="recall@5", item_groups=groups).by_item_group
    tail, _, head = (one["recall@5"].value for one in found.values())
    assert tail == 0 < head


def test_exposure_counts_the_lists_of_each_item() -> None:
    model, train, test = problem(0, 30)
    found = evaluate(model, test, train=train, metrics=["ndcg@2", "coverage@4"], batch_size=7)
    had = train.toarray() > 0
    lists = [
        [i for i in np.argsort(-model.scores[u], kind="stable") if not had[u, i]][:4]
        for u in found.users
    ]
    expected = np.bincount(np.concatenate(lists).astype(int), minlength=9)
    np.testing.assert_array_equal(found.exposure, expected)
    assert evaluate(model, test, train=train, metrics="auc").exposure is None


@pytest.mark.parametrize(
    ("names", "of_rows", "argument"),
    [
        ("ab", [0, 1], "names"),
        (("a", "a"), [0, 1], "names"),
        (("a", "b"), [0, 2], "of_rows"),
        (("a", "b"), [-2, 1], "of_rows"),
        ((), [0], "of_rows"),
        ((1, "a"), [0, 1], "names"),
        (("a", "b"), [0.5], "of_rows"),
        (("a", "b"), [[0, 1]], "of_rows"),
    ],
)
def test_numbers_that_name_no_group_are_refused(names: Any, of_rows: Any, argument: str) -> None:
    with refuses((TypeError, ValueError), argument):
        Groups(names, np.array(of_rows))


def test_groups_of_other_rows_are_refused() -> None:
    model, train, test = problem()
    result = evaluate(model, test, train=train)
    with refuses(ValueError, "groups", remedy="by mfrank.by_activity"):
        result.by_group(Groups.of(["ab"] * 2))
    last = int(result.users[-1])
    with refuses(ValueError, "groups", remedy="by mfrank.by_activity"):
        result.by_group(Groups.of(["ab"] * last))
    assert result.by_group(Groups.of(["ab"] * (last + 1)))["ab"].n_users == result.n_users
    with refuses(TypeError, "groups"):
        result.by_group([0, 1])  # type: ignore[arg-type]
    with refuses(ValueError, "item_groups"):
        evaluate(model, test, train=train, item_groups=by_activity(train, 2))
    for grouped in (by_activity, by_popularity):
        for n in (0, 1001):
            with refuses(ValueError, "n"):
                grouped(train, n)
        assert len(grouped(train, 1000).names) > 1


# --- groups are of ids, not of places


SHOP = mfrank.synthetic(40, 30, 500, names=True, random_state=0)
PARTS = mfrank.by_ratio(SHOP, random_state=0)


def renumbered(data: mfrank.Interactions, *, without: int = 0) -> mfrank.Interactions:
    """The same interactions in another numbering, where the last users and items are first."""
    users = SHOP.user_ids.labels[without:][::-1]
    items = SHOP.item_ids.labels[without:][::-1]
    known = np.isin(data.user_ids.labels[data.entry_users], users)
    known &= np.isin(data.item_ids.labels[data.user_items.indices], items)
    return mfrank.Interactions.from_arrays(
        data.user_ids.labels[data.entry_users[known]],
        data.item_ids.labels[data.user_items.indices[known]],
        user_ids=users,
        item_ids=items,
    )


def values(found: Any) -> dict[str, list[float]]:
    return {name: [one["recall@10"].value, one.n_users] for name, one in found.items()}


@pytest.mark.parametrize("change", ["none", "grown", "removed", "as many, others"])
def test_groups_of_the_training_data_are_found_by_id(change: str) -> None:
    model = mfrank.ALS(factors=4, iterations=2, random_state=0).fit(PARTS.train)
    test, first = PARTS.test, SHOP.item_ids.labels[0]
    if change in ("grown", "as many, others"):
        model.partial_fit(mfrank.Interactions.from_arrays(["a"], ["a"]))
    if change in ("removed", "as many, others"):
        model.remove(users=SHOP.user_ids.labels[0], items=first)
        test = renumbered(test, without=1)
    metrics = ["recall@10"]
    users, items = mfrank.by_activity(PARTS.train), mfrank.by_popularity(PARTS.train)
    whole = mfrank.evaluate(model, test, metrics=metrics, item_groups=items)
    other = renumbered(PARTS.train)
    again = mfrank.evaluate(model, test, metrics=metrics, item_groups=mfrank.by_popularity(other))
    assert values(whole.by_item_group) == values(again.by_item_group)
    assert values(whole.by_group(users)) == values(whole.by_group(mfrank.by_activity(other)))

    had = dict(zip(PARTS.train.user_ids.labels, PARTS.train.counts.users, strict=True))
    per_user = whole["recall@10"].per_user
    names = model.user_ids.labels[whole.users]
    for name, one in whole.by_group(users).items():
        least, *most = (int(word) for word in name.split() if word.isdigit())
        own = [least <= had[user] <= (most or [least])[0] for user in names]
        np.testing.assert_allclose(one["recall@10"].value, per_user[own].mean())


def test_groups_of_other_ids_are_refused_and_rows_without_a_group_told(caplog: Any) -> None:
    model = mfrank.ALS(factors=4, iterations=2, random_state=0).fit(PARTS.train)
    found = mfrank.evaluate(model, PARTS.test)
    strange = mfrank.Interactions.from_arrays(["x", "y"], ["v", "w"])
    with refuses(ValueError, "groups", remedy="take those of the training data"):
        found.by_group(mfrank.by_activity(strange))
    with refuses(ValueError, "groups", remedy="take those of the training data"):
        mfrank.evaluate(model, PARTS.test, item_groups=mfrank.by_popularity(strange))
    some = mfrank.by_activity(renumbered(PARTS.train, without=1))
    with caplog.at_level("INFO", "mfrank"):
        found.by_group(some)
    assert "lack them: 1 row of the evaluation" in caplog.text
    there = some.in_rows_of(PARTS.train.user_ids)
    assert there.of_rows[0] == -1
    assert (there.of_rows[1:] == some.of_rows[::-1]).all()
    assert there.in_rows_of(PARTS.train.user_ids) is there
    with refuses(ValueError, "ids"):
        Groups(("a",), np.array([0, 0]), SHOP.user_ids)


def test_labels_that_may_be_missing_are_told(caplog: pytest.LogCaptureFixture) -> None:
    assert Groups.of(["a", None, np.nan, "b"]).names == ("a", "b")
    assert not caplog.records
    assert Groups.of(np.array(["a", np.nan, "nan"])).names == ("a", "nan")
    assert "'nan', of 2 rows" in caplog.text


GENRES = ["war", "love", "crime", "space"]
PAIRS = [(GENRES[n % 4], GENRES[(n + 1 + n // 4) % 4]) for n in range(12)]
LISTS = {
    "commas": ", ".join,
    "semicolons": ";".join,
    "bars": "|".join,
    "brackets": lambda parts: str(list(parts)),
}


@pytest.mark.parametrize("door", ["sequence", "mapping", "categories"])
@pytest.mark.parametrize("write", LISTS)
def test_lists_that_are_written_as_one_label_are_told(write: str, door: str, caplog: Any) -> None:
    texts = [LISTS[write](pair) for pair in PAIRS]
    by_id = {f"i{n}": text for n, text in enumerate(texts)}
    if door == "categories":
        steer = mfrank.Steering(categories=by_id, at_most=1)
        steer.in_rows(mfrank.data.Ids.of(list(by_id)))
    else:
        Groups.of(texts if door == "sequence" else by_id)
    assert sum("seem to be lists" in each for each in caplog.messages) == 1


@pytest.mark.parametrize(
    "texts",
    [
        GENRES * 3,
        ["Paris, France", "Rome, Italy", "Oslo, Norway", "Bonn, Germany"],
        ["Action", "Drama; no sequel", "Comedy"],
    ],
)
def test_labels_with_marks_among_them_are_not_told(texts: list[str], caplog: Any) -> None:
    Groups.of(texts)
    mfrank.Steering(categories=dict(enumerate(texts)), at_most=1)
    mfrank.Steering(categories={n: list(pair) for n, pair in enumerate(PAIRS)}, at_most=1)
    assert not caplog.messages


NUMBERS = mfrank.synthetic(40, 60, 900, random_state=0)


@pytest.mark.parametrize("of", ["ids", "labels by id", "texts", "rows", "labels in order"])
def test_groups_of_the_other_side_are_refused_or_told(of: str, caplog: Any) -> None:
    """Where ids are numbers, those of users are ids of items, too."""
    data = NUMBERS
    if of in ("ids", "labels by id", "texts"):
        of_arrays, frame = mfrank.Interactions.from_arrays, data.to_pandas()
        users, items = frame["user"] + 1, frame["item"] + 1
        if of == "texts":
            users, items = users.astype(str), items.astype(str)
        data = of_arrays(users, items)
    parts = mfrank.by_ratio(data, random_state=0)
    model = mfrank.Popularity().fit(parts.train)
    users, items = mfrank.by_activity(parts.train), mfrank.by_popularity(parts.train)
    if of == "labels by id":
        users = Groups.of(dict.fromkeys(data.user_ids.labels[::-1].tolist(), "a"))
        items = Groups.of(dict.fromkeys(data.item_ids.labels[::-1].tolist(), "a"))
    if of == "labels in order":
        users, items = Groups.of(["a"] * 40), Groups.of(["a"] * 60)
    right = mfrank.evaluate(model, parts.test, metrics=["recall@10"], item_groups=items)
    right.by_group(users)
    assert not caplog.messages
    wrong: list[Any] = [
        lambda: mfrank.evaluate(model, parts.test, metrics=["recall@10"], item_groups=users),
        lambda: right.by_group(items),
    ]
    for act, argument, remedy in zip(
        wrong, ("item_groups", "groups"), ("by_group", "item_groups"), strict=True
    ):
        caplog.clear()
        if of in ("rows", "labels in order"):
            with refuses(ValueError, argument, remedy=remedy):
                act()
        else:
            act()
            assert sum(remedy in each for each in caplog.messages) == 1
