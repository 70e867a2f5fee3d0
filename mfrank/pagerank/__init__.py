"""Supervised PageRank: random walks whose node and edge weights are learned from features.

Bogolubsky et al. 2016, "the paper" in this package, after Zhukovskii et al. 2014.
"""

from mfrank.pagerank.gbn import GBN
from mfrank.pagerank.gbp import GBP
from mfrank.pagerank.gfn import GFN
from mfrank.pagerank.graphs import Graphs
from mfrank.pagerank.loss import SquareLoss
from mfrank.pagerank.plain import RandomWalk, pagerank
from mfrank.pagerank.problem import Problem
from mfrank.pagerank.sessions import Sessions
from mfrank.pagerank.similar import similar_items
from mfrank.pagerank.stationary import Walker, power
from mfrank.pagerank.transitions import Transitions
from mfrank.pagerank.tuned import Tuned

__all__ = [
    "GBN",
    "GBP",
    "GFN",
    "Graphs",
    "Problem",
    "RandomWalk",
    "Sessions",
    "SquareLoss",
    "Transitions",
    "Tuned",
    "Walker",
    "pagerank",
    "power",
    "similar_items",
]
