"""One model against many: differences with intervals and p-values that hold for all at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.checks import check_count, check_instance, shown
from mfrank.arrays.random import Seed, generator
from mfrank.evaluation.kinds import Metric
from mfrank.evaluation.report import Difference, Evaluation

__all__ = ["paired_differences"]

Floats = NDArray[np.float64]

_LEVEL = 0.95
_AT_ONCE = 64


def paired_differences(
    evaluations: Mapping[str, Evaluation],
    metric: Metric | str,
    *,
    to: str | None = None,
    samples: int = 2_000,
    random_state: Seed = 0,
) -> dict[str, Difference]:
    """Compare one evaluation with all others, by a paired bootstrap corrected for their number.

    Whoever compares one model with twenty others finds one of them different at p < .05 by chance
    alone. Here all intervals together cover the true differences with 95 %, and the probability of
    any p-value < .05 is 5 % if no model differs. Users are drawn with replacement, the same for
    all models; each difference is divided by its standard error, and the largest of a sample is
    what all are measured by (single-step max-T, Westfall & Young 1993).

    Parameters
    ----------
    evaluations : mapping of str to Evaluation
        By the name of the model, at least two; of the same users and test items.
    metric : Metric or str
        A metric with values for each user that all evaluations have.
    to : str, optional
        The model that is compared with the others. Default the first.
    samples : int, default 2000
        Bootstrap samples, >= 100. No p-value is below 1 / (samples + 1).
    random_state : int, numpy.random.Generator or None, default 0
        Seed of the samples.

    Returns
    -------
    dict of str to Difference
        For each other model, the mean over users of (the model ``to`` - the other).

    Raises
    ------
    ValueError, TypeError, KeyError
        There are fewer than two evaluations, ``to`` is none of them, or they differ in their users
        or test items or lack the metric (see :meth:`.Evaluation.compare`).

    Examples
    --------
    >>> import mfrank
    >>> split = mfrank.by_ratio(mfrank.synthetic(200, 100, 4000, random_state=0))
    >>> models = {"RG2": mfrank.ALS(factors=8, random_state=0), "popularity": mfrank.Popularity()}
    >>> results = {name: mfrank.evaluate(model.fit(split.train), split.test)
    ...            for name, model in models.items()}
    >>> mfrank.paired_differences(results, "ndcg@10")["popularity"].p_value < 0.05
    True
    """
    if not isinstance(evaluations, Mapping) or len(evaluations) < 2:
        raise ValueError("evaluations must be a dict of at least two, by the names of the models")
    for name, one in evaluations.items():
        check_instance(f"evaluations[{name!r}]", one, Evaluation, "a result of mfrank.evaluate")
    check_count("samples", samples, 100)
    rng = generator(random_state)
    first = next(iter(evaluations)) if to is None else to
    if first not in evaluations:
        raise ValueError(f"to must be one of {', '.join(evaluations)}; got {shown(to)}")
    mine = evaluations[first]
    others = [name for name in evaluations if name != first]
    alone = {name: mine.compare(evaluations[name], metric) for name in others}
    own = mine[metric]
    weights = np.asarray(own.weights)
    values = np.array(
        [np.asarray(own.per_user) - np.asarray(evaluations[n][metric].per_user) for n in others]
    ).T
    if mine.n_users < 2:
        return alone
    largest = _largest(values, weights, int(samples), rng)
    reach = float(np.quantile(largest, _LEVEL))
    return {name: _corrected(alone[name], largest, reach) for name in others}


def _corrected(alone: Difference, largest: Floats, reach: float) -> Difference:
    """The difference with the interval and the p-value that hold for all at once."""
    mean, error = alone.mean, alone.standard_error
    # A difference that is the same for every user has no error; it is 0 or beyond all doubt.
    ratio = abs(mean) / error if error else (np.inf if mean else 0.0)
    p_value = (1 + np.count_nonzero(largest >= ratio)) / (1 + len(largest))
    return Difference(
        *(alone.metric, mean, error, mean - reach * error, mean + reach * error, float(p_value)),
        alone.n_users,
        "corrected bootstrap",
    )


def _largest(values: Floats, weights: Floats, samples: int, rng: np.random.Generator) -> Floats:
    """The largest |t| over the columns, of each sample of users."""
    n_users, squared = len(values), weights**2
    means = weights @ values / weights.sum()
    centered = values - means
    largest = np.empty(samples)
    for begin in range(0, samples, _AT_ONCE):
        size = min(_AT_ONCE, samples - begin)
        drawn = np.stack(
            [
                np.bincount(rng.integers(n_users, size=n_users), minlength=n_users)
                for _ in range(size)
            ]
        ).astype(np.float64)
        total = (drawn @ weights)[:, None]
        shift = drawn @ (weights[:, None] * centered) / total
        # sum w^2 (v - m)^2, by its three terms
        squares = drawn @ (squared[:, None] * centered**2)
        squares += shift**2 * (drawn @ squared)[:, None]
        squares -= 2 * shift * (drawn @ (squared[:, None] * centered))
        error = np.sqrt(np.maximum(squares, 0.0) * n_users / (n_users - 1)) / total
        ratio = np.abs(shift) / np.where(error > 0, error, np.inf)
        largest[begin : begin + size] = ratio.max(axis=1)
    return largest
