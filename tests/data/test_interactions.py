"""Interactions: the rules of its docstring, against brute force over a dictionary of cells."""

from __future__ import annotations

import logging
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank.arrays import freeze
from mfrank.data import Ids, Interactions
from tests.support.errors import refuses

quick = settings(max_examples=40, deadline=None)
cell = st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(-2, 2), st.integers(0, 5))
triples = st.lists(cell, max_size=25).map(lambda rows: np.array(rows, dtype=int).reshape(-1, 4))
SHAPE = 5, 4
FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")


def given_cells(rows, duplicates, timestamps):
    """Value and latest timestamp of every observed cell, one row after the other."""
    seen = {}
    for user, item, value, time in rows.tolist():
        seen.setdefault((user, item), []).append((time if timestamps else 0, value))
    values = {
        "sum": lambda entries: sum(value for _, value in entries),
        "max": lambda entries: max(value for _, value in entries),
        # max returns the first of equals: the last entry among the latest when read backwards
        "last": lambda entries: max(reversed(entries), key=lambda entry: entry[0])[1],
    }[duplicates]
    merged = {c: (values(entries), max(entries)[0]) for c, entries in seen.items()}
    return {c: entry for c, entry in merged.items() if entry[0] != 0}


def stored_cells(made):
    times = np.zeros(made.nnz, int) if made.timestamps is None else made.timestamps
    entries = zip(
        made.entry_users.tolist(),
        made.user_items.indices.tolist(),
        made.user_items.data.tolist(),
        times.tolist(),
        strict=True,
    )
    return {(user, item): (value, time) for user, item, value, time in entries}


def is_canonical(matrix):
    own = sp.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
    own.check_format(full_check=True)
    return own.has_canonical_format and np.all(own.data != 0) and np.isfinite(own.data).all()


@quick
@given(triples, st.sampled_from(["sum", "max", "last"]), st.booleans())
def test_arrays_give_the_cells_of_brute_force(rows, duplicates, timestamps):
    times = rows[:, 3] if timestamps else None
    made = Interactions.from_arrays(*rows[:, :3].T, times, shape=SHAPE, duplicates=duplicates)
    assert stored_cells(made) == given_cells(rows, duplicates, timestamps)
    assert is_canonical(made.user_items)
    assert made.user_items.shape == (made.n_users, made.n_items) == SHAPE
    assert made.user_items.dtype == np.float32
    assert (made.timestamps is None) == (not timestamps)


def test_more_rows_than_numbers_for_them_are_refused_by_name():
    with refuses(ValueError, place="users"):
        Interactions.from_sparse(sp.coo_array((2**31, 2)))
    with refuses(ValueError, place="items"):
        Interactions.from_sparse(sp.coo_array((2, 2**31)))


@quick
@given(triples, st.sampled_from(FORMATS), st.sampled_from([np.float32, np.float64, np.int64]))
def test_every_sparse_format_gives_the_same_cells_and_stays_as_it_was(rows, form, dtype):
    users, items, values, _ = rows.T
    plain = sp.coo_array((values.astype(dtype), (users, items)), shape=SHAPE)
    for container in (plain.asformat(form), sp.coo_matrix(plain).asformat(form)):
        before = container.copy()
        made = Interactions.of(container)
        assert stored_cells(made) == given_cells(rows, "sum", False)
        assert is_canonical(made.user_items)
        assert made.user_items.dtype == (np.float64 if dtype == np.float64 else np.float32)
        assert container.dtype == dtype
        assert np.array_equal(container.toarray(), before.toarray())
        assert container.nnz == before.nnz


@quick
@given(triples)
def test_both_orientations_and_the_counts_agree(rows):
    made = Interactions.from_arrays(*rows[:, :3].T, shape=SHAPE)
    dense = made.user_items.toarray()
    assert np.array_equal(made.item_users.toarray(), dense.T)
    assert made.counts.users.tolist() == (dense != 0).sum(axis=1).tolist()
    assert made.counts.items.tolist() == (dense != 0).sum(axis=0).tolist()
    assert made.counts.users.dtype == made.counts.items.dtype == np.int64
    for view, matrix in ((made.user_rows, made.user_items), (made.item_rows, made.item_users)):
        assert np.array_equal(view(np.float64).data, matrix.data)
        assert view(None).data is None
        assert np.array_equal(view(None).indices, matrix.indices)
        assert view(np.float64) is view("float64")
        assert [view(dtype).data.dtype for dtype in (np.float32, np.float64)] == ["f4", "f8"]


