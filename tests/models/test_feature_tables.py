"""Tables as features: columns by type, rows by id, remembered with the model."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fits import als

import mfrank
from mfrank.cli.main import main
from mfrank.data import FeatureColumns
from mfrank.store import columns_of
from tests.support.errors import refuses

pandas = pytest.importorskip("pandas", reason="makes the tables with pandas")

ITEMS = [f"i{n}" for n in range(8)]
TABLE: dict[str, list[Any]] = {
    "year": [1990, 1994, 1990, None, 2000, 2001, 1999, 1998],
    "genres": ["a|b", "a", "b|c", None, "a", "b", "a|b", "z"],
    "color": ["red", "blue", "red", "blue", "red", "red", "blue", "only"],
    "long": [True, False, True, False, True, False, True, False],
    "title": [f"title {n}" for n in range(8)],
}


def frame(items: list[str] = ITEMS, **changes: Any) -> Any:
    return pandas.DataFrame({"item": items, **TABLE, **changes})


def data() -> mfrank.Interactions:
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((30, 8)) < 0.4)
    return mfrank.Interactions.from_arrays(
        [f"u{n}" for n in users], [f"i{n}" for n in items], item_ids=ITEMS
    )


def columns(table: Any) -> dict[Any, Any]:
    return {name: np.asarray(table[name]) for name in table.columns if name != "item"}


def test_each_type_of_column_becomes_what_the_docs_say() -> None:
    known = FeatureColumns.of("item_features", columns(frame()))
    told = {column.name: column for column in known.columns}
    assert {name: column.kind for name, column in told.items()} == {
        "year": "number",
        "genres": "values",
        "color": "value",
        "long": "value",
        "title": "value",
    }
    assert told["genres"].values == ("a", "b")
    assert told["color"].values == ("blue", "red")
    assert told["long"].values == ("False", "True")
    assert told["title"].values == ()
    assert [name for name, column in told.items() if column.missing] == ["year", "genres"]
    dense = known.features("item_features", columns(frame()), of_fit=True).toarray()
    year = np.array([y for y in TABLE["year"] if y is not None], float)
    np.testing.assert_allclose(
        dense[:, 0], np.insert((year - year.mean()) / year.std(), 3, 0.0), atol=1e-12
    )
    np.testing.assert_array_equal(dense[:, 1], np.arange(8) == 3)
    genres = [[1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [1, 1, 0]]
    np.testing.assert_array_equal(dense[:7, 2:5], genres)
    assert FeatureColumns.from_array(known.to_array()) == known


def _warned(function: Any, *args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return function(*args, **options)


def fitted(table: Any, **options: Any) -> mfrank.ALS:
    return als(**options).fit(data(), item_features=table)


def test_all_libraries_and_files_give_the_same_model(tmp_path: Path) -> None:
    plain = frame().drop(columns="genres")
    first = fitted(plain)
    shuffled = plain.sample(frac=1, random_state=0).set_index("item")
    tables: list[Any] = [shuffled]
    plain.to_csv(tmp_path / "items.csv", index=False)
    tables.append(tmp_path / "items.csv")
    polars = pytest.importorskip("polars", reason="reads the same table with polars")
    tables.append(polars.DataFrame(plain.astype(object).where(plain.notna(), None).to_dict("list")))
    pyarrow = pytest.importorskip("pyarrow", reason="reads the same table with pyarrow")
    tables.append(pyarrow.table(plain))
    for table in tables:
        other = fitted(table)
        assert columns_of(other.store, "item") == columns_of(first.store, "item")
        np.testing.assert_array_equal(other.item_factors, first.item_factors)


def test_lists_are_the_texts_between_bars() -> None:
    lists = [None if each is None else each.split("|") for each in TABLE["genres"]]
    one, other = fitted(frame()), fitted(frame(genres=lists))
    np.testing.assert_array_equal(one.item_factors, other.item_factors)
    polars = pytest.importorskip("polars", reason="lists of polars")
    third = fitted(polars.DataFrame({"item": ITEMS, **TABLE, "genres": lists}))
    np.testing.assert_array_equal(one.item_factors, third.item_factors)


def test_a_new_item_is_recommended_by_its_row_after_a_load(tmp_path: Path) -> None:
    model = fitted(frame())
    model.save(tmp_path / "model")
    loaded = mfrank.ALS.load(tmp_path / "model")
    new = frame().iloc[[0]].assign(item="fresh", color="unheard of", unused=1)
    with pytest.warns(UserWarning, match=r"column 'color'.*'unheard of'"):
        loaded.partial_fit(item_features=new)
    assert "fresh" in loaded.recommend("u1", N=9, filter_already_liked_items=False).ids
    known = columns_of(model.store, "item")
    assert known is not None
    rows = known.features("item_features", columns(new), of_fit=True).toarray()
    weights = model.store.extras["item_feature_weights"]
    np.testing.assert_allclose(
        loaded.item_factors[-1], np.append(rows, 1) @ weights, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_array_equal(loaded.item_factors[:8], model.item_factors)
    loaded.remove(items="fresh")
    assert columns_of(loaded.store, "item") == known


def test_the_whole_table_of_the_fit_adds_new_items_without_a_warning() -> None:
    """The remedy of a fit: rows that the model has are not used, so their rare values are not."""
    model = fitted(frame())
    table = pandas.concat([frame(), frame().iloc[[0]].assign(item="fresh")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(item_features=table)
    assert "fresh" in model.item_ids


def test_an_item_without_a_row_has_the_common_mean_alone() -> None:
    table = frame()[["item", "year"]]
    model = fitted(table.iloc[:6])
    means = model.store.extras["item_feature_means"]
    np.testing.assert_allclose(means[7], model.store.extras["item_feature_weights"][-1], 1e-6)


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        (
            frame().rename(columns={"item": "name"}),
            {"argument": "item_features", "remedy": "name it 'item'"},
        ),
        (frame()[["item"]], {"argument": "item_features", "remedy": "leave it out"}),
        (frame(items=["i0"] * 8), {"argument": "item_features"}),
        (frame(items=[f"x{n}" for n in range(8)]), {"argument": "item_features"}),
        (frame(year=[{}] * 8), {"argument": "item_features", "remedy": "convert it"}),
        (frame(year=[1e400] * 8), {"argument": "item_features", "remedy": "leave it empty"}),
        (frame(year=[1e308, -1e308] * 4), {"argument": "item_features"}),
        ("items.xlsx", {"argument": "item_features"}),
    ],
)
def test_tables_that_cannot_be_used_are_refused(table: Any, fault: dict[str, str]) -> None:
    model = als()
    with refuses((TypeError, ValueError), **fault):
        model.fit(data(), item_features=table)
    assert not hasattr(model, "user_factors")


def test_later_rows_must_be_like_those_of_the_fit() -> None:
    model = fitted(frame())
    for table, fault in [
        (frame().drop(columns="year"), {"argument": "item_features", "remedy": "add it"}),
        (frame(year=["x"] * 8), {"argument": "item_features"}),
        (frame(color=[1.5] * 8), {"argument": "item_features"}),
        (np.ones((8, 3)), {"argument": "item_features", "remedy": "pass a table here"}),
    ]:
        with refuses((TypeError, ValueError), **fault):
            _warned(model.partial_fit, data(), item_features=table)
    matrix = als().fit(data(), item_features=np.ones((8, 1)))
    with refuses(ValueError, "item_features", remedy="pass a matrix here, too"):
        matrix.partial_fit(data(), item_features=frame())


def test_damaged_columns_are_refused() -> None:
    good = FeatureColumns.of("item_features", columns(frame())).to_array()
    text = good.tobytes().decode()
    for wrong in ("[", text.replace('"number"', '"cheese"'), text.replace("scale", "stale"), "{}"):
        with refuses(
            ValueError, place="the feature columns saved with the model", remedy="restore it"
        ):
            FeatureColumns.from_array(np.frombuffer(wrong.encode(), "u1"))


@pytest.mark.parametrize("stop", [1, 2, 4])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_fit_with_features_is_resumed_to_the_same_bits(
    tmp_path: Path, stop: int, dtype: str
) -> None:
    table = frame().drop(columns="genres")
    users = np.random.default_rng(1).standard_normal((data().n_users, 3))
    options: dict[str, Any] = {"dtype": dtype, "track_objective": True}
    features = {"item_features": table, "user_features": users}
    whole = als(iterations=5, **options).fit(data(), **features)
    part = als(iterations=5, **options)
    part.fit(
        data(), **features, checkpoint=tmp_path / "c", callback=lambda epoch, *_: epoch + 1 == stop
    )
    resumed = als(iterations=5, **options).fit(data(), **features, checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(resumed.user_factors, whole.user_factors)
    np.testing.assert_array_equal(resumed.item_factors, whole.item_factors)
    assert resumed.store.extras.keys() == whole.store.extras.keys()
    for name, array in whole.store.extras.items():
        np.testing.assert_array_equal(resumed.store.extras[name], array)
    values = [[r["objective"] for r in m.store.history] for m in (resumed, whole)]
    assert values[0] == values[1]
    for other in ({}, {"user_features": users + 1, "item_features": table}):
        with refuses(ValueError, "checkpoint"):
            als(iterations=5, **options).fit(data(), **other, checkpoint=tmp_path / "c")


def test_the_best_epoch_of_a_resumed_fit_has_its_own_weights(tmp_path: Path) -> None:
    split = mfrank.by_ratio(data(), train=0.7, valid=0.3, test=0, random_state=0)
    options: dict[str, Any] = {"item_features": frame().drop(columns="genres")}
    stopping = mfrank.EarlyStopping(split.valid, patience=6)
    whole = als(iterations=8).fit(split.train, stopping=stopping, **options)
    options["checkpoint"] = tmp_path / "c"
    als(iterations=8).fit(
        split.train, stopping=stopping, callback=lambda epoch, *_: epoch == 4, **options
    )
    resumed = als(iterations=8).fit(split.train, stopping=stopping, **options)
    np.testing.assert_array_equal(resumed.item_factors, whole.item_factors)
    for name, array in whole.store.extras.items():
        np.testing.assert_array_equal(resumed.store.extras[name], array)


def test_the_command_line_reads_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    likes = data()
    rows = zip(
        likes.user_ids.raw(likes.entry_users),
        likes.item_ids.raw(likes.user_items.indices),
        strict=True,
    )
    Path("likes.csv").write_text("user,item\n" + "".join(f"{u},{i}\n" for u, i in rows))
    frame().to_csv("items.csv", index=False)
    command = ["fit", "likes.csv", "--model", "m", "--factors", "3", "--iterations", "2"]
    assert main([*command, "--item-features", "items.csv"]) == 0
    model = mfrank.ALS.load("m")
    known = columns_of(model.store, "item")
    assert known is not None
    assert [column.name for column in known.columns] == list(TABLE)
    capsys.readouterr()
    assert main([*command, "--user-features", "items.csv"]) == 2
    assert "no column that looks like the ids of the users" in capsys.readouterr().err


def test_the_command_line_names_the_command_that_adds_items_by_their_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    likes = [f"u{user},i{(user + step) % 7}\n" for user in range(9) for step in (0, 2, 3)]
    Path("likes.csv").write_text("user,item\n" + "".join(likes))
    known = {"genres": [*TABLE["genres"][:7], "a"], "color": [*TABLE["color"][:7], "red"]}
    frame(**known).to_csv("items.csv", index=False)
    command = ["fit", "likes.csv", "--model", "m", "--factors", "3", "--iterations", "2"]
    assert main([*command, "--item-features", "items.csv"]) == 0
    remedy = "mfrank update --item-features FILE adds them"
    assert remedy in capsys.readouterr().err
    Path("today.csv").write_text("user,item\nu0,i1\n")
    assert main(["update", "today.csv", "--model", "m", "--item-features", "items.csv"]) == 0
    assert "i7" in mfrank.load("m").item_ids


def as_frame(column: list[Any], _: Path) -> Any:
    return pandas.DataFrame({"item": ITEMS[: len(column)], "x": column})


def as_csv(column: list[Any], folder: Path) -> Any:
    as_frame(column, folder).to_csv(folder / "items.csv", index=False)
    return folder / "items.csv"


def as_parquet(column: list[Any], folder: Path) -> Any:
    pytest.importorskip("pyarrow")
    as_frame(column, folder).to_parquet(folder / "items.parquet")
    return folder / "items.parquet"


DOORS = {"frame": as_frame, "csv": as_csv, "parquet": as_parquet}


def told_of(table: Any, log: pytest.LogCaptureFixture) -> list[str]:
    log.clear()
    log.set_level(logging.INFO, "mfrank")
    als().fit(data(), item_features=table)
    return [line.getMessage() for line in log.records if "item_features" in line.getMessage()]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("column", "words"),
    [
        (["3", "NA", "5"], "'NA'"),
        (["3,5", "4,5", "3,5"], "'3,5'"),
        (["$3", "$4.50", "$3"], "'$3'"),
        (["1,234", "12", "NULL"], "'1,234'"),
        (["90%", "80%", "90%"], "'90%'"),
        (["['a', 'b']", "['b']", "[]"], "written as text"),
        (["Drama", "drama", "x"], "'Drama' and 'drama'"),
        (["Drama", "Drama ", "x"], "blanks or capital letters"),
        ([1999, -1, 2001], "-1 in 1 row"),
    ],
)
def test_columns_that_mean_something_else_are_told(
    door: str, column: list[Any], words: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert sum(words in line for line in told_of(DOORS[door](column, tmp_path), caplog)) == 1


@pytest.mark.parametrize("door", DOORS)
def test_every_column_is_told_with_what_it_becomes(
    door: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for column, becomes in (
        ([1.5, 2, 3.5], "x (a number)"),
        (["a", "b", "a"], "x (1 value)"),
        (["a|b", "b|c", "a"], "x (2 values)"),
        (["Heat", "Ran", "Alien 3"], "x (no feature: all values differ)"),
        (["a-1", "10:30", "2024-01-31"], "x (no feature: all values differ)"),
    ):
        lines = told_of(DOORS[door](column, tmp_path), caplog)
        assert f"item_features: {becomes}" in lines
        assert all(becomes in line or "have no row" in line for line in lines)


def test_numbers_that_are_names_are_told(caplog: pytest.LogCaptureFixture) -> None:
    for name, n_told in (("brand_id", 1), ("zip", 1), ("price", 0), ("idle", 0)):
        table = pandas.DataFrame({"item": ITEMS, name: range(8)})
        assert sum("only names" in line for line in told_of(table, caplog)) == n_told
    for numbers, n_told in (([1.5, 2] * 4, 0), ([np.nan, 7] * 4, 1), ([np.nan] * 8, 0)):
        table = pandas.DataFrame({"item": ITEMS, "code": numbers, "price": range(8)})
        assert sum("such as c7" in line for line in told_of(table, caplog)) == n_told


def test_codes_with_zeros_before_are_no_numbers_and_stay_so_in_an_update(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("item,zip\n" + "".join(f"i{n},{z}\n" for n, z in enumerate(["01234"] * 8)))
    path.write_text(
        path.read_text().replace("i0,01234", "i0,12345").replace("i1,01234", "i1,12345")
    )
    model = als().fit(data(), item_features=path)
    (column,) = columns_of(model.store, "item").columns
    assert (column.kind, column.values) == ("value", ("01234", "12345"))
    path.write_text("item,zip\nnew,12345\n")
    model.partial_fit(mfrank.Interactions.from_arrays(["u0"], ["new"]), item_features=path)
    assert "new" in model.item_ids


@pytest.mark.parametrize("library", ["pandas", "arrow", "parquet"])
def test_categories_that_are_numbers_are_no_amounts(library: str, tmp_path: Path) -> None:
    """Whoever makes categories of numbers says that 4 is not twice 2."""
    floors = pandas.Categorical([1.0, 2.0, None, 4.0] * 2)
    table: Any = pandas.DataFrame({"item": ITEMS, "floor": floors})
    if library == "parquet":
        table.to_parquet(tmp_path / "items.parquet")
        table = tmp_path / "items.parquet"
    elif library == "arrow":
        table = pytest.importorskip("pyarrow", reason="needs pyarrow").Table.from_pandas(table)
    model = als().fit(data(), item_features=table)
    (column,) = columns_of(model.store, "item").columns
    assert (column.kind, column.values, column.missing) == ("value", ("1", "2", "4"), True)
    model.partial_fit(data(), item_features=table)


def test_a_single_column_is_no_table() -> None:
    with refuses(TypeError, "item_features", remedy="to_frame"):
        als().fit(data(), item_features=pandas.Series(range(8), ITEMS))
