"""Weighted alternating least squares as an estimator."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mfrank.als import (
    RG2,
    Features,
    HalfSteps,
    Momentum,
    QuadraticObjective,
    als,
    als_with_biases,
    check_start,
    first_biases,
    first_factors,
    refuse_dislikes,
    tables_at_once,
)
from mfrank.arrays import (
    Seed,
    check_above_zero,
    check_choice,
    check_count,
    check_threads,
    copied,
    generator,
    in_turn,
    share,
    shown,
)
from mfrank.backends import Factors, SolveOptions, Solver, choose
from mfrank.backends.sharded import check_one_place, solving
from mfrank.cluster import Cluster
from mfrank.data import FeatureTable, Interactions, feature_rows, is_table
from mfrank.models.cost import check_width, warn_if_long
from mfrank.models.factor_model import Callback, FactorModel, FitWatch, Stopping, refuse_no_likes
from mfrank.models.growing import Growing
from mfrank.models.options import (
    check_backend,
    check_biased_fit,
    check_biases,
    check_dtype,
    check_featured_fit,
    check_gathers,
    gather_dtype,
    tell_unread_values,
    warn_if_slow,
    warn_if_unscaled,
)
from mfrank.models.parameters import describe
from mfrank.models.resume import (
    Resumed,
    as_begun,
    checkpoint_of,
    half_step_saver,
    in_memory,
    resumed,
    saver,
)
from mfrank.retrieval import Recommender
from mfrank.store import FactorStore, Record, columns_name

# The features that a fit is given, as the engine takes them.


def features_of_fit(
    data: Interactions, given: Mapping[str, Any], start: FactorStore | None, regularization: float
) -> Features:
    """Return the features of users and items, in this order in ``given``; None for no features."""
    rows, columns = list[sp.csr_array | None](), dict[str, NDArray[np.uint8]]()
    for (name, each), ids in zip(given.items(), (data.user_ids, data.item_ids), strict=True):
        if is_table(each):
            table = FeatureTable.of(name, each, ids)
            learned = table.learned()
            columns[columns_name(name.partition("_")[0])] = learned.to_array()
            rows.append(table.features(learned, ids, of_fit=True))
        else:
            rows.append(None if each is None else feature_rows(name, each, len(ids)))
    users, items = rows
    return Features(users, items, regularization, start, columns)


_DEFAULT_OBJECTIVE = RG2()
_MOST_STEPS = 10_000  # rows of usual widths converge in far fewer


@dataclass(eq=False, repr=False)
class ALS(FactorModel, Growing):
    """Matrix factorization by exact alternating least squares, under any quadratic objective.

    Nesterov's momentum on the item factors about halves the number of epochs that reach the same
    objective. If it would make an epoch end with a higher objective, that epoch is done without it.

    Parameters
    ----------
    objective : QuadraticObjective, default RG2()
        ``WRMF``, ``IALS``, ``EALS``, ``RG2``, ``RGX``, ``RG2Sampled`` or ``RGXPrinted``.
    factors : int, default 64
        Number of latent factors, >= 1.
    iterations : int, default 15
        Epochs of a fit, >= 1 (implicit's default).
    solver : {"auto", "cholesky", "cg"}, default "auto"
        ``"cholesky"`` solves every row exactly. ``"cg"`` runs conjugate gradients from the row's
        previous factors. ``"auto"`` uses ``"cg"`` only for rows whose exact solution would cost
        more, and ``"cholesky"`` for the others.
    cg_steps : int, default 3
        Conjugate gradient steps per row (implicit's default), 1 to 10,000. A row stops earlier
        only when its residual is down to rounding error in the dtype.
    cg_tolerance : float or None, default None
        In (0, 1). If given, it replaces ``cg_steps``: each row iterates until its relative error,
        in the norm of its linear system, is below the tolerance; rows that would need too many
        steps are solved exactly.
    dtype : {"float32", "float64"}, default "float32"
        Dtype of the factors.
    gather_dtype : {"float16"} or None, default None
        Dtype in which a half-step reads the other side's factors. ``"float16"`` reads a copy
        rounded to 11 bits, half the bytes of float32; None reads the factors themselves. Sums and
        solutions keep their dtypes, and the Gram matrices are not rounded; the tracked objective
        is that of the rounded factors. Only for the backends ``"cuda"`` and ``"reference"``, and
        on a cluster, whose workers are then sent half the bytes.
    random_state : int, numpy.random.Generator or None, default None
        Seed of the initial factors. The same seed gives the same bits, whatever ``n_threads``.
    n_threads : int, default 0
        Up to 1024; 0 uses every core this process may use.
    backend : {"auto", "cpu", "reference", "cuda"}, default "auto"
        Where to compute. ``"auto"`` never picks a GPU; ``"cuda"`` needs
        ``pip install mfrank[cuda12]`` or ``[cuda13]``.
    track_objective : bool, default False
        Whether the history has the objective after every epoch: the formula in the docstring of
        ``objective``, summed (not averaged) over all users and items, with the ridge. The
        half-steps return it, so it costs no extra pass over the data.
    feature_regularization : float, default 1.0
        > 0. Ridge of the weights of features, as a multiple of the mean ridge of the rows; only for
        fits with features.
    biases : bool, default False
        Whether each user and item has a bias that is added to its scores, with the same ridge as
        its factors (:mod:`mfrank.als.biases` has the equations). In trials they helped RG2 a little
        when factors were few, and did not help IALS. Rows are then solved exactly, without
        momentum, in two to three times the time. Not available for RGX, on a GPU, or in fits with
        features or checkpoints.

    Attributes
    ----------
    user_factors, item_factors : shape (n_users, factors), (n_items, factors)
        The fitted factors, in ``dtype``. Users without interactions have zero factors.
    store : FactorStore
        The factors with ids, counts and history.

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
    gather_dtype: DTypeLike | None = None
    random_state: Seed = None
    n_threads: int = 0
    backend: str = "auto"
    track_objective: bool = False
    feature_regularization: float = 1.0
    biases: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.objective, QuadraticObjective):
            raise TypeError(
                "objective must be one of mfrank's, such as mfrank.RG2() or mfrank.WRMF(alpha=40); "
                f"got {shown(self.objective)}"
            )
        for name in ("factors", "iterations"):
            check_count(name, getattr(self, name), 1)
        remedy = "with cg_tolerance each row takes as many steps as it needs"
        check_count("cg_steps", self.cg_steps, 1, _MOST_STEPS, remedy)
        check_threads(self.n_threads)
        if not (isinstance(self.solver, str) and self.solver in get_args(Solver)):
            raise ValueError(f"solver must be auto, cholesky or cg; got {shown(self.solver)}")
        if self.cg_tolerance is not None:
            share("cg_tolerance", self.cg_tolerance, "None or ")
        check_dtype(self.dtype)
        gather_dtype(self.gather_dtype)
        generator(self.random_state)
        check_backend(self.backend)
        check_above_zero(feature_regularization=self.feature_regularization)
        check_choice("biases", self.biases, (True, False))
        if self.biases:
            check_biases(self.objective, self.solver, self.cg_tolerance, self.gather_dtype)

    @property
    def uses_values(self) -> bool:
        """Whether the objective reads the values of interactions: of mfrank's, WRMF does."""
        return self.objective.uses_values

    @in_turn
    def fit(
        self,
        user_items: Any,
        *,
        start: Recommender | FactorStore | None = None,
        stopping: Stopping | None = None,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        show_progress: bool = False,
        cluster: Cluster | None = None,
        user_features: Any = None,
        item_features: Any = None,
    ) -> Self:
        """Fit to interactions, starting from spectral item factors unless ``start`` is given.

        Parameters
        ----------
        user_items : Interactions, scipy or CuPy sparse matrix (users x items), or DataFrame
        start : model or FactorStore, optional
            Warm start: continue from its factors. Its width must be ``factors``. Users and items
            are matched by id; new ones get random factors. If the ids are row numbers, the data
            may have more rows than ``start``, but not fewer.
        stopping : EarlyStopping, optional
            Stop when the ranking of held-out interactions no longer improves, and keep the best
            epoch; ``iterations`` is then the maximum.
        callback : function, optional
            Called after every epoch with its number (from 0), its seconds, and the objective or
            None. The model already has the epoch's factors, and later epochs do not change the
            arrays that you keep of them. Returning true stops the fit. After an exception,
            including Ctrl-C, the model has the last complete epoch. If the next epoch had begun to
            overwrite its user factors, these are solved again from its item factors when they are
            first read, which takes as long as a half-step. They get the same bits again, except
            that rows which conjugate gradients had solved approximately are now solved exactly. The
            same holds for other threads that read the model during a fit.
        checkpoint : path, optional
            Folder in which the whole state is saved after every epoch. A save writes the bytes of
            the user factors plus one and a half times those of the item factors; with ``stopping``,
            while the best epoch is an earlier one, those of both sides in addition. If the folder
            contains the state of an interrupted fit with the same data, ``start``, ``stopping`` and
            options (``iterations``, ``n_threads``, ``backend``, ``random_state`` and ``cluster``
            may differ), the fit continues from there and ends with the same bits as without the
            interruption, of the seed with which it was begun; another one is told. A larger
            ``iterations`` continues a finished fit. On a ``cluster``, the state is also saved after
            the half-steps that do not end an epoch (after an item step, one and a half times the
            bytes of the item factors), so that a fit without features continues from its last
            half-step. A folder is for one fit at a time.
        show_progress : bool, default False
            Show epochs and the remaining time on stderr.
        cluster : int, dask.distributed.Client, str, Engine or None, default None
            Where half-steps run: an int for that many worker processes on this machine; a Dask
            client or the address of a Dask scheduler (``mfrank[dask]``); ``"ray"`` for the Ray
            cluster that this process or this machine is part of (``mfrank[ray]``); or your own
            :class:`~mfrank.cluster.surface.Engine`. The result has the same bits as without a
            cluster. This process keeps the factors of both sides. Workers read interactions that
            were opened from a folder from that folder, by its path; all others are sent to them
            once. ``n_threads`` is then the number of threads of a task; 0 divides each machine's
            cores among its workers.
        user_features, item_features : DataFrame, path, sparse matrix or 2-D array, optional
            Features of the users or items of ``user_items``. A table (of pandas, polars or any
            library that speaks Arrow, or a .csv, .tsv or .parquet file) has ids in a column named
            ``user`` or ``item`` or, without one, as the index of a pandas DataFrame, and columns of
            any types, which :mod:`mfrank.data.feature_columns` turns into numbers; the model
            remembers how. Rows of users or items that the interactions do not have are told. A
            matrix (of scipy or CuPy, or an array) has a row for each in the order of their ids. The
            factors of a row are then the sum of two parts: its features times weights, which are
            fitted too, and a part of its own, to which alone the row's ridge applies
            (:mod:`mfrank.als.features` has the objective). Users and items that are in
            ``user_items`` by its ids or shape but have no interactions get factors from their
            features alone, and are not part of the objective. A column of ones gives all rows a
            common mean; tables get one automatically.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Before any work: the data have no positive entry or values that the objective cannot
            use, ``start``, ``stopping`` or ``checkpoint`` do not match the data, or the backend
            lacks the ``gather_dtype``; ``cluster`` is none of the above, or its workers have other
            instruction sets or versions of mfrank than this process; or there are features and a
            backend that cannot use them, or ``regularization=0``.
            Also if the fit diverges; the model then has the last complete epoch.
        ConnectionError, ModuleNotFoundError
            No scheduler answers at the address ``cluster``, or the cluster is lost, or there is no
            Ray cluster; or Dask or Ray is not installed, or its workers have no mfrank.
        RuntimeError
            One block of rows ended several workers; the model has the last complete epoch.
        MemoryError
            Before any work: the fit would need more memory than the machine has.
        OSError
            The checkpoint cannot be written. The model has the epoch that was not saved, the
            folder the one before.
        """
        self.__post_init__()
        backend, width = choose(self.backend), int(self.factors)
        check_one_place(cluster, self.backend)
        if cluster is None:  # else its workers are sent what they gather, whatever the backend
            check_gathers(self.gather_dtype, self.backend, backend)
        data = Interactions.of(user_items)
        watch = FitWatch.of(data, stopping, callback, show_progress)
        if self.biases:
            others = checkpoint, user_features, item_features
            check_biased_fit(backend, self.backend, *others)
        refuse_dislikes(self.objective, data.user_items.data)
        refuse_no_likes(data)
        store = start.store if isinstance(start, Recommender) else start
        given = {"user_features": user_features, "item_features": item_features}
        check_featured_fit(given, self.objective, backend, self.backend)
        features = features_of_fit(data, given, store, float(self.feature_regularization))
        check_width(
            data,
            width,
            self.dtype,
            backend,
            # The means that features give are held in float64 and in the dtype, and for user
            # features in two epochs; with biases, factors are wider, and the priors from biases are
            # held too.
            tables=tables_at_once(
                data.n_users,
                data.n_items,
                width * np.dtype(self.dtype).itemsize,
                best=stopping is not None,
            )
            + 3 * bool(features.sides)
            + ("user" in features.sides)
            + 5 * self.biases,
            matrices=6,  # a Gram matrix, the centered one, eigenvectors, LAPACK's workspace
        )
        warn_if_slow(self.backend)
        options = SolveOptions(
            "cholesky" if self.biases else self.solver,
            int(self.cg_steps),
            self.cg_tolerance,
            self.n_threads,
            gather_dtype(self.gather_dtype),
        )
        past = kept = None
        if store is not None:
            check_start(store, width)
        if checkpoint is not None:
            kept = checkpoint_of(checkpoint, data, store, stopping, features)
            past = resumed(kept, describe(self), stopping, data)
        warn_if_unscaled(self.objective, data)
        if not self.uses_values:
            tell_unread_values(type(self.objective).__name__, data)
        warn_if_long(data.counts, width, int(self.iterations), options, backend)
        with solving(self.backend, cluster) as solver:
            momentum, history, best = Momentum(solver, self.n_threads), list[Record](), None
            done = halfway = save = save_half_step = None
            if past is None:
                first = first_factors(
                    data, width, self.dtype, self.random_state, store, solver, self.n_threads
                )
            else:
                first, best = self._resume(past, data, momentum), past.best
                features = replace(features, start=past.store)
                history = [dict(record) for record in past.store.history]
                done, halfway = len(history), past.halfway
            fitter = as_begun(describe(self), None if past is None else past.store)
            del past
            if kept is not None:
                save = saver(kept, momentum)
                if cluster is not None and not features.sides:
                    save_half_step = half_step_saver(
                        kept, momentum, lambda step: self._stored(data, step, [], fitter)
                    )
            rows = data.user_rows(self.dtype), data.item_rows(self.dtype)
            half_steps = HalfSteps(self.objective, data.counts, solver, options, features.sides)
            if self.biases:
                steps = als_with_biases(
                    *rows,
                    half_steps,
                    *first,
                    first_biases(data, store, np.zeros(data.n_items)),
                    iterations=self.iterations,
                    new=start is None,
                    track_objective=self.track_objective,
                )
            else:
                steps = als(
                    *rows,
                    half_steps,
                    *first,
                    iterations=self.iterations,
                    new=start is None,
                    track_objective=self.track_objective,
                    momentum=momentum,
                    done=done,
                    halfway=halfway,
                    features=features,
                    watch=save_half_step,
                )
            del first, halfway, start, store, features  # so that the fit can free them
            self._keep(steps, data, watch, history, save, best, fitter=fitter)
        if kept is not None:  # nothing was left to do, or the best epoch is an earlier one
            held = self._now()
            self._hold(in_memory(held.store), None if held.seen is None else held.seen.matrix)
        return self

    def _resume(
        self, past: Resumed, data: Interactions, momentum: Momentum
    ) -> tuple[Factors, Factors]:
        """Take over a saved epoch; return its factors, users that may be overwritten."""
        if past.store.history:
            self._take(past.store, data)
        if past.momentum is not None:
            momentum.resume(past.momentum)
        users, items = past.store.user_factors, copied(past.store.item_factors)
        if past.halfway is not None and past.halfway.user_factors is not None:
            return users, items  # which are not needed any more
        return copied(users), items
