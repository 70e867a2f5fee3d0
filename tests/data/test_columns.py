"""Columns are recognized by their names, or the error says how to name them."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank.data.columns import ROLES, assign, epoch_seconds

quick = settings(max_examples=40, deadline=None)
SECOND = 1_396_861_869  # 2014-04-07 09:11:09 UTC


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


@quick
@given(st.lists(st.integers(0, 2**32), min_size=1))
def test_dates_are_seconds_since_1970_in_every_form(seconds):
    dates = [datetime.fromtimestamp(second, UTC) for second in seconds]
    forms = [
        np.array(seconds, dtype=np.uint64),
        np.array(seconds) + 0.75,
        np.array(seconds, dtype="datetime64[s]"),
        np.array(seconds, dtype="datetime64[s]").astype("datetime64[ns]"),
        dates,
        [date.replace(tzinfo=None) for date in dates],
        [date.isoformat() for date in dates],
        np.array(seconds, dtype=object),
    ]
    for form in forms:
        assert epoch_seconds(form).dtype == np.int64
        assert epoch_seconds(form).tolist() == seconds


@pytest.mark.parametrize(
    "text",
    ["2014-04-07T09:11:09.277Z", "2014-04-07 11:11:09+02:00", "2014-04-07 09:11:09"],
)
def test_time_zones_are_heeded_and_default_to_utc(text):
    assert epoch_seconds([text]).tolist() == [SECOND]


@pytest.mark.parametrize(
    "bad",
    [
        [0.0, np.nan],
        [1.0, np.inf],
        np.array(["2020-01-01", "NaT"], "datetime64[s]"),
        ["2020-01-01", "soon"],
        ["2020-01-01", None],
        np.array([1, None]),
    ],
)
def test_missing_timestamps_are_named(bad):
    with pytest.raises(ValueError, match="in row 1"):
        epoch_seconds(bad)


@pytest.mark.parametrize("bad", [[1j], [True]])
def test_what_is_no_time_is_refused(bad):
    with pytest.raises(TypeError, match="whole numbers or dates"):
        epoch_seconds(bad)


def test_time_zones_of_pandas_are_heeded():
    pandas = pytest.importorskip("pandas", reason="the extra pandas is not installed")
    from mfrank.data.interactions import Interactions

    zoned = pandas.to_datetime(["2014-04-07 11:11:09"]).tz_localize("Etc/GMT-2")
    for dates in (zoned, zoned.tz_convert(None), zoned.strftime("%Y-%m-%dT%H:%M:%S%z")):
        frame = pandas.DataFrame({"user": [1], "item": [2], "date": dates})
        assert Interactions.of(frame).timestamps.tolist() == [SECOND]


@pytest.mark.parametrize("frame", [None, 5, np.zeros((3, 2)), [[1, 2]], {"user": [1], "item": [2]}])
def test_what_is_no_frame_is_refused(frame):
    from mfrank.data.interactions import Interactions

    with pytest.raises(TypeError, match="frame must be a table with named columns, got"):
        Interactions.from_pandas(frame)
