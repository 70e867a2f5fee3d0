"""Both ways to the inner loops of the losses: numpy's text, which specifies them, and C++."""

from __future__ import annotations

import pytest

from mfrank.arrays import why_missing
from mfrank.backends.cpu.native_sums import NativeSums
from mfrank.losses import WRITTEN_OUT, ListSums

BUILT = pytest.mark.skipif(why_missing is not None, reason=str(why_missing))
NATIVE = NativeSums(2)
SUMS: dict[str, ListSums] = {"written out": WRITTEN_OUT, "native": NATIVE}
EITHER = pytest.mark.parametrize(
    "sums",
    [
        pytest.param(sums, id=name, marks=[BUILT] * (name == "native"))
        for name, sums in SUMS.items()
    ],
)
"""For a test of what is true of both."""


def on_threads(sums: ListSums, n_threads: int) -> ListSums:
    """The same on so many threads; what is written out has none."""
    return NativeSums(n_threads) if isinstance(sums, NativeSums) else sums