@quick
@given(triples, st.data())
def test_take_keeps_the_chosen_entries_and_nothing_else(rows, data):
    made = Interactions.from_arrays(*rows.T, shape=SHAPE)
    mask = data.draw(st.lists(st.booleans(), min_size=made.nnz, max_size=made.nnz))
    part, rest = made.take(np.array(mask, bool)), made.take(~np.array(mask, bool))
    both = list(stored_cells(part).items()) + list(stored_cells(rest).items())
    assert dict(both) == stored_cells(made)
    assert len(both) == made.nnz
    assert part.user_items.shape == rest.user_items.shape == SHAPE
    chosen = [c for c, kept in zip(stored_cells(made), mask, strict=True) if kept]
    assert list(stored_cells(part)) == chosen


@quick
@given(triples, st.integers(0, 4), st.integers(0, 4))
def test_k_core_is_what_dropping_one_by_one_leaves(rows, user_k, item_k):
    user_ids, item_ids = Ids.of(list("vwxyz")), Ids.of([10, 20, 30, 40])
    made = Interactions.from_arrays(*rows.T, shape=SHAPE, user_ids=user_ids, item_ids=item_ids)
    users, items = set(range(SHAPE[0])), set(range(SHAPE[1]))
    left = stored_cells(made)
    while True:
        few = {u for u in users if sum(c[0] == u for c in left) < user_k}
        rare = {i for i in items if sum(c[1] == i for c in left) < item_k}
        if not few and not rare:
            break
        few, rare = (few, set()) if few else (few, rare)  # one side at a time: the same end
        users, items = users - few, items - rare
        left = {c: entry for c, entry in left.items() if c[0] in users and c[1] in items}
    core = made.k_core(9, user_k=user_k, item_k=item_k)
    assert core.user_ids == user_ids.take(np.array(sorted(users), int))
    assert core.item_ids == item_ids.take(np.array(sorted(items), int))
    assert is_canonical(core.user_items)
    raw = {
        (user_ids.rows([u])[0], item_ids.rows([i])[0]): entry
        for u, i, entry in (
            (core.user_ids.labels[u], core.item_ids.labels[i], entry)
            for (u, i), entry in stored_cells(core).items()
        )
    }
    assert raw == left


def test_an_empty_k_core_is_logged(caplog):
    made = Interactions.from_arrays([0, 1], [0, 1])
    with caplog.at_level(logging.WARNING, "mfrank"):
        core = made.k_core(2)
    assert (core.n_users, core.n_items, core.nnz) == (0, 0, 0)
    (said,) = (record.getMessage() for record in caplog.records)
    assert said == (
        "k_core keeps none of 2 entries of 2 users and 2 items: each user would need 2 and "
        "each item 2, and they have up to 1 and 1; lower k, user_k= or item_k="
    )
    assert repr(core) == "Interactions(0 users x 0 items, 0 entries)"


def test_a_threshold_above_all_values_is_logged(caplog):
    made = Interactions.from_arrays([0, 1], [0, 1], [0.5, 3])
    with caplog.at_level(logging.WARNING, "mfrank"):
        assert made.at_least(5, binary=True).nnz == 0
        assert made.at_least(5).at_least(6).k_core(1).nnz == 0  # nothing more is lost by these
        assert made.at_least(3).nnz == 1
    said = [record.getMessage() for record in caplog.records]
    assert said == 2 * [
        "at_least(5) keeps none of the 2 entries, whose values go from 0.5 to 3; "
        "lower the threshold"
    ]


@pytest.mark.parametrize("bounds", [{"k": -1}, {"k": 1.5}, {"k": 1, "item_k": "2"}, {"k": True}])
def test_k_must_count(bounds):
    with refuses(ValueError, [*bounds][-1]):
        Interactions.from_arrays([0], [0]).k_core(**bounds)


@quick
@given(triples, st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0]), st.booleans())
def test_at_least_keeps_what_reaches_the_threshold(rows, threshold, binary):
    made = Interactions.from_arrays(*rows.T, shape=SHAPE)
    before = stored_cells(made)
    kept = made.at_least(threshold, binary=binary)
    expected = {
        c: (1.0 if binary else value, time)
        for c, (value, time) in before.items()
        if value >= threshold
    }
    assert stored_cells(kept) == expected
    assert stored_cells(made) == before


