"""The history of a fit: one record per epoch, and the state that an engine yields with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from numpy.typing import NDArray

from mfrank.backends import Backend

History: TypeAlias = Sequence[Mapping[str, float | int | None]]
"""One record per epoch, see :meth:`mfrank.store.history.Step.record`. Epoch 0 is an evaluated
start."""


def epochs_of(history: History) -> int:
    """Number of epochs, not counting epoch 0, the start of the fit."""
    return sum(record.get("epoch") != 0 for record in history)


def seconds_of(history: History) -> float:
    """Total seconds of all epochs; an epoch without a time counts as 0."""
    return sum(float(epoch.get("seconds") or 0) for epoch in history)


def summary(history: History) -> list[tuple[str, str]]:
    """Names and values: number of epochs, seconds and, if recorded, the objective."""
    if not history:
        return []
    rows = [("epochs", f"{epochs_of(history):,}"), ("seconds", f"{seconds_of(history):.2f}")]
    objective = history[-1].get("objective")
    return rows if objective is None else [*rows, ("last objective", f"{objective:.6g}")]


# The state an engine yields after each epoch, for progress, early stopping and checkpoints.


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
        Wall-clock seconds of the epoch; the first epoch of ALS includes preparation. The consumer's
        time between epochs is not included.
    objective : float or None
        Value of the training objective; None if it is not tracked.
    user_factors, item_factors : shape (n_users, factors) and (n_items, factors)
        The factors, on the backend's device; the engine does not modify them while a reference
        exists.
    item_biases, user_biases : shape (n_items,) and (n_users,), optional
    extras : dict
        Further arrays of the fit, for the store.
    users_again : function or None
        Solves the user factors again, with a backend, for a caller that released them. None in the
        last step, or if that is impossible.
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
