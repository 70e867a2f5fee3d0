"""The contract of a backend as checks, to run with or without pytest.

    import mfrank.testing

    mfrank.testing.check(MyBackend())  # every part of which it has a function
    mfrank.testing.check(MyBackend(), parts=["top_k"])


    @pytest.mark.parametrize("name", mfrank.testing.CHECKS["top_k"])
    def test_lists(name: str) -> None:
        mfrank.testing.CHECKS["top_k"][name](MyBackend())

Each check compares functions of the backend with :mod:`mfrank.backends.reference` or with sums
written out in numpy, to the backend's own ``TOLERANCE``. Inputs are drawn with fixed seeds. They
include empty inputs, ties, rows of every length and numbers at the ends of a dtype's range.
mfrank's own backends pass the same checks.
"""

from mfrank.testing.suite import CHECKS, Check, check
from mfrank.testing.top_k_checks import Query, random_filters, random_lists, uneven_factors
from mfrank.testing.walk_checks import chain

__all__ = [
    "CHECKS",
    "Check",
    "Query",
    "chain",
    "check",
    "random_filters",
    "random_lists",
    "uneven_factors",
]
