"""What is known beside the models: what users have, of which model, and what it is worth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_site import client, data, models

import mfrank
from mfrank.pages.site import Site
from tests.support.errors import refuses

USERS = data().user_ids.labels.tolist()
ITEMS = data().item_ids.labels.tolist()


def train() -> mfrank.Interactions:
    return mfrank.by_ratio(data(), train=0.7, valid=0.0, test=0.3, random_state=0).train


USER = USERS[train().entry_users[train().user_items.indices == 0][0]]  # who has the first item


def site(*fitted: Any, of: mfrank.Interactions | None = None) -> Site:
    return Site({f"m{place}": each for place, each in enumerate(fitted)}, of, None)


def saved(model: Any, tmp_path: Path, **options: Any) -> Any:
    return mfrank.load(model.save(tmp_path / "model", **options))


def own(interactions: mfrank.Interactions, user: Any) -> dict[Any, float]:
    row = interactions.user_items[interactions.user_ids.rows([user])]
    return dict(
        zip(interactions.item_ids.raw(row.indices).tolist(), row.data.tolist(), strict=True)
    )


def test_what_was_fitted_is_seen_and_the_rest_of_the_data_is_held_out() -> None:
    als = models()["als"]
    shown = site(als, of=data())
    for user in USERS:
        has, every, fitted = shown.user_items(0, user), own(data(), user), own(train(), user)
        assert dict(has.seen) == {item: every[item] for item in fitted}
        assert dict(has.held_out) == {i: value for i, value in every.items() if i not in fitted}
        assert has.left_out == fitted.keys()
        for listed in (has.seen, has.held_out):
            order = [(-value, -shown.catalog.users_of(item)) for item, value in listed]
            assert order == sorted(order)


def test_without_data_the_fitted_items_have_no_values_the_popular_first() -> None:
    shown = site(models()["als"])
    has = shown.user_items(0, USER)
    assert dict(has.seen) == dict.fromkeys(own(train(), USER))
    assert has.held_out == []
    users = [shown.catalog.users_of(item) for item, _ in has.seen]
    assert users == sorted(users, reverse=True)
    assert not shown.has_values


def test_a_user_who_is_not_in_the_data_has_what_was_fitted() -> None:
    others = data().take(data().entry_users != USERS.index(USER))
    strangers = mfrank.Interactions.from_arrays(
        others.user_ids.labels[others.entry_users],
        others.item_ids.labels[others.user_items.indices],
    )
    assert USER not in strangers.user_ids
    has = site(models()["als"], of=strangers).user_items(0, USER)
    assert dict(has.seen) == dict.fromkeys(own(train(), USER))
    assert has.held_out == []


def test_of_a_model_without_histories_the_data_tell_what_a_user_has(tmp_path: Path) -> None:
    shown = site(saved(models()["als"], tmp_path, with_seen=False), of=data())
    has = shown.user_items(0, USER)
    assert dict(has.seen) == own(data(), USER)
    assert (has.held_out, has.left_out) == ([], set())
    best = shown.recommend(0, USER, 60)  # nothing is left out
    assert sorted(each["id"] for each in best) == sorted(ITEMS)


def test_items_without_a_value_come_after_those_that_have_one() -> None:
    fitted = sorted(own(train(), USER))
    some = mfrank.Interactions.from_arrays([USER] * 2, fitted[1:3], [0.25, 0.5])
    seen = site(models()["als"], of=some).user_items(0, USER).seen
    assert seen[:2] == [(fitted[2], 0.5), (fitted[1], 0.25)]
    assert {value for _, value in seen[2:]} == {None}


def test_what_is_only_seen_is_neither_history_nor_held_out() -> None:
    rated = train().at_least(3)
    model = mfrank.ALS(mfrank.WRMF(), factors=4, iterations=1, random_state=0).fit(rated)
    has, fitted = site(model, of=data()).user_items(0, USER), own(train(), USER)
    assert dict(has.seen) == {item: value for item, value in fitted.items() if value >= 3}
    assert has.left_out == fitted.keys()
    assert not has.left_out & dict(has.held_out).keys()


def test_values_are_told_where_they_differ() -> None:
    def shown(values: list[float]) -> bool:
        of = mfrank.Interactions.from_arrays(USERS[:3], ITEMS[:3], values)
        return site(models()["als"], of=of).has_values

    assert [shown([1, 1, 1]), shown([1, 2, 1]), shown([2, 1, 1])] == [False, True, True]


def test_data_of_others_are_refused_with_ids_of_both() -> None:
    als, knn = models().values()
    strangers = mfrank.Popularity().fit(mfrank.Interactions.from_arrays(["x"], ["y"]))
    for users, items in (([1, 2], ITEMS[:2]), (USERS[:2], [1, 2])):
        of = mfrank.Interactions.from_arrays(users, items)
        with refuses(ValueError, "data"):
            site(als, knn, of=of)
    for given in (data(), mfrank.Interactions.from_arrays(["x"], ["y"])):
        assert site(als, strangers, of=given).data is given
    later = next(item for item in own(data(), USER) if item not in own(train(), USER))
    some = mfrank.Interactions.from_arrays(["x", USER], ["y", later])
    assert site(als, of=some).user_items(0, USER).held_out == [(later, 1.0)]
    nothing = mfrank.Interactions.from_arrays(["x"], ["y"]).take(np.array([False]))
    assert not site(strangers, of=nothing).has_values


def counted(how: str, fitted: Any, tmp_path: Path) -> Any:
    """A model whose counts are known, or only its users' items, or neither."""
    if how == "counts":
        return saved(fitted, tmp_path, with_seen=False)
    fitted.save(tmp_path / "with")
    store = replace(mfrank.FactorStore.load(tmp_path / "with"), counts=None)
    if how == "neither":
        return mfrank.Recommender.of(replace(store, extras={}))
    store.save(tmp_path / "without")
    return mfrank.load(tmp_path / "without")


