"""Columns of a table as numbers: what each kind becomes, in the fit and for later rows."""

from __future__ import annotations

import datetime as dt
import json
import logging
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import mfrank
from mfrank.data import FeatureColumns
from tests.support.errors import refuses

NAN = float("nan")


def objects(*values: Any) -> Any:
    made = np.empty(len(values), object)
    made[:] = values
    return made


def learned(column: Any) -> FeatureColumns:
    return FeatureColumns.of("item_features", {"x": column})


def features(known: FeatureColumns, column: Any, *, of_fit: bool = True) -> Any:
    found = known.features("item_features", {"x": column}, of_fit=of_fit)
    assert isinstance(found, sp.csr_array)
    assert found.dtype == np.float64
    assert found.shape == (len(column), known.width)
    return found.toarray()


NUMBERS = {
    "whole": np.array([1, 2, 6]),
    "unsigned": np.array([1, 2, 6], np.uint8),
    "narrow": np.array([0.5, 2, 6], np.float32),
    "missing": np.array([1, NAN, 6]),
    "objects": objects(1, None, 2.5, np.int64(4)),
    "equal": np.array([3.0, 3, 3]),
    "none there": np.array([NAN, NAN]),
}


@pytest.mark.parametrize("column", NUMBERS.values(), ids=NUMBERS)
def test_numbers_become_standard_scores_and_a_mark_where_they_are_missing(column: Any) -> None:
    values = np.array([NAN if value is None else value for value in column], float)
    there = ~np.isnan(values)
    center = values[there].mean() if there.any() else 0.0
    scale = (values[there].std() if there.any() else 0.0) or 1.0
    wanted = [np.where(there, (values - center) / scale, 0)]
    wanted += [] if there.all() else [~there]
    known = learned(column)
    assert known.columns[0].kind == "number"
    np.testing.assert_allclose(features(known, column), np.stack(wanted, 1))
    later = features(known, np.array([10.0, -1.0]), of_fit=False)  # in the units of the fit
    np.testing.assert_allclose(later[:, 0], (np.array([10.0, -1.0]) - center) / scale)
    assert not later[:, 1:].any()


