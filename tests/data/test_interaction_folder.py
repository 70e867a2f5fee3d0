"""Interactions on disk are those in memory: the same cells, ids, fits and lists."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from children import PATHS
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import matrices

import mfrank
from mfrank.store import is_mapped
from tests.support.errors import refuses


def named(timestamps: bool = True) -> mfrank.Interactions:
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 30, 400), rng.integers(0, 20, 400)
    return mfrank.Interactions.from_arrays(
        [f"user {u}" for u in users],
        items + 5,
        rng.integers(1, 5, 400),
        rng.integers(0, 10**9, 400) if timestamps else None,
    )


def same(a: mfrank.Interactions, b: mfrank.Interactions) -> None:
    for left, right in ((a.user_items, b.user_items), (a.item_users, b.item_users)):
        assert left.shape == right.shape
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left.indptr, right.indptr)
        np.testing.assert_array_equal(left.indices, right.indices)
        np.testing.assert_array_equal(left.data, right.data)
    assert a.user_ids == b.user_ids
    assert a.item_ids == b.item_ids
    for side in ("users", "items"):
        np.testing.assert_array_equal(getattr(a.counts, side), getattr(b.counts, side))
    assert (a.timestamps is None) == (b.timestamps is None)
    if a.timestamps is not None:
        np.testing.assert_array_equal(a.timestamps, b.timestamps)


@pytest.mark.parametrize("timestamps", [True, False])
@pytest.mark.parametrize("verify", [True, False])
def test_what_was_saved_is_opened(tmp_path: Path, timestamps: bool, verify: bool) -> None:
    data = named(timestamps)
    assert data.to_folder(tmp_path / "data") == tmp_path / "data"
    same(mfrank.Interactions.open(tmp_path / "data", verify=verify), data)


@settings(max_examples=25, deadline=None)
@given(matrices(), st.sampled_from(["float32", "float64"]))
def test_every_shape(tmp_path_factory: Any, matrix: sp.csr_array, dtype: str) -> None:
    data = mfrank.Interactions.from_sparse(matrix.astype(dtype))
    folder = data.to_folder(tmp_path_factory.mktemp("data"))
    same(mfrank.Interactions.open(folder), data)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0), (2, 3)])
def test_no_entries_are_stored_too(tmp_path: Path, shape: tuple[int, int]) -> None:
    data = mfrank.Interactions.from_sparse(sp.csr_array(shape, dtype=np.float32))
    same(mfrank.Interactions.open(data.to_folder(tmp_path)), data)


def test_nothing_is_read_into_memory(tmp_path: Path) -> None:
    opened = mfrank.Interactions.open(named().to_folder(tmp_path))
    for matrix in (opened.user_items, opened.item_users):
        assert is_mapped(matrix.indices)
        assert is_mapped(matrix.data)
    assert is_mapped(opened.timestamps)
    for rows in (opened.user_rows(), opened.item_rows(), opened.user_rows(None)):
        assert is_mapped(rows.indices)


@pytest.mark.parametrize("objective", [mfrank.WRMF(alpha=2.0), mfrank.IALS(), mfrank.RGX()])
def test_fits_and_lists_have_the_same_bits(tmp_path: Path, objective: Any) -> None:
    data = named()
    opened = mfrank.Interactions.open(data.to_folder(tmp_path))
    here, there = (
        mfrank.ALS(objective, factors=6, iterations=3, random_state=0).fit(each)
        for each in (data, opened)
    )
    assert here.user_factors.tobytes() == there.user_factors.tobytes()
    assert here.item_factors.tobytes() == there.item_factors.tobytes()
    for one, other in zip(
        here.recommend(["user 1", "user 7"]), there.recommend(["user 1", "user 7"]), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_a_second_save_replaces_the_first(tmp_path: Path) -> None:
    named().to_folder(tmp_path)
    first = mfrank.Interactions.open(tmp_path)
    other = named(timestamps=False)
    other.to_folder(tmp_path)
    same(mfrank.Interactions.open(tmp_path), other)
    assert first.nnz == first.user_items.indices.size  # its maps stay


def rewritten(folder: Path, name: str, change: Any) -> None:
    """Change an array of a saved folder, and its entry of the manifest but for the checksum."""
    manifest = json.loads((folder / "manifest.json").read_text())
    path = folder / manifest["data"] / f"{name}.npy"
    array = change(np.load(path))
    np.save(path, array)
    entry = manifest["arrays"][name]
    entry["shape"], entry["dtype"] = list(array.shape), array.dtype.str
    (folder / "manifest.json").write_text(json.dumps(manifest))


def with_number(at: int, value: float) -> Any:
    def change(array: np.ndarray) -> np.ndarray:
        array[at] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("user_items.indices", with_number(3, 10**6), "must lie in 0..19"),
        ("item_users.indices", with_number(0, -1), "must lie in 0..29"),
        ("user_items.indptr", with_number(2, 10**9), "must not fall"),
        ("user_items.indptr", lambda a: a + 2**32 * (np.arange(len(a)) == 2), "must not fall"),
        ("user_items.values", with_number(5, np.nan), "not finite"),
        ("item_users.values", lambda a: a.astype(np.int32), "floating-point"),
        ("user_items.indices", lambda a: a[::-1].copy(), "strictly ascending"),
        ("user_items.indptr", lambda a: a[:0], "int64"),
        ("item_users.indptr", lambda a: a.astype(np.int32), "int64"),
        ("timestamps", lambda a: a[1:], "one for each entry"),
        ("user_ids.offsets", lambda a: a[1:], "ids stored for 30 rows"),
    ],
)
def test_damage_is_told(tmp_path: Path, name: str, change: Any, message: str) -> None:
    named().to_folder(tmp_path)
    rewritten(tmp_path, name, change)
    with pytest.raises(ValueError, match=f"is damaged: .*{message}"):
        mfrank.Interactions.open(tmp_path)


def test_earlier_versions_of_mfrank_read_folders_of_which_they_know_all(tmp_path: Path) -> None:
    def version(data: mfrank.Interactions) -> int:
        manifest = data.to_folder(tmp_path, overwrite=True) / "manifest.json"
        return int(json.loads(manifest.read_text())["version"])

    plain = mfrank.Interactions.from_arrays([1, 2, 2], [1, 1, 2], [1.0, 2.0, 3.0])
    assert version(plain) == 1
    assert version(plain.at_least(2)) == 2  # has a cell that is only seen
    assert version(mfrank.Interactions.from_arrays([1, 1], [1, 1], [1.0, 2.0])) == 2  # a sum


def test_checksums_are_compared_where_asked_for(tmp_path: Path) -> None:
    named().to_folder(tmp_path)
    rewritten(tmp_path, "user_items.values", with_number(0, 99))
    assert mfrank.Interactions.open(tmp_path).user_items.data[0] == 99
    with refuses(ValueError, place="user_items.values.npy", remedy="restore it"):
        mfrank.Interactions.open(tmp_path, verify=True)


def test_a_model_is_no_data_set(tmp_path: Path) -> None:
    mfrank.ALS(factors=2, iterations=1).fit(named()).save(tmp_path / "model")
    with refuses(ValueError, place="manifest.json", remedy=r"mfrank\.load reads"):
        mfrank.Interactions.open(tmp_path / "model")
    with refuses(ValueError, place="manifest.json", remedy=r"mfrank\.load reads"):
        named().to_folder(tmp_path / "model")
    with pytest.raises(FileNotFoundError):
        mfrank.Interactions.open(tmp_path / "nothing")


LARGE = """
import resource, sys
import numpy as np, mfrank
data = mfrank.Interactions.open(sys.argv[1])
import mfrank.models.als
def resident():
    fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(fields["RssAnon"].split()[0]) << 10
before = resident()
most = 0
def watch(*_):
    global most
    most = max(most, resident())
mfrank.ALS(mfrank.IALS(), factors=4, iterations=2, n_threads=1).fit(data, callback=watch)
print(most - before, data.nnz)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_fit_takes_no_memory_for_the_entries(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n_users, each = 20_000, 100
    columns = 30 * np.arange(each) + rng.integers(0, 30, (n_users, each))
    ones = np.ones(n_users * each, np.float32)
    matrix = sp.csr_array((ones, columns.ravel(), np.arange(n_users + 1) * each))
    mfrank.Interactions.from_sparse(matrix).to_folder(tmp_path)
    ran = subprocess.run(
        [sys.executable, "-c", LARGE, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(PATHS)},
        capture_output=True,
        text=True,
        check=True,
    )
    grown, nnz = map(int, ran.stdout.split())
    assert nnz == n_users * each
    assert grown < 8 * nnz, "less than one matrix of columns and values"
