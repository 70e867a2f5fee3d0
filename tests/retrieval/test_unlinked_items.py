"""Places to which nothing leads are padding: in no list of any model, by no door, is the alphabet.

An item is unlinked where a sum over links from the user's items is exactly 0. Every listed item is
linked, and every linked item that the user does not have comes before any padding.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from engines import Shuffled
from hypothesis import given, settings
from hypothesis import strategies as st
from islands import (
    MODELS,
    N_ITEMS,
    N_USERS,
    UNMET,
    best,
    linked,
    model,
    of_two_parts,
    scores,
    train,
)

import mfrank
from mfrank.cli.main import main

USERS = [f"u{row:02}" for row in range(N_USERS)]
ITEMS = [f"i{row:02}" for row in range(N_ITEMS)]
N = 20
OF_ITEMS = ["ItemKNN", "EASE", "ItemFilter"]
WITH_FOLD_IN = [*OF_ITEMS, "walk", "Popularity"]


def of(lists: Any) -> list[list[str]]:
    """Lists without their padding, which is at their end, as None with a score of NaN."""
    ids, values = lists
    np.testing.assert_array_equal(np.equal(ids, None), np.isnan(values))
    ends = np.isnan(values).astype(int)
    assert (np.diff(ends, axis=1) >= 0).all()
    return [[each for each in row if each is not None] for row in ids.tolist()]


# --- the doors, each of which gives the list of every user


def by_one(name: str, folder: Path) -> Any:
    return [of([part[None] for part in model(name).recommend(user, N=N)])[0] for user in USERS]


def by_many(name: str, folder: Path) -> Any:
    return of(model(name).recommend(USERS, N=N))


def by_rows(name: str, folder: Path) -> Any:
    ids, values = model(name).recommend(np.arange(N_USERS), N=N, by_row=True)
    np.testing.assert_array_equal(ids == -1, np.isnan(values))
    return [[ITEMS[each] for each in row if each >= 0] for row in ids]


def by_given_history(name: str, folder: Path) -> Any:
    return of(model(name).recommend(USERS, train(), N=N))


def by_fold_in(name: str, folder: Path) -> Any:
    return of(model(name).recommend(USERS, train(), N=N, recalculate_user=True))


def by_items(name: str, folder: Path) -> Any:
    return of(model(name).recommend(USERS, N=N, items=ITEMS))


def by_loaded(name: str, folder: Path) -> Any:
    model(name).save(folder / "model")
    return of(mfrank.load(folder / "model", mmap=True).recommend(USERS, N=N))


def by_bare_store(name: str, folder: Path) -> Any:
    return of(mfrank.ItemBlend.of(model(name).store).recommend(USERS, train(), N=N))


def by_pools(name: str, folder: Path) -> Any:
    """Caps that hold nothing back: lists are chosen place by place, from pools."""
    roomy = mfrank.Steering(categories=dict.fromkeys(ITEMS, "all"), at_most=N_ITEMS)
    return of(model(name).recommend(USERS, N=N, steer=roomy))


def by_csv(name: str, folder: Path) -> Any:
    model(name).recommend_all(folder / "lists", N=N, format="csv")
    with open(folder / "lists" / "part-00000.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return [[row["item"] for row in rows if row["user"] == user] for user in USERS]


def by_parquet(name: str, folder: Path) -> Any:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the package pyarrow is optional")
    model(name).recommend_all(folder / "lists", N=N, cluster=Shuffled(2))
    rows = parquet.read_table(folder / "lists" / "part-00000.parquet").to_pylist()
    return [[row["item"] for row in rows if row["user"] == user] for user in USERS]


def by_command(name: str, folder: Path) -> Any:
    model(name).save(folder / "model")
    asked = ["recommend", "--model", str(folder / "model"), "--n", str(N)]
    assert main([*asked, "--output", str(folder / "lists.csv")]) == 0
    with open(folder / "lists.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return [[row["item"] for row in rows if row["user"] == user] for user in USERS]


def by_quick_get(name: str, folder: Path) -> Any:
    from clients import client

    api = client(model(name))
    return [_ids(api.get(f"/recommend/{user}?n={N}").json()) for user in USERS]


def by_get(name: str, folder: Path) -> Any:
    from clients import client

    api = client(model(name))
    return [_ids(api.get(f"/recommend/{user}?n={N}&on_unknown=skip").json()) for user in USERS]


def by_post(name: str, folder: Path) -> Any:
    from clients import client

    answer = client(model(name)).post("/recommend", json={"users": USERS, "n": N})
    return [_ids(each) for each in answer.json()["lists"]]


def by_liked_items(name: str, folder: Path) -> Any:
    from clients import client

    api, rows = client(model(name)), train().user_items
    lists = []
    for user in range(N_USERS):
        own = rows[[user]]
        asked = {"from_items": [ITEMS[item] for item in own.indices], "n": N}
        if name == "ItemKNN":
            asked["weights"] = own.data.tolist()
        lists.append(_ids(api.post("/recommend", json=asked).json()["lists"][0]))
    return lists


def by_pages(name: str, folder: Path) -> Any:
    pytest.importorskip("jinja2", reason="needs Jinja2: pip install mfrank[pages]")
    pytest.importorskip("httpx2", reason="needs httpx2, with which Starlette's test client asks")
    from starlette.testclient import TestClient

    from mfrank import pages

    site = TestClient(pages.app({"model": model(name)}, train()))
    assert site.get(f"/user/{USERS[0]}?n=100").status_code == 200
    return [_ids(site.get(f"/user/{user}?n={N}&format=json").json()) for user in USERS]


def by_onnx(name: str, folder: Path) -> Any:
    pytest.importorskip("onnx", reason="the package onnx is optional")
    runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is optional")
    session = runtime.InferenceSession(mfrank.to_onnx(model(name).store, folder / "m.onnx"))
    given = {
        "users": np.arange(N_USERS),
        "n": np.array([N]),
        "filtered": train().user_items.toarray() != 0,
    }
    ids, values, plain = session.run(["ids", "scores", "all_scores"], given)
    np.testing.assert_allclose(plain, scores(name), rtol=1e-5, atol=1e-6)
    return [
        [item for item, value in zip(*row, strict=True) if value > -np.inf]
        for row in zip(ids.tolist(), values.tolist(), strict=True)
    ]


def _ids(answer: dict[str, Any]) -> list[str]:
    assert all(np.isfinite(each["score"]) for each in answer["items"])
    return [each["id"] for each in answer["items"]]


DOORS: dict[Callable[[str, Path], Any], list[str]] = {
    **dict.fromkeys((by_one, by_many, by_rows, by_given_history, by_items, by_pools), MODELS),
    **dict.fromkeys((by_loaded, by_csv, by_parquet, by_command), MODELS),
    **dict.fromkeys((by_quick_get, by_get, by_post, by_pages), MODELS),
    by_fold_in: [name for name in WITH_FOLD_IN if name != "walk"],
    by_liked_items: [name for name in WITH_FOLD_IN if name != "walk"],
    by_bare_store: ["blend", "blend of three"],
    by_onnx: [name for name in MODELS if name != "walk"],
}
CASES = [(door, name) for door, models in DOORS.items() for name in models]


@pytest.mark.parametrize(
    ("door", "name"), CASES, ids=[f"{door.__name__}-{name}" for door, name in CASES]
)
def test_lists_end_where_nothing_leads(door: Any, name: str, tmp_path: Path) -> None:
    expected = best(name, N)
    assert min(map(len, expected)) < N - 3  # else nothing is tested
    got = door(name, tmp_path)
    if door is by_onnx:  # sums in another order: equal scores may be in another order
        assert [sorted(row) for row in got] == [sorted(row) for row in expected]
    else:
        assert got == expected


@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith("blend")])
def test_what_is_listed_has_a_score_and_what_is_not_has_0(name: str) -> None:
    """Of blends, too, but where factors lead to an item, their product may be any number."""
    expected = np.where(linked(name), scores(name) != 0, scores(name) == 0)
    assert expected.all()


def test_weights_below_0_are_links() -> None:
    values = scores("EASE")
    lists = by_many("EASE", Path())
    assert (values < 0).any()
    for user, row in enumerate(lists):
        unseen = train().user_items[[user]].toarray()[0] == 0
        below = {ITEMS[item] for item in np.flatnonzero((values[user] < 0) & unseen)}
        assert below == {each for each in row if values[user, ITEMS.index(each)] < 0}


def test_products_of_factors_may_be_0() -> None:
    """In a blend, an item to which factors lead is listed at any score, as by factors alone."""
    users, items = np.array([[1.0, 0], [0, 1]]), np.array([[0.0, 1], [1, 0], [0, 2], [3, 0]])
    data = mfrank.Interactions.from_sparse(sp.csr_array([[1, 1, 0, 0], [1, 1, 0, 0.0]]))
    store = mfrank.blend(mfrank.FactorStore(users, items), mfrank.ItemKNN().fit(data).store, 0.1)
    lists = mfrank.ItemBlend.of(store).recommend([0, 1], data, N=4)
    assert lists.ids.tolist() == [[3, 2, -1, -1], [2, 3, -1, -1]]
    assert lists.scores[0, 1] == lists.scores[1, 1] == 0


# --- any users and filters, against the dense matrix


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(MODELS),
    n=st.integers(1, N_ITEMS + 3),
    cells=st.sets(st.integers(0, N_ITEMS - 1)),
    keeps=st.booleans(),
    seen=st.booleans(),
)
def test_filters_and_lengths(name: str, n: int, cells: set[int], keeps: bool, seen: bool) -> None:
    allowed = np.isin(np.arange(N_ITEMS), [*cells]) == keeps
    items = [ITEMS[cell] for cell in sorted(cells)]
    lists = model(name).recommend(
        USERS,
        N=n,
        filter_already_liked_items=not seen,
        **{"items" if keeps else "filter_items": items},
    )
    assert of(lists) == best(name, n, seen=seen, allowed=allowed)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_sparse_data(data: Any) -> None:
    """Data of chance, with dislikes for ItemKNN, whose links may also cancel."""
    cells = data.draw(
        st.dictionaries(
            st.tuples(st.integers(0, 5), st.integers(0, 7)), st.sampled_from([1.0, 2.0, -1.0])
        ).filter(lambda found: any(value > 0 for value in found.values()))
    )
    table = np.zeros((6, 8))
    for at, value in cells.items():
        table[at] = value
    for of_items in (mfrank.ItemKNN(2), mfrank.EASE(1.0), mfrank.ItemFilter(neighbors=2)):
        given = mfrank.Interactions.from_sparse(sp.csr_array(table))
        fitted = of_items.fit(given)
        rows = table if isinstance(of_items, mfrank.ItemKNN) else (table > 0).astype(float)
        users, items = np.indices(table.shape)
        values = fitted.score(users.ravel(), items.ravel()).reshape(table.shape)
        np.testing.assert_allclose(values, rows @ fitted.similarity.toarray(), atol=1e-12)
        ids, _ = fitted.recommend(np.arange(6), N=5)
        for user in range(6):
            fits = (table[user] == 0) & (values[user] != 0) & (table > 0).any(axis=0)
            order = np.argsort(np.where(fits, -values[user], np.inf), kind="stable")
            expected = order[: min(5, fits.sum())].tolist()
            assert ids[user].tolist() == expected + [-1] * (5 - len(expected))


# --- neighbors


@pytest.mark.parametrize("name", [*OF_ITEMS, "walk"])
def test_similar_items_are_linked(name: str) -> None:
    lists = of(model(name).similar_items(ITEMS, N=N))
    assert lists[UNMET] == [ITEMS[UNMET]]
    for item, row in enumerate(lists):
        assert row[0] == ITEMS[item]
        assert {ITEMS.index(each) % 3 for each in row} == {item % 3}
        if name != "walk":
            near = model(name).similarity[[item]].toarray()[0]
            assert set(row[1:]) == {ITEMS[each] for each in np.flatnonzero(near)}


# --- what is given in a call


def test_walks_from_given_items_end_there_too() -> None:
    walk = model("walk")
    lists = of(walk.recommend(["new", "newer"], _rows([0, 3], [1]), N=N, recalculate_user=True))
    for row, part in zip(lists, (0, 1), strict=True):
        assert row
        assert {ITEMS.index(each) % 3 for each in row} == {part}


def _rows(*liked: list[int]) -> sp.csr_array:
    rows = np.zeros((len(liked), N_ITEMS))
    for user, items in enumerate(liked):
        rows[user, items] = 1
    return sp.csr_array(rows)


# --- popular items in these places, on request


def counts() -> np.ndarray:
    return np.diff(train().item_users.indptr)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n", [1, 5, N, N_ITEMS + 2])
def test_popular_items_follow_on_request(name: str, n: int) -> None:
    """After the linked ones, most popular first; scores are then numbers of users."""
    plain = model(name).recommend(USERS, N=n)
    filled = model(name).recommend(USERS, N=n, fallback="popularity")
    popular = np.argsort(-counts(), kind="stable")
    for user, (own, row) in enumerate(zip(of(plain), of(filled), strict=True)):
        had = {ITEMS[item] for item in train().user_items[[user]].indices}
        more = [ITEMS[item] for item in popular if counts()[item]]
        more = [item for item in more if item not in {*own, *had}]
        assert row == [*own, *more][:n]
        np.testing.assert_array_equal(
            filled.scores[user, : len(own)], plain.scores[user, : len(own)]
        )
        rest = filled.scores[user, len(own) : len(row)].tolist()
        assert rest == [counts()[ITEMS.index(item)] for item in row[len(own) :]]


@pytest.mark.parametrize("name", ["ItemKNN", "walk", "blend"])
def test_the_fallback_is_under_the_filters_and_boosts_of_the_call(name: str) -> None:
    how: dict[str, Any] = {"N": N, "fallback": "popularity"}
    only = ITEMS[:9]
    for row in of(model(name).recommend(USERS, items=only, **how)):
        assert set(row) <= set(only)
    raised = mfrank.Steering(boosts={ITEMS[4]: -900.0})
    for user, row in zip(USERS, of(model(name).recommend(USERS, steer=raised, **how)), strict=True):
        own = of(model(name).recommend([user], steer=raised, N=N))[0]
        assert row[: len(own)] == own
        assert ITEMS[4] not in row or ITEMS[4] in (*own, row[-1])


def test_caps_hold_for_whole_lists() -> None:
    """So lists that caps or a calibration choose stay as short as they are."""
    capped = mfrank.Steering(
        categories={item: row % 4 for row, item in enumerate(ITEMS)}, at_most=1
    )
    plain = model("ItemKNN").recommend(USERS, N=6, steer=capped)
    filled = model("ItemKNN").recommend(USERS, N=6, steer=capped, fallback="popularity")
    np.testing.assert_array_equal(filled.ids, plain.ids)


def test_unknown_users_among_short_lists_have_the_fallback() -> None:
    lists = model("ItemKNN").recommend(
        ["u00", "zoe"], N=N, on_unknown="skip", fallback="popularity"
    )
    alone = model("ItemKNN").recommend(["zoe"], N=N, on_unknown="skip", fallback="popularity")
    assert of(lists)[1] == of(alone)[0]
    assert of(lists)[0] == of(model("ItemKNN").recommend(["u00"], N=N, fallback="popularity"))[0]


# --- steering


@pytest.mark.parametrize("name", MODELS)
def test_a_penalty_links_nothing(name: str) -> None:
    """It says which of the linked items come first."""
    steer = mfrank.Steering(popularity_penalty=5.0, boosts={ITEMS[0]: -1.0, ITEMS[1]: 0.0})
    for row, expected in zip(
        of(model(name).recommend(USERS, N=N, steer=steer)), best(name, N), strict=True
    ):
        assert sorted(row) == sorted(expected)


@pytest.mark.parametrize("name", [*OF_ITEMS, "walk", "blend"])
def test_a_boost_lists_an_unlinked_item(name: str) -> None:
    """Its owner asks for the item; its score is the boost in deviations of the user's scores."""
    spread = scores(name).std(axis=1)
    had = train().user_items.toarray() != 0
    steer = mfrank.Steering(boosts={ITEMS[2]: 0.5, ITEMS[UNMET]: 900.0})
    lists = model(name).recommend(USERS, N=N, steer=steer)
    for user, (row, own) in enumerate(zip(of(lists), best(name, N), strict=True)):
        assert set(row) == ({*own} if had[user, 2] else {*own, ITEMS[2]})
        if not had[user, 2]:
            got = lists.scores[user, row.index(ITEMS[2])]
            assert got == pytest.approx(scores(name)[user, 2] + 0.5 * spread[user], rel=1e-5)


