"""A metric by groups of users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mfrank.data.groups import Groups, by_activity
from mfrank.evaluation.kinds import Metric
from mfrank.plots.axes import COLORS, MARKERS, axes_of
from mfrank.plots.rows import evaluations_of, metric_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["activity"]


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
        Default the first that was evaluated.
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
    chosen = metric_of(metric or next(iter(next(iter(evaluations.values())).scores)))
    for one in evaluations.values():
        if one[chosen].per_user is None:
            raise ValueError(f"{chosen} has one value for all users, so it has none for groups")
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
            fmt=MARKERS[place % len(MARKERS)], markersize=5, capsize=2.5, elinewidth=1.2,
            color=COLORS[place % len(COLORS)], label=name or "_",
        )  # fmt: skip
    first = next(iter(parts.values()))
    counts = [f"{group}\n{first[group].n_users:,} users" for group in shown if group in first]
    axes.set_xticks(range(len(shown)), counts if len(counts) == len(shown) else shown, fontsize=8)
    axes.set_xlim(-0.5, len(shown) - 0.5)
    axes.set_xlabel("users by their training interactions")
    axes.set_ylabel(f"{chosen}, 95 % interval")
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    if any(evaluations):
        axes.legend(frameon=False)
    return axes
