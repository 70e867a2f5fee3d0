"""Columns are recognized by their names, or the error says how to name them."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from mfrank.data import ROLES, Ids, assign, columns, spelled_like, tell_columns
from mfrank.errors import plain
from tests.support.errors import refuses


@pytest.mark.parametrize(
    "names",
    [
        ["userId", "movieId", "rating", "timestamp"],
        ["USER_ID", "item_id", "Rating", "TimeStamp"],
        ["visitorid", "itemid", "count", "time"],
        ["uid", "track id", "playcount", "date"],
        ["user", "product-id", "weight", "unixReviewTime"],
        ["customer_id", "asin", "stars", "datetime"],
        ["user_id:token", "item_id:token_seq", "rating:float", "timestamp:float"],
    ],
)
@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0]])
def test_usual_names_are_recognised_in_any_order(names, order):
    columns = ["genres", *(names[position] for position in order), "", 7]
    assert assign(columns, {}) == dict(zip(ROLES, names, strict=True))


def test_value_and_timestamp_may_be_absent():
    assert assign(["user", "item", "title"], {}) == {"user": "user", "item": "item"}


@pytest.mark.parametrize("name", ["session", "SessionId", "session_id:token"])
def test_sessions_are_the_users_of_a_table_without_others(name):
    assert assign([name, "ItemId", "Timestamp"], {})["user"] == name
    assert assign([name, "user_id", "ItemId"], {})["user"] == "user_id"


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
    ("columns", "chosen", "fault"),
    [
        (["a", "item"], {}, {"argument": "user", "remedy": "name it with user="}),
        (["user", "b"], {}, {"argument": "item", "remedy": "name it with item="}),
        (["user", "song", "artist"], {}, {"argument": "item", "remedy": "name one with item="}),
        (["user", "client", "item"], {}, {"argument": "user", "remedy": "name one with user="}),
        (["xx", "item"], {}, {"argument": "user", "remedy": "name it with user="}),
        (
            ["user", "item", "rating", "score"],
            {},
            {"argument": "value", "remedy": "name one with value="},
        ),
        (["user", "item", "a"], {"user": False}, {"argument": "user"}),
        (["user", "item", "a"], {"item": False}, {"argument": "item"}),
        (
            ["user", "item", "a_timestamp", "b_timestamp"],
            {},
            {"argument": "timestamp", "remedy": "name one with timestamp="},
        ),
        (["user", "item"], {"value": "rating"}, {"place": "column 'rating'", "remedy": "columns"}),
        (["user", "item"], {"value": "item"}, {"argument": "item", "remedy": "name it with item="}),
        (
            ["user", "item"],
            {"item": "user", "user": "user"},
            {"place": "column 'user'", "remedy": "columns"},
        ),
        (
            ["user", "user", "item"],
            {"user": "user"},
            {"place": "column 'user'", "remedy": "columns"},
        ),
    ],
)
def test_what_cannot_be_told_is_refused(columns, chosen, fault):
    with refuses(ValueError, **fault):
        assign(columns, chosen)


def test_ignored_roles_do_not_end_the_search():
    names = ["user", "item", "rating", "time"]
    assert assign(names, {"value": False}) == {"user": "user", "item": "item", "timestamp": "time"}
    assert assign(["user", "item", "overall", "when"], {}) == {
        "user": "user",
        "item": "item",
        "value": "overall",
        "timestamp": "when",
    }
    assert assign(["user", "item", "overall", "rating"], {})["value"] == "rating"


def told(names, chosen=None):
    """The level of the one line, and its parts."""
    said, chosen = [], chosen or {}
    tell_columns(
        names, assign(names, chosen), chosen, lambda level, line: said.append((level, line))
    )
    return [(level, line.split("; ")) for level, line in said]


def test_nothing_is_told_where_all_columns_are_read_by_the_names_of_their_roles():
    for names in (
        ["user", "item"],
        ["User_ID", "itemId", "value", "timestamp"],
        ["item", "user", "-"],
    ):
        assert told(names) == []
    read = "columns read: user 'uid', item 'item', value 'rating'"
    assert told(["uid", "item", "rating"]) == [(logging.INFO, [read])]
    no_values = "columns read: user 'uid', item 'item', and no values: each row counts 1"
    assert told(["uid", "item"]) == [(logging.INFO, [no_values])]
    read = "columns read: user 'uid', item 'item'"
    assert told(["uid", "item"], {"value": False}) == [(logging.INFO, [read])]


def test_six_ignored_columns_are_named():
    for n, more in ((1, ""), (6, ""), (7, " and 1 more"), (8, " and 2 more")):
        names = [f"x{number}" for number in range(n)]
        ((level, parts),) = told(["user", "item", *names], {"value": False})
        assert level == logging.INFO
        assert parts[1:] == ["ignored: " + ", ".join(map(repr, names[:6])) + more]


COUNTED = ["0", "n", "nb", "len", "size", "f0_", "_c2", "_col2", "EXPR$2", "?column?"]
COUNTED += ["(No column name)"]
"""Names of counts that nobody gave."""


@pytest.mark.parametrize(
    ("names", "chosen", "doubts"),
    [
        (["overall score", "rating"], {}, ["value='overall score' reads it in place of 'rating'"]),
        (["my_score"], {}, ["'my_score' looks like a value: value='my_score' reads it"]),
        (["my_score"], {"value": False}, []),
        (["avg_score", "score_id", "score:token"], {"value": "score:token"}, []),
        (["visit_time"], {}, ["'visit_time' looks like a time: timestamp='visit_time' reads it"]),
        (["visit_time"], {"timestamp": False}, []),
        (["birth_date", "dateOfBirth", "release_date", "published_at", "signup_time"], {}, []),
        (["visit_time", "timestamp"], {}, []),
        (["liked_at", "score_date"], {}, ["'liked_at' looks like a t", "_date' looks like a t"]),
        (["day", "month", "my_score"], {}, ["'day', 'month' look like parts", "'my_score' looks"]),
        (["rating_timestamp", "time"], {}, []),
        (["action"], {}, ["'action' looks like kinds of events, which all count alike"]),
        (["action"], {"value": False}, []),
        (["event_id"], {}, []),
        (["playtime"], {}, ["'playtime' looks like a value"]),
        (["orderdate"], {}, ["'orderdate' looks like a time"]),
        (["discount", "candidate", "runtime"], {}, []),
        (["day", "month"], {}, ["'day', 'month' look like parts of a time: make one column of"]),
        (["day", "month"], {"timestamp": False}, []),
        (["day", "month", "time"], {}, []),
        (["day"], {}, ["'day' looks like a time"]),
        (["month", "release_month"], {}, []),
        (["split"], {}, ["'split' looks like the parts of a split, all of which are read: keep"]),
        (["is_train", "fold"], {}, ["'is_train' looks like the parts", "'fold' looks like the p"]),
        (["split_id", "testament"], {}, []),
        ([7, "title"], {}, []),
        ([0], {}, ["0 looks like a count: value=0 reads it"]),
        *(([name], {}, ["looks like a count: value="]) for name in COUNTED),
        (["Freq"], {}, ["'Freq' looks like a value: value='Freq' reads it"]),
        (["n", "rating"], {}, []),
        (["n"], {"value": False}, []),
    ],
)  # fmt: skip
def test_what_an_ignored_column_may_be_is_told(names, chosen, doubts):
    ((level, parts),) = told(["user", "item", *names], chosen)
    parts = [plain(part) for part in parts]
    assert parts[0].startswith("columns read: user 'user', item 'item'")
    assert level == (logging.WARNING if doubts else logging.INFO)
    found = [part for part in parts[1:] if not part.startswith("ignored: ")]
    if doubts:
        assert all(doubt in " ".join(found) for doubt in doubts)
        assert sum(" look" in part for part in found) == len(doubts)
        if doubts[0].endswith("reads it"):
            assert found == doubts
    else:
        assert not found


# fields of text


def test_the_error_of_a_field_names_its_column_and_the_remedy_of_its_role():
    said = columns.in_column("what", "value", "stars")
    assert str(said).startswith("what in column 'stars'; write a number, name a column of times")


@pytest.mark.parametrize(
    ("labels", "known", "spelled"),
    [
        ([7, 8], None, [7, 8]),
        ([7, 8], [8, 9], [7, 8]),
        (["7", "x"], [7, 8], [7, "x"]),
        (["7", "8"], [7, 8], [7, 8]),
        ([7, 8], ["7", "8"], ["7", "8"]),
        (["07", "8"], ["7", "8"], ["07", "8"]),
        ([7, 8], [7, "8"], [7, "8"]),
        (["7", "8", "x"], [7, "8"], [7, "8", "x"]),
        (["1", "1"], [1, "1"], ["1", "1"]),
        (["1"], ["1", 1], ["1"]),
        ([0, 1], ["a", 1], [0, 1]),
    ],
)
def test_ids_of_text_are_spelled_like_those_that_are_known(labels, known, spelled):
    given_ids = np.array(labels) if isinstance(labels[0], int) else np.array(labels, object)
    found = spelled_like(given_ids, None if known is None else Ids.of(known))
    assert found.tolist() == spelled
    assert [type(one) for one in found.tolist()] == [type(one) for one in spelled]
    if all(isinstance(one, int) for one in spelled) and known != ["a", 1]:
        assert found.dtype == np.int64


@pytest.mark.parametrize("frame", [None, 5, np.zeros((3, 2)), [[1, 2]], {"user": [1], "item": [2]}])
def test_what_is_no_frame_is_refused(frame):
    from mfrank.data import Interactions

    with refuses(TypeError, "frame"):
        Interactions.from_pandas(frame)
