"""What is not known is told apart from what is wrong."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import mfrank
from tests.support.errors import refuses

NUMBERED = mfrank.synthetic(20, 10, 80, random_state=0)
NAMED = mfrank.synthetic(20, 10, 80, names=True, random_state=0)


def fitted(data: mfrank.Interactions) -> mfrank.ALS:
    return mfrank.ALS(factors=2, iterations=1, random_state=0).fit(data)


@pytest.mark.parametrize(("data", "unknown"), [(NUMBERED, (77, -1)), (NAMED, ("zoe", "yan"))])
def test_unknown_users_and_items_are_named(data: mfrank.Interactions, unknown: Any) -> None:
    model, known = fitted(data), data.user_ids.raw([0])[0]
    for call in (
        lambda: model.recommend([known, *unknown, unknown[0]]),
        lambda: model.recommend_from_items(list(unknown)),
        lambda: model.similar_items([*unknown]),
        lambda: model.recommend(known, filter_items=[*unknown]),
    ):
        with pytest.raises(mfrank.UnknownIdError) as caught:
            call()
        assert caught.value.ids == unknown
    with refuses(mfrank.UnknownIdError, "userid") as caught:
        model.recommend(unknown[0])
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.ids) == (str(caught.value), unknown[:1])


def test_data_in_the_rows_of_others_name_what_is_new() -> None:
    with refuses(mfrank.UnknownIdError, "items") as caught:
        mfrank.Interactions.from_arrays(["a"], ["pie"], user_ids=["a"], item_ids=["tea"])
    assert caught.value.ids == ("pie",)


def test_other_mistakes_are_not_unknown_ids() -> None:
    with refuses(ValueError, "N") as caught:
        fitted(NUMBERED).recommend(0, N=-1)
    assert not isinstance(caught.value, mfrank.UnknownIdError)
