"""Supervised PageRank as an estimator: its walks by linear algebra, its contract, and learning."""

from __future__ import annotations

import dataclasses
import pickle
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from item_logs import N_ITEMS, log, random_log
from query_graphs import dense, random_graphs

import mfrank
from mfrank import ALS, MRR, FactorStore, Interactions, Recommender, SupervisedPageRank, with_prior
from mfrank.cli.main import main
from mfrank.pagerank import (
    GBN,
    GBP,
    GFN,
    Graphs,
    Problem,
    SquareLoss,
)
from tests.support.errors import refuses

ALPHA = SupervisedPageRank().alpha
UNTUNED = {"method": None, "tolerance": 1e-12}


def fitted(data: Any = None, **options: Any) -> SupervisedPageRank:
    return SupervisedPageRank(**(UNTUNED | options)).fit(random_log() if data is None else data)


def matrix(model: SupervisedPageRank) -> np.ndarray:
    """Probabilities of steps, as saved."""
    extras, n = model.store.extras, model.store.n_items
    return sp.csr_array((extras["steps"], extras["indices"], extras["indptr"]), (n, n)).toarray()


def walked(model: SupervisedPageRank, restarts: np.ndarray) -> np.ndarray:
    """Pi of pi = alpha pi0 + (1 - alpha) P' pi, solved."""
    steps = matrix(model)
    steps[~steps.any(axis=1)] = restarts
    n = len(restarts)
    return np.linalg.solve(np.eye(n) - (1 - ALPHA) * steps.T, ALPHA * restarts)


def restarts_of(model: SupervisedPageRank, items: list[int], recency: list[float]) -> np.ndarray:
    start = np.zeros(model.store.n_items)
    extras = model.store.extras
    start[items] = extras["bases"][items] + extras["recency"][0] * np.array(recency)
    return start / start.sum()


def last_items(data: Interactions, user: int, recent: int = 10) -> tuple[list[int], list[float]]:
    row = slice(*data.user_items.indptr[user : user + 2])
    order = np.argsort(-data.timestamps[row])[:recent]
    return data.user_items.indices[row][order].tolist(), [1 / (1 + p) for p in range(len(order))]


def test_walk_of_a_chain_is_known() -> None:
    """A -> b -> c for everyone: from a and from c there is one way to go."""
    model = fitted(log("abc", "abc", "ab"))
    # visits 3, 3, 2 and starts 3, 0, 0, each divided by its largest
    visits, starts = np.log1p([3, 3, 2]) / np.log1p(3), np.array([1.0, 0, 0])
    # from b: never taken to a, taken three times backwards, one of two ways, visits, starts
    to_a = 0 + 1 + 1 / 2 + visits[0] / (visits[0] + visits[2]) + 1
    to_c = 1 + 0 + 1 / 2 + visits[2] / (visits[0] + visits[2]) + 0
    from_b = np.array([to_a, 0, to_c]) / (to_a + to_c)
    np.testing.assert_allclose(matrix(model), [[0, 1, 0], from_b, [0, 1, 0]], atol=1e-15)
    bases = visits + starts
    np.testing.assert_allclose(model.store.extras["bases"], bases)
    np.testing.assert_allclose(model.item_prior, walked(model, bases / bases.sum()), atol=1e-12)
    # the last user: b counts 1 more, a 1/2 more
    start = (bases + np.array([0.5, 1, 0])) * [1, 1, 0]
    start /= start.sum()
    ids, scores = model.recommend(2, N=3, filter_already_liked_items=False)
    expected = walked(model, start)
    np.testing.assert_allclose(scores, np.sort(expected)[::-1], atol=1e-12)
    assert ids.tolist() == [["a", "b", "c"][at] for at in np.argsort(-expected)]
    assert model.recommend(2, N=1)[0].tolist() == ["c"]


