"""A fit of ALS before it begins: checks, features, options, and its time and memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import isinf
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.als import (
    Features,
    QuadraticObjective,
    check_start,
    epoch_seconds,
    refuse_dislikes,
    tables_at_once,
)
from mfrank.arrays import changed, counted, sized, tell_idle, warn_caller
from mfrank.backends import Backend, SolveOptions, choose
from mfrank.backends.sharded import Sharded, check_one_place
from mfrank.cluster import Cluster, connected
from mfrank.data import FeatureTable, Interactions, feature_rows, is_table
from mfrank.errors import InputValueError
from mfrank.models.cost import bytes_of_fit, check_width, warn_if_long
from mfrank.models.factor_model import Callback, FitWatch, Stopping, refuse_no_likes
from mfrank.models.options import gather_dtype, warn_if_slow
from mfrank.models.parameters import describe
from mfrank.models.resume import Checkpoint, Resumed, checkpoint_of, resumed
from mfrank.models.value_notes import tell_unread_values
from mfrank.retrieval import Recommender
from mfrank.store import FactorStore, columns_name, is_mapped

if TYPE_CHECKING:
    from mfrank.models.als import ALS


_MATRICES = 6
"""Matrices of (factors, factors) that a fit holds: a Gram matrix, the centered one, eigenvectors,
LAPACK's workspace."""


class Setup(NamedTuple):
    """Arguments of a fit, read and checked.

    Attributes
    ----------
    data : Interactions
    watch : FitWatch
    start : FactorStore, or None
    features : Features
    options : SolveOptions
    """

    data: Interactions
    watch: FitWatch
    start: FactorStore | None
    features: Features
    options: SolveOptions


def set_up(
    model: ALS,
    user_items: Any,
    *,
    start: Recommender | FactorStore | None = None,
    stopping: Stopping | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    show_progress: bool = False,
    cluster: Cluster | None = None,
    features: Mapping[str, Any],
) -> Setup:
    """Read and check the arguments of :meth:`mfrank.ALS.fit`, and log what they leave unused.

    ``features`` are ``user_features`` and ``item_features``, by these names.
    """
    backend, width = choose(model.backend), int(model.factors)
    check_one_place(cluster, model.backend)
    if cluster is None:  # else its workers are sent what they gather, whatever the backend
        check_gathers(model.gather_dtype, model.backend, backend)
    data = Interactions.of(user_items)
    watch = FitWatch.of(data, stopping, callback, show_progress)
    if model.biases:
        check_biased_fit(backend, model.backend, checkpoint, *features.values())
    refuse_dislikes(model.objective, data.user_items.data)
    refuse_no_likes(data)
    store = start.store if isinstance(start, Recommender) else start
    check_featured_fit(features, model.objective, backend, model.backend)
    if not any(each is not None for each in features.values()):
        for name in changed(model, "feature_regularization"):
            tell_idle(
                f"`{name}` has no effect in a fit without features:",
                "leave it out, or pass `user_features` or `item_features`",
            )
    read = features_of_fit(data, features, store, float(model.feature_regularization))
    if store is not None:
        check_start(store, width)
    warn_if_slow(model.backend)
    warn_if_unscaled(model.objective, data)
    if not model.uses_values:
        tell_unread_values(type(model.objective).__name__, data)
    return Setup(data, watch, store, read, solve_options(model))


def check_cost(model: ALS, setup: Setup, *, has_best: bool) -> None:
    """Raise MemoryError if a fit does not fit in memory, and log one that takes long.

    ``has_best``: the fit also holds its best epoch.
    """
    data, width, backend = setup.data, int(model.factors), choose(model.backend)
    tables = tables_of_fit(model, data, setup.features, has_best=has_best)
    check_width(data, width, model.dtype, backend, tables=tables, matrices=_MATRICES)
    warn_if_long(data.counts, width, int(model.iterations), setup.options, backend)


def saved_state(
    model: ALS,
    setup: Setup,
    folder: str | os.PathLike[str] | None,
    stopping: Stopping | None,
) -> tuple[Checkpoint | None, Resumed | None]:
    """The checkpoint of a fit, and what it has of this fit; None for none."""
    if folder is None:
        return None, None
    checkpoint = checkpoint_of(folder, setup.data, setup.start, stopping, setup.features)
    return checkpoint, resumed(checkpoint, describe(model), stopping, setup.data)


def solve_options(model: ALS) -> SolveOptions:
    """How the half-steps of a model's fit solve rows."""
    return SolveOptions(
        "cholesky" if model.biases else model.solver,
        int(model.cg_steps),
        model.cg_tolerance,
        model.n_threads,
        gather_dtype(model.gather_dtype),
    )


