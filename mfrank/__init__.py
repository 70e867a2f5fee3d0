"""mfrank: matrix factorization for implicit feedback, with closed-form ranking losses."""

from mfrank.comparison.compare import compare
from mfrank.data.datasets import movielens
from mfrank.data.interactions import Interactions
from mfrank.data.splits import Split, by_ratio, by_time, leave_k_out, leave_last
from mfrank.data.synthetic import synthetic
from mfrank.data.user_splits import held_out_users
from mfrank.evaluation.evaluate import evaluate
from mfrank.evaluation.metrics import (
    AUC,
    AUPRC,
    MAP,
    MRR,
    NDCG,
    Coverage,
    Gini,
    HitRate,
    Precision,
    Recall,
)
from mfrank.evaluation.names import definitions
from mfrank.evaluation.stopping import EarlyStopping
from mfrank.models import ALS, load
from mfrank.objectives import EALS, IALS, RG2, RGX, WRMF, RG2Sampled, RGXPrinted
from mfrank.retrieval.recommender import NotFittedError, Recommender
from mfrank.store.factors import FactorStore
from mfrank.version import __version__

__all__ = [
    "ALS",
    "AUC",
    "AUPRC",
    "EALS",
    "IALS",
    "MAP",
    "MRR",
    "NDCG",
    "RG2",
    "RGX",
    "WRMF",
    "Coverage",
    "EarlyStopping",
    "FactorStore",
    "Gini",
    "HitRate",
    "Interactions",
    "NotFittedError",
    "Precision",
    "RG2Sampled",
    "RGXPrinted",
    "Recall",
    "Recommender",
    "Split",
    "__version__",
    "by_ratio",
    "by_time",
    "compare",
    "definitions",
    "evaluate",
    "held_out_users",
    "leave_k_out",
    "leave_last",
    "load",
    "movielens",
    "synthetic",
]
