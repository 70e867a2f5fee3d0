"""Plain and personalized PageRank against networkx and against dense systems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from mfrank.pagerank import RandomWalk, pagerank


def links(n: int = 60, seed: int = 0) -> sp.csr_array:
    """Weighted, with self-loops, and every fifth node without edges from it."""
    rng = np.random.default_rng(seed)
    matrix = sp.random_array((n, n), density=0.06, rng=rng, format="lil")
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


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: pagerank(np.eye(3)), TypeError, "links must be a scipy sparse matrix"),
        (lambda: pagerank(sp.eye_array(3, 4)), ValueError, "links must be square"),
        (lambda: pagerank(-sp.eye_array(3)), ValueError, "weights of links must be finite and"),
        (lambda: pagerank(links(), np.ones(3)), ValueError, "restarts must have shape"),
        (
            lambda: pagerank(links(), np.zeros(60)),
            ValueError,
            "with a positive value in each column",
        ),
        (lambda: pagerank(links(), -np.ones(60)), ValueError, "restarts must be finite and >= 0"),
        (lambda: pagerank(links(), alpha=0.0), ValueError, "alpha must be a fraction"),
        (lambda: pagerank(links(), tolerance=0.0), ValueError, "tolerance must be a finite"),
    ],
)
def test_what_is_no_walk_is_refused(
    call: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()
