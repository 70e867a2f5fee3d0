"""The spectral start holds the leading singular directions of the normalized likes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from fits import BACKENDS
from numpy.typing import NDArray
from problems import toy

from mfrank.als import _add_noise, random_factors, spectral_factors, spectral_item_factors
from mfrank.arrays import CSR
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
def test_both_sides_start_as_stated(dtype: str) -> None:
    """Users are sums of D_i^-1 q_i over sqrt(n); mean row norms are 3 and 1."""
    likes = toy(30, 20, values="ones").toarray()
    n, m = likes.sum(1), likes.sum(0)
    assert (n == 0).any()
    assert (m == 0).any()
    both = [CSR.from_scipy(sp.csr_array(side), dtype) for side in (likes, likes.T)]
    users, items = spectral_factors(*both, 5, np.random.default_rng(1), dtype, choose())
    assert users.dtype == items.dtype == dtype
    of_items = start(sp.csr_array(likes), 5, dtype=dtype)
    of_users = (likes / np.sqrt(np.maximum(n, 1))[:, None]) @ (of_items / np.maximum(m, 1)[:, None])
    for found, expected, length in ((users, of_users, 3), (items, of_items, 1)):
        norms = np.linalg.norm(expected, axis=1)
        scaled = expected * (length / norms[norms > 0].mean())
        np.testing.assert_allclose(found, scaled, rtol=1e-5, atol=1e-6)


def test_without_likes_users_start_at_zero() -> None:
    both = [CSR.from_scipy(sp.csr_array(shape), "f8") for shape in ((4, 5), (5, 4))]
    users, items = spectral_factors(*both, 2, np.random.default_rng(1), "float64", choose())
    assert not users.any()
    assert np.linalg.norm(items, axis=1).mean() == pytest.approx(1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_random_factors_are_seeded_and_scaled(dtype: str) -> None:
    a, b = (random_factors((500, 64), np.random.default_rng(3), of) for of in (dtype, "float32"))
    assert a.dtype == dtype  # of the same numbers
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
    levels = np.unique(noise.astype(np.float64))
    assert len(levels) == 256
    assert levels.std() == pytest.approx(0.5, rel=1e-6)
