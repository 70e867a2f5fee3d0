"""Comparison of models, including implicit's, on one split with equal measurements."""

from mfrank.comparison.contenders import (
    DEFAULT_OBJECTIVES,
    default_models,
    fit_once,
    objective_name,
    objective_value,
    usual_models,
)
from mfrank.comparison.foreign_families import ImplicitALS
from mfrank.comparison.opponents import OPPONENTS, ItemWeights
from mfrank.comparison.protocol import peak_memory
from mfrank.comparison.scoreboard import Comparison
from mfrank.comparison.side_by_side import DEFAULT_METRICS, compare
from mfrank.comparison.tuned import _Recipe

__all__ = [
    "DEFAULT_METRICS",
    "DEFAULT_OBJECTIVES",
    "OPPONENTS",
    "Comparison",
    "ImplicitALS",
    "ItemWeights",
    "_Recipe",
    "compare",
    "default_models",
    "fit_once",
    "objective_name",
    "objective_value",
    "peak_memory",
    "usual_models",
]