@pytest.mark.parametrize("recent", [1, 3, 10])
def test_lists_are_the_walks_probabilities_sorted(recent: int) -> None:
    data = random_log()
    model = fitted(data, recent=recent)
    ids, scores = model.recommend(np.arange(data.n_users), N=N_ITEMS + 3)
    assert ids.shape == scores.shape == (data.n_users, N_ITEMS + 3)
    for user in range(data.n_users):
        expected = walked(model, restarts_of(model, *last_items(data, user, recent)))
        had = data.user_items[[user]].indices
        left = np.setdiff1d(np.arange(N_ITEMS - 1), had)
        n = len(left)
        assert set(ids[user, :n]) == set(left)
        assert (ids[user, n:] == -1).all()
        assert np.isnan(scores[user, n:]).all()
        np.testing.assert_allclose(scores[user, :n], expected[ids[user, :n]], atol=1e-11)
        assert (np.diff(scores[user, :n]) <= 0).all()


def test_filters() -> None:
    data, model = random_log(), fitted()
    everything, scores = model.recommend([0, 1], N=N_ITEMS, filter_already_liked_items=False)
    assert np.sort(everything).tolist() == [list(range(-1, N_ITEMS - 1))] * 2
    score = [dict(zip(*row, strict=True)) for row in zip(everything, scores, strict=True)]
    blocked, only = [[3, 4], [5]], [[2, 3, 6, 7], [0, 5, 8]]
    for block, allow, seen in product([None, [3, 4], blocked], [None, [2, 3, 6], only], (0, 1)):
        ids, listed = model.recommend([0, 1], None, 5, bool(seen), block, items=allow)
        for user in (0, 1):
            out = block[user] if block is blocked else block or []
            inside = allow[user] if allow is only else allow
            left = set(range(N_ITEMS - 1) if inside is None else inside) - set(out)
            left -= set(data.user_items[[user]].indices) if seen else set()
            best = sorted(left, key=lambda item: (-score[user][item], item))[:5]
            assert ids[user].tolist() == best + [-1] * (5 - len(best))
            np.testing.assert_array_equal(listed[user, : len(best)], [score[user][i] for i in best])


def test_user_items_say_what_is_filtered_or_what_a_walk_restarts_at() -> None:
    data, model = random_log(), fitted(recent=2)
    nothing = sp.csr_array((1, N_ITEMS))
    plain = model.recommend(3, N=N_ITEMS, filter_already_liked_items=False)
    np.testing.assert_array_equal(model.recommend(3, nothing, N_ITEMS)[1], plain[1])
    new = Interactions.from_arrays(
        [77] * 3, [4, 1, 8], timestamps=[5, 9, 7], item_ids=np.arange(N_ITEMS)
    )
    got = model.recommend(77, new, N_ITEMS, recalculate_user=True)
    expected = walked(model, restarts_of(model, [1, 8], [1, 0.5]))
    assert set(got[0][: N_ITEMS - 4]) == set(range(N_ITEMS - 1)) - {1, 4, 8}
    np.testing.assert_allclose(got[1][: N_ITEMS - 4], expected[got[0][: N_ITEMS - 4]], atol=1e-11)
    untimed = model.recommend(0, new.user_items, N_ITEMS, recalculate_user=True)
    expected = walked(model, restarts_of(model, [1, 4, 8], [1, 1, 1]))
    np.testing.assert_allclose(untimed[1][:8], expected[untimed[0][:8]], atol=1e-11)
    same = model.recommend(3, data, N_ITEMS, recalculate_user=True)
    np.testing.assert_array_equal(same, model.recommend(3, N=N_ITEMS))
    for call in (model.recommend, model.score):
        with refuses(ValueError, "userid"):
            call(77, 0)
    with refuses(ValueError, "recalculate_user"):
        model.recommend(3, recalculate_user=True)


def test_someone_without_items_gets_the_prior() -> None:
    data = random_log()
    mask = data.entry_users != 4
    model = fitted(data.take(mask))
    ids, scores = model.recommend(4, N=N_ITEMS - 1)
    np.testing.assert_allclose(scores, model.item_prior[ids], atol=1e-12)
    assert len(model.explain(4, None, int(ids[0])).paths) == 10


