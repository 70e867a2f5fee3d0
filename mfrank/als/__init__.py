"""Alternating least squares: quadratic objectives, half-steps, initialization, fold-in."""

from mfrank.als.biases import Biased, BiasedSteps, als_with_biases
from mfrank.als.cost import epoch_seconds, shared_seconds, tables_at_once
from mfrank.als.engine import Halfway, Momentum, OnHalfStep, als, refuse_dislikes
from mfrank.als.features import FeaturePrior, Features
from mfrank.als.fold_in import Explanation, FoldIn, Solved, UserWeights
from mfrank.als.half_steps import Eigenbasis, HalfSteps, solve_in_own_basis
from mfrank.als.objectives import (
    EALS,
    IALS,
    RG2,
    RGX,
    WRMF,
    QuadraticObjective,
    RG2Sampled,
    RGXPrinted,
)
from mfrank.als.starts import (
    _add_noise,
    as_step,
    balance,
    check_start,
    first_biases,
    first_factors,
    random_factors,
    spectral_factors,
    spectral_item_factors,
)
from mfrank.als.touched import (
    FOLLOWING,
    FRESH,
    TouchedRows,
    WorkingTable,
    WorkingTables,
    alternate,
    groups_of,
)

__all__ = [
    "EALS",
    "FOLLOWING",
    "FRESH",
    "IALS",
    "RG2",
    "RGX",
    "WRMF",
    "Biased",
    "BiasedSteps",
    "Eigenbasis",
    "Explanation",
    "FeaturePrior",
    "Features",
    "FoldIn",
    "HalfSteps",
    "Halfway",
    "Momentum",
    "OnHalfStep",
    "QuadraticObjective",
    "RG2Sampled",
    "RGXPrinted",
    "Solved",
    "TouchedRows",
    "UserWeights",
    "WorkingTable",
    "WorkingTables",
    "_add_noise",
    "als",
    "als_with_biases",
    "alternate",
    "as_step",
    "balance",
    "check_start",
    "epoch_seconds",
    "first_biases",
    "first_factors",
    "groups_of",
    "random_factors",
    "refuse_dislikes",
    "shared_seconds",
    "solve_in_own_basis",
    "spectral_factors",
    "spectral_item_factors",
    "tables_at_once",
]
