"""Base classes of metrics: frozen values with a cutoff and options, of three kinds."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.checks import shown
from mfrank.evaluation.judgements import JudgedLists, Standings
from mfrank.evaluation.known import KnownLists

__all__ = ["CatalogMetric", "KnownMetric", "ListMetric", "Metric", "RankingMetric"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """Base of all metrics: a name, options, and a cutoff.

    Attributes
    ----------
    cutoff : int or None
        Number of top ranks that count; None counts all.
    """

    name: ClassVar[str]
    cutoff_rule: ClassVar[Literal["optional", "needed", "none"]] = "optional"
    cutoff: int | None = None

    @property
    def k(self) -> int:
        """The cutoff of a metric that needs one; raises ValueError if it is missing."""
        if self.cutoff is None:
            raise ValueError(f"{self.name} needs a cutoff, as in {self.name} @ 10")
        return self.cutoff

    def depth(self, n_items: int) -> int:
        """Number of ranks that the metric reads, given a catalog of ``n_items``."""
        if self.cutoff is None and self.cutoff_rule != "needed":
            return n_items
        return min(self.k, n_items)

    def __matmul__(self, cutoff: int) -> Self:
        if self.cutoff_rule == "none":
            raise ValueError(f"{self.name} reads the whole ranking and takes no cutoff")
        if isinstance(cutoff, bool) or not isinstance(cutoff, int | np.integer):
            raise TypeError(
                f"a cutoff must be an integer, as in {self.name} @ 10; got {shown(cutoff)}"
            )
        if cutoff < 1:
            raise ValueError(f"a cutoff must be at least 1; got {self.name} @ {cutoff}")
        return replace(self, cutoff=int(cutoff))

    def __call__(self, **options: bool | str) -> Self:
        """Return this metric with other options, which the metric's class documents."""
        known = {field.name for field in fields(self)} - {"cutoff"}
        if unknown := set(options) - known:
            offer = f"it has {', '.join(sorted(known))}" if known else "it has none"
            raise TypeError(f"{self.name} has no option {', '.join(sorted(unknown))}; {offer}")
        for option, value in options.items():
            if isinstance(getattr(self, option), bool) and not isinstance(value, bool):
                raise TypeError(f"{self.name}'s {option} must be True or False; got {shown(value)}")
        return replace(self, **options)  # type: ignore[arg-type]

    def __str__(self) -> str:
        options = [
            f"{field.name}={getattr(self, field.name)}"
            for field in fields(self)
            if field.name != "cutoff" and getattr(self, field.name) != field.default
        ]
        return (
            self.name
            + (f"({', '.join(options)})" if options else "")
            + ("" if self.cutoff is None else f"@{self.cutoff}")
        )

    __repr__ = __str__


class ListMetric(Metric):
    """One value per user, from the top ranks of the user's list."""

    def per_user(self, lists: JudgedLists) -> Floats:
        """Values, float64, shape (U,)."""
        raise NotImplementedError

    def weights(self, lists: JudgedLists) -> Floats:
        """Each user's weight in the mean, float64, shape (U,)."""
        return np.ones_like(lists.n_relevant, dtype=np.float64)


class RankingMetric(Metric):
    """One value per user, from the scores of all candidates; ties are treated exactly."""

    cutoff_rule = "none"

    def per_user(self, standings: Standings) -> Floats:
        """Values, float64, shape (U,)."""
        raise NotImplementedError


class CatalogMetric(Metric):
    """One value for all users, from how often each item is listed, relevant or not."""

    cutoff_rule = "needed"

    def of(self, counts: NDArray[np.int64]) -> float:
        """Value, given the number of lists that contain each item, shape (N,)."""
        raise NotImplementedError


class KnownMetric(Metric):
    """One value per user, from the items listed and those that users had in training.

    It is computed on the host.

    Attributes
    ----------
    least : int
        Number of items that a list must have to count.
    """

    cutoff_rule = "needed"
    least: ClassVar[int] = 1

    def per_user(self, lists: KnownLists) -> Floats:
        """Values, float64, shape (U,); finite, also where the weight is 0."""
        raise NotImplementedError

    def weights(self, lists: KnownLists) -> Floats:
        """Each user's weight in the mean, float64, shape (U,)."""
        return (lists.lengths >= self.least).astype(np.float64)
