"""The inverse by blocks is the inverse, whatever the blocks, and is given up in time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank.arrays import OutOfTimeError, time_limit
from mfrank.models import ease as module
from mfrank.models import inverse


def gram_of(n: int, seed: int) -> np.ndarray:
    table = np.random.default_rng(seed).normal(size=(n + 3, n))
    return table.T @ table


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 45), st.floats(0.1, 100.0), st.integers(0, 9))
def test_the_product_with_the_matrix_is_one(n: int, block: int, ridge: float, seed: int) -> None:
    gram = gram_of(n, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        found = inverse(lambda rows: gram[rows], n, ridge)
    np.testing.assert_allclose(found, found.T, atol=1e-12)
    np.testing.assert_allclose(found @ (gram + ridge * np.eye(n)), np.eye(n), atol=1e-9)


def test_single_precision_is_nearly_as_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 16)
    gram = gram_of(100, 0)
    single, double = (inverse(lambda rows: gram[rows], 100, 1.0, dtype) for dtype in ("f4", "f8"))
    assert single.dtype == np.float32
    assert np.linalg.norm(single - double) < 1e-4 * np.linalg.norm(double)


def test_what_is_not_positive_definite_is_refused() -> None:
    indefinite = np.diag([1.0, -5.0])
    with pytest.raises(FloatingPointError):
        inverse(lambda rows: indefinite[rows], 2, 1.0)


def test_it_is_given_up_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 2)
    ticks, asked = iter(range(10**6)), list[slice]()
    gram = gram_of(40, 0)

    def rows(part: slice) -> np.ndarray:
        asked.append(part)
        return gram[part]

    with pytest.raises(OutOfTimeError), time_limit(5.0, lambda: float(next(ticks))):
        inverse(rows, 40, 1.0)
    assert len(asked) < 10
