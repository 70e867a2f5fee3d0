"""Graphs of queries: built from edges and from sessions as the paper does, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mfrank import FactorStore, Interactions
from mfrank.data import Counts, Ids
from mfrank.pagerank import Graphs, Sessions, similar_items
from tests.support.errors import refuses

MINUTE = 60


def two_queries(**changes: Any) -> Graphs:
    """Nodes 0-2 belong to query 0, nodes 3-4 to query 1."""
    given = {
        "sources": [4, 0, 1, 0],
        "targets": [3, 2, 0, 1],
        "seeds": [0, 4],
        "query_of": [0, 0, 0, 1, 1],
        "edge_features": [[4.0], [2.0], [3.0], [1.0]],
    }
    return Graphs.from_edges(**(given | changes))


def edges(graphs: Graphs) -> set[tuple[int, int, int]]:
    """(query, page, page) of every edge."""
    ends = zip(graphs.sources, graphs.links.indices, strict=True)
    pages, queries = graphs.pages, graphs.queries[graphs.query_of]
    return {(int(queries[a]), int(pages[a]), int(pages[b])) for a, b in ends}


def nodes(graphs: Graphs, which: Any = slice(None)) -> set[tuple[int, int]]:
    queries = graphs.queries[graphs.query_of]
    return {(int(q), int(p)) for q, p in zip(queries[which], graphs.pages[which], strict=True)}


def test_edges_are_sorted_with_their_features() -> None:
    graphs = two_queries()
    np.testing.assert_array_equal(graphs.sources, [0, 0, 1, 4])
    np.testing.assert_array_equal(graphs.links.indices, [1, 2, 0, 3])
    np.testing.assert_array_equal(graphs.edge_features[:, 0], [1, 2, 3, 4])
    np.testing.assert_array_equal(graphs.dangling, [False, False, True, True, False])
    np.testing.assert_array_equal(graphs.nodes, [0, 3, 5])
    assert "2 queries" in repr(graphs)


def test_backlinks_are_the_edges_by_target() -> None:
    rng = np.random.default_rng(0)
    keys = rng.choice(30 * 30, 200, replace=False)
    graphs = Graphs.from_edges(keys // 30, keys % 30, seeds="all", n_nodes=32)
    rows, numbers = graphs.backlinks
    assert (rows.n_rows, rows.n_columns) == (32, 32)
    for node in range(32):
        sources, _ = rows.row(node)
        of_node = numbers[rows.indptr[node] : rows.indptr[node + 1]]
        np.testing.assert_array_equal(sources, np.sort(keys[keys % 30 == node] // 30))
        np.testing.assert_array_equal(graphs.sources[of_node], sources)
        assert (graphs.links.indices[of_node] == node).all()


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"seeds": [0]}, {"argument": "seeds", "remedy": "pass at least"}),
        ({"seeds": [0, 7]}, {"argument": "seeds"}),
        (
            {"sources": [3, 0, 1, 0], "targets": [0, 2, 0, 1]},
            {"place": "edge 3 -> 0", "remedy": "a page that occurs"},
        ),
        (
            {"sources": [0, 0, 1, 0], "targets": [1, 2, 0, 1]},
            {"remedy": "merge repeated edges first"},
        ),
        ({"targets": [3, 9, 0, 1]}, {"argument": "targets"}),
        (
            {"query_of": [0, 1, 0, 1, 1]},
            {"argument": "query_of", "remedy": "number the nodes query"},
        ),
        (
            {"query_of": [0, 0, 0, 2, 2]},
            {"argument": "query_of", "remedy": "number the nodes query"},
        ),
        ({"n_nodes": 6}, {"argument": "node_features"}),
        ({"node_features": np.ones((4, 1))}, {"argument": "node_features"}),
        ({"node_features": -np.ones((5, 1))}, {"argument": "node_features"}),
        ({"edge_features": np.full((4, 1), np.nan)}, {"argument": "edge_features"}),
        ({"edge_features": np.ones((3, 1))}, {"argument": "edge_features"}),
        ({"labels": [1, 0, 1, 0, np.inf]}, {"argument": "labels"}),
    ],
)
def test_what_is_no_graph_is_refused(changes: dict[str, Any], fault: dict[str, str]) -> None:
    with refuses(ValueError, **fault):
        two_queries(**changes)


@pytest.mark.parametrize("nodes", [[0], [0, 3], [1, 5], [0, 3, 4], [0, 5, 5], [0, 6], [0, 7, 5]])
def test_queries_have_all_nodes_between_them(nodes: list[int]) -> None:
    with refuses(ValueError, "nodes"):
        replace(two_queries(), nodes=np.array(nodes))


def test_wrong_kinds_are_refused() -> None:
    with refuses(TypeError, "sources"):
        two_queries(sources=[4.0, 0.0, 1.0, 0.0])
    with refuses(TypeError, "node_features"):
        two_queries(node_features=np.ones(5))
    with refuses(TypeError, "labels"):
        two_queries(labels=list("abcde"))


def test_constant_feature_and_labels() -> None:
    graphs = two_queries(node_features=np.zeros((5, 2))).with_constant()
    np.testing.assert_array_equal(graphs.node_features[:, 2], 1)
    np.testing.assert_array_equal(graphs.edge_features[:, 1], 1)
    assert graphs.n_features == (3, 2)
    labeled = graphs.with_labels([np.nan, 1, 0, 2, np.nan])
    assert np.isnan(graphs.labels).all()
    assert "3 labels" in repr(labeled)


def test_some_queries_are_what_they_were_among_all() -> None:
    rng = np.random.default_rng(1)
    query_of = np.repeat(np.arange(6), rng.integers(2, 8, 6))
    ends = np.array(
        [(a, b) for a, q in enumerate(query_of) for b, r in enumerate(query_of) if q == r]
    )
    ends = ends[rng.random(len(ends)) < 0.4]
    graphs = Graphs.from_edges(
        *ends.T,
        seeds="all",
        query_of=query_of,
        node_features=rng.random((len(query_of), 2)),
        edge_features=rng.random((len(ends), 3)),
        labels=rng.integers(0, 3, len(query_of)),
    )
    part = graphs.take([4, 1])
    np.testing.assert_array_equal(part.queries, [4, 1])
    for at, query in enumerate(part.queries):
        old, new = slice(*graphs.nodes[query:][:2]), slice(*part.nodes[at:][:2])
        for name in ("node_features", "labels", "pages", "dangling"):
            np.testing.assert_array_equal(getattr(part, name)[new], getattr(graphs, name)[old])
        old_edges = slice(*graphs.links.indptr[graphs.nodes[query:][:2]])
        new_edges = slice(*part.links.indptr[part.nodes[at:][:2]])
        np.testing.assert_array_equal(
            part.links.indices[new_edges] - new.start, graphs.links.indices[old_edges] - old.start
        )
        np.testing.assert_array_equal(
            part.edge_features[new_edges], graphs.edge_features[old_edges]
        )
    for bad in ([], [6]):
        with refuses(ValueError, "queries"):
            graphs.take(bad)


def test_a_node_is_found_by_its_query_and_page() -> None:
    graphs = replace(two_queries(), queries=np.array([7, 2]), pages=np.array([1, 4, 5, 0, 5]))
    where = {pair: node for node, pair in enumerate([(7, 1), (7, 4), (7, 5), (2, 0), (2, 5)])}
    asked = [(query, page) for query in range(-1, 10) for page in range(-3, 9)]
    expected = [where.get(pair, -1) for pair in asked]
    found = graphs.find(*zip(*asked, strict=True))
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.int64
    assert graphs.find([], []).tolist() == []
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    queries, pages = (pandas.Series(each, index=[8, 9]) for each in ([7, 2], [4, 5]))
    assert graphs.find(queries, pages).tolist() == [1, 4]
    with refuses(ValueError, remedy=r"pass queries\.to_numpy\(\) and pages"):
        graphs.find(queries, pages[::-1])


@pytest.mark.parametrize(
    ("queries", "pages", "error", "fault"),
    [
        ([7], [4.5], TypeError, {"argument": "pages", "remedy": "number other ids"}),
        ([7.0], [4], TypeError, {"argument": "queries", "remedy": "number other ids"}),
        ([7], [4, 5], ValueError, {"argument": "queries"}),
    ],
)
def test_what_names_no_node_is_refused(
    queries: Any, pages: Any, error: type[Exception], fault: dict[str, str]
) -> None:
    with refuses(error, **fault):
        two_queries().find(queries, pages)


LOG = [  # visitor, query, minute, page
    ("ann", "cats", 0, 1),
    ("ann", "cats", 10, 2),
    ("ann", "cats", 20, 2),
    ("ann", "cats", 30, 3),
    ("ann", "dogs", 35, 2),
    ("ann", "dogs", 40, 4),
    ("ann", "dogs", 71, 1),  # 31 minutes later: a new session
    ("bob", "cats", 5, 1),
    ("bob", "cats", 9, 2),
    ("bob", "cats", 39, 1),  # 30 minutes later: still the same
]


def sessions(**options: Any) -> Sessions:
    shuffled = [LOG[i] for i in np.random.default_rng(3).permutation(len(LOG))]
    visitors, queries, minutes, pages = map(list, zip(*shuffled, strict=True))
    times = MINUTE * np.array(minutes)
    return Sessions.from_log(visitors, pages, times, queries, **options)


def test_sessions_end_with_the_query_and_with_a_rest() -> None:
    assert sessions().n_sessions == 4  # ann: cats, dogs, dogs; bob: cats
    assert sessions(gap=None).n_sessions == 3
    assert sessions(gap=29 * MINUTE).n_sessions == 5
    assert "4 sessions of 2 queries, 10 visits of 4 pages" in repr(sessions())


def test_a_session_ends_with_a_rest_of_more_than_half_an_hour_unless_a_gap_is_given() -> None:
    seconds = 1_700_000_000 + np.array([0, 1800, 3601])
    log = Sessions.from_log(["ann"] * 3, [1, 2, 3], seconds)
    assert log.begins.tolist() == [0, 2, 3]
    assert len(log.query_ids) == 1
    milliseconds = Sessions.from_log(["ann"] * 3, [1, 2, 3], 1000 * seconds, timestamp_unit="ms")
    np.testing.assert_array_equal(milliseconds.begins, log.begins)
    with refuses(ValueError, "timestamp_unit"):
        Sessions.from_log(["ann"], [1], [0], timestamp_unit="h")  # type: ignore[arg-type]


def test_a_gap_that_was_meant_in_another_unit_is_told(caplog: pytest.LogCaptureFixture) -> None:
    days = 1_700_000_000 + 86_400 * np.arange(30)
    Sessions.from_log(["ann"] * 30, range(30), days)
    assert not caplog.records
    Sessions.from_log(["ann"] * 30, range(30), days, gap=30)
    (record,) = caplog.records
    assert record.getMessage().startswith("gap is 30, while timestamps are seconds")


def test_browsing_graphs_are_those_of_the_paper() -> None:
    graphs = sessions().graphs()  # pages 1, 2, 3, 4 are rows 0, 1, 2, 3; cats 0, dogs 1
    assert nodes(graphs) == {(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 3)}
    assert nodes(graphs, graphs.seeds) == {(0, 0), (1, 0), (1, 1)}
    assert edges(graphs) == {(0, 0, 1), (0, 1, 2), (0, 1, 0), (1, 1, 3)}
    assert (0, 1, 1) in edges(sessions().graphs(repeats=True))


def test_features_count_visits_starts_and_moves() -> None:
    graphs = sessions().graphs(np.array([[5.0], [6.0], [7.0], [8.0]]))
    first, second = graphs.find([0, 0], [0, 1])
    np.testing.assert_allclose(graphs.node_features[first], [np.log(4), np.log(3), 5])
    np.testing.assert_allclose(graphs.node_features[second], [np.log(4), 0, 6])
    [edge] = np.flatnonzero((graphs.sources == first) & (graphs.links.indices == second))
    both = [*graphs.node_features[first], *graphs.node_features[second]]
    np.testing.assert_allclose(graphs.edge_features[edge], [np.log(3), *both])


def test_minimum_counts() -> None:
    assert nodes(sessions().graphs(least_visits=2)) == {(0, 0), (0, 1)}  # dogs keeps no seed
    assert edges(sessions().graphs(least_moves=2)) == {(0, 0, 1)}
    graphs = sessions().graphs(least_starts=2)
    assert nodes(graphs, graphs.seeds) == {(0, 0)}
    with refuses(ValueError, "least_visits"):
        sessions().graphs(least_visits=9)


def test_users_sequences_are_sessions() -> None:
    data = Interactions.from_arrays(
        ["u", "u", "u", "v", "v"], list("abcca"), timestamps=[3, 1, 2, 5, 9]
    )
    graphs = Sessions.from_interactions(data).graphs()
    assert edges(graphs) == {(0, 1, 2), (0, 2, 0)}
    assert nodes(graphs, graphs.seeds) == {(0, 1), (0, 2)}
    by_kind = Sessions.from_interactions(data, ["x", "y", "y"])
    assert edges(by_kind.graphs()) == {(1, 1, 2)}
    assert by_kind.page_ids is data.item_ids


def test_a_users_sequence_is_one_session_however_long_unless_a_gap_is_given() -> None:
    """In the unit that the interactions have, and with items that nobody has."""
    data = Interactions.from_arrays(
        [0] * 3,
        [4, 1, 2],
        timestamps=1_700_000_000_000 + np.array([9999, 1000, 2001]),
        timestamp_unit="s",  # such as numbers of events
        item_ids=range(6),
    )
    whole = Sessions.from_interactions(data)
    assert whole.begins.tolist() == [0, 3]
    assert whole.pages.tolist() == [1, 2, 4]
    assert Sessions.from_interactions(data, gap=7998).begins.tolist() == [0, 3]
    assert Sessions.from_interactions(data, gap=7997).begins.tolist() == [0, 2, 3]


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: Sessions.from_log([], [], []), "visitors"),
        (
            lambda: Sessions.from_log([1], [1, 2], [1, 2]),
            "visitors",
        ),
        (
            lambda: Sessions.from_interactions(
                Interactions.from_arrays([0, 0], [0, 1], timestamps=[0, 1]), ["x"]
            ),
            "queries",
        ),
        (lambda: sessions(gap=0), "gap"),
        (lambda: sessions().graphs(least_moves=0), "least_moves"),
        (lambda: sessions().graphs(np.ones((3, 1))), "page_features"),
        (
            lambda: Sessions.from_interactions(Interactions.from_arrays([0], [0])),
            "data",
        ),
    ],
)
def test_what_is_no_log_is_refused(call: Callable[[], Any], argument: str) -> None:
    with refuses(ValueError, argument):
        call()


def test_a_table_of_page_features_is_refused_with_the_way_to_an_array() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    with refuses(TypeError, "page_features"):
        sessions().graphs(pandas.DataFrame({"length": [1.0, 2, 3, 4]}))


def test_items_with_factors_alike_are_neighbors() -> None:
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((12, 3))
    factors[5] = 0
    counts = Counts(np.full(4, 9), np.arange(12))
    store = FactorStore(np.ones((4, 3)), factors, Ids.numbered(4), Ids.numbered(12), counts=counts)
    age = rng.random((12, 1))
    graphs = similar_items(store, 3, age)
    lengths = np.linalg.norm(factors, axis=1)
    cosines = factors @ factors.T / np.maximum(np.outer(lengths, lengths), 1e-9)
    np.fill_diagonal(cosines, -1)
    for item in range(12):
        wanted = [j for j in np.argsort(-cosines[item])[:3] if cosines[item, j] > 0]
        targets, _ = graphs.links.row(item)
        assert set(targets.tolist()) == set(wanted)
    assert graphs.dangling[5]
    ends = graphs.sources, graphs.links.indices
    of_items = np.column_stack([np.log1p(np.arange(12)), lengths, age])
    np.testing.assert_allclose(graphs.node_features, of_items)
    np.testing.assert_allclose(
        graphs.edge_features, np.column_stack([cosines[ends], of_items[ends[1]]]), rtol=1e-12
    )
    np.testing.assert_array_equal(graphs.seeds, np.arange(12))
    with refuses(ValueError, "neighbors"):
        similar_items(store, 0)
    with refuses(ValueError, "item_features"):
        similar_items(store, 3, np.ones((3, 1)))
