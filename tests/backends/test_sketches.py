"""Sketches: no item scores above its ceiling, and top-K by them has the bits of top-K without."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mfrank.arrays import CSR, installed
from mfrank.backends.cpu import search_order
from mfrank.backends.cpu import search_order as sketches
from mfrank.backends.cpu.search_order import Sketch, sketch_of

pytestmark = pytest.mark.skipif(
    installed.why_missing is not None, reason=str(installed.why_missing)
)

if installed.why_missing is None:
    from mfrank.backends import cpu

WIDE = [1e-40, 1e-20, 1.0, 1e6, 1e15]


def drawn(seed: int, n: int, k: int, dtype: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Three queries and items of many lengths, some of them equal, some zero."""
    random = np.random.default_rng(seed)
    items = random.normal(0, 1, (n, k)) * random.choice(WIDE, (n, 1))
    if random.random() < 0.5:
        items = random.normal(0, 1, (n, k))
    items[random.random(n) < 0.1] = 0
    items[random.integers(0, n, n // 3)] = items[0]
    items[:, random.random(k) < 0.2] *= 1e-3
    return random.normal(0, 1, (3, k)).astype(dtype), items.astype(dtype)


def decoded(sketch: Sketch, n: int, k: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """What the codes say the items are, and their rooms."""
    codes = sketch.codes.reshape(-1, -(-k // 4), 32, 4).astype(np.float64)
    rows = codes.transpose(0, 2, 1, 3).reshape(len(codes) * 32, -1)
    return (rows * 2.0**24 * sketch.scales[:, None])[:n, :k], sketch.rooms[:n].astype(np.float64)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 100), k=st.integers(1, 40))
def test_no_item_scores_above_its_ceiling(dtype: str, seed: int, n: int, k: int) -> None:
    _, items = drawn(seed, n, k, dtype)
    nearly, rooms = decoded(Sketch.of(items), n, k)
    left_out = np.linalg.norm(items.astype(np.float64) - nearly, axis=1)
    assert (left_out <= rooms).all()
    lengths = np.linalg.norm(items.astype(np.float64), axis=1)
    wide = lengths > 1e-25
    # A byte a factor leaves little out: half a step of 1 / 127 of the largest in each coordinate.
    assert (left_out[wide] <= lengths[wide] * np.sqrt(k) / 250).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 300),
    k=st.integers(1, 70),
    count=st.sampled_from([1, 10, 400]),
    n_threads=st.integers(1, 3),
)
def test_lists_have_the_bits_of_those_without(
    dtype: str, seed: int, n: int, k: int, count: int, n_threads: int
) -> None:
    random = np.random.default_rng(seed)
    queries, items = drawn(seed, n, k, dtype)
    queries *= random.choice([1e-30, 1, 1e12, 0]) if dtype == "float64" else random.choice([1, 0])
    bias = random.normal(0, random.choice([1e-3, 1e6]), n).astype(dtype)
    chosen = random.random((3, n)) < random.choice([0.2, 0.95])
    indptr = np.concatenate([[0], chosen.sum(1).cumsum()])
    exclude = CSR(indptr, np.nonzero(chosen)[1].astype(np.int32), None, n)
    for filters in ({}, {"item_bias": bias}, {"exclude": (exclude,)}):
        wanted = cpu.top_k(queries, items, count, **filters)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(search_order, "sketch_of", Sketch.of)
            found = cpu.top_k(queries, items, count, n_threads=n_threads, **filters)
        for mine, theirs in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("n", [20, 20_000])  # the latter has items from where two parts meet
@pytest.mark.parametrize("threads", [1, 2])
def test_many_items_are_shared_among_threads(threads: int, n: int) -> None:
    random = np.random.default_rng(0)
    items = random.normal(0, 1, (60_001, 160)).astype(np.float32)
    query = random.normal(0, 1, (1, 160)).astype(np.float32)
    wanted = cpu.top_k(query, items, n)
    items.flags.writeable = False
    for _ in range(3):  # the first without a sketch
        for mine, theirs in zip(cpu.top_k(query, items, n, n_threads=threads), wanted, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert sketch_of(items) is not None


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e38, -3e38, 1e-45])
def test_what_is_beyond_numbers_is_scored_as_ever(value: float) -> None:
    random = np.random.default_rng(1)
    items = random.normal(0, 1, (200, 6)).astype(np.float32)
    items[[3, 77, 199], [0, 2, 5]] = value
    queries = random.normal(0, 1, (2, 6)).astype(np.float32)
    queries[1, 3] = value
    wanted = cpu.top_k(queries, items, 30)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search_order, "sketch_of", Sketch.of)
        for mine, theirs in zip(cpu.top_k(queries, items, 30), wanted, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_sums_that_overflow_on_the_way_do_so_with_a_sketch_too() -> None:
    items = np.full((100, 2), [1e17, 0], np.float32)
    items[70] = 1e20, -1e20  # 0 in the end; before, infinite, or no number where there is no FMA
    queries = np.full((1, 2), 1e20, np.float32)
    wanted = cpu.top_k(queries, items, 1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search_order, "sketch_of", Sketch.of)
        assert cpu.top_k(queries, items, 1) == wanted


def test_only_what_does_not_change_and_is_asked_for_again_is_sketched() -> None:
    items = np.ones((2000, 100), np.float32)
    assert sketch_of(items) is None
    items.flags.writeable = False
    assert sketch_of(items) is None
    assert sketch_of(items) is sketch_of(items) is not None
    assert sketch_of(items[:]) is None
    few = np.ones((20, 10), np.float32)
    few.flags.writeable = False
    assert sketch_of(few) is sketch_of(few) is None


def test_sketches_go_with_their_items() -> None:
    items = np.ones((2000, 100), np.float32)
    items.flags.writeable = False
    before = len(sketches._SKETCHES)
    sketch_of(items)
    assert len(sketches._SKETCHES) == before + 1
    del items
    gc.collect()
    assert len(sketches._SKETCHES) == before


def test_the_door_tells_what_does_not_fit() -> None:
    items = np.ones((40, 8), np.float32)
    sketch = Sketch.of(items)
    with pytest.raises(ValueError, match="scales must have 64 elements"):
        installed.ext.sketch(items, sketch._replace(scales=sketch.scales[:3].copy()), 1)
    shifted = np.zeros(64 * 8 + 1, np.int8)[1:]
    with pytest.raises(ValueError, match=r"codes must (begin on a cache line|be C-contiguous)"):
        installed.ext.sketch(items, sketch._replace(codes=shifted), 1)
