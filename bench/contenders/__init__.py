"""Who is timed: one file a library, each behind the same ``fit`` and the same objective.

A contender minimizes WRMF: confidence alpha r on observed cells, 1 on the rest, one ridge for all
rows. Its file says how its library is told so. Libraries start from factors of their own.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import mfrank

__all__ = [
    "NAMES",
    "Contender",
    "Watch",
    "confidences",
    "contender",
    "present",
    "tells_of_epochs",
]

SOLVERS = {
    "mfrank": ("auto", "cholesky", "cg"),
    "implicit": ("cg", "cholesky"),
    "irspack": ("cg", "cholesky", "ialspp"),
    "cmfrec": ("cg",),
}
NAMES = tuple(f"{library} {solver}" for library, known in SOLVERS.items() for solver in known)

Watch = Callable[[int, float], object]
"""Called after an epoch with its number, from 1, and its seconds; the contender has its factors."""


@dataclass(kw_only=True, eq=False)
class Contender(ABC):
    """A model to fit.

    Attributes
    ----------
    objective : QuadraticObjective
        WRMF for all but mfrank.
    factors, iterations, n_threads, random_state
        As in mfrank.
    solver : str
        One of the library's ``SOLVERS``.
    stops : tuple of int
        Epochs before the last that will be looked at: for a library that tells of none.
    model : object
        The library's own, made by ``fit``.
    """

    blas_threads: ClassVar[int | None] = 1
    """More only slow the peers down; None leaves BLAS alone."""
    places: ClassVar[tuple[str, str]] = ("user_factors", "item_factors")
    """Attributes of ``model`` that hold the factors."""

    objective: Any
    factors: int
    iterations: int
    n_threads: int
    random_state: int = 0
    solver: str
    stops: tuple[int, ...] = ()
    model: Any = field(init=False, default=None, repr=False)

    def fit(self, user_items: sp.csr_matrix, watch: Watch | None = None) -> Self:
        """Fit to a users x items matrix; the watch may raise to end it."""
        with threadpool_limits(self.blas_threads, "blas"):
            self._run(user_items, watch or _look_away)
        return self

    @abstractmethod
    def _run(self, user_items: sp.csr_matrix, watch: Watch) -> None:
        """Make ``model``, fit it, tell the watch."""

    @property
    def user_factors(self) -> NDArray[Any]:
        """Shape (n_users, factors)."""
        return attrgetter(self.places[0])(self.model)  # type: ignore[no-any-return]

    @property
    def item_factors(self) -> NDArray[Any]:
        """Shape (n_items, factors)."""
        return attrgetter(self.places[1])(self.model)  # type: ignore[no-any-return]


def contender(name: str) -> Callable[..., Contender]:
    """The maker of the contender of that name; ImportError where its library is not installed."""
    library, solver = name.split()
    return partial(import_module(f"{__name__}.{library}").Fitter, solver=solver)


def tells_of_epochs(name: str) -> bool:
    """Whether the library says when an epoch of its fit is done."""
    return name.split()[0] != "cmfrec"


def present(names: Sequence[str]) -> list[str]:
    """The contenders that can run here; of a library that is not installed a line is said."""
    absent = set()
    for library in dict.fromkeys(name.split()[0] for name in names):
        try:
            import_module(f"{__name__}.{library}")
        except ImportError as error:
            absent.add(library)
            print(f"{library} is left out: {error}", file=sys.stderr)
    return [name for name in names if name.split()[0] not in absent]


def confidences(objective: mfrank.WRMF, user_items: sp.csr_matrix) -> sp.csr_matrix:
    """What an observed cell weighs, float32."""
    matrix: sp.csr_matrix = user_items.astype(np.float32)  # a copy
    matrix.data *= objective.alpha
    return matrix


def _look_away(epoch: int, seconds: float) -> None:
    """Watch nothing."""
