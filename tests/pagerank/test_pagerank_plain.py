"""Plain and personalized PageRank against networkx and against dense systems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from mfrank.arrays import CSR
from mfrank.backends import Moves, Until, choose
from mfrank.pagerank import RandomWalk, Walker, pagerank, stationary_rows
from tests.support.errors import refuses


def links(n: int = 60, seed: int = 0) -> sp.csr_array:
    """Weighted, with self-loops, and every fifth node without edges from it."""
    rng = np.random.default_rng(seed)
    matrix = sp.random_array((n, n), density=0.06, random_state=rng, format="lil")
    matrix[::5] = 0
    return sp.csr_array(matrix)


def solved(matrix: sp.csr_array, restarts: np.ndarray, alpha: float) -> np.ndarray:
    n = matrix.shape[0]
    begin = restarts / restarts.sum()
    out = matrix.sum(axis=1)
    steps = np.where(out[:, None] > 0, matrix.toarray() / np.where(out, out, 1)[:, None], begin)
    return np.linalg.solve(np.eye(n) - (1 - alpha) * steps.T, alpha * begin)


@pytest.mark.parametrize("personalized", [False, True])
@pytest.mark.parametrize("alpha", [0.15, 0.6])
def test_networkx_agrees(alpha: float, personalized: bool) -> None:
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    matrix = links()
    restarts = np.arange(60.0) if personalized else None
    truth = networkx.pagerank(
        networkx.from_scipy_sparse_array(matrix, create_using=networkx.DiGraph),
        alpha=1 - alpha,
        personalization=None if restarts is None else dict(enumerate(restarts)),
        tol=1e-13,
        max_iter=1000,
    )
    got = pagerank(matrix, restarts, alpha=alpha, tolerance=1e-11)
    np.testing.assert_allclose(got, [truth[i] for i in range(60)], rtol=0, atol=2e-11)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-6, 1e-12])
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_many_walks_at_once_are_each_within_the_tolerance(backend: str, tolerance: float) -> None:
    matrix = links(seed=1)
    restarts = np.random.default_rng(2).random((60, 5)) ** 8
    restarts[:, 4] = np.eye(60)[0]  # a node without edges: all its walks stay there
    got = RandomWalk.of(matrix).rank(restarts, tolerance=tolerance, backend=backend)
    for column, begin in zip(got.T, restarts.T, strict=True):
        assert np.abs(column - solved(matrix, begin, 0.15)).sum() <= tolerance
    np.testing.assert_allclose(got[:, 4], np.eye(60)[0], atol=1e-15)
    alone = pagerank(matrix, restarts[:, 1], tolerance=tolerance, backend=backend)
    assert np.abs(alone - got[:, 1]).sum() <= 2 * tolerance


def test_duplicates_add_up_and_zeros_are_no_edges() -> None:
    twice = sp.coo_array(([1.0, 2.0, 0.0, 1.0], ([0, 0, 1, 0], [1, 1, 2, 2])), shape=(3, 3))
    np.testing.assert_allclose(
        pagerank(twice, tolerance=1e-12),
        solved(sp.csr_array([[0, 3, 1], [0, 0, 0], [0, 0, 0]]), np.ones(3), 0.15),
        atol=1e-11,
    )
    assert twice.nnz == 4  # what is given is not touched
    corrected = sp.csr_array((np.array([3.0, -1.0, 2.0]), [1, 1, 2], [0, 3, 3, 3]), (3, 3))
    of_each = pagerank(corrected, tolerance=1e-12)
    np.testing.assert_allclose(of_each[1], of_each[2], atol=1e-12)


def test_a_page_alone_and_pages_without_links() -> None:
    alone = sp.csr_array((1, 1))
    for restarts in (None, [2.0], [[2.0, 1.0]]):
        assert (pagerank(alone, restarts) == 1).all()
    np.testing.assert_allclose(pagerank(sp.csr_array((3, 3))), np.full(3, 1 / 3), rtol=1e-12)
    np.testing.assert_allclose(
        pagerank(1.5e308 * sp.eye_array(2, format="csr")), np.full(2, 1 / 2), rtol=1e-6
    )


def test_restarts_of_any_dtype_and_layout_are_read_as_float64() -> None:
    matrix, rng = links(), np.random.default_rng(0)
    narrow = rng.random((60, 3), dtype=np.float32)
    wide = pagerank(matrix, narrow.astype(np.float64), tolerance=1e-12)
    for given in (narrow, np.asfortranarray(narrow)):
        np.testing.assert_array_equal(pagerank(matrix, given, tolerance=1e-12), wide)
    ones = pagerank(matrix, np.ones(60))
    np.testing.assert_array_equal(pagerank(matrix, np.ones(60, dtype=bool)), ones)


def test_restarts_with_labels_of_their_own_are_refused() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    labeled = pandas.Series(np.ones(60), index=[f"page {n}" for n in range(60)])
    with refuses(ValueError, "restarts"):
        pagerank(links(), labeled)


def test_walks_that_sweeps_do_not_settle_are_iterated() -> None:
    """For example where the tolerance is below rounding: here a backend says so of two rows."""
    matrix, tolerance = links(30), 1e-9
    restarts = np.random.default_rng(3).random((4, 30))
    restarts /= restarts.sum(axis=1, keepdims=True)
    settling, iterated = choose(), list[Any]()

    class Unsettled:
        @staticmethod
        def walk(*given: Any) -> Any:
            iterated.append((given, settling.walk(*given)))
            return iterated[-1][1]

        @staticmethod
        def stationary(*given: Any) -> Any:
            values, errors, steps = settling.stationary(*given)
            values[[1, 3]], errors[[1, 3]] = 0.0, (1.0, np.nan)
            return values, errors, steps

    moves, rows = Moves.of(matrix), CSR.from_scipy(sp.csr_array(restarts), np.float64)
    backend: Any = Unsettled()
    found = stationary_rows(moves, rows, tolerance, Walker(0.2, backend))
    swept = stationary_rows(moves, rows, tolerance, Walker(0.2, settling))
    np.testing.assert_array_equal(found[[0, 2]], swept[[0, 2]])
    for row, begin in zip(found, restarts, strict=True):
        assert np.abs(row - solved(matrix, begin, 0.2)).sum() <= tolerance
    for (*given, until, n_threads), walked in iterated:  # as soon as the error is certified
        earlier = settling.walk(*given, Until(int(walked.steps[0]) - 1), n_threads)
        assert 0.8 / 0.2 * walked.changes[0] <= tolerance < 0.8 / 0.2 * earlier.changes[0]
        assert until.steps >= walked.steps[0]


@pytest.mark.parametrize(
    ("call", "error", "fault"),
    [
        (lambda: pagerank(np.eye(3)), TypeError, {"argument": "links"}),
        (lambda: pagerank(sp.eye_array(3, 4)), ValueError, {"argument": "links"}),
        (lambda: pagerank(-sp.eye_array(3)), ValueError, {"argument": "links"}),
        (lambda: pagerank(links(), np.ones(3)), ValueError, {"argument": "restarts"}),
        (
            lambda: pagerank(links(), np.zeros(60)),
            ValueError,
            {"argument": "restarts"},
        ),
        (lambda: pagerank(links(), -np.ones(60)), ValueError, {"argument": "restarts"}),
        (lambda: pagerank(sp.csr_array((0, 0))), ValueError, {"argument": "links"}),
        (
            lambda: pagerank(sp.csr_array(np.full((2, 2), 1.5e308))),
            ValueError,
            {"remedy": "scale them down"},
        ),
        (lambda: pagerank(links(), n_threads=-1), ValueError, {"argument": "n_threads"}),
        (lambda: pagerank(links(), alpha=0.0), ValueError, {"argument": "alpha"}),
        (lambda: pagerank(links(), tolerance=0.0), ValueError, {"argument": "tolerance"}),
    ],
)
def test_what_is_no_walk_is_refused(
    call: Callable[[], Any], error: type[Exception], fault: dict[str, str]
) -> None:
    with refuses(error, **fault):
        call()
