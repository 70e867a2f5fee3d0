"""Paired tests: one model against many, and a model against an earlier version of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import Seed, check_choice, check_count, check_instance, generator, shown
from mfrank.data import Interactions, check_numbering, placed
from mfrank.errors import InputValueError
from mfrank.evaluation.full_ranking import evaluate
from mfrank.evaluation.metrics import NDCG, Metric
from mfrank.evaluation.report import Evaluation
from mfrank.evaluation.scores import Difference, Differences
from mfrank.retrieval import Recommender

Floats = NDArray[np.float64]

Method = Literal["bootstrap", "permutation"]
Correction = Literal["max-t", "holm"]

_Draw: TypeAlias = Callable[[Floats, Floats, int, np.random.Generator], Floats]

_LEVEL = 0.95
_CELLS_AT_ONCE = 1 << 22
_ROUNDING = 1e-12  # below this part of what it is the difference of, a sum of squares is 0


def paired_differences(
    evaluations: Mapping[str, Evaluation],
    metric: Metric | str,
    *,
    to: str | None = None,
    method: Method = "bootstrap",
    correction: Correction = "max-t",
    samples: int = 2_000,
    random_state: Seed = 0,
) -> Differences:
    """Compare one evaluation with all others, with a correction for their number.

    Without a correction, one of twenty compared models differs at p < .05 by chance alone. Here,
    the intervals cover all true differences together with a probability of 95 %; and if no model
    differs, the probability of any p-value < .05 is at most 5 %.

    The statistic is the difference divided by its standard error. It is compared with its values
    in samples in which no model differs. If all users of a sample differ by the same amount, the
    statistic is infinite. With few users, or few users who differ, no p-value is therefore small.

    Parameters
    ----------
    evaluations : mapping of str to Evaluation
        Evaluations by name of the model, at least two, of the same users and test items.
    metric : Metric or str
        A metric with per-user values, which all evaluations have.
    to : str, optional
        The model to compare with the others; by default the first.
    method : {"bootstrap", "permutation"}, default "bootstrap"
        Distribution of the samples.

        - "bootstrap": users are drawn with replacement, the same for all models (Efron &
          Tibshirani 1993, chapter 16).
        - "permutation": the two values of each user are swapped at random (Fisher's randomization
          test; Smucker et al. 2007). It needs fewer users, and tests whether the models differ at
          all, not only in their means.
    correction : {"max-t", "holm"}, default "max-t"
        Correction for the number m of comparisons.

        - "max-t": each statistic is compared with the largest one of each sample, so similar
          models cost little (Westfall & Young 1993).
        - "holm": each statistic is compared with its own samples. The smallest p-value is
          multiplied by m, the next by m - 1, and so on (Holm 1979); intervals have the level
          1 - .05 / m.
    samples : int, default 2000
        Number of samples, >= 100. No p-value is below 1 / (samples + 1), or m times this for
        "holm". If there are at most ``samples`` permutations, each is used once and the test is
        exact.
    random_state : int, numpy.random.Generator or None, default 0
        Seed of the samples.

    Returns
    -------
    dict of str to Difference
        For each other model, the mean over users of (``to`` - other); prints as a table.

    Raises
    ------
    ValueError, TypeError, KeyError
        There are fewer than two evaluations; ``to`` is not one of them; they differ in users or
        test items, or lack the metric (see :meth:`.Evaluation.compare`); ``method`` or
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
        raise InputValueError(
            "`evaluations` must be a dict of at least two, by the names of the models"
        )
    for name, one in evaluations.items():
        check_instance(f"evaluations[{name!r}]", one, Evaluation, "a result of mfrank.evaluate")
    check_count("samples", samples, 100)
    check_choice("method", method, get_args(Method))
    check_choice("correction", correction, get_args(Correction))
    rng = generator(random_state)
    first = next(iter(evaluations)) if to is None else to
    if first not in evaluations:
        raise InputValueError(f"`to` must be one of {', '.join(evaluations)}; got {shown(to)}")
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
    found: Floats = _ratios(np.ones((1, mine.n_users)), values, weights)[0]
    exact = method == "permutation" and mine.n_users <= math.log2(samples)
    if exact:
        signs = np.array(list(product((-1.0, 1.0), repeat=mine.n_users)))
        ratios = _of_signs(signs, values, weights)
    elif method == "permutation":
        ratios = _drawn(_signs, values, weights, int(samples), rng)
    else:
        centered = values - weights @ values / weights.sum()
        ratios = _drawn(_times_drawn, centered, weights, int(samples), rng)
        # Where all users differ by the same, resamples do, too; only the signs can vary.
        same = np.isinf(found)
        ratios[:, same] = _drawn(_signs, values[:, same], weights, int(samples), rng)
    if correction == "max-t":
        largest = ratios.max(axis=1, keepdims=True)
        p_values = _p_values(largest, found, exact=exact)
        reaches = np.full(len(others), _quantile(largest, _LEVEL))
    else:
        p_values = _holm(_p_values(ratios, found, exact=exact))
        reaches = _quantile(ratios, 1 - (1 - _LEVEL) / len(others))
    test = f"{'corrected' if correction == 'max-t' else 'Holm-corrected'} {method}"
    corrected = {
        name: replace(
            alone[name],
            low=alone[name].mean - _half_width(float(reach), alone[name].standard_error),
            high=alone[name].mean + _half_width(float(reach), alone[name].standard_error),
            p_value=float(p_value),
            test=test,
        )
        for name, p_value, reach in zip(others, p_values, reaches, strict=True)
    }
    return Differences(corrected, first)


