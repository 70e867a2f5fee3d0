"""Judged documents: bad ones are refused, text is read back, lists hold every document once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank.data import Judged, Scaling, svmlight
from mfrank.descent import QueryLists
from mfrank.evaluation import MRR, NDCG, LimitedAUC, Recall, evaluate_queries
from mfrank.losses import WRITTEN_OUT
from tests.support.errors import refuses

ENDLESS = np.broadcast_to(np.int64(1), 10**15)
FEATURES = [[0.5, 2], [1, 0], [0, -1]]


@pytest.mark.parametrize(
    ("features", "relevance", "queries", "error", "fault"),
    [
        ([], [], [], ValueError, {"argument": "features"}),
        (np.zeros((0, 2)), [], [], ValueError, {"argument": "features"}),
        ([1.0, 2, 3], [1, 0, 1], [1, 1, 1], ValueError, {"argument": "features"}),
        (np.zeros((3, 0)), [1, 0, 1], [1, 1, 1], ValueError, {"argument": "features"}),
        ([["a"], ["b"], ["c"]], [1, 0, 1], [1, 1, 1], TypeError, {"argument": "features"}),
        (
            [[1, np.nan]] * 3,
            [1, 0, 1],
            [1, 1, 1],
            ValueError,
            {"argument": "features", "remedy": "replace missing values first"},
        ),
        (FEATURES, [1, 0], [1, 1, 1], ValueError, {"argument": "relevance"}),
        (
            FEATURES,
            [1, -1, 0],
            [1, 1, 1],
            ValueError,
            {"argument": "relevance", "remedy": "drop documents"},
        ),
        (
            np.eye(5),
            [-1, 0, -2, -3, -4],
            [1] * 5,
            ValueError,
            {"argument": "relevance", "remedy": "drop documents"},
        ),
        (
            FEATURES,
            [1, 0, np.inf],
            [1, 1, 1],
            ValueError,
            {"argument": "relevance", "remedy": "drop documents"},
        ),
        (FEATURES, ["a", "b", "c"], [1, 1, 1], TypeError, {"argument": "relevance"}),
        (
            FEATURES,
            [1, 0, 1],
            [1, 1],
            ValueError,
            {"argument": "queries", "remedy": "repeat a query's id"},
        ),
        (
            FEATURES,
            [1, 0, 1],
            ENDLESS,
            ValueError,
            {"argument": "queries", "remedy": "repeat a query's id"},
        ),
        (
            FEATURES,
            [1, 0, 1],
            [1, None, 1],
            ValueError,
            {"argument": "queries", "remedy": "give them an id"},
        ),
    ],
)
def test_bad_documents_are_refused(
    features: Any, relevance: Any, queries: Any, error: type[Exception], fault: dict[str, str]
) -> None:
    with refuses(error, **fault):
        Judged(features, relevance, queries)


def test_judged_keeps_its_arrays_and_does_not_change() -> None:
    judged = Judged(np.float32(FEATURES), [1, 0, 2], ["b", "a", "b"])
    assert judged.features.dtype == np.float32
    assert judged.query_ids.raw(judged.query_rows).tolist() == ["b", "a", "b"]
    assert repr(judged) == "Judged(3 documents of 2 queries, 2 features, 2 relevant)"
    for array in (judged.features, judged.relevance, judged.query_rows):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 12), st.floats(0.01, 0.99), st.integers(0, 100))
def test_hold_out_parts_the_queries(n_queries: int, part: float, seed: int) -> None:
    queries = np.arange(40) % n_queries
    judged = Judged(np.arange(40.0)[:, None], np.arange(40) % 3, queries)
    kept, held = judged.hold_out(part, seed)
    values = np.concatenate([kept.features[:, 0], held.features[:, 0]])
    assert sorted(values) == list(range(40))
    here, there = set(kept.query_ids.labels), set(held.query_ids.labels)
    assert here | there == set(range(n_queries))
    assert not here & there
    assert here
    assert len(there) == min(max(round(part * n_queries), 1), n_queries - 1)


def test_one_query_cannot_be_held_out() -> None:
    with refuses(ValueError, "hold_out"):
        Judged(FEATURES, [1, 0, 1], [5, 5, 5]).hold_out()


@pytest.mark.parametrize("part", [0, 1, 1.5, -0.1, np.nan, "some"])
def test_a_part_of_the_queries_is_neither_none_nor_all(part: Any) -> None:
    with refuses((TypeError, ValueError), "part"):
        Judged(FEATURES, [1, 0, 1], [5, 6, 7]).hold_out(part)


def test_names_of_features_stay_and_are_distinct() -> None:
    pandas = pytest.importorskip("pandas", reason="the extra pandas is not installed")
    table = pandas.DataFrame(FEATURES, columns=["x", 7])
    judged = Judged(table, [1, 0, 1], [5, 6, 7])
    assert [one.feature_names for one in (judged, *judged.hold_out(0.4, 0))] == [("x", "7")] * 3
    assert Judged(pandas.DataFrame(FEATURES), [1, 0, 1], [5, 6, 7]).feature_names is None
    with refuses(ValueError, "features"):
        Judged(table.set_axis(["x", "x"], axis=1), [1, 0, 1], [5, 6, 7])


ODD: dict[str, tuple[Any, Any, Any, str]] = {
    "a feature is the relevance": (
        "relevance",
        None,
        None,
        "features have the relevance in column 0",
    ),
    "a feature is the query": ("queries", None, None, "features have the query in column 0"),
    "ranks": (None, np.tile([3, 1, 2, 4], 5), None, "as ranks do, and more is better"),
    "all are relevant": (None, np.ones(20), None, "no query has documents of different"),
    "percent": (None, np.arange(20) * 5, None, "goes up to 95"),
}


@pytest.mark.parametrize("name", ODD)
def test_judgements_that_cannot_be_meant_are_told_once(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    leak, relevance, queries, told = ODD[name]
    rng = np.random.default_rng(0)
    queries = np.repeat(np.arange(5) + 11, 4)
    relevance = rng.permutation(np.arange(20) % 3) if relevance is None else relevance
    features = rng.standard_normal((20, 3))
    features[:, 0] = {"relevance": relevance, "queries": queries}.get(leak, features[:, 0])
    order = rng.permutation(20)  # a query's documents need not be adjacent
    judged = Judged(features[order], relevance[order], queries[order])
    assert [record for record in caplog.messages if told in record] == caplog.messages
    assert len(caplog.messages) == 1
    judged.hold_out(0.4, random_state=0)
    assert len(caplog.messages) == 1


def test_usual_judgements_are_not_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """Grades, probabilities, likes, a query alone, few documents, features of 0 and 1."""
    rng, queries = np.random.default_rng(1), np.repeat(np.arange(10), 10)
    features = np.hstack([rng.standard_normal((100, 2)), rng.integers(0, 2, (100, 3))])
    for relevance in (rng.integers(0, 5, 100), rng.random(100), rng.random(100) < 0.2):
        Judged(features, relevance, queries)
        Judged(features, relevance, np.zeros(100, np.int64))
    Judged([[1.0], [0.0]], [1, 0], [1, 1])
    assert not caplog.messages


def test_queries_of_a_file_that_come_back_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As where two files with numbers of their own are joined."""
    lines = [f"{grade} qid:{query} 1:{grade / 3}" for query in "12" for grade in (0, 2, 1)]
    path = tmp_path / "joined.txt"
    path.write_text("\n".join(lines))
    Judged.from_svmlight(path)
    assert not caplog.messages
    path.write_text("\n".join(lines * 2))
    assert Judged.from_svmlight(path).n_queries == 2
    (told,) = caplog.messages
    assert "2 of 2 queries" in told


