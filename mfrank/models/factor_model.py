"""Base class of the factor estimators: consume the steps of a fit, restore a saved model."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, fields, replace
from inspect import Signature, signature
from typing import Any, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import scipy.sparse as sp

from mfrank.arrays import progress_bar, shown
from mfrank.backends import Factors, choose
from mfrank.data import Interactions
from mfrank.errors import InputTypeError, InputValueError, unreadable
from mfrank.models.options import OPTION_KINDS, option_classes, runnable
from mfrank.models.parameters import FitFacts, Parameters, describe, fit_of, restore
from mfrank.retrieval import (
    DeferredState,
    KnownQueries,
    Matrix,
    OwnRows,
    Raw,
    Recommender,
    given_ids,
    is_single,
    sides,
)
from mfrank.store import IMPORTED, FactorStore, OwnClasses, Record, Step

# The interface of early-stopping rules; :class:`mfrank.EarlyStopping` implements it.


@runtime_checkable
class Stopping(Protocol):
    """A rule that scores the factors after each epoch and decides when to stop.

    The fit keeps the epoch with the highest score.
    """

    def check(self, train: sp.csr_array) -> None:
        """Raise, before any work starts, if the rule cannot score a fit to ``train``."""

    def value(self, factors: Any, train: Interactions, backend: str, n_threads: int) -> float:
        """Score any object with ``user_factors`` and ``item_factors``; higher is better."""

    def is_over(self, values: Sequence[float]) -> bool:
        """Whether to stop, given the scores of all epochs so far."""


@runtime_checkable
class AlignedStopping(Stopping, Protocol):
    """A rule that aligns its held-out interactions with the rows of a fit by their ids."""

    def in_rows_of(self, train: Interactions) -> Stopping:
        """The rule aligned with ``train``; raises if the ids do not match."""


@runtime_checkable
class KnownStopping(Stopping, Protocol):
    """A rule that a checkpoint can recognize when its fit is resumed."""

    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of everything that scores and decisions depend on."""


_Model = TypeVar("_Model", bound=Recommender)


def note(
    objective: float | None, stopping: Stopping | None = None, values: Sequence[float] = ()
) -> str:
    """Text after a progress bar: the objective or loss, and the last and best held-out values."""
    told = [] if objective is None else [f"objective {objective:.6g}"]
    if stopping is not None and values:
        name = getattr(stopping, "metric", "held-out value")
        told.append(f"{name} {values[-1]:.4f} (best {max(values):.4f})")
    return ", ".join(told)


_log = logging.getLogger("mfrank")

Callback: TypeAlias = (
    Callable[[int, float, float | None], object]
    | Callable[[int, float, float | None, float | None], object]
)
"""Called after epoch i = 0, 1, ... with (i, seconds, objective or None) and, if it can take a
fourth argument, the metric of ``stopping`` or None; true stops the fit."""
AfterEpoch: TypeAlias = Callable[[int, float, float | None, float | None], object]


@dataclass(frozen=True, slots=True, eq=False)
class FitWatch:
    """What runs after each epoch: the arguments of ``fit`` with the same names."""

    stopping: Stopping | None
    callback: AfterEpoch | None
    show_progress: bool

    @classmethod
    def of(
        cls,
        train: Interactions,
        stopping: Stopping | None,
        callback: Callback | None,
        show_progress: bool,
    ) -> Self:
        """Check the arguments of a fit to ``train``.

        Raises
        ------
        TypeError, ValueError
            An argument has the wrong type, or ``stopping`` does not match ``train``.
        """
        after = after_epoch(callback)
        if stopping is not None:
            if not isinstance(stopping, Stopping):
                raise InputTypeError(
                    f"`stopping` must be an EarlyStopping or None, got {shown(stopping)}"
                )
            if isinstance(stopping, AlignedStopping):
                stopping = stopping.in_rows_of(train)
            stopping.check(train.user_items)
        return cls(stopping, after, show_progress)


def after_epoch(callback: Callback | None) -> AfterEpoch | None:
    """The callback as a function of four arguments, of which it gets as many as it can take.

    Raises
    ------
    TypeError
        It is not a function, or takes neither three nor four arguments.
    """
    if callback is None:
        return None
    if not callable(callback):
        raise InputTypeError(f"`callback` must be a function or None, got {shown(callback)}")
    call: Callable[..., object] = callback
    try:
        takes = signature(call)
    except (TypeError, ValueError):  # of C, without a signature
        return lambda *epoch: call(*epoch[:3])
    if _can_take(takes, 4):
        return call
    if _can_take(takes, 3):
        return lambda *epoch: call(*epoch[:3])
    raise InputTypeError(
        "`callback` must take (epoch, seconds, objective) or (epoch, seconds, objective, valid), "
        f"got a function of {takes}"
    )


