"""Rows of feature tables are found by id, however the table was sorted, filtered and stored."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fits import als

import mfrank
from mfrank.cli.main import main
from mfrank.data import FeatureTable, Ids, place_of_ids
from tests.support.errors import refuses

pandas = pytest.importorskip("pandas", reason="makes the tables with pandas")

N = 12
ITEMS = np.arange(N) + 1  # near to row numbers, so that rows taken for ids would be found
IDS = Ids.of(ITEMS)


def data() -> mfrank.Interactions:
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((30, N)) < 0.4)
    return mfrank.Interactions.from_arrays(users, ITEMS[items], item_ids=ITEMS)


def frame(column: str = "item") -> Any:
    return pandas.DataFrame({column: ITEMS, "year": 1990.0 + np.arange(N) ** 2, "long": ITEMS % 3})


LEFT: dict[str, Callable[[Any], Any]] = {
    "as it was": lambda table: table,
    "sorted": lambda table: table.sort_values("year", ascending=False),
    "sampled": lambda table: table.sample(frac=1, random_state=0),
    "sliced": lambda table: pandas.concat([table[6:], table[:6]]),
    "concatenated": lambda table: pandas.concat([table[::2].reset_index(drop=True), table[1::2]]),
    "other numbers": lambda table: table.set_axis(ITEMS[::-1]),
    "floats": lambda table: table.set_axis(ITEMS[::-1] / 2),
}
"""What leaves an index that means nothing."""


def written(kind: str) -> Callable[[Any, Path], Any]:
    def door(table: Any, folder: Path) -> Any:
        if kind in ("csv", "tsv"):
            table.to_csv(folder / f"t.{kind}", sep="\t" if kind == "tsv" else ",")
            return folder / f"t.{kind}"
        if kind == "csv read again":
            table.to_csv(folder / "t.csv")
            return pandas.read_csv(folder / "t.csv")
        pytest.importorskip("pyarrow", reason="writes Parquet")
        table.to_parquet(folder / "t.parquet")
        return folder / "t.parquet"

    return door


def polars_of(table: Any, folder: Path) -> Any:
    polars = pytest.importorskip("polars", reason="a table of polars")
    return polars.DataFrame(table.to_dict("list"))


def arrow_of(table: Any, folder: Path) -> Any:
    pyarrow = pytest.importorskip("pyarrow", reason="a table of Arrow")
    return pyarrow.Table.from_pandas(table)


DOORS: dict[str, Callable[[Any, Path], Any]] = {
    "pandas": lambda table, folder: table,
    "polars": polars_of,
    "arrow": arrow_of,
    **{kind: written(kind) for kind in ("csv", "tsv", "csv read again", "parquet")},
}


def read(table: Any) -> dict[Any, tuple[Any, ...]]:
    """Each row's features by its id."""
    found = FeatureTable.of("item_features", table, IDS)
    rows = zip(*(column.tolist() for column in found.columns.values()), strict=True)
    return {
        "names": sorted(map(str, found.columns)),
        **dict(zip(found.labels.tolist(), rows, strict=True)),
    }


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("left", LEFT)
def test_a_column_of_ids_beats_an_index_that_is_left(left: str, door: str, tmp_path: Path) -> None:
    assert read(DOORS[door](LEFT[left](frame()), tmp_path)) == read(frame())


@pytest.mark.parametrize("column", ["item_id", "movieId", "id", "SKU"])
@pytest.mark.parametrize("door", ["pandas", "csv"])
def test_every_name_of_the_column_beats_it(door: str, column: str, tmp_path: Path) -> None:
    assert read(DOORS[door](LEFT["sampled"](frame(column)), tmp_path)) == read(frame())


@pytest.mark.parametrize("left", LEFT)
def test_the_model_is_the_same(left: str) -> None:
    first = als().fit(data(), item_features=frame())
    other = als().fit(data(), item_features=LEFT[left](frame()))
    np.testing.assert_allclose(other.item_factors, first.item_factors, rtol=1e-5, atol=1e-6)


