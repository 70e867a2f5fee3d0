"""Ranking losses, one file each; :mod:`mfrank.losses.contract` says what a loss is.

To add a loss to mfrank, add a file and its name in ``__init__.pyi``: there ``mfrank descend`` and
saved models find it.
"""

from mfrank._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, __file__)
