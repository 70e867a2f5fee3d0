"""One model against many: differences with intervals and p-values that hold for all at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.checks import check_choice, check_count, check_instance, shown
from mfrank.arrays.random import Seed, generator
from mfrank.evaluation.kinds import Metric
from mfrank.evaluation.report import Difference, Evaluation
from mfrank.evaluation.tables import Differences

__all__ = ["paired_differences"]

Floats = NDArray[np.float64]

Method = Literal["bootstrap", "permutation"]
Correction = Literal["max-t", "holm"]

_LEVEL = 0.95
_CELLS_AT_ONCE = 1 << 22


def paired_differences(
    evaluations: Mapping[str, Evaluation],
    metric: Metric | str,
    *,
    to: str | None = None,
    method: Method = "bootstrap",
    correction: Correction = "max-t",
    samples: int = 2_000,
    random_state: Seed = 0,
) -> Differences[Difference]:
    """Compare one evaluation with all others, with a correction for their number.

    If one model is compared with twenty others, one of them is expected to differ at p < .05 by
    chance alone. Here, all intervals together cover the true differences with a probability of 95
    %, and if no model differs, the probability of any p-value < .05 is at most 5 %. Each difference
    is divided by its standard error, and this ratio is compared with its values in samples in which
    no model differs.

    Parameters
    ----------
    evaluations : mapping of str to Evaluation
        By the name of the model, at least two; of the same users and test items.
    metric : Metric or str
        A metric with values for each user that all evaluations have.
    to : str, optional
        The model that is compared with the others. Default the first.
    method : {"bootstrap", "permutation"}, default "bootstrap"
        How samples are made. "bootstrap": users are drawn with replacement, the same for all
        models (Efron & Tibshirani 1993, chapter 16). "permutation": the two values of each user are
        exchanged or not, at random (Fisher's randomization test; Smucker et al. 2007). It does not
        need many users, and tests whether the models differ at all, not only in their means.
    correction : {"max-t", "holm"}, default "max-t"
        How the number of models is accounted for. "max-t": all are compared with the largest ratio
        of each sample, so models that are much alike cost little (Westfall & Young 1993). "holm":
        each is compared with its own ratios. The smallest of m p-values is multiplied by m, the
        next by m - 1, and so on (Holm 1979); intervals have the level 1 - .05 / m.
    samples : int, default 2000
        Number of samples, >= 100. No p-value is below 1 / (samples + 1), for "holm" times m.
    random_state : int, numpy.random.Generator or None, default 0
        Seed of the samples.

    Returns
    -------
    dict of str to Difference
        For each other model, the mean over users of (the model ``to`` - the other); it prints as
        a table.

    Raises
    ------
    ValueError, TypeError, KeyError
        There are fewer than two evaluations, ``to`` is not one of them, or they differ in their
        users or test items or lack the metric (see :meth:`.Evaluation.compare`); ``method`` or
        ``correction`` is unknown.

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
    check_choice("method", method, get_args(Method))
    check_choice("correction", correction, get_args(Correction))
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
        return Differences(alone, first)
    ratios = _ratios(values, weights, method, int(samples), rng)
    # A difference that is the same for every user has no error; it is 0 or beyond all doubt.
    found = np.array(
        [
            abs(one.mean) / one.standard_error
            if one.standard_error
            else (np.inf if one.mean else 0.0)
            for one in alone.values()
        ]
    )
    if correction == "max-t":
        largest = ratios.max(axis=1, keepdims=True)
        p_values = _p_values(largest, found)
        reaches = np.full(len(others), np.quantile(largest, _LEVEL))
    else:
        p_values = _holm(_p_values(ratios, found))
        reaches = np.quantile(ratios, 1 - (1 - _LEVEL) / len(others), axis=0)
    test = f"{'corrected' if correction == 'max-t' else 'Holm-corrected'} {method}"
    corrected = {
        name: replace(
            alone[name],
            low=alone[name].mean - float(reach) * alone[name].standard_error,
            high=alone[name].mean + float(reach) * alone[name].standard_error,
            p_value=float(p_value),
            test=test,
        )
        for name, p_value, reach in zip(others, p_values, reaches, strict=True)
    }
    return Differences(corrected, first)


def _p_values(ratios: Floats, found: Floats) -> Floats:
    """Fraction of samples whose ratio is at least the one found, which itself counts as one."""
    found = found * (1 - 1e-12)  # a sample equal to the data has this ratio, up to rounding
    as_large: Floats = np.count_nonzero(ratios >= found, axis=0)
    return (1 + as_large) / (1 + len(ratios))


def _holm(p_values: Floats) -> Floats:
    """Holm's p-values: the i-th smallest of m is the largest of (m - j) p_j over j <= i, from 0."""
    order = np.argsort(p_values, kind="stable")
    m = len(order)
    corrected = np.empty(m)
    corrected[order] = np.minimum(np.maximum.accumulate((m - np.arange(m)) * p_values[order]), 1)
    return corrected


def _ratios(
    values: Floats, weights: Floats, method: Method, samples: int, rng: np.random.Generator
) -> Floats:
    """|mean / standard error| of each column, in each sample without a difference."""
    n_users = len(values)
    draw = _times_drawn if method == "bootstrap" else _signs
    if method == "bootstrap":
        values = values - weights @ values / weights.sum()
    at_once = max(1, min(samples, _CELLS_AT_ONCE // n_users))
    return np.concatenate(
        [
            draw(values, weights, min(at_once, samples - begin), rng)
            for begin in range(0, samples, at_once)
        ]
    )


def _times_drawn(values: Floats, weights: Floats, size: int, rng: np.random.Generator) -> Floats:
    """Ratios of ``size`` samples of the users, with replacement."""
    (n_users, n), squared = values.shape, (weights**2)[:, None]
    drawn = np.empty((size, n_users))
    for row in drawn:
        row[:] = np.bincount(rng.integers(n_users, size=n_users), minlength=n_users)
    own = weights[:, None]
    sums = drawn @ np.hstack([own, squared, own * values, squared * values, squared * values**2])
    total = sums[:, :1]
    shift = sums[:, 2 : 2 + n] / total
    # sum w^2 (v - m)^2, by its three terms
    squares = sums[:, 2 + 2 * n :] + shift**2 * sums[:, 1:2]
    squares -= 2 * shift * sums[:, 2 + n : 2 + 2 * n]
    return _over_error(shift, squares, n_users, total)


def _signs(values: Floats, weights: Floats, size: int, rng: np.random.Generator) -> Floats:
    """Ratios of ``size`` samples in which each user's difference has either sign."""
    (n_users, n), squared = values.shape, weights**2
    signs = np.empty((size, n_users))
    for row in signs:
        row[:] = rng.integers(2, size=n_users, dtype=np.int8) * 2 - 1
    sums = signs @ np.hstack([weights[:, None] * values, squared[:, None] * values])
    total = weights.sum()
    shift = sums[:, :n] / total
    squares = squared @ values**2 + shift**2 * squared.sum()
    squares -= 2 * shift * sums[:, n:]
    return _over_error(shift, squares, n_users, total)


def _over_error(shift: Floats, squares: Floats, n_users: int, total: Any) -> Floats:
    error = np.sqrt(np.maximum(squares, 0.0) * n_users / (n_users - 1)) / total
    ratio: Floats = np.abs(shift) / np.where(error > 0, error, np.inf)
    return ratio
