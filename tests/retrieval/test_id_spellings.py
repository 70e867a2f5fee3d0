"""One rule for ids: every spelling of an id, in every method, whatever the ids of the model are."""

from __future__ import annotations

import datetime
import enum
from collections import Counter, deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from problems import toy

import mfrank
from mfrank.data import Ids
from tests.support.errors import refuses

TABLES: dict[str, list[list[Any]]] = {
    "0..n-1": [list(range(9)), list(range(7))],
    "other numbers": [[7 * row + 3 for row in range(9)], [5 - 2 * row for row in range(7)]],
    "text": [[f"u{row}" for row in range(9)], [f"i{row}" for row in range(7)]],
    "mixed": [[*range(4), *"defgh"], [3, 1, "x", "1", 0, "y", "z"]],
}


def fitted(table: str, kind: str = "ALS") -> Any:
    users, items = TABLES[table]
    data = mfrank.Interactions.from_sparse(toy(), user_ids=users, item_ids=items)
    if kind == "ALS":
        return mfrank.ALS(factors=4, iterations=2, random_state=0).fit(data)
    return getattr(mfrank, kind)().fit(data)


class Whole(enum.IntEnum):
    ZERO, ONE, TWO, THREE, FIVE = 0, 1, 2, 3, 5


class Text(enum.StrEnum):
    USER, ITEM = "u1", "i1"


class OldText(str, enum.Enum):  # noqa: UP042 - str() of it is another text
    USER, ITEM = "u1", "i1"


def spellings(label: int | str) -> list[Any]:
    """The same id in other types."""
    if isinstance(label, str):
        same = [np.str_(label), label.encode(), np.bytes_(label), np.array(label)]
        return same + [kind(label) for kind in (Text, OldText) if label in {*Text}]
    same = [float(label), np.int8(label), np.float32(label), Decimal(label), Fraction(label)]
    same += [np.array(label), np.array(float(label)), np.longlong(label)]
    return same + ([Whole(label)] if label in {*Whole} else [])


UNKNOWN = [10**6, -(10**6), 1e6, "nobody", "no body", "", UUID(int=5), np.str_("x1"), b"nobody"]
INVALID = [
    (True, TypeError),
    (np.True_, TypeError),
    (np.array(True), TypeError),
    (None, ValueError),
    (float("nan"), ValueError),
    (np.float32("nan"), ValueError),
    (1.5, ValueError),
    (Decimal("1.5"), ValueError),
    (Decimal("nan"), ValueError),
    (2**63, ValueError),
    (2.0**60, ValueError),
    (float("inf"), ValueError),
    (b"\xff", ValueError),
    (datetime.date(2024, 1, 31), TypeError),
    (np.datetime64("2024-01-31"), TypeError),
    (np.timedelta64(1, "s"), TypeError),
]

_OTHER_KIND = "numbers and text are never the same id"

Ask = Callable[[Any, Any, Any], Any]
"""What a method answers for an id among others: the model, the id, and options."""


def asks(side: str, known: Any) -> dict[str, Ask]:
    """By name, the methods that take ids of a side; ``known`` is an id of the other."""
    if side == "user":
        return {
            "recommend": lambda model, u, o: model.recommend(u, N=4, **o),
            "recommend several": lambda model, u, o: model.recommend([u, u], N=4, **o),
            "similar_users": lambda model, u, o: model.similar_users(u, N=4, **o),
            "filter_users": lambda model, u, o: model.recommend_users(known, filter_users=[u], **o),
            "users": lambda model, u, o: model.recommend_users(known, users=[u], **o),
            "score": lambda model, u, o: model.score([u], [known], **o),
        }
    return {
        "similar_items": lambda model, i, o: model.similar_items(i, N=4, **o),
        "recommend_users": lambda model, i, o: model.recommend_users(i, N=4, **o),
        "filter_items": lambda model, i, o: model.recommend(known, filter_items=[i], **o),
        "a filter each": lambda model, i, o: model.recommend([known], filter_items=[[i]], **o),
        "items": lambda model, i, o: model.recommend(known, items=[i], **o),
        "score": lambda model, i, o: model.score([known], [i], **o),
        "from items": lambda model, i, o: model.recommend_from_items([i], N=4, **o),
    }


KINDS = {
    "ALS": set[str](),
    "ItemKNN": {"similar_users", "recommend_users", "filter_users", "users"},
}
CASES = [
    (table, kind, side, name)
    for table in TABLES
    for kind, lacks in KINDS.items()
    for side in ("user", "item")
    for name in asks(side, None)
    if name not in lacks and not (kind != "ALS" and name == "from items")
]
every_method = pytest.mark.parametrize(("table", "kind", "side", "name"), CASES)


