"""Iterations of random walks, against dense arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR
from mfrank.backends import Backend, Chain, Until

_SIZES = [1], [6, 4], [20, 1, 3, 17]


def check_steps_are_those_of_the_dense_matrix(backend: Backend) -> None:
    """Blocks of every size, with and without a rank-one part; changes by either norm."""
    for dtype in ("float32", "float64"):
        tolerance = backend.TOLERANCE[dtype]
        for sizes in _SIZES:
            for density, width, rank_one in ((0.0, 1, True), (0.1, 7, False), (0.6, 21, True)):
                steps, dense = chain(sizes, density, dtype, rank_one=rank_one)
                rng = np.random.default_rng(width)
                base, start = rng.standard_normal((2, len(dense), width)).astype(dtype)
                x = was = start.astype(np.float64)
                for _ in range(6):
                    was, x = x, base + 0.85 * dense @ x
                for norm in ("sum", "spread"):
                    until = Until(6, norm=norm)
                    got = backend.walk(steps, base, start, 0.85, until, 2)
                    np.testing.assert_allclose(got.values, x, rtol=0, atol=10 * tolerance)
                    assert got.values.dtype == dtype
                    np.testing.assert_array_equal(got.steps, 6)
                    for b, part in enumerate(_parts(steps)):
                        moved = (x - was)[part]
                        by_sum = np.abs(moved).sum(axis=0)
                        wanted = by_sum if norm == "sum" else np.ptp(moved, axis=0) / 2
                        assert abs(got.changes[b] - wanted.max()) <= 100 * tolerance


def check_columns_may_have_a_left_each(backend: Backend) -> None:
    """One column of the rank-one part per column of values."""
    steps, _ = chain([6, 4], 0.3, "float64")
    base, lefts = np.random.default_rng(1).random((2, 10, 9))
    got = backend.walk(replace(steps, left=lefts), base, base, 0.5, Until(5))
    for j in range(9):
        one, own = replace(steps, left=lefts[:, j : j + 1].copy()), base[:, j : j + 1].copy()
        alone = backend.walk(one, own, own, 0.5, Until(5))
        np.testing.assert_allclose(got.values[:, j], alone.values[:, 0], rtol=1e-13)


def check_a_block_ends_where_it_changes_no_more_than_its_tolerance(backend: Backend) -> None:
    """Each block stops by itself; its values do not change afterwards."""
    steps, dense = chain([8, 5, 3], 0.5, "float64")
    base, tolerance = np.ones((16, 1)), np.array([1e-2, 1e-9, np.inf])
    got = backend.walk(steps, base, 0 * base, 0.8, Until(500, tolerance))
    assert (got.changes <= tolerance).all()
    assert got.steps[2] == 1 < got.steps[0] < got.steps[1] < 500
    for b, part in enumerate(_parts(steps)):
        x = was = 0 * base
        for _ in range(got.steps[b]):
            was, x = x, base + 0.8 * dense @ x
        np.testing.assert_allclose(got.values[part], x[part], rtol=0, atol=1e-12)
        assert got.steps[b] == 1 or np.abs(x - was)[part].sum() <= tolerance[b]


def check_no_step_leaves_the_start(backend: Backend) -> None:
    """With a maximum of 0 steps, the result is the start."""
    steps, _ = chain([4, 3], 0.5, "float64")
    start = np.arange(7.0)[:, None]
    got = backend.walk(steps, start, start, 0.5, Until(0))
    np.testing.assert_array_equal(got.values, start)
    assert np.isinf(got.changes).all()
    assert not got.steps.any()


def chain(
    sizes: list[int], density: float, dtype: str, *, rank_one: bool = True
) -> tuple[Chain, NDArray[np.float64]]:
    """A chain with row sums of at most 1, and its dense matrix."""
    rng, blocks = np.random.default_rng(sum(sizes)), np.concatenate([[0], np.cumsum(sizes)])
    n, block = int(blocks[-1]), np.repeat(np.arange(len(sizes)), sizes)
    together = block[:, None] == block
    dense = (rng.random((n, n)) < density) * together * 1.0
    dense *= rng.random((n, n)) / np.maximum(dense.sum(axis=1, keepdims=True), 1)
    indptr, (rows, columns) = np.concatenate([[0], np.cumsum((dense != 0).sum(1))]), dense.nonzero()
    csr = CSR(indptr, columns.astype(np.int32), dense[rows, columns].astype(dtype), n)
    left, right = (rng.random((n, 1)) < 0.3).astype(dtype), (rng.random(n) / n).astype(dtype)
    if not rank_one:
        return Chain(csr, blocks), dense
    return Chain(csr, blocks, left, right), dense + left * right * together


def _parts(steps: Chain) -> list[slice]:
    return [slice(*ends) for ends in zip(steps.blocks[:-1], steps.blocks[1:], strict=True)]
