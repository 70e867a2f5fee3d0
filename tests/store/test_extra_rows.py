"""Sparse rows among a store's extras: they come back as they were, and damaged ones are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.store import contents as extra_rows
from tests.support.errors import refuses

ROWS = sp.csr_array(np.array([[0, 2.5, 0, 1], [0, 0, 0, 0], [3, 0, -1, 0]]))
DAMAGE: dict[str, dict[str, NDArray[Any]]] = {
    "values of another type": {"walk": ROWS.data.astype(np.float32)},
    "columns of another type": {"walk_indices": ROWS.indices.astype(np.int64)},
    "a value too few": {"walk": ROWS.data[:-1]},
    "a column too few": {"walk_indices": ROWS.indices[:-1]},
    "a row too few": {"walk_indptr": ROWS.indptr[:-1]},
    "rows that fall": {"walk_indptr": np.array([0, 4, 2, 4])},
    "rows beyond the last entry": {"walk_indptr": np.array([0, 2, 2, 5])},
    "a column beyond the last": {"walk_indices": np.array([1, 4, 0, 2], np.int32)},
    "a negative column": {"walk_indices": np.array([1, 3, -1, 2], np.int32)},
    "a value that is none": {"walk": np.array([1, np.nan, 1, 1])},
}
ONLY_READ_LATER = {"a column beyond the last", "a negative column", "a value that is none"}


def mapped(arrays: dict[str, NDArray[Any]], folder: Path) -> dict[str, NDArray[Any]]:
    for name, array in arrays.items():
        np.save(folder / name, array)
    return {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in arrays}


@pytest.mark.parametrize("maps", [False, True])
def test_rows_come_back_as_they_were(maps: bool, tmp_path: Path) -> None:
    arrays = extra_rows.pack("walk", ROWS)
    assert extra_rows.has_rows(arrays)
    got = extra_rows.unpack(mapped(arrays, tmp_path) if maps else arrays, "walk", ROWS.shape)
    np.testing.assert_array_equal(got.toarray(), ROWS.toarray())
    picked = extra_rows.pick(got, np.array([2, 0]), "walk")
    np.testing.assert_array_equal(picked.toarray(), ROWS.toarray()[[2, 0]])


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_rows_are_refused(damage: str) -> None:
    arrays = {**extra_rows.pack("walk", ROWS), **DAMAGE[damage]}
    with refuses(ValueError, "walk"):
        extra_rows.unpack(arrays, "walk", ROWS.shape)


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_rows_of_a_map_are_refused_before_scipy_reads_them(
    damage: str, tmp_path: Path
) -> None:
    arrays = mapped({**extra_rows.pack("walk", ROWS), **DAMAGE[damage]}, tmp_path)
    if damage not in ONLY_READ_LATER:
        with refuses(ValueError, "walk"):
            extra_rows.unpack(arrays, "walk", ROWS.shape)
        return
    rows = extra_rows.unpack(arrays, "walk", ROWS.shape)
    if "column" in damage:
        with refuses(ValueError, "walk"):
            extra_rows.pick(rows, np.arange(3), "walk")


@pytest.mark.parametrize("maps", [False, True])
@pytest.mark.parametrize("n_models", [1, 2])
def test_weights_between_items_come_back_or_are_refused(
    n_models: int, maps: bool, tmp_path: Path
) -> None:
    """Those of several models are one below the other, and the values of users side by side."""
    rng = np.random.default_rng(0)
    weights = sp.csr_array(rng.random((3 * n_models, 3)))
    values = sp.csr_array(rng.random((5, 3 * n_models)))
    arrays = extra_rows.pack_neighbors(weights, values)
    if maps:
        arrays = mapped(arrays, tmp_path)
    for got, truth in zip(
        extra_rows.unpack_neighbors(arrays, 5, 3), (weights, values), strict=True
    ):
        np.testing.assert_array_equal(got.toarray(), truth.toarray())
    with refuses(ValueError, "neighbors"):
        extra_rows.unpack_neighbors(arrays, 5, 2 if n_models == 1 else 4)
    with refuses(ValueError, "values"):
        extra_rows.unpack_neighbors(arrays, 4, 3)
    columns = np.full(weights.nnz, 3, np.int32)  # small, so read at once even if it is mapped
    (tmp_path / "damaged").mkdir()
    damaged = {"neighbors_indices": columns}
    if maps:
        damaged = mapped(damaged, tmp_path / "damaged")
    with refuses(ValueError, "neighbors"):
        extra_rows.unpack_neighbors({**arrays, **damaged}, 5, 3)


def test_other_extras_are_no_rows() -> None:
    arrays = extra_rows.pack("walk", ROWS)
    for name in ("walk_indptr", "walk_indices"):
        assert not extra_rows.has_rows({"walk": arrays["walk"], name: arrays[name]})
