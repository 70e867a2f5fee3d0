"""Factors and held-out interactions to evaluate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.evaluation import (
    AUC,
    AUPRC,
    MAP,
    MRR,
    NDCG,
    Coverage,
    Evaluation,
    Gini,
    HitRate,
    LimitedAUC,
    Precision,
    Recall,
    UnbiasedNDCG,
    UnbiasedRecall,
)

Dense = NDArray[np.float64]


EVERYTHING = (
    NDCG @ 3, NDCG, Recall @ 2, Recall(capped=True, micro=True) @ 4, Precision @ 30, MAP @ 5,
    MRR, HitRate @ 1, LimitedAUC @ 3, AUC, AUPRC, Coverage @ 2, Gini @ 5,
    UnbiasedRecall @ 3, UnbiasedNDCG(exponent=2) @ 4,
)  # fmt: skip


@dataclass
class Factors:
    user_factors: NDArray[Any]
    item_factors: NDArray[Any]
    item_biases: NDArray[Any] | None = None

    @property
    def scores(self) -> Dense:
        bias = 0 if self.item_biases is None else self.item_biases
        return np.asarray(self.user_factors @ self.item_factors.T + bias)


def problem(
    seed: int = 0, n_users: int = 12, n_items: int = 9
) -> tuple[Factors, sp.csr_array, sp.csr_array]:
    """Integer factors, so that scores are exact and often tied; disjoint train and test."""
    rng = np.random.default_rng(seed)
    model = Factors(
        rng.integers(-2, 3, (n_users, 2)).astype(np.float32),
        rng.integers(-2, 3, (n_items, 2)).astype(np.float32),
        rng.integers(0, 2, n_items).astype(np.float32),
    )
    part = rng.random((n_users, n_items))
    train = (part < 0.3).astype(np.float64)
    test = np.where(part > 0.7, rng.integers(1, 4, part.shape), 0.0)
    return model, sp.csr_array(train), sp.csr_array(test)


def ranked(scores: Dense, seen: NDArray[np.bool_]) -> list[int]:
    """Items that are not seen, by descending score, ties by lower id."""
    return [int(i) for i in np.argsort(-scores, kind="stable") if not seen[i]]


def values(evaluation: Evaluation) -> Dense:
    return np.array([score.value for score in evaluation.scores.values()])


def per_user(evaluation: Evaluation, metric: Any) -> Dense:
    score = evaluation[metric].per_user
    assert score is not None
    return score
