"""The families that a search tries beside the others where later interactions are held out.

They say what follows a user's last items, and what is popular now.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfrank.data import kth_largest
from mfrank.models import AsymmetricALS, NextItem, Popularity, SequentialRules
from mfrank.tuning.families import (
    BASELINES,
    BYTES_A_WEIGHT,
    FAMILIES,
    most_neighbors,
    multiply_add_seconds,
)
from mfrank.tuning.family import Axis, Facts, Family, Point, Setting, Space, short
from mfrank.tuning.fit_costs import fit_bytes, fit_seconds

_CANDIDATES = Axis("candidates", 60.0, 400.0)
_LAST = (
    Axis("last", 0.3, 3.0),
    Axis("ridge", 0.1, 10.0),
    Axis("ahead", 0.1, 3.0),
    Axis("item_power", 0.0, 0.4, logarithmic=False),
    Axis("backward", 0.02, 1.0),
    _CANDIDATES,
)


_PRODUCTS_AN_ENTRY = 20_000
"""From here on a regression on candidates is many times faster than one on all columns."""


@dataclass(frozen=True)
class Following(Family):
    """The regression on a user's last items, with one decay or two.

    ``last`` and ``long`` are its decays, ``ridge`` its regularization. ``ahead`` begins where it
    changes nothing. ``candidates`` counts where items are many or histories short.
    """

    name: str
    first_values: tuple[float, ...]

    axes: tuple[Axis, ...] = _LAST
    rungs = 1
    kind = NextItem

    def model(self, point: Point, rung: int, setting: Setting) -> NextItem:
        """See :meth:`Family.model`."""
        values = {name: short(value) for name, value in self.values(point).items()}
        return NextItem(
            tuple(values[name] for name in ("last", "long") if name in values),
            values["ridge"],
            values["ahead"],
            values["item_power"],
            values["backward"],
            most_neighbors(NextItem.neighbors, setting),
            round(values["candidates"]) if self._is_local(setting.facts) else None,
        )

    def work(self, rung: int, setting: Setting) -> float:
        """See :meth:`Family.work`."""
        data = setting.facts.data
        if self._is_local(setting.facts):
            return 7e-7 * self._entries(setting.facts) + 1e-4 * data.n_items
        width = self._decays * data.n_items
        solved = self._products(setting.facts) * multiply_add_seconds()
        if NextItem.is_single(self._decays, data.n_items):
            solved *= 0.6
        pairs = data.nnz * (1e-6 if self._decays == 1 else 6e-6)
        return solved + pairs + 2.5e-8 * width * data.n_items

    def bytes_needed(self, rung: int, setting: Setting) -> int:
        """See :meth:`Family.bytes_needed`."""
        n_items, decays = setting.facts.data.n_items, self._decays
        kept = min(most_neighbors(NextItem.neighbors, setting), n_items)
        most, entries = (
            (round(_CANDIDATES.high), self._entries(setting.facts))
            if self._is_local(setting.facts)
            else (None, 0)
        )
        needed = NextItem.bytes_needed(decays, n_items, most, entries)
        return needed + BYTES_A_WEIGHT * decays * n_items * kept

    def _is_local(self, facts: Facts) -> bool:
        return self._products(facts) > _PRODUCTS_AN_ENTRY * self._entries(facts)

    def _products(self, facts: Facts) -> float:
        """Multiply-adds of the regression on all columns."""
        width = float(self._decays * facts.data.n_items)
        return width**3 / 6 + width**2 * facts.data.n_items

    def _entries(self, facts: Facts) -> int:
        """Entries of histories, at the first values of the axes."""
        counts = facts.data.counts.users
        reaches = [4 * value for value in self.first_values[:: len(_LAST)]]
        return 2 * int(sum((counts * np.minimum(counts, reach)).sum() for reach in reaches))

    @property
    def _decays(self) -> int:
        return 1 + len(self.axes) - len(_LAST)


_LEAST_AHEAD = 0.2
"""Of ``ahead``, below which the items behind the next one have weights under 1 %."""


@dataclass(frozen=True)
class Asymmetric(Family):
    """Factors by which a user's last items lead to the next; its axes are its options."""

    name: str = "AsymmetricALS"
    kind = AsymmetricALS
    first_values: tuple[float, ...] = (1.0, 10.0, 0.01, 0.003, 0.1, 0.1, 0.5)

    axes = (
        Axis("last", 0.3, 3.0),
        Axis("long", 3.0, 60.0),
        Axis("alpha0", 1e-3, 0.2),
        Axis("ridge", 3e-4, 0.05),
        Axis("ahead", 0.1, 1.0),
        Axis("item_power", 0.0, 0.4, logarithmic=False),
        Axis("backward", 0.02, 1.0),
    )
    rungs = 2

    def model(self, point: Point, rung: int, setting: Setting) -> AsymmetricALS:
        """See :meth:`Family.model`."""
        values = {name: short(value) for name, value in self.values(point).items()}
        return AsymmetricALS(
            (values["last"], values["long"]),
            self._width(rung, setting),
            values["alpha0"],
            values["ridge"],
            values["ahead"] if values["ahead"] >= _LEAST_AHEAD else 0.0,
            values["item_power"],
            values["backward"],
            neighbors=most_neighbors(AsymmetricALS.neighbors, setting),
        )

    def work(self, rung: int, setting: Setting) -> float:
        """See :meth:`Family.work`."""
        return fit_seconds(self.model(self.first, rung, setting), setting.facts, setting.n_threads)

    def bytes_needed(self, rung: int, setting: Setting) -> int:
        """See :meth:`Family.bytes_needed`."""
        return fit_bytes(self.model((1.0,) * len(self.axes), rung, setting), setting.facts)

    def _width(self, rung: int, setting: Setting) -> int:
        return setting.width((8, 4)[rung])


