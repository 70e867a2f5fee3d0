"""What is popular now, for data with times."""

from __future__ import annotations

from dataclasses import dataclass

from mfrank.data.order_statistic import kth_largest
from mfrank.models.popularity import Popularity
from mfrank.tuning.axes import Axis, Point
from mfrank.tuning.family import Family, Setting, short

__all__ = ["Recent"]


@dataclass(frozen=True)
class Recent(Family):
    """Popularity within a window. ``share``: that of the interactions which are in the window."""

    name: str = "RecentPopularity"
    first_values: tuple[float, ...] = (0.01,)

    axes = (Axis("share", 3e-4, 0.3),)
    rungs = 1

    def model(self, point: Point, rung: int, setting: Setting) -> Popularity:
        """See :meth:`Family.model`."""
        times = setting.facts.data.timestamps
        assert times is not None  # by which the search has chosen the space
        begins = kth_largest(times, max(1, round(self.values(point)["share"] * len(times))))
        return Popularity(window=short(max(1, int(times.max()) - begins)))

    def work(self, rung: int, setting: Setting) -> float:
        """See :meth:`Family.work`."""
        return 6e-8 * setting.facts.data.nnz
