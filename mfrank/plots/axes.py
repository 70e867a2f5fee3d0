"""Axes to draw into: matplotlib is imported here, when a picture is asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfrank.files.atomic import replacing
from mfrank.files.regular import path_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLORS", "GRAY", "MARKERS", "axes_of", "check_matplotlib", "save"]

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222")
"""Of models, in turn: those of Okabe and Ito, which the color-blind tell apart."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""In turn too, so that more models than there are colors, or gray prints, can be read."""

GRAY = "#8a8a8a"


def check_matplotlib() -> None:
    """Raise ModuleNotFoundError if matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "pictures need matplotlib: pip install mfrank[plot]", name=error.name
        ) from error


def axes_of(ax: Any, width: float = 5.5, height: float = 3.6) -> Axes:
    """The given Axes, or those of a new figure of this size in inches."""
    check_matplotlib()
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    if ax is not None and not isinstance(ax, Axes):
        raise TypeError(f"ax must be a matplotlib Axes or None, got {type(ax).__name__}")
    if ax is None:
        figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
        ax = figure.add_subplot()
    axes: Axes = ax
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def save(ax: Axes, path: str | os.PathLike[str]) -> Path:
    """Write the figure of these Axes to a file, whole or not at all.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        As the functions of :mod:`mfrank.plots` return.
    path : path
        Its ending is the format, such as .png, .svg or .pdf.

    Returns
    -------
    Path

    Raises
    ------
    ValueError
        matplotlib knows no such format.
    OSError
        The file cannot be written.
    """
    target = path_of(path)
    figure: Any = ax.figure
    ending = target.suffix.removeprefix(".").lower()
    known = figure.canvas.get_supported_filetypes()
    if ending not in known:
        raise ValueError(f"{target} must end in one of .{', .'.join(sorted(known))}")
    with replacing(target) as draft:
        figure.savefig(draft, format=ending)
    return target
