"""Features that are ids, or count the rows, are told or refused through every door."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import als

import mfrank
from mfrank import pagerank
from mfrank.cli.main import main
from tests.support.errors import refuses

pandas = pytest.importorskip("pandas", reason="makes the tables with pandas")

N = 12
ITEMS = [7 * n + 3 for n in range(N)]
SIZES = np.random.default_rng(0).normal(size=(N, 2)) ** 2
MARKS = "has the ids", "counts the rows"


def data(items: Any = ITEMS, seed: int = 1) -> mfrank.Interactions:
    users, of = np.nonzero(np.random.default_rng(seed).random((30, N)) < 0.4)
    return mfrank.Interactions.from_arrays(users, [items[n] for n in of], item_ids=items)


def by_als(features: Any, items: Any) -> Any:
    return als(iterations=1).fit(data(items), item_features=features)


def of_users(features: Any, items: Any) -> Any:
    known = data(items)
    turned = mfrank.Interactions.from_arrays(
        np.asarray(items)[known.user_items.indices],
        known.entry_users,
        user_ids=items,
    )
    return als(iterations=1).fit(turned, user_features=features)


def by_update(features: Any, items: Any) -> Any:
    """Of a model whose features were right."""
    right = pandas.DataFrame(SIZES, index=pandas.Index(items, name="item"))
    if not hasattr(features, "columns"):
        right = np.column_stack([SIZES, SIZES[:, :1]])[:, : features.shape[1]]
    model = by_als(right, items)
    return model.partial_fit(data(items), item_features=features)


def by_trees(features: Any, items: Any) -> Any:
    pytest.importorskip("catboost", reason="catboost is not installed")
    known = data(items)
    dense = features.toarray() if sp.issparse(features) else features
    valid = data(items, seed=2)
    model = mfrank.Reranker(by_als(None, items), iterations=2)
    return model.fit(known, valid, item_features=dense)


def by_walks(features: Any, items: Any) -> Any:
    dense = features.toarray() if sp.issparse(features) else features
    return pagerank.similar_items(by_als(None, items).store, item_features=dense)


MATRICES: dict[str, Callable[[Any, Any], Any]] = {
    "fit": by_als,
    "users": of_users,
    "update": by_update,
    "trees": by_trees,
    "walks": by_walks,
}
FORMS: dict[str, Callable[[Any], Any]] = {
    "float64": np.asarray,
    "float32": np.float32,
    "sparse": sp.csr_array,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("door", MATRICES)
@pytest.mark.parametrize(
    ("column", "told"),
    [(ITEMS, "has the ids of the"), (range(N), "counts the rows from 0")],
)
def test_a_matrix_with_its_ids_is_told(
    door: str, form: str, column: Any, told: str, caplog: Any
) -> None:
    MATRICES[door](FORMS[form](np.column_stack([SIZES, column])), ITEMS)
    assert f"column 2 {told}" in caplog.text
    assert "numpy.delete" in caplog.text


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("door", MATRICES)
def test_a_matrix_in_another_order_is_refused(door: str, form: str) -> None:
    side = "user_features" if door == "users" else "item_features"
    given = FORMS[form](np.column_stack([ITEMS[::-1], SIZES]))
    with refuses(ValueError, side, remedy="pass a DataFrame"):
        MATRICES[door](given, ITEMS)


@pytest.mark.parametrize("door", MATRICES)
def test_other_features_are_not_told(door: str, caplog: Any) -> None:
    """Among them: as many ones as rows, ids of no other, ranks, years, one column for each id."""
    ranks = np.random.default_rng(5).permutation(N)
    years = 1980 + np.arange(N)
    for given in (np.column_stack([SIZES, ranks]), np.column_stack([years, SIZES])):
        MATRICES[door](given, ITEMS)
    assert not any(mark in caplog.text for mark in MARKS)


def test_one_column_for_each_item_is_not_told(caplog: Any) -> None:
    by_als(sp.eye_array(N).tocsr(), ITEMS)
    by_als(np.ones((N, 1)), ITEMS)
    assert not any(mark in caplog.text for mark in MARKS)


def test_ids_that_only_count_may_be_ranks(caplog: Any) -> None:
    items = list(range(1, N + 1))
    by_als(np.column_stack([SIZES, items[::-1]]), items)
    assert "in another order" not in caplog.text
    by_als(np.column_stack([items[::-1], SIZES]), items)
    assert "column 0 has the numbers of all item ids in another order" in caplog.text


def test_large_ids_are_found_in_single_precision(caplog: Any) -> None:
    items = [1_000_000_007 + 1_000_003 * n for n in range(N)]
    by_als(np.float32(np.column_stack([SIZES, items])), items)
    assert "column 2 has the ids of the items" in caplog.text


def test_ids_of_text_are_compared_as_numbers(caplog: Any) -> None:
    items = [f"{n:05}" for n in ITEMS]
    by_als(np.column_stack([SIZES, ITEMS]), items)
    assert "column 2 has the ids of the items" in caplog.text
    by_als(SIZES, [f"i{n}" for n in ITEMS])


@pytest.mark.parametrize("form", FORMS)
def test_columns_of_a_matrix_in_another_unit_are_told(form: str, caplog: Any) -> None:
    seconds = 1_700_000_000 + 86_400.0 * np.random.default_rng(3).permutation(N)
    for other in (SIZES, np.ones((N, 0))):
        caplog.clear()
        by_als(FORMS[form](np.column_stack([other, seconds])), ITEMS)
        assert f"column {other.shape[1]} goes up to 1.70" in caplog.text
    caplog.clear()
    years = 1980.0 + np.random.default_rng(3).permutation(N)
    by_als(FORMS[form](np.column_stack([SIZES, years, 900 * SIZES])), ITEMS)
    by_als(FORMS[form](np.zeros((N, 2))), ITEMS)
    assert "goes up to" not in caplog.text


def frame(**more: Any) -> Any:
    return pandas.DataFrame({"item": ITEMS, "size": SIZES[:, 0], **more})


def of_polars(table: Any, _: Path) -> Any:
    return pytest.importorskip("polars", reason="needs polars").from_pandas(table)


def in_csv(table: Any, folder: Path) -> Any:
    table.to_csv(folder / "items.csv", index=False)
    return folder / "items.csv"


def in_parquet(table: Any, folder: Path) -> Any:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    table.to_parquet(folder / "items.parquet")
    return folder / "items.parquet"


TABLES: dict[str, Callable[[Any, Path], Any]] = {
    "pandas": lambda table, _: table,
    "polars": of_polars,
    "csv": in_csv,
    "parquet": in_parquet,
}


@pytest.mark.parametrize("door", TABLES)
@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"filmNumber": ITEMS}, "column 'filmNumber' has the ids again"),
        ({"index": range(N)}, "column 'index' counts the rows from 0"),
        ({"row": range(1, N + 1)}, "column 'row' counts the rows from 1"),
    ],
)
def test_a_table_with_further_ids_is_told(
    door: str, more: dict[str, Any], told: str, tmp_path: Path, caplog: Any
) -> None:
    for use in (by_als, by_walks):
        caplog.clear()
        use(TABLES[door](frame(**more), tmp_path), ITEMS)
        assert caplog.text.count(told) == 1


@pytest.mark.parametrize("door", TABLES)
def test_a_table_of_other_numbers_is_not_told(door: str, tmp_path: Path, caplog: Any) -> None:
    more = {"year": 1980 + np.arange(N), "rank": range(1, N + 1), "on": [True] * N}
    by_als(TABLES[door](frame(**more), tmp_path), ITEMS)
    assert not any(mark in caplog.text for mark in MARKS)


def test_commands_tell_it(tmp_path: Path, capsys: Any) -> None:
    data().to_pandas().to_csv(tmp_path / "a.csv", index=False)
    items = str(in_csv(frame(filmNumber=ITEMS), tmp_path))
    fit = ["fit", str(tmp_path / "a.csv"), "--model", str(tmp_path / "m"), "--item-features", items]
    assert main([*fit, "--iterations", "1"]) == 0
    assert "--item-features: column 'filmNumber' has the ids again" in capsys.readouterr().err
