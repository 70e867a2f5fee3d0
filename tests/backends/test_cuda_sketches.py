"""Top-K on a GPU by float16 sketches, without a GPU: lists and bits are those of a full search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import emulated_gpu
import numpy as np
import pytest
from emulated_gpu import DeviceArray, EmulatedGPU
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from test_top_k import Lists, assert_best

from mfrank import backends
from mfrank.backends.cuda import best_items
from mfrank.backends.cuda.best_items import Sketches
from mfrank.backends.cuda.listed_filters import Filters
from mfrank.testing import CHECKS, Query, random_filters, random_lists, uneven_factors

if reason := emulated_gpu.why_unavailable():
    pytest.skip(reason, allow_module_level=True)

WIDE = [0.0, 1e-25, 1e-6, 1.0, 1e6, 1e12]


@pytest.mark.parametrize("name", CHECKS["top_k"])
def test_the_contract_holds_with_sketches(backend: backends.Backend, name: str) -> None:
    CHECKS["top_k"][name](backend)


@pytest.fixture(scope="module", autouse=True)
def whatever_the_size() -> Iterator[None]:
    """Sketches even of a few items."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(best_items, "_LEAST_QUERIES", 1)
        patch.setattr(best_items, "_LEAST_ITEMS", 1)
        yield


def without_sketches(backend: backends.Backend, *args: Any, **options: Any) -> Lists:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(best_items, "_LONGEST_LIST", 0)
        return backend.top_k(*args, **options)