def test_similar_items_walk_from_the_item() -> None:
    model = fitted()
    ids, scores = model.similar_items([5, 0], N=N_ITEMS)
    for row, item in enumerate([5, 0]):
        expected = walked(model, np.eye(N_ITEMS)[item])
        assert ids[row, 0] == item
        assert sorted(ids[row]) == list(range(-1, N_ITEMS - 1))  # nobody has the last item
        np.testing.assert_allclose(scores[row, :-1], expected[ids[row, :-1]], atol=1e-11)
        assert (np.diff(scores[row, 1:-1]) <= 0).all()
    assert 5 not in model.similar_items(5, filter_items=[5], N=N_ITEMS)[0]


@pytest.mark.parametrize(("user", "item"), [(0, 3), (1, 3), (2, 0), (7, 10)])
def test_explanations_are_all_paths(user: int, item: int) -> None:
    data = random_log()
    model, steps = fitted(recent=3), matrix(fitted(recent=3))
    start = restarts_of(model, *last_items(data, user, 3))
    pi = walked(model, start)
    rate = ALPHA + (1 - ALPHA) * pi[~steps.any(axis=1)].sum()
    expected = {}
    for length in range(4):
        for middle in product(range(N_ITEMS), repeat=max(length - 1, 0)):
            for first in range(N_ITEMS) if length else [item]:
                path = (first, *middle, item) if length else (item,)
                chances = [(1 - ALPHA) * steps[a, b] for a, b in pairwise(path)]
                if mass := rate * start[first] * np.prod(chances):
                    expected[path] = mass
    score, paths = model.explain(user, None, item, N=10**6)
    assert score == pytest.approx(pi[item], abs=1e-11)
    assert {path.items for path in paths} == set(expected)
    for path in paths:
        assert path.mass == pytest.approx(expected[path.items], abs=1e-12)
    masses = [path.mass for path in paths]
    assert masses == sorted(masses, reverse=True)
    assert sum(masses) <= score + 1e-12
    assert model.explain(user, None, item, N=2).paths == paths[:2]


def test_masses_of_all_paths_sum_to_the_probability() -> None:
    """Where no walk has more than three steps."""
    graphs = Graphs.from_edges([0, 0, 1, 1, 2], [1, 2, 2, 3, 3], seeds="all", n_nodes=4)
    model = fitted(graphs)
    for item in range(4):
        score, paths = model.explain(0, None, item)
        assert sum(path.mass for path in paths) == pytest.approx(score, abs=1e-11)
    given = Interactions.from_arrays(["new"], [1], item_ids=np.arange(4))
    paths = model.explain("new", given, 3).paths
    assert [path.items for path in paths] == [(1, 3), (1, 2, 3)]


def test_saved_is_loaded(tmp_path: Path) -> None:
    method = GBP(iterations=3, random_state=1)
    model = SupervisedPageRank(method, loss=SquareLoss(0.01), random_state=0).fit(random_log())
    model.save(tmp_path / "model")
    for again in (
        mfrank.load(tmp_path / "model"),
        SupervisedPageRank.load(tmp_path / "model", mmap=True, verify=True),
    ):
        assert isinstance(again, SupervisedPageRank)
        assert again.get_params(deep=False).keys() == model.get_params(deep=False).keys()
        assert again.method == method
        assert again.loss.margin == 0.01
        np.testing.assert_array_equal(again.weights, model.weights)
        np.testing.assert_array_equal(again.item_prior, model.item_prior)
        for ask in (
            lambda m: m.recommend([0, 1, 2], N=5),
            lambda m: m.similar_items(3),
            lambda m: m.score([0, 5], [2, 3]),
        ):
            np.testing.assert_array_equal(ask(again), ask(model))
        assert again.explain(0, None, 3) == model.explain(0, None, 3)
    with refuses(ValueError, place="model", remedy=r"mfrank\.load loads any model"):
        ALS.load(tmp_path / "model")
    ALS(factors=2, iterations=1, random_state=0).fit(random_log()).save(tmp_path / "als")
    with refuses(ValueError, place="als", remedy=r"mfrank\.load loads any model"):
        SupervisedPageRank.load(tmp_path / "als")


