"""mfrank: matrix factorization for implicit feedback, with closed-form ranking losses.

Public names are imported lazily, on first access, so ``import mfrank`` is fast and a program that
fits an ``ALS`` does not import the PageRank modules.
"""

from __future__ import annotations

import logging  # noqa: F401 - see below
import os
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

from mfrank._version import __version__

if TYPE_CHECKING:
    from mfrank.als.objectives import EALS, IALS, RG2, RGX, WRMF, RG2Sampled, RGXPrinted
    from mfrank.comparison.compare import compare
    from mfrank.data.datasets import movielens
    from mfrank.data.groups import Groups, by_activity, by_popularity
    from mfrank.data.interactions import Interactions
    from mfrank.data.judged import Judged
    from mfrank.data.session_splits import by_session
    from mfrank.data.splits import Split, by_ratio, by_time, leave_k_out, leave_last
    from mfrank.data.synthetic import synthetic
    from mfrank.data.unknown_ids import UnknownIdError
    from mfrank.data.user_splits import held_out_users
    from mfrank.data.weights import bm25_weight, log_weight, recency_weight, tfidf_weight
    from mfrank.descent.langevin import Langevin
    from mfrank.descent.optimizers import SGD, Adagrad, Adam
    from mfrank.descent.schedules import Constant, CosineDecay, StepDecay
    from mfrank.evaluation.beyond import (
        IntraListSimilarity,
        Miscalibration,
        Novelty,
        Serendipity,
    )
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
    from mfrank.evaluation.paired_differences import paired_differences
    from mfrank.evaluation.queries import evaluate_queries
    from mfrank.evaluation.stopping import EarlyStopping
    from mfrank.losses import Gradients, Lists, Loss
    from mfrank.losses.approx_ndcg import ApproxNDCG
    from mfrank.losses.bce import BCE
    from mfrank.losses.bpr import BPR
    from mfrank.losses.ksong import KSONG
    from mfrank.losses.lambda_rank import LambdaRank
    from mfrank.losses.list_mle import ListMLE
    from mfrank.losses.list_net import ListNet
    from mfrank.losses.neural_ndcg import NeuralNDCG
    from mfrank.losses.rank_net import RankNet
    from mfrank.losses.sml import SML
    from mfrank.losses.smooth_ap import SmoothAP
    from mfrank.losses.softmax import SampledSoftmax, Softmax
    from mfrank.losses.solc import SOLC
    from mfrank.losses.song import SONG
    from mfrank.losses.soprc import SOPRC
    from mfrank.losses.sparsemax import Sparsemax
    from mfrank.losses.stochastic_rank import StochasticRank
    from mfrank.losses.uib import UIB
    from mfrank.models.als import ALS
    from mfrank.models.descent import Descent
    from mfrank.models.ease import EASE
    from mfrank.models.exchange import (
        from_implicit,
        from_safetensors,
        to_implicit,
        to_safetensors,
    )
    from mfrank.models.faiss_index import FaissLists, from_faiss, to_faiss
    from mfrank.models.item_filter import ItemFilter
    from mfrank.models.item_knn import ItemKNN
    from mfrank.models.linear_ranker import LinearRanker
    from mfrank.models.loading import load
    from mfrank.models.onnx_graph import to_onnx
    from mfrank.models.page_rank.estimator import SupervisedPageRank
    from mfrank.models.parquet_factors import from_parquet, to_parquet
    from mfrank.models.popularity import Popularity
    from mfrank.models.reranker.reranker import Reranker
    from mfrank.pagerank.prior import with_prior
    from mfrank.retrieval.fitted import NotFittedError
    from mfrank.retrieval.item_blend import ItemBlend
    from mfrank.retrieval.recommender import Recommender
    from mfrank.steering.steering import Steering
    from mfrank.store.blend import blend
    from mfrank.store.factors import FactorStore
    from mfrank.tuning.tune import tune

__all__ = [
    "ALS",
    "AUC",
    "AUPRC",
    "BCE",
    "BPR",
    "EALS",
    "EASE",
    "IALS",
    "KSONG",
    "MAP",
    "MRR",
    "NDCG",
    "RG2",
    "RGX",
    "SGD",
    "SML",
    "SOLC",
    "SONG",
    "SOPRC",
    "UIB",
    "WRMF",
    "Adagrad",
    "Adam",
    "ApproxNDCG",
    "Constant",
    "CosineDecay",
    "Coverage",
    "Descent",
    "EarlyStopping",
    "FactorStore",
    "FaissLists",
    "Gini",
    "Gradients",
    "Groups",
    "HitRate",
    "Interactions",
    "IntraListSimilarity",
    "ItemBlend",
    "ItemFilter",
    "ItemKNN",
    "Judged",
    "LambdaRank",
    "Langevin",
    "LinearRanker",
    "ListMLE",
    "ListNet",
    "Lists",
    "Loss",
    "Miscalibration",
    "NeuralNDCG",
    "NotFittedError",
    "Novelty",
    "Popularity",
    "Precision",
    "RG2Sampled",
    "RGXPrinted",
    "RankNet",
    "Recall",
    "Recommender",
    "Reranker",
    "SampledSoftmax",
    "Serendipity",
    "SmoothAP",
    "Softmax",
    "Sparsemax",
    "Split",
    "Steering",
    "StepDecay",
    "StochasticRank",
    "SupervisedPageRank",
    "UnknownIdError",
    "__version__",
    "blend",
    "bm25_weight",
    "by_activity",
    "by_popularity",
    "by_ratio",
    "by_session",
    "by_time",
    "compare",
    "definitions",
    "evaluate",
    "evaluate_queries",
    "from_faiss",
    "from_implicit",
    "from_parquet",
    "from_safetensors",
    "held_out_users",
    "leave_k_out",
    "leave_last",
    "load",
    "log_weight",
    "movielens",
    "paired_differences",
    "recency_weight",
    "synthetic",
    "tfidf_weight",
    "to_faiss",
    "to_implicit",
    "to_onnx",
    "to_parquet",
    "to_safetensors",
    "tune",
    "with_prior",
]

