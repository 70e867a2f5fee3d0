"""Small fitted models that several test files share."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from problems import toy

import mfrank
from mfrank.als import QuadraticObjective
from mfrank.backends import cpu

BACKEND = "auto"
BACKENDS = ["reference"] + ["cpu"] * (cpu.why_unavailable() is None)

USERS = [f"u{row}" for row in range(9)]
ITEMS = [f"i{row}" for row in range(7)]


def als(objective: QuadraticObjective | None = None, **options: Any) -> mfrank.ALS:
    """An estimator small enough for the toy data."""
    small: dict[str, Any] = {"factors": 4, "iterations": 3, "random_state": 0, "backend": BACKEND}
    return mfrank.ALS(objective or mfrank.IALS(), **(small | options))


def labeled(matrix: sp.csr_array | None = None) -> mfrank.Interactions:
    """The toy data with users u0, u1, ... and items i0, i1, ..."""
    matrix = toy() if matrix is None else matrix
    return mfrank.Interactions.from_sparse(
        matrix,
        user_ids=[f"u{row}" for row in range(matrix.shape[0])],
        item_ids=[f"i{row}" for row in range(matrix.shape[1])],
    )


def same_factors(a: mfrank.Recommender, b: mfrank.Recommender) -> bool:
    """Whether two models have the same factors, bit by bit."""
    return np.array_equal(a.user_factors, b.user_factors) and np.array_equal(
        a.item_factors, b.item_factors
    )


def equal(got: Any, expected: Any) -> None:
    """Two answers have the same ids and the same scores."""
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a, b)