def test_a_damaged_model_is_told(tmp_path: Path) -> None:
    store = fitted().store
    extras = {name: array for name, array in store.extras.items() if name != "bases"}
    bad = FactorStore(**{**vars(store), "extras": extras})
    bad.save(tmp_path / "bad")
    with refuses(
        ValueError, place="bad, the SupervisedPageRank saved with the store", remedy="restore it"
    ):
        mfrank.load(tmp_path / "bad")


def negative(array: Any) -> Any:
    return np.full_like(array, -1)


WALK_DAMAGE: list[tuple[str, Any, str]] = [
    ("indices", negative, r"steps\.indices must lie in 0"),
    ("indptr", lambda a: np.where(np.arange(len(a)) == 1, 2**40, a), r"steps\.indptr must"),
    ("steps", lambda a: a[1:].copy(), r"steps\.data must have a value for each"),
    ("steps", lambda a: a.astype(np.float32), "steps must be float64"),
    ("bases", lambda a: a * np.nan, "bases must be finite"),
    ("bases", lambda a: a[1:].copy(), r"steps\.indptr must have"),
    ("recency", lambda a: a[1:].copy(), "recency must be one number"),
    ("starts", lambda a: a * np.inf, "starts must be finite"),
    ("starts", lambda a: a[1:].copy(), "starts must be float64, each with"),
    ("starts_indices", negative, r"starts\.indices must lie in 0"),
    ("starts_indptr", negative, r"starts\.indptr must begin at 0"),
]


@pytest.mark.parametrize(("name", "damage", "message"), WALK_DAMAGE)
def test_a_damaged_walk_is_refused_before_anyone_walks(
    tmp_path: Path, name: str, damage: Any, message: str
) -> None:
    store = fitted().store
    extras = {**store.extras, name: damage(store.extras[name])}
    FactorStore(**{**vars(store), "extras": extras}).save(tmp_path / "bad")
    for mmap in (False, True)[: 1 if name.startswith("starts") else 2]:
        with pytest.raises(ValueError, match=f"saved with the store is damaged: {message}"):
            mfrank.load(tmp_path / "bad", mmap=mmap)


def test_starts_in_a_map_are_checked_when_they_are_asked_for(tmp_path: Path) -> None:
    store = fitted().store
    columns = store.extras["starts_indices"].copy()
    columns[-1] = 2**31 - 1  # of the last user
    extras = {**store.extras, "starts_indices": columns}
    FactorStore(**{**vars(store), "extras": extras}).save(tmp_path / "bad")
    mapped = mfrank.load(tmp_path / "bad", mmap=True)
    everything = {"filter_already_liked_items": False}
    assert mapped.recommend([0, 1], **everything)[0].shape == (2, 10)
    with refuses(ValueError, "starts"):
        mapped.recommend(store.n_users - 1, **everything)


def test_bits_depend_neither_on_threads_nor_on_who_else_asks() -> None:
    data = random_log(3, n_users=40)
    one, two = (
        SupervisedPageRank(GBN(iterations=5), random_state=0, n_threads=n).fit(data) for n in (1, 2)
    )
    np.testing.assert_array_equal(one.weights, two.weights)
    np.testing.assert_array_equal(one.item_prior, two.item_prior)
    everyone = one.recommend(np.arange(40), N=6, n_threads=1)
    np.testing.assert_array_equal(everyone, two.recommend(np.arange(40), N=6, n_threads=2))
    for user in (0, 17, 39):
        alone = one.recommend(user, N=6)
        np.testing.assert_array_equal(alone[0], everyone[0][user])
        np.testing.assert_array_equal(alone[1], everyone[1][user])


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
@pytest.mark.parametrize("method", [GBN(iterations=3), GBP(iterations=3)])
def test_backends_agree(method: Any, backend: str, request: pytest.FixtureRequest) -> None:
    """With its weights learned and its walks on the emulated GPU too."""
    if backend == "cuda":
        request.getfixturevalue("device")
    models = [
        SupervisedPageRank(method, random_state=0, backend=each).fit(random_log())
        for each in (backend, "reference")
    ]
    np.testing.assert_allclose(*[model.weights for model in models], rtol=1e-9)
    everyone = [model.recommend(np.arange(20), N=4)[1] for model in models]
    np.testing.assert_allclose(*everyone, rtol=0, atol=2 * models[0].tolerance)


