"""mfrank: matrix factorization for implicit feedback, with closed-form ranking losses."""

# Imported before any fit asks for them: a thread could not do so at exit, nor the child of a fork
# that fell into the import.
from mfrank.backends import cpu as _cpu  # noqa: F401
from mfrank.backends import reference as _reference  # noqa: F401
from mfrank.comparison.compare import compare
from mfrank.data.datasets import movielens
from mfrank.data.interactions import Interactions
from mfrank.data.judged import Judged
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
from mfrank.evaluation.queries import evaluate_queries
from mfrank.evaluation.stopping import EarlyStopping
from mfrank.langevin import Langevin
from mfrank.models import ALS, Descent, LinearRanker, SupervisedPageRank, load
from mfrank.objectives import EALS, IALS, RG2, RGX, WRMF, RG2Sampled, RGXPrinted
from mfrank.optimisers import SGD, Adagrad, Adam
from mfrank.pagerank.prior import with_prior
from mfrank.reranking.reranker import Reranker
from mfrank.retrieval.recommender import NotFittedError, Recommender
from mfrank.schedules import Constant, CosineDecay, StepDecay
from mfrank.store.blend import blend
from mfrank.store.factors import FactorStore
from mfrank.trainers.approx_ndcg import ApproxNDCG
from mfrank.trainers.bce import BCE
from mfrank.trainers.bpr import BPR
from mfrank.trainers.ksong import KSONG
from mfrank.trainers.lambda_rank import LambdaRank
from mfrank.trainers.list_mle import ListMLE
from mfrank.trainers.list_net import ListNet
from mfrank.trainers.neural_ndcg import NeuralNDCG
from mfrank.trainers.rank_net import RankNet
from mfrank.trainers.sml import SML
from mfrank.trainers.smooth_ap import SmoothAP
from mfrank.trainers.softmax import SampledSoftmax, Softmax
from mfrank.trainers.solc import SOLC
from mfrank.trainers.song import SONG
from mfrank.trainers.soprc import SOPRC
from mfrank.trainers.sparsemax import Sparsemax
from mfrank.trainers.stochastic_rank import StochasticRank
from mfrank.trainers.uib import UIB
from mfrank.version import __version__

__all__ = [
    "ALS",
    "AUC",
    "AUPRC",
    "BCE",
    "BPR",
    "EALS",
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
    "Gini",
    "HitRate",
    "Interactions",
    "Judged",
    "LambdaRank",
    "Langevin",
    "LinearRanker",
    "ListMLE",
    "ListNet",
    "NeuralNDCG",
    "NotFittedError",
    "Precision",
    "RG2Sampled",
    "RGXPrinted",
    "RankNet",
    "Recall",
    "Recommender",
    "Reranker",
    "SampledSoftmax",
    "SmoothAP",
    "Softmax",
    "Sparsemax",
    "Split",
    "StepDecay",
    "StochasticRank",
    "SupervisedPageRank",
    "__version__",
    "blend",
    "by_ratio",
    "by_time",
    "compare",
    "definitions",
    "evaluate",
    "evaluate_queries",
    "held_out_users",
    "leave_k_out",
    "leave_last",
    "load",
    "movielens",
    "synthetic",
    "with_prior",
]
