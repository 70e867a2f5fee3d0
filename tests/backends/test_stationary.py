"""Stationary distributions of one graph, of every backend, against dense systems."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank import backends
from mfrank.arrays import CSR
from mfrank.backends import Moves
from mfrank.pagerank import Walker, stationary_rows

NAMES = ["cpu", "reference"]


@pytest.fixture(scope="module", params=NAMES)
def backend(request: pytest.FixtureRequest) -> backends.Backend:
    if reason := backends.named(request.param).why_unavailable():
        pytest.skip(reason)
    return backends.choose(request.param)


def graph(n: int, density: float, *, weighted: bool, seed: int = 0) -> sp.csr_array:
    """Some nodes without edges from them, some with edges to themselves."""
    rng = np.random.default_rng(seed)
    links = sp.csr_array((rng.random((n, n)) < density) * (rng.random((n, 1)) < 0.8) * 1.0)
    if weighted:
        links.data = rng.random(links.nnz) + 0.01
    return links


def starts(n: int, k: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = np.where(rng.random((k, n)) < 0.3, rng.random((k, n)), 0.0)
    rows[:, 0] += 0.1
    return rows / rows.sum(axis=1, keepdims=True)


def rows(dense: np.ndarray) -> CSR:
    return CSR.from_scipy(sp.csr_array(dense), np.float64)


def solved(links: sp.csr_array, begin: np.ndarray, alpha: float) -> np.ndarray:
    dense, totals = links.toarray(), links.toarray().sum(axis=1, keepdims=True)
    exact = []
    for restart in begin:
        steps = np.where(totals > 0, dense / np.where(totals > 0, totals, 1), restart)
        matrix = np.eye(len(dense)) - (1 - alpha) * steps.T
        exact.append(np.linalg.solve(matrix, alpha * restart))
    return np.array(exact)


def test_a_walk_that_rounding_keeps_moving_ends_in_float64(backend: backends.Backend) -> None:
    links, begin = graph(4, 0.05, weighted=False), starts(4, 16)
    if backend.__name__.endswith("reference"):  # type: ignore[attr-defined]
        begin = begin[4:5]
    got = backend.stationary(Moves.of(links), rows(begin), 0.15, 1e-6, 100_000, 1)
    assert (got.errors <= 1e-6).all()
    assert got.steps.max() < 1_000
    assert (np.abs(got.values - solved(links, begin, 0.15)).sum(axis=1) <= got.errors).all()


@pytest.mark.parametrize("weighted", [False, True])
@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 60),
    st.sampled_from([0.0, 0.05, 0.5]),
    st.integers(1, 37),
    st.sampled_from([0.05, 0.15, 0.9]),
    st.sampled_from([1e-2, 1e-6, 1e-11]),
    st.integers(1, 3),
)
def test_errors_are_within_the_certificate(
    backend: backends.Backend,
    weighted: bool,
    n: int,
    density: float,
    k: int,
    alpha: float,
    tolerance: float,
    n_threads: int,
) -> None:
    if backend.__name__.endswith("reference"):  # type: ignore[attr-defined]
        k = min(k, 2)  # it takes them one by one
    links, begin = graph(n, density, weighted=weighted), starts(n, k)
    got = backend.stationary(Moves.of(links), rows(begin), alpha, tolerance, 100_000, n_threads)
    errors = np.abs(got.values - solved(links, begin, alpha)).sum(axis=1)
    assert (errors <= got.errors + 1e-13 / alpha).all()
    assert (got.errors <= tolerance).all()
    assert got.values.min() >= 0
    np.testing.assert_allclose(got.values.sum(axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_moves_are_the_graph_in_another_order(weighted: bool) -> None:
    links = graph(50, 0.1, weighted=weighted)
    moves = Moves.of(links)
    np.testing.assert_array_equal(np.sort(moves.order), np.arange(50))
    np.testing.assert_array_equal(moves.order[moves.place], np.arange(50))
    assert (moves.rows.data is None) is not weighted
    chain = moves.chain(np.zeros((50, 1)))
    forward = sp.csr_array((chain.rows.data, chain.rows.indices, chain.rows.indptr), (50, 50))
    back = forward.toarray()[moves.place][:, moves.place].T
    totals = links.toarray().sum(axis=1, keepdims=True)
    np.testing.assert_allclose(back, links.toarray() / np.where(totals > 0, totals, 1), rtol=1e-14)
    for wave in np.split(moves.rows.counts, moves.waves[1:-1]):
        assert (np.diff(wave) <= 0).all()


def test_more_accuracy_takes_more_sweeps(backend: backends.Backend) -> None:
    """Also where the first are in float32 and the others in float64."""
    moves, begin = Moves.of(graph(60, 0.1, weighted=True)), rows(starts(60, 2))
    tolerances = (1e-2, 1e-6, 1e-9, 1e-13)
    counts = [backend.stationary(moves, begin, 0.15, each, 1000).steps for each in tolerances]
    assert (np.diff([[0, 0], *counts], axis=0) > 0).all()


def test_sweeps_are_fewer_than_steps_of_power_iteration() -> None:
    links = graph(400, 0.01, weighted=True)
    begin = rows(starts(400, 3))
    swept, stepped = (
        backends.choose(name).stationary(Moves.of(links), begin, 0.15, 1e-9, 1000).steps
        for name in ("auto", "reference")
    )
    assert (swept < 0.75 * stepped).all()


@pytest.mark.parametrize("tolerance", [1e-6, 1e-9])
@pytest.mark.parametrize("weighted", [False, True])
def test_neither_threads_nor_company_change_a_bit(weighted: bool, tolerance: float) -> None:
    cpu = pytest.importorskip("mfrank.backends.cpu")
    rng = np.random.default_rng(0)
    n, size = 6_000, 150_000  # large enough for threads to share its waves
    links = sp.csr_array((rng.random(size), rng.integers(0, n, (2, size))), (n, n))
    if not weighted:
        links.data[:] = 1
    moves, begin = Moves.of(links), sp.csr_array(starts(n, 41))

    def asked(part: slice, n_threads: int) -> tuple[Any, ...]:
        own = CSR.from_scipy(begin[part], np.float64)
        return cpu.stationary(moves, own, 0.15, tolerance, 200, n_threads)

    together = asked(slice(0, 41), 1)
    for part, n_threads in (
        (slice(0, 41), 2),
        (slice(3, 20), 5),
        (slice(7, 8), 1),
        (slice(7, 9), 3),
    ):
        for got, wanted in zip(asked(part, n_threads), together, strict=True):
            assert got.tobytes() == wanted[part].tobytes()


def test_power_iteration_goes_on_where_sweeps_were_not_enough(backend: backends.Backend) -> None:
    links, begin = graph(30, 0.2, weighted=True), starts(30, 4)

    class Hasty:
        walk = staticmethod(backend.walk)

        @staticmethod
        def stationary(*args: Any) -> Any:
            return backend.stationary(*args[:4], 1)

    values = stationary_rows(Moves.of(links), rows(begin), 1e-8, Walker(0.15, Hasty()))  # type: ignore[arg-type]
    assert np.abs(values - solved(links, begin, 0.15)).sum(axis=1).max() <= 1e-8
    same = stationary_rows(Moves.of(links), rows(begin), 1e-300, Walker(0.15, backend))
    np.testing.assert_allclose(same, solved(links, begin, 0.15), rtol=0, atol=1e-15)


def test_the_extension_checks_what_it_is_given() -> None:
    ext = pytest.importorskip("mfrank._ext", reason="the C++ extension was not built")
    moves, n = Moves.of(graph(20, 0.3, weighted=True)), 20
    begin = rows(starts(n, 2))
    given = {
        "rows": (moves.rows.indptr, moves.rows.indices, moves.rows.data),
        "shares": moves.shares,
        "waves": moves.waves,
        "order": moves.order,
        "place": moves.place,
        "starts": (begin.indptr, begin.indices, begin.data),
        "begin": None,
        "keep": 0.85,
        "tolerance": 1e-6,
        "n_steps": 9,
        "values": np.empty((2, n)),
        "errors": np.empty(2),
        "steps": np.empty(2, np.int64),
        "rounded": True,
        "n_threads": 1,
    }
    ext.stationary(**given)
    for name, value, error in (
        ("order", np.zeros(n, np.int64), ValueError),
        ("order", moves.order[::-1].copy(), ValueError),
        ("place", moves.place - 1, ValueError),
        ("waves", np.array([0, 5]), ValueError),
        ("waves", np.array([0, 5, 5, n]), ValueError),
        ("shares", np.ones(3), ValueError),
        ("starts", (begin.indptr, begin.indices, None), ValueError),
        ("starts", (begin.indptr, begin.indices + np.int32(n), begin.data), IndexError),
        ("rows", (moves.rows.indptr[:-1], moves.rows.indices, None), ValueError),
        ("begin", np.ones((2, 3)), ValueError),
        ("values", np.empty((3, n)), ValueError),
        ("keep", 1.0, ValueError),
        ("n_steps", 0, ValueError),
    ):
        with pytest.raises(error):
            ext.stationary(**{**given, name: value})


INTERRUPT = """
import os, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
import numpy as np
from mfrank.backends import cpu
from mfrank.backends.arguments import Moves
from mfrank.arrays.csr import CSR
import scipy.sparse as sp
n, k = {n}, {k}
hop = sp.csr_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), (n, n))
start = CSR(np.arange(k + 1), np.zeros(k, np.int32), np.ones(k), n)
try:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    cpu.stationary(Moves.of(hop), start, 1e-9, 1e-300, 2**40, 2)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no os.kill with SIGINT")
@pytest.mark.parametrize(("n", "k"), [(10, 1), (200_000, 1), (5_000, 40)])
def test_an_interrupt_ends_the_sweeps(n: int, k: int) -> None:
    pytest.importorskip("mfrank._ext", reason="the C++ extension was not built")
    command = [sys.executable, "-c", INTERRUPT.format(n=n, k=k)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.stdout.split() == ["interrupted"], result.stderr