_PLACES = 2_000_000
"""Places of the epochs of a softmax, where there are few; many have one epoch."""


@dataclass(frozen=True)
class Refined(Family):
    """The same factors, refined by a softmax: four decays, from ``last`` to ``long``.

    ``share``: one factor of so many of the most. A narrow fit tells little of a wide one, and takes
    half of its time, so neither is a rung of the other.
    """

    name: str
    share: int

    kind = AsymmetricALS
    first_values: tuple[float, ...] = (0.5, 20.0, 0.01, 0.003, 0.003, 0.3)
    axes = (
        Axis("last", 0.3, 2.0),
        Axis("long", 4.0, 60.0),
        Axis("alpha0", 1e-3, 0.2),
        Axis("ridge", 3e-4, 0.05),
        Axis("rate", 1e-3, 1e-2),
        Axis("dropout", 0.0, 0.6, logarithmic=False),
    )
    rungs = 1

    def model(self, point: Point, rung: int, setting: Setting) -> AsymmetricALS:
        """See :meth:`Family.model`."""
        values = {name: short(value) for name, value in self.values(point).items()}
        decays = np.geomspace(values["last"], values["long"], 4)
        return AsymmetricALS(
            tuple(short(decay) for decay in decays),
            setting.width(self.share),
            values["alpha0"],
            values["ridge"],
            iterations=1,
            neighbors=most_neighbors(AsymmetricALS.neighbors, setting),
            softmax_epochs=int(np.clip(_PLACES // setting.facts.data.nnz, 1, 6)),
            learning_rate=values["rate"],
            dropout=values["dropout"],
        )

    def work(self, rung: int, setting: Setting) -> float:
        """See :meth:`Family.work`."""
        return fit_seconds(self.model(self.first, rung, setting), setting.facts, setting.n_threads)

    def bytes_needed(self, rung: int, setting: Setting) -> int:
        """See :meth:`Family.bytes_needed`."""
        return fit_bytes(self.model(self.first, rung, setting), setting.facts)


@dataclass(frozen=True)
class Rules(Family):
    """Counts of what lately followed an item; its axes are its options."""

    name: str = "SequentialRules"
    kind = SequentialRules
    first_values: tuple[float, ...] = (1.0, 3.0, 0.3, 300.0, 0.5)

    axes = (
        Axis("last", 0.3, 6.0),
        Axis("near", 1.0, 10.0),
        Axis("backward", 0.03, 1.0),
        Axis("latest", 30.0, 10_000.0),
        Axis("count_power", 0.0, 1.0, logarithmic=False),
    )
    rungs = 1

    def model(self, point: Point, rung: int, setting: Setting) -> SequentialRules:
        """See :meth:`Family.model`."""
        values = {name: short(value) for name, value in self.values(point).items()}
        return SequentialRules(
            values["last"],
            values["near"],
            values["backward"],
            round(values["latest"]),
            values["count_power"],
            most_neighbors(SequentialRules.neighbors, setting),
        )

    def work(self, rung: int, setting: Setting) -> float:
        """See :meth:`Family.work`."""
        return 3e-6 * setting.facts.data.nnz

    def bytes_needed(self, rung: int, setting: Setting) -> int:
        """See :meth:`Family.bytes_needed`."""
        n_items = setting.facts.data.n_items
        kept = min(most_neighbors(SequentialRules.neighbors, setting), n_items)
        return BYTES_A_WEIGHT * n_items * kept


@dataclass(frozen=True)
class Recent(Family):
    """Popularity within a window. ``share``: the fraction of interactions in the window."""

    name: str = "RecentPopularity"
    kind = Popularity
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


TIMED_SPACE = Space(
    {
        "recent popularity": (Recent(),),
        "sequential rules": (Rules(),),
        "next item": (
            Following(
                "NextItem of two decays",
                (1.0, 1.0, 0.5, 0.1, 0.2, 150.0, 10.0),
                (*_LAST, Axis("long", 3.0, 60.0)),
            ),
            Following("NextItem", (1.0, 2.0, 0.1, 0.1, 1.0, 150.0)),
        ),
        "asymmetric ALS": (Asymmetric(),),
        "softmax of histories": (
            Refined("AsymmetricALS by a softmax", 4),
            Refined("wide AsymmetricALS by a softmax", 2),
        ),
        **FAMILIES,
    },
    BASELINES,
)
"""The same where models are judged by what came later: the last items tell what is next, and what
is popular changes, too."""