@pytest.mark.parametrize("how", ["counts", "items", "neither"])
def test_popularity_is_what_the_model_knows(tmp_path: Path, how: str) -> None:
    some = data().take(data().user_items.indices < len(ITEMS) - 1)  # the last item has no users
    fitted = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(some)
    shown = site(counted(how, fitted, tmp_path)).catalog
    expected = np.bincount(some.user_items.indices, minlength=len(ITEMS))
    if how == "neither":
        expected = np.zeros(len(ITEMS), dtype=np.int64)
    assert [shown.users_of(item) for item in ITEMS] == expected.tolist()


class Rated:
    """A fit to ratings, saved, and data that have all of them or some."""

    def __init__(self, objective: Any, tmp_path: Path, **options: Any) -> None:
        self.fitted = mfrank.ALS(objective, factors=4, iterations=2, random_state=0).fit(train())
        self.model, self.folder = saved(self.fitted, tmp_path, **options), tmp_path

    def agree(self, of: mfrank.Interactions | None) -> bool:
        """Whether the page of why has the score of the list and the parts of the fit's sum."""
        shown = client(self.folder, models={"m": self.model}, data=of, items=None)
        (first, *_) = shown.get(f"/user/{USER}?format=json").json()["items"]
        why = shown.get(f"/user/{USER}/why/{first['id']}?n=3&format=json").json()
        assert why["score"] == pytest.approx(first["score"], rel=1e-4)
        parts = self.fitted.explain(USER, None, first["id"], 3).contributions
        if "contributions" not in why:
            return False
        for one in (why["contributions"], first["because"]):
            assert [each["id"] for each in one] == [item for item, _ in parts][: len(one)] != []
        found = [each["contribution"] for each in why["contributions"]]
        assert found == pytest.approx([part for _, part in parts], rel=1e-3)
        return True


def of_users_items(some: slice) -> mfrank.Interactions:
    """The data with only some of what the user has."""
    fitted = list(own(train(), USER))[some]
    items = data().item_ids.labels[data().user_items.indices]
    kept = (data().entry_users != USERS.index(USER)) | np.isin(items, fitted)
    return data().take(kept)


@pytest.mark.parametrize("of", [None, data(), of_users_items(slice(3)), of_users_items(slice(0))])
def test_scores_are_explained_by_what_was_fitted_whatever_the_data_have(
    tmp_path: Path, of: mfrank.Interactions | None
) -> None:
    assert Rated(mfrank.IALS(), tmp_path).agree(of)
    rated = Rated(mfrank.WRMF(alpha=2), tmp_path / "wrmf")
    assert rated.agree(of)
    rated.model._hold(rated.fitted.store, rated.fitted.seen.matrix.astype(bool))  # as once saved
    assert rated.agree(of) == (of is data())


def test_a_model_that_has_its_values_needs_none(tmp_path: Path) -> None:
    rated = Rated(mfrank.WRMF(alpha=2), tmp_path)
    rated.model = rated.fitted
    other = mfrank.Interactions(data().user_items * 3, data().user_ids, data().item_ids)
    for of in (None, data(), other):
        assert rated.agree(of)


def test_values_of_the_data_explain_a_model_without_histories(tmp_path: Path) -> None:
    rated = Rated(mfrank.WRMF(alpha=2), tmp_path, with_seen=False)
    more = [*zip(train().entry_users, train().user_items.indices, strict=True)]
    users = [*data().user_ids.labels[[user for user, _ in more]], USER]
    items = [*data().item_ids.labels[[item for _, item in more]], "unknown"]
    of = mfrank.Interactions.from_arrays(users, items, [*train().user_items.data, 2.0])
    assert rated.agree(of)
    assert not rated.agree(None)


def test_a_world_is_made_anew_once_a_model_has_changed() -> None:
    model = mfrank.ALS(factors=3, iterations=1, random_state=0).fit(data())
    shown = Site({"als": model}, data(), None)
    assert shown.current() is shown
    model.fit(data())
    changed = shown.current()
    assert changed is not shown
    assert changed.current() is changed


def test_ids_may_have_every_character(tmp_path: Path) -> None:
    ids = ["a/b", "c?d=e&f", "g%2Fh", "i#j", "k l+", "ü\u20ac", ".a", '"<m>']
    users, items = ids * 4, [ids[(at * 3 + at // 8) % 8] for at in range(32)]
    both = mfrank.Interactions.from_arrays(users, items)
    site = client(tmp_path, models={"one": mfrank.Popularity().fit(both)}, data=both, items=None)
    home = site.get("/?format=json").json()
    for kind, told in (("user", home["users"]), ("item", home["popular"])):
        assert {each["id"] for each in told} == set(ids)
        for each in told:
            page = site.get(each["url"] + "?format=json").json()
            assert (page[kind] if kind == "user" else page[kind]["id"]) == each["id"]
