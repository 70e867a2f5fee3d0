"""Matrix factorization by stochastic descent of any ranking loss, as an estimator."""

from __future__ import annotations

import os
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import DTypeLike

from mfrank import native
from mfrank.amounts import check_above_zero, check_at_least_zero, check_count
from mfrank.backends import Factors, choose
from mfrank.choices import check_choice
from mfrank.cores import check_threads
from mfrank.csr import CSR
from mfrank.data.interactions import Interactions
from mfrank.descent import Batches, Course, descend
from mfrank.evaluation.stopping import EarlyStopping
from mfrank.models.checkpoint import Checkpoint, State
from mfrank.models.factor_model import Callback, FactorModel, Watch, refuse_no_likes
from mfrank.models.options import check_backend, check_dtype, check_kind, warn_if_slow
from mfrank.models.room import check_room, check_width
from mfrank.optimisers import Adam, Optimiser
from mfrank.options import describe
from mfrank.retrieval.recommender import Recommender
from mfrank.sampling import ListDrawer, Negatives, Sampling
from mfrank.schedules import CosineDecay, Schedule
from mfrank.scoring import SCORINGS, Rows, Scores
from mfrank.seeds import Seed, generator
from mfrank.spectral import random_factors, spectral_factors
from mfrank.starts import first_biases, first_factors
from mfrank.steps import Record
from mfrank.store.factors import FactorStore
from mfrank.tables import Tables
from mfrank.trainers import Loss, Sizes
from mfrank.trainers.softmax import SampledSoftmax

__all__ = ["Descent"]

_COLD = 0.1  # near the best of bench/trainers_quality.py on ml-1m and gowalla

_DEFAULT_LOSS, _DEFAULT_OPTIMISER = SampledSoftmax(), Adam(0.01)
_DEFAULT_SCHEDULE = CosineDecay()