def tables_of_fit(model: ALS, data: Interactions, features: Features, *, has_best: bool) -> float:
    """Copies of all factors that are in memory at once; ``has_best``: also of the best epoch."""
    row = int(model.factors) * np.dtype(model.dtype).itemsize
    tables = tables_at_once(data.n_users, data.n_items, row, best=has_best)
    # The means that features give are held in float64 and in the dtype, and for user features in
    # two epochs; with biases, factors are wider, and the priors from biases are held too.
    return tables + 3 * bool(features.sides) + ("user" in features.sides) + 5 * model.biases


def features_of_fit(
    data: Interactions, given: Mapping[str, Any], start: FactorStore | None, regularization: float
) -> Features:
    """Return the features of ``given``: of users, then of items; None for no features."""
    rows, columns = list[sp.csr_array | None](), dict[str, NDArray[np.uint8]]()
    for (name, each), ids in zip(given.items(), (data.user_ids, data.item_ids), strict=True):
        if is_table(each):
            table = FeatureTable.of(name, each, ids)
            learned = table.learned()
            columns[columns_name(name.partition("_")[0])] = learned.to_array()
            rows.append(table.features(learned, ids, of_fit=True))
        else:
            rows.append(None if each is None else feature_rows(name, each, ids))
    users, items = rows
    return Features(users, items, regularization, start, columns)


@dataclass(frozen=True, slots=True)
class FitPlan:
    """Estimates for a fit on this machine's processor.

    Attributes
    ----------
    epoch : float
        Seconds of an epoch, accurate within a factor of a few.
    factors, held : int
        Bytes of the model's factors; and of all tables, vectors, matrices and features of a fit at
        its peak.
    data : int
        Bytes of the interactions, by users and by items.
    mapped : bool
        Whether the interactions are memory-mapped from a folder.
    state : int
        Bytes of a checkpoint.
    """

    epoch: float
    factors: int
    held: int
    data: int
    mapped: bool
    state: int

    @classmethod
    def of(
        cls,
        model: ALS,
        user_items: Any,
        *,
        user_features: Any = None,
        item_features: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        cluster: Cluster | None = None,
        has_best: bool = False,
    ) -> Self:
        """Estimate the fit of a model with these arguments; ``has_best``: with early stopping.

        Raises
        ------
        ValueError, TypeError
            As in :meth:`mfrank.ALS.fit`.
        """
        given = {"user_features": user_features, "item_features": item_features}
        setup = set_up(model, user_items, checkpoint=checkpoint, cluster=cluster, features=given)
        data, features, options = setup.data, setup.features, setup.options
        width, size = int(model.factors), np.dtype(model.dtype).itemsize
        users, items = data.n_users, data.n_items
        factors = (users + items) * width * size
        tables = tables_of_fit(model, data, features, has_best=has_best)
        held = bytes_of_fit(users + items, width, model.dtype, tables=tables, matrices=_MATRICES)
        return cls(
            epoch_seconds(data.counts, width, options),
            factors,
            held + sum(map(_size, (features.users, features.items))),
            _size(data.user_items) + _size(data.item_users),
            is_mapped(data.user_items.indices),
            factors + items * width * size // 2,
        )

    def told(self, epochs: int) -> str:
        """The estimates as lines of text."""
        interactions = (
            f"; {sized(self.data)} of interactions are mapped from their folder"
            if self.mapped
            else f", {sized(self.data)} for interactions"
        )
        return (
            f"memory: about {sized(self.held)} for factors{interactions}\n"
            f"disk: {sized(self.factors)} for the model, with a checkpoint "
            f"{sized(self.state)} more\n"
            f"time: about {self.epoch:.2g} seconds an epoch, {self.epoch * epochs:.2g} for "
            f"{counted(epochs, 'epoch')}, within a factor of a few"
        )


def _size(rows: sp.csr_array | None) -> int:
    return 0 if rows is None else sum(a.nbytes for a in (rows.indptr, rows.indices, rows.data))


def told_of_cluster(model: ALS, data: Interactions, cluster: Cluster) -> str:
    """Cost of an epoch on a checked cluster, as text; asks the cluster for its workers.

    Raises
    ------
    ConnectionError, ValueError
        As in a fit on the cluster.
    """
    options, dtype = solve_options(model), np.dtype(model.dtype)
    with connected(cluster) as engine:
        there = Sharded(choose(model.backend), model.backend, engine)
        halves = [
            there.shipped(rows, int(model.factors), dtype, options)
            for rows in (data.user_rows(dtype), data.item_rows(dtype))
        ]
        task = max(half.task for half in halves)
        free = "" if isinf(there.free) else f", of {sized(int(there.free))} that are free"
        few = "; that is too little: take fewer workers, or fewer factors" * (task > there.free)
        return (
            f"cluster: {counted(there.n_workers, 'worker')}; an epoch is "
            f"{counted(sum(half.tasks for half in halves), 'task')}, for which this process sends "
            f"{sized(sum(half.sent for half in halves))} and gets "
            f"{sized(sum(half.back for half in halves))}\n"
            f"memory of a worker: about {sized(task)}{free}{few}"
        )