def test_svmlight_is_read_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text(
        "# LETOR\n2 qid:10 1:0.5 3:-2e-1 #docid = GX1\n\n0 qid:10 2:1\n1 qid:q7 3:4.25 1:1\n"
    )
    judged = Judged.from_svmlight(path)
    np.testing.assert_array_equal(judged.features, [[0.5, 0, -0.2], [0, 1, 0], [1, 0, 4.25]])
    np.testing.assert_array_equal(judged.relevance, [2, 0, 1])
    assert judged.query_ids.raw(judged.query_rows).tolist() == [10, 10, "q7"]
    wide = Judged.from_svmlight(path, n_features=5)
    np.testing.assert_array_equal(wide.features[:, :3], judged.features)
    assert not wide.features[:, 3:].any()
    for wrong in (0, -1):
        with refuses(ValueError, "n_features"):
            Judged.from_svmlight(path, n_features=wrong)
    path.write_text("2 qid:10 1:0.5\n")
    assert Judged.from_svmlight(path, n_features=1).features.tolist() == [[0.5]]


def test_queries_of_svmlight_keep_what_they_were_written_as(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    queries = ["7", "007", "0", "00", "-1", "+1", "9" * 20]
    path.write_text("".join(f"1 qid:{query} 1:1\n" for query in queries))
    judged = Judged.from_svmlight(path)
    expected = [7, "007", 0, "00", -1, "+1", "9" * 20]
    assert judged.query_ids.raw(judged.query_rows).tolist() == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2:3", "line 2: expected qid:query after the relevance, got '2:3'"),
        ("1", "line 2: expected qid:query"),
        ("1 qid: 2:3", "line 2: expected qid:query"),
        ("x qid:1 2:3", "line 2: expected a number, got 'x'"),
        ("-1 qid:1 2:3", "line 2: relevance must be >= 0"),
        ("nan qid:1 2:3", "line 2: numbers must be finite"),
        ("1 qid:1 2:inf", "line 2: numbers must be finite"),
        ("1 qid:1 2:", "line 2: expected a number, got ''"),
        ("1 qid:1 2", "line 2: expected number:value, got '2'"),
        ("1 qid:1 -2:1", "line 2: expected number:value, got '-2:1'"),
        ("1 qid:1 0:1", "line 2: features are numbered from 1"),
        ("1 qid:1 1:5 2:1 2:1", "line 2: feature 2 is given twice"),
        ("1 qid:1 9:1", "line 2: feature 9 is beyond n_features=8"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(f"0 qid:1 1:1\n{line}\n")
    with pytest.raises(ValueError, match=f"bad.txt, {message}"):
        Judged.from_svmlight(path, n_features=8)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "none.txt"
    path.write_text("# nothing\n")
    with refuses(ValueError, place="none.txt"):
        Judged.from_svmlight(path)


def test_scaling_brings_features_to_one_scale() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(200, 4)) * [1e-9, 1, 1e200, 0] + [1e-8, -3, 0, 7.1]
    scaled = Scaling.of(features).apply(features)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.std(axis=0), [1, 1, 1, 0])
    np.testing.assert_array_equal(Scaling.none(4).apply(features), features)


