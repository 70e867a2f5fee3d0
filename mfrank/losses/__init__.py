"""Ranking losses; :mod:`mfrank.losses.contract` defines a loss.

A new loss also needs its name in ``__init__.pyi``, which ``mfrank descend`` and saved models read.
"""

from mfrank._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, __file__)