_HOMES = {
    "als.objectives": ("EALS", "IALS", "RG2", "RG2Sampled", "RGX", "RGXPrinted", "WRMF"),
    "data.datasets": ("movielens",),
    "data.groups": ("Groups", "by_activity", "by_popularity"),
    "data.interactions": ("Interactions",),
    "data.judged": ("Judged",),
    "data.session_splits": ("by_session",),
    "data.splits": ("Split", "by_ratio", "by_time", "leave_k_out", "leave_last"),
    "data.synthetic": ("synthetic",),
    "data.unknown_ids": ("UnknownIdError",),
    "data.user_splits": ("held_out_users",),
    "data.weights": ("bm25_weight", "log_weight", "recency_weight", "tfidf_weight"),
    "descent.langevin": ("Langevin",),
    "descent.optimizers": ("Adagrad", "Adam", "SGD"),
    "descent.schedules": ("Constant", "CosineDecay", "StepDecay"),
    "evaluation.beyond": ("IntraListSimilarity", "Miscalibration", "Novelty", "Serendipity"),
    "comparison.compare": ("compare",),
    "evaluation.evaluate": ("evaluate",),
    "evaluation.metrics": (
        "AUC",
        "AUPRC",
        "Coverage",
        "Gini",
        "HitRate",
        "MAP",
        "MRR",
        "NDCG",
        "Precision",
        "Recall",
    ),
    "evaluation.names": ("definitions",),
    "evaluation.paired_differences": ("paired_differences",),
    "evaluation.queries": ("evaluate_queries",),
    "evaluation.stopping": ("EarlyStopping",),
    "losses": ("Lists", "Loss", "Gradients"),
    "losses.approx_ndcg": ("ApproxNDCG",),
    "losses.bce": ("BCE",),
    "losses.bpr": ("BPR",),
    "losses.ksong": ("KSONG",),
    "losses.lambda_rank": ("LambdaRank",),
    "losses.list_mle": ("ListMLE",),
    "losses.list_net": ("ListNet",),
    "losses.neural_ndcg": ("NeuralNDCG",),
    "losses.rank_net": ("RankNet",),
    "losses.sml": ("SML",),
    "losses.smooth_ap": ("SmoothAP",),
    "losses.softmax": ("SampledSoftmax", "Softmax"),
    "losses.solc": ("SOLC",),
    "losses.song": ("SONG",),
    "losses.soprc": ("SOPRC",),
    "losses.sparsemax": ("Sparsemax",),
    "losses.stochastic_rank": ("StochasticRank",),
    "losses.uib": ("UIB",),
    "models.als": ("ALS",),
    "models.descent": ("Descent",),
    "models.ease": ("EASE",),
    "models.exchange": ("from_implicit", "from_safetensors", "to_implicit", "to_safetensors"),
    "models.faiss_index": ("FaissLists", "from_faiss", "to_faiss"),
    "models.item_filter": ("ItemFilter",),
    "models.item_knn": ("ItemKNN",),
    "models.linear_ranker": ("LinearRanker",),
    "models.loading": ("load",),
    "models.onnx_graph": ("to_onnx",),
    "models.page_rank.estimator": ("SupervisedPageRank",),
    "models.parquet_factors": ("from_parquet", "to_parquet"),
    "models.popularity": ("Popularity",),
    "models.reranker.reranker": ("Reranker",),
    "pagerank.prior": ("with_prior",),
    "retrieval.fitted": ("NotFittedError",),
    "retrieval.item_blend": ("ItemBlend",),
    "retrieval.recommender": ("Recommender",),
    "steering.steering": ("Steering",),
    "store.blend": ("blend",),
    "store.factors": ("FactorStore",),
    "tuning.tune": ("tune",),
}

_FOLDERS = (
    "als",
    "arrays",
    "backends",
    "cli",
    "data",
    "descent",
    "evaluation",
    "files",
    "losses",
    "models",
    "pagerank",
    "plots",
    "retrieval",
    "steering",
    "store",
    "tuning",
)

_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


_importing = RLock()
"""Held while a name is imported, and while the process forks: a child whose parent was within an
import on another thread would wait for it forever."""


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF and name not in _FOLDERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _importing:
        if name in _FOLDERS:
            return import_module(f"{__name__}.{name}")
        found = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = found
    return found


def _renew() -> None:
    global _importing
    _importing = RLock()


# Logging, which is imported above, registers its lock before: so at a fork that lock is taken after
# this one, and a thread that imports, and takes it to name a logger, comes to its end.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _importing.acquire(),
        after_in_parent=lambda: _importing.release(),
        after_in_child=_renew,
    )


def __dir__() -> list[str]:
    """The public names, and the modules that have more of them; not what this file imports."""
    return sorted({*__all__, "backends", "losses", "pagerank", "plots"})
