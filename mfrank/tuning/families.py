"""The families of models that a search tries, with axes in units of the data.

A family is a kind of model; :data:`FAMILIES` lists them by ladder
(:class:`mfrank.tuning.family.Space`).

To add one, write a subclass of :class:`mfrank.tuning.family.Family` and add a line to
:data:`FAMILIES`. No range may be chosen for one data set: :class:`mfrank.tuning.family.Facts`
scales what depends on the data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from mfrank.als import EALS, IALS, RG2, WRMF, QuadraticObjective, epoch_seconds
from mfrank.arrays import usable_cores
from mfrank.backends import SolveOptions
from mfrank.descent import Adam
from mfrank.models import (
    ALS,
    EASE,
    Descent,
    ItemFilter,
    ItemKNN,
    Popularity,
)
from mfrank.tuning.family import Axis, Facts, Family, Point, Setting, Space, short

# How fast this machine computes.


_WIDTH = 512
_TIMES = 20


@cache
def multiply_add_seconds() -> float:
    """Seconds of a multiply-add within a product of dense matrices, measured once, float64."""
    matrix = np.ones((_WIDTH, _WIDTH))
    least = float("inf")
    for _ in range(_TIMES):
        began = time.perf_counter()
        matrix @ matrix
        least = min(least, time.perf_counter() - began)
    return least / _WIDTH**3


# Linear item-to-item models, which blend well with factors.


_MOST_WEIGHTS = 5_000_000
BYTES_A_WEIGHT = 40
"""Bytes of a sparse weight between items while the rows are put together."""


def most_neighbors(usual: int, setting: Setting) -> int:
    """More than usual where items are few: each weight that is left out costs a little."""
    return max(usual, _MOST_WEIGHTS // setting.facts.data.n_items)


_MOST_INVERTED = 8192
"""Users or items, whichever are fewer, up to which only the matrix of all is inverted; from there
on, regressions on candidates are tried first."""


@dataclass(frozen=True)
class Regression(Family):
    """EASE and its powers. ``ridge``: its regularization, in units of ``Facts.spread`` squared.

    ``candidates`` counts where users and items are so many that each item is predicted from few.
    ``is_whole`` predicts it from all there, too, which takes many times as long.
    """

    name: str = "EASE"
    kind = EASE
    first_values: tuple[float, ...] = (1.0, 0.5, 0.5, 100.0)
    is_whole: bool = False

    axes = (
        Axis("ridge", 0.03, 10.0),
        Axis("user_power", 0.0, 1.0, logarithmic=False),
        Axis("item_power", 0.0, 1.0, logarithmic=False),
        Axis("candidates", 40.0, 250.0),
    )
    rungs = 1

    def model(self, point: Point, rung: int, setting: Setting) -> EASE:
        """See :meth:`Family.model`."""
        values = self.values(point)
        return EASE(
            short(values["ridge"] * setting.facts.spread**2),
            most_neighbors(EASE.neighbors, setting),
            short(values["user_power"]),
            short(values["item_power"]),
            round(values["candidates"]) if self._is_local(setting.facts) else None,
        )

    def suits(self, facts: Facts) -> bool:
        """See :meth:`Family.suits`."""
        return not self.is_whole or _has_many(facts)

    def _is_local(self, facts: Facts) -> bool:
        return not self.is_whole and _has_many(facts)

    def work(self, rung: int, setting: Setting) -> float:
        """See :meth:`Family.work`."""
        data = setting.facts.data
        if self._is_local(setting.facts):
            pairs = float((data.counts.users**2.0).sum())
            solved = self.first_values[-1] ** 3 * multiply_add_seconds() + 1e-4
            return 4e-8 * pairs + solved * data.n_items
        fewer, more = sorted((data.n_users, data.n_items))
        products = 1e-9 * more * data.nnz * (fewer == data.n_users)
        inverse = 0.6 * fewer**3 * multiply_add_seconds()
        if EASE.inverts_in_float32(data.n_users, data.n_items):
            inverse *= 0.65
        return inverse + products + 2.5e-8 * data.n_items**2

    def bytes_needed(self, rung: int, setting: Setting) -> int:
        """See :meth:`Family.bytes_needed`."""
        data = setting.facts.data
        if self._is_local(setting.facts):
            return EASE.bytes_needed(data.n_users, data.n_items, round(self.axes[-1].high))
        kept = min(most_neighbors(EASE.neighbors, setting), data.n_items)
        return EASE.bytes_needed(data.n_users, data.n_items) + BYTES_A_WEIGHT * data.n_items * kept


def _has_many(facts: Facts) -> bool:
    return min(facts.data.n_users, facts.data.n_items) > _MOST_INVERTED


@dataclass(frozen=True)
class Filter(Family):
    """The normalized filter; its axes are its options."""

    name: str = "ItemFilter"
    kind = ItemFilter
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
        return BYTES_A_WEIGHT * n_items * min(ItemFilter.neighbors, n_items)


# Factors, and what is only counted.


EPOCHS = 15
"""Most epochs of ALS: its ranking is best after anything from 1 to 15."""
_TYPICAL_EPOCHS = 8.0
"""Epochs until a fit stops; the cost of its start is included, in epochs."""


@dataclass(frozen=True)
class Closed(Family):
    """ALS under a quadratic objective, with three axes of the same meaning for every objective.

    - ``background``: the total weight of all cells, as a multiple of the total weight of observed
      cells, divided by the root of the density.
    - ``ridge``: the singular value, in units of ``Facts.spread``, below which a direction of the
      data is not learned, if rows have mean length. The loss falls from 0 along the direction only
      if sqrt(rho sigma) < d s, with the mean ridges rho and sigma of users and items, the pull d of
      an observed cell and the singular value s (notation of :mod:`mfrank.als.objectives`).
    - ``nu``: growth of the ridge with the mass of a row.

    ``weight`` converts the share of the background to the objective's own option.
    """

    name: str
    objective: Callable[..., Any]
    weight: Callable[[float, Facts], dict[str, float]]
    first_values: tuple[float, ...]

    kind = ALS
    axes = (
        Axis("background", 0.1, 10.0),
        Axis("ridge", 0.002, 2.0),
        Axis("nu", 0.0, 1.0, logarithmic=False),
    )

    def model(self, point: Point, rung: int, setting: Setting) -> ALS:
        """See :meth:`Family.model`."""
        return ALS(
            self.scaled(self.values(point), setting.facts),
            factors=self._width(rung, setting),
            iterations=EPOCHS,
            random_state=setting.seed,
            n_threads=setting.n_threads,
        )

    @property
    def uses_values(self) -> bool:
        """See :attr:`Family.uses_values`."""
        return bool(self.objective().uses_values)

    def scaled(self, values: Mapping[str, float], facts: Facts) -> QuadraticObjective:
        """The objective at values on the axes, scaled by the facts of the data."""
        share = values["background"] / np.sqrt(facts.density)
        options = {name: short(value) for name, value in self.weight(share, facts).items()}
        unit = self.objective(**options, nu=short(values["nu"]), regularization=1.0)
        data = facts.data
        users = unit.user_problem(data.user_rows("float32"), data.counts)
        items = unit.item_problem(data.item_rows("float32"), data.counts)
        pull = users.row_sums(users.observed.pull, signed=True).sum() / data.nnz
        threshold = values["ridge"] * facts.spread * pull
        regularization = threshold / np.sqrt(users.ridge.mean() * items.ridge.mean())
        made: QuadraticObjective = replace(unit, regularization=short(regularization))
        return made

    def work(self, rung: int, setting: Setting) -> float:
        """See :meth:`Family.work`."""
        options = SolveOptions("auto", 3, None, setting.n_threads)
        counts, width = setting.facts.data.counts, self._width(rung, setting)
        return _TYPICAL_EPOCHS * epoch_seconds(counts, width, options)

    def bytes_needed(self, rung: int, setting: Setting) -> int:
        """See :meth:`Family.bytes_needed`: three tables of factors, and square matrices."""
        data, width = setting.facts.data, self._width(rung, setting)
        return 4 * width * (3 * (data.n_users + data.n_items) + 12 * width)

    def _width(self, rung: int, setting: Setting) -> int:
        return setting.width((8, 3, 1)[rung])


@dataclass(frozen=True)
class Sampled(Family):
    """A ranking loss over cosines, by stochastic descent from the leading singular directions.

    - ``step``: Adam's learning rate, in units of a component of a row of length 1.
    - ``temperature``: divisor of the cosines.

    Higher rungs are wider and have more epochs and negatives.
    """

    name: str
    loss: Callable[[], Any]
    first_values: tuple[float, ...] = (0.13, 0.12)

    kind = Descent
    axes = (Axis("step", 0.03, 0.5), Axis("temperature", 0.05, 0.4))

    def model(self, point: Point, rung: int, setting: Setting) -> Descent:
        """See :meth:`Family.model`."""
        values, data = self.values(point), setting.facts.data
        width = self._width(rung, setting)
        return Descent(
            self.loss(),
            factors=width,
            iterations=self._epochs(rung),
            optimizer=Adam(short(values["step"] / np.sqrt(width)), decay_1=0.5),
            batch_size=self._lists(setting),
            positives=30,
            negatives=min(self._negatives(rung), data.n_items),
            shared_negatives=True,
            scores="cosine",
            temperature=short(values["temperature"]),
            random_state=setting.seed,
            n_threads=setting.n_threads,
        )

    def work(self, rung: int, setting: Setting) -> float:
        """See :meth:`Family.work`."""
        n_users, width = setting.facts.data.n_users, self._width(rung, setting)
        batches = n_users / self._lists(setting)
        products = 1e-10 * 6 * n_users * self._negatives(rung) * width
        threads = setting.n_threads or usable_cores()
        return self._epochs(rung) * (products / threads + 2e-3 * batches)

    def bytes_needed(self, rung: int, setting: Setting) -> int:
        """See :meth:`Family.bytes_needed`: factors, also of the best epoch, and Adam's moments."""
        data = setting.facts.data
        return 16 * self._width(rung, setting) * (data.n_users + data.n_items)

    def _width(self, rung: int, setting: Setting) -> int:
        return setting.width((8, 4, 2)[rung])

    def _epochs(self, rung: int) -> int:
        return (6, 10, 16)[rung]

    def _negatives(self, rung: int) -> int:
        return (512, 1024, 2048)[rung]

    def _lists(self, setting: Setting) -> int:
        """Users of a batch: few enough for dozens of batches in an epoch of small data."""
        return int(np.clip(setting.facts.data.n_users // 64, 32, 256))


@dataclass(frozen=True)
class Counted(Family):
    """A baseline without options; ``entries`` estimates the entries that its fit reads."""

    name: str
    kind: type[ItemKNN] | type[Popularity]
    entries: Callable[[Facts], float]
    first_values: tuple[float, ...] = ()

    axes = ()
    rungs = 1

    @property
    def uses_values(self) -> bool:
        """See :attr:`Family.uses_values`."""
        return self.kind().uses_values

    def model(self, point: Point, rung: int, setting: Setting) -> ItemKNN | Popularity:
        """See :meth:`Family.model`."""
        return self.kind()

    def work(self, rung: int, setting: Setting) -> float:
        """See :meth:`Family.work`."""
        return 6e-8 * self.entries(setting.facts)


@dataclass(frozen=True)
class OwnItems(Family):
    """ItemKNN that also ranks what users have and lists do not leave out; its axis is the option.

    Its mean values say how often an item that is viewed is bought.
    """

    name: str = "ItemKNN with own items"
    kind = ItemKNN
    first_values: tuple[float, ...] = (30.0,)

    axes = (Axis("own_items", 1.0, 1000.0),)
    rungs = 1
    uses_values = True

    def model(self, point: Point, rung: int, setting: Setting) -> ItemKNN:
        """See :meth:`Family.model`."""
        return ItemKNN(own_items=short(self.values(point)["own_items"]))

    def work(self, rung: int, setting: Setting) -> float:
        """See :meth:`Family.work`."""
        return 6e-8 * float((setting.facts.data.counts.users**2.0).sum())


def _softmax() -> Any:
    from mfrank.losses import SampledSoftmax

    return SampledSoftmax()


FAMILIES: Mapping[str, tuple[Family, ...]] = {
    "ALS": (
        Closed(
            "IALS", IALS, lambda share, facts: {"alpha0": share * facts.density}, (1, 0.08, 0.65)
        ),
        Closed("RG2", RG2, lambda share, facts: {"alpha": 1 / (2 * share)}, (1, 0.35, 1)),
        Closed(
            "WRMF",
            WRMF,
            lambda share, facts: {"alpha": 1 / (share * facts.density * facts.mean_value)},
            (1.5, 0.1, 0),
        ),
        Closed(
            "EALS",
            EALS,
            lambda share, facts: {"c0": share * facts.per_user, "exponent": 0.5},
            (1, 0.08, 0.5),
        ),
    ),
    "Descent": (Sampled("SampledSoftmax", _softmax),),
    "item filter": (Filter(),),
    "item regression": (Regression(), Regression("EASE of all items", is_whole=True)),
}
"""By ladder. RGX is left out: it ranks as RG2 does and takes several times as long.

The first points are between what the searches of ``bench/quality.py`` and
``bench/trainers_quality.py`` found on the validation parts of ml-1m and gowalla.
"""

OF_EVENTS: Mapping[str, tuple[Family, ...]] = {
    "ALS": (
        Closed(
            "weighted IALS",
            partial(IALS, weighted=True),
            lambda share, facts: {"alpha0": share * facts.density * facts.mean_value},
            (1, 0.08, 0.65),
        ),
        Closed(
            "weighted EALS",
            partial(EALS, weighted=True),
            lambda share, facts: {"c0": share * facts.per_user * facts.mean_value, "exponent": 0.5},
            (1, 0.08, 0.5),
        ),
    ),
    "own items": (OwnItems(),),
}
"""For events of several kinds, beside :data:`FAMILIES`: ALS that reads values, and what ranks the
items that a user has viewed and not bought."""

BASELINES: tuple[Family, ...] = (
    Counted("Popularity", Popularity, lambda facts: facts.data.nnz),
    Counted("ItemKNN", ItemKNN, lambda facts: float((facts.data.counts.users**2.0).sum())),
)
"""Fitted once, before the search."""

SPACE = Space(FAMILIES, BASELINES)
"""All that is searched by :func:`mfrank.tune`."""

named = SPACE.named
