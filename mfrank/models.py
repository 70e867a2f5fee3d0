"""The estimators that users meet: fit, then everything a :class:`Recommender` does."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import DTypeLike

from mfrank import objectives
from mfrank.als import HalfSteps, als, refuse_dislikes
from mfrank.amounts import check_count, share
from mfrank.backends import SolveOptions, Solver, choose
from mfrank.closed_form import ClosedForm
from mfrank.data.interactions import Interactions
from mfrank.evaluation.stopping import EarlyStopping
from mfrank.objectives import RG2
from mfrank.options import Parameters, describe, restore
from mfrank.progress import follow
from mfrank.quadratic import QuadraticObjective
from mfrank.retrieval.recommender import Recommender
from mfrank.seeds import Seed, generator
from mfrank.starts import first_factors
from mfrank.steps import Step
from mfrank.store.factors import FactorStore

__all__ = ["ALS", "Callback", "load"]

Callback = Callable[[int, float, float | None], object]
"""Called after epoch i = 0, 1, ... with (i, seconds, objective or None); true stops the fit."""

_DEFAULT_OBJECTIVE = RG2()


@dataclass(eq=False)
class ALS(Parameters, ClosedForm):
    """Matrix factorization by exact alternating least squares, under any quadratic objective.

    Parameters
    ----------
    objective : QuadraticObjective, default RG2()
        ``WRMF``, ``IALS``, ``EALS``, ``RG2``, ``RGX``, ``RG2Sampled`` or ``RGXPrinted``.
    factors : int, default 64
        Width of the factors, >= 1.
    iterations : int, default 15
        Epochs of a fit, >= 1 (implicit's default).
    solver : {"auto", "cholesky", "cg"}, default "auto"
        ``"cholesky"`` solves every row exactly. ``"cg"`` takes ``cg_steps`` of conjugate
        gradients from the row's last factors. ``"auto"`` takes them only for rows so long that
        their exact solution would cost more, and solves the others exactly.
    cg_steps : int, default 3
        Conjugate gradient steps a row takes at most (implicit's default).
    cg_tolerance : float or None, default None
        In (0, 1): rows take as many steps as bring them this near to their exact solution,
        relative and in the norm of their system; those that would need too many are solved
        exactly. None takes ``cg_steps`` and is content.
    dtype : {"float32", "float64"}, default "float32"
        Of the factors.
    random_state : int, numpy.random.Generator or None, default None
        Seed of the first factors. The same seed gives the same bits, whatever ``n_threads``.
    n_threads : int, default 0
        0 takes every core this process may use.
    backend : {"auto", "cpu", "reference"}, default "auto"
        Where to compute.
    track_objective : bool, default False
        Whether the history has the objective of every epoch: one more pass over the data each.

    Attributes
    ----------
    user_factors, item_factors : shape (n_users, factors), (n_items, factors)
        The fitted arrays. Empty users have zero factors.
    store : FactorStore
        The same with ids, counts and history.

    Examples
    --------
    >>> import mfrank
    >>> data = mfrank.synthetic(200, 100, 4000, random_state=0)
    >>> model = mfrank.ALS(mfrank.IALS(), factors=8, random_state=0).fit(data)
    >>> ids, scores = model.recommend(data.user_ids.raw([0, 1]), N=5)
    >>> ids.shape
    (2, 5)
    """

    objective: QuadraticObjective = _DEFAULT_OBJECTIVE
    factors: int = 64
    iterations: int = 15
    solver: Solver = "auto"
    cg_steps: int = 3
    cg_tolerance: float | None = None
    dtype: DTypeLike = "float32"
    random_state: Seed = None
    n_threads: int = 0
    backend: str = "auto"
    track_objective: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.objective, QuadraticObjective):
            raise TypeError(
                "objective must be one of mfrank's, such as mfrank.RG2() or mfrank.WRMF(alpha=40); "
                f"got {self.objective!r}"
            )
        for name, least in (("factors", 1), ("iterations", 1), ("cg_steps", 1), ("n_threads", 0)):
            check_count(name, getattr(self, name), least)
        if not (isinstance(self.solver, str) and self.solver in get_args(Solver)):
            raise ValueError(f"solver must be auto, cholesky or cg; got {self.solver!r}")
        if self.cg_tolerance is not None:
            share("cg_tolerance", self.cg_tolerance, "None or ")
        if not _is_float(self.dtype):
            raise ValueError(f"dtype must be float32 or float64, got {self.dtype!r}")
        generator(self.random_state)
        if not isinstance(self.backend, str):
            raise TypeError(f"backend must be a name such as 'auto', got {self.backend!r}")
        choose(self.backend)

    def fit(
        self,
        user_items: Any,
        *,
        start: Recommender | FactorStore | None = None,
        stopping: EarlyStopping | None = None,
        callback: Callback | None = None,
        show_progress: bool = False,
    ) -> Self:
        """Fit to interactions, from their leading directions unless ``start`` is given.

        Parameters
        ----------
        user_items : Interactions, scipy sparse (users x items), or DataFrame
        start : model or FactorStore, optional
            Warm start: go on from its factors. Its width must be ``factors``; users and items are
            matched by their ids, new ones start at random. Where row numbers are the ids, the data
            may have more rows than ``start``, not fewer.
        stopping : EarlyStopping, optional
            Stop where held-out interactions are no longer ranked better, and keep the best epoch;
            ``iterations`` is then the most that there will be.
        callback : function, optional
            Called after every epoch with its number from 0, its seconds, and the objective or
            None. This model already holds the epoch's factors. A true result stops the fit. An
            exception, Ctrl-C too, leaves it with the last complete epoch.
        show_progress : bool, default False
            Show epochs and time left on stderr.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Before any work: data the objective cannot use, or a start or held-out interactions
            that do not fit. A fit that diverges (the message says so) leaves the last complete
            epoch.
        """
        self.__post_init__()
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be a function or None, got {callback!r}")
        data = Interactions.of(user_items)
        if stopping is not None:
            if not isinstance(stopping, EarlyStopping):
                raise TypeError(f"stopping must be an EarlyStopping or None, got {stopping!r}")
            stopping.check(data.user_items)
        refuse_dislikes(self.objective, data.user_items.data)
        store = start.store if isinstance(start, Recommender) else start
        backend = choose(self.backend)
        options = SolveOptions(self.solver, self.cg_steps, self.cg_tolerance, self.n_threads)
        steps = als(
            data.user_rows(self.dtype),
            data.item_rows(self.dtype),
            HalfSteps(self.objective, data.counts, backend, options),
            *first_factors(  # not kept here: the fit takes them over
                data, self.factors, self.dtype, self.random_state, store, backend, self.n_threads
            ),
            iterations=self.iterations,
            track_objective=self.track_objective,
        )
        if show_progress:
            steps = follow(steps, self.iterations)
        self._keep(steps, data, stopping, callback)
        return self

    def _keep(
        self,
        steps: Iterator[Step],
        data: Interactions,
        stopping: EarlyStopping | None,
        callback: Callback | None,
    ) -> None:
        """Take up the factors of epoch after epoch, at the end those of the best."""
        history: list[dict[str, float | int | None]] = []
        values: list[float] = []
        for step in steps:
            history.append(step.record())
            if stopping:
                values.append(stopping.value(step, data, self.backend, self.n_threads))
                history[-1]["valid"] = values[-1]
            self._store, self._seen = self._stored(step, data, history), data.user_items
            if stopping and values[-1] > max(values[:-1], default=-math.inf):
                best = self._store
            if callback and callback(step.epoch - 1, step.seconds, step.objective):
                break
            if stopping and stopping.is_over(values):
                break
        if stopping:
            self._store = replace(best, history=history)

    def _stored(
        self, step: Step, data: Interactions, history: Sequence[Mapping[str, float | int | None]]
    ) -> FactorStore:
        return FactorStore(
            step.user_factors,
            step.item_factors,
            data.user_ids,
            data.item_ids,
            counts=data.counts,
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
            here = {**options, "backend": _runnable(options["backend"])}
            model: Self = restore({**store.fitter, "options": here}, _CLASSES)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the options saved with the model are damaged: {error}") from error
        model._adopt(store)
        return model


def _runnable(backend: str) -> str:
    """The backend, or, where it cannot run (saved on a machine that has it), "auto"."""
    try:
        choose(backend)
    except ValueError:
        return "auto"
    return backend


def _is_float(dtype: Any) -> bool:
    """Whether the dtype is one that factors have; None, numpy's float64, is not meant."""
    try:
        return dtype is not None and np.dtype(dtype) in (np.float32, np.float64)
    except (TypeError, ValueError, SyntaxError):  # numpy parses texts as Python does
        return False


_CLASSES: dict[str, type[Any]] = {
    "ALS": ALS,
    **{name: getattr(objectives, name) for name in objectives.__all__},
}


def load(
    folder: str | os.PathLike[str], *, mmap: bool = False, verify: bool = False
) -> Recommender:
    """Load any saved model as the class that saved it; see :meth:`mfrank.FactorStore.load`."""
    store = FactorStore.load(folder, mmap=mmap, verify=verify)
    if store.fitter["name"] in _CLASSES:
        return _CLASSES[store.fitter["name"]]._from_store(store)  # type: ignore[no-any-return]
    return Recommender._from_store(store)
