"""mfrank: matrix factorization for implicit feedback, with closed-form ranking losses.

Public names are imported on first access, from the modules in ``__init__.pyi``. So ``import
mfrank`` is fast, and a program that fits an ``ALS`` does not import the PageRank modules.
"""

from mfrank._lazy import lazy
from mfrank._version import __version__ as __version__

_HIDDEN = (
    "als",
    "arrays",
    "cli",
    "cluster",
    "comparison",
    "data",
    "descent",
    "evaluation",
    "files",
    "models",
    "pages",
    "retrieval",
    "serving",
    "steering",
    "store",
    "testing",
    "tuning",
)
__getattr__, __dir__, __all__ = lazy(
    __name__, __file__, ("backends", "losses", "pagerank", "plots"), _HIDDEN
)
