"""Iterations of random walks' matrices, of every backend, against dense arithmetic."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank import backends
from mfrank.arrays import CSR
from mfrank.backends import Chain, Until
from mfrank.testing import chain

NAMES = sorted(backends.names())
DTYPES = ["float32", "float64"]


@pytest.fixture(scope="module", params=NAMES)
def backend(request: pytest.FixtureRequest) -> backends.Backend:
    if reason := backends.named(request.param).why_unavailable():
        pytest.skip(reason)
    return backends.choose(request.param)


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=5),
    st.sampled_from([0.0, 0.1, 0.6]),
    st.sampled_from([1, 2, 7, 16, 21]),
    st.booleans(),
    st.integers(1, 3),
)
def test_steps_are_those_of_the_dense_matrix(
    backend: backends.Backend,
    dtype: str,
    sizes: list[int],
    density: float,
    k: int,
    rank_one: bool,
    n_threads: int,
) -> None:
    steps, dense = chain(sizes, density, dtype, rank_one=rank_one)
    scale = 0.85
    rng = np.random.default_rng(k)
    base, start = rng.standard_normal((2, len(dense), k)).astype(dtype)
    x = start.astype(np.float64)
    for _ in range(6):
        was, x = x, base + scale * dense @ x
    for norm in ("sum", "spread"):
        got = backend.walk(steps, base, start, scale, Until(6, norm=norm), n_threads)
        tolerance = backend.TOLERANCE[dtype]
        np.testing.assert_allclose(got.values, x, rtol=0, atol=10 * tolerance)
        assert got.values.dtype == dtype
        np.testing.assert_array_equal(got.steps, 6)
        for b, (begin, end) in enumerate(zip(steps.blocks[:-1], steps.blocks[1:], strict=True)):
            change = (x - was)[begin:end]
            wanted = np.abs(change).sum(axis=0) if norm == "sum" else np.ptp(change, axis=0) / 2
            assert abs(got.changes[b] - wanted.max()) <= 100 * tolerance


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [1, 5])
def test_thread_count_changes_no_bit(backend: backends.Backend, dtype: str, k: int) -> None:
    rng = np.random.default_rng(0)
    n, sizes = 6_000, [5_900, 60, 40]  # the first block is one that threads share
    blocks = np.concatenate([[0], np.cumsum(sizes)])
    lengths = rng.integers(0, 60, n)
    lengths[7] = 5_000
    low = np.repeat(blocks[:-1], sizes)
    high = np.repeat(blocks[1:], sizes)
    columns = rng.integers(np.repeat(low, lengths), np.repeat(high, lengths)).astype(np.int32)
    data = rng.random(len(columns)).astype(dtype) / 60
    left, right = rng.random((n, k)).astype(dtype) / 60, rng.random(n).astype(dtype) / 60
    rows = CSR(np.concatenate([[0], np.cumsum(lengths)]), columns, data, n)
    base = rng.random((n, k)).astype(dtype)

    def everything(n_threads: int) -> list[bytes]:
        got = backend.walk(Chain(rows, blocks, left, right), base, base, 0.3, Until(9), n_threads)
        return [array.tobytes() for array in got]

    assert everything(1) == everything(2) == everything(5)
    once = backend.walk(Chain(rows, blocks, left, right), base, base, 0.3, Until(1), 2)
    truth = backends.choose("reference").walk(
        Chain(rows, blocks, left, right), base, base, 0.3, Until(1)
    )
    np.testing.assert_allclose(once.values, truth.values, rtol=1e2 * backend.TOLERANCE[dtype])


def test_the_extension_checks_what_it_is_given() -> None:
    ext = pytest.importorskip("mfrank._ext", reason="the C++ extension was not built")
    steps, _ = chain([3, 3], 1.0, "float64")
    n, data = 6, steps.rows.data
    given = {
        "rows": (steps.rows.indptr, steps.rows.indices, data),
        "blocks": steps.blocks,
        "left": None,
        "right": None,
        "base": np.ones((n, 1)),
        "scale": 0.5,
        "x": np.ones((n, 1)),
        "n_steps": 3,
        "tolerance": None,
        "spread": False,
        "changes": np.ones(2),
        "steps": np.ones(2, dtype=np.int64),
        "n_threads": 1,
    }
    ext.walk(**given)
    for name, value, error in (
        ("blocks", np.array([0, 4, 6]), IndexError),
        ("blocks", np.array([0, 0, 6]), ValueError),
        ("blocks", np.array([0, 3, 5]), ValueError),
        ("left", np.ones((n, 1)), ValueError),
        ("base", np.ones((n, 2)), ValueError),
        ("base", np.ones((n, 1), np.float32), TypeError),
        ("tolerance", np.ones(3), ValueError),
        ("n_steps", -1, ValueError),
        ("rows", (steps.rows.indptr, steps.rows.indices, None), ValueError),
        ("rows", (steps.rows.indptr, steps.rows.indices + np.int32(1), data), IndexError),
    ):
        with pytest.raises(error):
            ext.walk(**{**given, name: value})


INTERRUPT = """
import os, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
import numpy as np
from mfrank import _ext
n = {n}
try:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    _ext.walk(
        rows=(np.arange(n + 1), np.arange(n, dtype=np.int32), np.ones(n)),
        blocks=np.array([0, n]), left=None, right=None, base=np.ones((n, 1)), scale=1.0,
        x=np.ones((n, 1)), n_steps=2**31 - 1, tolerance=None, spread=False,
        changes=np.empty(1), steps=np.empty(1, np.int64), n_threads=2)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no os.kill with SIGINT")
@pytest.mark.parametrize("n", [10, 300_000])
def test_an_interrupt_ends_the_iteration(n: int) -> None:
    pytest.importorskip("mfrank._ext", reason="the C++ extension was not built")
    command = [sys.executable, "-c", INTERRUPT.format(n=n)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.stdout.split() == ["interrupted"], result.stderr
