"""Labels of pandas are used or refused at every door; they are never read by position."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.arrays import check_same_rows, is_labelled
from mfrank.data import Ids
from mfrank.pagerank import Graphs, Sessions, pagerank
from tests.support.errors import refuses

pandas = pytest.importorskip("pandas", reason="makes Series")

N = 6
DATA = mfrank.Interactions.from_arrays(
    ["a", "a", "b", "b", "c", "c"], ["v", "w", "w", "x", "x", "v"], np.arange(1.0, N + 1)
)
ALS = mfrank.ALS(mfrank.WRMF(), factors=2, iterations=2, random_state=0).fit(DATA)
KNN = mfrank.ItemKNN().fit(DATA)
JUDGED = mfrank.Judged(
    [[0.5, 1], [2, 0], [1, 1], [0, 3], [1, 0], [4, 1]], [1, 0, 2, 0, 1, 0], list("ppqqrr")
)
RING = sp.csr_array((np.ones(N), (np.arange(N), (np.arange(N) + 1) % N)))

Columns = dict[str, Any]
Door = tuple[Callable[..., Any], Columns]


def dense(data: mfrank.Interactions) -> Any:
    return data.to_pandas().sort_values(["user", "item"]).to_dict("list")


TOGETHER: dict[str, Door] = {
    "from_arrays": (
        lambda users, items, values, timestamps: dense(
            mfrank.Interactions.from_arrays(users, items, values, timestamps)
        ),
        {
            "users": list("aabbcc"),
            "items": list("vwwxxv"),
            "values": [1, 2, 3, 4, 5, 6],
            "timestamps": [9, 8, 7, 6, 5, 4],
        },
    ),
    "from_arrays of rows": (
        lambda users, items, values: dense(
            mfrank.Interactions.from_arrays(users, items, values, shape=(6, 6))
        ),
        {"users": [0, 1, 2, 3, 4, 5], "items": [5, 4, 3, 2, 1, 0], "values": [1, 2, 3, 4, 5, 6]},
    ),
    "Judged": (
        lambda features, relevance, queries: mfrank.Judged(features, relevance, queries).features,
        {
            "features": JUDGED.features.tolist(),
            "relevance": [1, 0, 2, 0, 1, 0],
            "queries": list("ppqqrr"),
        },
    ),
    "recommend_from_items": (
        lambda itemids, values: ALS.recommend_from_items(itemids, 2, values=values).scores,
        {"itemids": list("vwx"), "values": [1, 9, 4]},
    ),
    "score": (ALS.score, {"userid": list("abc"), "itemid": list("vxw")}),
    "score of neighbors": (KNN.score, {"userid": list("abc"), "itemid": list("vxw")}),
    "Sessions.from_log": (
        lambda visitors, pages, timestamps, queries: (
            Sessions.from_log(visitors, pages, timestamps, queries).pages
        ),
        {
            "visitors": list("aabbcc"),
            "pages": list("vwwxxv"),
            "timestamps": [3, 1, 2, 4, 6, 5],
            "queries": list("qqqqrr"),
        },
    ),
    "Graphs.from_edges": (
        lambda sources, targets, edge_features: (
            Graphs.from_edges(
                sources, targets, seeds="all", edge_features=edge_features
            ).edge_features
        ),
        {
            "sources": [0, 1, 2, 3, 4, 5],
            "targets": [1, 2, 3, 4, 5, 0],
            "edge_features": [[1.0], [2], [3], [4], [5], [6]],
        },
    ),
}
"""Doors with several columns whose rows belong together."""

ALONE: dict[str, Door] = {
    "weighted": (lambda weights: dense(DATA.weighted(weights)), {"weights": [1, 2, 3, 4, 5, 6]}),
    "take": (
        lambda mask: dense(DATA.take(mask)),
        {"mask": [True, True, False, True, False, False]},
    ),
    "user_ids": (
        lambda ids: mfrank.Interactions.from_sparse(RING, user_ids=ids).user_ids.labels,
        {"ids": list("uvwxyz")},
    ),
    "item_ids": (
        lambda ids: mfrank.Interactions.from_arrays([0], ["u"], item_ids=ids).item_ids.labels,
        {"ids": list("uvwxyz")},
    ),
    "Ids.of": (lambda ids: Ids.of(ids).labels, {"ids": list("uvwxyz")}),
    "Groups": (
        lambda rows: mfrank.Groups(("a", "b"), rows).of_rows,
        {"rows": np.array([0, 1, 1, 0, -1, 1])},
    ),
    "evaluate_queries": (
        lambda scores: [
            score.value for score in mfrank.evaluate_queries(JUDGED, scores).scores.values()
        ],
        {"scores": [0.1, 0.9, 0.3, 0.4, 0.2, 0.8]},
    ),
    "start of LinearRanker": (
        lambda start: (
            mfrank.LinearRanker(iterations=1, random_state=0).fit(JUDGED, start=start).coefficients
        ),
        {"start": [0.5, 2.0]},
    ),
    "factors": (
        lambda table: mfrank.FactorStore(table, np.ones((3, 1))).user_factors,
        {"table": np.arange(6.0)[:, None]},
    ),
    "biases": (
        lambda biases: (
            mfrank.FactorStore(np.ones((6, 1)), np.ones((3, 1)), user_biases=biases).user_biases
        ),
        {"biases": [1.0, 2, 3, 4, 5, 6]},
    ),
    "restarts": (lambda restarts: pagerank(RING, restarts), {"restarts": [1.0, 2, 3, 4, 5, 6]}),
    "labels of nodes": (
        lambda labels: Graphs.from_edges([0], [1], seeds="all", labels=labels).labels,
        {"labels": [1.0, 2, 3, 4, 5, 6]},
    ),
    "features of nodes": (
        lambda features: (
            Graphs.from_edges([0], [1], seeds="all", node_features=features).node_features
        ),
        {"features": [[1.0], [2], [3], [4], [5], [6]]},
    ),
}
"""Doors whose only column has the order of something else."""

LISTS: dict[str, Door] = {
    "userid": (lambda ids: ALS.recommend(ids, N=1).scores, {"ids": list("abc")}),
    "itemid": (lambda ids: ALS.similar_items(ids, N=1).scores, {"ids": list("vwx")}),
    "filter_items": (lambda ids: ALS.recommend("a", N=2, filter_items=ids).ids, {"ids": ["x"]}),
    "items": (lambda ids: ALS.recommend("a", N=2, items=ids).ids, {"ids": ["x"]}),
    "users to evaluate": (
        lambda ids: (
            mfrank.evaluate(ALS, DATA, filter_already_liked_items=False, users=ids)["ndcg@10"].value
        ),
        {"ids": list("ca")},
    ),
    "queries to Ids": (lambda ids: DATA.item_ids.rows(ids), {"ids": list("xvw")}),
}
"""Doors for a list of ids, of which an index says nothing."""


def as_pandas(values: Any, index: Any = None) -> Any:
    made = pandas.DataFrame if np.ndim(values) == 2 else pandas.Series
    return made(values, index=index)


def same(found: Any, expected: Any) -> None:
    np.testing.assert_equal(found, expected)


def shuffled(n: int) -> list[Any]:
    """Indexes that do not count rows from 0: of a sort, a filter, a concat, of names."""
    return [
        np.arange(n)[::-1],
        np.arange(n) + 3,
        np.arange(n) // 2,
        [f"row {each}" for each in range(n)],
    ]


@pytest.mark.parametrize("name", [*TOGETHER, *ALONE, *LISTS])
def test_an_index_that_counts_rows_is_none(name: str) -> None:
    call, columns = (TOGETHER | ALONE | LISTS)[name]
    plain = call(**columns)
    same(call(**{key: as_pandas(column) for key, column in columns.items()}), plain)
    counted = {
        key: as_pandas(column, pandas.Index(np.arange(len(column)), name="n"))
        for key, column in columns.items()
    }
    same(call(**counted), plain)


@pytest.mark.parametrize("name", LISTS)
def test_the_index_of_a_list_of_ids_says_nothing(name: str) -> None:
    call, columns = LISTS[name]
    ((key, ids),) = columns.items()
    for index in shuffled(len(ids)):
        same(call(**{key: as_pandas(ids, index)}), call(**columns))


@pytest.mark.parametrize("name", ALONE)
def test_a_single_column_with_labels_is_refused(name: str) -> None:
    call, columns = ALONE[name]
    ((key, column),) = columns.items()
    for index in shuffled(len(column)):
        with refuses(ValueError, None, remedy=r"to_numpy\(\)"):
            call(**{key: as_pandas(column, index)})


@pytest.mark.parametrize("name", TOGETHER)
def test_columns_with_the_same_labels_belong_together(name: str) -> None:
    call, columns = TOGETHER[name]
    for index in shuffled(len(next(iter(columns.values())))):
        found = call(**{key: as_pandas(column, index) for key, column in columns.items()})
        same(found, call(**columns))


@pytest.mark.parametrize(
    ("name", "odd"), [(name, key) for name, (_, columns) in TOGETHER.items() for key in columns]
)
def test_columns_with_other_labels_are_refused(name: str, odd: str) -> None:
    call, columns = TOGETHER[name]
    n = len(columns[odd])
    for index in shuffled(n):
        series = {key: as_pandas(column, index) for key, column in columns.items()}
        others = [as_pandas(columns[odd]), series[odd][::-1]]
        if not name.startswith("score"):  # of ids, which an array has as well as a Series
            others.append(columns[odd])
        for other in others:
            with refuses(ValueError, remedy=r"to_numpy\(\)"):
                call(**series | {odd: other})


def test_boosts_and_categories_are_mappings_from_the_index() -> None:
    boosts, kinds = {"x": 3.0, "v": -1.0}, {"x": "k", "v": "l"}
    for name, given_by_id, more in (
        ("boosts", boosts, {}),
        ("categories", kinds, {"at_most": 1}),
    ):
        series, own = pandas.Series(given_by_id), mfrank.Steering(**{name: given_by_id}, **more)
        assert mfrank.Steering(**{name: series}, **more) == own
        assert mfrank.Steering(**{name: series[::-1]}, **more) == own
        for wrong in (
            pandas.Series(list(given_by_id.values())),
            pandas.concat([series, series]),
            series.to_frame(),
        ):
            with refuses(ValueError, name):
                mfrank.Steering(**{name: wrong})


def test_a_table_is_no_matrix_of_interactions() -> None:
    frame = DATA.to_pandas()
    for call in (
        lambda: ALS.recommend(["a"], frame),
        lambda: ALS.recommend(["a"], frame, recalculate_user=True),
        lambda: ALS.recalculate_user(["a"], frame),
        lambda: ALS.partial_fit_users(["a"], frame),
        lambda: KNN.recommend(["a"], frame, recalculate_user=True),
    ):
        with refuses(TypeError, "user_items"):
            call()


def test_columns_of_documents_are_found_by_name() -> None:
    table = pandas.DataFrame(JUDGED.features, columns=["clicks", "age"])
    judged = mfrank.Judged(table, JUDGED.relevance, list("ppqqrr"))
    ranker = mfrank.LinearRanker(iterations=3, random_state=0).fit(judged)
    expected = ranker.score(JUDGED.features)
    same(ranker.score(table), expected)
    same(ranker.score(table[["age", "clicks"]]), expected)
    same(ranker.score(judged), expected)
    assert judged.hold_out(random_state=0)[1].feature_names == ("clicks", "age")
    for wrong in (table.rename(columns={"age": "aged"}), table[["age"]], table.assign(more=1)):
        with refuses(ValueError, "features"):
            ranker.score(wrong)
    unnamed = mfrank.LinearRanker(iterations=3, random_state=0).fit(JUDGED)
    with refuses(ValueError, "features", remedy=r"to_numpy\(\)"):
        unnamed.score(table)


def test_a_saved_ranker_knows_the_names_of_its_columns(tmp_path: Any) -> None:
    table = pandas.DataFrame(JUDGED.features, columns=["clicks", "age"])
    judged = mfrank.Judged(table, JUDGED.relevance, list("ppqqrr"))
    ranker = mfrank.LinearRanker(iterations=3, random_state=0).fit(judged)
    ranker.save(tmp_path / "r")
    loaded = mfrank.LinearRanker.load(tmp_path / "r")
    same(loaded.score(table[["age", "clicks"]]), ranker.score(table))


ROWS = np.arange(9)
GENRES = ["war", "love", None, "war", "love", "love", "war", "war", "love"]
NAMED = {
    "text": np.array([f"i{row}" for row in ROWS], dtype=object),
    "numbers": 10 * ROWS + 5,
    "numbers 0 to 8": ROWS,
    "numbers 0 to 8, in another order": ROWS[::-1],
}


def by_id(form: str, ids: Any, genres: list[Any]) -> Any:
    if form == "mapping":
        return dict(zip(ids.tolist(), genres, strict=True))
    index = pandas.Index(ids, name="item" if form == "named Series" else None)
    return pandas.Series(genres, index=index)


@pytest.mark.parametrize("form", ["mapping", "named Series", "Series"])
@pytest.mark.parametrize("kind", NAMED)
def test_groups_of_labels_by_id_are_those_in_the_order_of_the_rows(kind: str, form: str) -> None:
    rng = np.random.default_rng(0)
    data = mfrank.Interactions.from_sparse(
        sp.csr_array((rng.random((20, 9)) < 0.5).astype(float)), item_ids=NAMED[kind]
    )
    model = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(data)
    test = mfrank.Interactions.from_sparse(
        sp.csr_array((rng.random((20, 9)) < 0.5).astype(float)), item_ids=NAMED[kind]
    )
    rank = partial(mfrank.evaluate, model, test, metrics=["recall@3"])
    wanted = rank(item_groups=mfrank.Groups.of(GENRES)).by_item_group
    for order in (ROWS, ROWS[::-1], rng.permutation(9), ROWS[ROWS != 2]):
        labels = by_id(form, NAMED[kind][order], [GENRES[row] for row in order])
        if form == "Series" and kind != "text":
            if is_labelled(labels):
                with refuses(ValueError, "labels", remedy=r'rename_axis\("item"\)'):
                    mfrank.Groups.of(labels)
            continue
        found = rank(item_groups=mfrank.Groups.of(labels)).by_item_group
        assert found.keys() == wanted.keys()
        for name, one in found.items():
            assert one["recall@3"].value == wanted[name]["recall@3"].value
    for other in (["x", "y"], ROWS[1:6] + 1000):
        with refuses(ValueError, "groups", remedy=r"take those of the training data"):
            rank(item_groups=mfrank.Groups.of(dict.fromkeys(other, "a")))


def test_groups_of_what_has_no_single_label_for_a_row_are_refused() -> None:
    table = pandas.DataFrame({"item": ["a", "b"], "genre": ["war", "love"]})
    with refuses(ValueError, "labels", remedy=r'set_index\("item"\)'):
        mfrank.Groups.of(table)
    twice = pandas.Series(["war", "love"], index=["a", "a"])
    with refuses(ValueError, "labels", remedy="numbers ids that repeat"):
        mfrank.Groups.of(twice)
    with refuses(ValueError, "labels", remedy="give them an id"):
        mfrank.Groups.of({"a": "war", None: "love"})


def test_missing_labels_are_no_group() -> None:
    labels = pandas.Series(["a", "b"], index=["v", "x"]).reindex(DATA.item_ids.labels).to_numpy()
    groups = mfrank.Groups.of(labels)
    assert groups.names == ("a", "b")
    assert groups.of_rows.tolist() == [0, -1, 1]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-3, 6), max_size=6))
def test_an_index_is_none_exactly_if_it_counts_rows(labels: list[int]) -> None:
    series = pandas.Series(np.zeros(len(labels)), index=labels)
    assert is_labelled(series) == (labels != list(range(len(labels))))


@settings(max_examples=50, deadline=None)
@given(st.integers(-2, 2), st.integers(0, 4), st.sampled_from([-1, 1, 2]))
def test_a_range_is_none_exactly_if_it_counts_rows(start: int, size: int, step: int) -> None:
    labels = range(start, start + size * step, step)
    series = pandas.Series(np.zeros(size), index=pandas.RangeIndex(labels))
    assert is_labelled(series) == (list(labels) != list(range(size)))


def test_labels_that_only_equal_numbers_count_no_rows() -> None:
    for labels in ([0.0, 1.0, 2.0], [False, True], pandas.to_datetime([0, 1]), list("01")):
        assert is_labelled(pandas.Series(range(len(labels)), index=labels))
    for empty in ([], list[str](), pandas.Index([], dtype="float")):
        assert not is_labelled(pandas.Series([], index=empty, dtype=float))
    counting = pandas.Index([0, 1], dtype="Int64")
    assert not is_labelled(pandas.Series([5, 6], index=counting))


def test_an_error_shows_the_first_labels() -> None:
    shuffled_ = pandas.Series([1.0, 2, 3, 4], index=["d", "c", "b", "a"])
    with refuses(ValueError, remedy=r"pass a\.to_numpy\(\) and b"):
        check_same_rows(a=shuffled_, b=[1, 2, 3, 4])
    with refuses(ValueError, remedy=r"pass a\.to_numpy\(\) and b"):
        check_same_rows(a=shuffled_, b=pandas.Series([1.0, 2]))


def test_only_pandas_has_labels() -> None:
    check_same_rows(a=[1, 2], b=np.arange(2), c=None, d=pandas.Series([1, 2]))
    for unlabelled in ([1], np.arange(2), pandas.RangeIndex(1, 3), pandas.Index(["a"]), "text"):
        assert not is_labelled(unlabelled)