# --- judging and second stages


@pytest.mark.parametrize("name", MODELS)
def test_what_is_unlinked_is_no_hit(name: str) -> None:
    rng = np.random.default_rng(0)
    wanted = (rng.random((N_USERS, N_ITEMS)) < 0.4) & (train().user_items.toarray() == 0)
    test = mfrank.Interactions(
        sp.csr_array(wanted.astype(float)), train().user_ids, train().item_ids
    )
    found = mfrank.evaluate(
        model(name), test, train=train(), metrics=[mfrank.Recall @ 20, mfrank.AUC()]
    )
    hits = [
        len({ITEMS[item] for item in np.flatnonzero(wanted[user])} & set(row))
        for user, row in enumerate(best(name, N))
    ]
    some = wanted.sum(axis=1) > 0
    expected = np.array(hits)[some] / np.minimum(wanted.sum(axis=1), N_ITEMS)[some]
    assert found["recall@20"].value == pytest.approx(expected.mean())


def test_candidates_are_the_linked_items() -> None:
    """Neither lost nor gained by the second stage, which only orders them."""
    pytest.importorskip("catboost", reason="the extra rerank is not installed")
    rng = np.random.default_rng(1)
    for name in ("ItemKNN", "walk"):
        held_out = np.zeros((N_USERS, N_ITEMS))
        for user, row in enumerate(best(name, N)):
            if len(row) > 1:
                held_out[user, ITEMS.index(rng.choice(row))] = 1
        valid = mfrank.Interactions(sp.csr_array(held_out), train().user_ids, train().item_ids)
        reranker = mfrank.Reranker(model(name), candidates=N, iterations=3).fit(train(), valid)
        plain = reranker.recommend(USERS, N=N)
        assert [sorted(row) for row in of(plain)] == [sorted(row) for row in best(name, N)]
        filled = reranker.recommend(USERS, N=N, fallback="popularity")
        first = model(name).recommend(USERS, N=N, fallback="popularity")
        for own, row, whole in zip(of(plain), of(filled), of(first), strict=True):
            assert row == own + whole[len(own) :]


def test_a_search_weighs_blends_by_what_they_list() -> None:
    """An item-weight model alone earns nothing by items that only others list."""
    from mfrank.evaluation import Recall
    from mfrank.tuning import Shortlists, TrialJudge

    als = mfrank.ALS(mfrank.IALS(), factors=4, iterations=2, random_state=0).fit(train())
    far = np.zeros((N_USERS, N_ITEMS))
    for user in range(N_USERS):  # what is relevant is of another part
        far[user, (user + 1) % 3] = 1
    valid = mfrank.Interactions(sp.csr_array(far), train().user_ids, train().item_ids)
    judge = TrialJudge.of(train(), Recall @ N, 0, 1, valid)
    lists = Shortlists.of([als, model("ItemKNN")], judge)
    assert lists.value([0.0, 1.0]) == judge.score(model("ItemKNN")).value == 0
    assert lists.value([1.0, 0.0]) == pytest.approx(judge.score(als).value)
    assert judge.score(als).value > 0


def test_of_two_parts_has_no_factors_in_the_third() -> None:
    store = of_two_parts()
    assert not store.user_factors[2::3].any()
    assert not store.item_factors[2::3].any()
    assert json.loads(json.dumps(best("blend", N)[2]))  # linked by weights alone