def test_scaling_of_constant_and_of_tiny_features() -> None:
    features = np.array([[0, 3, 1e-200], [0, 3, 3e-200]])
    scaling = Scaling.of(features)
    np.testing.assert_allclose(scaling.apply(features), [[0, 0, -1], [0, 0, 1]])
    np.testing.assert_allclose(scaling.apply(np.array([[8.0, 5, 2e-200]])), [[0, 0, 0]])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=25))
def test_lists_hold_every_document_once(documents: list[tuple[int, int]]) -> None:
    queries, relevance = np.array(documents).T
    lists = QueryLists(relevance.astype(float), queries.astype(np.int64), 5)
    assert lists.active.tolist() == [q for q in range(5) if (relevance[queries == q] > 0).any()]
    if not len(lists.active):
        return
    found = lists.of(lists.active[::-1].copy(), WRITTEN_OUT)
    kept = np.isin(queries, lists.active)
    assert sorted(found.documents) == np.flatnonzero(kept).tolist()
    positives, negatives = found.spread(relevance[found.documents].astype(float))
    np.testing.assert_allclose(found.lists.gains, 2**positives - 1)
    assert not negatives.any()
    np.testing.assert_array_equal(found.gather(positives, negatives), relevance[found.documents])
    rows, _ = found.spread(1.0 + queries[found.documents])
    there = found.lists.positives
    np.testing.assert_array_equal(
        rows[there] - 1, np.broadcast_to(lists.active[::-1, None], there.shape)[there]
    )
    assert sorted(found.lists.cells[there]) == list(range(lists.n_cells))
    assert (found.lists.cells[~there] == -1).all()


def test_ideal_gains_are_those_of_the_best_order() -> None:
    relevance, queries = np.array([1.0, 0, 2, 3, 1]), np.array([0, 0, 0, 1, 1])
    for cutoff, expected in ((None, [3 + 1 / np.log2(3), 7 + 1 / np.log2(3)]), (1, [3, 7])):
        lists = QueryLists(relevance, queries, 2, cutoff).of(np.array([0, 1]), WRITTEN_OUT).lists
        np.testing.assert_allclose(lists.ideal, expected)


def test_evaluation_of_queries_is_the_metric_of_their_orders() -> None:
    judged = Judged(np.zeros((6, 1)), [2, 0, 1, 0, 0, 3], [1, 1, 1, 2, 2, 3])
    graded = NDCG(gain="exponential") @ 2
    scores = [0.1, 0.1, 0.5, 1, 2, 0]  # query 1 stands 1, 2, 0 (a tie by the documents' order)
    found = evaluate_queries(judged, scores, [graded, "mrr", Recall @ 1])
    first = (1 + 3 / np.log2(3)) / (3 + 1 / np.log2(3))
    np.testing.assert_allclose(found[graded].per_user, [first, 0, 1])
    np.testing.assert_allclose(found[MRR].per_user, [1, 0, 1])
    np.testing.assert_allclose(found[Recall @ 1].per_user, [0.5, 0, 1])
    assert found[graded].value == pytest.approx((first + 1) / 3)
    ones = evaluate_queries(judged, scores, graded, empty=1)
    np.testing.assert_allclose(ones[graded].per_user, [first, 1, 1])
    without = evaluate_queries(judged, scores, graded, empty=None)
    np.testing.assert_allclose(without[graded].per_user, [first, 1])
    assert without.users.tolist() == [0, 2]
    assert without.n_without_test_items == 1


