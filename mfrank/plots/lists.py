"""Pictures of lists: quality by activity of users, and exposure of items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mfrank.data import Groups, Interactions, by_activity, by_ids
from mfrank.errors import InputValueError
from mfrank.evaluation import Metric, as_metric
from mfrank.plots.axes import BARS, COLORS, GRAY, MARKERS, axes_of, evaluations_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def activity(
    results: Any, train: Any, metric: Metric | str | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw a metric by the users' activity, with 95 % intervals.

    Parameters
    ----------
    results : Evaluation, Comparison, or mapping of str to Evaluation
    train : Interactions, scipy sparse (users x items), DataFrame or Groups
        The training data, whose users are divided into four groups by :func:`mfrank.by_activity`;
        or groups of users.
    metric : Metric or str, optional
        Default: the first evaluated metric.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        For each model, a point with its interval for each group.

    Raises
    ------
    TypeError, ValueError, KeyError
        ``results`` are none of these, lack the metric, or it has no per-user values; or ``train``
        has other users.
    ModuleNotFoundError
        matplotlib is not installed.
    """
    evaluations = evaluations_of(results)
    groups = train if isinstance(train, Groups) else by_activity(train)
    chosen = as_metric(metric or next(iter(next(iter(evaluations.values())).scores)))
    for one in evaluations.values():
        if one[chosen].per_user is None:
            raise InputValueError(
                f"`metric`: {chosen} has one value for all users, so it has none for groups"
            )
    parts = {name: one.by_group(groups) for name, one in evaluations.items()}
    shown = [name for name in groups.names if any(name in part for part in parts.values())]
    axes = axes_of(ax)
    for place, (name, part) in enumerate(parts.items()):
        there = [group for group in range(len(shown)) if shown[group] in part]
        scores = [part[shown[group]][chosen] for group in there]
        offset = 0.12 * (place - (len(parts) - 1) / 2)
        axes.errorbar(
            np.array(there) + offset,
            [score.value for score in scores],
            yerr=[1.959964 * np.nan_to_num(score.standard_error) for score in scores],
            fmt=MARKERS[place % len(MARKERS)], color=COLORS[place % len(COLORS)], label=name,
            **BARS,
        )  # fmt: skip
    first = next(iter(parts.values()))
    counts = [f"{group}\n{first[group].n_users:,} users" for group in shown if group in first]
    axes.set_xticks(range(len(shown)), counts if len(counts) == len(shown) else shown, fontsize=8)
    axes.set_xlim(-0.5, len(shown) - 0.5)
    axes.set_xlabel(
        "groups of users" if groups is train else "users by their training interactions"
    )
    axes.set_ylabel(f"{chosen}, 95 % interval")
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    if any(evaluations):
        axes.legend(frameon=False)
    return axes


# How often items are recommended, against how popular they are.


def exposure(results: Any, train: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the cumulative share of recommendations by popularity of the items.

    Items are ordered from the least popular. The dashed line is the cumulative share of training
    interactions: a model below it recommends popular items more often than users chose them. The
    diagonal is equal exposure of all items.

    Parameters
    ----------
    results : Evaluation, Comparison, or mapping of str to Evaluation
        Results with metrics of the top ranks.
    train : Interactions, scipy sparse (users x items) or DataFrame
        The training data; Interactions are matched by id, a matrix has the rows of the evaluation.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        One line per model, then the training data and the diagonal.

    Raises
    ------
    TypeError, ValueError
        ``results`` are none of these or have no lists, or ``train`` has other items.
    ModuleNotFoundError
        matplotlib is not installed.
    """
    evaluations = evaluations_of(results)
    data = Interactions.of(train)
    popularity = {
        name: by_ids(data.counts.items, data.item_ids, one.item_ids, 0)[0]
        for name, one in evaluations.items()
    }
    for name, one in evaluations.items():
        of = f" of {name}" if name else ""
        if one.exposure is None or not one.exposure.any():
            raise InputValueError(
                f"the evaluation{of} has no lists:",
                "evaluate with a metric such as ndcg@10, and without `negatives`",
            )
        if len(one.exposure) != len(popularity[name]):
            raise InputValueError(
                f"`train` must have the {len(one.exposure):,} items of the evaluation{of}, got "
                f"{len(popularity[name]):,}"
            )
    axes = axes_of(ax)
    for place, (name, one) in enumerate(evaluations.items()):
        x, y = _shares(np.asarray(one.exposure), popularity[name])
        axes.plot(x, y, color=COLORS[place % len(COLORS)], label=name or "recommendations")
    of_first = next(iter(popularity.values()))
    axes.plot(
        *_shares(of_first, of_first),
        color="#444444",
        linestyle="--",
        label="training interactions",
    )
    axes.plot([0, 1], [0, 1], color=GRAY, linewidth=0.8, label="equal exposure")
    axes.set_xlabel("items, from the least to the most popular")
    axes.set_ylabel("share of recommendations")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.01)
    axes.legend(frameon=False)
    return axes


def _shares(
    counts: NDArray[np.int64], popularity: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shares of the items, from the least popular, and their shares of the counts."""
    total = np.append(0, np.cumsum(counts[np.argsort(popularity, kind="stable")]))
    return np.linspace(0, 1, len(total)), total / max(int(total[-1]), 1)
