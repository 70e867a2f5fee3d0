"""The extension numbers ids and merges entries as numpy does, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import in_numpy

from mfrank.arrays import ext
from mfrank.data import Ids, labels, merging

pytestmark = pytest.mark.skipif(ext is None, reason="the extension is not built")

VALUES: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "reals": lambda rng, n: rng.standard_normal(n) * 10.0 ** rng.integers(-3, 5, n),
    "floats": lambda rng, n: rng.standard_normal(n).astype(np.float32),
    "stars": lambda rng, n: rng.integers(-2, 3, n).astype(np.float64),
    "ones": lambda rng, n: np.ones(n, np.float32),
    "beyond float32": lambda rng, n: np.full(n, 1e39),
}


def by_both(call: Callable[[], Any]) -> tuple[Any, Any]:
    with pytest.MonkeyPatch.context() as patch:
        in_numpy(patch)
        there = call()
    return call(), there


def same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if not isinstance(one, np.ndarray):
        return bool(one == other)
    return one.dtype.kind == other.dtype.kind and np.array_equal(one, other)


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("duplicates", ["sum", "max", "last"])
@given(
    seed=st.integers(0, 1000),
    n=st.sampled_from([1, 2, 9, 100, 700]),
    shape=st.sampled_from([(1, 1), (3, 2), (40, 9)]),
    timed=st.booleans(),
)
def test_entries_are_merged(
    kind: str, duplicates: Any, seed: int, n: int, shape: tuple[int, int], timed: bool
) -> None:
    rng = np.random.default_rng(seed)
    users, items = (rng.integers(0, each, n).astype(np.int32) for each in shape)
    values, times = VALUES[kind](rng, n), rng.integers(-3, 3, n) if timed else None
    entries = merging.Entries(users, items, values, times)
    kept = [each.copy() for each in (users, items, values)]
    native, numpy = by_both(lambda: merging.merged(entries, shape, duplicates, np.float32, None))
    assert same(tuple(native), tuple(numpy))
    assert native.values.dtype == numpy.values.dtype == np.float32
    assert same(tuple(kept), (users, items, values))


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 20)), st.booleans())
def test_whole_numbers_are_numbered(ids: list[int], twice: bool) -> None:
    raw = np.array(ids * (1 + twice), np.int64)[:: 1 + twice]  # perhaps not contiguous
    native, numpy = by_both(lambda: labels.number(raw))
    assert same(native, numpy)
    own, rows = Ids.factorize(raw)
    assert rows.dtype == np.int64
    assert own.raw(rows).tolist() == raw.tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda: ext.mark_numbers(np.array([4]), 2, np.zeros(2, bool)),
        lambda: ext.look_up_numbers(
            np.array([1], np.int32), 2, np.zeros(2, np.int32), np.zeros(1, np.int32)
        ),
        lambda: merge(np.array([1, 0])),
        lambda: merge(np.array([0, 0])),
        lambda: merge(np.array([0, 1 << 3])),  # another user
        lambda: merge(np.array([0, 2])),  # another place
        lambda: merge(np.array([0, 1]), n_items=0),
        lambda: merge(np.array([0, 1]), duplicates="mean"),
    ],
)
def test_what_lies_outside_is_refused(call: Any) -> None:
    with pytest.raises((IndexError, ValueError)):
        call()


def merge(keys: Any, n_items: int = 1, duplicates: str = "sum") -> Any:
    return ext.merge_cells(
        keys.astype(np.uint64), of_item=1, of_place=2, n_items=n_items, duplicates=duplicates,
        values=np.ones(2), times=None, indptr=np.zeros(2, np.int64), items=np.zeros(2, np.int32),
        merged=np.zeros(2, np.float32), latest=None,
    )  # fmt: skip
