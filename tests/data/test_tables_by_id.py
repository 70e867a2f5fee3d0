"""The features of a table's rows are placed by id; what has no row, or no feature, is told."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from mfrank.data import FeatureTable, Ids, feature_rows, is_table, is_unnamed, place_of_ids
from tests.support.errors import refuses

pandas = pytest.importorskip("pandas", reason="the extra pandas is not installed")

IDS = Ids.of(["a", "b", "c", "d"])
THREE = Ids.of(["a", "b", "c"])


def table(**columns: Any) -> FeatureTable:
    return FeatureTable.of("item_features", pandas.DataFrame(columns), IDS)


KIND = {"item": ["d", "b", "z"], "kind": ["x", "y", "x"], "year": [1.0, 3, 5]}


def test_rows_are_placed_by_id_before_a_column_of_ones() -> None:
    own = table(**KIND)
    known = own.learned()  # of all rows: x is in two of them, years have a mean of 3
    found = own.features(known, IDS, of_fit=True).toarray()
    scale = np.std([1, 3, 5])
    np.testing.assert_allclose(found, [[0, 0, 1], [0, 0, 1], [0, 0, 1], [1, -2 / scale, 1]])
    with refuses(TypeError, "item_features", remedy="encode categories as columns"):
        own.numbers(IDS)
    years = table(item=["d", "z", "a"], year=[1.0, 3, 5], n=[7, 8, 9])
    np.testing.assert_array_equal(years.numbers(IDS), [[5, 9], [np.nan] * 2, [np.nan] * 2, [1, 7]])


def test_a_table_of_other_ids_is_refused() -> None:
    other = table(item=["x", "y"], year=[1, 2])
    for use in (lambda: other.features(other.learned(), IDS), lambda: other.numbers(IDS)):
        with refuses(ValueError, "item_features"):
            use()


def test_values_of_new_rows_alone_are_warned_of() -> None:
    known = table(item=list("abcd"), kind=["x", "x", "y", "y"]).learned()
    later = table(item=list("abcd"), kind=["x", "p", "q", "r"])
    for familiar, told in (([1, 1, 0, 1], "'q'$"), ([1, 0, 0, 1], "2 values .*'p', 'q'$")):
        with pytest.warns(UserWarning, match=told) as caught:
            rows = later.features(known, IDS, familiar=np.array(familiar, bool))
        assert len(caught) == 1
        assert rows.toarray().tolist() == [[1, 0, 1], [0, 0, 1], [0, 0, 1], [0, 0, 1]]
    with pytest.warns(UserWarning, match="3 values"):
        later.features(known, IDS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        later.features(known, IDS, familiar=np.ones(4, bool))
        later.features(known, IDS, of_fit=True)
        later.features(known, Ids.of(["a"]))  # what other rows hold is not worth one


@pytest.mark.parametrize(
    ("items", "level", "words"),
    [
        ("abcd", None, ""),
        ("abc", "INFO", "1 of 4 items of the interactions have no row"),
        ("ab", "INFO", "2 of 4 items"),  # half of them
        ("a", "WARNING", "3 of 4 items"),
        ("abcdz", "WARNING", "1 row of items that the interactions do not have"),
    ],
)
def test_rows_without_their_counterpart_are_told_in_a_fit(
    items: str, level: str | None, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    own = table(item=list(items), n=range(len(items)))
    known = own.learned()
    caplog.set_level("INFO", "mfrank")
    for of_fit in (False, True):
        caplog.clear()
        own.features(known, IDS, of_fit=of_fit)
        told = [(one.levelname, one.getMessage()) for one in caplog.records]
        assert [name for name, _ in told] == ([level] if level and of_fit else [])
        assert all(line.startswith("item_features: " + words) for _, line in told)
    caplog.clear()
    own.numbers(IDS)
    assert [one.levelname for one in caplog.records] == ([level] if level else [])


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        (["film", "item"], "item"),
        (["Item_ID", "movie"], "Item_ID"),
        (["track", "ItemId"], "ItemId"),
        (["film", "ID"], "film"),
        (["title", " Id "], " Id "),
    ],
)
def test_the_surest_name_has_the_ids(names: list[str], ids: str) -> None:
    columns: dict[str, Any] = {name: ["u", "v", "w"] for name in names} | {ids: ["a", "b", "c"]}
    own = FeatureTable.of("item_features", pandas.DataFrame(columns), IDS)
    assert own.labels.tolist() == ["a", "b", "c"]
    assert list(own.columns) == [name for name in names if name != ids]


def test_names_and_places_of_ids() -> None:
    assert [is_unnamed(name) for name in ("", "Unnamed: 0", "__index_level_0__", "x", 0)] == [
        *(True, True, True, False, False)
    ]
    assert place_of_ids(["title", "user", "USER-ID"], "user") == 1
    assert place_of_ids(["title", "I.T.E.M"]) == 1
    assert place_of_ids(["title", "Item"]) == 1
    assert [is_table(one) for one in ("a.csv", Path("a"), pandas.DataFrame(), np.eye(2))] == [
        *(True, True, True, False)
    ]


def test_an_index_of_the_other_side_is_not_the_ids() -> None:
    frame = pandas.DataFrame({"x": [1, 2]}, index=pandas.Index(["a", "b"], name="user"))
    with refuses(ValueError, "item_features", remedy="name it '(item|user)'"):
        FeatureTable.of("item_features", frame, IDS)
    assert FeatureTable.of("user_features", frame, IDS).labels.tolist() == ["a", "b"]
    with refuses(ValueError, "user_features", remedy="name it '(item|user)'"):
        FeatureTable.of("user_features", frame.rename_axis("item"), IDS)


# files


def of_text(folder: Path, text: str, suffix: str = ".csv", ids: Ids = IDS) -> FeatureTable:
    (folder / f"t{suffix}").write_text(text)
    return FeatureTable.of("item_features", folder / f"t{suffix}", ids)


def test_columns_of_text_are_numbers_if_all_fields_are(tmp_path: Path) -> None:
    text = "item,n,code,mixed,hole\na,1,01,1,2\nb,2.5,1,x,\nc,-3e1,2,3,4\n"
    for suffix in (".csv", ".tsv", ".TSV"):
        own = of_text(tmp_path, text.replace(",", "\t" if suffix != ".csv" else ","), suffix)
        assert own.labels.tolist() == ["a", "b", "c"]
        assert own.columns["n"].tolist() == [1, 2.5, -30]
        assert own.columns["code"].tolist() == ["01", "1", "2"]
        assert own.columns["mixed"].tolist() == ["1", "x", "3"]
        np.testing.assert_array_equal(own.columns["hole"], [2, np.nan, 4])
        assert own.texts["hole"].tolist() == ["2", None, "4"]
    known = of_text(tmp_path, "item,x\na,u\nb,u\n").learned()  # texts in the fit, numbers later
    later = of_text(tmp_path, "item,x\na,7\nb,8\n")
    with pytest.warns(UserWarning, match="2 values .*'7', '8'"):
        assert later.features(known, IDS).toarray()[:, 0].tolist() == [0, 0, 0, 0]


def test_texts_in_a_column_without_a_name_are_the_ids(tmp_path: Path) -> None:
    own = of_text(tmp_path, ",n\na,1\nb,2\n")
    assert (own.labels.tolist(), list(own.columns)) == (["a", "b"], ["n"])


def test_ids_of_text_are_spelled_like_those_of_the_data(tmp_path: Path) -> None:
    text = "item,n\n7,1\n10,2\n"
    assert of_text(tmp_path, text, ids=Ids.of([7, 10])).labels.tolist() == [7, 10]
    assert of_text(tmp_path, text, ids=Ids.of(["7", "10"])).labels.tolist() == ["7", "10"]
    assert of_text(tmp_path, "item,n\n007,1\n", ids=Ids.of(["007"])).labels.tolist() == ["007"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "item;n\na;1\n",
            "has one column, 'item;n'; fields of a .csv file are separated by commas",
        ),
        ("", r"t\.csv is empty; its first line must name the columns"),
        ("item,n\na,1\nb\n", "has 2 columns, and row 1 has 1 field"),
        ("item,n\na,1\nb,2,3\n", "has 2 columns, and row 1 has 3 fields"),
        ('item,n\na,"1\n', "a quote is opened there and not closed"),
        ("item,n\n ,1\n", "ids must not be missing, got none in row 0"),
        ("item,n,n\na,1,2\n", "two columns 'n'; rename one"),
    ],
)
def test_files_that_are_no_such_tables_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^item_features.*{message}"):
        of_text(tmp_path, text)


def test_a_file_elsewhere_is_read(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec: pip install mfrank[remote]")
    for name in ("a", "b"):
        with fsspec.open(f"memory://features/{name}.csv", "w") as file:
            file.write("item,year\n1,1990\n2,2000\n")
    found = FeatureTable.of("item_features", "memory://features/a.csv", Ids.of(np.array([1, 2])))
    assert found.columns["year"].tolist() == [1990, 2000]
    with pytest.raises(FileNotFoundError, match=r"memory://features/c\.csv"):
        FeatureTable.of("item_features", "memory://features/c.csv", IDS)
    with refuses(ValueError, "item_features", remedy="pass one file"):
        FeatureTable.of("item_features", "memory://features/", IDS)
    with refuses(ValueError, "item_features", remedy="read_sql"):
        FeatureTable.of("item_features", "sqlite:///shop.db", IDS)


def test_what_is_no_file_of_features_is_refused(tmp_path: Path) -> None:
    with refuses(ValueError, "item_features", remedy="pass a file"):
        FeatureTable.of("item_features", tmp_path, IDS)
    with pytest.raises(FileNotFoundError, match=r"there is no file .*none\.csv"):
        FeatureTable.of("item_features", tmp_path / "none.csv", IDS)
    with refuses(ValueError, "item_features"):
        FeatureTable.of("item_features", tmp_path / "t.xlsx", IDS)


def test_without_pyarrow_the_error_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match=r"parquet files need pyarrow.*mfrank\[parquet\]"):
        FeatureTable.of("item_features", tmp_path / "t.parquet", IDS)


# matrices


@pytest.mark.parametrize(
    ("given", "error", "fault"),
    [
        (np.eye(3)[:2], ValueError, {"argument": "item_features"}),
        (np.ones(3), ValueError, {"argument": "item_features"}),
        (np.ones((3, 1)), ValueError, {"argument": "item_features"}),
        (
            np.array([["a", "b"]] * 3),
            TypeError,
            {"argument": "item_features", "remedy": "make categories columns"},
        ),
        (
            np.array([[1, np.nan]] * 3),
            ValueError,
            {"argument": "item_features", "remedy": "use 0 for what is missing"},
        ),
    ],
)
def test_matrices_of_features_have_a_row_for_each(
    given: Any, error: type[Exception], fault: dict[str, str]
) -> None:
    with refuses(error, **fault):
        feature_rows("item_features", given, THREE, 2)


def test_a_matrix_of_features_is_copied_and_canonical() -> None:
    given = np.array([[True, False], [False, False], [True, True]])
    found = feature_rows("item_features", given, THREE)
    assert found.dtype == np.float64
    assert found.toarray().tolist() == given.astype(float).tolist()
    with refuses(ValueError, "item_features", remedy="leave it out"):
        feature_rows("item_features", np.ones((3, 0)), THREE)
    twice = sp.csr_array(([1.0, 2, 3], [1, 1, 0], [0, 2, 2, 3]), shape=(3, 2))
    merged = feature_rows("item_features", twice, THREE)
    assert (merged.nnz, merged.toarray().tolist()) == (2, [[0, 3], [0, 0], [3, 0]])
    own = feature_rows("item_features", found, THREE)
    own.data[:] = 9
    assert found.data.max() == 1
