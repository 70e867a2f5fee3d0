"""What an event counts by its kind: as the service is told, or as the model remembers of its fit.

Weights that are given are of all kinds, and events of others are refused. A model knows the kinds
of its fit: an event of another kind, or of none, counts by its value. What has a value of 0 is only
seen, whatever its kind is.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

_LOG = logging.getLogger("mfrank.serving")

KIND = "event"
"""The kind of an event that has none."""

Weights = Mapping[str, float | None]


class Counting(NamedTuple):
    """The weights of kinds.

    Attributes
    ----------
    weights : mapping of str to float or None
        Events of a kind of None are left out.
    are_given : bool
        Whether the service is told of them, and not the model.
    """

    weights: Weights
    are_given: bool

    @classmethod
    def by(cls, given: Weights | None, remembered: Weights) -> Counting:
        """By the weights that are given, or else by those of a model."""
        return cls(remembered, False) if given is None else cls(given, True)

    def of(self, kind: str | None, value: float) -> float | None:
        """What an event counts; None if it is left out."""
        name = kind or KIND
        if name not in self.weights:
            return None if self.are_given else value
        weight = self.weights[name]
        return weight if weight is None or value > 0 else 0.0

    def tell(self) -> None:
        """Log the weights that a model remembers, if it has some and counts by them."""
        if self.weights and not self.are_given:
            _LOG.info("events count by the weights of the fit: %s", self)

    def tell_unmet(self, kinds: set[str], told: set[str]) -> None:
        """Warn of kinds, which are added to ``told``, that the model does not know of its fit."""
        if not self.weights or self.are_given:
            return
        for kind in sorted(kinds - {*self.weights}):
            told.add(kind)
            _LOG.warning(
                "events of the kind %r, which the weights of the fit (%s) do not have, count by "
                "their values; --weights says what each kind counts",
                *(kind, self),
            )

    def __str__(self) -> str:
        each = self.weights.items()
        return ", ".join(
            f"{kind} none" if weight is None else f"{kind} {weight:g}" for kind, weight in each
        )


BY_VALUE = Counting({}, False)
