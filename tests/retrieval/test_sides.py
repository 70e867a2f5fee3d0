"""In how many ways a model may be asked, and what it refuses by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import BACKEND, ITEMS, USERS, als, equal, labeled
from problems import toy

import mfrank
from mfrank.retrieval import top_k
from mfrank.store import FactorStore
from tests.support.errors import refuses

# --- how it may be asked


def test_one_or_many() -> None:
    model = als().fit(labeled())
    many = model.recommend(["u2", "u0", "u2"], N=3)
    assert many[0].shape == many[1].shape == (3, 3)
    one = model.recommend("u0", N=3)
    assert one[0].shape == one[1].shape == (3,)
    for single, row in zip(one, many, strict=True):
        np.testing.assert_array_equal(single, row[1])
        np.testing.assert_array_equal(row[0], row[2])
    nobody = model.recommend([], N=3)
    assert nobody[0].shape == nobody[1].shape == (0, 3)


def test_every_kind_of_id_array_will_do() -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    model = als().fit(labeled())
    expected = model.recommend(["u1", "u2"])
    names = ["u1", "u2"]
    for ids in (
        tuple(names),
        np.array(names),
        np.array(names, dtype=object),
        pandas.Series(names, index=[5, 6]),
        pandas.Index(names),
    ):
        equal(model.recommend(ids), expected)
    numbers = als().fit(toy())
    expected = numbers.recommend([1, 2])
    for rows in (range(1, 3), np.array([1, 2], np.uint8), pandas.Series([1, 2]), (np.int16(1), 2)):
        equal(numbers.recommend(rows), expected)
    for one in (1, np.int64(1), np.array(1)):
        assert numbers.recommend(one)[0].shape == (10,)


def test_rows_and_ids_are_two_ways_of_asking_the_same() -> None:
    model = als().fit(labeled())
    options = {"filter_items": [1, 2], "items": [0, 1, 3, 4, 5]}
    rows, scores = model.recommend([3, 0], N=4, by_row=True, **options)
    named = {name: [ITEMS[row] for row in listed] for name, listed in options.items()}
    ids, same = model.recommend(["u3", "u0"], N=4, **named)
    assert model.item_ids.raw(rows).tolist() == ids.tolist()
    np.testing.assert_array_equal(scores, same)
    users = [f"u{row}" for row in range(9)]
    for ask, names in (
        (model.similar_items, ITEMS),
        (model.similar_users, users),
        (model.recommend_users, ITEMS),
    ):
        by_row, by_id = ask(2, by_row=True), ask(names[2])
        letter = "i" if ask == model.similar_items else "u"
        expected = [None if row < 0 else f"{letter}{row}" for row in by_row[0].tolist()]
        assert by_id[0].tolist() == expected
    np.testing.assert_array_equal(model.score(["u1"], ["i2"]), model.score([1], [2], by_row=True))


def test_lists_that_end_early_are_padded() -> None:
    numbers, names = als().fit(toy()), als().fit(labeled())
    ids, scores = numbers.recommend([0, 4], N=50)
    left = (toy().toarray()[[0, 4]] == 0).sum(axis=1) - 1  # nobody has item 2
    left[1] = 0  # user 4 has nothing to go by
    assert ids.shape == (2, 50)
    for row in range(2):
        assert (ids[row, left[row] :] == -1).all()
        assert np.isnan(scores[row, left[row] :]).all()
        assert np.isfinite(scores[row, : left[row]]).all()
        assert len(set(ids[row, : left[row]].tolist())) == left[row]
    labels, _ = names.recommend("u0", N=50)
    assert labels[left[0] :].tolist() == [None] * (50 - left[0])
    nothing, scores = numbers.recommend(0, N=2, items=[])
    assert nothing.tolist() == [-1, -1]
    assert np.isnan(scores).all()


KINDS: dict[str, tuple[Callable[[int], Any] | None, Any, Any]] = {
    "row numbers": (None, np.int32, -1),
    "numbers": (lambda row: 10 * row + 3, np.int64, -1),
    "numbers with -1": (lambda row: row - 1, object, None),
    "strings": (lambda row: f"x{row}", object, None),
    "tuples": (lambda row: (row, "x"), object, None),
}


@pytest.mark.parametrize("kind", KINDS)
def test_padding_is_of_the_kind_of_the_ids(kind: str) -> None:
    """In whatever is asked, and whole lists have the dtype that padded ones have."""
    label, dtype, padding = KINDS[kind]
    users, items = toy().shape
    ids = [None if label is None else [label(row) for row in range(n)] for n in (users, items)]
    model = als().fit(mfrank.Interactions.from_sparse(toy(), user_ids=ids[0], item_ids=ids[1]))
    user, item = (side.labels.tolist()[1] for side in (model.user_ids, model.item_ids))
    answers = [
        (model.recommend, [user, user], "items"),
        (model.recommend_users, [item], "users"),
        (model.similar_items, [item], "items"),
        (model.similar_users, [user], "users"),
        (model.recommend_from_items, [item], "items"),
    ]
    for ask, who, listed in answers:
        long, scores = ask(who, N=12)
        ended = np.isnan(scores)
        assert ended.any()
        known = (model.item_ids if listed == "items" else model.user_ids).labels.tolist()
        assert long[ended].tolist() == [padding] * int(ended.sum())
        assert set(long[~ended].tolist()) <= set(known)
        assert padding not in known
        for n, options in ((1, {}), (3, {listed: []})):
            assert ask(who, N=n, **options)[0].dtype == long.dtype == dtype


SEEN_FORMS: dict[str, Callable[[sp.csr_array], Any]] = {
    "csr_array": lambda m: m,
    "csr_matrix": sp.csr_matrix,
    "csc": lambda m: m.tocsc(),
    "coo": lambda m: m.tocoo(),
    "lil": lambda m: m.tolil(),
    "bool": lambda m: m.astype(bool),
    "int64 indices": lambda m: _wide(m),
    "unsorted": lambda m: _unsorted(m),
    "Interactions": lambda m: labeled(m),
}


def _wide(matrix: sp.csr_array) -> sp.csr_array:
    wide = sp.csr_array(matrix)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    return wide


def _unsorted(matrix: sp.csr_array) -> sp.csr_array:
    parts = [np.arange(*matrix.indptr[r : r + 2])[::-1] for r in range(matrix.shape[0])]
    order = np.concatenate(parts).astype(np.int64)
    return sp.csr_array(
        (matrix.data[order], matrix.indices[order], matrix.indptr), shape=matrix.shape
    )


@pytest.mark.parametrize("form", SEEN_FORMS)
@pytest.mark.parametrize("recalculate", [False, True])
def test_what_was_seen_may_come_in_any_form(form: str, recalculate: bool) -> None:
    model, other = als(mfrank.WRMF()).fit(labeled()), toy(seed=3, values="ones")
    asked, rows = ["u7", "u2"], [7, 2]
    options: dict[str, Any] = {"N": 7, "recalculate_user": recalculate}
    expected = model.recommend(asked, other, **options)
    equal(model.recommend(asked, SEEN_FORMS[form](other), **options), expected)
    if form != "Interactions":
        equal(model.recommend(asked, SEEN_FORMS[form](other[rows]), **options), expected)
    for row, listed in zip(rows, expected[0], strict=True):
        assert not {f"i{i}" for i in other[[row]].indices} & set(listed.tolist())


def test_interactions_in_another_order_are_read_by_id() -> None:
    model, matrix = als().fit(labeled()), toy()
    permuted = mfrank.Interactions.from_sparse(
        matrix[::-1][:, [3, 6, 0, 5, 1, 2, 4]],
        user_ids=USERS[::-1],
        item_ids=[f"i{i}" for i in (3, 6, 0, 5, 1, 2, 4)],
    )
    equal(model.recommend(USERS, permuted), model.recommend(USERS))
    equal(model.recommend_users(ITEMS, permuted), model.recommend_users(ITEMS))
    equal(model.recommend([0, 5], permuted, by_row=True), model.recommend([0, 5], by_row=True))


def test_a_stored_entry_is_seen_whatever_its_value() -> None:
    zero = sp.csr_array((np.zeros(1), np.array([2]), np.array([0, 1])), shape=(1, 7))
    assert 2 not in als().fit(toy()).recommend(0, zero, N=7)[0]


def test_strangers_are_folded_in() -> None:
    matrix = toy()
    for model in (als().fit(matrix), als().fit(labeled())):
        asked = model.user_ids.raw([3, 1])
        expected = model.recommend(asked, matrix[[3, 1]], recalculate_user=True)
        equal(model.recommend(["x", "y"], matrix[[3, 1]], recalculate_user=True), expected)
        one = model.recommend("x", matrix[[3]], recalculate_user=True)
        equal(one, [row[0] for row in expected])


def test_the_same_bits_alone_in_a_batch_and_on_any_threads() -> None:
    matrix = toy(80, 60)
    model = als().fit(matrix)
    together = model.recommend(range(80), N=20)
    for n_threads in (1, 2, 3):
        equal(model.recommend(range(80), N=20, n_threads=n_threads), together)
    for user in (0, 41, 79):
        equal(model.recommend(user, N=20), [part[user] for part in together])


@pytest.mark.parametrize("at_once", [2, top_k._PAIRS_AT_ONCE])
def test_scores_of_pairs(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top_k, "_PAIRS_AT_ONCE", at_once)
    model = als().fit(labeled())
    scores = model.user_factors @ model.item_factors.T
    np.testing.assert_allclose(
        model.score(["u8", "u0", "u0"], ["i1", "i6", "i6"]), scores[[8, 0, 0], [1, 6, 6]], rtol=1e-5
    )
    assert model.score([], []).shape == (0,)
    with refuses(ValueError, "users"):
        model.score(["u0"], ["i1", "i2"])


# --- what is refused


@pytest.mark.parametrize(
    ("method", "arguments", "argument"),
    [
        ("recommend", {"userid": 9}, "userid"),
        ("recommend", {"userid": -1}, "userid"),
        ("recommend", {"userid": [0, 99]}, "userid"),
        ("recommend", {"userid": "ann"}, "userid"),
        ("recommend", {"userid": True}, "userid"),
        ("recommend", {"userid": [[0]]}, "userid"),
        ("recommend", {"userid": 9, "user_items": toy()}, "userid"),
        ("recommend", {"userid": 0, "N": 0}, "N"),
        ("recommend", {"userid": 0, "N": 2.5}, "N"),
        ("recommend", {"userid": 0, "n_threads": -1}, "n_threads"),
        ("recommend", {"userid": 0, "user_items": np.ones((9, 7))}, "user_items"),
        ("recommend", {"userid": 0, "user_items": toy()[:3]}, "user_items"),
        ("recommend", {"userid": 0, "user_items": toy()[:, :3]}, "user_items"),
        ("recommend", {"userid": 0, "recalculate_user": True}, "recalculate_user"),
        ("recommend", {"userid": 0, "filter_items": [7]}, "filter_items"),
        ("recommend", {"userid": 0, "items": ["i"]}, "items"),
        ("recommend", {"userid": 0, "items": [True] * 7}, "items"),
        ("recommend", {"userid": {3}}, "userid"),
        ("recommend", {"userid": 0, "items": {3: 1}}, "items"),
        ("recommend", {"userid": [0, 1], "items": [[1], 2]}, "items"),
        (
            "recommend",
            {"userid": [0, 1], "items": [[1]]},
            "items",
        ),
        ("recommend", {"userid": 0, "filter_items": toy().T}, "filter_items"),
        ("recommend_users", {"itemid": 0, "users": toy()}, "users"),
        ("recommend_users", {"itemid": 0, "item_users": toy().T[:3]}, "item_users"),
        ("similar_items", {"itemid": 7}, "itemid"),
        ("similar_items", {"itemid": 0, "N": 0}, "N"),
        ("similar_users", {"userid": 9}, "userid"),
        ("similar_users", {"userid": 0, "filter_users": [9]}, "filter_users"),
        ("recommend_users", {"itemid": 7}, "itemid"),
        (
            "recommend_users",
            {"itemid": 0, "item_users": toy()},
            "item_users",
        ),
        ("recommend_users", {"itemid": 0, "users": [9]}, "users"),
        ("score", {"userid": [9], "itemid": [0]}, "userid"),
        ("explain", {"userid": {1}, "user_items": None, "itemid": 0}, "userid"),
        ("explain", {"userid": 0, "user_items": None, "itemid": [0, 1]}, "itemid"),
        ("score", {"userid": [0], "itemid": [7]}, "itemid"),
    ],
)
def test_bad_questions_name_the_argument(
    method: str, arguments: dict[str, Any], argument: str
) -> None:
    with refuses((ValueError, TypeError), argument):
        getattr(als().fit(toy()), method)(**arguments)


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"userid": "ann"}, "userid"),
        ({"userid": 0}, "userid"),
        ({"userid": None}, "userid"),
        ({"userid": "u0", "items": ["i1", "x"]}, "items"),
        ({"userid": "u0", "filter_items": "i1x"}, "filter_items"),
        ({"userid": ["u0"], "filter_items": [["i1", "y"]]}, "filter_items"),
        ({"userid": "u1", "user_items": labeled(toy(20, 7)[:1])}, "user_items"),
        ({"userid": "u1", "user_items": labeled(toy(9, 20))}, "user_items"),
        ({"userid": 99, "by_row": True}, "userid"),
        ({"userid": "u0", "by_row": True}, "userid"),
    ],
)
def test_unknown_names_are_named(arguments: dict[str, Any], argument: str) -> None:
    with refuses((ValueError, TypeError), argument):
        als().fit(labeled()).recommend(**arguments)


@pytest.mark.parametrize("named", [False, True])
def test_lists_of_several_lengths_are_no_ids(named: bool) -> None:
    model = als().fit(labeled() if named else toy())
    with refuses((ValueError, TypeError), "userid"):
        model.recommend([0, [1, 2]])
    with refuses((ValueError, TypeError), "itemid"):
        model.similar_items([[0], [1, 2]])


def test_a_range_of_ids_is_not_looked_through() -> None:
    model = als().fit(toy())
    few, listed = (model.recommend(0, filter_items=ids) for ids in (range(3), [0, 1, 2]))
    equal(few, listed)
    with pytest.raises((MemoryError, ValueError)):
        model.recommend(0, filter_items=range(10**18))


@pytest.mark.parametrize("side", ["user", "item"])
def test_rows_that_are_only_numbered_are_not_taken_for_ids(side: str) -> None:
    """Where ids count from 1, every number but one is somebody else's."""
    n = {"user": 9, "item": 7}[side]
    from_one: dict[str, Any] = {f"{side}_ids": np.arange(n) + 1}
    model = als().fit(mfrank.Interactions.from_sparse(toy(), **from_one))
    with refuses(mfrank.UnknownIdError, "user_items", remedy=f"the {side}s of user_items"):
        model.recommend(3, mfrank.Interactions.from_sparse(toy()))


