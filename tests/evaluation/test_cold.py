"""Cold users and items earn nothing from the numbering of items, and are counted."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from strangers import COLD_ITEMS, COLD_USERS, EVERY, N_ITEMS, N_USERS, held_out, model, train

import mfrank
from mfrank.cli.main import main
from mfrank.data import HeldOut

METRICS = ["ndcg@5", "recall@10", "hitrate@20", "auc", "auprc", "coverage@10"]


def renumbered(data: mfrank.Interactions, users: Any, items: Any) -> mfrank.Interactions:
    """The same interactions and ids, in rows of another order."""
    return mfrank.Interactions.from_arrays(
        data.user_ids.labels[data.entry_users],
        data.item_ids.labels[data.user_items.indices],
        data.user_items.data,
        data.timestamps,
        user_ids=data.user_ids.labels[users],
        item_ids=data.item_ids.labels[items],
    )


def shuffled(of: Any, users: Any, items: Any, data: mfrank.Interactions) -> Any:
    """The same model in rows of another order: its rows, or a fit that no random number is in."""
    if isinstance(of, mfrank.ItemKNN | mfrank.EASE | mfrank.ItemFilter | mfrank.SupervisedPageRank):
        return type(of)(**({"method": None} if hasattr(of, "method") else {})).fit(data)
    store = of.store
    sides = {
        "user_factors": store.user_factors[users],
        "item_factors": store.item_factors[items],
        "user_biases": None if store.user_biases is None else store.user_biases[users],
        "item_biases": None if store.item_biases is None else store.item_biases[items],
    }
    ids = {"user_ids": data.user_ids, "item_ids": data.item_ids}
    extras = {name: each for name, each in store.extras.items() if "weights" in name}
    return mfrank.FactorStore(
        **sides, **ids, counts=data.counts, fitter=store.fitter, extras=extras
    )


@pytest.mark.parametrize("negatives", [None, N_ITEMS])  # all others, so that none are drawn
@pytest.mark.parametrize("name", sorted(set(EVERY) - {"ItemBlend", "Popularity"}))
def test_the_numbering_of_users_and_items_changes_no_metric(name: str, negatives: Any) -> None:
    metrics, how = (METRICS[:3], {"negatives": negatives}) if negatives else (METRICS, {})
    values = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        users, items = rng.permutation(N_USERS), rng.permutation(N_ITEMS)
        if seed == 0:
            users, items = np.arange(N_USERS), np.arange(N_ITEMS)
        data, test = (renumbered(each, users, items) for each in (train(), held_out()))
        of = shuffled(model(name), users, items, data)
        result = mfrank.evaluate(of, test, train=data, metrics=metrics, **how)
        values.append([score.value for score in result.scores.values()])
        values[-1] += [result.known_users[metric].value for metric in metrics[:3]]
        values[-1] += [result.n_cold_users, result.n_cold_items, result.n_cold_interactions]
    np.testing.assert_allclose(values, [values[0]] * len(values), atol=1e-9)


def counts_as_cold(result: mfrank.Evaluation, users: Any, items: Any) -> None:
    """Check that these users and items are cold in an evaluation on :func:`held_out`."""
    test = held_out().user_items.toarray() > 0
    np.testing.assert_array_equal(result.cold_users, users[result.users])
    assert result.n_cold_users == int((test.any(axis=1) & users).sum())
    assert result.n_cold_items == int((test.any(axis=0) & items).sum())
    assert result.n_cold_interactions == int((test & (users[:, None] | items)).sum())


@pytest.mark.parametrize("name", EVERY)
def test_what_was_not_in_the_fit_is_counted(name: str) -> None:
    result = mfrank.evaluate(model(name), held_out(), metrics=METRICS)
    cold_user = np.isin(np.arange(N_USERS), COLD_USERS) & (name != "user features")
    counts_as_cold(result, cold_user, np.isin(np.arange(N_ITEMS), COLD_ITEMS))
    known = result.known_users
    np.testing.assert_array_equal(known.users, result.users[~result.cold_users])
    per_user = result["ndcg@5"].per_user
    assert known["ndcg@5"].value == pytest.approx(per_user[~result.cold_users].mean())
    told = json.loads(json.dumps(result.to_dict()))
    assert told["n_cold_users"] == result.n_cold_users
    if result.n_cold_users:
        assert told["metrics"]["NDCG@5"]["known_users"] == pytest.approx(known["ndcg@5"].value)
        assert "known users" in str(result)
        assert "known users" in result._repr_html_()


def by_rows(users: Any, user_items: Any, N: int) -> Any:
    return model("IALS").recommend(users, user_items, N, by_row=True)


class Wrapper:
    """A second stage: it ranks what a model of mfrank lists."""

    def __init__(self, first: mfrank.Recommender) -> None:
        self.model = first

    def recommend(self, users: Any, user_items: Any, N: int) -> Any:
        return self.model.recommend(users, user_items, N, by_row=True)


NOBODY, NOTHING = np.zeros(N_USERS, bool), np.zeros(N_ITEMS, bool)
COLD = np.isin(np.arange(N_USERS), COLD_USERS), np.isin(np.arange(N_ITEMS), COLD_ITEMS)


def with_features(side: str, size: int) -> mfrank.ALS:
    features: Any = {f"{side}_features": np.random.default_rng(0).random((size, 3)) + 0.1}
    return mfrank.ALS(factors=4, iterations=2, random_state=0).fit(train(), **features)


@pytest.mark.parametrize(
    ("of", "cold"),
    [
        (lambda: model("IALS").store, COLD),
        (lambda: with_features("user", N_USERS).store, (NOBODY, COLD[1])),
        (lambda: with_features("item", N_ITEMS).store, (COLD[0], NOTHING)),
        (lambda: Wrapper(with_features("user", N_USERS)), (NOBODY, COLD[1])),
        (lambda: by_rows, COLD),
    ],
    ids=["store", "user features", "item features", "second stage", "function"],
)
@pytest.mark.parametrize("form", ["Interactions", "matrix"])
def test_what_is_known_of_any_kind_of_model_is_counted(of: Any, cold: Any, form: str) -> None:
    data = train() if form == "Interactions" else train().user_items
    counts_as_cold(mfrank.evaluate(of(), held_out().user_items, train=data), *cold)


def test_of_factors_alone_rows_of_zeros_are_cold() -> None:
    rng = np.random.default_rng(0)
    bare = SimpleNamespace(
        user_factors=rng.random((N_USERS, 2)) * ~COLD[0][:, None],
        item_factors=rng.random((N_ITEMS, 2)) * ~COLD[1][:, None],
    )
    stores = mfrank.FactorStore(bare.user_factors, bare.item_factors)
    for of in (bare, stores, mfrank.Recommender.of(stores)):
        result = mfrank.evaluate(
            of, held_out().user_items, metrics="ndcg@5", filter_already_liked_items=False
        )
        counts_as_cold(result, *COLD)
    function = mfrank.evaluate(
        lambda users, rows, N: (np.tile(np.arange(N), (len(users), 1)), np.ones((len(users), N))),
        held_out().user_items,
        filter_already_liked_items=False,
    )
    counts_as_cold(function, NOBODY, NOTHING)  # for nothing is known of it


def test_who_came_after_the_fit_is_cold_though_train_has_them() -> None:
    """Later interactions are excluded from the ranking; the model learned nothing of them."""
    before = train().take((train().entry_users != 5) & (train().user_items.indices != 4))
    of = mfrank.ALS(factors=4, iterations=2, random_state=0).fit(before)
    users, items = COLD[0].copy(), COLD[1].copy()
    users[5] = items[4] = True
    counts_as_cold(mfrank.evaluate(of, held_out(), train=train()), users, items)


def test_who_has_nothing_to_be_folded_in_is_cold() -> None:
    some = train().entry_users % 3 == 0
    held = HeldOut(np.arange(N_USERS), train().take(some), held_out())
    result = mfrank.evaluate(model("IALS"), held)
    counts_as_cold(result, COLD[0] | (np.arange(N_USERS) % 3 > 0), COLD[1])


@pytest.mark.parametrize("name", ["IALS", "RG2", "BPR", "EASE", "ItemKNN", "blend", "ItemBlend"])
def test_a_cold_user_has_nothing_of_the_first_items(name: str) -> None:
    first = sp.csr_array((np.ones(3), ([0, 13, 29], [1, 1, 1])), shape=(N_USERS, N_ITEMS))
    result = mfrank.evaluate(model(name), first, metrics=["hitrate@20", "ndcg", "auc"])
    assert result["hitrate@20"].per_user.tolist() == [0, 0, 0]
    assert result["ndcg"].value == 0
    assert result["auc"].value == 0.5  # all items are tied
    assert np.isnan(result.known_users["ndcg"].value)


def test_items_of_nobody_are_ranked_below_all_others() -> None:
    unmet = sp.csr_array((np.ones(3), ([5, 5, 6], COLD_ITEMS)), shape=(N_USERS, N_ITEMS))
    for name in ("IALS", "RG2", "BPR", "EASE"):
        result = mfrank.evaluate(model(name), unmet, metrics=["hitrate@20", "auc"])
        assert result["hitrate@20"].value == 0
        assert result["auc"].value < 0.2
        assert (result.n_cold_users, result.n_cold_items, result.n_cold_interactions) == (0, 3, 3)


def test_popularity_ties_at_nothing_only_where_nobody_is() -> None:
    """Item k has k users, so that only the items of nobody tie."""
    had = np.triu(np.ones((6, 7)), 1)[:, ::-1]
    test = sp.csr_array(np.ones((6, 7)))
    values = []
    for items in (np.arange(7), np.arange(7)[::-1], np.array([3, 0, 6, 1, 5, 2, 4])):
        of = mfrank.Popularity().fit(sp.csr_array(had[:, items]))
        result = mfrank.evaluate(of, test, metrics=["ndcg@3", "hitrate@7"])
        values.append([score.value for score in result.scores.values()])
    np.testing.assert_allclose(values, [values[0]] * 3)


def test_workers_count_the_same() -> None:
    here = mfrank.evaluate(model("IALS"), held_out())
    there = mfrank.evaluate(model("IALS"), held_out(), cluster=1)
    assert here.to_dict() == there.to_dict()


def test_held_out_users_are_cold_if_nothing_is_folded_in() -> None:
    split = mfrank.held_out_users(train(), test=0.3, random_state=0)
    of = mfrank.ALS(factors=4, iterations=2, random_state=0).fit(split.train)
    result = mfrank.evaluate(of, split.test)
    assert result.n_users > 0
    assert result.n_cold_users == 0  # though none of them is in the fit


def test_bare_arrays_are_ranked_as_they_are() -> None:
    bare = SimpleNamespace(user_factors=np.zeros((2, 1)), item_factors=np.ones((4, 1)))
    test, had = sp.csr_array([[1.0, 0, 0, 0], [0, 0, 0, 1]]), sp.csr_array((2, 4))
    result = mfrank.evaluate(bare, test, train=had, metrics="hitrate@1")
    assert result["hitrate@1"].per_user.tolist() == [1, 0]


def test_early_stopping_judges_as_evaluate() -> None:
    stop = mfrank.EarlyStopping(held_out(), metric="ndcg@5", users=None)
    of = mfrank.ALS(mfrank.RG2(), factors=4, iterations=2, random_state=0)
    of.fit(train(), stopping=stop)
    best = max(record["valid"] for record in of.store.history)
    assert best == pytest.approx(mfrank.evaluate(of, held_out(), metrics="ndcg@5")["ndcg@5"].value)


def test_the_command_line_prints_and_writes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model("IALS").save(tmp_path / "model")
    users, items = held_out().user_items.nonzero()
    rows = [f"u{u:02},i{i:02}" for u, i in zip(users, items, strict=True)]
    (tmp_path / "test.csv").write_text("\n".join(["user,item", *rows]))
    line = ["evaluate", "--model", str(tmp_path / "model"), "--test", str(tmp_path / "test.csv")]
    assert main(line) == 0
    assert "known users" in capsys.readouterr().out
    assert main([*line, "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["n_cold_users"] > 0
    assert "known_users" in told["metrics"]["NDCG@10"]


def test_a_third_of_the_test_users_of_movietweetings_are_cold(data_dir: Path) -> None:
    data = mfrank.Interactions.from_file(
        data_dir / "movietweetings" / "ratings.dat", duplicates="last"
    )
    split = mfrank.by_time(data.at_least(7), test=0.2)
    of = mfrank.ALS(factors=8, iterations=2, random_state=0).fit(split.train)
    result = mfrank.evaluate(of, split.test, metrics=["ndcg@10", "hitrate@10"])
    cold = split.train.counts.users[result.users] == 0
    assert 0.2 < cold.mean() < 0.6
    assert result.n_cold_users == cold.sum()
    assert not result["hitrate@10"].per_user[cold].any()
    assert result.known_users["ndcg@10"].value > 1.2 * result["ndcg@10"].value


def test_compare_tells_of_cold_users() -> None:
    models = {"als": mfrank.ALS(factors=2, iterations=1), "knn": mfrank.ItemKNN()}
    compared = mfrank.compare(
        train(), held_out(), models=models, metrics=["ndcg@5"], repeats=1, peak_memory=False
    )
    assert any(note.startswith(f"{len(COLD_USERS)} of ") for note in compared.notes)
    record = compared["knn"].record()
    alone = mfrank.evaluate(mfrank.ItemKNN().fit(train()), held_out(), metrics="ndcg@5")
    assert record["NDCG@5"] == alone["ndcg@5"].value
    assert record["NDCG@5 known users"] == alone.known_users["ndcg@5"].value