def test_the_smallest_there_is() -> None:
    """Items that nobody goes on from, a list of no one, a model that travels."""
    model = fitted(log("a", "b", "b"))
    ids, scores = model.recommend([0, 1], N=2)
    assert ids.tolist() == [[None, None], [None, None]]
    np.testing.assert_array_equal(scores, np.full((2, 2), np.nan))
    assert model.score([0, 1], ["b", "a"]).tolist() == [0.0, 0.0]
    assert model.explain(0, None, "a").score == pytest.approx(1)
    assert model.explain(0, None, "b").paths == []
    assert model.recommend([], N=3)[0].shape == (0, 3)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.recommend(0, N=1)[1], model.recommend(0, N=1)[1])


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted()
    want = {"items": [[i % 11, (i + 3) % 11] for i in range(20)], "N": 3}
    whole = model.recommend(np.arange(20), **want), model.score([0, 5, 0], [1, 2, 3])
    monkeypatch.setattr("mfrank.retrieval.scored_lists._CELLS_AT_ONCE", 3 * N_ITEMS)
    np.testing.assert_array_equal(model.recommend(np.arange(20), **want), whole[0])
    np.testing.assert_array_equal(model.score([0, 5, 0], [1, 2, 3]), whole[1])


def test_scores_of_pairs_are_those_of_lists() -> None:
    model = fitted()
    ids, scores = model.recommend(3, N=4)
    np.testing.assert_array_equal(model.score([3] * 4, ids), scores)
    with refuses(ValueError, remedy="pass one item"):
        model.score([0, 1], [0])


def planted(seed: int = 2, n_users: int = 150, n_items: int = 60) -> Any:
    """Users roam, but their last two items are of the good ones."""
    rng = np.random.default_rng(seed)
    good = np.arange(n_items) < 2 * n_items // 5
    rows = []
    for user in range(n_users):
        first, *ends = rng.choice(np.flatnonzero(good), 3, replace=False)
        roamed = rng.permutation([first, *rng.choice(np.flatnonzero(~good), 5, replace=False)])
        rows += [(user, item, time) for time, item in enumerate([*roamed, *ends])]
    users, items, times = np.array(rows).T
    data = Interactions.from_arrays(users, items, timestamps=times, shape=(n_users, n_items))
    return mfrank.leave_last(data), good[:, None].astype(float)


def quality(model: SupervisedPageRank, split: Any) -> float:
    found = mfrank.evaluate(model.recommend, split.test, train=split.train, metrics=MRR @ 10)
    return found[MRR @ 10].value


@pytest.mark.parametrize("method", [GBN(), GFN(smoothness=1e-3, iterations=60)])
def test_learned_weights_rank_next_items_better(method: Any) -> None:
    split, good = planted()
    untuned = SupervisedPageRank(None).fit(split.train, item_features=good)
    learned = SupervisedPageRank(method, random_state=0).fit(split.train, item_features=good)
    assert learned.store.history[-1]["objective"] < learned.store.history[0]["objective"]
    assert quality(learned, split) > 1.5 * quality(untuned, split)


def test_labels_of_interactions_are_learned_from() -> None:
    split, good = planted()
    options = {"queries": 40, "random_state": 0}
    likes = SupervisedPageRank(GBN(iterations=20), **options)
    likes.fit(split.train, split.test, item_features=good)
    bad = sp.csr_array(np.outer(np.ones(split.train.n_users), 1 - good[:, 0]))
    bad = bad.multiply(split.train.user_items.toarray() == 0).tocsr()
    dislikes = SupervisedPageRank(GBN(iterations=20), **options)
    dislikes.fit(split.train, sp.csr_array(bad), item_features=good)
    # the last feature of an edge is its target being good
    assert likes.weights[-1] > 1 > dislikes.weights[-1]


