"""Ranking evaluation: metrics as values, full-ranking evaluation, paired comparisons."""

from mfrank.evaluation.beyond import (
    IntraListSimilarity,
    Miscalibration,
    Novelty,
    Serendipity,
    UnbiasedMetric,
    UnbiasedNDCG,
    UnbiasedRecall,
)
from mfrank.evaluation.full_ranking import DEFAULT_METRICS, evaluate
from mfrank.evaluation.inputs import relevant_of
from mfrank.evaluation.judgements import JudgedLists, judge, stand
from mfrank.evaluation.learned import items_return
from mfrank.evaluation.learning_to_rank import evaluate_queries
from mfrank.evaluation.metrics import (
    ALL,
    AUC,
    AUPRC,
    MAP,
    MRR,
    NDCG,
    CatalogMetric,
    Coverage,
    Gini,
    HitRate,
    KnownMetric,
    LimitedAUC,
    ListMetric,
    Metric,
    Precision,
    RankingMetric,
    Recall,
)
from mfrank.evaluation.names import as_metric, definitions, metric, to_maximize
from mfrank.evaluation.paired_tests import paired_change, paired_differences
from mfrank.evaluation.rankers import SampledLists
from mfrank.evaluation.report import Evaluation
from mfrank.evaluation.scores import Difference, Score, p_value
from mfrank.evaluation.sklearn_tools import fold_rows, scorer
from mfrank.evaluation.stopping import EarlyStopping

__all__ = [
    "ALL",
    "AUC",
    "AUPRC",
    "DEFAULT_METRICS",
    "MAP",
    "MRR",
    "NDCG",
    "CatalogMetric",
    "Coverage",
    "Difference",
    "EarlyStopping",
    "Evaluation",
    "Gini",
    "HitRate",
    "IntraListSimilarity",
    "JudgedLists",
    "KnownMetric",
    "LimitedAUC",
    "ListMetric",
    "Metric",
    "Miscalibration",
    "Novelty",
    "Precision",
    "RankingMetric",
    "Recall",
    "SampledLists",
    "Score",
    "Serendipity",
    "UnbiasedMetric",
    "UnbiasedNDCG",
    "UnbiasedRecall",
    "as_metric",
    "definitions",
    "evaluate",
    "evaluate_queries",
    "fold_rows",
    "items_return",
    "judge",
    "metric",
    "p_value",
    "paired_change",
    "paired_differences",
    "relevant_of",
    "scorer",
    "stand",
    "to_maximize",
]
