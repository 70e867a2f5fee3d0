"""The sums over lists in numpy's functions: the specification for all backends."""

from __future__ import annotations

from typing import ClassVar

from mfrank.arrays.random import random_normals
from mfrank.losses.sums.pair_losses import pair_losses
from mfrank.losses.sums.ramps import PairwiseRamps
from mfrank.losses.sums.row_hinges import row_hinges
from mfrank.losses.sums.simplex import project
from mfrank.losses.sums.smoothing import smoothed
from mfrank.losses.sums.soft_ndcg import soft_ndcg
from mfrank.losses.sums.softmax_sums import softmax
from mfrank.losses.sums.squared_hinges import squared_hinges
from mfrank.losses.sums.top_thresholds import top_thresholds

__all__ = ["WRITTEN_OUT", "WrittenOut"]


class WrittenOut:
    """:class:`mfrank.losses.sums.ListSums` for the arrays of any library with numpy's interface."""

    holds_pairs: ClassVar[bool] = True

    ramps = staticmethod(PairwiseRamps)
    squared_hinges = staticmethod(squared_hinges)
    row_hinges = staticmethod(row_hinges)
    pair_losses = staticmethod(pair_losses)
    softmax = staticmethod(softmax)
    project = staticmethod(project)
    smoothed = staticmethod(smoothed)
    soft_ndcg = staticmethod(soft_ndcg)
    top_thresholds = staticmethod(top_thresholds)
    normals = staticmethod(random_normals)


WRITTEN_OUT = WrittenOut()