def same(got: Any, expected: Any) -> None:
    parts = zip(got, expected, strict=True) if isinstance(got, tuple) else [(got, expected)]
    for one, other in parts:
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def asked(table: str, kind: str, side: str, name: str) -> tuple[Any, Ask, list[Any]]:
    users, items = TABLES[table]
    other = items[1] if side == "user" else users[1]
    return fitted(table, kind), asks(side, other)[name], users if side == "user" else items


@every_method
def test_every_spelling_of_an_id_is_that_id(table: str, kind: str, side: str, name: str) -> None:
    model, ask, ids = asked(table, kind, side, name)
    for label in ids[1:3]:
        expected = ask(model, label, {})
        for spelling in spellings(label):
            same(ask(model, spelling, {}), expected)
            same(ask(model, spelling, {"on_unknown": "skip"}), expected)


@every_method
def test_ids_that_nobody_has_are_unknown_of_any_type(
    table: str, kind: str, side: str, name: str
) -> None:
    model, ask, _ = asked(table, kind, side, name)
    skipped = [ask(model, label, {"on_unknown": "skip"}) for label in UNKNOWN]
    for label, answer in zip(UNKNOWN, skipped, strict=True):
        same(answer, skipped[0])
        with pytest.raises(mfrank.UnknownIdError):
            ask(model, label, {})


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize(
    ("kind", "side", "name"), [case[1:] for case in CASES if case[0] == "text"]
)
def test_an_id_that_is_known_as_the_other_kind_is_never_skipped(
    kind: str, side: str, name: str, as_text: bool
) -> None:
    write: Any = str if as_text else int
    ids = [[write(7 * row) for row in range(n)] for n in (9, 7)]
    data = mfrank.Interactions.from_sparse(toy(), user_ids=ids[0], item_ids=ids[1])
    model = (
        mfrank.ALS(factors=4, iterations=2, random_state=0) if kind == "ALS" else mfrank.ItemKNN()
    )
    model.fit(data)
    asked_of, other = ids if side == "user" else ids[::-1]
    ask = asks(side, other[1])[name]
    ask(model, asked_of[1], {"on_unknown": "skip"})
    wrong = 7 if as_text else "7"
    for options in ({}, {"on_unknown": "skip"}):
        with refuses(mfrank.UnknownIdError, None, remedy=_OTHER_KIND) as caught:
            ask(model, wrong, options)
        assert caught.value.ids == (wrong,)  # type: ignore[attr-defined]


WRITTEN_OTHERWISE = {
    "numbers": ("007", "7.0", "+7", " 7", "7 ", "'7'", '"7"', "[7]", "\uff17"),
    "text": ("tea ", " tea", '"tea"', "['tea']", "tea\xa0", "\uff54ea"),
    "accents": ("te\u0301a",),
    "blanks": ("tea ", " tea", '"green tea"', "['tea']"),
}
AS_LISTS = {
    "numbers": ("7,14", "7, 99", "7 14", "[7, 14]", "7|14", "7;99"),
    "text": ("tea,jam", "tea, ale", "tea jam", "['tea', 'jam']"),
    "commas": ("a,b;tea", "tea,jam", "tea|a,b"),
}
KNOWN: dict[str, list[Any]] = {
    "numbers": [7 * row for row in range(7)],
    "text": ["tea", "jam", "oat", "pie", "rum", "gin", "fig"],
    "accents": ["t\xe9a", "jam", "oat", "pie", "rum", "gin", "fig"],
    "commas": ["tea", "jam", "a,b", "pie", "rum", "gin", "fig"],
    "blanks": ["tea", "green tea", "don't", '5" nail', "a [b]", "gin", "fig"],
}