def test_graphs_are_learned_and_walked() -> None:
    graphs = random_graphs(sizes=(25,))
    model = SupervisedPageRank(
        GBN(iterations=10), alpha=0.15, loss=SquareLoss(0.05), tolerance=1e-12
    )
    model.fit(graphs.with_labels(np.full(25, np.nan)), graphs.labels)
    learned = [
        s for s in GBN(iterations=10).learn(Problem.of(graphs, SquareLoss(0.05))) if s.is_best
    ]
    np.testing.assert_array_equal(model.weights, learned[-1].weights)
    truth = dense(graphs, model.weights).values
    ids, scores = model.recommend(0, N=25, filter_already_liked_items=False)
    np.testing.assert_allclose(scores, truth[ids], atol=1e-11)
    assert not np.isin(model.recommend(0, N=25)[0], graphs.seeds).any()


def test_graphs_of_several_queries_are_laid_over_each_other() -> None:
    graphs = Graphs.from_edges(
        [0, 0, 3, 4], [1, 2, 4, 5], seeds=[0, 3], query_of=[0, 0, 0, 1, 1, 1]
    )
    model = SupervisedPageRank(None, alpha=0.15).fit(graphs)
    np.testing.assert_allclose(matrix(model), [[0, 2 / 3, 1 / 3], [0, 0, 1], [0, 0, 0]])
    assert model.recommend([0, 1], N=3)[0].tolist() == [[2, 1, -1]] * 2


def test_a_bare_store_is_refused_but_its_prior_is_read() -> None:
    """It would rank by the prior, and not by the walk."""
    model = fitted()
    with refuses(ValueError, "store", remedy="rank by the model itself"):
        Recommender.of(model.store)
    with refuses(ValueError, "store", remedy="pass the model itself"):
        mfrank.evaluate(model.store, random_log(), filter_already_liked_items=False)


def test_prior_is_blended_with_factors() -> None:
    data, walk = random_log(), fitted()
    als = ALS(factors=3, iterations=2, random_state=0).fit(data)
    blended = with_prior(with_prior(als.store, 0.25, walk.store), 0.25)
    logs = np.log(walk.item_prior[:-1])
    np.testing.assert_allclose(blended.item_biases[:-1], 0.5 * logs, rtol=1e-5)
    assert np.isfinite(blended.item_biases).all()
    assert blended.item_biases.argmin() == N_ITEMS - 1
    served = Recommender.of(blended)
    plain, more = (m.score([0, 1], [2, 3]) for m in (als, served))
    np.testing.assert_allclose(more - plain, 0.5 * logs[[2, 3]], rtol=1e-4)
    assert als.store.item_biases is None
    with refuses(ValueError, "item_prior", remedy="store has one"):
        with_prior(als.store, 1.0)
    nothing = dataclasses.replace(walk.store, item_prior=0 * walk.item_prior)
    with refuses(ValueError, "item_prior"):
        with_prior(als.store, 1.0, nothing)
    with refuses(ValueError, "prior"):
        with_prior(als.store, 1.0, fitted(log("abc")).store)
    with refuses(ValueError, "weight"):
        with_prior(als.store, -1.0, walk.store)
    with refuses(TypeError, "prior"):
        with_prior(als.store, 1.0, walk)  # type: ignore[arg-type]
    with refuses(TypeError, "store"):
        with_prior(als, 1.0, walk.store)  # type: ignore[arg-type]


def test_evaluation_of_the_walk_is_full_ranking() -> None:
    data = random_log()
    split = mfrank.leave_last(data)
    model = fitted(split.train)
    found = mfrank.evaluate(model.recommend, split.test, train=split.train, metrics=MRR @ 20)
    ranks = []
    for user in range(data.n_users):
        expected = walked(model, restarts_of(model, *last_items(split.train, user)))
        expected[split.train.user_items[[user]].indices] = -1
        item = split.test.user_items[[user]].indices[0]
        ranks.append(1 + (expected > expected[item] + 1e-12).sum())
    whole = mfrank.evaluate(model, split.test, train=split.train, metrics=MRR @ 20)
    assert whole[MRR @ 20].value == found[MRR @ 20].value
    assert found[MRR @ 20].value == pytest.approx(np.mean(1 / np.array(ranks)), abs=1e-9)