pandas = pytest.importorskip("pandas", reason="the extra pandas is not installed")
A, B = "a", "b"
VALUES: dict[str, tuple[Any, str, tuple[str, ...], list[list[int]]]] = {
    "texts": (objects(A, B, A, "c"), "value", (A,), [[1], [0], [1], [0]]),
    "numpy's": (np.array([A, B, A, ""]), "value", (A,), [[1, 0], [0, 0], [1, 0], [0, 1]]),
    "none": (objects(A, None, A), "value", (A,), [[1, 0], [0, 1], [1, 0]]),
    "nan": (objects(A, NAN, A), "value", (A,), [[1, 0], [0, 1], [1, 0]]),
    "NA": (objects(A, pandas.NA, A), "value", (A,), [[1, 0], [0, 1], [1, 0]]),
    "NaT": (objects(A, pandas.NaT, A), "value", (A,), [[1, 0], [0, 1], [1, 0]]),
    "empty": (objects(A, "", A), "value", (A,), [[1, 0], [0, 1], [1, 0]]),
    "truths": (np.array([True, False, True]), "value", ("True",), [[1], [0], [1]]),
    "truths and none": (
        objects(True, None, np.bool_(False), True, False),
        *("value", ("False", "True"), [[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [1, 0, 0]]),
    ),
    "bars": (
        objects("a|b", "b", " a | b ", "c|"),
        "values",
        (A, B),
        [[1, 1], [0, 1], [1, 1], [0, 0]],
    ),
    "lists": (objects([A, B], (B,), {"c"}, []), "values", (B,), [[1], [1], [0], [0]]),
    "lists of numbers": (objects([1, 2], [2], [2, 2]), "values", ("2",), [[1], [1], [1]]),
    "nothing": (objects(None, None), "value", (), [[1], [1]]),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_that_several_rows_have_become_marks(name: str) -> None:
    column, kind, values, wanted = VALUES[name]
    known = learned(column)
    assert (known.columns[0].kind, known.columns[0].values) == (kind, values)
    assert features(known, column).tolist() == wanted


def test_lists_of_one_length_are_lists_and_structs_are_not() -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    rows = [[A, B], None, [B, "c"], None]
    table = polars.DataFrame({"item": list("wxyz"), "x": polars.Series(rows)})
    data = mfrank.Interactions.from_arrays(list("wxyz"), list("wxyz"))
    model = mfrank.ALS(factors=2, iterations=1, random_state=0)
    for kind in (polars.List(polars.String), polars.Array(polars.String, 2)):
        model.fit(data, item_features=table.with_columns(polars.col("x").cast(kind)))
        (known,) = FeatureColumns.from_array(model.store.extras["item_feature_columns"]).columns
        assert (known.kind, known.values, known.missing) == ("values", (B,), True)
    for column in (
        polars.Series([[0.5, 1]] * 4, dtype=polars.Array(polars.Float64, 2)),
        polars.Series([[1, 2], None] * 2, dtype=polars.Array(polars.Float64, 2)),
        polars.Series([{"a": 1, "b": 2}] * 4),
    ):
        with refuses(TypeError, "item_features", remedy="convert it"):
            model.fit(data, item_features=table.with_columns(column.alias("x")))


def test_later_rows_are_read_as_those_of_the_fit() -> None:
    known = learned(objects("a|b", "b|a", None))  # a single value has no bar, and is one of several
    assert features(known, objects("b", "a|b", None, "")).tolist() == [
        [0, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1],
    ]  # fmt: skip
    assert features(known, np.array([NAN, NAN])).tolist() == [[0, 0, 1]] * 2  # an empty column
    number = learned(np.array([1.0, NAN, 3]))
    assert features(number, objects(None, None)).tolist() == [[0, 1]] * 2
    assert features(number, objects(None, 3)).tolist() == [[0, 1], [1, 0]]


def test_values_without_a_feature_are_told_with_examples() -> None:
    known = learned(objects(A, A, B, B, "rare"))
    later = objects("p", A, "q", "rare", "p", "s", None)
    with pytest.warns(UserWarning, match=r"'x' has 4 values that .*: 'p', 'q', 'rare'$"):
        assert features(known, later, of_fit=False).sum() == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        features(known, objects(A, B, None), of_fit=False)
        features(known, later)
        features(learned(objects("Heat", "Ran")), objects("Alien"), of_fit=False)


@pytest.mark.parametrize(
    "column",
    [
        objects(A, 1),
        objects(A, [A]),
        objects(dt.date(2024, 1, 1)),
        objects({A: 1}),
        objects(b"a"),
        objects([None]),
    ],
)
def test_other_columns_are_refused_by_name(column: Any) -> None:
    with refuses(TypeError, "item_features", remedy="convert it"):
        learned(column)


def test_later_columns_are_refused_by_name_too() -> None:
    for fit, later in ((np.arange(3), np.array([0, np.inf])), (objects(A, A), objects(b"a"))):
        with refuses((TypeError, ValueError), "item_features"):
            features(learned(fit), later)


def test_numbers_too_large_are_refused() -> None:
    for column in (np.full(8, 1.7e308), np.array([1e308, -1e308])):
        with refuses(ValueError, "item_features"):
            learned(column)
    with refuses(ValueError, "item_features", remedy="leave it empty"):
        learned(np.array([NAN, -np.inf]))


@pytest.mark.parametrize(
    ("column", "n_told"),
    [
        (["3", "NA", "4"], 1),
        (["NA", "NA", "NA"], 0),  # one text: nothing says that it stands for a number
        (["01234", "NA", "02345"], 0),  # codes
        (["01,5", "NA", "3"], 0),
        (["0,5", "NA", "3"], 1),
        (["3", "4", "5"], 0),  # texts on purpose
        (["3", "many", "5"], 0),
        ([*map(str, range(30)), "unknown", "soon"], 1),
        ([*map(str, range(30)), "080442957X"], 0),  # codes
    ],
)
def test_texts_for_numbers_are_told(
    column: list[str], n_told: int, caplog: pytest.LogCaptureFixture
) -> None:
    learned(objects(*column))
    assert sum("is not read as numbers" in line for line in caplog.messages) == n_told


@pytest.mark.parametrize(
    ("column", "n_told"),
    [
        (["Action, Comedy", "Drama", "Comedy,Drama", "Action"], 1),
        (["a;b", "b; c", "c", "a"], 1),
        (["Action|Comedy", "Comedy, Drama", "Drama, Comedy"], 0),  # one of them is a list
        (["Paris, France", "Lyon, France", "Oslo, Norway", "Bergen, Norway"], 0),
        (["Toy Story, The", "Heat", "Net, The"], 0),
        *(
            ([f"Action{mark}Comedy", "Drama", f"Comedy{mark}Drama", "Action"], 1)
            for mark in (" / ", "/", "#", "~", "::", "\t", "\n", "\u3001", "\uff0c")
        ),
        (["2024/01/31", "2024/01/30", "2023/01/31", "2023/01/30"], 0),
        (["https://a.b/c", "https://a.b/d", "https://a.b", "https://a.b/d/c"], 0),
        (["AC/DC", "Rock", "Him/Her"], 0),
        ([], 0),
    ],
)
def test_lists_with_other_marks_are_told(
    column: list[str], n_told: int, caplog: pytest.LogCaptureFixture
) -> None:
    learned(objects(*column))
    assert sum("join their parts by |" in line for line in caplog.messages) == n_told


def test_twins_are_told_of_single_values_only(caplog: pytest.LogCaptureFixture) -> None:
    learned(objects("Drama", "drama ", "DRAMA"))
    assert sum("'Drama' and 'drama '" in line for line in caplog.messages) == 1
    caplog.clear()
    learned(objects("Drama|x", "drama", "Drama"))
    assert not [one for one in caplog.records if one.levelno == logging.WARNING]


def test_what_was_learned_is_saved_and_read() -> None:
    table = {"x": np.array([1.0, NAN, 3]), 7: objects("a|b", "b|a", ""), "t": objects(A, A, A)}
    known = FeatureColumns.of("item_features", table)
    assert FeatureColumns.from_array(known.to_array()) == known
    assert known.width == 2 + 3 + 1
    assert known.features("item_features", table, of_fit=True).shape == (3, 6)


def saved(**changes: Any) -> Any:
    column = {"name": "x", "kind": "number", "missing": False, "center": 1.0, "scale": 2.0}
    return {"columns": [{**column, "values": [], **changes}]}


@pytest.mark.parametrize(
    "damaged",
    [
        saved(scale=0.0),
        saved(scale=1),
        saved(center=1),
        saved(name=3),
        saved(kind="amount"),
        saved(missing=1),
        saved(values=[3]),
        saved(values=None),
        saved(more=1),
        {**saved(), "more": 1},
        {"columns": [3]},
        {"columns": None},
        [],
    ],
)
def test_damaged_columns_are_refused(damaged: Any) -> None:
    def array(content: Any) -> Any:
        return np.frombuffer(json.dumps(content).encode(), np.uint8)

    assert FeatureColumns.from_array(array(saved())).columns[0].scale == 2
    with refuses(ValueError, place="the feature columns saved with the model", remedy="restore it"):
        FeatureColumns.from_array(array(damaged))
    for other in (array(saved()).astype(float), array(saved())[None], array(saved())[:-2]):
        with refuses(
            ValueError, place="the feature columns saved with the model", remedy="restore it"
        ):
            FeatureColumns.from_array(other)
