"""A metric against what it costs: factors, or seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mfrank.arrays.checks import check_choice
from mfrank.plots.axes import COLORS, MARKERS, axes_of
from mfrank.plots.rows import rows_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["cost"]

_WIDE = 1000
"""Times as long: powers of ten are enough."""


def cost(
    results: Any, by: Literal["factors", "seconds"] = "factors", *, ax: Axes | None = None
) -> Axes:
    """Draw the metric of each trial of a search against its factors or its seconds.

    For each family, a line shows the best value with at most that many factors, or seconds: where
    it is level, more of them bring nothing.

    Parameters
    ----------
    results : Leaderboard
        Of :func:`mfrank.tune`: ``found.leaderboard``.
    by : {"factors", "seconds"}, default "factors"
        Width of the factors, or the time of the trial.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        For each family of models, its trials as points and one line.

    Raises
    ------
    TypeError, ValueError
        ``results`` is not a leaderboard, or none of its models has a value, or factors.
    ModuleNotFoundError
        matplotlib is not installed.
    """
    check_choice("by", by, ("factors", "seconds"))
    rows = rows_of(results)
    if rows is None:
        raise TypeError(f"results must be a Leaderboard of tune, got {type(results).__name__}")
    points = [row for row in rows if row[by]]
    if not points:
        raise ValueError(f"no model of the leaderboard has {by}")
    axes = axes_of(ax, width=6.5)
    families = list(dict.fromkeys(str(row["family"]) for row in points))
    for place, family in enumerate(families):
        own = [row for row in points if row["family"] == family]
        x = np.array([float(row[by]) for row in own])
        y = np.array([float(row["value"]) for row in own])
        color, marker = COLORS[place % len(COLORS)], MARKERS[place % len(MARKERS)]
        axes.scatter(x, y, s=14, color=color, marker=marker, alpha=0.4, linewidths=0)
        widths = np.unique(x)
        best = [y[x <= width].max() for width in widths]
        axes.plot(widths, best, drawstyle="steps-post", color=color, label=family,
                  marker=marker, markersize=4.5)  # fmt: skip
    _scale(axes, by)
    axes.set_xlabel("factors" if by == "factors" else "seconds of the trial")
    axes.set_ylabel(str(points[0]["metric"]))
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return axes


def _scale(axes: Axes, by: str) -> None:
    """Logarithmic, with numbers near enough to be read between them."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_xscale("log", base=2 if by == "factors" else 10)
    if by == "seconds":
        low, high = axes.get_xlim()
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < _WIDE * low else (1,)))
        axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:g}")
