"""What a Reranker's fit counts and hands on, and which arguments reach its first stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import als
from rerankers import CATBOOST, N_ITEMS, N_USERS, fitted, random_split, small

import mfrank
from mfrank.data import Counts
from mfrank.models import (
    FEATURES,
    FirstLists,
    HeldOutOfUsers,
    ListedUsers,
    in_rows_of,
    pair_features,
)
from mfrank.models.reranker import pairs
from tests.support.errors import refuses


def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The named arguments of every call of the first stage."""
    calls, recommend = list[dict[str, Any]](), mfrank.ALS.recommend

    def watched(self: Any, *given: Any, **named: Any) -> Any:
        calls.append(named)
        return recommend(self, *given, **named)

    monkeypatch.setattr(mfrank.ALS, "recommend", watched)
    return calls


def test_the_first_stage_is_asked_with_the_callers_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reranker, _ = fitted()
    calls = asked(monkeypatch)
    reranker.recommend(["u1", "stranger"], on_unknown="skip", n_threads=2)
    (plain,) = calls
    assert plain == {
        "by_row": False,
        "on_unknown": "skip",
        "fallback": "none",
        "n_threads": 2,
    }
    calls.clear()
    reranker.recommend([1, 2], by_row=True, fallback="popularity")
    assert [each["fallback"] for each in calls] == ["popularity", "none"]
    assert all(each["by_row"] for each in calls)


def test_a_fit_asks_its_first_stage_on_the_threads_it_may_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("catboost", reason=CATBOOST)
    split = random_split()
    reranker = small(als().fit(split.train), n_threads=2)
    calls = asked(monkeypatch)
    reranker.fit(split.train, split.valid)
    assert {each["n_threads"] for each in calls} == {2}


def test_what_was_found_counts_items_that_the_model_does_not_know() -> None:
    pytest.importorskip("catboost", reason=CATBOOST)
    split = random_split()
    model = als().fit(split.train)
    known = small(model).fit(split.train, split.valid)
    valid = split.valid
    more = mfrank.Interactions.from_arrays(
        [*valid.user_ids.raw(valid.entry_users), "u1", "u1", "stranger"],
        [*valid.item_ids.raw(valid.user_items.indices), "new", "newer", "new"],
    )
    found = small(model).fit(split.train, more).found
    assert found._replace(items=0) == known.found._replace(items=0)
    assert found.items == known.found.items + 2  # of users of the model
    assert 0 < found.items_found < found.items
    assert known.seen is model.seen


def test_users_all_of_whose_candidates_are_held_out_teach_nothing() -> None:
    split = random_split()
    model = als().fit(split.train)
    likes = sp.lil_array(split.valid.user_items > 0, dtype=np.float32)
    best, _ = model.recommend(5, N=3, by_row=True)
    likes[5] = 0
    likes[5, best] = 1
    seen = in_rows_of(model.store, split.train, "train")
    held = HeldOutOfUsers.of(likes.tocsr(), seen, model.store)
    given = pairs.GivenFeatures.of(None, None, model.store)
    taught = pairs.training_pairs(model, 3, seen, held, given, n_threads=1)
    assert 5 in held.users
    assert 5 not in taught.users


def test_users_are_folded_in_by_id_and_by_row_alike() -> None:
    reranker, split = fitted()
    by_id = reranker.recommend(["u7", "u3"], split.train, N=5, recalculate_user=True)
    by_row = reranker.recommend([7, 3], split.train, N=5, recalculate_user=True, by_row=True)
    np.testing.assert_array_equal(reranker.model.item_ids.raw(by_row.ids), by_id.ids)
    np.testing.assert_array_equal(by_row.scores, by_id.scores)


def test_options_are_checked_again_where_they_are_used() -> None:
    reranker, split = fitted()
    with refuses(TypeError, "model"):
        reranker.over(reranker.model.store)  # type: ignore[arg-type]
    reranker.depth = 0
    with refuses(ValueError, "depth"):
        reranker.fit(split.train, split.valid)