@pytest.mark.parametrize("name", asks("item", None))
@pytest.mark.parametrize("kind", KNOWN)
def test_an_id_that_is_known_once_it_is_written_otherwise_is_never_skipped(
    kind: str, name: str
) -> None:
    """Such as each of a list in one text: nothing would be filtered, and nothing said."""
    data = mfrank.Interactions.from_sparse(toy(), item_ids=KNOWN[kind])
    model = mfrank.ItemKNN().fit(data)
    if name == "recommend_users":
        return  # not of this model
    ask = asks("item", 0)[name]
    skip = {"on_unknown": "skip"}
    for wrong in WRITTEN_OTHERWISE.get(kind, ()):
        with refuses(mfrank.UnknownIdError, None, remedy="write ids as the model has them"):
            ask(model, wrong, skip)
    for wrong in AS_LISTS.get(kind, ()):
        with refuses(mfrank.UnknownIdError, None, remedy="each id by itself"):
            ask(model, wrong, skip)
    for new in ("99", "TEA", "teas", "tea-7", "x7", "z,z", "no, no", "7-14", "((", ",", "\xe9"):
        ask(model, new, skip)


@pytest.mark.parametrize("table", TABLES)
def test_a_mark_for_each_id_is_no_list_of_ids(table: str) -> None:
    """It would be the ids 0 and 1, again and again."""
    model, (users, items) = fitted(table), TABLES[table]
    test = mfrank.Interactions.from_sparse(toy(), user_ids=users, item_ids=items)
    skip: dict[str, Any] = {"on_unknown": "skip"}
    doors: dict[str, tuple[list[Any], Callable[[Any], Any]]] = {
        "filter_items": (items, lambda ids: model.recommend(users[:2], filter_items=ids, **skip)),
        "items": (items, lambda ids: model.recommend(users[:2], items=[ids, items], **skip)),
        "filter_users": (users, lambda ids: model.recommend_users(items[0], filter_users=ids)),
        "itemids": (items, lambda ids: model.recommend_from_items(ids, **skip)),
    }
    for argument, (ids, ask) in doors.items():
        marks = [place % 3 % 2 for place in range(len(ids))]
        flags = np.array(marks, bool)
        forms = [marks, np.array(marks), np.array(marks, float), iter(marks), flags]
        for given in (*forms, flags.tolist(), flags.astype(str), [str(mark) for mark in marks]):
            with refuses(ValueError, argument, remedy="marked, such as ids"):
                ask(given)
        ask([label for label, mark in zip(ids, marks, strict=True) if mark])
    for side, ids in (("users", users), ("items", items)):
        with refuses(ValueError, side, remedy="marked, such as ids"):
            fitted(table).remove(**{side: [1] * len(ids)})
    with refuses(ValueError, "users", remedy="marked, such as ids"):
        mfrank.evaluate(model, test, users=[0, 1] + [1] * (len(users) - 2))
    if table == "0..n-1":  # as many as there are ids, but ids
        assert model.recommend([0, 1] * 4 + [1], N=1).ids.shape == (9, 1)
        model.recommend(0, items=range(7))
        model.recommend(0, filter_items=[0, 1, 1])


@pytest.mark.parametrize("item_ids", [None, [0, 1], [1, 0], [1, 2], ["0", "1"], ["a", "b"]])
def test_two_marks_are_told_from_the_ids_0_and_1(item_ids: Any) -> None:
    model = mfrank.ItemKNN().fit(mfrank.Interactions.from_sparse(toy()[:, :2], item_ids=item_ids))
    ids = model.item_ids.labels.tolist()
    for marks in ([0, 1], [1, 0], [1, 1], [0, 0], ["0", "1"], ["1", "1"], [False, True]):
        for given in (marks, np.array(marks)):
            if sorted(map(repr, marks)) == sorted(map(repr, ids)):
                listed = model.recommend(0, filter_items=given, on_unknown="skip")
                assert not np.isfinite(listed.scores).any()
                continue
            with refuses(ValueError, "filter_items", remedy="marked, such as ids"):
                model.recommend(0, filter_items=given, on_unknown="skip")
    for one in ids:  # a single one is an id
        assert one not in model.recommend(0, filter_items=[one]).ids.tolist()


def test_ids_of_the_other_side_are_not_skipped() -> None:
    users, items = [f"u{n}" for n in range(9)], [f"i{n}" for n in range(7)]
    skip: dict[str, Any] = {"on_unknown": "skip"}
    model = mfrank.ItemKNN().fit(
        mfrank.Interactions.from_sparse(toy(), user_ids=users, item_ids=items)
    )
    for argument, ask in {
        "userid": lambda: model.recommend(items[:2], **skip),
        "filter_items": lambda: model.recommend("u1", filter_items=users[:2], **skip),
        "items": lambda: model.recommend("u1", items=["u2"], **skip),
        "itemids": lambda: model.recommend_from_items(["u2", "u3"], **skip),
    }.items():
        with refuses(mfrank.UnknownIdError, argument, remedy="ids of"):
            ask()
    model.recommend("u1", filter_items=["u2", "i9"], **skip)
    friends = mfrank.ItemKNN().fit(
        mfrank.Interactions.from_sparse(toy(), user_ids=users, item_ids=users[:7])
    )
    friends.recommend("u1", filter_items=["u8"], **skip)  # whom nobody follows
    numbers = mfrank.ItemKNN().fit(mfrank.Interactions.from_sparse(toy()))
    numbers.recommend(1, filter_items=[8], **skip)


