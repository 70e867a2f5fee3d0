"""What estimators of factors share: taking up the steps of a fit, and being restored."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Self

import scipy.sparse as sp

from mfrank.data.interactions import Interactions
from mfrank.evaluation.stopping import EarlyStopping
from mfrank.models.options import option_classes, runnable
from mfrank.options import Parameters, describe, restore
from mfrank.progress import follow
from mfrank.retrieval.recommender import Recommender
from mfrank.steps import Record, Step
from mfrank.store.factors import FactorStore

__all__ = ["Callback", "FactorModel", "Watch", "refuse_no_likes"]

Callback = Callable[[int, float, float | None], object]
"""Called after epoch i = 0, 1, ... with (i, seconds, objective or None); true stops the fit."""


@dataclass(frozen=True, slots=True, eq=False)
class Watch:
    """Who looks at a fit after each epoch; the arguments of ``fit`` of these names.

    Raises
    ------
    TypeError, ValueError
        :meth:`of`: an argument that cannot look at a fit to these interactions.
    """

    stopping: EarlyStopping | None
    callback: Callback | None
    show_progress: bool

    @classmethod
    def of(
        cls,
        train: sp.csr_array,
        stopping: EarlyStopping | None,
        callback: Callback | None,
        show_progress: bool,
    ) -> Self:
        """Check them."""
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be a function or None, got {callback!r}")
        if stopping is not None:
            if not isinstance(stopping, EarlyStopping):
                raise TypeError(f"stopping must be an EarlyStopping or None, got {stopping!r}")
            stopping.check(train)
        return cls(stopping, callback, show_progress)


def refuse_no_likes(data: Interactions) -> None:
    """Raise where no entry is positive: of nothing that is liked there is nothing to learn."""
    if not (data.user_items.data > 0).any():
        raise ValueError(
            f"user_items has no positive entries, so there is nothing to fit to: {data}; look at "
            "how it was made and filtered"
        )


class FactorModel(Parameters, Recommender):
    """A recommender whose fit yields factors step by step."""

    iterations: int
    n_threads: int
    backend: str

    def _keep(
        self,
        steps: Iterator[Step],
        data: Interactions,
        watch: Watch,
        history: Sequence[Record] = (),
        save: Callable[[FactorStore], None] | None = None,
    ) -> None:
        """Take up the factors of epoch after epoch, at the end those of the best.

        Those on a device stay there until somebody looks at them. ``history`` is that of the
        epochs before, where a fit goes on. What ``save`` raises leaves the epoch taken up.
        """
        records, values, stopping = list(history), list[float](), watch.stopping
        for step in follow(steps, self.iterations) if watch.show_progress else steps:
            records.append(step.record())
            if stopping:
                values.append(stopping.value(step, data, self.backend, self.n_threads))
                records[-1]["valid"] = values[-1]
            self._take(step, data, records)
            if save:
                save(self.placed)
            if stopping and values[-1] > max(values[:-1], default=-math.inf):
                best = self.store
            if watch.callback and watch.callback(step.epoch - 1, step.seconds, step.objective):
                break
            if stopping and stopping.is_over(values):
                break
        if stopping:
            self._store = replace(best, history=records)

    @property
    def store(self) -> FactorStore:
        """The fitted factors, in numpy, with their ids and history."""
        self._store = self.placed.on_host()
        return self._store

    def _take(self, step: Step, data: Interactions, records: list[Record]) -> None:
        """Hold the factors of an epoch in place of those before."""
        self._store = self._stored(data, step, records)
        self._seen = copy(data.user_items)  # whose arrays nobody can write to

    def _stored(self, data: Interactions, step: Step, history: Sequence[Record]) -> FactorStore:
        return FactorStore(
            step.user_factors,
            step.item_factors,
            data.user_ids,
            data.item_ids,
            counts=data.counts,
            user_biases=step.user_biases,
            item_biases=step.item_biases,
            fitter=describe(self),
            history=history,
        )

    @classmethod
    def _from_store(cls, store: FactorStore) -> Self:
        if store.fitter["name"] != cls.__name__:
            raise ValueError(
                f"the store was fitted by {store.fitter['name']}, not {cls.__name__}; "
                "mfrank.load takes any"
            )
        options = store.fitter["options"]
        try:
            here = dict(options)
            if "backend" in here:  # which a model that came from implicit has not
                here["backend"] = runnable(here["backend"])
            known = {cls.__name__: cls, **option_classes()}
            model: Self = restore({**store.fitter, "options": here}, known)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the options saved with the model are damaged: {error}") from error
        model._adopt(store)
        return model
