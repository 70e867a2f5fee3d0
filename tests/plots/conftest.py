"""Fits and evaluations that several pictures show."""

from __future__ import annotations

from typing import Any

import pytest

import mfrank
from mfrank.evaluation import Evaluation


@pytest.fixture(scope="session")
def split() -> Any:
    return mfrank.by_ratio(mfrank.synthetic(200, 80, 3000, random_state=0))


@pytest.fixture(scope="session")
def models(split: Any) -> dict[str, Any]:
    stopping = mfrank.EarlyStopping(split.valid)
    als = mfrank.ALS(factors=8, iterations=6, random_state=0, track_objective=True)
    other = mfrank.ALS(mfrank.WRMF(), factors=4, iterations=4, random_state=0, track_objective=True)
    return {
        "RG2": als.fit(split.train, stopping=stopping),
        "WRMF": other.fit(split.train, stopping=stopping),
    }


@pytest.fixture(scope="session")
def evaluations(split: Any, models: dict[str, Any]) -> dict[str, Evaluation]:
    models = models | {"popularity": mfrank.Popularity().fit(split.train)}
    return {name: mfrank.evaluate(model, split.test) for name, model in models.items()}
