"""Ranking losses, one file each; :mod:`mfrank.losses.contract` defines a loss.

To add a loss to mfrank, add a file, and its name to ``__init__.pyi``, which ``mfrank descend`` and
saved models read.
"""

from mfrank._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, __file__)
