"""What lies on a GPU when it is given stays there: interactions, filters, ids."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import emulated_gpu
import numpy as np
import pytest
import scipy.sparse as sp
from emulated_gpu import DeviceArray, EmulatedGPU
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import toy
from served import N_ITEMS, N_USERS, serving, store
from sparse_on_gpu import SparseOnGPU, known_as_cupys

import mfrank
from mfrank.arrays import CSR, to_host
from mfrank.backends.cuda.resident import by_columns, resident_on
from mfrank.evaluation import evaluate
from tests.support.errors import refuses


@pytest.fixture(autouse=True)
def _cupy() -> Iterator[None]:
    with known_as_cupys():
        yield


def ratings(n_users: int = N_USERS, n_items: int = N_ITEMS) -> sp.csr_array:
    matrix = toy(n_users, n_items).astype(np.float32)
    matrix.data *= 1 + np.arange(matrix.nnz) % 3
    return matrix


# --- interactions


def test_a_canonical_csr_is_read_where_it_lies(device: EmulatedGPU, went: list[int]) -> None:
    given_ = SparseOnGPU(ratings())
    data = mfrank.Interactions.of(given_)
    went.clear()
    for dtype in (np.float32, None):
        rows = resident_on(device).rows(data.user_rows(dtype))
        assert rows.indices is not None
        assert np.shares_memory(rows.indices.on_host, given_.indices.on_host)
        np.testing.assert_array_equal(rows.indptr.on_host, data.user_rows().indptr)
        assert rows.indptr.on_host.dtype == np.int64
    kept = resident_on(device).rows(data.user_rows())
    assert kept.data is not None
    assert np.shares_memory(kept.data.on_host, given_.data.on_host)
    wide = resident_on(device).rows(data.user_rows(np.float64))
    assert wide.data is not None
    np.testing.assert_array_equal(wide.data.on_host, data.user_rows(np.float64).data)
    assert not went


def test_what_lies_there_needs_no_room(
    device: EmulatedGPU, went: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = SparseOnGPU(ratings())
    rows = mfrank.Interactions.of(there).user_rows(np.float32)
    monkeypatch.setattr(device, "free", 0)
    went.clear()
    kept = resident_on(device).rows(rows)
    assert np.shares_memory(kept.indices.on_host, there.indices.on_host)
    assert np.shares_memory(kept.data.on_host, there.data.on_host)
    assert not went


def test_rows_that_are_gone_are_not_mistaken_for_others(device: EmulatedGPU) -> None:
    """New arrays get the places of those that are gone, while what was given is still there."""
    matrix, other = ratings(), toy(N_USERS, N_ITEMS, 0.5)
    there, resident = SparseOnGPU(matrix), resident_on(device)
    for _ in range(50):
        resident.rows(mfrank.Interactions.of(there).user_rows())
        rows = CSR.from_scipy(other.copy())
        np.testing.assert_array_equal(resident.rows(rows).indices.on_host, rows.indices)


WENT = {"as it is": 0, "other dtype": 1, "unsorted": 4, "zeros": 4, "csc": 4, "dropped": 4}
"""Arrays of all entries that go up: columns and values by users and by items, where changed."""


def changed(matrix: sp.csr_array, how: str) -> sp.csr_array:
    if how == "other dtype":
        return matrix.astype(bool)
    if how == "zeros":
        matrix.data[3] = 0
    if how == "unsorted":
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        order = np.lexsort([-matrix.indices, rows])
        arrays = matrix.data[order], matrix.indices[order], matrix.indptr
        return sp.csr_array(arrays, shape=matrix.shape)
    return matrix.tocsc() if how == "csc" else matrix


@pytest.mark.parametrize("how", WENT)
def test_a_fit_is_the_one_to_the_same_matrix_on_the_host(
    device: EmulatedGPU, went: list[int], how: str
) -> None:
    matrix = changed(ratings(), how)
    fits = [
        mfrank.ALS(mfrank.WRMF(alpha=2.0), factors=4, iterations=2, random_state=0, backend="cuda")
        for _ in range(2)
    ]
    fits[0].fit(mfrank.Interactions.of(matrix))
    there = SparseOnGPU(matrix)
    data = mfrank.Interactions.of(there)
    if how == "dropped":
        del there
    went.clear()
    fits[1].fit(data)
    assert went.count(data.nnz) == WENT[how]
    np.testing.assert_array_equal(fits[1].user_factors, fits[0].user_factors)


@pytest.mark.parametrize("init", ["spectral", "random"])
def test_a_descent_reads_it_where_it_lies_too(
    device: EmulatedGPU, went: list[int], init: str
) -> None:
    matrix, fits = ratings(), []
    for data in (matrix, there := SparseOnGPU(matrix)):
        went.clear()
        model = mfrank.Descent(
            factors=3, iterations=1, negatives=7, batch_size=4, init=init, random_state=0
        )
        fits.append(model.set_params(backend="cuda").fit(data))
        assert (matrix.nnz in went) is (data is matrix)
    assert there is not None
    np.testing.assert_array_equal(fits[1].item_factors, fits[0].item_factors)


@settings(deadline=None)
@given(
    st.integers(0, 5),
    st.integers(0, 6),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), unique=True),
)
def test_columns_are_those_that_scipy_makes(
    device: EmulatedGPU, n_rows: int, n_columns: int, cells: list[tuple[int, int]]
) -> None:
    inside = [cell for cell in cells if cell[0] < n_rows and cell[1] < n_columns]
    at = tuple(np.array(inside, dtype=np.int64).reshape(-1, 2).T)
    matrix = sp.csr_array((np.arange(1.0, len(inside) + 1), at), shape=(n_rows, n_columns))
    matrix.sum_duplicates()
    rows, columns = CSR.from_scipy(matrix), CSR.from_scipy(matrix.T.tocsr())
    for data in (rows.data, None):
        given_ = (
            None if a is None else device.asarray(a) for a in (rows.indptr, rows.indices, data)
        )
        made = by_columns(device, *given_, n_columns)
        wanted = columns.indptr, columns.indices, None if data is None else columns.data
        for one, other in zip(made, wanted, strict=True):
            assert (one is None) is (other is None)
            if one is not None:
                np.testing.assert_array_equal(one.on_host, other)
                assert one.dtype == other.dtype


@pytest.mark.parametrize("short_of", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, None])
def test_columns_are_made_there_if_there_is_room(
    device: EmulatedGPU, went: list[int], monkeypatch: pytest.MonkeyPatch, dtype: Any, short_of: int
) -> None:
    """40 bytes for each entry, in half of what is free; else they are sent from the host."""
    there = SparseOnGPU(ratings())
    data = mfrank.Interactions.of(there)
    monkeypatch.setattr(device, "free", 2 * 40 * data.nnz - short_of)
    rows = data.item_rows(dtype)
    went.clear()
    kept = resident_on(device).rows(rows)
    assert went.count(data.nnz) == short_of * (1 if dtype is None else 2)
    np.testing.assert_array_equal(kept.indptr.on_host, rows.indptr)
    np.testing.assert_array_equal(kept.indices.on_host, rows.indices)
    assert (kept.data is None) is (dtype is None)
    if kept.data is not None:
        np.testing.assert_array_equal(kept.data.on_host, rows.data)


@pytest.mark.parametrize(
    ("n", "room", "is_kept"),
    [
        (1 << 17, 0, True),
        ((1 << 17) + 1, 0, False),
        ((1 << 17) + 1, 2 * 8 * ((1 << 17) + 1), True),
        ((1 << 17) + 1, 2 * 8 * ((1 << 17) + 1) - 1, False),
    ],
)
def test_factors_that_do_not_change_are_sent_once_if_they_fit(
    device: EmulatedGPU,
    went: list[int],
    monkeypatch: pytest.MonkeyPatch,
    n: int,
    room: int,
    is_kept: bool,
) -> None:
    """In half of what is free; a mebibyte always does."""
    monkeypatch.setattr(device, "free", room)
    factors = np.arange(float(n))
    factors.flags.writeable = False
    resident = resident_on(device)
    for times in (1, 0 if is_kept else 1):
        went.clear()
        np.testing.assert_array_equal(resident.of_factors(factors).on_host, factors)
        assert went.count(n) == times
    factors.flags.writeable = True
    went.clear()
    resident.of_factors(factors)
    assert went.count(n) == 1  # it may have changed


def test_copies_go_with_what_they_are_of(device: EmulatedGPU) -> None:
    factors = np.arange(9.0)
    factors.flags.writeable = False
    copies = [
        weakref.ref(resident_on(device).array(factors, dtype)) for dtype in (None, np.float32)
    ]
    assert all(copy() is not None for copy in copies)
    assert copies[1]().dtype == np.float32
    del factors
    gc.collect()
    assert all(copy() is None for copy in copies)


def test_rows_to_leave_out_of_an_evaluation_go_up_once(
    device: EmulatedGPU, went: list[int]
) -> None:
    train, test = mfrank.Interactions.of(ratings()), toy(N_USERS, N_ITEMS, 0.7)
    model = store(place=device.asarray)
    wanted = evaluate(store(), test, train=train, backend="reference")
    for times in (1, 0):
        went.clear()
        got = evaluate(model, test, train=train, backend="cuda", batch_size=4)
        assert went.count(train.nnz) == times
        np.testing.assert_allclose(got[mfrank.NDCG @ 10].value, wanted[mfrank.NDCG @ 10].value)
    there = SparseOnGPU(ratings())
    went.clear()
    got = evaluate(model, test, train=there, backend="cuda")
    assert not went.count(train.nnz)
    assert got[mfrank.NDCG @ 10].value == pytest.approx(wanted[mfrank.NDCG @ 10].value)


# --- lists

FORMS = ["list", "table", "csr", "csc", "whole"]


def formed(form: str, rows: list[list[int]], asked: list[int], device: EmulatedGPU) -> Any:
    """A filter on the GPU with these items for those who ask, and what it is on the host."""
    if form == "list":
        return device.asarray(np.array(rows[0])), rows[0]
    if form == "table":
        return device.asarray(np.array(rows)), rows
    matrix = np.zeros((N_USERS if form == "whole" else len(asked), N_ITEMS), np.float32)
    for at, row in enumerate(rows):
        matrix[asked[at] if form == "whole" else at, row] = 1
    made = (sp.csc_matrix if form == "csc" else sp.csr_matrix)(matrix)
    return SparseOnGPU(made), made


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, N_USERS - 1), min_size=1, max_size=9),
    st.sampled_from(FORMS),
    st.sampled_from(FORMS),
    st.sampled_from(["csr", "whole"]),
    st.booleans(),
    st.sampled_from(["cuda", "cuda", "cpu", "reference"]),
    st.randoms(),
)
def test_filters_on_the_gpu_are_those_of_the_host(
    device: EmulatedGPU,
    asked: list[int],
    blocked: str,
    only: str,
    seen: str,
    store_there: bool,
    backend: str,
    random: Any,
) -> None:
    users = device.asarray(np.array(asked))
    pairs = [
        formed(form, [random.choices(range(N_ITEMS), k=size) for _ in asked], asked, device)
        for form, size in ((blocked, 4), (only, 15), (seen, 5))
    ]
    (there, there_only, there_seen), (here, here_only, here_seen) = zip(*pairs, strict=True)
    model = serving(store(place=device.asarray if store_there else np.asarray), backend)
    plain = serving(store(), "reference")
    lists = [
        model.recommend(users, there_seen, N=9, filter_items=there, items=there_only),
        plain.recommend(asked, here_seen, N=9, filter_items=here, items=here_only),
    ]
    if "whole" not in (blocked, only):  # which is of as many rows as there are users
        items = [3 * i % N_ITEMS for i in asked]
        lists += [
            model.similar_items(
                device.asarray(np.array(items)), N=9, filter_items=there, items=there_only
            ),
            plain.similar_items(items, N=9, filter_items=here, items=here_only),
        ]
    for got, wanted in zip(lists[::2], lists[1::2], strict=True):
        for one, other in zip(got, wanted, strict=True):
            assert isinstance(one, DeviceArray)
            np.testing.assert_allclose(to_host(one, ""), other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("store_there", [True, False])
def test_nothing_comes_down_or_goes_up_for_them(
    device: EmulatedGPU, came: list[int], went: list[int], form: str, store_there: bool
) -> None:
    asked, rows = [3, 0], [[1, 2, 5], [7, 2, 20]]
    model = serving(store(place=device.asarray if store_there else np.asarray), "cuda")
    users, wanted = device.asarray(np.array(asked)), formed(form, rows, asked, device)[0]
    seen, everyone = SparseOnGPU(ratings()), device.asarray(np.arange(N_USERS))
    for call in (
        lambda: model.recommend(everyone, seen),
        lambda: model.recommend(users, seen, filter_items=wanted),
        lambda: model.recommend(users, seen, items=wanted),
        lambda: model.similar_items(users, filter_items=None if form == "whole" else wanted),
    ):
        call()  # a store on the host goes up once
        came.clear()
        went.clear()
        call()
        assert not came
        assert max(went, default=0) <= 2  # where the only row of the items begins and ends


@pytest.mark.parametrize("ask_there", [True, False])
def test_what_a_served_model_has_seen_goes_up_once(
    device: EmulatedGPU, went: list[int], ask_there: bool
) -> None:
    model = mfrank.ALS(factors=4, iterations=1, random_state=0, backend="cuda")
    model.fit(ratings(40, 30))
    model.backend = "reference"
    asked = np.arange(12)
    wanted = model.recommend(asked)[0], model.recommend_users(asked)[0]
    model.backend = "cuda"
    users = device.asarray(asked) if ask_there else asked
    for again in (False, True):
        went.clear()
        got = model.recommend(users)[0], model.recommend_users(users)[0]
        for one, other in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(to_host(one, ""), other)
        if again:
            # Rows asked for, and the factors looked up by them on the host.
            assert set(went) <= (set() if ask_there else {12, 12 * 4})


def test_seen_rows_without_room_are_sent_with_each_call(
    device: EmulatedGPU, went: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = mfrank.ALS(factors=4, iterations=1, random_state=0).fit(ratings(40, 30))
    wanted = model.recommend(np.arange(12))[0]
    model.backend, seen = "cuda", model.seen.matrix
    monkeypatch.setattr(device, "free", 2 * 4 * seen.nnz - 1)
    for _ in range(2):
        went.clear()
        np.testing.assert_array_equal(model.recommend(np.arange(12))[0], wanted)
        assert seen.nnz not in went
        rows = resident_on(device).rows(model.seen.rows_of("user"))
        assert rows.indices is None


# --- bad input


def test_filters_on_the_gpu_are_checked_by_name(device: EmulatedGPU) -> None:
    model, users = serving(store(place=device.asarray), "cuda"), device.asarray(np.array([3, 0]))
    many = SparseOnGPU(sp.csr_matrix((5, N_ITEMS)))
    wide = SparseOnGPU(sp.csr_matrix((2, N_ITEMS + 1)))
    outside = SparseOnGPU(sp.csr_matrix(np.ones((2, N_ITEMS))))
    outside.indices[7] = N_ITEMS
    backwards = SparseOnGPU(sp.csr_matrix(np.ones((2, N_ITEMS))))
    backwards.indptr[1] = 2 * N_ITEMS + 1
    for argument, given_ in (
        ("filter_items", wide),
        ("items", many),
        ("user_items", outside),
        ("items", backwards),
        ("items", device.asarray(np.array([N_ITEMS]))),
        ("items", device.asarray(np.zeros((3, 2), int))),
        ("items", device.asarray(np.zeros((2, 2, 2), int))),
    ):
        more = {"user_items": ratings(), argument: given_}
        with refuses(ValueError, argument):
            model.recommend(users, **more)
    whole = model.recommend(users, ratings(), items=device.asarray(np.ones(2)))
    assert set(whole.ids.get().ravel().tolist()) <= {1, -1}  # the same ids in another spelling
    with refuses(ValueError, "items", remedy="use strings for ids"):
        model.recommend(users, ratings(), items=device.asarray(np.full(2, 0.5)))
    with refuses(TypeError, "user_items"):
        model.recommend(users, device.asarray(np.ones((2, N_ITEMS))))
    with refuses(ValueError, "userid"):
        model.recommend(device.asarray(np.array([-1, 3])), SparseOnGPU(ratings()))


def test_new_users_may_bring_rows_on_the_gpu(device: EmulatedGPU) -> None:
    """A row for each, with factors solved anew; rows are solved from the host."""
    model = mfrank.ALS(factors=4, iterations=1, random_state=0, backend="cuda").fit(ratings())
    rows, new = ratings()[:2], np.array([N_USERS + 5, N_USERS + 8])
    wanted = model.recommend(new, rows, recalculate_user=True)
    got = model.recommend(device.asarray(new), SparseOnGPU(rows), recalculate_user=True)
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(to_host(one, ""), other)


def test_labels_are_host_things(device: EmulatedGPU) -> None:
    """Numbers on the GPU that are labels, not rows, are looked up on the host."""
    users = np.array([10, 30, 20])
    data = mfrank.Interactions.from_arrays(users.repeat(3), np.tile([7, 5, 9], 3))
    model = mfrank.ALS(factors=2, iterations=1, random_state=0, backend="cuda").fit(data)
    asked, blocked = np.array([30, 10]), np.array([5, 7])
    how = {"N": 3, "filter_already_liked_items": False}
    wanted = model.recommend(asked, filter_items=blocked, **how)
    got = model.recommend(device.asarray(asked), filter_items=device.asarray(blocked), **how)
    np.testing.assert_array_equal(got[0], wanted[0])


def test_cupy_knows_every_function_that_was_called(device: EmulatedGPU) -> None:
    """At the end of this file: by then all of them were."""
    cupy = pytest.importorskip("cupy", reason="CuPy, which imports without a GPU")
    assert DeviceArray.asked["functions"].keys() > {"unique", "searchsorted", "zeros"}
    assert not emulated_gpu.unknown_to(cupy)
