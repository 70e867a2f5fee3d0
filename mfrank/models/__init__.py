"""The estimators, one file or folder each, and their common options, saving and printing."""

from mfrank._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, __file__)
