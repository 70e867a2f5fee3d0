"""mfrank: matrix factorization for implicit feedback, with closed-form ranking losses."""

from mfrank.comparison import compare
from mfrank.factors import FactorStore
from mfrank.interactions import Interactions
from mfrank.models import ALS, load
from mfrank.objectives import EALS, IALS, RG2, RGX, WRMF, RG2Sampled, RGXPrinted
from mfrank.recommender import NotFittedError, Recommender
from mfrank.synthetic import synthetic

__all__ = [
    "ALS",
    "EALS",
    "IALS",
    "RG2",
    "RGX",
    "WRMF",
    "FactorStore",
    "Interactions",
    "NotFittedError",
    "RG2Sampled",
    "RGXPrinted",
    "Recommender",
    "__version__",
    "compare",
    "load",
    "synthetic",
]

__version__ = "0.1.0"
