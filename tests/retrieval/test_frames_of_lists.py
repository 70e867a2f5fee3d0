"""Lists and explanations as tables, with names joined by the ids of items."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

import mfrank
from tests.support.errors import refuses

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


def test_what_does_not_fit_is_refused() -> None:
    lists = MODEL.recommend(["b", "a"], N=2)
    with refuses(ValueError, "users"):
        lists.to_frame(["b"])
    with refuses(ValueError, "items", remedy="rename"):
        lists.to_frame(["b", "a"], pandas.DataFrame({"score": [1]}, index=["tea"]))


def test_the_history_of_a_model_is_that_of_its_store() -> None:
    model = mfrank.ALS(factors=2, iterations=3, random_state=0).fit(DATA)
    assert [record["epoch"] for record in model.history] == [1, 2, 3]
    assert model.history == model.store.history
    with pytest.raises(mfrank.NotFittedError):
        np.asarray(mfrank.ALS().history)
