"""The interface of early-stopping rules; :class:`mfrank.EarlyStopping` implements it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import scipy.sparse as sp

from mfrank.data.interactions import Interactions

__all__ = ["AlignedStopping", "KnownStopping", "Stopping"]


@runtime_checkable
class Stopping(Protocol):
    """A rule that scores the factors after each epoch and decides when to stop.

    The fit keeps the epoch with the highest score.
    """

    def check(self, train: sp.csr_array) -> None:
        """Raise, before any work starts, if the rule cannot score a fit to ``train``."""

    def value(self, factors: Any, train: Interactions, backend: str, n_threads: int) -> float:
        """Score any object with ``user_factors`` and ``item_factors``; higher is better."""

    def is_over(self, values: Sequence[float]) -> bool:
        """Whether to stop, given the scores of all epochs so far."""


@runtime_checkable
class AlignedStopping(Stopping, Protocol):
    """A rule whose interactions have ids, by which they are brought into the rows of a fit."""

    def in_rows_of(self, train: Interactions) -> Stopping:
        """The rule for a fit to ``train``; raise if its ids are not those of ``train``."""


@runtime_checkable
class KnownStopping(Stopping, Protocol):
    """A rule that a checkpoint knows again when its fit goes on."""

    def fingerprint(self) -> str:
        """SHA-256 of what scores and decisions depend on, as hexadecimal digits."""