def _p_values(ratios: Floats, found: Floats, *, exact: bool) -> Floats:
    """Fraction of samples whose ratio is at least the one found, which itself counts as one.

    ``exact``: the samples are all that there are, so the data are one of them.
    """
    found = found * (1 - 1e-12)  # a sample equal to the data has this ratio, up to rounding
    as_large: Floats = np.count_nonzero(ratios >= found, axis=0)
    return as_large / len(ratios) if exact else (1 + as_large) / (1 + len(ratios))


def _quantile(ratios: Floats, level: float) -> Floats:
    """Quantile of each column: one of the samples, since some ratios may be infinite."""
    quantile: Floats = np.quantile(ratios, level, axis=0, method="higher")
    return quantile


def _half_width(reach: float, standard_error: float) -> float:
    """Half the width of an interval; unbounded where the samples bound nothing."""
    return math.inf if math.isinf(reach) else reach * standard_error


def _holm(p_values: Floats) -> Floats:
    """Holm's p-values: the i-th smallest of m is the largest of (m - j) p_j over j <= i, from 0."""
    order = np.argsort(p_values)
    m = len(order)
    corrected = np.empty(m)
    corrected[order] = np.minimum(np.maximum.accumulate((m - np.arange(m)) * p_values[order]), 1)
    return corrected


