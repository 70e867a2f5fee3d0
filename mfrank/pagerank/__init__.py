"""Supervised PageRank: random walks whose node and edge weights are learned from features."""

from mfrank.pagerank.graphs import Graphs
from mfrank.pagerank.sessions import Sessions

__all__ = ["Graphs", "Sessions"]
