"""implicit's ALS as a family of the search, in the units in which WRMF is searched."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np

from mfrank.als.objectives import WRMF
from mfrank.arrays.time_limit import check_time
from mfrank.comparison.contenders import suitable_blas_threads
from mfrank.data.interactions import Interactions
from mfrank.models.stopping import Stopping
from mfrank.tuning.axes import Point
from mfrank.tuning.families import EPOCHS, Closed, named
from mfrank.tuning.family import Setting, short

__all__ = ["ImplicitALS"]


@dataclass(frozen=True)
class ImplicitALS(Closed):
    """ALS of implicit, whose ridge does not grow with a row: no axis for that.

    ``given`` has all options that are not searched.
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
        return _Watched(model)


class _Over(Exception):
    """The fit ends with this epoch."""


@dataclass(frozen=True, eq=False, repr=False)
class _Watched:
    """A model of implicit whose fit is judged after every epoch, as fits of mfrank's are.

    It ends with its last epoch, not the best.
    """

    model: Any

    def fit(
        self,
        data: Interactions,
        *,
        stopping: Stopping | None = None,
        callback: Callable[[int, float, float | None], object] | None = None,
    ) -> Self:
        """Fit to interactions."""
        values: list[float] = []

        def after(epoch: int, seconds: float, *_: Any) -> None:
            check_time()
            sides = self.model.user_factors, self.model.item_factors
            if not all(np.isfinite(side).all() for side in sides):
                raise FloatingPointError("the fit diverged")
            if stopping is not None:
                values.append(stopping.value(self.model, data, "auto", 0))
                if stopping.is_over(values):
                    raise _Over
            if callback is not None and callback(epoch, seconds, None):
                raise _Over

        with suitable_blas_threads(self.model), suppress(_Over):
            self.model.fit(data.to_scipy(), show_progress=False, callback=after)
        return self

    @property
    def factors(self) -> int:
        """Width of the factors."""
        return int(self.model.factors)

    def __repr__(self) -> str:
        options = ", ".join(
            f"{name}={getattr(self.model, name):g}"
            for name in ("factors", "alpha", "regularization")
        )
        return f"implicit {type(self.model).__name__}({options})"