def _drawn(
    draw: _Draw, values: Floats, weights: Floats, samples: int, rng: np.random.Generator
) -> Floats:
    """|mean / standard error| of each column in each sample, made in portions that fit memory."""
    at_once = max(1, min(samples, _CELLS_AT_ONCE // len(values)))
    sizes = [min(at_once, samples - begin) for begin in range(0, samples, at_once)]
    return np.concatenate([draw(values, weights, size, rng) for size in sizes])


def _times_drawn(values: Floats, weights: Floats, size: int, rng: np.random.Generator) -> Floats:
    """Ratios of ``size`` samples of the users, with replacement."""
    n_users = len(values)
    drawn = np.empty((size, n_users))
    for row in drawn:
        row[:] = np.bincount(rng.integers(n_users, size=n_users), minlength=n_users)
    return _ratios(drawn, values, weights)


def _ratios(times: Floats, values: Floats, weights: Floats) -> Floats:
    """Ratios of samples that have user j ``times[i, j]`` times."""
    (n_users, n), squared = values.shape, (weights**2)[:, None]
    own = weights[:, None]
    sums = times @ np.hstack([own, squared, own * values, squared * values, squared * values**2])
    powers = sums[:, 2 + 2 * n :], sums[:, 2 + n : 2 + 2 * n], sums[:, 1:2]
    return _over_error(sums[:, 2 : 2 + n], powers, n_users, sums[:, :1])


def _signs(values: Floats, weights: Floats, size: int, rng: np.random.Generator) -> Floats:
    """Ratios of ``size`` samples in which each user's difference has either sign."""
    signs = np.empty((size, len(values)))
    for row in signs:
        row[:] = rng.integers(2, size=len(values), dtype=np.int8) * 2 - 1
    return _of_signs(signs, values, weights)


def _of_signs(signs: Floats, values: Floats, weights: Floats) -> Floats:
    """Ratios of samples with these signs of the users' differences."""
    (n_users, n), squared = values.shape, weights**2
    sums = signs @ np.hstack([weights[:, None] * values, squared[:, None] * values])
    powers = squared @ values**2, sums[:, n:], squared.sum()
    return _over_error(sums[:, :n], powers, n_users, weights.sum())


def _over_error(summed: Floats, powers: tuple[Any, Any, Any], n_users: int, total: Any) -> Floats:
    """|mean / standard error|; infinite for a difference without error, 0 for none at all.

    ``summed`` are the sums of w v, ``total`` is that of w, and ``powers`` are those of w^2 v^2,
    w^2 v and w^2, of which the error is made.
    """
    second, first, zeroth = powers
    with np.errstate(divide="ignore", invalid="ignore"):  # no error, or no user with a weight
        shift = summed / total
        largest = second + shift**2 * zeroth
        squares = largest - 2 * shift * first  # sum w^2 (v - m)^2
        squares[squares <= _ROUNDING * largest] = 0.0
        ratio: Floats = np.abs(shift) / (np.sqrt(squares * n_users / (n_users - 1)) / total)
    ratio[np.isnan(ratio)] = np.inf
    # Rounding leaves something of a sum of values that are centered.
    ratio[shift**2 * zeroth <= _ROUNDING**2 * second] = 0.0
    return ratio


# A model and an earlier version of it, which has fewer users and items.


def paired_change(
    model: Recommender,
    earlier: Recommender,
    test: Any,
    metric: Metric | str = NDCG @ 10,
    *,
    n_threads: int = 0,
) -> Difference:
    """Compare a model with an earlier version of it, by interactions that neither has learned.

    Both rank for the users whom both know, without what these have in the fit of ``model``. Test
    items that the earlier version does not know count as relevant, too, as long as ``model`` knows
    them: learning new items is a part of what has changed.

    Parameters
    ----------
    model, earlier : Recommender
        Such as ``mfrank.load("model")`` and ``mfrank.load("model", version=1)``.
    test : Interactions, scipy sparse (users x items) or DataFrame
        Such as those of the last day, before ``model`` learns them. Unknown users and items are
        left out.
    metric : Metric or str, default NDCG @ 10
        With per-user values.
    n_threads : int, default 0
        0 uses every core this process may use.

    Returns
    -------
    Difference
        Of ``model`` minus ``earlier``; ``is_fall`` is for an alert.

    Raises
    ------
    ValueError, TypeError
        ``model`` lacks the interactions of its fit, ``test`` has nothing that both can be judged
        by, ids are whole numbers in only one of them, or as in :func:`mfrank.evaluate`.

    Examples
    --------
    >>> import mfrank
    >>> data = mfrank.synthetic(200, 100, 4000, random_state=0)
    >>> split = mfrank.by_time(data, test=0.1)
    >>> earlier = mfrank.ALS(factors=8, random_state=0).fit(split.train)
    >>> model = mfrank.ALS(factors=16, random_state=0).fit(split.train)
    >>> mfrank.paired_change(model, earlier, split.test).is_fall(errors=3)
    False
    """
    for name, one in (("model", model), ("earlier", earlier)):
        check_instance(name, one, Recommender, "a fitted model")
    if model.seen is None:
        raise InputValueError(
            "`model` has no interactions, which its lists leave out:",
            "load a model saved with `with_seen=True`",
        )
    data = Interactions.of(test)
    others: dict[str, Any] = {"test": data, "earlier": earlier}
    for name, other in others.items():
        check_numbering(other.user_ids, model.user_ids, name, "user")
        check_numbering(other.item_ids, model.item_ids, name, "item")
    if not (model.user_ids.rows(earlier.user_ids.labels, missing=-1) >= 0).any():
        raise InputValueError(
            "`earlier` knows no user of `model`:", "pass an earlier version of the same model"
        )
    users = model.user_ids.rows(data.user_ids.labels, missing=-1)
    users[earlier.user_ids.rows(data.user_ids.labels, missing=-1) < 0] = -1
    items = model.item_ids.rows(data.item_ids.labels, missing=-1)
    judged = placed(data, users, items, model.user_ids, model.item_ids)
    left_out = Interactions.from_sparse(
        model.seen.filtered.checked, user_ids=model.user_ids, item_ids=model.item_ids
    )
    both = [
        evaluate(ranker, judged, train=left_out, metrics=metric, n_threads=n_threads)
        for ranker in (model, _InRowsOf(model, earlier, n_threads).recommend)
    ]
    if not both[0].n_users:
        raise InputValueError(
            "`test` has no relevant item of a user whom both models know, but what `model` has "
            "learned already:",
            "compare the models before the newer one learns `test`",
        )
    return both[0].compare(both[1], metric)


@dataclass(frozen=True, slots=True, eq=False)
class _InRowsOf:
    """Recommends as ``earlier`` does, in rows of ``model``, and only its items."""

    model: Recommender
    earlier: Recommender
    n_threads: int

    def recommend(self, users: Any, user_items: Any, N: int) -> tuple[Any, Any]:
        """Ids and scores for users whom both know, without ``user_items``."""
        model, earlier = self.model, self.earlier
        here = earlier.item_ids.rows(model.item_ids.labels, missing=-1)
        there = model.item_ids.rows(earlier.item_ids.labels, missing=-1)
        rows = user_items.tocoo()
        known = here[rows.col] >= 0
        cells = rows.row[known], here[rows.col[known]]
        ids, scores = earlier.recommend(
            earlier.user_ids.rows(model.user_ids.labels[users]),
            sp.csr_array((rows.data[known], cells), (len(users), len(there))),
            N,
            filter_items=np.flatnonzero(there < 0),
            by_row=True,
            n_threads=self.n_threads,
        )
        return np.where(ids >= 0, there[ids], -1), scores
