"""The walk on items of all queries: its steps and restarts by dense arithmetic, and saved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from query_graphs import WALKER, random_graphs, random_weights

import mfrank
from mfrank.pagerank import Graphs, ItemWalk, heaviest_paths, item_walk, with_prior
from tests.support.errors import refuses

N_ITEMS = 28
"""More than the pages of the graphs; all their queries have the first three."""


def graphs() -> Graphs:
    """With two edges that weigh nothing."""
    made = random_graphs(3)
    features = made.edge_features.copy()
    alone = made.links.counts[made.sources] == 1
    features[np.flatnonzero(~alone)[[0, 9]]] = 0
    return replace(made, edge_features=features)


def merged(of: Graphs, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of steps and weights of items, edge by edge and node by node."""
    m1 = of.n_features[0]
    steps, bases, nodes = np.zeros((N_ITEMS, N_ITEMS)), np.zeros(N_ITEMS), np.zeros(N_ITEMS)
    for edge, (a, b) in enumerate(zip(of.sources, of.links.indices, strict=True)):
        steps[of.pages[a], of.pages[b]] += weights[m1:] @ of.edge_features[edge]
    for node, page in enumerate(of.pages):
        bases[page] += weights[:m1] @ of.node_features[node]
        nodes[page] += 1
    sums = steps.sum(axis=1, keepdims=True)
    return steps / np.where(sums > 0, sums, 1), bases / np.maximum(nodes, 1)


def walk(**changes: Any) -> ItemWalk:
    of = graphs()
    made = ItemWalk.of(of, random_weights(of, 3), N_ITEMS, has_recency=True)
    return replace(made, **changes)


@pytest.mark.parametrize("has_recency", [False, True])
def test_graphs_of_all_queries_are_laid_over_each_other_with_their_weights(
    has_recency: bool,
) -> None:
    of = graphs()
    weights = random_weights(of, 3)
    made = ItemWalk.of(of, weights, N_ITEMS, has_recency=has_recency)
    steps, bases = merged(of, weights)
    np.testing.assert_allclose(made.steps.toarray(), steps, atol=1e-15)
    np.testing.assert_allclose(made.bases, bases, rtol=1e-12)
    assert made.steps.data.all()  # what weighs nothing is no step
    assert made.recency == (weights[of.n_features[0] - 1] if has_recency else 0.0)
    assert made.n_items == N_ITEMS
    np.testing.assert_array_equal(made.dangling, ~steps.any(axis=1))


def test_restarts_weigh_items_and_their_recency() -> None:
    """Equally where nothing has a weight; rows without items stay without."""
    made = walk(bases=np.array([0.1, 0.3, 0, 0] + [0] * (N_ITEMS - 4)), recency=0.05)
    recencies = sp.csr_array(
        (np.array([1.0, 0.5, 1, 0.0, 0.0, 2.0]), [0, 1, 2, 2, 3, 0], [0, 3, 3, 5, 6]), (4, N_ITEMS)
    )
    expected = np.zeros((4, N_ITEMS))
    expected[0, :3] = np.array([1.5, 3.25, 0.5]) / 5.25
    expected[2, 2:4] = 0.5
    expected[3, 0] = 1.0
    np.testing.assert_allclose(made.starts(recencies).toarray(), expected, rtol=1e-15)


@pytest.mark.parametrize("empty", [[], [1], [0, 2], [0, 1, 2]])
def test_rows_without_restarts_begin_at_items_by_their_weights(empty: list[int]) -> None:
    made = walk()
    begin = np.random.default_rng(1).random((3, N_ITEMS))
    begin[empty] = 0
    expected = begin / np.maximum(begin.sum(axis=1, keepdims=True), 1e-9)
    begin = expected.copy()
    expected[empty] = made.bases / made.bases.sum()
    found = made.rank(sp.csr_array(begin), 1e-12, WALKER)
    for row, restarts in zip(found, expected, strict=True):
        steps = made.steps.toarray()
        steps[made.dangling] = restarts
        keep = 1 - WALKER.alpha
        system = np.eye(N_ITEMS) - keep * steps.T
        np.testing.assert_allclose(
            row, np.linalg.solve(system, WALKER.alpha * restarts), atol=1e-11
        )
    if empty == [0, 1, 2]:
        np.testing.assert_allclose(made.prior(WALKER), found[0], atol=1e-11)