@pytest.mark.parametrize("threshold", ["4", None, np.nan, [1, 2], 10**400, np.timedelta64(1, "s")])
def test_a_threshold_is_a_number(threshold):
    with refuses(ValueError, "threshold"):
        Interactions.from_arrays([0], [0]).at_least(threshold)


def test_at_least_rounds_the_threshold_as_the_values():
    made = Interactions.from_arrays([0], [0], [0.7])
    assert made.at_least(np.float64(0.7)).nnz == 1
    with refuses(ValueError, "threshold"):
        made.at_least(float("nan"))


def test_raw_ids_are_numbered_and_found_again():
    first = Interactions.from_arrays(["b", "a", "b"], [30, 10, 20])
    assert first.user_ids == Ids.of(["a", "b"])
    assert first.item_ids == Ids.of([10, 20, 30])
    maps = {"user_ids": first.user_ids, "item_ids": first.item_ids}
    second = Interactions.from_arrays(["b"], [10], **maps)
    assert second.user_items.toarray().tolist() == [[0, 0, 0], [1, 0, 0]]
    with refuses(ValueError, "items"):
        Interactions.from_arrays(["b"], [99], **maps)
    with refuses(ValueError, "users"):
        Interactions.from_arrays(["b", None], [10, 10])


def test_ids_must_be_as_many_as_rows():
    with refuses(ValueError, "user_ids"):
        Interactions.from_sparse(sp.csr_array(SHAPE), user_ids=["a"])
    with refuses(ValueError, "item_ids"):
        Interactions.from_arrays([0], [0], [np.inf], shape=SHAPE, item_ids=["a"])
    with refuses(ValueError, "user_items"):
        Interactions(sp.csr_array(SHAPE), Ids.numbered(1), Ids.numbered(4))


@pytest.mark.parametrize("name", ["user_ids", "item_ids", "user_items"])
def test_the_constructor_takes_what_the_others_make(name):
    parts = {
        "user_items": sp.csr_array(SHAPE),
        "user_ids": Ids.numbered(SHAPE[0]),
        "item_ids": Ids.numbered(SHAPE[1]),
    }
    Interactions(**parts)
    for other in (None, 5, np.zeros(SHAPE)):
        with refuses(TypeError, name):
            Interactions(**parts | {name: other})


def test_a_pair_given_often_counts_often():
    made = Interactions.from_arrays([1, 1, 1], [1, 1, 1], shape=(2, 2))
    assert made.user_items.toarray().tolist() == [[0, 0], [0, 3]]


def test_sums_do_not_lose_small_values():
    made = Interactions.from_arrays([0] * 3, [0] * 3, [2.0**24, 1, 1])
    assert made.user_items.data.tolist() == [2.0**24 + 2]


def test_zeros_and_merged_entries_are_counted_in_the_log(caplog):
    with caplog.at_level(logging.INFO, "mfrank"):
        made = Interactions.from_arrays([0, 0, 1, 2], [0, 0, 1, 1], [1, -1, 0, -4.0])
        assert "1 repeated entry merged (sum)" in caplog.text
        assert "2 of 3 entries with the value 0" in caplog.text
    assert stored_cells(made) == {(2, 1): (-4.0, 0)}
    assert made.n_users == 3


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("duplicates", ["sum", "max", "last"])
def test_values_that_are_not_finite_are_refused_by_name(value, duplicates):
    users, items, values = ["a", "b", "b"], [5, 6, 6], [1, value, 2]
    with refuses(ValueError, "values", remedy="drop or replace it"):
        Interactions.from_arrays(users, items, values, duplicates=duplicates)
    for form in ("csr", "coo"):
        matrix = sp.coo_array(([1.0, value], ([0, 1], [0, 3])), shape=SHAPE).asformat(form)
        with refuses(ValueError, "values", remedy="drop or replace it"):
            Interactions.of(matrix)


@pytest.mark.parametrize("values", [[1e39, 1.0], [3e38, 3e38]])
def test_values_beyond_float32_are_refused(values):
    with refuses(ValueError, "values", remedy="drop or replace it"):
        Interactions.from_arrays(["a", "a"], [1, 1], values)
    big = sp.csr_array(np.array([[1e39]]))
    assert Interactions.of(big).user_items.data.tolist() == [1e39]


