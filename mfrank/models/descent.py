"""The estimator ``Descent``: matrix factorization by stochastic descent of a ranking loss."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, cast, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from mfrank.als import Explanation, as_step, check_start
from mfrank.arrays import (
    Seed,
    changed,
    check_above_zero,
    check_at_least_zero,
    check_choice,
    check_count,
    check_threads,
    generator,
    in_turn,
    tell_idle,
)
from mfrank.backends import choose
from mfrank.backends.sharded import check_one_place
from mfrank.cluster import Cluster, connected
from mfrank.data import Interactions
from mfrank.descent import (
    Adam,
    Batches,
    CosineDecay,
    DescentPlan,
    ListDrawer,
    NegativeSampling,
    Optimizer,
    Sampling,
    Schedule,
    descend,
)
from mfrank.descent.rotation import count_blocks, rotate
from mfrank.errors import InputValueError
from mfrank.losses import Loss, SampledSoftmax, Scores
from mfrank.models.cost import Pace, check_batch_memory, check_width
from mfrank.models.descent_start import FirstTables, check_rotates, positives_of
from mfrank.models.factor_model import Callback, FactorModel, FitWatch, Stopping
from mfrank.models.options import check_backend, check_dtype, check_kind, warn_if_slow
from mfrank.models.parameters import describe, refuse_target
from mfrank.models.partial_fit import Delta
from mfrank.models.resume import (
    Checkpoint,
    DescentState,
    as_begun,
    blocks_fingerprint,
    positives_fingerprint,
)
from mfrank.models.row_map import RowMap, descended, explained_by, liked, likes_of
from mfrank.models.update_data import update_of
from mfrank.models.value_notes import tell_of_liked, tell_unread_values
from mfrank.retrieval import (
    LikedItems,
    Matrix,
    ModelState,
    OwnRows,
    QueryFactors,
    Raw,
    Recommender,
    fingerprint,
    given_id,
    given_rows,
    sides,
)
from mfrank.store import FactorStore, Record

_COSINE_TEMPERATURE = 0.1  # near the best of bench/trainers_quality.py on ml-1m and gowalla

_DEFAULT_LOSS, _DEFAULT_OPTIMIZER = SampledSoftmax(), Adam(0.01, decay_1=0.5)
_DEFAULT_SCHEDULE = CosineDecay()


@dataclass(eq=False, repr=False)
class Descent(FactorModel):
    """Matrix factorization by stochastic descent of a ranking loss.

    An epoch visits each user once (or each positive once, with ``batches="positives"``). Each visit
    samples positives and negatives, and takes a gradient step on the factors of the user and of the
    sampled items. Every value r > 0 is one positive; dislikes, r < 0, are refused.

    Ranking losses are not convex and work best from factors that already rank. A fit starts from
    the leading singular directions of the data, or from a warm start such as an :class:`ALS`. After
    an ALS with dot products as scores, use a tenth of the default learning rate. On large catalogs,
    thousands of shared negatives rank better but take longer (``bench/trainers_quality.py``).

    Parameters
    ----------
    loss : Loss, default SampledSoftmax()
        A loss of ``mfrank.losses``, or your own. The default ranked best on ml-1m and gowalla
        (``bench/trainers_quality.py``).
    factors : int, default 64
        Number of latent factors, >= 1.
    iterations : int, default 20
        Epochs of a fit, >= 1.
    optimizer : Optimizer, default Adam(0.01, decay_1=0.5)
        ``Adam``, ``Adagrad``, ``SGD`` (with heavy-ball momentum) or ``Langevin``. A user's factors
        are updated once per epoch, so Adam's usual ``decay_1=0.9`` averages over ten epochs. On
        ml-1m and gowalla, 0.5 ranked at least as well at every learning rate tried
        (``bench/NOTES.md``).
    schedule : Schedule, default CosineDecay()
        Learning-rate multiplier over the fit: ``Constant``, ``StepDecay`` or ``CosineDecay``.
    batches : {"users", "positives"}, default "users"
        What an epoch visits: ``"users"`` each user once, with up to ``positives`` items;
        ``"positives"`` each positive once, as a list of its own.
    batch_size : int, default 256
        Users (or positives) per batch; the batch loss is their mean (default of the SONG paper).
    positives : int or None, default 10
        Maximum number of positives per list, drawn without replacement (default of the SONG
        paper); None uses all of the user's positives.
    negatives : int or None, default 300
        Number of negatives per list, drawn with replacement from the items that are not the user's
        positives (default of the SONG paper); None uses all of these items.
    negative_sampling : {"uniform", "popularity", "in-batch"}, default "uniform"
        Distribution of the negatives: uniform; proportional to the item's number of users to the
        power ``popularity_power``; or the positives of other users in the batch. ``SampledSoftmax``
        corrects for it; all other losses treat the sample as uniform.
    popularity_power : float, default 0.75
        >= 0; the default is word2vec's.
    shared_negatives : bool, default False
        Whether all lists of a batch share one sample of negatives; each list leaves out its own
        positives. Scores are then matrix products, so thousands of negatives per user are
        affordable. Each item is sampled less often, so the fit needs a higher learning rate.
    scores : {"dot", "cosine", "distance"} or None, default None
        Dot products; dot products of factors normalized to length 1; or negative squared distances
        of factors in the unit ball (Hsieh et al. 2017). None uses the default of the loss: cosine
        for SOPRC and SampledSoftmax, distance for SML, dot for the others. For distances, the store
        has p . q with biases -|p|^2 / 2 and -|q|^2 / 2; their sum is half the score.
    temperature : float or None, default None
        > 0. Divides the scores before the loss. None is 0.1 for cosines and 1 otherwise.
    item_biases : bool or None, default None
        Whether the scores include item biases. None is True for cosines, which cannot represent
        item popularity, and False otherwise.
    init : {"spectral", "random"}, default "spectral"
        Initial factors of a fit without ``start``: the leading singular directions of the
        normalized data, as in :class:`ALS`, or normal random numbers, which need many more epochs.
    weight_decay : float, default 0.0
        >= 0. Multiple of the parameters that is added to their gradients, for the rows of a batch
        only.
    clip : float or None, default None
        > 0. Each component of a gradient is clipped to [-clip, clip], before weight decay
        (LibAUC's SONG uses 1).
    dtype : {"float32", "float64"}, default "float32"
        Dtype of the factors.
    random_state : int, numpy.random.Generator or None, default None
        Seed of the initial factors and of all sampling. The same seed gives the same bits,
        whatever ``n_threads``.
    n_threads : int, default 0
        Up to 1024; 0 uses every core this process may use.
    backend : {"auto", "cpu", "numpy", "reference", "cuda"}, default "auto"
        Where to compute, as for :class:`ALS`.

    Attributes
    ----------
    user_factors, item_factors : shape (n_users, factors), (n_items, factors)
        The fitted factors, in ``dtype``.
    store : FactorStore
        The factors with biases, ids, counts and history; an epoch's ``objective`` is its mean loss.

    Examples
    --------
    >>> import mfrank
    >>> data = mfrank.synthetic(200, 100, 4000, random_state=0)
    >>> first = mfrank.ALS(factors=8, random_state=0).fit(data)
    >>> model = mfrank.Descent(mfrank.SONG(), factors=8, iterations=2, random_state=0)
    >>> ids, scores = model.fit(data, start=first).recommend(data.user_ids.raw([0, 1]), N=5)
    >>> ids.shape
    (2, 5)
    """

    loss: Loss = _DEFAULT_LOSS
    factors: int = 64
    iterations: int = 20
    optimizer: Optimizer = _DEFAULT_OPTIMIZER
    schedule: Schedule = _DEFAULT_SCHEDULE
    batches: Literal["users", "positives"] = "users"
    batch_size: int = 256
    positives: int | None = 10
    negatives: int | None = 300
    negative_sampling: NegativeSampling = "uniform"
    popularity_power: float = 0.75
    shared_negatives: bool = False
    scores: Scores | None = None
    temperature: float | None = None
    item_biases: bool | None = None
    init: Literal["spectral", "random"] = "spectral"
    weight_decay: float = 0.0
    clip: float | None = None
    dtype: DTypeLike = "float32"
    random_state: Seed = None
    n_threads: int = 0
    backend: str = "auto"
    folds_in = True
    _last_map = cast("tuple[ModelState, RowMap] | None", None)  # an annotation would be an option

    def __post_init__(self) -> None:
        check_kind("loss", self.loss, Loss, "mfrank.SONG()")
        check_kind("optimizer", self.optimizer, Optimizer, "mfrank.Adam(0.001)")
        check_kind("schedule", self.schedule, Schedule, "mfrank.StepDecay()")
        for name in ("factors", "iterations", "batch_size"):
            check_count(name, getattr(self, name), 1)
        check_threads(self.n_threads)
        check_choice("batches", self.batches, ("users", "positives"))
        check_choice("scores", self.scores, (None, *get_args(Scores)))
        check_choice("item_biases", self.item_biases, (None, True, False))
        check_choice("init", self.init, ("spectral", "random"))
        if self.batches == "positives" and self.loss.remembers_users:
            raise InputValueError(
                f"{type(self.loss).__name__} keeps a state per user, and a batch of positives can "
                "contain a user more than once",
                'use `batches="users"`',
            )
        _ = self._sampling  # its constructor checks the sampling options
        if self.batches == "positives" and changed(self, "positives"):
            tell_idle(
                "`positives` has no effect, as with `batches='positives'` each is a list of its "
                "own:",
                "leave it out, or use `batches='users'`",
            )
        check_above_zero(temperature=self._temperature)
        check_at_least_zero(weight_decay=self.weight_decay)
        if self.clip is not None:
            check_above_zero(clip=self.clip)
        check_dtype(self.dtype)
        generator(self.random_state)
        check_backend(self.backend)

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
    ) -> Self:
        """Fit to interactions, from spectral factors or from a warm start.

        Parameters
        ----------
        user_items : Interactions, scipy or CuPy sparse matrix (users x items), or DataFrame
        y : None
            scikit-learn's argument; interactions have no target.
        start : model or FactorStore, optional
            Warm start with a fresh optimizer, from an :class:`ALS`, or from a ``Descent`` with
            another loss; rows are matched as in :meth:`ALS.fit`. For cosines and distances, the
            factors are projected onto the sphere or into the ball. Item biases, if the model has
            them, are initialized so that factors which the projection leaves unchanged rank items
            as ``start`` does.
        stopping : EarlyStopping, optional
            Stop when the ranking of held-out interactions no longer improves, and return to the
            best epoch. ``start`` is a candidate too, as epoch 0 of the history. Epochs before the
            learning rate has reached its final value do not count toward the patience, because the
            ranking often gets worse before it improves; with ``CosineDecay``, all ``iterations``
            are therefore run.
        callback : function, optional
            As in :meth:`ALS.fit`, with the mean loss as the objective.
        checkpoint : path, optional
            As in :meth:`ALS.fit`; not together with ``stopping``. ``cluster`` may differ if the
            number D of blocks is the same.
        show_progress : bool, default False
            Show epochs and the remaining time on stderr.
        cluster : int, dask.distributed.Client, str, Engine or None, default None
            Where lists are drawn and factors updated; values, folders and ``n_threads`` are as in
            :meth:`ALS.fit`. Only for ``BPR``, ``BCE``, ``SampledSoftmax``, and losses of your own
            with ``decomposes`` that workers can import.

            Users and items are divided into D blocks each, 1 <= D <= 32. D depends only on the
            numbers of lists per epoch and of items, so the bits do not depend on the number of
            workers. Below 16,384 lists or 1,024 items, D is 1, with the bits of a fit without a
            cluster. For D > 1, a list has items of one block only; items are assigned to blocks at
            random in every epoch. Lists then have fewer positives, so an epoch learns less, the
            more so the larger D is (``bench/rotation.py``). This process holds all factors.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Before any work:

            - the data have no positives, or have dislikes;
            - a batch needs too much memory;
            - ``start``, ``stopping`` or ``checkpoint`` does not match the data;
            - ``cluster`` is not valid, its workers have other instruction sets or another version
              of mfrank than this process, or the loss or optimizer needs all rows in one place.
        ConnectionError, ModuleNotFoundError, MemoryError
            As in :meth:`ALS.fit`.
        RuntimeError
            A task ended several workers; the model has the last complete epoch.
        FloatingPointError
            The fit diverges because the learning rate is too large. The model has the last
            complete epoch.
        OSError
            The checkpoint cannot be written. The model has the unsaved epoch, the folder the one
            before.
        """
        refuse_target(y)
        self.__post_init__()
        check_one_place(cluster, self.backend)
        if cluster is not None:
            check_rotates(self.loss, self.optimizer)
        data = Interactions.of(user_items)
        watch = FitWatch.of(data, stopping, callback, show_progress)
        rows = positives_of(data, self.dtype)
        if checkpoint is not None and stopping is not None:
            raise InputValueError(
                "`checkpoint` and `stopping` do not go together: a checkpoint has the last epoch, "
                "not the best",
                "stop by a callback, or evaluate afterwards",
            )
        batches, backend = Batches(self.batches, int(self.batch_size)), choose(self.backend)
        one = np.empty((1, 1), self.dtype)
        of_optimizer = sum(array.shape == one.shape for array in self.optimizer.state(one).values())
        check_width(
            data,
            int(self.factors),
            self.dtype,
            backend,
            tables=2 + of_optimizer,  # the current factors and a copy of the previous epoch's
            matrices=5 if self.init == "spectral" and start is None else 0,
        )
        warn_if_slow(self.backend)
        tell_unread_values(type(self.loss).__name__, data)
        check_batch_memory(rows, self.loss, batches, self._sampling, backend)
        visits = len(rows.indices) if batches.of == "positives" else np.count_nonzero(rows.counts)
        n_blocks = 1 if cluster is None else count_blocks(int(visits), rows.n_columns)
        store = start.store if isinstance(start, Recommender) else start
        if store is not None:
            check_start(store, int(self.factors))
        kept = None
        if checkpoint is not None:
            kept = Checkpoint.of(
                checkpoint,
                data=positives_fingerprint(data),
                blocks=blocks_fingerprint(n_blocks),
                start=None if store is None else fingerprint.of_store(store),
            )
        past = None if kept is None else kept.load(describe(self))
        random = generator(self.random_state)
        seed = int(random.integers(2**63))  # drawn before the tables
        tables = self._first_tables.of(data, store, random, backend)
        state = DescentState.begun(seed, tables, self.loss, self.optimizer, rows)
        history = list[Record]()
        if kept is not None and past is not None:
            state = state.resumed(kept, past)
            history = [dict(record) for record in past.history]
            self._take(replace(past, extras={}), data)
        plan = DescentPlan(
            self.loss,
            self.optimizer,
            self.schedule,
            self.iterations,
            batches,
            self.weight_decay,
            self.clip,
            state.seed,
        )
        pace, done = Pace(int(self.iterations), self._faster), len(history)
        save = None if kept is None else lambda store, _: kept.save(store, state.arrays())
        first = None
        if stopping is not None and store is not None:
            first = as_step(data, self.dtype, seed, store, backend)
        with nullcontext() if cluster is None else connected(cluster) as engine:
            if engine is None:
                drawer = ListDrawer(rows, self._sampling, backend, self.loss.cutoff, self.n_threads)
                steps = descend(drawer, rows.counts, plan, tables, state.memory, done, pace)
            else:
                steps = rotate(
                    rows, n_blocks, self._sampling, plan, tables, engine, self.backend, done, pace
                )
            self._keep(
                steps,
                data,
                watch,
                history,
                save,
                fitter=as_begun(describe(self), past),
                start=first,
                unsettled=self._unsettled,
            )
        return self

    def explain(
        self,
        userid: Raw,
        user_items: Matrix | None,
        itemid: Raw,
        N: int = 10,
        *,
        by_row: bool = False,
    ) -> Explanation:
        """Decompose a user's score of an item into contributions of the user's own items.

        The contributions are those to the score by :meth:`recalculate_user`, which is linear in the
        user's items. Parameters and errors are those of :meth:`mfrank.ALS.explain`. With
        ``user_items=None`` the score is that of :meth:`mfrank.Recommender.score`, and the baseline
        has what the user's items do not explain.
        """
        check_count("N", N, 1)
        userid, itemid = given_id(userid, "userid"), given_id(itemid, "itemid")
        held = self._now()
        users, items = sides(held.on_host(), by_row=by_row)
        item = int(items.rows(itemid, "itemid")[0])
        if user_items is not None:
            given = given_rows(user_items, userid, users, items, "user_items")
            return explained_by(
                self._map_of(held), liked(given, "user_items"), held.store, items, item, N
            )
        row = users.rows(userid, "userid")
        score = float(self.score(row, [item], by_row=True)[0])
        likes = likes_of(held)[row]
        return explained_by(self._map_of(held), likes, held.store, items, item, N, score)

    @in_turn
    def partial_fit(
        self, new: Any = None, *, batch: str | None = None, leave_out: Any = None
    ) -> Self:
        """Update the model with new interactions, including new users and items.

        No step of the loss is taken: users and items with new interactions follow from what they
        have by the linear maps that fit those of the fit best (:mod:`mfrank.models.row_map`).
        It ranks about as a new fit does, in a few seconds; all others keep their factors, so fit
        again from time to time.

        Parameters are those of :meth:`mfrank.ALS.partial_fit`; values above 0 are positives.

        Raises
        ------
        ValueError, TypeError
            The model is unchanged if it lacks its interactions, ``new`` has dislikes, or ids are
            whole numbers in only one of the model and ``new``.
        """
        held = self._now()

        def after(delta: Delta, data: Interactions) -> tuple[FactorStore, int]:
            liked(data.user_items, "new")
            tell_unread_values(type(self.loss).__name__, data)
            return descended(held.on_host(), self._map_of(held), delta, likes_of(held))

        old = None if held.seen is None else likes_of(held)
        if (found := update_of(held, old, new, batch, leave_out, after)) is not None:
            self._tell_set_since(held.store.fitter)
            self._hold(*found)
        return self

    def _folded_users(self, held: ModelState, own: OwnRows) -> QueryFactors:
        return QueryFactors(*self._map_of(held).users(liked(own.rows, "user_items")))

    def _somebody(self, held: ModelState, own: LikedItems, *, has_values: bool) -> QueryFactors:
        tell_of_liked(self, own.values, held.store.threshold, given=has_values)
        likes = own.likes
        row = sp.csr_array((own.values, likes.indices, likes.indptr), (1, likes.n_columns))
        return QueryFactors(*self._map_of(held).users(liked(row, "values")))

    def _map_of(self, held: ModelState) -> RowMap:
        """The map of a state of the model; cached, because it reads all interactions."""
        last = self._last_map
        if last is None or last[0] is not held:
            self._last_map = last = held, RowMap.of(held.on_host(), likes_of(held))
        return last[1]

    @property
    def _scores(self) -> Scores:
        return self.scores or self.loss.scores

    @property
    def _temperature(self) -> float:
        if self.temperature is not None:
            return self.temperature
        return _COSINE_TEMPERATURE if self._scores == "cosine" else 1.0

    @property
    def _has_item_biases(self) -> bool:
        if self.item_biases is not None:
            return self.item_biases
        return self._scores == "cosine"

    @property
    def _faster(self) -> str:
        """What makes an epoch take less time."""
        if self.negatives is None:
            return "set `negatives` to a number, instead of all items"
        shared = "" if self.shared_negatives else ", or pass `shared_negatives=True`"
        return f"lower `negatives` and `factors`{shared}"

    @property
    def _unsettled(self) -> int:
        """Number of epochs until the learning rate no longer changes from epoch to epoch."""
        epochs = range(self.iterations)
        rates = [self.schedule.multiplier(epoch / self.iterations) for epoch in epochs]
        return max((epoch + 1 for epoch in epochs if rates[epoch] != rates[-1]), default=0)

    @property
    def _first_tables(self) -> FirstTables:
        return FirstTables(
            int(self.factors),
            self.dtype,
            self.init,
            self._scores,
            self._temperature,
            self._has_item_biases,
            self.n_threads,
        )

    @property
    def _sampling(self) -> Sampling:
        return Sampling(
            self.positives,
            self.negatives,
            self.negative_sampling,
            self.popularity_power,
            self.shared_negatives,
        )