# Which options of an ALS can be combined, with each other and with a fit.


_HEAVY = 100.0
"""Largest confidence times the root of the density without a warning. For this product, ``tune``
begins to search with an average near 1, and ends at 10."""
_OVER_MEDIAN = 10.0
"""The least factor by which it exceeds the median: below, all weigh about the same."""
_LOOKED_AT = 1_000_000
"""Maximum number of values looked at: data may be mapped from a disk."""


def check_gathers(given: Any, name: str, backend: Backend) -> None:
    """Raise unless the named backend can read the fixed side's factors in this dtype."""
    dtype = gather_dtype(given)
    if dtype is not None and dtype not in backend.GATHERS:
        raise InputValueError(
            f"backend {name!r} reads factors in their own dtype only",
            "leave `gather_dtype` out, or fit on a GPU with `backend='cuda'` or on a cluster",
        )


def check_biases(
    objective: QuadraticObjective, solver: str, cg_tolerance: float | None, gather_dtype: Any
) -> None:
    """Raise ValueError if an option cannot be combined with ``biases=True``."""
    if objective.interaction(1):
        raise InputValueError(
            f"`biases=True`: {type(objective).__name__} couples all items by their scores, which "
            "has no closed form with biases",
            "use RG2, or `biases=False`",
        )
    if objective.regularization == 0:
        raise InputValueError("`biases=True` needs an objective with regularization > 0")
    if solver == "cg" or cg_tolerance is not None or gather_dtype is not None:
        raise InputValueError(
            "`biases=True` solves all rows exactly",
            "leave out `solver='cg'`, `cg_tolerance` and `gather_dtype`",
        )


def tell_idle_steps(model: Any) -> None:
    """Warn of options of conjugate gradients that an ALS without these does not read."""
    exact = "`biases=True`" if model.biases else "`solver='cholesky'`"
    if model.biases or model.solver == "cholesky":
        for name in changed(model, "cg_steps", "cg_tolerance"):
            tell_idle(
                f"`{name}` has no effect, as {exact} solves every row exactly:", "leave it out"
            )
    if model.cg_tolerance is not None and changed(model, "cg_steps"):
        tell_idle(
            "`cg_steps` has no effect with `cg_tolerance`, by which each row takes as many steps "
            "as it needs:",
            "leave one of them out",
        )


def check_biased_fit(backend: Backend, name: str, *others: Any) -> None:
    """Raise ValueError if the backend or arguments of a fit cannot be combined with biases."""
    if not backend.PRIORS:
        raise InputValueError(f"backend {name!r} cannot fit biases", "use `backend='auto'`")
    if any(other is not None for other in others):
        raise InputValueError(
            "`biases=True` does not go together with `checkpoint`, `user_features` and "
            "`item_features`",
            "leave them out",
        )


def check_featured_fit(
    given: Mapping[str, Any],
    objective: QuadraticObjective,
    backend: Backend,
    name: str,
) -> None:
    """Raise ValueError if there are features and another option cannot be combined with them."""
    first = next((name for name, features in given.items() if features is not None), None)
    if first is None:
        return
    if not backend.PRIORS:
        raise InputValueError(
            f"backend {name!r} cannot fit `{first}`", "use `backend='auto'`, or leave it out"
        )
    if objective.regularization == 0:
        raise InputValueError(
            f"`{first}` needs an objective with regularization > 0: features are where its ridge "
            "pulls to"
        )


def warn_if_unscaled(objective: QuadraticObjective, data: Interactions) -> None:
    """Warn if values, read as confidences, are so large that they dominate the objective.

    Values of at most 1 count as scaled: a large weight is then due to the caller's ``alpha``.
    """
    if not objective.uses_values:
        return
    values = data.user_items.data[:: -(-data.nnz // _LOOKED_AT)]
    sizes = np.abs(values)
    slope = objective.observed(np.ones(1, np.int64), data.n_items).curvature.slope
    density = data.nnz / (data.n_users * data.n_items)
    largest, median = float(sizes.max()), float(np.median(sizes))
    if largest <= 1 or largest < _OVER_MEDIAN * median:
        return
    if slope * largest * np.sqrt(density) <= _HEAVY:
        return
    logarithms = "fit to `mfrank.log_weight(data)`, or " if values.min() > 0 else ""
    remedy = "lower `alpha`" if hasattr(objective, "alpha") else "lower the values"
    warn_caller(
        f"{type(objective).__name__} takes values as confidences, and they go up to "
        f"{largest:,.6g} (the median is {median:,.6g}): a few cells outweigh all "
        f"others; {logarithms}{remedy}"
    )
