"""What an engine yields after each epoch; bars, early stopping and checkpoints consume it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

__all__ = ["Record", "Step"]

Record = dict[str, float | int | None]
"""An epoch in a history."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """State after a complete epoch.

    Attributes
    ----------
    epoch : int
        Complete epochs of this fit, from 1.
    seconds : float
        Wall-clock seconds the epoch took, the objective's evaluation not counted; the first has
        what comes before it too.
    objective : float or None
        Value of the training objective, None where it was not asked for.
    user_factors, item_factors : shape (n_users, factors) and (n_items, factors)
        The factors, where the backend keeps them; the engine does not touch them again.
    item_biases, user_biases : shape (n_items,) and (n_users,), optional
    """

    epoch: int
    seconds: float
    objective: float | None
    user_factors: NDArray[Any]
    item_factors: NDArray[Any]
    item_biases: NDArray[Any] | None = None
    user_biases: NDArray[Any] | None = None

    def record(self) -> Record:
        """The step without its factors, as kept in a history."""
        return {"epoch": self.epoch, "seconds": self.seconds, "objective": self.objective}