@dataclass(eq=False)
class Descent(FactorModel):
    """Matrix factorization by stochastic descent of a ranking loss.

    An epoch visits each user once (or each observed cell, ``batches="positives"``): of every user
    it draws a few liked and some other items, and moves their factors down the loss. Every value
    r > 0 counts as one like; dislikes, r < 0, are refused.

    Ranking losses are not convex: they do best from factors that already rank. A fit begins with
    the leading singular directions of the likes; it may go on from an :class:`ALS`, passed as
    ``start`` of :meth:`fit`, from which dot products want a tenth of the default learning rate. On
    large catalogues thousands of shared others rank better, and take longer
    (``bench/trainers_quality.py`` searches around it).

    Parameters
    ----------
    loss : Loss, default SampledSoftmax()
        Of ``mfrank.trainers``; the default ranked best of them on ml-1m and gowalla
        (``bench/trainers_quality.py``).
    factors : int, default 64
        Width of the factors, >= 1.
    iterations : int, default 20
        Epochs of a fit, >= 1.
    optimiser : Optimiser, default Adam(0.01)
        ``Adam``, ``Adagrad``, ``SGD`` (with heavy-ball momentum) or ``Langevin``.
    schedule : Schedule, default CosineDecay()
        Of the learning rate: ``Constant``, ``StepDecay`` or ``CosineDecay``.
    batches : {"users", "positives"}, default "users"
        What an epoch visits: users, with up to ``likes`` of their likes, or likes one by one.
    batch_size : int, default 256
        Users or likes of a batch, over whose losses is averaged (the SONG paper's).
    likes : int or None, default 10
        Most likes of a user's list, drawn without replacement (the SONG paper's); None takes all.
    others : int or None, default 300
        Other items of a list, drawn with replacement among those that the user does not like (the
        SONG paper's); None takes all: the whole list.
    negatives : {"uniform", "popularity", "in-batch"}, default "uniform"
        How others are drawn: alike, by their number of users to the ``popularity_power``, or from
        the likes of other users of the batch. ``SampledSoftmax`` corrects for it; to all other
        losses the sample stands for the list as if it had been drawn alike.
    popularity_power : float, default 0.75
        >= 0 (word2vec's).
    shared_others : bool, default False
        Whether the lists of a batch share one sample of others, from which each leaves out its own
        likes. Scores are then products of matrices, so that a user can meet thousands of others,
        but an item meets them less often: it takes a higher learning rate.
    scores : {"dot", "cosine", "distance"} or None, default None
        Dot products; dot products of factors that are kept at length 1; or squared distances,
        negative, of factors that are kept in the unit ball (Hsieh et al. 2017). None is what suits
        the loss: cosines for SOPRC and SampledSoftmax, distances for SML, dot products for the
        others. The store of distances has half of them, as p . q with biases -|p|^2 / 2 and
        -|q|^2 / 2.
    temperature : float or None, default None
        > 0, what these are divided by in the loss; None is 0.1 for cosines, 1 for the others.
    item_biases : bool or None, default None
        Whether items have biases too, added to the scores; None is with cosines, which cannot tell
        how popular an item is.
    init : {"spectral", "random"}, default "spectral"
        First factors, without a start: the leading singular directions of the normalised likes, as
        in :class:`ALS`; or normal random numbers, as papers begin, which take many more epochs.
    weight_decay : float, default 0.0
        >= 0, times the factors added to the slopes of those that a batch touches.
    clip : float or None, default None
        > 0, what no slope of a weight is larger than, before weight decay (LibAUC's SONG: 1).
    dtype : {"float32", "float64"}, default "float32"
    random_state : int, numpy.random.Generator or None, default None
        Seed of the first factors and of what is drawn. The same seed gives the same bits, whatever
        ``n_threads``.
    n_threads : int, default 0
        Up to 1024; 0 takes every core this process may use.
    backend : {"auto", "cpu", "reference", "cuda"}, default "auto"
        As for :class:`ALS`.

    Attributes
    ----------
    user_factors, item_factors : shape (n_users, factors), (n_items, factors)
    store : FactorStore
        The same with biases, ids, counts and history; an epoch's ``objective`` is its mean loss.

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
    optimiser: Optimiser = _DEFAULT_OPTIMISER
    schedule: Schedule = _DEFAULT_SCHEDULE
    batches: Literal["users", "positives"] = "users"
    batch_size: int = 256
    likes: int | None = 10
    others: int | None = 300
    negatives: Negatives = "uniform"
    popularity_power: float = 0.75
    shared_others: bool = False
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

    def __post_init__(self) -> None:
        check_kind("loss", self.loss, Loss, "mfrank.SONG()")
        check_kind("optimiser", self.optimiser, Optimiser, "mfrank.Adam(0.001)")
        check_kind("schedule", self.schedule, Schedule, "mfrank.StepDecay()")
        for name in ("factors", "iterations", "batch_size"):
            check_count(name, getattr(self, name), 1)
        check_threads(self.n_threads)
        check_choice("batches", self.batches, ("users", "positives"))
        check_choice("scores", self.scores, (None, *get_args(Scores)))
        check_choice("item_biases", self.item_biases, (None, True, False))
        check_choice("init", self.init, ("spectral", "random"))
        if self.batches == "positives" and self.loss.remembers_users:
            raise ValueError(
                f"{type(self.loss).__name__} remembers something of each user, who may stand in a "
                'batch of positives more than once; use batches="users"'
            )
        _ = self._sampling  # which checks what is drawn
        check_above_zero(temperature=self._temperature)
        check_at_least_zero(weight_decay=self.weight_decay)
        if self.clip is not None:
            check_above_zero(clip=self.clip)
        check_dtype(self.dtype)
        generator(self.random_state)
        check_backend(self.backend)

    def fit(
        self,
        user_items: Any,
        *,
        start: Recommender | FactorStore | None = None,
        stopping: EarlyStopping | None = None,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        show_progress: bool = False,
    ) -> Self:
        """Fit to interactions, from spectral factors unless ``start`` is given.

        Parameters
        ----------
        user_items : Interactions, sparse (users x items) of scipy's or CuPy's, or DataFrame
        start : model or FactorStore, optional
            Go on from its factors, with a fresh optimiser: an :class:`ALS`, or a ``Descent`` of
            another loss as a warm-up. As in :meth:`ALS.fit`. Factors of cosines and distances are
            drawn back to the sphere or into the ball; item biases, where this model has them, begin
            such that factors that are there already rank items as the start does.
        stopping : EarlyStopping, optional
            Stop where held-out interactions are no longer ranked better, and keep the best epoch;
            ``iterations`` is then the most that there will be.
        callback : function, optional
            Called after every epoch with its number from 0, its seconds, and the mean loss. This
            model already holds the epoch's factors. A true result stops the fit. An exception,
            Ctrl-C too, leaves it with the last complete epoch.
        checkpoint : path, optional
            Folder that keeps the whole state after every epoch. Where it holds that of an
            interrupted fit with these options to these interactions, the fit goes on from there,
            and ends with the bits it would have had without the interruption. A larger
            ``iterations`` continues a fit that is complete.
        show_progress : bool, default False
            Show epochs and time left on stderr.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Before any work: data without likes or with dislikes, a start, held-out interactions or
            a checkpoint that do not fit.
        MemoryError
            Before any work: factors so wide that the machine has no memory for the fit.
        FloatingPointError
            The fit diverges: the learning rate is too large. The last complete epoch is kept.
        OSError
            The checkpoint cannot be written. This model has the epoch that was to be saved, the
            folder still that before.
        """
        self.__post_init__()
        data = Interactions.of(user_items)
        watch = Watch.of(data.user_items, stopping, callback, show_progress)
        rows = _likes(data, self.dtype)
        if checkpoint is not None and stopping is not None:
            raise ValueError(
                "checkpoint and stopping do not go together: a checkpoint holds the last epoch, "
                "not the best; stop by a callback, or evaluate afterwards"
            )
        batches, backend = Batches(self.batches, int(self.batch_size)), choose(self.backend)
        one = np.empty((1, 1), self.dtype)
        kept_beside = sum(array.shape == one.shape for array in self.optimiser.state(one).values())
        check_width(
            data.n_users + data.n_items,
            int(self.factors),
            self.dtype,
            backend,
            tables=2 + kept_beside,  # one that descends, one of the epoch before
            matrices=5 if self.init == "spectral" and start is None else 0,
        )
        warn_if_slow(self.backend)
        in_reach = native.takes(backend.place(one))
        check_room(rows, self.loss, batches, self._sampling, "summed" if in_reach else "held")
        kept = None if checkpoint is None else Checkpoint.of(checkpoint, data)
        past = None if kept is None else kept.load(describe(self))
        store = start.store if isinstance(start, Recommender) else start
        random = generator(self.random_state)
        seed = int(random.integers(2**63))
        tables = self._tables(data, store, random)
        sizes, place = Sizes(len(rows.indices), rows.n_rows, rows.n_columns), tables.backend.place
        memory = {name: place(array) for name, array in self.loss.memory(sizes).items()}
        tables.begin(self.optimiser)
        history: list[Record] = []
        if kept is not None and past is not None:
            seed = kept.resume(past, tables, memory)
            history = [dict(record) for record in past.history]
            self._store, self._seen = replace(past, extras={}), copy(data.user_items)
        drawer = ListDrawer(
            rows,
            self._sampling,
            backend,
            getattr(self.loss, "k", None),
            self.n_threads,
        )
        course = Course(
            self.loss,
            self.optimiser,
            self.schedule,
            self.iterations,
            batches,
            self.weight_decay,
            self.clip,
            seed,
        )
        steps = descend(drawer, rows.counts, course, tables, memory, done=len(history))
        state = State(seed, tables, memory)
        save = None if kept is None else lambda store: kept.save(store, state)
        self._keep(steps, data, watch, history, save)
        return self

    @property
    def _scores(self) -> Scores:
        return self.scores or self.loss.scores

    @property
    def _temperature(self) -> float:
        if self.temperature is not None:
            return self.temperature
        return _COLD if self._scores == "cosine" else 1.0

    @property
    def _sampling(self) -> Sampling:
        return Sampling(
            self.likes, self.others, self.negatives, self.popularity_power, self.shared_others
        )

    def _tables(
        self, data: Interactions, start: FactorStore | None, random: np.random.Generator
    ) -> Tables:
        """What the fit begins with."""
        backend, scoring = choose(self.backend), SCORINGS[self._scores]
        users, items = self._first_factors(data, start, random)
        for table in (users, items):
            scoring.confine(Rows(table, np.arange(len(table))))
        biases = None
        if self._scores == "cosine" if self.item_biases is None else self.item_biases:
            untrained = scoring.stored(items, np.zeros(len(items), items.dtype))
            stored = first_biases(data, start, untrained)
            biases = scoring.trained(items, stored)[:, None] / self._temperature
            biases = backend.place(biases)
        users, items = map(backend.place, (users, items))
        return Tables(users, items, biases, backend, scoring, self._temperature, self.n_threads)

    def _first_factors(
        self, data: Interactions, start: FactorStore | None, random: np.random.Generator
    ) -> tuple[Factors, Factors]:
        width, how = int(self.factors), (choose(self.backend), self.n_threads)
        if start is not None:
            return first_factors(data, width, self.dtype, random, start, *how)
        if self.init == "spectral":
            rows = data.user_rows(self.dtype), data.item_rows(self.dtype)
            return spectral_factors(*rows, width, random, self.dtype, *how)
        users, items = (
            random_factors((n, width), random, self.dtype) for n in (data.n_users, data.n_items)
        )
        return users, items


def _likes(data: Interactions, dtype: DTypeLike) -> CSR:
    """The pattern of the interactions by users."""
    values = data.user_items.data
    if values.size and values.min() < 0:
        raise ValueError(
            f"user_items has {int((values < 0).sum())} negative values, which mean dislikes; "
            "ranking losses know likes only. Drop them with Interactions.at_least(0)"
        )
    refuse_no_likes(data)
    return data.user_rows(dtype).pattern()