def _can_take(function: Signature, n_arguments: int) -> bool:
    try:
        function.bind(*range(n_arguments))
    except TypeError:
        return False
    return True


def refuse_no_likes(data: Interactions) -> None:
    """Raise ValueError if no entry is positive, because there is nothing to learn from."""
    if not data.user_items.data.max(initial=0) > 0:  # no array as long as the data
        raise InputValueError(
            f"`user_items` has no positive entries, so there is nothing to fit to: {data}",
            "check how it was created and filtered",
        )


class FactorModel(Parameters, Recommender):
    """A recommender whose fit yields factors after every epoch."""

    iterations: int
    n_threads: int
    backend: str

    @property
    def uses_values(self) -> bool:
        """Whether a fit reads the values of interactions, not only which are above 0."""
        return False

    def _keep(
        self,
        steps: Iterator[Step],
        data: Interactions,
        watch: FitWatch,
        history: Sequence[Record] = (),
        save: Callable[[FactorStore, FactorStore | None], None] | None = None,
        best: FactorStore | None = None,
        *,
        fitter: Mapping[str, Any],
        start: Step | None = None,
        unsettled: int = 0,
    ) -> None:
        """Run the fit: hold each epoch's factors and, with ``stopping``, the best epoch at the end.

        Factors on a device stay there until they are read. A resumed fit passes its earlier epochs
        as ``history`` and, with ``stopping``, their best as ``best``. ``save`` is called with each
        epoch and the best so far, or None without ``stopping``; if it raises, the model has the
        unsaved epoch. ``fitter`` describes the model before any callback, which may set options
        for the next fit. With ``stopping``, ``start`` is a candidate too, and patience begins after
        the first ``unsettled`` epochs.
        """
        self._tell_unsavable()
        records, stopping = list(history), watch.stopping
        values = [float(record["valid"] or 0) for record in history] if stopping else []
        if stopping and start is not None:
            judged = self._stored(data, start, [])
            values.append(stopping.value(judged, data, self.backend, self.n_threads))
            del judged
            records.append({**start.record(), "valid": values[-1]})
            best, unsettled = self._stored(data, start, records, fitter), unsettled + 1
        if stopping and values and stopping.is_over(_settled(values, unsettled)):
            steps = iter(())
        with progress_bar(self.iterations, "fit", "epoch", shown=watch.show_progress) as advance:
            for step in steps:
                records.append(step.record())
                if stopping:
                    judged = self._stored(data, step, [])
                    values.append(stopping.value(judged, data, self.backend, self.n_threads))
                    del judged
                    records[-1]["valid"] = values[-1]
                advance(1, note(step.objective, stopping, values))
                self._take(self._stored(data, step, records, fitter), data)
                taken = self._held
                if stopping and values[-1] > max(values[:-1], default=-math.inf):
                    best = self.store
                if save:
                    save(self.placed, best)
                valid = values[-1] if stopping else None
                if watch.callback and watch.callback(
                    step.epoch - 1, step.seconds, step.objective, valid
                ):
                    break
                if stopping and stopping.is_over(_settled(values, unsettled)):
                    break
                if self._held is taken:  # else the callback has changed the model
                    self._let_go(step)
                del step, taken
        if best:
            self._take(replace(best, history=records), data)

    def _let_go(self, step: Step) -> None:
        """Release the user factors of an epoch if they can be solved again when they are read.

        The next epoch then overwrites them, unless the caller holds a reference.
        """
        if (again := step.users_again) is None or (held := self._held) is None:
            return
        kept = {field.name: getattr(held.store, field.name) for field in fields(FactorStore)}
        del kept["user_factors"]
        backend = choose(self.backend)
        self._held = DeferredState(lambda: FactorStore(again(backend), **kept), held.seen)

    @property
    def store(self) -> FactorStore:
        """The fitted factors, as numpy arrays, with their ids and history."""
        return self._now().on_host()

    def recalculate_user(self, userid: Raw, user_items: Matrix, *, by_row: bool = False) -> Factors:
        """Solve one or many users from their rows; nothing is stored.

        An :class:`mfrank.ALS` solves the half-step of its fit against the current item factors. For
        a fitted user with their training row, it returns the fitted factors up to rounding, and up
        to the approximation of ``solver="cg"`` or ``gather_dtype="float16"``. A
        :class:`mfrank.Descent` takes the linear function of the items' factors that fits the users
        of the fit best (:class:`mfrank.models.row_map.RowMap`), so not exactly the factors that the
        descent found for the same items, and 0 without positives. For :class:`mfrank.Popularity`,
        the one factor is 1.

        Parameters
        ----------
        userid : id, or 1-D array-like of ids
            Users may be new to the model.
        user_items : Interactions or scipy sparse
            All interactions of the users, one row per user in the same order (see
            :class:`mfrank.Recommender`).
        by_row : bool, default False
            Ids are row numbers.

        Returns
        -------
        array of shape (factors,) for one user, (len(userid), factors) for many

        Raises
        ------
        ValueError, TypeError
            The matrix has the wrong shape, the Interactions lack an id, the model cannot use a
            value, or it was saved without interactions that it needs (``with_seen=False``).
        """
        userid, held = given_ids(userid, "userid"), self._now()
        users, items = sides(held.store, by_row=by_row)
        own = OwnRows(KnownQueries.to_solve(users, userid), user_items, items, held.seen)
        solved = self._folded_users(held, own).factors
        return solved[0] if is_single(userid) else solved

    def _fit_told(self) -> FitFacts | None:
        return fit_of(self, self._held)

    def _take(self, store: FactorStore, data: Interactions) -> None:
        """Replace the model's store by an epoch of a new fit."""
        self._hold(store, copy(data.seen))  # shallow: the arrays are read-only
        self._detach_from_folders()

    def _stored(
        self,
        data: Interactions,
        step: Step,
        history: Sequence[Record],
        fitter: Mapping[str, Any] | None = None,
    ) -> FactorStore:
        return FactorStore(
            step.user_factors,
            step.item_factors,
            data.user_ids,
            data.item_ids,
            counts=data.counts,
            user_biases=step.user_biases,
            item_biases=step.item_biases,
            fitter=fitter or describe(self),
            history=history,
            extras=step.extras,
            threshold=data.threshold,
            where=data.where,
            event_weights=data.event_weights,
            weightings=data.weightings,
        )

    @classmethod
    def _from_store(cls, store: FactorStore, own: OwnClasses = IMPORTED) -> Self:
        return restored(cls, store, own)

    def _tell_unsavable(self) -> None:
        """Warn before a fit if :meth:`save` is certain to refuse its result.

        The reason is a class of the caller's that cannot be imported by name. The check imports
        nothing: a child process that another thread forks meanwhile would wait for the import
        forever.
        """
        for value in describe(self)["options"].values():
            if isinstance(value, Mapping) and ":" in value.get("name", ""):
                try:
                    IMPORTED.find(value["name"], OPTION_KINDS)
                except ValueError as error:
                    _log.warning("the model of this fit cannot be saved: %s", error)


