"""The state an engine yields after each epoch, for progress, early stopping and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from mfrank.backends import Backend

__all__ = ["Record", "Step"]

Record = dict[str, float | int | None]
"""The record of an epoch in a history."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """The state after a complete epoch.

    Attributes
    ----------
    epoch : int
        Number of complete epochs of this fit, from 1.
    seconds : float
        Wall-clock seconds of the epoch; the first epoch of ALS includes its preparation. Time that
        the consumer spends between epochs is not counted.
    objective : float or None
        Value of the training objective; None if it is not tracked.
    user_factors, item_factors : shape (n_users, factors) and (n_items, factors)
        The factors, where the backend keeps them; the engine does not modify them while
        anybody holds them.
    item_biases, user_biases : shape (n_items,) and (n_users,), optional
    extras : dict
        Further arrays of the fit, for the store.
    users_again : function or None
        Solves the user factors again, with a backend, for a caller that does not keep them; None if
        that is impossible, or if this is the last step.
    """

    epoch: int
    seconds: float
    objective: float | None
    user_factors: NDArray[Any]
    item_factors: NDArray[Any]
    item_biases: NDArray[Any] | None = None
    user_biases: NDArray[Any] | None = None
    extras: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    users_again: Callable[[Backend], NDArray[Any]] | None = None

    def record(self) -> Record:
        """The step without its arrays, as stored in a history."""
        return {"epoch": self.epoch, "seconds": self.seconds, "objective": self.objective}
