"""Nesterov's momentum on the item factors of ALS, without additional half-steps.

Let T(Q) be the item factors after a user step at Q and an item step. Plain ALS iterates Q = T(Q),
which lowers F(Q), the objective with users solved for Q. With momentum, the next user step is at

    Y = S + b (S - S'),    S = T(Y') and S' the solution before,    b = (t' - 1) / t

where t = (1 + sqrt(1 + 4 t'^2)) / 2 (Nesterov 1983), b at most 0.9; t begins at 2, not 1, which
saves up to an epoch. F(Y) is known after every user step. If it rose, the users are solved again
for S, which lowers F as plain ALS does, and t begins anew at 1 (O'Donoghue & Candes 2015). So the
objective of an exact fit never rises, and fixed points are those of T. ``bench/NOTES.md`` has the
epochs that this saves: about half.

Only Y and D = b (S - S') are kept, D in half of the bytes: S is Y - D. Y is made of the rounded D,
so S is as exact as before, and only the step ahead is rounded.

Every half-step rotates the factors into another basis, so D is rotated after them, once an epoch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.threads import single_threaded
from mfrank.backends import Backend, Factors
from mfrank.backends.displacements import none_of, withdraw

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
        self._displacements: Factors | None = None
        self._turn: NDArray[np.float64] | None = None

    def state(self) -> dict[str, NDArray[Any]]:
        """What the fit depends on from here, by name; ``turn`` only after an epoch."""
        assert self._displacements is not None
        state = {
            "numbers": np.array([self._t, self._value, self._extrapolated]),
            "displacements": self._displacements,
        }
        return state if self._turn is None else {**state, "turn": self._turn}

    def resume(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a :meth:`state`; its displacements are then written to."""
        self._t, self._value, extrapolated = map(float, state["numbers"])
        self._extrapolated = bool(extrapolated)
        self._turn = state.get("turn")
        self._displacements = self._backend.place(state["displacements"])

    def next(self, solved: Factors, before: Factors, basis: NDArray[np.float64]) -> Factors:
        """Return Y, in the memory of the solved item factors S.

        ``before`` is the Y of the epoch before, and ``basis``, shape (K, K), rotates it into the
        basis of S.
        """
        t = (1 + math.sqrt(1 + 4 * self._t**2)) / 2
        weight, self._t = min((self._t - 1) / t, _MOST), t
        turn, self._turn = self._turn, None
        self._extrapolated = self._displacements is not None and weight > 0
        if self._displacements is None or turn is None:
            self._displacements = none_of(solved)
        elif self._extrapolated:
            with single_threaded():
                turn = turn @ basis
            self._backend.extrapolate(
                solved, weight, before, basis, self._displacements, turn, self._n_threads
            )
        return solved

    def turned(self, basis: NDArray[np.float64]) -> None:
        """Note that Y was rotated by ``basis``, shape (K, K)."""
        # In one order of memory, as a saved state has it: products may depend on it.
        self._turn = np.ascontiguousarray(basis)

    def is_lower(self, value: float) -> bool:
        """Record the objective, less a constant; return False if extrapolation raised it."""
        rose = value > self._value and self._extrapolated
        if not rose:
            self._value = value
        return not rose

    def restart(self, ahead: Factors) -> None:
        """Begin anew: take Y, in the current basis, back to the solved item factors S, in place."""
        assert self._displacements is not None
        assert self._turn is not None
        self._t, self._extrapolated = 1.0, False
        withdraw(self._backend.rotate, ahead, self._displacements, self._turn, self._n_threads)
        self._displacements[:] = 0
