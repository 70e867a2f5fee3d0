"""Stochastic gradient descent for any ranking loss: sampling, factor tables, optimizers."""

from mfrank.descent.engine import Batches, DescentPlan, descend
from mfrank.descent.factor_tables import (
    SCORINGS,
    FactorRows,
    FactorTables,
    GradientSums,
    SumsAt,
    joined,
)
from mfrank.descent.linear import QueryLists, descend_linear
from mfrank.descent.optimizers import (
    SGD,
    Adagrad,
    Adam,
    Constant,
    CosineDecay,
    Langevin,
    Optimizer,
    Schedule,
    StepDecay,
    Touched,
)
from mfrank.descent.sampler import (
    Drawn,
    ListDrawer,
    NegativeSampling,
    Sampling,
    negative_weight,
    popularity_weights,
)

__all__ = [
    "SCORINGS",
    "SGD",
    "Adagrad",
    "Adam",
    "Batches",
    "Constant",
    "CosineDecay",
    "DescentPlan",
    "Drawn",
    "FactorRows",
    "FactorTables",
    "GradientSums",
    "Langevin",
    "ListDrawer",
    "NegativeSampling",
    "Optimizer",
    "QueryLists",
    "Sampling",
    "Schedule",
    "StepDecay",
    "SumsAt",
    "Touched",
    "descend",
    "descend_linear",
    "joined",
    "negative_weight",
    "popularity_weights",
]