MEANING: dict[str, Callable[[Any], Any]] = {
    "named as the column": lambda table: table.set_index("item", drop=False),
    "named otherwise": lambda table: table.set_index(pandas.Index(ITEMS, name="code")),
    "text": lambda table: table.set_axis([f"i{n}" for n in ITEMS]),
    "two levels": lambda table: table.set_axis(
        pandas.MultiIndex.from_arrays([ITEMS, ITEMS], names=["item", "part"])
    ),
}


@pytest.mark.parametrize("index", MEANING)
def test_an_index_that_means_something_and_a_column_are_an_error(index: str) -> None:
    with refuses(ValueError, "item_features", remedy="remove the index"):
        read(MEANING[index](frame()))


@pytest.mark.parametrize("door", ["pandas", "csv", "parquet", "arrow"])
def test_text_in_an_index_without_a_name_is_a_source_in_files_too(
    door: str, tmp_path: Path
) -> None:
    with refuses(ValueError, "item_features", remedy="remove the index"):
        read(DOORS[door](MEANING["text"](frame()), tmp_path))


@pytest.mark.parametrize("door", DOORS)
def test_an_index_with_a_name_needs_no_column(door: str, tmp_path: Path) -> None:
    table = frame().sample(frac=1, random_state=1).set_index("item")
    if door == "polars":
        table = table.reset_index()
    assert read(DOORS[door](table, tmp_path)) == read(frame())


def test_an_index_of_numbers_alone_is_taken_and_told(caplog: pytest.LogCaptureFixture) -> None:
    table = frame().drop(columns="item").set_axis(ITEMS)
    assert read(table) == read(frame())
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "no column of ids" in record.getMessage()


@pytest.mark.parametrize(
    "table",
    [
        frame().drop(columns="item"),
        frame().drop(columns="item")[::-1],
        frame().rename(columns={"item": "user"}),
        frame().rename(columns={"item": "user"}).set_index("user"),
        frame().assign(movie=ITEMS).rename(columns={"item": "film"}),
        pandas.concat([frame(), frame()[["year"]]], axis=1),
        pandas.concat([frame(), frame()[:1]]),
        frame().assign(item=[None, *ITEMS[1:]]),
    ],
    ids=["none", "reversed", "users", "index of users", "two", "twice", "row twice", "missing"],
)
def test_what_is_ambiguous_is_refused(table: Any) -> None:
    with refuses((TypeError, ValueError), "item_features"):
        read(table)


def test_a_file_with_an_empty_id_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("item,year\n1,2\n,3\n")
    with refuses(ValueError, "item_features"):
        read(tmp_path / "t.csv")


def test_rows_that_the_data_do_not_have_are_told(caplog: pytest.LogCaptureFixture) -> None:
    more = pandas.concat([frame(), frame().assign(item=ITEMS + 100)])
    model = als().fit(data(), item_features=more)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "12 rows" in record.getMessage()
    assert "partial_fit" in record.getMessage()
    grown = model.partial_fit(item_features=more)  # what it advises
    assert set(ITEMS + 100) <= set(grown.item_ids.labels.tolist())


