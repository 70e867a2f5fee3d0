"""Pictures of fits, searches and evaluations, by matplotlib (extra ``plot``).

Each function draws a result of mfrank into ``ax``, a ``matplotlib.axes.Axes``, or into a new
figure, and returns the Axes: ``mfrank.plots.leaderboard(found.leaderboard)``. A new figure has no
window: :func:`save` writes it to a file, and a notebook shows it as the value of a cell.
"""

from mfrank.plots.axes import COLORS, check_matplotlib, save
from mfrank.plots.fits import convergence, cost, leaderboard
from mfrank.plots.lists import activity, exposure

__all__ = [
    "COLORS",
    "activity",
    "check_matplotlib",
    "convergence",
    "cost",
    "exposure",
    "leaderboard",
    "save",
]
