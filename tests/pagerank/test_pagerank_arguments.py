"""What graphs are made from: what each argument becomes, where it ends, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mfrank import Interactions
from mfrank.arrays import CSR
from mfrank.pagerank import Graphs, graph_checks, item_graph
from tests.support.errors import refuses


def ring(**changes: Any) -> Graphs:
    return Graphs.from_edges([0, 1, 2], [1, 2, 0], **({"seeds": [0]} | changes))


def test_arrays_have_the_dtypes_that_are_stated() -> None:
    given = ring(
        node_features=np.arange(3, dtype=np.int8)[:, None],
        edge_features=np.ones((3, 2), np.float32),
        labels=[0, 1, 2],
        query_of=np.zeros(3, np.int16),
    )
    graphs = replace(given, queries=np.array([7], np.int32), pages=np.arange(3, dtype=np.uint8))
    for name in ("node_features", "edge_features", "labels"):
        assert getattr(graphs, name).dtype == np.float64, name
    for name in ("nodes", "seeds", "queries", "pages"):
        assert getattr(graphs, name).dtype == np.int64, name
    assert graphs.links.indices.dtype == graphs.sources.dtype == np.int32


def test_seeds_are_sorted_and_each_is_one() -> None:
    assert ring(seeds=[2, 0, 2]).seeds.tolist() == [0, 2]


def test_a_graph_may_have_a_single_node_and_no_edges() -> None:
    for graphs in (
        Graphs.from_edges([], [], seeds=[0], n_nodes=1),
        Graphs.from_edges([], [], seeds=[0], labels=[1]),
    ):
        assert (graphs.n_queries, graphs.n_nodes, graphs.n_edges) == (1, 1, 0)
        assert graphs.edge_features.shape == (0, 1)
    assert Graphs.from_edges([0], [0], seeds="all").n_edges == 1
    assert ring(query_of=[0, 0, 0]).n_queries == 1
    assert ring().n_features == (1, 1)
    of_two = Graphs.from_edges([1], [2], seeds=[0, 1], query_of=[0, 1, 1])
    assert of_two.nodes.tolist() == [0, 1, 3]


def test_numbers_of_nodes_end_where_those_of_int32_do() -> None:
    """Asked before anything is allocated."""
    assert graph_checks.n_nodes(2**31 - 1, [], [], []) == 2**31 - 1
    with refuses(ValueError, place="nodes"):
        graph_checks.n_nodes(2**31, [], [], [])


@pytest.mark.parametrize(
    ("call", "error", "fault"),
    [
        (lambda: ring(n_nodes=0), ValueError, {"argument": "n_nodes"}),
        (lambda: ring(n_nodes=3.5), TypeError, {"argument": "n_nodes"}),
        (lambda: Graphs.from_edges([], [], seeds=[0]), ValueError, {"place": "nodes"}),
        (lambda: Graphs.from_edges([0, 1], [1], seeds=[0]), ValueError, {"argument": "sources"}),
        (
            lambda: Graphs.from_edges([0.0], [1], seeds=[0]),
            TypeError,
            {"argument": "sources", "remedy": "number other ids"},
        ),
        (
            lambda: Graphs.from_edges([0], [0.5], seeds=[0]),
            TypeError,
            {"argument": "targets", "remedy": "number other ids"},
        ),
        (lambda: Graphs.from_edges([-1], [1], seeds=[0]), ValueError, {"argument": "sources"}),
        (
            lambda: Graphs.from_edges([3], [1], seeds=[0], n_nodes=3),
            ValueError,
            {"argument": "sources"},
        ),
        (
            lambda: Graphs.from_edges([1], [3], seeds=[0], n_nodes=3),
            ValueError,
            {"argument": "targets"},
        ),
        (lambda: ring(seeds=[3]), ValueError, {"argument": "seeds"}),
        (lambda: ring(seeds=[0.5]), TypeError, {"argument": "seeds", "remedy": "number other ids"}),
        (
            lambda: ring(query_of=[0.0, 0, 0]),
            TypeError,
            {"argument": "query_of", "remedy": "number other ids"},
        ),
        (
            lambda: ring(query_of=[1, 1, 1]),
            ValueError,
            {"argument": "query_of", "remedy": "number the nodes query"},
        ),
        (lambda: ring().with_labels([1, 0]), ValueError, {"argument": "labels"}),
        (lambda: replace(ring(), queries=[0, 1]), ValueError, {"argument": "queries"}),
        (lambda: replace(ring(), pages=[0, 1]), ValueError, {"argument": "pages"}),
        (lambda: ring().take([-1]), ValueError, {"argument": "queries"}),
        (
            lambda: ring(node_features=[[1, 2], [3, np.inf], [1, 1]]),
            ValueError,
            {"argument": "node_features"},
        ),
        (
            lambda: ring(edge_features=[[0, 0], [0, -2], [1, 1]]),
            ValueError,
            {"argument": "edge_features"},
        ),
        (lambda: ring(node_features=np.ones((3, 0))), ValueError, {"argument": "node_features"}),
    ],
)
def test_what_is_no_graph_is_refused_by_the_name_of_its_argument(
    call: Callable[[], Any], error: type[Exception], fault: dict[str, str]
) -> None:
    with refuses(error, **fault):
        call()


def test_graphs_without_a_query_are_refused() -> None:
    nothing = np.zeros(0, np.int64)
    with refuses(ValueError, "nodes"):
        Graphs(
            nodes=np.zeros(1, np.int64),
            links=CSR(np.zeros(1, np.int64), nothing.astype(np.int32), None, 0),
            node_features=np.ones((0, 1)),
            edge_features=np.ones((0, 1)),
            seeds=nothing,
            labels=np.zeros(0),
            queries=nothing,
            pages=nothing,
        )


@pytest.mark.parametrize("name", ["node_features", "edge_features", "labels", "queries", "pages"])
def test_rows_with_labels_of_their_own_are_refused_by_the_constructor_too(name: str) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    graphs = ring()
    values = getattr(graphs, name)
    made = pandas.DataFrame if values.ndim == 2 else pandas.Series
    with refuses(ValueError, name):
        replace(graphs, **{name: made(values, index=np.arange(len(values)) + 5)})
    if name == "labels":
        with refuses(ValueError, "labels"):
            graphs.with_labels(made(values, index=np.arange(len(values)) + 5))
    same = replace(graphs, **{name: made(values)})
    np.testing.assert_array_equal(getattr(same, name), values)


@pytest.mark.parametrize(
    ("name", "values"),
    [("node_features", np.ones((3, 1))), ("query_of", np.zeros(3, int)), ("labels", np.ones(3))],
)
def test_rows_of_nodes_with_labels_of_their_own_are_refused(name: str, values: Any) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    made = pandas.DataFrame if values.ndim == 2 else pandas.Series
    with refuses(ValueError, name):
        ring(**{name: made(values, index=[5, 6, 7])})
    assert ring(**{name: made(values)}).n_nodes == 3


def test_a_table_of_item_features_is_matched_by_id(caplog: pytest.LogCaptureFixture) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    data = Interactions.from_arrays([0] * 4, list("abcd"), timestamps=range(4))
    features = np.arange(1.0, 9).reshape(4, 2)
    table = pandas.DataFrame(features, index=pandas.Index(list("abcd"), name="item"))
    shuffled = table.loc[list("cadb")]
    by_place, by_id = (item_graph(data, given, None) for given in (features, shuffled))
    np.testing.assert_array_equal(by_id.node_features, by_place.node_features)
    np.testing.assert_array_equal(by_id.edge_features, by_place.edge_features)
    more = pandas.concat([shuffled, table[:1].rename({"a": "nobody's"})])
    np.testing.assert_array_equal(item_graph(data, more, None).node_features, by_id.node_features)
    (told,) = caplog.messages
    assert told.endswith("1 row of items that the interactions do not have, not used in this fit")
    with refuses(ValueError, "item_features", remedy="add them"):
        item_graph(data, shuffled.drop(["b", "d"]), None)
    shuffled.iloc[1, 0] = np.nan
    with refuses(ValueError, "item_features"):
        item_graph(data, shuffled, None)