def restored(kind: type[_Model], store: FactorStore, own: OwnClasses = IMPORTED) -> _Model:
    """The model of a saved store, with its options.

    Raises
    ------
    ValueError
        The store is of another model, or its options cannot be restored.
    """
    check_fitted_by(kind, store)
    with restoring():
        model = options_of(kind, store.fitter, own)
    model._adopt(store)
    return model


def check_fitted_by(kind: type, store: FactorStore) -> None:
    """Raise ValueError if a store is of another model."""
    if store.fitter["name"] != kind.__name__:
        raise InputValueError(
            f"the store was fitted by {store.fitter['name']}, not {kind.__name__}",
            "mfrank.load loads any model",
        )


@contextmanager
def restoring() -> Iterator[None]:
    """Raise ValueError if the options of a saved model cannot be restored in this block."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(
            "the options saved with the model", "cannot be restored", error, "fit it again"
        ) from error


def options_of(kind: type[_Model], fitter: Mapping[str, Any], own: OwnClasses) -> _Model:
    """An unfitted model with the options of a saved one."""
    here = dict(fitter["options"])
    if "backend" in here:  # a model read from implicit has none
        here["backend"] = runnable(here["backend"])
    known = {kind.__name__: kind, **option_classes()}
    model: _Model = restore({**fitter, "options": here}, known, OPTION_KINDS, own)
    return model


def _settled(values: Sequence[float], unsettled: int) -> list[float]:
    """The values with the first ``unsettled`` as one: patience does not count these epochs."""
    return [max(values[:unsettled]), *values[unsettled:]] if unsettled else list(values)
