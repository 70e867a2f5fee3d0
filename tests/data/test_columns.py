"""Columns are recognized by their names, or the error says how to name them."""

from __future__ import annotations

import numpy as np
import pytest

from mfrank.data import ROLES, assign


@pytest.mark.parametrize(
    "names",
    [
        ["userId", "movieId", "rating", "timestamp"],
        ["USER_ID", "item_id", "Rating", "TimeStamp"],
        ["visitorid", "itemid", "count", "time"],
        ["uid", "track id", "playcount", "date"],
        ["user", "product-id", "weight", "unixReviewTime"],
        ["customer_id", "asin", "stars", "datetime"],
    ],
)
@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0]])
def test_usual_names_are_recognised_in_any_order(names, order):
    columns = ["genres", *(names[position] for position in order), "", 7]
    assert assign(columns, {}) == dict(zip(ROLES, names, strict=True))


def test_value_and_timestamp_may_be_absent():
    assert assign(["user", "item", "title"], {}) == {"user": "user", "item": "item"}


@pytest.mark.parametrize("name", ["click_timestamp", "EventTimestamp", "rating-timestamp"])
def test_a_timestamp_of_something_is_one(name):
    assert assign(["user", "item", name], {})["timestamp"] == name
    assert assign(["user", "item", name, "time"], {})["timestamp"] == "time"
    assert "timestamp" not in assign(["user", "item", name], {"timestamp": False})


def test_chosen_columns_leave_the_others_to_be_guessed():
    columns = ["session", "track_id", "artist_id", "plays"]
    assert assign(columns, {"user": "session", "item": "artist_id"}) == {
        "user": "session",
        "item": "artist_id",
        "value": "plays",
    }


@pytest.mark.parametrize(
    ("columns", "chosen", "message"),
    [
        (["a", "item"], {}, "no column looks like the user: name it with user=; columns: 'a',"),
        (["user", "b"], {}, "no column looks like the item"),
        (["user", "song", "artist"], {}, "the item: 'song', 'artist'; name one with item="),
        (["user", "item", "a_timestamp", "b_timestamp"], {}, "may be the timestamp: 'a_timestamp'"),
        (["user", "item"], {"value": "rating"}, "column 'rating' must exist once"),
        (["user", "item"], {"value": "item"}, "no column looks like the item"),
        (["user", "item"], {"item": "user", "user": "user"}, "have one role"),
        (["user", "user", "item"], {"user": "user"}, "must exist once"),
    ],
)
def test_what_cannot_be_told_is_refused(columns, chosen, message):
    with pytest.raises(ValueError, match=message):
        assign(columns, chosen)


@pytest.mark.parametrize("frame", [None, 5, np.zeros((3, 2)), [[1, 2]], {"user": [1], "item": [2]}])
def test_what_is_no_frame_is_refused(frame):
    from mfrank.data import Interactions

    with pytest.raises(TypeError, match="frame must be a table with named columns, got"):
        Interactions.from_pandas(frame)