def test_features_have_the_names_of_their_side() -> None:
    split = random_split()
    model = als().fit(split.train)
    of_users, of_items = np.ones((N_USERS, 2)), np.ones((N_ITEMS, 1))
    given = pairs.GivenFeatures.of(of_users, of_items, model.store)
    assert given.names == ["user_feature_0", "user_feature_1", "item_feature_0"]
    for features, argument in (
        ((of_items, None), "user_features"),
        ((None, of_users), "item_features"),
    ):
        with refuses(ValueError, argument):
            pairs.GivenFeatures.of(*features, model.store)
    others = als().fit(split.train.user_items)
    for features in ((of_users, None), (None, of_items)):
        own = pairs.GivenFeatures.of(*features, model.store)
        with refuses(ValueError, "model", remedy="fit again"):
            own.check(others.store)


def test_a_lone_interaction_is_all_of_them() -> None:
    store = mfrank.FactorStore(
        np.ones((1, 1)), np.ones((1, 1)), counts=Counts(np.array([1]), np.array([1]))
    )
    lists = FirstLists(np.array([[0]]), np.array([[1.0]]))
    features = pair_features(store, ListedUsers(store.user_factors, store.counts.users), lists)
    assert dict(zip(FEATURES, features[0], strict=True))["prior"] == 1.0


def test_values_that_are_not_read_or_below_the_threshold_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    split = random_split()
    rated = split.train.weighted(np.full(split.train.nnz, 5.0))
    model = als().fit(rated.at_least(4))
    valid = split.valid.weighted(np.arange(split.valid.nnz) % 5 + 1.0)
    seen = in_rows_of(model.store, split.train, "train")
    caplog.clear()
    held = HeldOutOfUsers.of(valid, seen, model.store)
    told = [record.getMessage() for record in caplog.records]
    assert any(
        line.startswith("Reranker does not read values, which go from 1 to 5") for line in told
    )
    below = int((valid.user_items.data < 4).sum())
    assert any(
        f"valid has {below} values below 4" in line and "count as hits" in line for line in told
    )
    assert held.relevant.nnz == valid.nnz
    caplog.clear()
    HeldOutOfUsers.of(valid.at_least(4), seen, model.store)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_what_was_only_seen_in_training_is_seen_and_may_be_held_out() -> None:
    """A zero in train is a contact without a like: a later like of it is news."""
    split = random_split()
    model = als().fit(split.train)
    valid = split.valid
    cells = valid.user_ids.raw(valid.entry_users), valid.item_ids.raw(valid.user_items.indices)
    liked = split.train
    train = mfrank.Interactions.from_arrays(
        [*liked.user_ids.raw(liked.entry_users), *cells[0]],
        [*liked.item_ids.raw(liked.user_items.indices), *cells[1]],
        np.repeat([1.0, 0.0], [liked.nnz, valid.nnz]),
    )
    seen = in_rows_of(model.store, train, "train")
    assert seen.nnz == liked.nnz + valid.nnz
    assert np.count_nonzero(seen.data) == liked.nnz
    assert HeldOutOfUsers.of(valid, seen, model.store).relevant.nnz == valid.nnz


@pytest.mark.parametrize("side", ["user", "item"])
def test_row_numbers_are_no_ids_of_a_model_that_has_other_numbers(side: str) -> None:
    split = random_split(names=False)
    own = {f"{side}_ids": np.arange({"user": N_USERS, "item": N_ITEMS}[side]) + 1}
    train = mfrank.Interactions.from_sparse(split.train.user_items, **own)
    model = als().fit(train)
    seen = in_rows_of(model.store, train, "train")
    for ask, argument in (
        (lambda: HeldOutOfUsers.of(split.valid, seen, model.store), "valid"),
        (lambda: in_rows_of(model.store, split.train, "train"), "train"),
    ):
        with refuses(mfrank.UnknownIdError, argument, remedy=f"the {side}s of {argument}"):
            ask()


def test_a_fit_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CatBoost makes a folder where it is called, unless it is told not to."""
    monkeypatch.chdir(tmp_path)
    fitted()
    assert not [*tmp_path.iterdir()]