@pytest.mark.parametrize(
    ("options", "error", "argument"),
    [
        ({"method": "gbn"}, TypeError, "method"),
        ({"loss": "square"}, TypeError, "loss"),
        ({"loss": SquareLoss({(0, 1): 0.1})}, ValueError, "loss"),
        ({"alpha": 1.5}, ValueError, "alpha"),
        ({"accuracy": "high"}, ValueError, "accuracy"),
        ({"recent": 0}, ValueError, "recent"),
        ({"queries": 0}, ValueError, "queries"),
        ({"tolerance": 0.0}, ValueError, "tolerance"),
        ({"gap": -1}, ValueError, "gap"),
        ({"backend": "abacus"}, ValueError, "backend"),
        ({"n_threads": -1}, ValueError, "n_threads"),
        ({"random_state": "seven"}, TypeError, "random_state"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], error: Any, argument: str) -> None:
    with refuses(error, argument):
        SupervisedPageRank(**options)


def test_what_cannot_be_learned_from_is_refused() -> None:
    data, model = random_log(), SupervisedPageRank()
    with refuses(ValueError, "data"):
        model.fit(data.user_items)
    with refuses(ValueError, "data"):
        model.fit(Interactions.from_arrays([0, 0], [0, 1], [1, -1], [1, 2]))
    with refuses(ValueError, "method", remedy="pass labels"):
        model.fit(log("a", "b"))
    with refuses(ValueError, "labels"):
        model.fit(data, sp.csr_array((3, 3)))
    with refuses(TypeError, "labels"):
        model.fit(data, [1, 2])
    with refuses(ValueError, "item_features"):
        model.fit(data, item_features=np.ones((3, 1)))
    with refuses(TypeError, "callback"):
        model.fit(data, callback=1)  # type: ignore[arg-type]
    unlabeled = Graphs.from_edges([0], [1], seeds=[0])
    with refuses(ValueError, remedy="at least two different ones"):
        model.fit(unlabeled)
    with refuses(ValueError, "item_features", remedy="graphs have their own"):
        model.fit(unlabeled, item_features=np.ones((2, 1)))
    with refuses(ValueError, "seeds", remedy="at least one node"):
        model.fit(Graphs.from_edges([0], [1], seeds=[]))
    with pytest.raises(mfrank.NotFittedError):
        model.recommend(0)
    for call in (fitted().recommend_users, fitted().similar_users):
        with refuses(TypeError, remedy="use (recommend|similar_items)"):
            call(0)


def test_callback_stops_learning_and_options_can_be_cloned() -> None:
    seen: list[int] = []
    model = SupervisedPageRank(GBP(iterations=9, tolerance=0.0), random_state=0)
    model.fit(random_log(), callback=lambda step, seconds, loss: seen.append(step) or step == 1)
    assert seen == [0, 1]
    assert len(model.store.history) == 2
    model.set_params(method__iterations=4, alpha=0.3)
    assert (model.method.iterations, model.alpha) == (4, 0.3)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, folder = random_log(), str(tmp_path / "walk")
    columns = data.entry_users, data.user_items.indices, data.timestamps
    table = np.column_stack(columns)
    lines = ["user,item,timestamp", *(",".join(map(str, row)) for row in table.tolist())]
    (tmp_path / "clicks.csv").write_text("\n".join(lines))
    call = ["pagerank", str(tmp_path / "clicks.csv"), "--model", folder, "--recent", "2"]
    assert main([*call, "--method", "gbp:iterations=3", "--random-state", "0"]) == 0
    assert "1 step to a loss of" in capsys.readouterr().out
    model = mfrank.load(folder)
    assert isinstance(model, SupervisedPageRank)
    assert (model.recent, model.method) == (2, GBP(iterations=3))
    assert main(["recommend", "--model", folder, "--user", "3", "--n", "2"]) == 0
    listed = capsys.readouterr().out.splitlines()[1:]
    assert [int(line.split(",")[2]) for line in listed] == model.recommend(3, N=2)[0].tolist()
    assert main([*call, "--untuned"]) == 0
    assert "untuned" in capsys.readouterr().out
    assert main([*call, "--untuned", "--method", "gbn"]) == 2
