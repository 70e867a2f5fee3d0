"""The estimators that users meet, one file each: fit, then everything a ``Recommender`` does."""

from mfrank.models.als import ALS
from mfrank.models.descent import Descent
from mfrank.models.linear_ranker import LinearRanker
from mfrank.models.loading import load
from mfrank.models.page_rank import SupervisedPageRank

__all__ = ["ALS", "Descent", "LinearRanker", "SupervisedPageRank", "load"]
