"""Models of other packages, and baselines, as families of the search that mfrank's models get."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np

from mfrank.als import WRMF
from mfrank.arrays import check_time
from mfrank.comparison.contenders import is_implicit_als, is_of_implicit, suitable_blas_threads
from mfrank.comparison.opponents import SANSA, ItemWeights, RP3beta
from mfrank.data import Interactions
from mfrank.models import ItemKNN, Popularity, Stopping
from mfrank.tuning import EPOCHS, TIMED_SPACE, Axis, Closed, Family, Point, Setting, named, short

_WIDTHS = (8, 3, 1)
"""The most factors, divided by the width of each rung, as of mfrank's ALS."""


def foreign_family(given: Any) -> Family | None:
    """The family of a model of another package, or of a baseline; None if there is none."""
    if is_implicit_als(given):
        return ImplicitALS.of(given)
    if is_of_implicit(given) and hasattr(given, "learning_rate"):
        return Stepwise.of(given)
    if isinstance(given, RP3beta | SANSA | ItemKNN):
        return AtOnce.of(given)
    if isinstance(given, Popularity) and given.window is not None:
        return TIMED_SPACE.named("RecentPopularity")
    return None


# implicit's ALS as a family of the search, in the units in which WRMF is searched.


@dataclass(frozen=True)
class ImplicitALS(Closed):
    """ALS of implicit. Its ridge does not grow with a row, so it has no axis ``nu``.

    ``given`` has all options outside the search.
    """

    given: Any = None

    axes = Closed.axes[:2]  # type: ignore[assignment]  # no nu

    @classmethod
    def of(cls, given: Any) -> Self:
        """The family of a model of implicit."""
        wrmf = cast(Closed, named("WRMF"))
        return cls("implicit ALS", WRMF, wrmf.weight, wrmf.first_values[:2], given)

    def model(self, point: Point, rung: int, setting: Setting) -> Any:
        """See :meth:`mfrank.tuning.family.Family.model`."""
        objective = self.scaled(self.values(point) | {"nu": 0.0}, setting.facts)
        assert isinstance(objective, WRMF)
        model = deepcopy(self.given)
        model.user_factors = model.item_factors = None
        model.factors, model.iterations = self._width(rung, setting), EPOCHS
        model.alpha, model.regularization = short(objective.alpha), objective.regularization
        return Watched(model, ("alpha", "regularization"))


_STEPS: dict[str, tuple[int, tuple[tuple[Axis, float], ...]]] = {
    "BayesianPersonalizedRanking": (
        100,
        ((Axis("learning_rate", 0.003, 0.3), 0.05), (Axis("regularization", 1e-4, 0.1), 0.01)),
    ),
    "LogisticMatrixFactorization": (
        30,
        ((Axis("learning_rate", 0.1, 3.0), 1.0), (Axis("regularization", 0.01, 10.0), 0.6)),
    ),
}
"""Epochs of each model of implicit, its own default, and its axes with their first values."""
_JUDGED = 10
"""Times that such a fit is evaluated, at most."""


