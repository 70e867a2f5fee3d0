"""Nesterov's momentum on the item factors of ALS, at no further half-step.

Let T(Q) be the item factors after a user step at Q and an item step. Plain ALS iterates Q = T(Q),
which lowers F(Q), the objective with users solved for Q. With momentum, the next user step is at

    Y = S + b (S - S'),    S = T(Y') and S' the solution before,    b = (t' - 1) / t

where t = (1 + sqrt(1 + 4 t'^2)) / 2 (Nesterov 1983), b at most 0.9; t begins at 2, not 1, which
saves up to an epoch. F(Y) is known after every user step. If it rose, the users are solved again
for S, which lowers F as plain ALS does, and t begins anew at 1 (O'Donoghue & Candes 2015). So exact
fits never rise, and fixed points are those of T. ``bench/NOTES.md`` has the epochs that this saves:
about half.

Every half-step rotates the factors into another basis, so S' is rotated after them, once an epoch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.placement import copied
from mfrank.arrays.threads import single_threaded
from mfrank.backends import Backend, Factors

__all__ = ["Momentum"]

_MOST = 0.9
_FIRST = 2.0


class Momentum:
    """Extrapolates the item factors from one epoch to the next.

    Parameters
    ----------
    backend : Backend
    n_threads : int
    """

    def __init__(self, backend: Backend, n_threads: int) -> None:
        self._backend, self._n_threads = backend, n_threads
        self._t, self._value, self._extrapolated = _FIRST, math.inf, False
        self._last: Factors | None = None
        self._turn: NDArray[np.float64] | None = None

    def state(self) -> dict[str, NDArray[Any]]:
        """What the next epoch depends on, by name, after an epoch; ``last`` where factors are."""
        assert self._last is not None
        assert self._turn is not None
        return {
            "numbers": np.array([self._t, self._value]),
            "turn": self._turn,
            "last": self._last,
        }

    def resume(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a :meth:`state`; ``last`` is then written to."""
        self._t, self._value = map(float, state["numbers"])
        self._turn, self._last = state["turn"], self._backend.place(state["last"])

    def turned(self, basis: NDArray[np.float64]) -> None:
        """Note that all factors were rotated by ``basis``, shape (K, K)."""
        with single_threaded():
            # In one order of memory, as a saved state has it: products may depend on it.
            self._turn = np.ascontiguousarray(basis) if self._turn is None else self._turn @ basis

    def next(self, solved: Factors) -> Factors:
        """Return Y from the solved item factors S, in the current basis, as a new array.

        ``solved`` is kept, and must not be written to.
        """
        t = (1 + math.sqrt(1 + 4 * self._t**2)) / 2
        weight, self._t = min((self._t - 1) / t, _MOST), t
        last, turn, self._last, self._turn = self._last, self._turn, solved, None
        self._extrapolated = last is not None and weight > 0
        if last is None or turn is None or weight == 0:
            return copied(solved)
        scaled = np.ascontiguousarray(-weight * turn)
        self._backend.rotate(last, scaled, 0, last, self._n_threads, plus=(1 + weight, solved))
        return last

    def is_lower(self, value: float) -> bool:
        """Record the objective, less a constant; return False if extrapolation raised it."""
        rose = value > self._value and self._extrapolated
        if not rose:
            self._value = value
        return not rose

    def plain(self) -> Factors:
        """Begin anew; return the solved item factors S, in the current basis, as a new array."""
        assert self._last is not None
        assert self._turn is not None
        self._t, self._extrapolated = 1.0, False
        turn, self._turn = np.ascontiguousarray(self._turn), None
        self._backend.rotate(self._last, turn, 0, self._last, self._n_threads)
        return copied(self._last)