@pytest.mark.parametrize("n_rows", [0, 1, 9, 10, 11])
def test_blocks_are_all_rows_in_turn(n_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_walk, "_CELLS_AT_ONCE", 5 * N_ITEMS + 1)
    blocks = list(walk().blocks(n_rows))
    rows = [row for block in blocks for row in range(n_rows)[block]]
    assert rows == list(range(n_rows))
    assert max((block.stop - block.start for block in blocks), default=0) <= 5
    monkeypatch.setattr(item_walk, "_CELLS_AT_ONCE", 1)
    assert len(list(walk().blocks(n_rows))) == n_rows


def test_arrays_are_the_walk() -> None:
    made = walk()
    again = ItemWalk.from_arrays(made.to_arrays())
    np.testing.assert_array_equal(again.steps.toarray(), made.steps.toarray())
    np.testing.assert_array_equal(again.bases, made.bases)
    assert again.recency == made.recency
    assert {name: array.dtype for name, array in made.to_arrays().items()} == {
        "indptr": np.int64,
        "indices": np.int32,
        "steps": np.float64,
        "bases": np.float64,
        "recency": np.float64,
    }


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("steps", lambda a: a.astype(np.float32), "steps must be float64"),
        ("steps", lambda a: a * np.inf, "steps must be finite"),
        ("bases", lambda a: a[None], "bases must be float64 of shape"),
        ("bases", lambda a: a * np.nan, "bases must be finite"),
        ("recency", lambda a: np.zeros(2), "recency must be one number, got 2"),
        ("recency", lambda a: a * np.nan, "recency must be finite"),
        ("indices", lambda a: a + N_ITEMS, r"steps\.indices must lie in"),
        ("indptr", lambda a: a[:-1], r"steps\.indptr must"),
        ("steps", lambda a: a[:-1], r"steps\.data must"),
    ],
)
def test_arrays_that_are_no_walk_are_refused(name: str, value: Any, message: str) -> None:
    arrays = walk().to_arrays()
    with pytest.raises(ValueError, match=message):
        ItemWalk.from_arrays({**arrays, name: value(arrays[name])})
    with pytest.raises(KeyError, match=name):
        ItemWalk.from_arrays({key: array for key, array in arrays.items() if key != name})


def test_paths_of_one_mass_have_the_order_of_their_restarts() -> None:
    steps = np.zeros((N_ITEMS, N_ITEMS))
    steps[1:, 0] = 1.0
    made = ItemWalk(sp.csr_array(steps), np.ones(N_ITEMS))
    start = sp.csr_array(np.full((1, N_ITEMS), 1 / N_ITEMS))
    values = made.rank(start, 1e-12, WALKER)[0]
    paths = heaviest_paths(made, start, values, 0, WALKER.alpha, N_ITEMS)
    assert made.recency == 0.0
    assert [path.items for path in paths] == [(0,), *((item, 0) for item in range(1, N_ITEMS))]


def test_a_prior_of_zero_counts_as_half_of_the_smallest() -> None:
    data = mfrank.synthetic(20, 4, 40, random_state=0)
    store = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(data).store
    known = replace(store, item_prior=np.array([0.0, 0.2, 0.3, 0.5]))
    found = with_prior(known, 2.0)
    np.testing.assert_allclose(found.item_biases, 2 * np.log([0.1, 0.2, 0.3, 0.5]), rtol=1e-6)
    np.testing.assert_array_equal(found.item_prior, known.item_prior)


def test_a_prior_is_for_models_that_rank_by_their_factors() -> None:
    data = mfrank.synthetic(20, 4, 40, random_state=0)
    with refuses(ValueError, "store"):
        with_prior(mfrank.EASE().fit(data).store, 0.1)
