"""Products are numpy's, to the same bits on any number of threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank.backends.cpu import product

SIZE = st.integers(0, 70)


@settings(max_examples=40, deadline=None)
@given(SIZE, SIZE, SIZE, st.booleans(), st.booleans())
def test_products_are_numpys(n: int, k: int, m: int, left_t: bool, right_t: bool) -> None:
    rng = np.random.default_rng(n + 70 * k)
    left = rng.normal(size=(k, n)).T if left_t else rng.normal(size=(n, k))
    right = rng.normal(size=(m, k)).T if right_t else rng.normal(size=(k, m))
    np.testing.assert_allclose(product(left, right, 1), left @ right, atol=1e-12)


@pytest.mark.parametrize("shape", [(600, 300, 500), (40, 8000, 300)])
def test_threads_do_not_change_a_bit(shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(0)
    left = rng.normal(size=shape[:2]).astype(np.float32)
    right = rng.normal(size=shape[1:]).astype(np.float32)
    once = product(left, right, 1)
    assert once.dtype == np.float32
    for n_threads in (0, 2, 3, 7):
        np.testing.assert_array_equal(product(left, right, n_threads), once)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_error_of_any_thread_is_the_callers(n_threads: int) -> None:
    left, right = np.ones((900, 90)), np.ones((91, 900))
    with pytest.raises(ValueError, match="matmul"):
        product(left, right, n_threads)


@pytest.mark.parametrize("others", [0, 1])
def test_threads_that_cannot_start_are_done_without(
    monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    left = [others]
    start = threading.Thread.start

    def start_a_few(thread: threading.Thread) -> None:
        if not left[0]:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        start(thread)

    factors = np.random.default_rng(0).normal(size=(900, 90))
    expected = product(factors, factors.T, 1)
    monkeypatch.setattr(threading.Thread, "start", start_a_few)
    np.testing.assert_array_equal(product(factors, factors.T, 4), expected)
    assert left == [0]
