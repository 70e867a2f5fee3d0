"""The contenders of a comparison when the caller names none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mfrank.als.quadratic import QuadraticObjective
from mfrank.arrays.random import Seed
from mfrank.comparison.contenders import DEFAULT_OBJECTIVES, default_models
from mfrank.models.ease import EASE
from mfrank.models.item_knn import ItemKNN
from mfrank.models.popularity import Popularity
from mfrank.tuning.tune import tune

__all__ = ["usual_factors", "usual_models"]


def usual_factors(factors: int | None, *, tuned: bool) -> int:
    """The width of models or, if they are tuned, the most that is tried."""
    if factors is not None:
        return factors
    return 512 if tuned else 64


def usual_models(
    objectives: Sequence[QuadraticObjective] | None = None,
    *,
    tuned: bool,
    factors: int | None,
    iterations: int,
    n_threads: int,
    random_state: Seed,
) -> dict[str, Any]:
    """The models of :func:`default_models` or, if they are tuned, the best of both libraries.

    These are :func:`mfrank.tune` itself, implicit's ALS if it is installed, and as baselines EASE,
    ItemKNN and Popularity. With ``objectives`` there is an ALS for each of them instead.
    """
    search_all = tuned and not objectives
    models = default_models(
        () if search_all else objectives or DEFAULT_OBJECTIVES,
        factors=usual_factors(factors, tuned=tuned),
        iterations=iterations,
        n_threads=n_threads,
        random_state=random_state,
    )
    if not search_all:
        return models
    return {
        "mfrank.tune": tune,
        "mfrank EASE": EASE(),
        "mfrank ItemKNN": ItemKNN(),
        "mfrank Popularity": Popularity(),
        **{name: model for name, model in models.items() if name == "implicit ALS"},
    }
