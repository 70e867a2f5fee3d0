"""Linear item-to-item models, which blend well with factors."""

from __future__ import annotations

from dataclasses import dataclass

from mfrank.models.ease import EASE
from mfrank.models.item_filter import ItemFilter
from mfrank.tuning.axes import Axis, Point
from mfrank.tuning.family import Family, Setting, short
from mfrank.tuning.rates import multiply_add_seconds

__all__ = ["Filter", "Regression"]

_MOST_WEIGHTS = 5_000_000
_BYTES_A_WEIGHT = 40
"""Bytes of a sparse weight between items while the rows are put together."""


@dataclass(frozen=True)
class Regression(Family):
    """EASE and its powers. ``ridge``: its regularization, in units of ``Facts.spread`` squared."""

    name: str = "EASE"
    first_values: tuple[float, ...] = (1.0, 0.5, 0.5)

    axes = (
        Axis("ridge", 0.03, 10.0),
        Axis("user_power", 0.0, 1.0, logarithmic=False),
        Axis("item_power", 0.0, 1.0, logarithmic=False),
    )
    rungs = 1

    def model(self, point: Point, rung: int, setting: Setting) -> EASE:
        """See :meth:`Family.model`."""
        values = self.values(point)
        return EASE(
            short(values["ridge"] * setting.facts.spread**2),
            self._neighbors(setting),
            short(values["user_power"]),
            short(values["item_power"]),
        )

    def work(self, rung: int, setting: Setting) -> float:
        """See :meth:`Family.work`."""
        data = setting.facts.data
        fewer, more = sorted((data.n_users, data.n_items))
        products = 1e-9 * more * data.nnz * (fewer == data.n_users)
        inverse = 0.6 * fewer**3 * multiply_add_seconds()
        if EASE.inverts_in_float32(data.n_users, data.n_items):
            inverse *= 0.65
        return inverse + products + 2.5e-8 * data.n_items**2

    def bytes_needed(self, rung: int, setting: Setting) -> int:
        """See :meth:`Family.bytes_needed`."""
        data = setting.facts.data
        weights = _BYTES_A_WEIGHT * data.n_items * min(self._neighbors(setting), data.n_items)
        return EASE.bytes_needed(data.n_users, data.n_items) + weights

    def _neighbors(self, setting: Setting) -> int:
        """The default, or more where items are few: each weight that is left out costs a little."""
        return max(EASE.neighbors, _MOST_WEIGHTS // setting.facts.data.n_items)


@dataclass(frozen=True)
class Filter(Family):
    """The normalized filter; its axes are its options."""

    name: str = "ItemFilter"
    first_values: tuple[float, ...] = (0.7, 0.5)

    axes = (
        Axis("user_power", 0.0, 1.0, logarithmic=False),
        Axis("item_power", 0.1, 0.9, logarithmic=False),
    )
    rungs = 1

    def model(self, point: Point, rung: int, setting: Setting) -> ItemFilter:
        """See :meth:`Family.model`."""
        values = self.values(point)
        return ItemFilter(short(values["user_power"]), short(values["item_power"]))

    def work(self, rung: int, setting: Setting) -> float:
        """See :meth:`Family.work`."""
        data = setting.facts.data
        return 2e-8 * float((data.counts.users**2.0).sum()) + 5e-9 * data.n_items**2

    def bytes_needed(self, rung: int, setting: Setting) -> int:
        """See :meth:`Family.bytes_needed`."""
        n_items = setting.facts.data.n_items
        return _BYTES_A_WEIGHT * n_items * min(ItemFilter.neighbors, n_items)