@dataclass(frozen=True)
class Stepwise(Family):
    """BPR or logistic factorization of implicit; ``given`` has all options outside the search."""

    name: str
    given: Any
    epochs: int
    axes: tuple[Axis, ...]
    first_values: tuple[float, ...]

    kind = object

    @classmethod
    def of(cls, given: Any) -> Self:
        """The family of a model of implicit."""
        kind = type(given).__name__
        epochs, axes = _STEPS[kind]
        return cls(f"implicit {kind}", given, epochs, *zip(*axes, strict=True))

    def model(self, point: Point, rung: int, setting: Setting) -> Any:
        """See :meth:`mfrank.tuning.family.Family.model`."""
        model = deepcopy(self.given)
        model.user_factors = model.item_factors = None
        model.factors, model.iterations = setting.width(_WIDTHS[rung]), self.epochs
        for name, value in self.values(point).items():
            setattr(model, name, short(value))
        return Watched(model, tuple(self.values(point)), self.epochs // _JUDGED)

    def work(self, rung: int, setting: Setting) -> float:
        """See :meth:`mfrank.tuning.family.Family.work`."""
        steps = setting.facts.data.nnz * getattr(self.given, "neg_prop", 1)
        return 1e-9 * self.epochs * steps * (20 + setting.width(_WIDTHS[rung]))

    def bytes_needed(self, rung: int, setting: Setting) -> int:
        """See :meth:`mfrank.tuning.family.Family.bytes_needed`: factors, and their gradients."""
        data = setting.facts.data
        return 8 * setting.width(_WIDTHS[rung]) * (data.n_users + data.n_items)


_NEIGHBORS = Axis("neighbors", 10, 2000)


@dataclass(frozen=True)
class AtOnce(Family):
    """Weights between items that are fitted in one go: nearest neighbors, RP3beta, SANSA."""

    name: str
    given: ItemKNN | ItemWeights
    axes: tuple[Axis, ...]
    first_values: tuple[float, ...]

    rungs = 1
    kind = ItemWeights

    @classmethod
    def of(cls, given: ItemKNN | ItemWeights) -> Self:
        """The family of a model."""
        own: dict[type[Any], tuple[tuple[Axis, ...], tuple[float, ...]]] = {
            ItemKNN: ((_NEIGHBORS,), (100,)),
            RP3beta: ((_NEIGHBORS, Axis("beta", 0.0, 1.0, logarithmic=False)), (500, 0.3)),
            SANSA: ((_NEIGHBORS, Axis("ridge", 0.03, 10.0)), (100, 1.0)),
        }
        kind = next(kind for kind in own if isinstance(given, kind))
        return cls(kind.__name__, given, *own[kind])

    def model(self, point: Point, rung: int, setting: Setting) -> Any:
        """See :meth:`mfrank.tuning.family.Family.model`."""
        model = deepcopy(self.given)
        values = {name: short(value) for name, value in self.values(point).items()}
        values["neighbors"] = round(values["neighbors"])
        if isinstance(model, SANSA):
            # The package scales the matrix that it factorizes incompletely.
            is_whole = setting.facts.data.n_items <= model.whole
            unit = setting.facts.spread**2 if is_whole else SANSA.l2
            values["l2"] = short(values.pop("ridge") * unit)
        for name, value in values.items():
            setattr(model, name, value)
        return model if isinstance(model, ItemKNN) else Watched(model)

    def work(self, rung: int, setting: Setting) -> float:
        """See :meth:`mfrank.tuning.family.Family.work`."""
        data = setting.facts.data
        pairs = float((data.counts.users**2.0).sum())
        if isinstance(self.given, SANSA) and data.n_items <= self.given.whole:
            return 1e-10 * data.n_items**3 + 2e-8 * pairs
        return 2e-8 * pairs

    def bytes_needed(self, rung: int, setting: Setting) -> int:
        """See :meth:`mfrank.tuning.family.Family.bytes_needed`: what users link, at most."""
        data = setting.facts.data
        pairs = min(float((data.counts.users**2.0).sum()), float(data.n_items) ** 2)
        return int(12 * pairs)


class _Over(Exception):
    """Ends the fit after this epoch."""


@dataclass(frozen=True, eq=False, repr=False)
class Watched:
    """A model whose fit is evaluated while it runs, like the fits of mfrank.

    The fitted model is that of the last epoch, not of the best.

    Attributes
    ----------
    model : object
    told : tuple of str
        The options that were searched.
    every : int
        Its epochs that are evaluated as one.
    """

    model: Any
    told: tuple[str, ...] = ()
    every: int = 1

    def fit(
        self,
        data: Interactions,
        *,
        stopping: Stopping | None = None,
        callback: Callable[[int, float, float | None], object] | None = None,
    ) -> Self:
        """Fit to interactions."""
        values: list[float] = []
        parts: list[float] = []

        def after(epoch: int, seconds: float, *_: Any) -> None:
            check_time()
            parts.append(seconds)
            if len(parts) % self.every:
                return
            sides = (getattr(self.model, f"{side}_factors", None) for side in ("user", "item"))
            if not all(np.isfinite(side).all() for side in sides if side is not None):
                raise FloatingPointError("the fit diverged")
            if stopping is not None:
                values.append(stopping.value(self.model, data, "auto", 0))
                if stopping.is_over(values):
                    raise _Over
            took = sum(parts[-self.every :])
            if callback is not None and callback(len(parts) // self.every - 1, took, None):
                raise _Over

        with suitable_blas_threads(self.model), suppress(_Over):
            self.model.fit(data.to_scipy(), show_progress=False, callback=after)
        return self

    def unfitted(self, epochs: int) -> Any:
        """The model with so many epochs, counted as they were evaluated."""
        if hasattr(self.model, "iterations"):
            self.model.iterations = epochs * self.every
        return self.model

    @property
    def factors(self) -> int:
        """Width of the factors."""
        return int(self.model.factors)

    def __repr__(self) -> str:
        if isinstance(self.model, ItemWeights):
            return f"{self.model.package} {self.model!r}"
        options = ", ".join(
            f"{name}={getattr(self.model, name):g}" for name in ("factors", *self.told)
        )
        return f"implicit {type(self.model).__name__}({options})"
