"""Weighted alternating least squares as an estimator."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, Self, cast, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from mfrank.als import (
    RG2,
    Explanation,
    FoldIn,
    HalfSteps,
    Momentum,
    QuadraticObjective,
    UserWeights,
    als,
    als_with_biases,
    first_biases,
    first_factors,
    refuse_dislikes,
)
from mfrank.arrays import (
    CSR,
    Seed,
    check_above_zero,
    check_count,
    check_flags,
    check_threads,
    copied,
    generator,
    in_turn,
    share,
    shown,
)
from mfrank.backends import Factors, Solver, choose
from mfrank.backends.sharded import solving
from mfrank.cluster import Cluster
from mfrank.data import Interactions
from mfrank.errors import InputTypeError, InputValueError, unreadable
from mfrank.models.als_setup import check_biases, check_cost, saved_state, set_up, tell_idle_steps
from mfrank.models.closed_form import (
    check_solvable,
    check_user_weights,
    clean_rows,
    explained,
    feature_means,
    had_biases,
    objective_of,
    weigh_items,
)
from mfrank.models.factor_model import Callback, FactorModel, Stopping
from mfrank.models.odd_updates import tell_scale_of_ones, tell_scale_of_rows
from mfrank.models.options import check_backend, check_dtype, gather_dtype
from mfrank.models.parameters import describe, refuse_target
from mfrank.models.resume import (
    Resumed,
    as_begun,
    half_step_saver,
    in_memory,
    saver,
)
from mfrank.models.update_data import chosen_of_update
from mfrank.models.updates import Update, check_update, solved_anew
from mfrank.models.value_notes import tell_of_liked
from mfrank.retrieval import (
    KnownQueries,
    LikedItems,
    Matrix,
    ModelState,
    OwnRows,
    QueryFactors,
    Raw,
    Recommender,
    Seen,
    given_id,
    given_ids,
    is_single,
    left_out_of,
    sides,
)
from mfrank.store import FactorStore, Record, check_features

_DEFAULT_OBJECTIVE = RG2()
_MOST_STEPS = 10_000  # rows of usual widths converge in far fewer


@dataclass(eq=False, repr=False)
class ALS(FactorModel):
    """Matrix factorization by exact alternating least squares, under any quadratic objective.

    Nesterov momentum on the item factors roughly halves the number of epochs to a target objective.
    It is left out of an epoch in which it would raise the objective.

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
        Tolerance, in (0, 1), that replaces ``cg_steps``: each row iterates until its relative
        error, in the norm of its linear system, is below it. Rows that would need too many steps
        are solved exactly.
    dtype : {"float32", "float64"}, default "float32"
        Dtype of the factors.
    gather_dtype : {"float16"} or None, default None
        Precision of the fixed side's factors in a half-step. ``"float16"`` uses a copy rounded to
        11 bits, half the size of float32; None uses the factors as they are. Sums, solutions and
        Gram matrices are not rounded. The tracked objective is for the rounded factors. Only for
        the backends ``"cuda"`` and ``"reference"``, and for clusters, where it halves the bytes
        sent to workers.
    random_state : int, numpy.random.Generator or None, default None
        Seed of the initial factors. The same seed gives the same bits, whatever ``n_threads``.
    n_threads : int, default 0
        Up to 1024; 0 uses every core this process may use.
    backend : {"auto", "cpu", "numpy", "reference", "cuda"}, default "auto"
        Where to compute. ``"auto"`` never picks a GPU; ``"cuda"`` needs
        ``pip install mfrank[cuda12]`` or ``[cuda13]``.
    track_objective : bool, default False
        Whether the history records the objective after every epoch: the formula in the docstring of
        ``objective``, summed (not averaged) over all users and items, including the ridge. The
        half-steps return it, so it costs no extra pass over the data.
    feature_regularization : float, default 1.0
        > 0. Ridge of the feature weights, as a multiple of the mean ridge of the rows; only for
        fits with features.
    biases : bool, default False
        Whether to add user and item biases to the scores, with the same ridge as the factors
        (:mod:`mfrank.als.biases` has the equations). In trials, biases helped RG2 slightly when
        factors were few, and did not help IALS. Rows are then solved exactly and without momentum,
        which takes two to three times as long. Not available for RGX, on a GPU, or in fits with
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
    folds_in = True
    _last_folding = cast("FoldIn | None", None)  # without an annotation, which would be an option

    def __post_init__(self) -> None:
        if not isinstance(self.objective, QuadraticObjective):
            raise InputTypeError(
                "`objective` must be one of mfrank's, such as `mfrank.RG2()` or "
                f"`mfrank.WRMF(alpha=40)`; got {shown(self.objective)}"
            )
        for name in ("factors", "iterations"):
            check_count(name, getattr(self, name), 1)
        remedy = "with `cg_tolerance` each row takes as many steps as it needs"
        check_count("cg_steps", self.cg_steps, 1, _MOST_STEPS, remedy)
        check_threads(self.n_threads)
        if not (isinstance(self.solver, str) and self.solver in get_args(Solver)):
            raise InputValueError(
                f"`solver` must be auto, cholesky or cg; got {shown(self.solver)}"
            )
        if self.cg_tolerance is not None:
            share("cg_tolerance", self.cg_tolerance, "None or ")
        check_dtype(self.dtype)
        gather_dtype(self.gather_dtype)
        generator(self.random_state)
        check_backend(self.backend)
        check_above_zero(feature_regularization=self.feature_regularization)
        check_flags(biases=self.biases, track_objective=self.track_objective)
        if self.biases:
            check_biases(self.objective, self.solver, self.cg_tolerance, self.gather_dtype)
        tell_idle_steps(self)

    @property
    def uses_values(self) -> bool:
        """Whether the objective reads the values of interactions: WRMF, or ``weighted``."""
        return self.objective.uses_values

    _keeps_values = uses_values

    @in_turn
    def fit(
        self,
        user_items: Any,
        y: None = None,
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
        """Fit to interactions, from spectral item factors or from a warm start.

        Parameters
        ----------
        user_items : Interactions, scipy or CuPy sparse matrix (users x items), or DataFrame
        y : None
            scikit-learn's argument; interactions have no target.
        start : model or FactorStore, optional
            Warm start: the factors to continue from, ``factors`` wide. Users and items are matched
            by id; new ones get random factors. If the ids are row numbers, the data may have more
            rows than ``start``, but not fewer.
        stopping : EarlyStopping, optional
            Stop when the ranking of held-out interactions no longer improves, and return to the
            best epoch. ``iterations`` is then the maximum.
        callback : function, optional
            Called after every epoch with the epoch (from 0), its seconds, the objective or None
            and, if it can take a fourth argument, the metric of ``stopping`` or None, which
            ``history`` has as "valid". The model has the epoch's factors by then; later epochs do
            not change arrays that you read from it. Returning true stops the fit. After an
            exception, including Ctrl-C, the model has the last complete epoch (``docs/scale.md``
            says what reading it costs).
        checkpoint : path, optional
            Folder to which the whole state is saved after every epoch, for one fit at a time. If it
            contains an interrupted fit with the same data, ``start``, ``stopping`` and options,
            that fit is resumed, with its own seed, and ends with the same bits as without the
            interruption. Only ``iterations``, ``n_threads``, ``backend``, ``cluster`` and
            ``random_state`` may differ; a different seed is logged. A larger ``iterations``
            continues a finished fit. On a ``cluster``, half-steps are saved too
            (``docs/scale.md``).
        show_progress : bool, default False
            Show epochs and the remaining time on stderr.
        cluster : int, dask.distributed.Client, str, Engine or None, default None
            Where half-steps run, with the same bits as without a cluster:

            - an int: that many worker processes on this machine;
            - a Dask client, or the address of a Dask scheduler (``mfrank[dask]``);
            - ``"ray"``: the Ray cluster of this process or machine (``mfrank[ray]``);
            - your own :class:`~mfrank.cluster.task_engine.Engine`.

            This process holds the factors of both sides. Workers read interactions that were opened
            from a folder by the path of the folder; other interactions are sent once. ``n_threads``
            is the number of threads per task; 0 divides each machine's cores among its workers.
        user_features, item_features : DataFrame, path, URL, sparse matrix or 2-D array, optional
            Features of the users or items of ``user_items``, as

            - a table: a DataFrame (pandas, polars or any Arrow library), or a .csv, .tsv or
              .parquet file. It has ids in the column ``user`` or ``item``, or in the index of a
              pandas DataFrame. :mod:`mfrank.data.feature_columns` encodes the other columns, of
              any type; the model stores the encoding. Ids that the interactions lack are logged.
            - a matrix (numpy, scipy or CuPy), with a row per id in the order of the ids.

            The factors of a row are then its features times fitted weights, plus a part of its own.
            The ridge of the row applies only to its own part (:mod:`mfrank.als.feature_priors` has
            the objective). Users and items of ``user_items`` without interactions get factors from
            their features alone and are not part of the objective. A column of ones gives all rows
            a common mean; tables get one automatically.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Before any work:

            - the data have no positive entry, or values that the objective cannot use;
            - ``start``, ``stopping`` or ``checkpoint`` does not match the data;
            - the backend lacks ``gather_dtype``, or cannot use features;
            - ``regularization=0`` with features;
            - ``cluster`` is none of the above, or its workers have other instruction sets or
              another version of mfrank than this process.

            Also if the fit diverges; the model then has the last complete epoch.
        ConnectionError
            The scheduler does not answer, there is no Ray cluster, or the cluster is lost.
        ModuleNotFoundError
            Dask or Ray is not installed, or the workers have no mfrank.
        RuntimeError
            A block of rows ended several workers; the model has the last complete epoch.
        MemoryError
            Before any work: the fit would need more memory than the machine has.
        OSError
            The checkpoint cannot be written. The model has the unsaved epoch, the folder the one
            before.
        """
        refuse_target(y)
        self.__post_init__()
        setup = set_up(
            self,
            user_items,
            start=start,
            stopping=stopping,
            callback=callback,
            checkpoint=checkpoint,
            show_progress=show_progress,
            cluster=cluster,
            features={"user_features": user_features, "item_features": item_features},
        )
        check_cost(self, setup, has_best=stopping is not None)
        data, watch, store, features, options = setup
        kept, past = saved_state(self, setup, checkpoint, stopping)
        with solving(self.backend, cluster) as solver:
            momentum, history, best = Momentum(solver, self.n_threads), list[Record](), None
            done = halfway = save = save_half_step = None
            if past is None:
                first = first_factors(
                    data,
                    int(self.factors),
                    self.dtype,
                    self.random_state,
                    store,
                    solver,
                    self.n_threads,
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
            self._hold(in_memory(held.store), held.seen)
        return self

    def recalculate_item(self, itemid: Raw, item_users: Matrix, *, by_row: bool = False) -> Factors:
        """Solve one or many items exactly from their rows; nothing is stored.

        See :meth:`recalculate_user`. ``item_users`` is Interactions, or a sparse matrix with one
        row per item.
        """
        itemid, held = given_ids(itemid, "itemid"), self._now()
        store = held.store
        users, items = sides(store, by_row=by_row)
        given = OwnRows(KnownQueries.to_solve(items, itemid), item_users, users, held.seen).rows
        objective = objective_of(store, self.objective)
        rows = clean_rows(given, "item_users", objective)
        tell_scale_of_rows("item_users", rows.data, held.seen, objective)
        own, means = CSR.from_scipy(rows, store.dtype), feature_means(store, items, itemid)
        solved = self._folding_of(store).items(own, means)
        return solved[0] if is_single(itemid) else solved

    def explain(
        self,
        userid: Raw,
        user_items: Matrix | None,
        itemid: Raw,
        N: int = 10,
        *,
        user_weights: UserWeights | None = None,
        by_row: bool = False,
    ) -> Explanation:
        """Decompose a user's score of an item into contributions of the user's own items.

        A user's factors are linear in their items (Hu, Koren & Volinsky 2008, section 5), so the
        score is a sum over these items, plus a baseline from the objective's background term.

        Parameters
        ----------
        userid, itemid : id
        user_items : Interactions, scipy sparse, or None
            The user's row, as in :meth:`recalculate_user`; None uses the training interactions.
        N : int, default 10
            Number of contributions to return, the largest first.
        user_weights : UserWeights, optional
            From an earlier explanation for the same user and factors, which saves most of the work.
            ``user_items`` is then not read.

        Returns
        -------
        Explanation
            ``score, contributions, user_weights``, and ``baseline``.

        Raises
        ------
        ValueError, TypeError
            As in :meth:`recalculate_user`; or ``user_items`` is None and the model lacks the
            training interactions or their values; or ``user_weights`` belong to other factors or
            another user.
        """
        check_count("N", N, 1)
        userid, itemid = given_id(userid, "userid"), given_id(itemid, "itemid")
        held = self._now()
        store = held.on_host()
        (users, items), folding = sides(store, by_row=by_row), self._folding_of(store)
        item = int(items.rows(itemid, "itemid")[0])
        row = int(users.rows(userid, "userid", missing=-1)[0])
        user = userid if row < 0 else row
        if user_weights is None:
            solved = weigh_items(folding, held, (users, items), userid, user_items)
            user_weights = replace(solved, user=user)
        check_user_weights(user_weights, folding, user, userid)
        return explained(folding, user_weights, items, item, N)

    @in_turn
    def partial_fit(
        self,
        new: Any = None,
        *,
        user_items: Matrix | None = None,
        alternations: int = 3,
        decay: float = 1.0,
        batch: str | None = None,
        leave_out: Any = None,
        user_features: Any = None,
        item_features: Any = None,
    ) -> Self:
        """Update the model with new interactions, including new users and items.

        The update solves rows with new interactions from all their interactions, old and new: first
        the users, then ``alternations`` times the items and the users.

        - Rows with less than 15% new interactions take part in only one alternation.
        - Rows with more take part in every alternation. So do users of whose items at least 30%
          changed that much; they would otherwise hold these items in place.
        - All other rows keep their factors. A fit would move them slightly, and more after many
          updates, so fit again from time to time.

        The history gets a record with the seconds and the number of ``rows`` solved.

        Seen items stay seen: where values cancel or decay to 0, the model has no interaction any
        more, but lists still leave the item out.

        The old interactions are the ones that the model has for its filters; there is no second
        copy. A saved model has them, too, with their values if its objective uses them.

        Parameters
        ----------
        new : Interactions, scipy or CuPy sparse matrix (users x items), or DataFrame
            Matched by id; unknown ids are new users and items. A matrix has no ids, so it fits only
            models whose ids are row numbers. If the model has a cell already, the values are added.
            None if new rows come only from feature tables.
        user_items : Interactions or scipy sparse, optional
            All interactions of the model, without the new ones; by default, the model's own. A
            sparse matrix has the rows and columns of the model.
        alternations : int, default 3
            At least 0; 0 solves users only. New users of new items need several, because each side
            learns from the other (``bench/stream.py``).
        decay : float, default 1.0
            In (0, 1]. Multiplies the values of all old interactions before the new ones are added;
            only for objectives that use values. Below 1, every row changes: rows without new
            interactions are solved in one alternation, so an update takes about twice as long.
        batch : str or None, default None
            Name of ``new``, such as ``"2026-11-25"``. A batch is applied only once: if the model
            has one of this name, it does not change, and a line is logged. The history, which is
            saved with the model, has the last 1,000 updates since the fit. Without a name,
            interactions of an earlier update are applied again, with a warning.
        leave_out : Interactions or DataFrame, optional
            What lists leave out of ``new``, such as the purchases among it, for a model whose lists
            leave out only some items (:meth:`mfrank.Recommender.leave_out`). By default, all that
            the model did not have.
        user_features, item_features : DataFrame, path, URL, sparse matrix or 2-D array, optional
            Features with the columns of the fit, only if the fit had features, and as a table if
            the fit had a table. A matrix has a row for each id of ``new``, in the same order. Rows
            of a table are matched by id:

            - an id that neither ``new`` nor the model has becomes a new row;
            - a known id whose features changed is solved again;
            - an id that the table does not have keeps its features.

            Rows without interactions get factors from their features alone. Without this argument,
            the features of new rows are 0.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            The model is unchanged if

            - it lacks its interactions or their values, and ``user_items`` is None;
            - the objective cannot use a value;
            - ids are whole numbers in only one of the model and ``new``;
            - an argument is out of range.
        """
        check_update(alternations, decay, batch)
        held = self._now()
        store = held.store.on_host()
        chosen = chosen_of_update(leave_out, held.seen)
        update = Update.of(
            store,
            objective_of(store, self.objective),
            new,
            alternations=alternations,
            decay=decay,
            batch=batch,
            user_features=user_features,
            item_features=item_features,
        )
        if update is None:  # the model has it
            return self
        self._tell_set_since(store.fitter)
        after, seen = update.applied(held.seen, user_items, choose(self.backend), self.n_threads)
        if chosen is not None and held.seen is not None:
            seen = held.seen.updated(seen.matrix, left_out_of(chosen, after))
        self._hold(after, seen)
        return self

    @in_turn
    def partial_fit_users(self, userids: Raw, user_items: Matrix, *, by_row: bool = False) -> Self:
        """Solve users from their interactions and store the result; unknown users are added.

        Item factors do not change. A row must contain all of a user's interactions, not only the
        new ones. With ``by_row=True``, new users must continue the numbering.

        Parameters
        ----------
        userids, user_items, by_row
            As in :meth:`recalculate_user`; no id twice.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            As in :meth:`recalculate_user`; or ids repeat, are whole numbers in only one of the
            model and the call, or leave a gap in the row numbers. The model is unchanged.
        """
        users, items = sides(self.store, by_row=by_row)
        folding = self._folding_of(self.store)
        self._hold(*solved_anew(self._now(), folding, users, items, userids, user_items))
        return self

    @in_turn
    def partial_fit_items(self, itemids: Raw, item_users: Matrix, *, by_row: bool = False) -> Self:
        """Solve items from their interactions and store them; see :meth:`partial_fit_users`."""
        users, items = sides(self.store, by_row=by_row)
        folding = self._folding_of(self.store)
        self._hold(*solved_anew(self._now(), folding, items, users, itemids, item_users))
        return self

    def _hold(self, store: FactorStore, seen: sp.csr_array | Seen | None) -> None:
        super()._hold(store, seen)
        self._last_folding = None  # it has the factors as they were

    def _folded_users(self, held: ModelState, own: OwnRows) -> QueryFactors:
        store, (side, ids, *_) = held.on_host(), own.known
        objective = objective_of(store, self.objective)
        rows = clean_rows(own.rows, "user_items", objective)
        tell_scale_of_rows("user_items", rows.data, held.seen, objective)
        solvable, means = CSR.from_scipy(rows, store.dtype), feature_means(store, side, ids)
        return QueryFactors(*self._folding_of(store).users_and_biases(solvable, means))

    def _somebody(self, held: ModelState, own: LikedItems, *, has_values: bool) -> QueryFactors:
        folding = self._folding_of(held.store)
        refuse_dislikes(folding.objective, own.values, "values")
        tell_of_liked(folding.objective, own.values, held.store.threshold, given=has_values)
        if has_values:
            tell_scale_of_rows("values", own.values, held.seen, folding.objective)
        else:
            tell_scale_of_ones(held.seen, folding.objective)
        return QueryFactors(*folding.users_and_biases(own.likes))

    def _folding_of(self, store: FactorStore) -> FoldIn:
        """Fold-in against these factors; cached, because its Gram matrix is expensive."""
        objective = objective_of(store, self.objective)
        folding = FoldIn(objective, store, self.backend, self.n_threads, had_biases(store))
        last = self._last_folding
        if last is None or last != folding:
            check_solvable(store)
            self._tell_set_since(store.fitter)
            self._last_folding = last = folding
        return last

    def _adopt(self, store: FactorStore) -> None:
        check_features(store)
        if had_biases(store) and (store.user_biases is None or store.item_biases is None):
            raise unreadable("the store", "is damaged", "it lacks the biases of its fit")
        super()._adopt(store)

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
