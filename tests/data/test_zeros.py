"""A value of 0 is a contact and no like: seen, not learned from, counted and told once."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.data import from_triples, ingest
from mfrank.files import journal
from tests.support.reading import DOORS as TEXT

N_USERS, N_ITEMS = 9, 7

Cells = dict[tuple[str, str], float]


def drawn(seed: int, most: int = 5) -> Cells:
    """Half of all cells, some of value 0; every user and every item has one."""
    rng = np.random.default_rng(seed)
    there = rng.random((N_USERS, N_ITEMS)) < 0.5
    there[np.arange(N_USERS), np.arange(N_USERS) % N_ITEMS] = True
    cells = {
        (f"u{user}", f"i{item}"): float(rng.integers(0, most + 1))
        for user, item in np.argwhere(there)
    }
    return cells | {("u0", "i0"): 0.0, ("u1", "i1"): float(most), ("u2", "i2"): 1.0}


def table(cells: Cells) -> dict[str, list[Any]]:
    users, items = zip(*cells, strict=True)
    return {"user": list(users), "item": list(items), "rating": list(cells.values())}


def frame(library: str) -> Callable[[Cells, Path], mfrank.Interactions]:
    def read(cells: Cells, _: Path) -> mfrank.Interactions:
        made = pytest.importorskip(library)
        build = made.table if library == "pyarrow" else made.DataFrame
        return mfrank.Interactions.of(build(table(cells)))

    return read


def matrix(form: str) -> Callable[[Cells, Path], mfrank.Interactions]:
    def read(cells: Cells, _: Path) -> mfrank.Interactions:
        names = [sorted({cell[side] for cell in cells}) for side in (0, 1)]
        places = [[own.index(c[side]) for c in cells] for side, own in enumerate(names)]
        values = np.array(list(cells.values()))
        stored = sp.coo_array((values, places), (len(names[0]), len(names[1]))).asformat(form)
        return mfrank.Interactions.from_sparse(stored, user_ids=names[0], item_ids=names[1])

    return read


def text(cells: Cells, folder: Path) -> Path:
    path = folder / "r.csv"
    rows = (f"{user},{item},{value:g}\n" for (user, item), value in cells.items())
    path.write_text("user,item,rating\n" + "".join(rows))
    return path


def parquet(cells: Cells, folder: Path) -> Path:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pandas.DataFrame(table(cells)).to_parquet(folder / "r.parquet")
    return folder / "r.parquet"


def arrays(cells: Cells, _: Path) -> mfrank.Interactions:
    columns = table(cells)
    return mfrank.Interactions.from_arrays(columns["user"], columns["item"], columns["rating"])


def pickled(cells: Cells, folder: Path) -> mfrank.Interactions:
    again: mfrank.Interactions = pickle.loads(pickle.dumps(arrays(cells, folder)))
    return again


DOORS: Mapping[str, Callable[[Cells, Path], mfrank.Interactions]] = {
    "arrays": arrays,
    **{name: frame(name) for name in ("pandas", "polars", "pyarrow")},
    **{form: matrix(form) for form in ("csr", "csc", "coo", "dok", "lil")},
    **{
        f"text, {name}": lambda cells, folder, read=read: read(text(cells, folder))
        for name, read in TEXT.items()
    },
    "parquet": lambda cells, folder: mfrank.Interactions.from_file(parquet(cells, folder)),
    "ingested text": lambda cells, folder: mfrank.Interactions.ingest(
        [text(cells, folder)], folder / "d"
    ),
    "ingested parquet": lambda cells, folder: mfrank.Interactions.ingest(
        [parquet(cells, folder)], folder / "d"
    ),
    "folder": lambda cells, folder: mfrank.Interactions.open(
        arrays(cells, folder).to_folder(folder / "f")
    ),
    "pickled": pickled,
}


def cells_of(data: mfrank.Interactions | None) -> Cells:
    if data is None:
        return {}
    users = data.user_ids.raw(data.entry_users).tolist()
    items = data.item_ids.raw(data.user_items.indices).tolist()
    return dict(zip(zip(users, items, strict=True), data.user_items.data.tolist(), strict=True))


@pytest.mark.parametrize("most", [1, 5])
@pytest.mark.parametrize("door", DOORS)
def test_zeros_are_seen_and_told_once_by_every_door(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, door: str, most: int
) -> None:
    cells = drawn(most, most)
    with caplog.at_level(logging.INFO, "mfrank"):
        data = DOORS[door](cells, tmp_path)
    zeros = {cell for cell, value in cells.items() if value == 0}
    assert cells_of(data) == {cell: value for cell, value in cells.items() if value}
    assert cells_of(data.seen_only).keys() == zeros
    assert data.threshold is None
    (told,) = [each for each in caplog.records if "value 0" in each.getMessage()]
    assert told.levelno == (logging.INFO if most == 1 else logging.WARNING)
    message = told.getMessage()
    assert message.startswith(f"{len(zeros)} of {len(cells)} entries")
    assert "seen_only=None" in message


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), threshold=st.sampled_from([0, 0.5, 1, 3, 6]))
def test_a_zero_is_seen_once_whatever_is_dropped_besides(seed: int, threshold: float) -> None:
    cells = drawn(seed)
    data = arrays(cells, Path()).at_least(threshold)
    kept = {cell for cell, value in cells.items() if value >= threshold and value}
    assert cells_of(data).keys() == kept
    assert cells_of(data.seen_only).keys() == cells.keys() - kept
    assert data.nnz + data.seen_only.nnz == len(cells)
    assert arrays(cells, Path()).at_least(threshold, keep_seen=False).seen_only is None


@pytest.mark.parametrize("how", ["arrays", "matrix", "ingest"])
@pytest.mark.parametrize(
    ("duplicates", "values", "value"),
    [
        ("last", [4, 0], None),
        ("last", [0, 4], 4),
        ("max", [0, -2], None),
        ("max", [4, 0], 4),
        ("sum", [0, 0], None),
        ("sum", [4, 0], 4),
        ("sum", [1, -1], None),
    ],
)
def test_what_is_0_in_the_end_is_only_seen(
    tmp_path: Path, how: str, duplicates: Any, values: list[float], value: float | None
) -> None:
    columns = ["a", "a", "b"], ["x", "x", "x"], [*values, 1.0]
    if how == "arrays":
        data = mfrank.Interactions.from_arrays(*columns, duplicates=duplicates)
    elif how == "matrix":
        pairs = [0, 0, 1], [0, 0, 0]
        data = mfrank.Interactions.from_sparse(
            sp.coo_array((columns[2], pairs), (2, 1)),
            duplicates=duplicates,
            user_ids=["a", "b"],
            item_ids=["x"],
        )
    else:
        rows = zip(*columns, strict=True)
        (tmp_path / "r.csv").write_text(
            "user,item,rating\n" + "".join(f"{u},{i},{v:g}\n" for u, i, v in rows)
        )
        data = mfrank.Interactions.ingest(
            [tmp_path / "r.csv"], tmp_path / "d", duplicates=duplicates
        )
    assert cells_of(data).get(("a", "x")) == value
    assert (("a", "x") in cells_of(data.seen_only)) == (value is None)


def test_a_rating_that_was_taken_back_has_its_time() -> None:
    data = mfrank.Interactions.from_arrays(
        ["a", "a", "b"], ["x", "x", "x"], [5, 0, 3], [10, 20, 30], duplicates="last"
    )
    assert cells_of(data.seen_only) == {("a", "x"): 1}
    assert data.seen_only.timestamps.tolist() == [20]


def test_a_matrix_whose_low_values_are_set_to_0() -> None:
    """``matrix.data[matrix.data < 4] = 0`` leaves these cells stored, and so they stay seen."""
    raw = arrays(drawn(3), Path())
    matrix = raw.to_scipy()
    matrix.data[matrix.data < 4] = 0
    ids = {"user_ids": raw.user_ids, "item_ids": raw.item_ids}
    data = mfrank.Interactions.from_sparse(matrix, **ids)
    expected = mfrank.Interactions.from_sparse(raw.to_scipy(), **ids).at_least(4)
    assert cells_of(data) == cells_of(expected)
    assert cells_of(data.seen_only) == cells_of(expected.seen_only)


@pytest.mark.parametrize("stored", [np.array([True, False, True]), np.array([1, 0, 1], np.int8)])
def test_a_false_that_is_stored_is_seen(stored: Any) -> None:
    data = mfrank.Interactions.of(sp.csr_array((stored, ([0, 0, 1], [0, 1, 1])), (2, 2)))
    assert cells_of(data) == {(0, 0): 1, (1, 1): 1}
    assert cells_of(data.seen_only) == {(0, 1): 1}


@pytest.mark.parametrize("make", [sp.csr_array, sp.dia_array, lambda dense: sp.bsr_array(dense)])
def test_zeros_of_a_dense_array_and_padding_are_no_cells(make: Callable[[Any], Any]) -> None:
    dense = np.kron(np.diag([1.0, 0.0]), np.array([[2.0, 0.0], [3.0, 4.0]])) + np.diag(
        [0] * 3 + [5]
    )
    data = mfrank.Interactions.of(make(dense))
    assert data.user_items.toarray().tolist() == dense.tolist()
    assert data.seen_only is None


def test_blocks_of_a_bsr_are_padded() -> None:
    padded = sp.bsr_array((np.array([[[1.0, 0.0], [0.0, 2.0]]]), [0], [0, 1]), (2, 2))
    assert mfrank.Interactions.of(padded).seen_only is None
    single = sp.bsr_array((np.array([[[1.0]], [[0.0]]]), [0, 1], [0, 2, 2]), (2, 2))
    assert mfrank.Interactions.of(single).seen_only.nnz == 1


def test_where_there_are_no_zeros_nothing_is_kept_or_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cells = {cell: value + 1 for cell, value in drawn(0).items()}
    with caplog.at_level(logging.INFO, "mfrank"):
        data = arrays(cells, Path())
    assert data.seen_only is None
    assert data.seen is data.user_items
    assert not caplog.messages


def test_an_ingest_that_is_resumed_counts_all_zeros(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ingest, "_ENTRIES_AT_ONCE", 8)
    for pause in ("_SECONDS", "_SHARE"):
        monkeypatch.setattr(journal, pause, 0)
    cells, original, calls = drawn(1), from_triples, list[int]()
    file, zeros = text(cells, tmp_path), sum(value == 0 for value in cells.values())

    def merged(*args: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return original(*args, **more)

    monkeypatch.setattr(ingest.cells, "from_triples", merged)
    with pytest.raises(KeyboardInterrupt):
        mfrank.Interactions.ingest([file], tmp_path / "d")
    with caplog.at_level(logging.INFO, "mfrank"):
        data = mfrank.Interactions.ingest([file], tmp_path / "d")
    n_blocks = len(calls) - 1
    assert 4 <= n_blocks <= 6  # the first ones only once
    assert data.seen_only.nnz == zeros
    told = [message for message in caplog.messages if "value 0" in message]
    assert [message.split(" with")[0] for message in told] == [f"{zeros} of {len(cells)} entries"]


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("how", ["by_ratio", "leave_k_out"])
def test_splits_keep_zeros(tmp_path: Path, how: str, on_disk: bool) -> None:
    data = arrays(drawn(2), tmp_path)
    split = (
        mfrank.by_ratio(data, random_state=0, folder=tmp_path / "s" if on_disk else None)
        if how == "by_ratio"
        else mfrank.leave_k_out(data, 1, random_state=0, folder=tmp_path / "s" if on_disk else None)
    )
    assert cells_of(split.train.seen_only) == cells_of(data.seen_only)