PARTS = ("data", "indices", "indptr")


@pytest.mark.parametrize("parts", [*((part,) for part in PARTS), PARTS])
def test_arrays_are_shared_where_nobody_can_write_to_them(parts):
    matrix = sp.random_array(SHAPE, density=0.5, format="csr", dtype=np.float32, random_state=1)
    for part in parts:
        freeze(getattr(matrix, part))
    made = Interactions.of(matrix)
    for part in PARTS:
        shared = np.shares_memory(getattr(matrix, part), getattr(made.user_items, part))
        assert shared == (part in parts)
    assert Interactions.of(made) is made


def test_a_read_only_view_of_an_array_that_can_be_written_to_is_not_shared():
    matrix = sp.random_array(SHAPE, density=0.5, format="csr", dtype=np.float32, random_state=1)
    written, matrix.data = matrix.data, matrix.data.view()
    matrix.data.flags.writeable = False
    made = Interactions.of(matrix)
    before = made.user_items.data.copy()
    written[:] = 0
    assert np.array_equal(made.user_items.data, before)


def test_nobody_can_write_to_interactions():
    data = Interactions.from_arrays([0, 1, 1], [2, 0, 1], [3.0, 4, 5], [7, 8, 9], shape=(2, 3))
    of = [data.user_items, data.item_users, data.at_least(4, binary=True).user_items]
    arrays = [getattr(matrix, part) for matrix in of for part in PARTS]
    for array in (*arrays, data.timestamps, data.counts.users, data.counts.items):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    own = data.to_scipy()
    own.data[...] = 0
    own.eliminate_zeros()
    assert isinstance(own, sp.csr_matrix)
    assert data.user_items.sum() == 12


def test_flags_of_a_matrix_are_not_believed():
    matrix = sp.csr_array((np.ones(3, np.float32), [1, 0, 0], [0, 3]), shape=(1, 2))
    matrix.has_canonical_format = True
    made = Interactions.of(matrix)
    assert made.user_items.toarray().tolist() == [[2, 1]]
    assert is_canonical(made.user_items)
    assert matrix.indices.tolist() == [1, 0, 0]


def test_64_bit_indices_are_accepted():
    matrix = sp.csr_array(np.eye(3, dtype=np.float32))
    matrix.indices, matrix.indptr = matrix.indices.astype("i8"), matrix.indptr.astype("i8")
    made = Interactions.of(matrix)
    assert made.user_rows().indices.dtype == np.int32
    assert made.user_rows().indptr.dtype == np.int64
    assert matrix.indices.dtype == np.int64


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize(("part", "bad"), [("indices", 9), ("indices", -1), ("indptr", 7)])
def test_damaged_matrices_are_refused(form, part, bad):
    matrix = sp.csr_array(np.eye(3, dtype=np.float32)).asformat(form)
    getattr(matrix, part)[1] = bad
    with pytest.raises(ValueError):  # noqa: PT011 (scipy's own messages)
        Interactions.of(matrix)


def test_damaged_coordinates_are_refused():
    matrix = sp.coo_array(np.eye(3, dtype=np.float32))
    matrix.coords[1][0] = 3
    with pytest.raises(ValueError, match=r"column lies outside 0\.\.2"):
        Interactions.of(matrix)


@pytest.mark.parametrize("shape", [(2**31, 1), (1, 2**31)])
def test_more_rows_than_32_bits_number_are_refused(shape):
    side = "users" if shape[0] > 1 else "items"
    with refuses(ValueError, place=side):
        Interactions.from_arrays([0], [0], shape=shape)
    with refuses(ValueError, place=side):
        Interactions.of(sp.coo_array(shape, dtype=np.float32))


