"""Lists and explanations as tables, with names joined by the ids of items."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from tests.support.errors import refuses, unknown

DATA = mfrank.Interactions.from_arrays(
    ["a", "a", "b", "c", "c", "c"], ["tea", "pie", "tea", "pie", "jam", "oat"]
)
MODEL = mfrank.EASE(1.0).fit(DATA)
NAMES = pandas.DataFrame({"name": ["Tea", "Pie", "Jam"]}, index=["tea", "pie", "jam"])


def test_a_row_is_a_position_of_a_list() -> None:
    users = ["b", "a", "c"]
    lists = MODEL.recommend(users, N=4)
    frame = lists.to_frame(users)
    assert list(frame.columns) == ["user", "rank", "item", "score"]
    for user, ids, scores in zip(users, *lists, strict=True):
        own = frame[frame["user"] == user]
        known = [item for item in ids if item is not None]
        assert own["item"].tolist() == known
        assert own["rank"].tolist() == list(range(1, 1 + len(known)))
        assert own["score"].tolist() == scores[: len(known)].tolist()
    assert set(lists.to_frame()["user"]) <= {0, 1, 2}
    single = MODEL.recommend("b", N=4).to_frame()
    assert list(single.columns) == ["rank", "item", "score"]
    assert single["item"].tolist() == frame[frame["user"] == "b"]["item"].tolist()


@pytest.mark.parametrize("names", [NAMES, NAMES["name"]], ids=["frame", "series"])
def test_names_are_joined_by_id(names: object) -> None:
    frame = MODEL.recommend(["b", "a"], N=4).to_frame(["b", "a"], names)
    for item, name in zip(frame["item"], frame["name"], strict=True):
        assert name == item.title() if item in NAMES.index else pandas.isna(name)
    why = MODEL.explain("c", None, "tea").to_frame(names)
    assert why["item"].tolist() == [i for i, _ in MODEL.explain("c", None, "tea").contributions]
    assert list(why.columns) == ["item", "contribution", "name"]


def test_nothing_explained_is_an_empty_table() -> None:
    why = mfrank.Popularity().fit(DATA).explain("a", None, "jam")
    assert why.to_frame().shape == (0, 2)


# --- libraries, and doors for ids


KINDS = ("pandas", "polars", "arrow")
IDS = {
    "int": st.integers(-(2**62), 2**62),
    "text": st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=5).filter(
        lambda text: text == text.strip() and text.casefold() not in ("na", "nan", "null", "none")
    ),
}


def rows_of(frame: Any) -> list[dict[str, Any]]:
    if isinstance(frame, pandas.DataFrame):
        return frame.to_dict("records")  # type: ignore[no-any-return]
    return frame.to_dicts() if hasattr(frame, "to_dicts") else frame.to_pylist()  # type: ignore[no-any-return]


def doors(ids: list[Any]) -> dict[str, Any]:
    """The same ids by every door, in their order and with repetitions."""
    polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    series = pandas.Series(ids, dtype="Int64" if isinstance(ids[0], int) else "string")
    other = range(len(ids))
    return {
        "list": ids,
        "generator": (each for each in ids),
        "objects": np.array(ids, object),
        "series": pandas.Series(ids),
        "nullable": series,
        "categories": series.astype("category"),
        "index": pandas.Index(ids),
        "frame": pandas.DataFrame({"user": ids, "other": other}, index=other),
        "one column": pandas.DataFrame({"whoever": ids}),
        "polars series": polars.Series(ids),
        "polars": polars.DataFrame({"other": other, "user_id": ids}),
        "arrow column": arrow.chunked_array([ids]),
        "arrow": arrow.table({"userId": ids, "other": other}),
    }


@pytest.mark.parametrize("kind", IDS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_ids_keep_their_types_through_every_door(kind: str, data: st.DataObject) -> None:
    known = data.draw(st.lists(IDS[kind], min_size=2, max_size=5, unique=True))
    of = mfrank.Interactions.from_arrays
    model = mfrank.Popularity().fit(of([*known, known[0]], [*known, known[1]]))
    asked = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=6))
    for name, users in doors(asked).items():
        again = asked if name == "generator" else users
        lists = model.recommend(users, N=2)
        assert lists.ids.shape == (len(asked), 2)
        wanted = [
            {"user": user, "rank": rank + 1, "item": item, "score": score}
            for user, ids, scores in zip(asked, *lists, strict=True)
            for rank, (item, score) in enumerate(zip(ids, scores, strict=True))
            if not np.isnan(score)
        ]
        for library in KINDS:
            rows = rows_of(lists.to_frame(again, kind=library))  # type: ignore[arg-type]
            assert rows == wanted, name
            assert all(type(row["user"]) is type(known[0]) for row in rows)
            assert all(type(row["item"]) is type(known[0]) for row in rows)


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_any_library_are_joined(kind: str) -> None:
    polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    named = {"item_id": list(NAMES.index), "name": NAMES["name"].tolist(), "year": [1, 2, 3]}
    lists = MODEL.recommend(["b", "a"], N=4)
    found = [
        rows_of(lists.to_frame(["b", "a"], items, kind))  # type: ignore[arg-type]
        for items in (
            pandas.DataFrame(named).set_index("item_id"),
            polars.DataFrame(named),
            arrow.table(named),
        )
    ]
    for rows in found:
        for row in rows:
            if row["item"] in NAMES.index:
                assert row["name"] == row["item"].title()
                assert row["year"] == 1 + list(NAMES.index).index(row["item"])
            else:
                assert pandas.isna(row["name"])
                assert pandas.isna(row["year"])
    by_name = dict(zip(named["item_id"], named["name"], strict=True))
    rows = rows_of(lists.to_frame(["b", "a"], by_name, kind))  # type: ignore[arg-type]
    assert [row["name"] for row in rows] == [row["name"] for row in found[1]]


def ids_in_a_column(names: pandas.DataFrame) -> list[pandas.DataFrame]:
    """The names with their ids in a column, beside an index that only numbers rows."""
    column = names.rename_axis("item_id").reset_index()
    return [
        column,
        column.rename(columns={"item_id": "movieId"}),
        column.rename(columns={"item_id": "id"}),
        column.rename(columns={"item_id": "item"}),
        column.sample(frac=1, random_state=0),
        column.set_index(np.array([7, 1, 2])),
    ]


@pytest.mark.parametrize("kind", ["int", "text"])
def test_ids_in_a_column_of_pandas_are_not_taken_for_the_numbers_of_rows(kind: str) -> None:
    """Where ids are 1..n, all of them are numbers of rows, too: of others."""
    names = pandas.DataFrame({"name": ["Tea", "Pie", "Jam"]}, index=["tea", "pie", "jam"])
    if kind == "int":
        names.index = pandas.Index([1, 2, 3])
    ids = list(names.index)
    of = mfrank.Interactions.from_arrays
    model = mfrank.Popularity().fit(of([1, 1, 2, 3], [ids[0], ids[1], ids[2], ids[0]]))
    lists = model.recommend([1, 2, 3], N=3)
    wanted = rows_of(lists.to_frame([1, 2, 3], names))
    assert len(wanted) > 3
    for table in ids_in_a_column(names):
        assert rows_of(lists.to_frame([1, 2, 3], table)) == wanted
    for titled in (names.assign(movie=["A", "B", "C"]), names.assign(page=["x", "y", "z"])):
        rows = rows_of(lists.to_frame([1, 2, 3], titled))  # texts that are no ids of numbers
        if kind == "int":
            assert [row["name"] for row in rows] == [row["name"] for row in wanted]


def test_an_index_that_counts_rows_has_names_of_no_item_beyond_them() -> None:
    of = mfrank.Interactions.from_arrays
    model = mfrank.Popularity().fit(of([1, 1, 2], [3, 4, 3]))
    lists = model.recommend(2, N=2)
    for names in (pandas.Series(["A", "B", "C", "D"]), pandas.DataFrame({"name": list("ABCD")})):
        with refuses(ValueError, "items", remedy="index"):
            lists.to_frame(items=names)
        assert lists.to_frame(items=names.set_axis([1, 2, 3, 4]))["item"].tolist() == [4]
    numbered = mfrank.Popularity().fit(of([0, 0, 1], [0, 1, 0], shape=(2, 2)))
    named = numbered.recommend(1, N=2).to_frame(items=pandas.Series(["A", "B"], name="name"))
    assert named["name"].tolist() == ["B"]


TITLES = pandas.DataFrame({"name": [f"title {n}" for n in range(9)]})


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
@pytest.mark.parametrize(
    ("titles", "n_told"),
    [
        (TITLES["name"], 1),
        (TITLES["name"].rename(None), 1),
        (TITLES, 1),
        (TITLES["name"].rename_axis("item"), 0),
        (TITLES["name"].set_axis(range(1, 10)), 0),
        (dict(enumerate(TITLES["name"])), 0),
    ],
)
def test_titles_that_are_joined_by_the_numbers_of_rows_are_told(
    titles: Any, n_told: int, kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("pyarrow" if kind == "arrow" else kind)
    of = mfrank.Interactions.from_arrays
    known = mfrank.Popularity().fit(of([1, 1, 2], [3, 4, 3]))
    numbered = mfrank.Popularity().fit(of([0, 0, 1], [0, 1, 0], shape=(2, 9)))
    texts = mfrank.Popularity().fit(of([1, 1, 2], ["a", "b", "a"]))
    for model, user, told in ((known, 2, n_told), (numbered, 1, 0)):
        lists = model.recommend(user, N=1)
        caplog.clear()
        assert len(lists.to_frame(items=titles, kind=kind)) == 1
        assert sum("counts its rows" in each for each in caplog.messages) == told
    if n_told:
        with refuses(ValueError, "items", remedy="index"):
            texts.recommend(2, N=1).to_frame(items=titles, kind=kind)


@pytest.mark.parametrize(
    ("item_ids", "n_told"),
    [([3, 0, 4, 1, 2], 0), ([0, 1, 2, 4, 7], 0), ([1, 2, 3, 4, 5], 1), ([-1, 0, 1, 2, 3], 1)],
)
def test_ids_from_0_on_are_the_numbers_of_rows_without_a_warning(
    item_ids: list[int], n_told: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Also in another order, and without some."""
    cells = sp.csr_array((np.arange(20).reshape(4, 5) % 3 < 2).astype(float))
    data = mfrank.Interactions.from_sparse(cells, item_ids=item_ids)
    model = mfrank.Popularity().fit(data)
    answers = [model.recommend(0, N=2), model.recommend([0, 1], N=2), model.similar_items(2, N=2)]
    answers.append(model.recommend_from_items([2], N=2))
    for lists in answers:
        caplog.clear()
        assert len(lists.to_frame(items=TITLES))
        ids, _ = lists
        assert type(lists).__name__ == "Answer"
        assert pickle.loads(pickle.dumps(lists)).ids.tolist() == ids.tolist()
        assert sum("counts its rows" in each for each in caplog.messages) == n_told


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_other_items_is_told_and_ids_as_text_are_refused(
    kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("pyarrow" if kind == "arrow" else kind)
    data = mfrank.Interactions.from_arrays([1] * 9 + [2] * 3, [*range(9), 0, 1, 2])
    lists = mfrank.Popularity().fit(data).recommend(2, N=6)
    others = pandas.DataFrame({"movieId": range(100, 140), "title": "x"})
    assert len(lists.to_frame(items=others, kind=kind)) == 6
    assert sum("none of the items of the lists" in each for each in caplog.messages) == 1
    caplog.clear()
    lists.to_frame(items=others.assign(movieId=range(8, 48)), kind=kind)
    assert not caplog.messages
    for name in ("movieId", "product_id", "id"):
        texts = pandas.DataFrame({name: [str(n) for n in range(40)], "title": "x"})
        with refuses(ValueError, "items", remedy="convert the ids"):
            lists.to_frame(items=texts, kind=kind)


def test_titles_of_an_explanation_by_the_numbers_of_rows_are_logged(caplog: Any) -> None:
    data = mfrank.Interactions.from_arrays([1, 1, 2, 2], [3, 4, 3, 5])
    model = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(data)
    with caplog.at_level("INFO", "mfrank"):
        model.explain(1, None, 5).to_frame(items=TITLES)
    assert sum("counts its rows" in each for each in caplog.messages) == 1


COUNTED = pandas.DataFrame({"user": [1, 2, 2, 3, 3, 3], "item": [1, 2, 3, 1, 2, 3]})
OTHER = {"user": "item", "item": "user"}
ABOUT: dict[str, Callable[[str], Any]] = {
    "value_counts": lambda side: COUNTED[side].value_counts(),
    "without a name": lambda side: pandas.Series([3, 3, 1, 2, 2]).value_counts(),
    "sizes": lambda side: COUNTED.groupby(side).size(),
    "means": lambda side: COUNTED.assign(rating=1.0).groupby(side)["rating"].mean(),
    "distinct others": lambda side: COUNTED.groupby(side)[OTHER[side]].nunique(),
    "a column": lambda side: COUNTED.assign(n=1).groupby(side)[["n"]].sum(),
    "columns": lambda side: COUNTED.assign(n=1, rating=1).groupby(side)[["n", "rating"]].sum(),
    "of pairs": lambda side: COUNTED.groupby(["user", "item"]).size(),
    "by hand": lambda side: pandas.Series({3: 1.0, 2: 2.0, 1: 2.0}),
}


@pytest.mark.parametrize("counted", ABOUT)
def test_counts_of_ids_are_no_ids(counted: str) -> None:
    """Their index has the ids: 1, 2 and 3 are as often as there are ids of the same numbers."""
    data = mfrank.Interactions.from_frame(COUNTED)
    model = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(data)
    users, items = ABOUT[counted]("user"), ABOUT[counted]("item")
    doors: dict[str, Callable[[], object]] = {
        "userid": lambda: model.recommend(users),
        "filter_items": lambda: model.recommend(1, filter_items=items),
        "items": lambda: model.recommend(1, items=items),
        "itemids": lambda: model.recommend_from_items(items),
        "itemid": lambda: model.similar_items(items),
        "users": lambda: mfrank.evaluate(model, data, users=users),
    }
    for argument, call in doors.items():
        with refuses(ValueError, argument, remedy="index"):
            call()
    with refuses(ValueError, "users", remedy="index"):
        model.remove(users=users)
    if users.index.nlevels == 1:
        assert model.recommend(users.index, N=1).ids.shape == (3, 1)
    latest = COUNTED.groupby("user")["item"].last()  # items of users are ids
    assert model.recommend(1, filter_items=latest, N=1).ids.shape == (1,)
    distinct = COUNTED.set_index("item")["user"].drop_duplicates()
    assert model.recommend(distinct).ids.ndim == 2


HISTORY = {"item": ["tea", "pie"], "rating": [5, 1], "date": ["2024-02-01", "2024-01-01"]}


@pytest.mark.parametrize("library", KINDS)
def test_what_is_not_read_of_the_items_of_somebody_new_is_told(
    library: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A disliked item counts as liked, and the latest as the oldest."""
    polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    make = {"pandas": pandas.DataFrame, "polars": polars.DataFrame, "arrow": arrow.table}[library]

    def told(model: Any, history: dict[str, Any], **options: Any) -> list[str]:
        caplog.clear()
        found = model.recommend_from_items(make(history), 3, **options)
        ids = history["item"]
        np.testing.assert_array_equal(found.ids, model.recommend_from_items(ids, 3, **options).ids)
        return [each for each in caplog.messages if "itemids" in each]

    rated = {name: HISTORY[name] for name in ("item", "rating")}
    dated = {name: HISTORY[name] for name in ("item", "date")}
    in_order = {**dated, "date": ["2024-01-01", "2024-02-01"]}
    (line,) = told(MODEL, rated)
    assert "'rating' is not read" in line
    assert told(MODEL, rated, values=[5, 1]) == []
    assert told(MODEL, dated) == told(MODEL, {"item": ["tea"], "title": ["Tea"]}) == []
    (line,) = told(MODEL, {"user": ["x", "y"], "item": ["tea", "pie"]})
    assert "those of one user, and column 'user' has 2" in line
    assert told(MODEL, {"user": ["x", "x"], "item": ["tea", "pie"]}) == []
    users, items = ["a", "a", "b", "b"], ["tea", "pie", "pie", "tea"]
    ordered = mfrank.Interactions.from_arrays(users, items, timestamps=[1, 2, 3, 4])
    sequential = mfrank.SequentialRules().fit(ordered)
    (line,) = told(sequential, dated)
    assert "not in the order of their column 'date'" in line
    assert told(sequential, in_order) == []
    assert len(told(sequential, HISTORY)) == 2


def test_filters_read_the_items_of_a_table_that_has_users_too() -> None:
    data = mfrank.Interactions.from_arrays([1, 1, 2, 3], [1, 2, 3, 4])
    model = mfrank.Popularity().fit(data)
    shown = pandas.DataFrame({"user": [1, 2], "item": [3, 4]})
    lists = model.recommend(1, N=4, filter_items=shown, filter_already_liked_items=False)
    assert set(lists.ids.tolist()) == {1, 2, -1}
    only = model.recommend(1, N=4, items=shown, filter_already_liked_items=False)
    assert set(only.ids.tolist()) == {3, 4, -1}


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_tables_of_any_library(kind: Any) -> None:
    pytest.importorskip({"arrow": "pyarrow"}.get(kind, kind))
    split = mfrank.by_ratio(mfrank.synthetic(30, 20, 300, random_state=0))
    judged = mfrank.evaluate(MODEL_OF_MANY.fit(split.train), split.test, metrics=["ndcg@5", "mrr"])
    rows = rows_of(judged.to_frame(kind))
    assert [row["metric"] for row in rows] == ["NDCG@5", "MRR"]
    assert [row["value"] for row in rows] == [judged["ndcg@5"].value, judged["mrr"].value]
    users = rows_of(judged.to_frame(kind, per_user=True))
    assert [row["user"] for row in users] == judged.users.tolist()
    assert np.mean([row["NDCG@5"] for row in users]) == pytest.approx(judged["ndcg@5"].value)
    why = rows_of(MODEL.explain("c", None, "tea").to_frame(kind=kind))
    assert [row["item"] for row in why] == [
        i for i, _ in MODEL.explain("c", None, "tea").contributions
    ]


MODEL_OF_MANY = mfrank.Popularity()


def test_tables_without_a_column_of_ids_and_missing_ids_are_refused() -> None:
    two = pandas.DataFrame({"x": ["a"], "y": ["b"]})
    with refuses(ValueError, "userid", remedy="userid"):
        MODEL.recommend(two)
    with refuses(ValueError, "userid"):
        MODEL.recommend(pandas.DataFrame({"user": ["a", None]}))
    with unknown("z"):
        MODEL.recommend(pandas.DataFrame({"user": ["a", "z"]}))
    skipped = MODEL.recommend(pandas.DataFrame({"user": ["z", "a"]}), N=2, on_unknown="skip")
    assert set(skipped.to_frame(["z", "a"])["user"]) == {"a"}


def test_ids_of_several_types_are_of_pandas_alone() -> None:
    model = mfrank.Popularity().fit(mfrank.Interactions.from_arrays([1, "a", 1], [1, "b", "b"]))
    lists = model.recommend([1, "a"], N=2)
    assert lists.to_frame([1, "a"])["user"].tolist() == ["a"]
    pytest.importorskip("pyarrow")
    both = model.recommend([1, "a"], N=2, filter_already_liked_items=False)
    with refuses(ValueError, "kind", remedy="pandas"):
        both.to_frame([1, "a"], kind="arrow")
    with refuses(ValueError, "kind"):
        both.to_frame([1, "a"], kind="numpy")  # type: ignore[arg-type]


def test_what_does_not_fit_is_refused() -> None:
    lists = MODEL.recommend(["b", "a"], N=2)
    with refuses(ValueError, "users"):
        lists.to_frame(["b"])
    with refuses(ValueError, "items", remedy="rename"):
        lists.to_frame(["b", "a"], pandas.DataFrame({"score": [1]}, index=["tea"]))
    with refuses(ValueError, "items", remedy="index"):
        lists.to_frame(["b", "a"], {1: "Tea", 2: "Pie"})
    with refuses(ValueError, "items"):
        lists.to_frame(["b", "a"], pandas.Series(["Tea", "Pie"], index=["tea", "tea"]))


def test_the_history_of_a_model_is_that_of_its_store() -> None:
    model = mfrank.ALS(factors=2, iterations=3, random_state=0).fit(DATA)
    assert [record["epoch"] for record in model.history] == [1, 2, 3]
    assert model.history == model.store.history
    with pytest.raises(mfrank.NotFittedError):
        np.asarray(mfrank.ALS().history)