def test_graded_ndcg_agrees_with_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    rng = np.random.default_rng(3)
    relevance, scores = rng.integers(0, 5, 60), rng.normal(size=60)
    judged = Judged(np.zeros((60, 1)), relevance, np.repeat(np.arange(4), 15))
    for k in (3, 10, 50):
        metric = NDCG(gain="exponential") @ k
        found = evaluate_queries(judged, scores, metric)[metric].value
        gains, by_query = (2.0**relevance - 1).reshape(4, 15), scores.reshape(4, 15)
        assert found == pytest.approx(metrics.ndcg_score(gains, by_query, k=k))


@pytest.mark.parametrize(
    ("scores", "options", "error", "argument"),
    [
        ([1, 2], {}, ValueError, "scores"),
        ([1, np.nan, 2], {}, ValueError, "scores"),
        ([1, 2, 3], {"metrics": "auc"}, TypeError, "metrics"),
        ([1, 2, 3], {"metrics": LimitedAUC @ 3}, TypeError, "metrics"),
        ([1, 2, 3], {"metrics": []}, ValueError, "metrics"),
        ([1, 2, 3], {"metrics": 3}, TypeError, "metrics"),
        (["a"] * 3, {}, TypeError, "scores"),
        ([10**400] * 3, {}, TypeError, "scores"),
        ([1, 2, 3], {"empty": np.nan}, ValueError, "empty"),
    ],
)
def test_bad_scores_are_refused(
    scores: list[float], options: dict[str, Any], error: type[Exception], argument: str
) -> None:
    judged = Judged(FEATURES, [1, 0, 1], [1, 1, 1])
    with refuses(error, argument):
        evaluate_queries(judged, scores, **options)


def test_only_judged_documents_are_evaluated():
    for other in (None, 5, np.zeros((3, 2))):
        with refuses(TypeError, "judged"):
            evaluate_queries(other, [0.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"1 qid:1 1:1\n0 qid:1 \xff:1", "line 2: byte 0xff is not UTF-8"),
        (b"1 qid:1 1:1\n0 qid:1 1:1 # \xff", "line 2: byte 0xff is not UTF-8"),
        (b"1 qid:1 1:1 " + b"9" * 30 + b":1", "line 1: feature 9{30} is beyond"),
        (b"1 qid:1 1:1 2147483647:1", "table of 1 documents x 2147483647 features would be"),
    ],
)
def test_damaged_numbers_and_letters_are_told(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=rf"{path}.*{message}"):
        Judged.from_svmlight(path)


def test_large_tables_are_read_where_they_are_not_all_but_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "train.txt"
    path.write_text("1 qid:1 100000:2\n0 qid:1 3:1\n")
    assert Judged.from_svmlight(path).features.shape == (2, 100_000)
    monkeypatch.setattr(svmlight, "_LARGE", 1_000)
    for width, is_read in ((1_500, True), (1_501, False)):  # a thousand elements for each value
        path.write_text(f"1 qid:1 {width}:2 1:3\n0 qid:1 3:1\n")
        if is_read:
            assert Judged.from_svmlight(path).features.shape == (2, width)
        else:
            with refuses(ValueError, place="train.txt", remedy="number features without gaps"):
                Judged.from_svmlight(path)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["qid", "x"], ["'qid'"]),
        (["Relevance", "query_id"], ["'query_id', 'Relevance'"]),
        (["x", "labels_of_it"], []),
    ],
)
def test_features_that_are_named_as_the_answers_are_told(names, told, caplog):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=names)
    judged = Judged(table, [1, 0], [1, 1])
    assert judged.n_features == 2
    assert [
        line.getMessage().split(", which")[0].split("column ")[1] for line in caplog.records
    ] == told


GRADES = [2, 0, 1, 0, 0, 1, 2, 0, 0, 1, 0, 3]
QUERIES = [11] * 4 + [5] * 5 + [7] * 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize(
    ("column", "what"),
    [(GRADES, "the relevance"), (QUERIES, "the query"), (range(12), "the number of the row")],
)
def test_features_that_are_the_answers_are_told(column, what, dtype, caplog):
    features = np.column_stack([np.arange(12)[::-1], column]).astype(dtype)
    judged = Judged(features, GRADES, QUERIES)
    assert f"features have {what} in column 1" in caplog.text
    caplog.clear()
    parts = judged.hold_out(0.5, random_state=0)
    assert sum(part.n_documents for part in parts) == 12
    assert not caplog.records  # as it was told of the whole


def test_other_features_are_not_told(caplog):
    features = np.column_stack([np.zeros(12), np.arange(12) % 3, np.minimum(GRADES, 1)])
    Judged(features, GRADES, QUERIES)
    Judged(features, np.zeros(12), QUERIES)
    assert not caplog.records
    Judged(features, np.ones(12), [f"q{n}" for n in QUERIES])
    assert "leave it out" not in caplog.text
