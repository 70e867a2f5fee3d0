"""The spectral start holds the leading singular directions of the normalized likes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from fits import BACKENDS
from numpy.typing import NDArray
from problems import toy

from mfrank.als.spectral import _add_noise, random_factors, spectral_item_factors
from mfrank.arrays.csr import CSR
from mfrank.backends import choose

NOISE = 0.005  # Row norms of the noise are near 0.01, those of the factors from 2 upwards.


def start(matrix: sp.csr_array, width: int, backend: str = "auto", **options: object) -> NDArray:
    dtype = options.get("dtype", "float64")
    both = (CSR.from_scipy(sp.csr_array(side), dtype) for side in (matrix, matrix.T))
    rng = np.random.default_rng(1)
    return spectral_item_factors(*both, width, rng, dtype, choose(backend))


def truth(matrix: sp.csr_array, width: int) -> NDArray[np.float64]:
    """4 D^1/2 V S V' D^1/2 of the leading directions, which no rotation changes."""
    likes = (matrix.toarray() > 0).astype(float)
    users, items = (np.maximum(likes.sum(axis), 1) for axis in (1, 0))
    _, s, vt = np.linalg.svd(likes / np.sqrt(users[:, None] * items))
    scaled = np.sqrt(items)[:, None] * vt[:width].T
    return 4 * (scaled * s[:width]) @ scaled.T


def communities(sizes: tuple[int, ...] = (40, 30, 20, 10), seed: int = 0) -> sp.csr_array:
    """Users who like most of one group's items and few of the others': a gap behind each group."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(sizes)), sizes)
    chance = np.where(group[:, None] == group, 0.8, 0.02)
    return sp.csr_array((rng.random(chance.shape) < chance).astype(float))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("values", ["ones", "counts", "dislikes"])
def test_all_directions_give_the_whole_normalised_matrix(backend: str, values: str) -> None:
    matrix = toy(values=values)
    found = start(matrix, 7, backend)
    expected = truth(matrix, 7)
    np.testing.assert_allclose(found @ found.T, expected, atol=NOISE * expected.max())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_leading_directions_are_found_where_a_gap_sets_them_apart(dtype: str) -> None:
    matrix = communities()
    found = start(matrix, 4, dtype=dtype)
    assert found.dtype == dtype
    expected = truth(matrix, 4)
    np.testing.assert_allclose(found @ found.T, expected, atol=0.03 * expected.max())


def test_directions_that_the_data_lack_are_noise() -> None:
    matrix = toy(12, 3, density=0.8)
    found = start(matrix, 9)
    expected = truth(matrix, 3)
    np.testing.assert_allclose(found @ found.T, expected, atol=NOISE * expected.max())
    assert np.linalg.matrix_rank(found) == 3


@pytest.mark.parametrize("shape", [(4, 5), (1, 1), (0, 3), (3, 0)])
def test_empty_data_give_a_small_random_start(shape: tuple[int, int]) -> None:
    found = start(sp.csr_array(shape), 4)
    assert found.shape == (shape[1], 4)
    assert (found != 0).all()
    assert (np.abs(found) < 0.05).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_random_factors_are_seeded_and_scaled(dtype: str) -> None:
    a, b = (random_factors((500, 64), np.random.default_rng(3), dtype) for _ in range(2))
    assert a.dtype == dtype
    np.testing.assert_array_equal(a, b)
    assert np.linalg.norm(a, axis=1).mean() == pytest.approx(0.1, rel=0.05)
    assert abs(a.mean()) < 1e-3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_noise_has_the_stated_mean_and_deviation(dtype: str) -> None:
    noise = np.zeros((4000, 50), dtype)
    _add_noise(noise, 0.5, np.random.default_rng(0))
    n = noise.size
    assert abs(noise.mean(dtype=np.float64)) <= 4 * 0.5 / np.sqrt(n)
    assert noise.std(dtype=np.float64) == pytest.approx(0.5, rel=2 / np.sqrt(n))
    assert len(np.unique(noise)) == 256
