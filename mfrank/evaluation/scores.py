"""A metric's mean over users with its standard error, and differences of two such means."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import aligned, counted, paragraphs, table, terminal_width
from mfrank.evaluation.metrics import Metric

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """One metric's value.

    Attributes
    ----------
    value : float
        Mean over the evaluated users, or the value of a catalog metric; NaN without users.
    standard_error : float
        Standard error of the mean; NaN with fewer than two users and for catalog metrics.
    per_user : float64, shape (n_users,), or None
        Each user's value, in the order of ``Evaluation.users``; None for catalog metrics.
    weights : float64, shape (n_users,), or None
        Each user's weight in the mean: all 1 except for micro-averages.
    """

    value: float
    standard_error: float = math.nan
    per_user: Floats | None = None
    weights: Floats | None = None

    @classmethod
    def of_users(cls, values: Floats, weights: Floats) -> Score:
        """Weighted mean of the users' values, with its standard error."""
        return cls(*_mean_and_error(values, weights), values, weights)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the mean, from Student's t; NaN with fewer than two users."""
        n_users = 0 if self.per_user is None else len(self.per_user)
        reach, _ = _student(self.value, self.standard_error, n_users - 1)
        return self.value - reach, self.value + reach

    def to_dict(self) -> dict[str, float | None]:
        """The mean, its error and interval as plain objects for JSON, None for NaN."""
        low, high = self.interval
        told = {"value": self.value, "standard_error": self.standard_error, "low": low}
        return {name: json_number(each) for name, each in {**told, "high": high}.items()}

    def unpaired(self, other: Score, metric: Metric | str) -> Difference:
        """``self - other`` of other users, with Welch's t-test."""
        assert self.per_user is not None
        assert other.per_user is not None
        sizes = [len(self.per_user), len(other.per_user)]
        squares = [each.standard_error**2 for each in (self, other)]
        mean, error = self.value - other.value, math.sqrt(sum(squares))
        # Welch and Satterthwaite's degrees of freedom.
        rest = sum(s**2 / (n - 1) for s, n in zip(squares, sizes, strict=True) if n > 1)
        reach, probability = _student(mean, error, sum(squares) ** 2 / rest if rest else 1)
        test = "Welch's t-test"
        return Difference(
            metric, mean, error, mean - reach, mean + reach, probability, sum(sizes), test
        )

    def paired(self, other: Score, metric: Metric | str) -> Difference:
        """``self - other`` of the same users, which both have, with a paired t-test."""
        assert self.per_user is not None
        assert self.weights is not None
        assert other.per_user is not None
        mean, error = _mean_and_error(self.per_user - other.per_user, self.weights)
        n_users = len(self.per_user)
        reach, probability = _student(mean, error, n_users - 1)
        return Difference(metric, mean, error, mean - reach, mean + reach, probability, n_users)


@dataclass(frozen=True, slots=True)
class Difference:
    """Paired difference of two evaluations on the same users.

    Attributes
    ----------
    metric : Metric or str
        The metric compared.
    mean, standard_error : float
        Mean over users of (self - other) in :meth:`Evaluation.compare`, and its standard error.
    low, high : float
        95 % confidence interval of the mean difference, from Student's t.
    p_value : float
        Two-sided paired t-test of a mean difference of 0 (``scipy.stats.ttest_rel``).
    n_users : int
        Number of users compared.
    test : str, default "paired t-test"
        The test that gives the interval and the p-value; :func:`mfrank.paired_differences` uses
        another.
    """

    metric: Metric | str
    mean: float
    standard_error: float
    low: float
    high: float
    p_value: float
    n_users: int
    test: str = "paired t-test"

    def is_fall(self, errors: float = 3.0) -> bool:
        """Whether the mean is below 0 by more than so many standard errors; never if it has none.

        Without a difference between the users, any fall is one.
        """
        return self.mean < -errors * self.standard_error

    def to_dict(self) -> dict[str, Any]:
        """As plain objects for JSON, None for NaN."""
        numbers = ("mean", "standard_error", "low", "high", "p_value")
        told = {name: json_number(getattr(self, name)) for name in numbers}
        return {"metric": str(self.metric), **told, "n_users": self.n_users, "test": self.test}

    def __str__(self) -> str:
        told = p_value(self.p_value)
        p = told if told.startswith("<") else f"= {told}"
        return (
            f"{self.metric}: {self.mean:+.5f}, 95 % interval {self.low:+.5f} to {self.high:+.5f}, "
            f"{self.test} p {p}, {counted(self.n_users, 'user')}"
        )

    def _repr_html_(self) -> str:
        return paragraphs([str(self)])


class Differences(dict[str, Difference]):
    """Differences of one model to others, by name, as a dict that prints as a table.

    Attributes
    ----------
    to : str
        The model from which the others were subtracted.
    """

    def __init__(self, differences: Mapping[str, Difference], to: str) -> None:
        super().__init__(differences)
        self.to = to

    def _cells(self) -> list[tuple[str, ...]]:
        rows = [
            (name, f"{one.mean:+.5f}", f"{one.low:+.5f} to {one.high:+.5f}", p_value(one.p_value))
            for name, one in self.items()
        ]
        return [(f"{self.to} minus", "mean", "95 % interval", "p"), *rows]

    def _told(self) -> str:
        one = next(iter(self.values()))
        return f"{one.metric}, {one.test}, {counted(one.n_users, 'user')}"

    def __repr__(self) -> str:
        return f"{aligned(self._cells(), terminal_width())}\n{self._told()}"

    def _repr_html_(self) -> str:
        header, *rows = self._cells()
        return table("Paired differences", rows, header) + paragraphs([self._told()])


def p_value(value: float) -> str:
    """A p-value as text; 0 means that it is too small for a float."""
    return "< 1e-300" if value == 0 else f"{value:.3g}"


def _mean_and_error(values: Floats, weights: Floats) -> tuple[float, float]:
    """Weighted mean m, and sqrt(n / (n - 1) sum w^2 (v - m)^2) / sum w.

    The second is the linearized error of a ratio of sums, s / sqrt(n) if all weights are 1.
    """
    n = len(values)
    if not weights.any():
        return math.nan, math.nan
    total = weights.sum()
    mean = float(weights @ values / total)
    if n == 1:
        return mean, math.nan
    squares = float((weights**2 * (values - mean) ** 2).sum())
    return mean, math.sqrt(squares * n / (n - 1)) / float(total)


def _student(mean: float, error: float, freedom: float) -> tuple[float, float]:
    """Half width of the 95 % interval and the two-sided p-value."""
    from scipy.special import stdtr, stdtrit  # slow to import, and rarely needed

    if math.isnan(error):
        return math.nan, math.nan
    if error == 0:
        return 0.0, float(mean == 0)
    return float(stdtrit(freedom, 0.975)) * error, float(2 * stdtr(freedom, -abs(mean) / error))


def json_number(value: float) -> float | None:
    """The value; None for NaN and infinity, which JSON lacks."""
    return value if math.isfinite(value) else None
