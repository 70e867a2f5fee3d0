"""The item graph of sequences, recencies, and queries for the next item."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from item_logs import N_ITEMS, log, random_log
from query_graphs import WALKER

import mfrank
from mfrank import Interactions
from mfrank.pagerank import Draw, Graphs, by_source, item_graph, next_click_queries, recencies
from tests.support.errors import refuses


def test_edges_go_both_ways_and_each_feature_is_a_walk() -> None:
    """Feature by feature, edge by edge, with a user of one item and an item of nobody."""
    data = log("ab", "ab", "ac", "cb", "b", item_ids=["a", "b", "c", "d"])
    given = np.array([[0.0], [3.0], [1.0], [9.0]])
    graph = item_graph(data, given, None)
    assert graph.pages.tolist() == [0, 1, 2]
    moves = np.array([[0, 2, 1], [0, 0, 0], [0, 1, 0]])
    either = moves + moves.T > 0
    assert list(zip(*np.nonzero(either), strict=True)) == list(
        zip(graph.sources, graph.links.indices, strict=True)
    )
    visits, starts = np.log1p([3, 4, 2]), np.log1p([3, 1, 1])
    values = [moves, moves.T, either, *(either * row for row in (visits, starts, given[:3, 0]))]
    assert graph.n_features == (4, len(values))
    for feature, table in zip(graph.edge_features.T, values, strict=True):
        sums = table.sum(axis=1, keepdims=True)
        walk = table / np.where(sums > 0, sums, 1)
        np.testing.assert_allclose(feature, walk[either], atol=1e-15)
    scaled = [visits / visits[1], starts / starts[0], given[:3, 0] / 3, np.zeros(3)]
    np.testing.assert_allclose(graph.node_features, np.column_stack(scaled))
    assert graph.seeds.tolist() == [0, 1, 2]


def test_queries_ask_for_the_item_that_was_held_out() -> None:
    data = random_log(5, idle=1)
    split = mfrank.leave_last(data)
    graph, recent = item_graph(split.train, None, None), recencies(split.train, 2)
    untuned = mfrank.SupervisedPageRank(None, alpha=WALKER.alpha, recent=2).fit(split.train)
    queries = next_click_queries(
        graph,
        recent,
        split.train.user_items,
        split.test.user_items,
        Draw(8, 4, np.random.default_rng(0)),
        WALKER,
    )
    assert queries.n_queries == 8
    assert (np.diff(queries.queries) > 0).all()  # nobody twice
    for q, user in enumerate(queries.queries):
        own = slice(*queries.nodes[q : q + 2])
        pages, labels = queries.pages[own], queries.labels[own]
        assert pages[labels == 1].tolist() == split.test.user_items[[user]].indices.tolist()
        had = split.train.user_items[[user]].indices
        assert np.isin(pages[np.isnan(labels)], had).all()
        assert not np.isin(pages[labels == 0], had).any()
        likely = set(untuned.recommend(int(user), N=4)[0])
        assert set(pages[labels == 0]) == likely - set(pages[labels == 1])
        seeds = queries.seeds[(queries.seeds >= own.start) & (queries.seeds < own.stop)]
        np.testing.assert_array_equal(queries.pages[seeds], recent[[user]].indices)
        np.testing.assert_array_equal(queries.node_features[seeds, -1], recent[[user]].data)
        kept = np.isin(graph.pages[graph.sources], pages)
        kept &= np.isin(graph.pages[graph.links.indices], pages)
        inside = queries.query_of[queries.sources] == q
        np.testing.assert_array_equal(queries.edge_features[inside], graph.edge_features[kept])


def test_nobody_is_asked_who_has_nothing_in_the_graph_or_wants_nothing_there() -> None:
    graph = item_graph(log("ab", "ba", item_ids=list("abcd")), None, None)
    table = {
        "recent": sp.csr_array([[1.0, 0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 1, 0.5]]),
        "wanted": sp.csr_array([[0.0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]),
    }
    draw, walker = Draw(9, 4, np.random.default_rng(0)), WALKER
    recent, wanted = table["recent"], table["wanted"]
    queries = next_click_queries(graph, recent, recent, wanted, draw, walker)
    assert queries.queries.tolist() == [0]
    with refuses(ValueError, "method", remedy="pass labels"):
        next_click_queries(graph, recent[1:], recent[1:], wanted[1:], draw, walker)


@pytest.mark.parametrize("recent", [1, 3, 99])
def test_recencies_are_one_over_the_place_from_the_last(recent: int) -> None:
    data = random_log(2, idle=1)
    found = recencies(data, recent).toarray()
    for user in range(data.n_users):
        row = slice(*data.user_items.indptr[user : user + 2])
        last = data.user_items.indices[row][np.argsort(-data.timestamps[row])][:recent]
        expected = np.zeros(N_ITEMS)
        expected[last] = 1 / np.arange(1.0, len(last) + 1)
        np.testing.assert_array_equal(found[user], expected)


def test_a_gap_parts_sequences_and_an_item_alone_stays_without_edges() -> None:
    data = Interactions.from_arrays([0, 0, 0, 1], list("abcd"), timestamps=[0, 1, 9, 5])
    whole, parted = (item_graph(data, None, gap) for gap in (None, 7))
    assert pairs_of(whole) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert pairs_of(parted) == {(0, 1), (1, 0)}
    np.testing.assert_array_equal(whole.dangling, [False, False, False, True])
    assert whole.seeds.tolist() == [0, 1, 2, 3]  # not only those where sequences begin
    np.testing.assert_array_equal(parted.node_features[:, 1], [1, 0, 1, 1])  # where some begin


def test_item_features_are_divided_by_their_largest_value_however_small() -> None:
    given = np.array([[0.2, 0.0], [0.4, 0.0], [0.1, 0.0]])
    features = item_graph(log("abc"), given, None).node_features
    np.testing.assert_allclose(features[:, 2:4], [[0.5, 0], [1, 0], [0.25, 0]], rtol=1e-12)


def test_candidates_may_be_items_that_nothing_leads_to() -> None:
    graph = item_graph(log("ab", "ab", "c"), None, None)
    recent, wanted = sp.csr_array([[1.0, 0, 0]]), sp.csr_array([[0.0, 1, 0]])
    draw = Draw(1, 9, np.random.default_rng(0))
    queries = next_click_queries(graph, recent, recent, wanted, draw, WALKER)
    assert queries.pages.tolist() == [0, 1, 2]
    assert queries.dangling.tolist() == [False, False, True]


def test_candidates_are_where_the_last_items_lead() -> None:
    """More leads from a to c, but b is far more recent."""
    graph = item_graph(log("ac", "ac", "ac", "bd"), None, None)
    recent, wanted = sp.csr_array([[0.01, 10, 0, 0]]), sp.csr_array([[0.0, 0, 1, 0]])
    draw = Draw(1, 1, np.random.default_rng(0))
    queries = next_click_queries(graph, recent, recent, wanted, draw, WALKER)
    assert queries.pages.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(queries.labels, [np.nan, np.nan, 1, 0])


def pairs_of(graph: Graphs) -> set[tuple[int, int]]:
    return set(zip(graph.sources.tolist(), graph.links.indices.tolist(), strict=True))


def test_edge_features_are_fractions_of_their_source_whatever_their_size() -> None:
    sources, features = np.array([0, 0, 2, 2]), np.array([[0.1, 0], [0.3, 0], [50, 0.2], [50, 0]])
    found = by_source(sources, features, 3)
    np.testing.assert_allclose(found, [[0.25, 0], [0.75, 0], [0.5, 1], [0.5, 0]], rtol=1e-12)


def test_labels_of_zero_and_of_items_outside_of_the_graph_change_nothing() -> None:
    graph = item_graph(log("abc", "acb", item_ids=list("abcd")), None, None)
    recent = sp.csr_array([[1.0, 0, 0, 0]])
    draw = [Draw(1, 1, np.random.default_rng(0)) for _ in range(3)]
    stored = sp.csr_array((np.array([0.0, 2, 0, 3]), [0, 1, 2, 3], [0, 4]), (1, 4))
    plain = sp.csr_array([[0.0, 2, 0, 0]])
    one, other = (
        next_click_queries(graph, recent, recent, labels, each, WALKER)
        for labels, each in zip((plain, stored), draw, strict=False)
    )
    assert other.pages.tolist() == one.pages.tolist()
    np.testing.assert_array_equal(other.labels, one.labels)
    assert np.isnan(one.labels[0])  # what the user has is not judged