@pytest.mark.parametrize(("n_rows", "level"), [(4, "INFO"), (1, "WARNING")])
def test_items_without_a_row_are_told(
    n_rows: int, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    data = mfrank.Interactions.from_arrays([*"abcde"], ["001", "002", "003", "004", "5"])
    table = pandas.DataFrame({"item": [*data.item_ids.labels[:n_rows]], "x": range(n_rows)})
    with caplog.at_level("INFO", "mfrank"):
        mfrank.ALS(factors=2, iterations=1).fit(data, item_features=table)
    (told,) = [r for r in caplog.records if "have no row" in r.getMessage()]
    assert told.levelname == level
    assert f"{5 - n_rows} of 5 items" in told.getMessage()


def test_ids_that_repeat_are_refused_in_words_of_tables(tmp_path: Path) -> None:
    data = mfrank.Interactions.from_arrays([1, 2], [3, 4])
    (tmp_path / "a.csv").write_text("item,x\n3,1\n3,2\n4,1\n")
    for table in (tmp_path / "a.csv", pandas.read_csv(tmp_path / "a.csv")):
        with refuses(ValueError, "item_features"):
            mfrank.ALS(factors=2, iterations=1).fit(data, item_features=table)


@pytest.mark.parametrize("text", ["item;x\n3;1\n4;2\n", "3::a::1\n4::b,c::2\n"])
def test_fields_that_other_marks_separate_are_refused(tmp_path: Path, text: str) -> None:
    data = mfrank.Interactions.from_arrays([1, 2], [3, 4])
    (tmp_path / "a.csv").write_text(text)
    with refuses(ValueError, "item_features", remedy="write it so"):
        mfrank.ALS(factors=2, iterations=1).fit(data, item_features=tmp_path / "a.csv")


def test_the_reranker_matches_tables_by_id() -> None:
    from mfrank.models import GivenFeatures

    store = als().fit(data()).store
    expected = GivenFeatures.of(None, frame()[["year", "long"]].to_numpy(), store).items
    for left in LEFT.values():
        found = GivenFeatures.of(None, left(frame()), store).items
        np.testing.assert_array_equal(found, expected)
    part = GivenFeatures.of(None, frame()[3:], store).items
    assert part is not None
    assert np.isnan(part[:3]).all()
    np.testing.assert_array_equal(part[3:], expected[3:])  # type: ignore[index]
    with refuses(TypeError, "item_features", remedy="encode categories as columns"):
        GivenFeatures.of(None, frame().assign(year="x"), store)


def test_walks_match_tables_by_id() -> None:
    from mfrank.pagerank import similar_items

    store = als().fit(data()).store
    expected = similar_items(store, 3, frame()[["year", "long"]].to_numpy())
    for left in LEFT.values():
        found = similar_items(store, 3, left(frame()))
        np.testing.assert_array_equal(found.node_features, expected.node_features)
    with refuses(ValueError, "item_features", remedy="add them"):
        similar_items(store, 3, frame()[3:])


@pytest.mark.parametrize(
    ("header", "place"),
    [
        (["item", "title"], 0),
        (["title", "item_id"], 1),
        (["", "movieId", "title"], 1),
        (["Unnamed: 0", "film", "title"], 1),
        (["code", "film"], 0),
        (["code", "title"], 0),
        (["", "title"], 0),
        (["title", "id"], 1),
    ],
)
def test_titles_and_categories_are_found_by_the_name_of_the_ids(
    header: list[str], place: int
) -> None:
    assert place_of_ids(header) == place


def test_categories_of_a_file_with_an_index_steer_the_same_lists(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    als().fit(data()).save(tmp_path / "m")
    table = pandas.DataFrame({"item": ITEMS, "kind": [f"k{n % 2}" for n in ITEMS]})
    lists = []
    for index in (False, True):
        table[::-1].to_csv(tmp_path / "kinds.csv", index=index)
        line = ["recommend", "--model", str(tmp_path / "m"), "--user", "3", "--at-most", "1"]
        assert main([*line, "--categories", str(tmp_path / "kinds.csv")]) == 0
        lists.append(capsys.readouterr().out)
    assert lists[0] == lists[1]


def test_titles_that_are_not_read_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from mfrank.pages.catalog import SiteCatalog

    file = tmp_path / "t.csv"
    file.write_text(",movieId,title\n0,5,five\n1,6,six, and more\n2,5,fünf\n")
    with caplog.at_level(logging.WARNING, "mfrank"):
        catalog = SiteCatalog(Ids.of([5, 6]), Ids.of([1]), np.array([1, 1]), file)
    assert (catalog.entry(5).name, catalog.entry(5).facts) == ("fünf", "")
    assert catalog.entry(6).name == "6"
    told = " ".join(record.getMessage() for record in caplog.records)
    assert "1 row not read" in told
    assert "1 row of items that have several" in told
