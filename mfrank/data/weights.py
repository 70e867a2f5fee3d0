"""Weights of interactions: logarithms, BM25 and tf-idf, and by recency.

For BM25 and tf-idf, an item is a document and its users are the terms. Users with few items are
more informative about each of them, and repeated use of an item adds less each time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import check_above_zero, check_at_least_zero, counted, is_number, shown
from mfrank.data.interactions import Interactions
from mfrank.data.notes import log as _log
from mfrank.data.odd_times import check_moment, tell_of_duration
from mfrank.data.selection import with_weighted_values
from mfrank.data.splits import timestamps_of
from mfrank.errors import InputValueError, Notice

_FADED = 50
"""Half-lives after which a weight is below the rounding of all others."""
_LEAST_IDF = 1e-6
"""For users of all or nearly all items, whose idf is not positive: nothing becomes a dislike."""


def bm25_weight(interactions: Any, K1: float = 100.0, B: float = 0.8) -> Interactions:
    """Weight interactions by BM25, as ``implicit.nearest_neighbours.bm25_weight`` does.

    The value v of user x and item y becomes ``v (K1 + 1) / (K1 l_y + v) idf_x``, where ``l_y = 1 -
    B + B s_y / mean(s)`` with the sum s_y of the item's values, and ``idf_x = log(n_items / (1 +
    n_x))`` with the number n_x of the user's items (Robertson & Zaragoza 2009, "The Probabilistic
    Relevance Framework: BM25 and Beyond"; the idf is from Lucene's first similarity). The idf is at
    least 1e-6, unlike in implicit: users of all items keep positive weights.

    Parameters
    ----------
    interactions : Interactions, scipy sparse (users x items) or DataFrame
        Values > 0, such as counts.
    K1 : float, default 100
        >= 0. Saturation of repeated use: the larger ``K1``, the later it sets in; with 0, values do
        not count.
    B : float, default 0.8
        In [0, 1]. Strength of the reduction for popular items.

    Returns
    -------
    Interactions
        The same cells, ids and timestamps, with new values in the same dtype.

    Raises
    ------
    ValueError
        A value is negative, or ``K1`` or ``B`` is out of range.
    TypeError
        ``interactions`` cannot be read as interactions.

    Examples
    --------
    >>> import mfrank
    >>> plays = mfrank.synthetic(30, 20, 100, random_state=0)
    >>> model = mfrank.ALS(mfrank.WRMF(), factors=4).fit(mfrank.bm25_weight(plays, K1=1.2))
    """
    check_at_least_zero(K1=K1, B=B)
    if B > 1:
        raise InputValueError(f"`B` must be a number from 0 to 1, got {B!r}")
    data, values = _positive(interactions)
    lengths = np.bincount(data.user_items.indices, values, minlength=data.n_items)
    mean = lengths.sum() / max(data.n_items, 1)
    norms = 1 - B + B * lengths / (mean or 1)
    weights = values * (K1 + 1) / (K1 * norms[data.user_items.indices] + values)
    return _with_values(data, weights * _idf(data), "bm25_weight", K1, B)


def tfidf_weight(interactions: Any) -> Interactions:
    """Weight interactions by tf-idf, as ``implicit.nearest_neighbours.tfidf_weight`` does.

    The value v of user x and item y becomes ``sqrt(v) log(n_items / (1 + n_x))``, with the number
    n_x of the user's items (Spärck Jones 1972, "A Statistical Interpretation of Term Specificity
    and Its Application in Retrieval"; the square root is Lucene's). The logarithm is at least 1e-6,
    as in :func:`bm25_weight`.

    Parameters
    ----------
    interactions : Interactions, scipy sparse (users x items) or DataFrame
        Values > 0, such as counts.

    Returns
    -------
    Interactions
        The same cells, ids and timestamps, with new values in the same dtype.

    Raises
    ------
    ValueError
        A value is negative.
    TypeError
        ``interactions`` cannot be read as interactions.
    """
    data, values = _positive(interactions)
    return _with_values(data, np.sqrt(values) * _idf(data), "tfidf_weight")


def log_weight(interactions: Any, scale: float = 1.0) -> Interactions:
    """Weight interactions by the logarithm of their values: ``log(1 + v / scale)``.

    For heavy-tailed values such as play counts, seconds watched or amounts of money. Hu, Koren &
    Volinsky (2008) propose it as the confidence of ``WRMF``. On the play counts of lastfm-2k, 1 to
    352,698, ``ALS(WRMF())`` ranks better with it (``bench/NOTES.md``).

    Parameters
    ----------
    interactions : Interactions, scipy sparse (users x items) or DataFrame
        Values > 0, such as counts.
    scale : float, default 1.0
        > 0. The weight is linear in values far below it, logarithmic in values far above.

    Returns
    -------
    Interactions
        The same cells, ids and timestamps, with new values in the same dtype.

    Raises
    ------
    ValueError
        A value is negative, or ``scale`` is not above 0.
    TypeError
        ``interactions`` cannot be read as interactions.

    Examples
    --------
    >>> import mfrank
    >>> plays = mfrank.Interactions.from_arrays(["ann", "ann"], ["Bach", "Abba"], [1, 9999])
    >>> mfrank.log_weight(plays).to_pandas()["value"].round(1).tolist()
    [9.2, 0.7]
    """
    check_above_zero(scale=scale)
    data, values = _positive(interactions)
    # log(1 + exp(log v - log scale)): the quotient itself could overflow
    logarithms = np.logaddexp(0.0, np.log(values) - np.log(float(scale)))
    return _with_values(data, logarithms, "log_weight", scale)


def recency_weight(
    interactions: Any, half_life: float, *, now: float | None = None
) -> Interactions:
    """Weight interactions by their age: each half-life halves the value.

    The value v of an interaction at time t becomes ``v 2^-((now - t) / half_life)``. Use it with
    models that read values: ``ItemKNN``, and ``WRMF``, where values are confidences and old
    interactions fade toward unobserved cells. A different ``now`` only rescales all values, like a
    different ``alpha`` of ``WRMF``.

    Repeated interactions of a user with an item are already one entry with the latest time, so the
    sum is weighted by that time. ``mfrank.Events.weighted(..., half_life=)`` ages each event by its
    own time, and so do values that are weighted before they are summed::

        values = values * 2.0 ** ((timestamps - timestamps.max()) / half_life)
        data = mfrank.Interactions.from_arrays(users, items, values, timestamps)

    ``partial_fit(today, decay=2 ** (-day / half_life))`` updates a fit daily with the same weights:
    it ages all earlier interactions.

    Parameters
    ----------
    interactions : Interactions or DataFrame
        With timestamps.
    half_life : float
        > 0, in the unit of the timestamps: seconds, if they were dates. An implausible value, such
        as 30 for days, is logged as a warning.
    now : float, optional
        Time of weight 1, not before the latest timestamp, which is the default.

    Returns
    -------
    Interactions
        The same cells, ids and timestamps, with new values in the same dtype. No value becomes 0:
        the minimum is the smallest positive number of the dtype.

    Raises
    ------
    ValueError
        There are no timestamps, ``half_life`` is not above 0, or ``now`` is before the latest.
    TypeError
        ``interactions`` cannot be read as interactions.

    Examples
    --------
    >>> import mfrank
    >>> days = ["2026-03-01", "2026-03-31"]
    >>> data = mfrank.Interactions.from_arrays(["ann", "ann"], ["tea", "milk"], [2, 2], days)
    >>> data = mfrank.recency_weight(data, half_life=30 * 86_400)
    >>> data.to_pandas()["value"].tolist()
    [2.0, 1.0]
    """
    check_above_zero(half_life=half_life)
    data, half_life = Interactions.of(interactions), float(half_life)
    times = timestamps_of(data, "recency_weight", "Interactions.weighted with weights of your own")
    tell_of_duration("half_life", half_life, times)
    latest = int(times.max(initial=np.iinfo(np.int64).min))
    if now is not None and is_number(now) and len(times):
        check_moment("now", int(now), times)
    if now is None:
        now = latest
    elif not is_number(now) or (len(times) and now < latest):
        raise InputValueError(
            f"`now` must be a time not before the latest interaction, at {latest}, got "
            f"{shown(now)}",
            "`interactions.take(interactions.timestamps <= now)` leaves later ones out",
        )
    ages = float(now) - times.astype(np.float64)
    faded = int(np.count_nonzero(ages > _FADED * half_life))
    if 2 * faded > len(ages):
        _log.warning(
            "%s of %s are more than %d half-lives (%g) older than %d, so that they count nearly "
            "nothing: is it another unit, or are some timestamps too late?",
            *(f"{faded:,}", counted(len(ages), "interaction"), _FADED, half_life, now),
        )
    aged = data.user_items.data * np.exp2(-ages / half_life)
    return _with_values(data, aged, "recency_weight", half_life)


def _positive(interactions: Any) -> tuple[Interactions, NDArray[np.float64]]:
    """The interactions, and their values in float64, all > 0."""
    data = Interactions.of(interactions)
    values = data.user_items.data.astype(np.float64)
    if (values < 0).any():
        raise InputValueError(
            f"`values` must be > 0 to be weighted, got {values.min():g}",
            "drop dislikes with `interactions.at_least(0)`",
        )
    return data, values


def _idf(data: Interactions) -> NDArray[np.float64]:
    """Log of all items over the items of the entry's user, for each entry."""
    idf = np.log(max(data.n_items, 1)) - np.log1p(data.counts.users)
    each: NDArray[np.float64] = np.maximum(idf, _LEAST_IDF)[data.entry_users]
    return each


def _with_values(
    data: Interactions, values: NDArray[np.float64], name: str, *options: float
) -> Interactions:
    """The same cells with other values, which keep a distance from 0 and their signs."""
    if name in data.weightings:
        _log.warning(
            Notice(
                f"these interactions were weighted by `{name}` before, and are again: do so once"
            )
        )
    rows = data.user_items
    sizes = np.maximum(np.abs(values), np.finfo(rows.dtype).tiny)
    signed = np.copysign(sizes, values).astype(rows.dtype)
    how = f"{name}({', '.join(f'{one:g}' for one in options)})"
    return with_weighted_values(data, signed)._with_notes([*data.notes, how])
