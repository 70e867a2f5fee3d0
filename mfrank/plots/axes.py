"""Axes to draw into, and the data of pictures."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfrank.arrays import needs
from mfrank.comparison import Comparison
from mfrank.errors import InputTypeError, InputValueError
from mfrank.evaluation import Evaluation
from mfrank.files import path_of, replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222")
"""Of models, in turn: those of Okabe and Ito, which the color-blind tell apart."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""In turn too, so that more models than there are colors, or gray prints, can be read."""

GRAY = "#8a8a8a"

BARS: dict[str, Any] = {"markersize": 5, "capsize": 2.5, "elinewidth": 1.2}
"""Points and bars of intervals, in points of print."""


def check_matplotlib() -> None:
    """Raise ModuleNotFoundError if matplotlib is not installed."""
    with needs("plot", "pictures need matplotlib"):
        import matplotlib  # noqa: F401


def axes_of(ax: Any, width: float = 5.5, height: float = 3.6) -> Axes:
    """The caller's Axes, or the Axes of a new figure of this size in inches."""
    check_matplotlib()
    from matplotlib.axes import Axes

    from mfrank.plots.notebook import ShownAxes, ShownFigure

    if ax is not None and not isinstance(ax, Axes):
        raise InputTypeError(f"`ax` must be a matplotlib Axes or None, got {type(ax).__name__}")
    if ax is None:
        figure = ShownFigure(figsize=(width, height), dpi=150, layout="constrained")
        ax = figure.add_subplot(axes_class=ShownAxes)
    axes: Axes = ax
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def save(ax: Axes, path: str | os.PathLike[str]) -> Path:
    """Write the figure of these Axes to a file, atomically.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Axes from the functions of :mod:`mfrank.plots`.
    path : path
        The suffix is the format, such as .png, .svg or .pdf.

    Returns
    -------
    Path

    Raises
    ------
    ValueError
        matplotlib does not know the format.
    OSError
        The file cannot be written.
    """
    target = path_of(path)
    figure: Any = ax.figure
    ending = target.suffix.removeprefix(".").lower()
    known = figure.canvas.get_supported_filetypes()
    if ending not in known:
        raise InputValueError(
            f"{target} must end in one of .{', .'.join(sorted(known))}", place=target
        )
    with replacing(target) as draft:
        figure.savefig(draft)
    return target


# What pictures are made of: the rows of a search, the evaluations of several models.


def rows_of(results: Any) -> list[Mapping[str, Any]] | None:
    """Rows of a search that have a value; None if the results are not a leaderboard."""
    if isinstance(results, str | bytes) or not isinstance(results, Sequence) or not results:
        return None
    if not all(isinstance(row, Mapping) and "value" in row and "model" in row for row in results):
        return None
    rows = [row for row in results if row["value"] is not None]
    if not rows:
        raise InputValueError(
            "`results`: no model of the leaderboard has a value", "each of its rows says why"
        )
    return rows


def evaluations_of(results: Any) -> dict[str, Evaluation]:
    """Evaluations by name."""
    if isinstance(results, Comparison):
        return {row.model: row.evaluation for row in results.rows}
    if isinstance(results, Evaluation):
        return {"": results}
    if (
        isinstance(results, Mapping)
        and results
        and all(isinstance(one, Evaluation) for one in results.values())
    ):
        return {str(name): one for name, one in results.items()}
    raise InputTypeError(
        "`results` must be a Leaderboard, a Comparison, or Evaluations by the names of the "
        f"models; got {type(results).__name__}"
    )
