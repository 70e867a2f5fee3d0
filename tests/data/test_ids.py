"""Raw ids and rows: each undoes the other, whatever the ids are."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank.data import Ids, UnknownIdError, check_on_unknown, stored_ids
from tests.support.errors import refuses, unknown

quick = settings(max_examples=40, deadline=None)
whole = st.integers(-(2**63), 2**63 - 1)
small = st.integers(-5, 30)
text = st.text(max_size=4)
other = st.one_of(small, text, st.tuples(small, text))
labels = st.one_of(*(st.lists(kind, max_size=30) for kind in (whole, small, text, other)))


@quick
@given(labels)
def test_factorize_is_undone_by_raw(raw):
    ids, rows = Ids.factorize(raw)
    assert ids.raw(rows).tolist() == raw
    assert len(ids) == len(set(raw))
    assert set(rows.tolist()) == set(range(len(ids)))
    assert rows.dtype == np.int64


@quick
@given(st.one_of(st.lists(whole), st.lists(text)), st.randoms())
def test_numbers_and_strings_are_numbered_in_sorted_order_whatever_the_order_of_rows(raw, random):
    ids, _ = Ids.factorize(raw)
    shuffled = list(raw)
    random.shuffle(shuffled)
    assert ids.labels.tolist() == sorted(set(raw))
    assert Ids.factorize(shuffled)[0] == ids


def test_other_hashables_are_numbered_by_first_appearance():
    ids, rows = Ids.factorize([("b", 1), "z", ("a", 0), "z"])
    assert ids.labels.tolist() == [("b", 1), "z", ("a", 0)]
    assert rows.tolist() == [0, 1, 2, 1]


@quick
@given(st.one_of(*(st.lists(kind, unique=True, max_size=30) for kind in (whole, small, text))))
def test_rows_and_raw_invert_each_other(raw):
    ids = Ids.of(raw)
    assert ids.rows(raw).tolist() == list(range(len(raw)))
    assert ids.rows(raw[::-1]).tolist() == list(range(len(raw)))[::-1]
    assert ids.raw(np.arange(len(raw))).tolist() == raw
    assert all(label in ids for label in raw)
    assert Ids.from_arrays(ids.to_arrays()) == ids
    assert all(array.dtype != object for array in ids.to_arrays().values())


@quick
@given(st.lists(small, unique=True), st.lists(small))
def test_unknown_ids_are_named_or_replaced(known, asked):
    ids = Ids.of(known)
    expected = [known.index(label) if label in known else -7 for label in asked]
    assert ids.rows(asked, missing=-7).tolist() == expected
    missing = [label for label in asked if label not in known]
    if missing:
        with unknown(*dict.fromkeys(missing)):
            ids.rows(asked)


def test_only_a_few_of_many_unknown_ids_are_named():
    with unknown(*range(10, 20)) as raised:
        Ids.numbered(3).rows(np.arange(10, 20))
    assert "10, 11, 12, 13, 14 and 5 more; the 3 known ids are like 0, 1, 2" in str(raised.value)


def test_the_error_has_the_unknown_ids_also_after_a_pickle():
    with pytest.raises(UnknownIdError) as raised:
        Ids.of(["a", "b"]).rows(["c", "a", "d", "c"])
    for error in (raised.value, pickle.loads(pickle.dumps(raised.value))):
        assert error.ids == ("c", "d")
        assert str(error) == "unknown ids: 'c', 'd'; the 2 known ids are like 'a', 'b'"
    named = raised.value.within("users")
    assert (type(named), named.ids) == (UnknownIdError, ("c", "d"))
    assert str(named) == f"users: {raised.value}"


def test_unknown_ids_are_an_error_or_skipped():
    check_on_unknown("skip")
    with refuses(ValueError, "on_unknown"):
        check_on_unknown("ignore")


def test_ids_of_text_are_told_from_others():
    assert Ids.of(["a", "1"]).are_text
    assert not any(ids.are_text for ids in (Ids.of(["a", 1]), Ids.of([5]), Ids.numbered(2)))
    assert [Ids.of(raw).are_numbers for raw in (["a", 1], ["1"], [7], [0, 1])] == [0, 0, 1, 1]


def test_ids_equal_nothing_else():
    assert (Ids.numbered(2) == 2) is False
    assert Ids.numbered(2) != [0, 1]
    with refuses(ValueError, "n"):
        Ids.numbered(-1)
    assert len(Ids.numbered(0)) == 0


def test_as_many_unknown_ids_as_are_named():
    with unknown(1, 2, 3, 4, 5) as raised:
        Ids.of([]).rows([1, 2, 3, 4, 5])
    assert str(raised.value) == "unknown ids: 1, 2, 3, 4, 5; the 0 known ids are like none"


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        ([1, "a"], {"argument": "names", "remedy": "convert all to text"}),
        (["a", "\ud800"], {"argument": "names"}),
    ],
)
def test_a_typed_column_has_ids_of_one_kind(raw, fault):
    with refuses(ValueError, **fault):
        Ids.of(raw).check_column("names")
    for ids in (Ids.of(["1", "ä"]), Ids.of([5, 2]), Ids.numbered(3), Ids.of([])):
        ids.check_column("names")


def test_numbers_and_their_digits_are_different_ids():
    assert Ids.of([1, "1"]).rows(["1", 1]).tolist() == [1, 0]
    assert Ids.of(["1", "2"]).rows([1, 2], missing=-1).tolist() == [-1, -1]
    assert Ids.of([5, 7]).rows(["5"], missing=-1).tolist() == [-1]
    assert Ids.numbered(3).rows(["0", "a"], missing=-1).tolist() == [-1, -1]


def test_row_numbers_as_ids_are_their_own_table():
    ids = Ids.numbered(4)
    assert ids == Ids.of([0, 1, 2, 3]) == Ids.of(np.arange(4, dtype=np.uint8))
    assert ids != Ids.of([3, 2, 1, 0])
    assert ids != Ids.numbered(5)
    assert ids.rows([3, 0]).tolist() == ids.raw([3, 0]).tolist() == [3, 0]
    assert ids.labels.tolist() == [0, 1, 2, 3]
    assert 3 in ids
    assert 4 not in ids
    assert -1 not in ids


@quick
@given(
    st.one_of(*(st.lists(kind, unique=True, max_size=9) for kind in (whole, small, text, other)))
)
def test_padding_is_no_id_and_changes_no_dtype(raw):
    ids = Ids.of(raw)
    padded = ids.raw([*range(len(raw)), -1])
    assert padded[:-1].tolist() == raw
    assert padded[-1] not in raw
    numbers = all(isinstance(label, int) for label in raw)
    assert (padded.dtype, padded[-1]) == (
        (np.int64, -1) if numbers and -1 not in raw else (object, None)
    )
    assert padded[:-1].dtype == ids.raw(range(len(raw))).dtype == padded.dtype


def test_padding_in_any_shape():
    assert Ids.of([10, 20]).raw([[1, -1], [0, 1]]).tolist() == [[20, -1], [10, 20]]
    assert Ids.of([-1, 20]).raw([[1, -1], [0, 1]]).tolist() == [[20, None], [-1, 20]]
    assert Ids.of(["a", "b"]).raw([-1, 1]).tolist() == [None, "b"]
    assert Ids.numbered(2).raw([1, -1]).tolist() == [1, -1]


@pytest.mark.parametrize("rows", [[2], [-2], [[0, 5]]])
def test_rows_beyond_the_ids_are_refused(rows):
    for ids in (Ids.numbered(2), Ids.of(["a", "b"])):
        with pytest.raises(IndexError, match="rows must lie in"):
            ids.raw(rows)


def test_rows_must_be_whole():
    with refuses(TypeError, "rows"):
        Ids.numbered(2).raw([0.5])


@pytest.mark.parametrize("raw", [[3, 1, 3], ["b", "a", "b"], [(0,), "a", (0,)]])
def test_labels_must_be_unique(raw):
    with refuses(ValueError, remedy=r"Ids\.factorize numbers"):
        Ids.of(raw)


@pytest.mark.parametrize(
    "raw", [["a", None], [1, None], [1.0, np.nan], np.array([1, np.nan]), [("a",), float("nan")]]
)
@pytest.mark.parametrize("make", [Ids.of, Ids.factorize, Ids.numbered(3).rows])
def test_missing_values_are_no_ids(make, raw):
    with refuses(ValueError, remedy="give them an id"):
        make(raw)
    assert raw[1] not in Ids.numbered(3)


def test_missing_values_of_pandas_are_no_ids():
    pandas = pytest.importorskip("pandas", reason="the extra pandas is not installed")
    for column in ([1, pandas.NA], ["a", pandas.NA], ["a", pandas.NaT]):
        with refuses(ValueError, remedy="give them an id"):
            Ids.of(pandas.Series(column, dtype=object))
    with refuses(ValueError, remedy="give them an id"):
        Ids.of(pandas.Series([1, None], dtype="Int64"))


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64", "uint64", "float32", "float64"])
def test_numbers_of_any_width_become_int64(dtype):
    ids = Ids.of(np.array([7, 3, 100], dtype=dtype))
    assert ids.labels.dtype == np.int64
    assert ids.rows([100, 7.0]).tolist() == [2, 0]
    assert 3.0 in ids


@pytest.mark.parametrize(
    "raw", [np.array([2**63], dtype=np.uint64), [2**64], [0.5], [np.inf], np.array([2.0**60])]
)
def test_numbers_that_are_no_int64_are_refused(raw):
    with refuses(ValueError, remedy="use strings"):
        Ids.of(raw)


@pytest.mark.parametrize("raw", [[True], np.array([True]), ["a", np.True_], "abc", 5, [[1], [2]]])
def test_what_cannot_be_ids_is_refused(raw):
    with pytest.raises(TypeError):
        Ids.of(raw)


def test_two_dimensions_are_refused():
    with refuses(ValueError, remedy="pass a list"):
        Ids.of(np.zeros((2, 2), dtype=int))


def test_numpy_strings_and_strings_are_the_same_ids():
    assert Ids.of(np.array(["b", "aa"])) == Ids.of(["b", "aa"])
    assert Ids.of(np.array(["b", "aa"], dtype=np.dtypes.StringDType())) == Ids.of(["b", "aa"])
    assert Ids.of([np.str_("b")]).to_arrays()["utf8"].tobytes() == b"b"


def test_ids_do_not_change_with_what_they_were_made_from():
    labels = np.array([5, 6])
    ids = Ids.of(labels)
    labels[:] = 0
    assert ids.labels.tolist() == [5, 6]


@pytest.mark.parametrize(
    "raw", [[1, "1", "a"], ["007", 7, -(2**63)], ["\ud800", "ä"], ["", "b"], [0, 1], [5, 4], []]
)
def test_ids_of_every_kind_are_stored_and_read_back(raw):
    ids = Ids.of(raw)
    arrays = ids.to_arrays()
    assert ("whole" in arrays) == (len({type(label) for label in raw}) > 1)
    for again in (Ids.from_arrays(arrays), stored_ids(arrays, len(raw))):
        assert again == ids
        assert [type(label) for label in again.labels.tolist()] == [type(label) for label in raw]


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("offsets", np.zeros(3, np.int32), "cannot be stored as offsets, utf8, whole"),
        ("offsets", np.zeros(2, np.int64), "there are 1 ids stored for 2 rows"),
        ("whole", np.zeros(1, bool), "whole must have 2 marks, got 1"),
        ("whole", np.zeros((2, 1), bool), "cannot be stored as offsets, utf8, whole"),
        ("more", np.zeros(2), "cannot be stored as more, offsets, utf8, whole"),
    ],
)
def test_stored_arrays_of_another_form_are_refused(name, array, message):
    arrays = Ids.of([1, "a"]).to_arrays() | {name: array}
    with pytest.raises(ValueError, match=message):
        stored_ids(arrays, 2)
    assert stored_ids({}, 4) == Ids.numbered(4)


def test_only_numbers_and_strings_can_be_stored():
    with refuses(ValueError, remedy="use str or int ids"):
        Ids.of(["a", (1,)]).to_arrays()


@pytest.mark.parametrize("offsets", [[0, 1, 3], [1, 2], [0, 2, 1, 2]])
def test_damaged_arrays_are_refused(offsets):
    with refuses(ValueError, place="the file of ids", remedy="restore it"):
        Ids.from_arrays({"utf8": np.zeros(2, np.uint8), "offsets": np.array(offsets)})


def test_take_renumbers_rows():
    assert Ids.of(["a", "b", "c"]).take(np.array([2, 0])) == Ids.of(["c", "a"])
    assert Ids.numbered(5).take(np.array([1, 4])) == Ids.of([1, 4])


def test_repr_tells_the_first_ids():
    assert repr(Ids.of(list("abcdefg"))) == "Ids.of(['a', 'b', 'c', 'd', 'e', ...], 7 rows)"
    assert repr(Ids.numbered(3)) == "Ids.numbered(3)"


@pytest.mark.parametrize(
    ("old", "new"), [([7, 3, 9], [4, 11, 1]), (["b", "a"], ["c", ""]), ([0, 1], [2, 3])]
)
@pytest.mark.parametrize("asked", [False, True])
def test_ids_followed_by_new_ones_find_both(old: list[Any], new: list[Any], asked: bool) -> None:
    """Also where the first have been asked for rows; they themselves stay as they are."""
    ids = Ids.of(old)
    if asked:
        ids.rows(old)
    both = ids.followed_by(Ids.of(new).labels)
    assert both == Ids.of([*old, *new])
    assert both.rows([*old, *new]).tolist() == list(range(len(old) + len(new)))
    assert both.rows(new[::-1]).tolist() == list(range(len(old), len(both)))[::-1]
    assert ids.rows([*new], missing=-1).tolist() == [-1] * len(new)


@pytest.mark.parametrize(
    ("raw", "remedy"),
    [
        (np.array([2**63], np.uint64), "use strings"),
        ([0, 2**63], "use strings"),
        ([-(2**63), -(2**63) - 1], "use strings"),
        (["a", 2**63], "use strings"),
        (["a", -(2**63) - 1], "use strings"),
        (np.array([1.0, np.nan]), "give them an id"),
        ([Decimal(-(2**63) - 1)], "use strings"),
        (np.array([0.0, 2.0**53 + 2]), "use strings for ids"),
        (np.array([0.0, 1.0, 0.5]), "use strings for ids"),
        ([True], "convert them to text"),
        ([1, np.True_], "convert them to text"),
        ([dt.date(2024, 1, 31)], "convert them to text"),
        ([["a"], ["b", "c"]], "a list is no id"),
    ],
)
def test_the_number_or_the_row_that_is_no_id_is_named(raw, remedy):
    if isinstance(raw, list):
        raw = np.fromiter(raw, dtype=object)
    with refuses((TypeError, ValueError), remedy=remedy):
        Ids.of(raw)


@pytest.mark.parametrize(
    ("raw", "labels"),
    [
        (np.array([2**63 - 1], np.uint64), [2**63 - 1]),
        ([2**63 - 1, -(2**63)], [2**63 - 1, -(2**63)]),
        (["a", 2**63 - 1, -(2**63)], ["a", 2**63 - 1, -(2**63)]),
        ([Decimal(2**63 - 1), "a"], [2**63 - 1, "a"]),
        (np.array([2.0**53, -(2.0**53)]), [2**53, -(2**53)]),
        ([2.0**53, "a", -(2.0**53)], [2**53, "a", -(2**53)]),
    ],
)
def test_the_first_and_the_last_number_are_ids(raw, labels):
    assert Ids.of(raw).labels.tolist() == labels


@pytest.mark.parametrize("raw", [[0, 4], [0, 3], [5, 5, 900], [7], [-3, 0, 9], [0, 2**62]])
def test_numbers_near_and_far_apart_are_numbered_alike(raw):
    ids, rows = Ids.factorize(np.array(raw))
    assert ids.labels.tolist() == sorted({*raw})
    assert ids.labels[rows].tolist() == raw
