"""Levers that steer lists: boosts, popularity, caps, diversity, calibration."""

from mfrank.steering.categories import ALPHA, Divergence, ItemCategories, shares_of
from mfrank.steering.greedy import ItemFacts, filled
from mfrank.steering.levers import Levers, levers_of, spread_of
from mfrank.steering.steering import Steering

__all__ = [
    "ALPHA",
    "Divergence",
    "ItemCategories",
    "ItemFacts",
    "Levers",
    "Steering",
    "filled",
    "levers_of",
    "shares_of",
    "spread_of",
]
