"""Numbers that begin anywhere, as in a map of a file, give what aligned ones give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from ext_calls import unaligned
from numpy.typing import NDArray

import mfrank
from mfrank.retrieval import recommend

DATA = mfrank.synthetic(60, 50, 900, random_state=0)
MODEL = mfrank.ALS(factors=4, iterations=2, random_state=0).fit(DATA)


def moved(matrix: Any) -> Any:
    """The matrix with none of its arrays aligned."""
    if matrix.format == "coo":
        places = tuple(map(unaligned, matrix.coords))
        return sp.coo_array((unaligned(matrix.data), places), matrix.shape)
    copy = matrix.copy()
    for name in ("data", "indices", "indptr"):
        setattr(copy, name, unaligned(getattr(copy, name)))
    return copy


def mapped(array: NDArray[Any], folder: Path) -> NDArray[Any]:
    """The array in a file, after a single byte."""
    file = folder / f"{len(array)}.raw"
    file.write_bytes(b"!" + array.tobytes())
    found = np.memmap(file, array.dtype, "r", offset=1, shape=array.shape)
    assert not found.flags.aligned
    return found


def refitted(user_items: Any) -> NDArray[Any]:
    return mfrank.ALS(factors=4, iterations=2, random_state=0).fit(user_items).item_factors


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_matrices(form: str) -> None:
    matrix = moved(DATA.user_items.asformat(form))
    np.testing.assert_array_equal(refitted(matrix), MODEL.item_factors)
    held = mfrank.Interactions.from_sparse(matrix)
    assert held.user_items.data.flags.aligned
    np.testing.assert_array_equal(held.user_items.toarray(), DATA.user_items.toarray())


def test_stores(tmp_path: Path) -> None:
    users, items = MODEL.user_factors, MODEL.item_factors
    biases = np.linspace(0, 1, len(items), dtype=np.float32)
    expected = recommend(users, items, n=5, item_bias=biases)[0]
    for put in (unaligned, lambda array: mapped(array, tmp_path)):
        factors = {"user_factors": put(users), "item_factors": put(items)}
        store = replace(MODEL.store, **factors, item_biases=unaligned(biases))
        found = recommend(store.user_factors, store.item_factors, n=5, item_bias=store.item_biases)
        np.testing.assert_array_equal(found[0], expected)
        alone = recommend(put(users), put(items), n=5, item_bias=unaligned(biases))
        np.testing.assert_array_equal(alone[0], expected)


def test_what_recommend_is_given() -> None:
    seen, users, some = moved(DATA.user_items), np.arange(60), np.arange(9, dtype=np.int32)
    plain = MODEL.recommend(users, DATA.user_items, N=5)
    np.testing.assert_array_equal(MODEL.recommend(unaligned(users), seen, N=5)[0], plain[0])
    for name in ("filter_items", "items"):
        for given in (some, DATA.user_items):
            one = unaligned(some) if given is some else seen
            expected = MODEL.recommend(users, None, N=5, **{name: given})
            got = MODEL.recommend(users, None, N=5, **{name: one})
            np.testing.assert_array_equal(got[0], expected[0])
