"""Families of models: axes of hyperparameters, rungs, and the facts that scale them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np

from mfrank.arrays import shown
from mfrank.data import Interactions
from mfrank.errors import InputTypeError, InputValueError
from mfrank.models import ALS, Baseline, Descent
from mfrank.retrieval import Recommender

# Points of the unit cube, and the hyper-parameters that they stand for.


Point = tuple[float, ...]
"""A place on each axis, from 0 to 1."""

_STEP = 0.1
"""Standard deviation of a step from a good point, as a part of an axis."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The range of a hyperparameter in units of the data, linear or logarithmic."""

    name: str
    low: float
    high: float
    logarithmic: bool = True

    def at(self, place: float) -> float:
        """The value at a position from 0 to 1."""
        if self.logarithmic:
            return self.low * math.exp(place * math.log(self.high / self.low))
        return self.low + place * (self.high - self.low)

    def place(self, value: float) -> float:
        """The position of a value, from 0 to 1."""
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def spread_out(n_axes: int, number: int, seed: int) -> Point:
    """Point ``number``, from 0, of Sobol's sequence, which fills the cube evenly."""
    from scipy.stats import qmc  # slow to import

    # `seed`, which scipy calls `rng` since 1.15, and still takes.
    points = qmc.Sobol(n_axes, seed=np.random.default_rng(seed)).random_base2(number.bit_length())
    return tuple(map(float, points[number]))


def near(point: Point, number: int, seed: int) -> Point:
    """A random point around a good one."""
    steps = np.random.default_rng((seed, number)).normal(0, _STEP, len(point))
    return tuple(map(float, np.clip(np.add(point, steps), 0, 1)))


# Facts about the data that set the scale of hyper-parameters.


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """Facts of the data that scale one search space to every data set.

    Attributes
    ----------
    data : Interactions
        The data that the numbers describe.
    density : float
        Fraction of observed cells in the matrix.
    mean_value : float
        Mean of the observed values above 0.
    per_user, per_item : float
        Mean number of observed cells.
    spread : float
        sqrt(per_user) + sqrt(per_item): approximately the largest singular value of a random 0-1
        matrix with the density of the data. Directions with far smaller singular values are noise.
    """

    data: Interactions
    density: float
    mean_value: float
    per_user: float
    per_item: float
    spread: float

    @classmethod
    def of(cls, data: Interactions) -> Self:
        """Compute the facts; the data must have a value above 0."""
        values = data.user_items.data
        per_user, per_item = data.nnz / data.n_users, data.nnz / data.n_items
        return cls(
            data,
            per_user / data.n_items,
            float(values[values > 0].mean(dtype=np.float64)),
            per_user,
            per_item,
            float(np.sqrt(per_user) + np.sqrt(per_item)),
        )


