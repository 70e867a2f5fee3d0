"""Pictures of fits, searches and evaluations, by matplotlib (extra ``plot``).

Each function takes what mfrank returned and draws it into ``ax``, a ``matplotlib.axes.Axes``, or
into a new figure, and returns the Axes: ``mfrank.plots.leaderboard(found.leaderboard)``. A new
figure belongs to no window: :func:`save` writes it to a file, and ``ax.figure`` shows it in a
notebook.
"""

from __future__ import annotations

from mfrank.plots.activity import activity
from mfrank.plots.axes import save
from mfrank.plots.convergence import convergence
from mfrank.plots.cost import cost
from mfrank.plots.exposure import exposure
from mfrank.plots.leaderboard import leaderboard

__all__ = ["activity", "convergence", "cost", "exposure", "leaderboard", "save"]