@pytest.mark.parametrize("asked", [[9, 2], [100, 2], [2, 4]])
def test_rows_beyond_the_model_are_somebody_new(asked: list[int]) -> None:
    """Of users who are solved from rows of their own, however many are known already."""
    model, rows = als().fit(toy()), toy()[[2, 4]]
    blocked = sp.csr_array(np.eye(2, 9))
    found = model.similar_users(
        asked, N=3, recalculate_user=True, user_items=rows, by_row=True, filter_users=blocked
    )
    expected = model.similar_users(
        [2, 4], N=3, recalculate_user=True, user_items=rows, filter_users=blocked
    )
    equal(found, expected)


def test_a_matrix_of_all_users_has_no_rows_for_somebody_new() -> None:
    model = als().fit(labeled())
    for userid in ("zoe", ["zoe", "u1"]):
        with refuses(ValueError, "filter_users"):
            model.similar_users(
                userid,
                recalculate_user=True,
                user_items=toy()[: 1 if userid == "zoe" else 2],
                filter_users=sp.csr_array(np.eye(9)),
            )


def test_a_bare_store_is_served_but_cannot_fold_in() -> None:
    fitted = als().fit(labeled())
    model = mfrank.Recommender.of(fitted.store)
    model.backend = BACKEND
    equal(model.recommend("u0", labeled()), fitted.recommend("u0"))
    equal(model.similar_users("u0"), fitted.similar_users("u0"))
    with refuses(TypeError, "recalculate_user"):
        model.recommend("u0", labeled(), recalculate_user=True)
    with refuses(ValueError, "user_items"):
        model.recommend("u0")
    with refuses(ValueError, "item_users"):
        model.recommend_users("i0")


def test_a_loaded_store_brings_what_was_seen(tmp_path: Any) -> None:
    fitted = als().fit(toy())
    fitted.save(tmp_path / "m")
    model = mfrank.Recommender.of(FactorStore.load(tmp_path / "m"))
    model.backend = BACKEND
    equal(model.recommend(0), fitted.recommend(0))
    assert model.store.extras == {}
