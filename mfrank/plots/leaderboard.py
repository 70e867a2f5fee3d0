"""Models in the order of a metric, each with its interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mfrank.arrays.checks import check_count
from mfrank.arrays.counted import counted
from mfrank.evaluation.kinds import Metric
from mfrank.plots.axes import COLORS, GRAY, axes_of
from mfrank.plots.rows import evaluations_of, metric_of, rows_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["leaderboard"]

_SHORT = 44


def leaderboard(
    results: Any, metric: Metric | str | None = None, *, n: int = 15, ax: Axes | None = None
) -> Axes:
    """Draw the value of each model with its 95 % interval, the best at the top.

    An interval is of one model's mean over users. To see whether two models differ, use
    :func:`mfrank.paired_differences`, not whether intervals overlap: users who are easy for one
    model are easy for the other.

    Parameters
    ----------
    results : Leaderboard, Comparison, or mapping of str to Evaluation
        Of :func:`mfrank.tune` (``found.leaderboard``), of :func:`mfrank.compare`, or evaluations by
        the names of the models.
    metric : Metric or str, optional
        Default: that of the search, or the first that was evaluated.
    n : int, default 15
        Maximum number of models to show.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        A point and a bar for each model; those that ``tune`` blended are filled.

    Raises
    ------
    TypeError, ValueError, KeyError
        ``results`` are none of these, have no value, or lack the metric.
    ModuleNotFoundError
        matplotlib is not installed.
    """
    check_count("n", n, 1)
    rows = rows_of(results)
    if rows is not None:
        name = str(rows[0]["metric"])
        if metric is not None and metric_of(metric) != metric_of(name):
            raise KeyError(f"{metric} was not judged by the search, only {name}")
        found = [
            (_label(row), row["value"], row["low"], row["high"], bool(row["weight"]))
            for row in rows
        ]
        all_alike = not any(row[4] for row in found)
    else:
        evaluations = evaluations_of(results)
        chosen = metric_of(metric or next(iter(next(iter(evaluations.values())).scores)))
        name, all_alike = str(chosen), True
        found = [
            (label, *_interval(one[chosen].value, one[chosen].standard_error), False)
            for label, one in evaluations.items()
        ]
    found = sorted(found, key=lambda row: -row[1])[:n]
    axes = axes_of(ax, width=7, height=1 + 0.3 * len(found))
    for place, (_, value, low, high, used) in enumerate(found):
        color = COLORS[0] if used or all_alike else GRAY
        filled = "full" if used or all_alike else "none"
        axes.errorbar(
            [value], [place], xerr=[[value - low], [high - value]], fmt="o", fillstyle=filled,
            color=color, elinewidth=1.2, capsize=2.5, markersize=5,
        )  # fmt: skip
    axes.set_yticks(np.arange(len(found)), [label for label, *_ in found], fontsize=8)
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.set_xlabel(f"{name}, 95 % interval" + ("" if all_alike else "; filled: in the model"))
    axes.grid(axis="x", color="#e5e5e5", linewidth=0.8)
    axes.set_axisbelow(True)
    return axes


def _interval(value: float, error: float) -> tuple[float, float, float]:
    reach = 1.959964 * (error if error == error else 0.0)
    return value, value - reach, value + reach


def _label(row: Mapping[str, Any]) -> str:
    """What tells the trials of a search apart at a glance; a blend by what it is made of."""
    if row["factors"] is None:
        label = f"{row['rank']}. {row['model']}"
        return label if len(label) <= _SHORT else f"{label[: _SHORT - 1]}…"
    size, epochs = counted(row["factors"], "factor"), counted(row["epochs"], "epoch")
    return f"{row['rank']}. {row['family']}, {size}, {epochs}"
