"""The basis in which a half-step's shared matrix is diagonal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import Dense

from mfrank.als import Eigenbasis
from mfrank.backends import Gram, reference


def gram_of(rank: int, width: int, scale: float = 1.0, seed: int = 0) -> Gram:
    """F'F and F'1 of a table of some rank, rotated so that no axis is a null direction."""
    rng = np.random.default_rng(seed)
    table = scale * rng.normal(size=(20, rank)) @ rng.normal(size=(rank, width))
    return Gram(table.T @ table, table.T @ np.ones(20))


@given(
    width=st.integers(1, 8),
    rank=st.integers(0, 8),
    scale=st.sampled_from([1e-9, 1.0, 1e6]),
    seed=st.integers(0, 99),
)
def test_it_is_a_rotation_that_makes_the_matrix_diagonal(
    width: int, rank: int, scale: float, seed: int
) -> None:
    gram = gram_of(rank, width, scale, seed)
    at = Eigenbasis.of(gram)
    values, size = at.shared.values, np.abs(gram.matrix).max()
    np.testing.assert_allclose(at.basis.T @ at.basis, np.eye(width), atol=1e-12)
    turned = at.basis.T @ gram.matrix @ at.basis
    np.testing.assert_allclose(turned, np.diag(values), atol=1e-12 * size)
    back = at.basis @ at.shared.vector
    np.testing.assert_allclose(back, gram.vector, atol=1e-7 * np.abs(gram.vector).max())
    assert (np.diff(values) >= 0).all()
    # What only rounding made is exactly 0, whatever the scale: so kernels see the rank.
    assert at.n_null == max(width - rank, 0)
    assert not at.shared.vector[: at.n_null].any()


def test_a_vector_outside_the_span_of_the_matrix_is_kept() -> None:
    """As of observed cells whose factors cancel in the matrix, though not in the vector."""
    at = Eigenbasis.of(Gram(np.diag([0.0, 2.0, 0.0]), np.array([3.0, 1.0, 1e-9])))
    assert sorted(at.shared.vector) == [0, 1, 3]
    assert list(at.shared.values) == [0, 0, 2]


@pytest.mark.parametrize("flipped", [[1, 1, 1, 1], [-1, 1, -1, 1], [-1, -1, -1, -1]])
def test_signs_are_not_those_that_a_library_chose(
    monkeypatch: pytest.MonkeyPatch, flipped: list[int]
) -> None:
    gram, eigh = gram_of(3, 4), np.linalg.eigh
    plain = Eigenbasis.of(gram, reference)

    def otherwise(matrix: Dense) -> tuple[Dense, Dense]:
        values, basis = eigh(matrix)
        return values, basis * flipped

    monkeypatch.setattr(np.linalg, "eigh", otherwise)
    at = Eigenbasis.of(gram, reference)
    np.testing.assert_allclose(at.basis, plain.basis, atol=1e-12)
    np.testing.assert_allclose(at.shared.vector, plain.shared.vector, atol=1e-10)
    assert (at.basis.max(axis=0) == np.abs(at.basis).max(axis=0)).all()