Model: TypeAlias = ALS | Descent | Baseline


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """Common settings of all trials: facts of the training part, maximum width, seed, threads.

    ``memory`` is the maximum number of bytes of a fit.
    """

    facts: Facts
    factors: int
    seed: int
    n_threads: int
    memory: float = math.inf

    def width(self, share: int) -> int:
        """Factors of a rung: a share of the maximum, from 1 to the number of users or items."""
        data = self.facts.data
        return max(1, min(self.factors // share, data.n_users, data.n_items))


# What a model can do after its fit, by its class.


ABILITIES: Mapping[str, Callable[[type[Any]], bool]] = {
    "update": lambda kind: _has_own(kind, "partial_fit"),
    "explain": lambda kind: _has_own(kind, "explain"),
    "new users": lambda kind: bool(getattr(kind, "folds_in", False)),
}
"""What a use may need: `partial_fit`, `explain`, and lists for users who are not in the fit."""


def _has_own(kind: type[Any], method: str) -> bool:
    """Whether a class has a method that is not the one that raises."""
    return getattr(kind, method, None) not in (None, getattr(Recommender, method))


def checked_needs(needs: str | Collection[str]) -> tuple[str, ...]:
    """The abilities that ``needs`` of :func:`mfrank.tune` names, in the order of all."""
    if isinstance(needs, str):
        needs = tuple(ABILITIES) if needs == "everything" else (needs,)
    if not isinstance(needs, Collection):
        raise InputTypeError(
            f"`needs` must be 'everything' or names of {_told(ABILITIES)}, got {shown(needs)}"
        )
    for need in needs:
        if not isinstance(need, str) or need not in ABILITIES:
            raise InputValueError(
                f"`needs` has {shown(need)}, which is none of {_told(ABILITIES)}:",
                'write those, `needs="everything"` or `needs=()`',
            )
    return tuple(name for name in ABILITIES if name in needs)


def lacking(kind: type[Any], needs: Collection[str]) -> list[str]:
    """Which of these abilities a class of models lacks."""
    return [name for name in needs if not ABILITIES[name](kind)]


def _told(names: Collection[str]) -> str:
    return ", ".join(map(repr, names))


class Family(ABC):
    """A kind of model, its axes and its rungs."""

    name: str
    kind: type[Any]
    """The class of its models, which says what they can do."""
    first_values: tuple[float, ...]
    axes: tuple[Axis, ...]
    rungs: int = 3
    may_refuse: tuple[type[Exception], ...] = ()
    """Errors of a fit that are told of its trial, and do not end the search."""

    @property
    def uses_values(self) -> bool:
        """Whether the models read the values of interactions."""
        return False

    @abstractmethod
    def model(self, point: Point, rung: int, setting: Setting) -> Model:
        """The unfitted model of a point."""

    def suits(self, facts: Facts) -> bool:
        """Whether it is worth a trial on such data."""
        return True

    @abstractmethod
    def work(self, rung: int, setting: Setting) -> float:
        """Rough seconds of a trial; after the first trials, only ratios between rungs matter."""

    def bytes_needed(self, rung: int, setting: Setting) -> int:
        """Approximate peak memory of a fit in bytes, without the data."""
        return 0

    def fits(self, rung: int, setting: Setting) -> bool:
        """Whether a fit stays within the memory limit."""
        return self.bytes_needed(rung, setting) <= setting.memory

    def refusal(self, point: Point, rung: int, setting: Setting) -> str | None:
        """Why a fit is not even begun; None if it is."""
        return None

    @property
    def first(self) -> Point:
        """The first point to try, near the best one on the development splits."""
        values = zip(self.axes, self.first_values, strict=True)
        return tuple(axis.place(value) for axis, value in values)

    def values(self, point: Point) -> dict[str, float]:
        """The values on the axes."""
        return {axis.name: axis.at(place) for axis, place in zip(self.axes, point, strict=True)}


def short(value: float) -> float:
    """Round to three digits, so that models print well."""
    return float(f"{value:.3g}")


# What a search may try: families of models, by ladder, and baselines.


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """Families by ladder, and baselines, which are fitted once before the search.

    Families of a ladder compete for the same rungs, from narrow and fast to wide. ``own`` is the
    digest of a caller's own space (:mod:`mfrank.tuning.own_space`); empty for mfrank's.
    """

    ladders: Mapping[str, tuple[Family, ...]]
    baselines: tuple[Family, ...] = ()
    own: str = ""

    @classmethod
    def of_one(cls, family: Family) -> Space:
        """The space of a single family."""
        return cls({family.name: (family,)})

    def with_more(self, more: Mapping[str, tuple[Family, ...]]) -> Space:
        """The same space with further families by ladder; these ladders come first."""
        names = dict.fromkeys([*more, *self.ladders])
        ladders = {name: (*self.ladders.get(name, ()), *more.get(name, ())) for name in names}
        return replace(self, ladders=ladders)

    def able(self, needs: Collection[str]) -> tuple[Space, dict[str, str]]:
        """The space of the families whose models have these abilities, and why others are not."""
        reasons = {
            family.name: f"left out: {family.kind.__name__} lacks {_told(lacks)} of `needs`; "
            "needs=() searches it, too"
            for family in (*self.baselines, *self.families())
            if (lacks := lacking(family.kind, needs))
        }
        if not reasons:
            return self, reasons
        ladders = {
            name: kept
            for name, of in self.ladders.items()
            if (kept := tuple(family for family in of if family.name not in reasons))
        }
        if not ladders:
            raise InputValueError(
                f"`needs`: no model that is searched has {_told(needs)}:", "ask for less"
            )
        baselines = tuple(f for f in self.baselines if f.name not in reasons)
        return replace(self, ladders=ladders, baselines=baselines), reasons

    def with_readers_first(self) -> Space:
        """The same space for varying values: families that read them come first in each ladder."""
        ladders = {
            name: tuple(sorted(of, key=lambda family: not family.uses_values))
            for name, of in self.ladders.items()
        }
        return replace(self, ladders=ladders)

    def families(self) -> Iterator[Family]:
        """The families of all ladders."""
        for of_ladder in self.ladders.values():
            yield from of_ladder

    def named(self, name: str) -> Family:
        """The family or baseline with this name."""
        every = (*self.families(), *self.baselines)
        return next(family for family in every if family.name == name)

    def has(self, name: str) -> bool:
        """Whether a family or baseline has this name."""
        return any(family.name == name for family in (*self.families(), *self.baselines))

    def ladder_of(self, family: str) -> str | None:
        """The name of the ladder of a family; None for a baseline."""
        return next((name for name, of in self.ladders.items() if self.named(family) in of), None)
