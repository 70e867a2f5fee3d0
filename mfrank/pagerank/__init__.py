"""Supervised PageRank: random walks whose node and edge weights are learned from features.

Bogolubsky et al. 2016, "the paper" in this package, after Zhukovskii et al. 2014.
"""

from mfrank.pagerank.graphs import Graphs
from mfrank.pagerank.item_walk import ItemWalk, Path, heaviest_paths, with_prior
from mfrank.pagerank.learners import GBN, GBP, GFN, Ball, LearnerStep, probe_gradient
from mfrank.pagerank.next_clicks import Draw, by_source, item_graph, next_click_queries, recencies
from mfrank.pagerank.plain import RandomWalk, pagerank, similar_items
from mfrank.pagerank.problem import (
    Accuracy,
    Pairs,
    Problem,
    SquareLoss,
    adjoint,
    adjoint_within,
    gradient,
    gradient_error,
    loss_error,
    sensitivity,
    steps_for_gradient,
    steps_for_loss,
    tolerances_for_gradient,
    tolerances_for_loss,
)
from mfrank.pagerank.sessions import Sessions
from mfrank.pagerank.stationary import (
    Transitions,
    Walker,
    nesterov_nemirovski,
    power,
    power_steps,
    stationary_rows,
    steps_within,
)

__all__ = [
    "GBN",
    "GBP",
    "GFN",
    "Accuracy",
    "Ball",
    "Draw",
    "Graphs",
    "ItemWalk",
    "LearnerStep",
    "Pairs",
    "Path",
    "Problem",
    "RandomWalk",
    "Sessions",
    "SquareLoss",
    "Transitions",
    "Walker",
    "adjoint",
    "adjoint_within",
    "by_source",
    "gradient",
    "gradient_error",
    "heaviest_paths",
    "item_graph",
    "loss_error",
    "nesterov_nemirovski",
    "next_click_queries",
    "pagerank",
    "power",
    "power_steps",
    "probe_gradient",
    "recencies",
    "sensitivity",
    "similar_items",
    "stationary_rows",
    "steps_for_gradient",
    "steps_for_loss",
    "steps_within",
    "tolerances_for_gradient",
    "tolerances_for_loss",
    "with_prior",
]
