"""What a metric is: a frozen value with a cutoff and options, of one of three kinds."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from mfrank.evaluation.judgements import JudgedLists, Standings

__all__ = ["CatalogueMetric", "ListMetric", "Metric", "RankingMetric"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """What all metrics share: a name, options, and a cutoff.

    Attributes
    ----------
    cutoff : int or None
        Number of ranks that count; None counts all.
    """

    name: ClassVar[str]
    cutoff_rule: ClassVar[Literal["optional", "needed", "none"]] = "optional"
    cutoff: int | None = None

    @property
    def k(self) -> int:
        """The cutoff, of a metric that needs one; ValueError where it was not given."""
        if self.cutoff is None:
            raise ValueError(f"{self.name} needs a cutoff, as in {self.name} @ 10")
        return self.cutoff

    def depth(self, n_items: int) -> int:
        """Ranks that the metric reads, of a catalogue of ``n_items``."""
        if self.cutoff is None and self.cutoff_rule == "optional":
            return n_items
        return min(self.k, n_items)

    def __matmul__(self, cutoff: int) -> Self:
        if self.cutoff_rule == "none":
            raise ValueError(f"{self.name} reads the whole ranking and takes no cutoff")
        if isinstance(cutoff, bool) or not isinstance(cutoff, int | np.integer):
            raise TypeError(f"a cutoff is an integer, as in {self.name} @ 10; got {cutoff!r}")
        if cutoff < 1:
            raise ValueError(f"a cutoff is at least 1; got {self.name} @ {cutoff}")
        return replace(self, cutoff=int(cutoff))

    def __call__(self, **options: bool | str) -> Self:
        """Return this metric with other options; they are listed where each metric is defined."""
        known = {field.name for field in fields(self)} - {"cutoff"}
        if unknown := set(options) - known:
            offer = f"it has {', '.join(sorted(known))}" if known else "it has none"
            raise TypeError(f"{self.name} has no option {', '.join(sorted(unknown))}; {offer}")
        for option, value in options.items():
            if isinstance(getattr(self, option), bool) and not isinstance(value, bool):
                raise TypeError(f"{self.name}'s {option} is True or False; got {value!r}")
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
    """A number for each user, from the first ranks of the user's list."""

    def per_user(self, lists: JudgedLists) -> Floats:
        """Values, float64, shape (U,)."""
        raise NotImplementedError

    def weights(self, lists: JudgedLists) -> Floats:
        """Each user's weight in the mean, float64, shape (U,)."""
        return np.ones_like(lists.n_relevant, dtype=np.float64)


class RankingMetric(Metric):
    """A number for each user, from the scores of all the user's candidates; ties are exact."""

    cutoff_rule = "none"

    def per_user(self, standings: Standings) -> Floats:
        """Values, float64, shape (U,)."""
        raise NotImplementedError


class CatalogueMetric(Metric):
    """One number from how often each item stands in the lists, wanted there or not."""

    cutoff_rule = "needed"

    def of(self, counts: NDArray[np.int64]) -> float:
        """Value from the number of lists that hold each item, shape (N,)."""
        raise NotImplementedError