def test_boosts_and_categories_of_the_other_kind_are_not_skipped() -> None:
    model = fitted("other numbers")
    users, items = TABLES["other numbers"]
    texts = [str(item) for item in items]
    for steer in (
        mfrank.Steering(boosts={texts[0]: 1.0}),
        mfrank.Steering(categories=dict.fromkeys(texts, "a"), at_most=1),
    ):
        with refuses(mfrank.UnknownIdError, None, remedy=_OTHER_KIND):
            model.recommend(users, on_unknown="skip", steer=steer)


@every_method
def test_what_is_no_id_is_refused_alike(table: str, kind: str, side: str, name: str) -> None:
    model, ask, _ = asked(table, kind, side, name)
    for label, error in INVALID:
        for options in ({}, {"on_unknown": "skip"}):
            with pytest.raises(error) as caught:
                ask(model, label, options)
            assert not isinstance(caught.value, mfrank.UnknownIdError), label


def containers(ids: list[Any]) -> Iterator[Any]:
    """The same ids in everything that has an order."""
    yield tuple(ids)
    yield np.array(ids, dtype=object)
    yield (label for label in ids)
    yield iter(ids)
    yield map(np.asarray, ids)
    yield dict.fromkeys(ids).keys()
    yield dict(enumerate(ids)).values()
    yield deque(ids)
    if len({type(label) for label in ids}) == 1:
        yield np.array(ids)
        yield np.ma.array(ids)
    if all(isinstance(label, int) for label in ids):
        yield np.array(ids, dtype=np.float64)
        yield range(ids[0], ids[-1] + (1 if ids[1] > ids[0] else -1), ids[1] - ids[0])
        yield memoryview(np.array(ids))
    pandas = pytest.importorskip("pandas")
    yield pandas.Series(ids, index=[5, 6, 7])
    yield pandas.Index(ids)
    yield pandas.Categorical(ids)
    yield pandas.Series(ids).astype("category")
    if all(isinstance(label, int) for label in ids):
        yield pandas.Series(ids, dtype="Int64")
    if len({type(label) for label in ids}) > 1:
        return
    pyarrow = pytest.importorskip("pyarrow")
    yield pyarrow.array(ids)
    yield pyarrow.chunked_array([ids])
    yield pyarrow.array(ids).dictionary_encode()
    yield pytest.importorskip("polars").Series(ids)


@pytest.mark.parametrize("table", TABLES)
def test_ids_may_come_in_anything_that_has_an_order(table: str) -> None:
    model = fitted(table)
    users, items = (ids[1:4] for ids in TABLES[table])
    plain = model.recommend(users, N=4), model.score(users, items)
    for given in containers(users):
        same(model.recommend(given, N=4), plain[0])
    for given in containers(users):
        same(model.score(given, items), plain[1])
    filters = [
        lambda ids: model.recommend(users, N=4, filter_items=ids),
        lambda ids: model.recommend(users, N=4, items=ids),
        lambda ids: model.recommend_from_items(ids, N=4),
        lambda ids: model.similar_items(items, N=4, filter_items=ids),
        lambda ids: fitted(table).remove(items=ids).recommend(users[0]),
    ]
    for ask in filters:
        expected = ask(items)
        for given in (*containers(items), set(items), frozenset(items)):
            same(ask(given), expected)
    each = model.recommend(users, N=4, filter_items=[items, [], items[:1]])
    same(model.recommend(users, N=4, filter_items=[{*items}, (), (i for i in items[:1])]), each)
    lists = np.empty(3, dtype=object)
    lists[:] = [items, [], items[:1]]
    same(model.recommend(users, N=4, filter_items=lists), each)