def test_booleans_count_one_and_complex_numbers_nothing():
    assert Interactions.of(sp.csr_array(np.array([[True, False]]))).user_items.data.tolist() == [1]
    with refuses(TypeError, "values"):
        Interactions.of(sp.csr_array(np.array([[1j]])))
    with refuses(TypeError, "values"):
        Interactions.from_arrays([0], [0], [1j])


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"values": [1.0, 2.0]}, {"argument": "values"}),
        ({"timestamps": [1]}, {"argument": "timestamps"}),
        ({"items": [0, 1]}, {"argument": "items"}),
        ({"items": [0, 1], "shape": (9, 9)}, {"argument": "items"}),
        ({"items": np.broadcast_to(np.int64(1), 10**15)}, {"argument": "items"}),  # not read
        ({"shape": (2, 9)}, {"argument": "users"}),
        ({"items": [0, -1, 0], "shape": (9, 9)}, {"argument": "items"}),
        ({"duplicates": "first"}, {"argument": "duplicates"}),
        ({"values": ["1", "x", "2"]}, {"argument": "values", "place": "row 1"}),
        ({"values": 1.0}, {"argument": "values"}),
        ({"values": [1, 10**400, 2]}, {"argument": "values", "place": "row 1"}),
        ({"timestamps": -np.inf}, {"argument": "timestamps"}),
        ({"timestamps": [1.0, np.nan, 2]}, {"argument": "timestamps", "place": "row 1"}),
    ],
)
def test_bad_arguments_are_refused(arguments, fault):
    with refuses(ValueError, **fault):
        Interactions.from_arrays(**({"users": [0, 1, 2], "items": [0, 1, 2]} | arguments))


@pytest.mark.parametrize("shape", [5, 0.5, "ab", (2,), (2, 2, 2), (2, 1.5), b"\xff"])
def test_a_shape_is_two_counts(shape):
    with refuses(TypeError, "shape"):
        Interactions.from_arrays([0], [0], shape=shape)


def test_raw_ids_are_no_row_numbers():
    with refuses(TypeError, "shape", remedy="leave shape out"):
        Interactions.from_arrays(["a"], [0], shape=(1, 1))


@pytest.mark.parametrize("data", [np.eye(2), [[1, 0]], "file.csv", None])
def test_what_is_no_data_is_refused(data):
    is_dense = isinstance(data, np.ndarray)
    with refuses(TypeError, remedy="convert a dense array" if is_dense else "make them with"):
        Interactions.of(data)
    with refuses(TypeError, remedy=r"pass scipy\.sparse\.csr_array\(matrix\)"):
        Interactions.from_sparse(data)


@pytest.mark.parametrize("mask", [[True], [0, 1], [True, False, True]])
def test_a_mask_covers_every_entry(mask):
    with refuses(ValueError, "mask"):
        Interactions.from_arrays([0, 1], [0, 1]).take(mask)


def test_timestamps_are_as_many_as_entries():
    made = Interactions.from_arrays([0], [0])
    with refuses(ValueError, "timestamps"):
        Interactions(made.user_items, made.user_ids, made.item_ids, np.arange(2))


def test_repr_is_short():
    made = Interactions.from_arrays(range(2000), [0] * 2000, timestamps=range(2000))
    assert repr(made) == (
        "Interactions(2,000 users x 1 item, 2,000 entries, density 100.000%, timestamps)"
    )


@quick
@given(triples)
def test_pandas_gives_back_what_it_was_given(rows):
    pytest.importorskip("pandas", reason="the extra pandas is not installed")
    user_ids, item_ids = Ids.of(list("vwxyz")), Ids.of([10, 20, 30, 40])
    maps = {"user_ids": user_ids, "item_ids": item_ids}
    made = Interactions.from_arrays(*rows.T, shape=SHAPE, **maps)
    frame = made.to_pandas()
    assert stored_cells(Interactions.from_pandas(frame, **maps)) == stored_cells(made)
    renamed = frame.rename(columns={"user": "who", "item": "what", "value": "n"})
    names = {"user": "who", "item": "what", "value": "n"}
    assert stored_cells(Interactions.from_pandas(renamed, **names, **maps)) == stored_cells(made)
    assert Interactions.of(frame).nnz == made.nnz


def test_without_pandas_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match=r"to_pandas needs pandas.*mfrank\[pandas\]"):
        Interactions.from_arrays([0], [0]).to_pandas()


def test_a_real_data_set_has_its_published_size(data_dir):
    columns = np.load(data_dir / "ml-100k" / "interactions.npz")
    made = Interactions.from_arrays(
        columns["user"], columns["item"], columns["rating"], columns["timestamp"]
    )
    assert (made.n_users, made.n_items, made.nnz) == (943, 1682, 100_000)
    assert int(made.user_items.sum(dtype=np.float64)) == int(columns["rating"].sum())
    core = made.k_core(10)
    assert min(core.counts.users.min(), core.counts.items.min()) >= 10