def assert_same_bits(found: Lists, wanted: Lists) -> None:
    np.testing.assert_array_equal(found[0], wanted[0])
    bits = [np.where(np.isnan(scores), np.inf, scores).tobytes() for _, scores in (found, wanted)]
    assert bits[0] == bits[1]


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of queries that were searched without sketches."""
    numbers: list[int] = []
    fill = best_items._Search.fill

    def noted(self: Any, free: int, queries: Any, *results: Any) -> None:
        numbers.append(len(queries))
        fill(self, free, queries, *results)

    monkeypatch.setattr(best_items._Search, "fill", noted)
    return numbers


def drawn(seed: int, n_queries: int, n: int, k: int, dtype: Any) -> tuple[NDArray[Any], ...]:
    """Queries, items and biases of one length or of many, some equal or equal but for rounding."""
    rng = np.random.default_rng(seed)
    queries, items = rng.standard_normal((n_queries, k)), rng.standard_normal((n, k))
    bias = rng.standard_normal(n) * rng.choice(WIDE)
    if rng.random() < 0.7:
        queries *= rng.choice(WIDE, (n_queries, 1))
        items *= rng.choice(WIDE) * rng.choice([1.0, 1e-4], (n, 1))
    items[rng.integers(0, n, n // 3)] = items[0]
    items[rng.integers(0, n, n // 3)] *= 1 + 1e-7 * rng.standard_normal((n // 3, k))
    items[:, rng.random(k) < 0.2] *= 1e-6
    return queries.astype(dtype), items.astype(dtype), bias.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(
    seed=st.integers(0, 2**32 - 1),
    n_queries=st.integers(1, 9),
    n=st.one_of(st.integers(1, 70), st.just(2500)),
    k=st.integers(1, 40),
    length=st.sampled_from([1, 3, 10, 60, 192]),
    with_bias=st.booleans(),
    is_reversed=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_same_bits_as_without(
    backend: backends.Backend,
    device: EmulatedGPU,
    dtype: type,
    seed: int,
    n_queries: int,
    n: int,
    k: int,
    length: int,
    with_bias: bool,
    is_reversed: bool,
) -> None:
    queries, items, bias = drawn(seed, n_queries, n, k, dtype)
    options = random_filters(np.random.default_rng(seed), n_queries, n)
    if with_bias:
        options["item_bias"] = bias
    wanted = without_sketches(backend, queries, items, length, **options)
    device.reversed = is_reversed
    found = backend.top_k(queries, items, length, **options)
    device.reversed = False
    assert_same_bits(found, wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 60),
    k=st.integers(1, 300),
    with_bias=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_no_approximate_score_is_farther_off_than_its_bound(
    device: EmulatedGPU, dtype: type, seed: int, n: int, k: int, with_bias: bool
) -> None:
    given_queries, given_items, given_bias = drawn(seed, 5, n, k, dtype)
    items = device.asarray(given_items)
    bias = device.asarray(given_bias) if with_bias else None
    sketch = Sketches.of(device, items, bias, Filters(None, None, ()))
    rounded, bounds = sketch.rounded_queries(device.asarray(given_queries))
    approximate = device.xp.empty((5, len(sketch.rounded)), np.float16)
    device.multiply_halves(rounded, sketch.rounded, approximate)
    assert np.isnan(approximate.get()[:, n:]).all()

    queries, items, bias = (x.astype(np.float64) for x in (given_queries, given_items, given_bias))
    bias *= with_bias
    norms = np.linalg.norm(queries, axis=1)
    longest, largest = np.linalg.norm(items, axis=1).max(), np.abs(bias).max()
    of_queries = np.frexp(np.hypot(norms, with_bias))[1]
    of_items = np.frexp(np.hypot(longest, largest))[1]
    exponents = 14 - of_queries - of_items
    narrow = np.ldexp(given_items, 7 - of_items).astype(np.float32)
    np.testing.assert_array_equal(sketch.rounded.get()[:n, :k], narrow.astype(np.float16))
    scores = np.ldexp(queries @ items.T + bias, exponents[:, None])
    reach = norms * longest + largest
    room, slope, constant = bounds.get().astype(np.float64).T
    known = np.isfinite(room)
    np.testing.assert_array_equal(known, (reach >= 1e-30) & (reach <= 1e37))
    off = np.abs(approximate.get()[:, :n].astype(np.float64) - scores)
    assert (2 * off <= room[:, None])[known].all()
    assert (off <= slope[:, None] * sketch.norms.get()[:n] + constant[:, None])[known].all()
    # No more than four roundings of the largest score that there could be, and a little.
    assert (room <= 8 * 2.0**-11 * np.ldexp(reach, exponents) + 1e-2)[known].all()


@pytest.mark.parametrize("with_bias", [False, True])
def test_shortlists_are_short(
    backend: backends.Backend, searched: list[int], with_bias: bool
) -> None:
    """So no query needs all scores."""
    rng = np.random.default_rng(1)
    queries, items = (uneven_factors(rng, (n, 24), np.float32) for n in (60, 3000))
    options: dict[str, Any] = {"exclude": [random_lists(rng, 60, 3000, 0.1)]}
    if with_bias:
        options["item_bias"] = rng.standard_normal(3000).astype(np.float32)
    query = Query(queries, items, 10, options)
    assert_best(query, query.ask(backend), 1e-4)
    assert searched == []


@pytest.mark.parametrize("with_bias", [False, True])
def test_one_long_item_does_not_lengthen_shortlists(
    backend: backends.Backend, device: EmulatedGPU, searched: list[int], with_bias: bool
) -> None:
    """Its error may be large, those of others are not. The best differ by less than theirs."""
    rng = np.random.default_rng(6)
    queries, items = (rng.standard_normal((n, 9)).astype(np.float32) for n in (30, 2600))
    items[2000] *= 3000
    items[:600] = 8 * queries[0] + 0.01 * items[:600]
    queries[1:20] = queries[0] * (1 + 0.01 * queries[1:20])
    bias = 1e-3 * rng.standard_normal(2600).astype(np.float32) if with_bias else None
    wanted = without_sketches(backend, queries, items, 20, item_bias=bias)
    searched.clear()
    for device.reversed in (True, False):
        assert_same_bits(backend.top_k(queries, items, 20, item_bias=bias), wanted)
    assert searched == []


@pytest.mark.parametrize("more", [(), ("candidates",), ("exclude_all",), ("item_bias",)], ids=str)
def test_only_queries_of_long_shortlists_need_all_scores(
    backend: backends.Backend, searched: list[int], more: tuple[str, ...]
) -> None:
    """A query that scores all items 0, or more equally than fit on a shortlist."""
    rng = np.random.default_rng(2)
    items = rng.standard_normal((2600, 8)).astype(np.float32)
    items[:, 0] = 0
    items[rng.permutation(2600)[:1400], :] = np.eye(8)[0] * 9
    queries = rng.standard_normal((40, 8)).astype(np.float32)
    queries[:, 0] = 0.01
    queries[7] = 0
    queries[11] = np.eye(8)[0]
    every: dict[str, Any] = {
        "candidates": random_lists(rng, 40, 2600, 0.9),
        "exclude_all": np.arange(0, 2600, 9, dtype=np.int32),
        "item_bias": np.full(2600, 0.5, np.float32),
    }
    options = {"exclude": [random_lists(rng, 40, 2600, 0.05)]} | {
        name: every[name] for name in more
    }
    query = Query(queries, items, 12, options)
    found = query.ask(backend)
    assert searched == [2]
    assert_same_bits(found, without_sketches(backend, queries, items, 12, **options))
    np.testing.assert_array_equal(found[0][[7, 11]], query.by_sorting()[0][[7, 11]])


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.parametrize("side", [0, 1, 2])
def test_factors_that_are_not_finite_or_huge(
    backend: backends.Backend, searched: list[int], number: float, side: int
) -> None:
    """Only the query with such a factor, or all if an item or a bias has it, need all scores."""
    rng = np.random.default_rng(3)
    shapes: list[Any] = [(20, 6), (300, 6), 300]
    given = [(1e9 * rng.standard_normal(shape)).astype(np.float32) for shape in shapes]
    given[side].flat[8] = number
    queries, items, bias = given
    with np.errstate(all="ignore"):
        found = backend.top_k(queries, items, 5, item_bias=bias)
        alone = 1 if side == 0 else 20
        assert searched == ([] if side == 2 and number == 1e30 else [alone])
        wanted = without_sketches(backend, queries, items, 5, item_bias=bias)
    assert_same_bits(found, wanted)


def test_scores_in_parts(
    backend: backends.Backend, device: EmulatedGPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many queries at a time as memory allows, each with its own filters."""
    rng = np.random.default_rng(4)
    queries, items = (rng.standard_normal((n, 5)).astype(np.float32) for n in (50, 301))
    options = {
        "exclude": [random_lists(rng, 50, 301, 0.3)],
        "candidates": random_lists(rng, 50, 301, 0.5),
        "exclude_all": np.arange(0, 300, 7, dtype=np.int32),
    }
    wanted = without_sketches(backend, queries, items, 9, **options)
    products: list[int] = []
    multiply = device.multiply_halves

    def noted(left: DeviceArray, right: DeviceArray, out: DeviceArray) -> None:
        products.append(len(left))
        multiply(left, right, out)

    monkeypatch.setattr(device, "multiply_halves", noted)
    assert_same_bits(backend.top_k(queries, items, 9, **options), wanted)
    assert products == [50]
    products.clear()
    monkeypatch.setattr(best_items, "_MOST_BYTES", 11 * 2 * 264)
    assert_same_bits(backend.top_k(queries, items, 9, **options), wanted)
    assert products == [10] * 5
    products.clear()
    monkeypatch.setattr(best_items, "_MOST_BYTES", 0)
    assert_same_bits(backend.top_k(queries, items, 9, **options), wanted)
    assert products == [1] * 50


@pytest.mark.parametrize("free", [1000, 1 << 28])
def test_sketches_that_do_not_fit_are_not_made(
    backend: backends.Backend, device: EmulatedGPU, monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    rng = np.random.default_rng(5)
    queries, items = (rng.standard_normal((n, 5)).astype(np.float32) for n in (5, 300))
    wanted = without_sketches(backend, queries, items, 9)
    asked: list[int] = []
    monkeypatch.setattr(device, "free_bytes", lambda: asked.append(free) or free)
    monkeypatch.setattr(
        device, "multiply_halves" if free == 1000 else "upload", lambda *_: pytest.fail("too large")
    )
    assert_same_bits(backend.top_k(queries, items, 9), wanted)
    assert len(asked) == 1  # asking takes long