@pytest.mark.parametrize("table", TABLES)
def test_ids_without_an_order_need_a_list(table: str) -> None:
    """Where answers are in the order of the ids; and what a mapping holds is not clear."""
    model, (users, items) = fitted(table), TABLES[table]
    for given in ({*users}, frozenset(users), Counter(users), toy()):
        for ask in (
            lambda ids: model.recommend(ids),
            lambda ids: model.similar_users(ids),
            lambda ids: model.score(ids, items),
            lambda ids: model.recalculate_user(ids, toy()),
            lambda ids: model.partial_fit_users(ids, toy()),
        ):
            with refuses(TypeError, None, remedy="list"):
                ask(given)
    with refuses(TypeError, "filter_items"):
        model.recommend(users[0], filter_items=dict.fromkeys(items))
    with refuses(TypeError, "itemids"):
        model.recommend_from_items({*items}, values=range(7))
    with refuses(TypeError, remedy="pass a list"):
        Ids.of({*users})
    with refuses(TypeError, "users", remedy="pass a list"):
        mfrank.Interactions.from_arrays({*users[:7]}, items)


def test_a_column_of_lists_is_no_list_of_lists() -> None:
    """Its rows may be in another order than the ids: sorted by a group, for instance."""
    pandas = pytest.importorskip("pandas")
    column = pandas.Series([[1], [2, 3]], index=[4, 0])
    model = fitted("0..n-1")
    with refuses(TypeError, "filter_items"):
        model.recommend([0, 4], filter_items=column)
    model.recommend([4, 0], filter_items=column.tolist())


@pytest.mark.parametrize("table", TABLES)
def test_explanations_boosts_and_growth_follow_the_same_rule(table: str) -> None:
    model, (users, items) = fitted(table), TABLES[table]
    why = model.explain(users[1], None, items[2])
    boosted = model.recommend(users[1], steer=mfrank.Steering(boosts={items[2]: 2.0}))
    for user in spellings(users[1]):
        assert model.explain(user, None, items[2]).score == why.score
    for item in spellings(items[2]):
        assert model.explain(users[1], None, item).score == why.score
        if not isinstance(item, np.ndarray):
            steer = mfrank.Steering(boosts={item: 2.0})
            same(model.recommend(users[1], steer=steer), boosted)
    for label in UNKNOWN:
        with pytest.raises(mfrank.UnknownIdError):
            model.explain(label, None, items[2])
        with pytest.raises(mfrank.UnknownIdError):
            model.recommend(users[1], steer=mfrank.Steering(boosts={label: 2.0}))
    for label, error in INVALID:
        with pytest.raises(error):
            model.explain(users[1], None, label)
        with pytest.raises(error):
            model.partial_fit_users(label, toy()[:1])


@pytest.mark.parametrize("table", ["0..n-1", "other numbers"])
def test_any_number_may_join_a_model_of_numbers(table: str) -> None:
    model = fitted(table).partial_fit_users([500, 200.0], toy()[:2])
    assert model.user_ids.labels.tolist() == [*TABLES[table][0], 200, 500]
    rows = model.user_ids.rows([500, TABLES[table][0][0]])
    np.testing.assert_allclose(*model.user_factors[rows], atol=1e-6)
    with refuses(ValueError, "userids"):
        model.partial_fit_users(["bob"], toy()[:1])


def test_numbers_that_continue_those_of_a_matrix_need_no_table() -> None:
    model = fitted("0..n-1").partial_fit_users([10, 9], toy()[:2])
    assert model.user_ids.table is None
    assert len(model.user_ids) == 11


@pytest.mark.parametrize("table", TABLES)
def test_row_numbers_are_whole_numbers_of_a_type_of_whole_numbers(table: str) -> None:
    model = fitted(table)
    expected = model.recommend([1, 2], by_row=True)
    for rows in ((1, 2), range(1, 3), np.array([1, 2], np.uint8), iter([1, 2])):
        same(model.recommend(rows, by_row=True), expected)
    for rows in ([1.0, 2.0], ["1"], [True], [None]):
        with refuses(TypeError, "userid"):
            model.recommend(rows, by_row=True)
    with pytest.raises(mfrank.UnknownIdError):
        model.recommend(9, by_row=True)


@pytest.mark.parametrize("table", TABLES)
def test_ids_have_the_ids_that_they_find(table: str) -> None:
    ids = Ids.of(TABLES[table][0])
    for label in TABLES[table][0]:
        assert all(spelling in ids for spelling in spellings(label))
    assert not any(label in ids for label in UNKNOWN)
    assert not any(label in ids for label, _ in INVALID)
    assert Ids.from_arrays(ids.to_arrays()) == ids
    again = Ids.from_arrays(ids.to_arrays()).labels.tolist()
    assert list(map(type, again)) == list(map(type, TABLES[table][0]))
