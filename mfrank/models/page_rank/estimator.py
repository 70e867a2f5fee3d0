"""Supervised PageRank as an estimator: a walk on items, with learned feature weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import (
    Seed,
    check_above_zero,
    check_choice,
    check_count,
    check_threads,
    generator,
    in_turn,
    share,
    shown,
)
from mfrank.data import Counts, Interactions, without_zeros
from mfrank.models.cost import warn_if_steps_are_long
from mfrank.models.factor_model import Callback, check_callback, follow
from mfrank.models.options import (
    check_backend,
    runnable,
    tell_below,
    tell_unread_values,
    warn_if_slow,
)
from mfrank.models.page_rank.recommender import Task, WalkRecommender, walk_arrays
from mfrank.models.parameters import FitFacts, Parameters, describe, fit_of, restore, set_since
from mfrank.pagerank import (
    GBN,
    GBP,
    GFN,
    Accuracy,
    Draw,
    Graphs,
    Problem,
    SquareLoss,
    Tuned,
    with_prior,
)
from mfrank.retrieval import pack
from mfrank.store import IMPORTED, FactorStore, OwnClasses, Record

# The state of learning a supervised PageRank: best weights so far and history.


@dataclass(slots=True, eq=False)
class Learned:
    """The best weights so far and a record of each complete step."""

    weights: NDArray[np.float64]
    history: list[Record]

    def take_up(
        self, steps: Iterator[Tuned], callback: Callback | None, most: int, *, show_progress: bool
    ) -> None:
        """Run the steps, at most ``most``."""
        counted: Iterator[_LearningProgress] = map(_LearningProgress.of, steps)
        for _, _, tuned in follow(counted, most, unit="step") if show_progress else counted:
            if not self.history:
                warn_if_steps_are_long(tuned.seconds, most)
            self.history.append(tuned.record())
            if tuned.is_best:
                self.weights = tuned.weights
            if callback and callback(tuned.step - 1, tuned.seconds, tuned.loss):
                break


class _LearningProgress(NamedTuple):
    """A step with the attributes that the progress bar reads."""

    epoch: int
    objective: float
    tuned: Tuned

    @classmethod
    def of(cls, tuned: Tuned) -> Self:
        return cls(tuned.step, tuned.loss, tuned)


Floats = NDArray[np.float64]
Method = GBN | GBP | GFN

# Best overall on the validation splits of bench/pagerank_quality.py.
_DEFAULT_METHOD, _DEFAULT_LOSS = GBN(epsilon=1e-10, radius=3.0), SquareLoss(0.02)


@dataclass(eq=False, repr=False)
class SupervisedPageRank(Parameters, WalkRecommender):
    """Rank items by a random walk that restarts at the user's most recent items.

    The walk's transition and restart probabilities are proportional to weighted sums of features
    of edges and items. The weights are learned from labeled queries (Bogolubsky et al. 2016); see
    :meth:`fit`. Scores are the walk's stationary probabilities; an item that the walk does not
    reach has score 0 and is in no list.

    Parameters
    ----------
    method : GBN, GBP, GFN or None, default GBN(epsilon=1e-10, radius=3)
        Method of ``mfrank.pagerank`` that learns the weights. With None, all weights are 1. With
        the paper's radius of 0.99, many weights stay too close together for one feature to
        dominate.
    alpha : float, default 0.7
        Probability of a restart, in (0, 1). The next item depends on the current one, so alpha is
        large: 0.5, 0.7 and 0.85 ranked best on three data sets (``bench/pagerank_quality.py``).
        PageRank on the web uses 0.15 (Page et al. 1999).
    loss : SquareLoss, default SquareLoss(0.02)
        Its margin must be one number for all labels, because several margins cannot be saved. With
        margin 0, the learned weights ranked worse than weights of 1 on these data.
    accuracy : {"certificate", "theory"}, default "certificate"
        Stopping rule of the walk's iterations during learning; see
        :class:`mfrank.pagerank.Problem`.
    recent : int, default 10
        Maximum number of most recent items at which a user's walk restarts.
    gap : float or None, default None
        > 0. Maximum time between two consecutive items of a user for an edge between them, in the
        unit of the timestamps. None is no limit.
    queries : int, default 200
        Maximum number of users to learn from, drawn at random. With graphs, all queries are used.
    candidates : int, default 100
        Negatives per query: the most likely items of the walk with all weights 1, without the
        user's items.
    tolerance : float, default 1e-6
        > 0. Maximum 1-norm error of a walk's probabilities.
    random_state : int, numpy.random.Generator or None, default None
        Seed of the draw of users. The same seed gives the same bits, whatever ``n_threads``.
    n_threads : int, default 0
        Threads of a fit; 0 uses every core this process may use.
    backend : {"auto", "cpu", "reference", "cuda"}, default "auto"
        Where the walks are computed, as for :class:`mfrank.ALS`.

    Attributes
    ----------
    weights : float64, shape (m1 + m2,)
        phi in the paper: weights of the m1 node features, then of the m2 edge features.
    item_prior : float64, shape (n_items,)
        Probabilities of the walk of a user without items.
    store : FactorStore
        Has the prior and, in its extras, the weights and the walk. Its factors (one column of
        zeros) and ``item_biases`` (the log of the prior) are a placeholder and not used for
        ranking: ``Recommender.of(store)`` refuses the store. ``history`` has the loss after each
        step.

    Examples
    --------
    >>> import mfrank
    >>> users, items = [0, 0, 0, 1, 1, 1, 1, 2, 2], [0, 1, 2, 0, 1, 2, 3, 0, 1]
    >>> times = [1, 2, 3, 1, 2, 3, 4, 1, 2]
    >>> data = mfrank.Interactions.from_arrays(users, items, timestamps=times)
    >>> ids, scores = mfrank.SupervisedPageRank(random_state=0).fit(data).recommend(2, N=1)
    >>> ids.tolist()
    [2]
    """

    method: Method | None = _DEFAULT_METHOD
    alpha: float = 0.7
    loss: SquareLoss = _DEFAULT_LOSS
    accuracy: Accuracy = "certificate"
    recent: int = 10
    gap: float | None = None
    queries: int = 200
    candidates: int = 100
    tolerance: float = 1e-6
    random_state: Seed = None
    n_threads: int = 0
    backend: str = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.method, GBN | GBP | GFN | None):
            raise TypeError(
                "method must be one of mfrank.pagerank's, such as GBN(), or None; got "
                f"{shown(self.method)}"
            )
        if not isinstance(self.loss, SquareLoss):
            raise TypeError(f"loss must be a mfrank.pagerank.SquareLoss, got {shown(self.loss)}")
        if not isinstance(self.loss.margin, int | float):
            raise ValueError(
                "loss must have one margin, a number; for a margin per pair of labels, learn with "
                "mfrank.pagerank.Problem"
            )
        check_choice("accuracy", self.accuracy, get_args(Accuracy))
        share("alpha", self.alpha)
        check_above_zero(tolerance=self.tolerance)
        if self.gap is not None:
            check_above_zero(gap=self.gap)
        for name in ("recent", "queries", "candidates"):
            check_count(name, getattr(self, name), 1)
        check_threads(self.n_threads)
        generator(self.random_state)
        check_backend(self.backend)

    @in_turn
    def fit(
        self,
        data: Graphs | Interactions | Any,
        labels: Any = None,
        *,
        item_features: ArrayLike | None = None,
        callback: Callback | None = None,
        show_progress: bool = False,
    ) -> Self:
        """Learn the weights and store the resulting walk.

        **From interactions**: a user's items in order of time form a session, with each item once,
        at its last time. The graph has edges in both directions between consecutive items, with the
        features of :func:`mfrank.pagerank.next_clicks.item_graph`. For learning, each user's last
        item is held out, and the graph is built without it. Up to ``queries`` users are drawn; each
        is a query that restarts at the user's last ``recent`` items and should rank the held-out
        item above the ``candidates``. The stored walk uses all interactions and the learned
        weights.

        **From graphs**: queries are the users, numbered as in the graphs, and pages are the items.
        The stored walk is on the union of all graphs; the weight of an edge is the sum of its
        weights in the graphs. A query's walk restarts at its seeds.

        Parameters
        ----------
        data : Interactions with timestamps, or Graphs
        labels : optional
            Not used if ``method`` is None.

            - With graphs: graded relevance, shape (n_nodes,), NaN for unjudged nodes. Default: the
              graphs' own labels.
            - With interactions: the next items, users x items, as Interactions or a scipy sparse
              matrix (such as the validation part of a split); the queries then use the graph of all
              ``data``. Default: each user's last item.
        item_features : shape (n_items, k), optional
            Features of the items, >= 0; only with interactions.
        callback : function, optional
            Called after every step with the step (from 0), its seconds and the loss. Returning true
            stops learning.
        show_progress : bool, default False
            Show steps and the remaining time on stderr.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Before any step: ``data`` lack timestamps or have dislikes, there is nothing to learn
            from, or labels or features do not match ``data``.

        Notes
        -----
        After KeyboardInterrupt, the model has the best weights of the complete steps.
        """
        self.__post_init__()
        check_callback(callback)
        warn_if_slow(self.backend)
        if isinstance(data, Graphs):
            if item_features is not None:
                raise ValueError("item_features go with interactions; graphs have their own")
            task = Task.of_graphs(data, labels, learns=self.method is not None)
        else:
            interactions = Interactions.of(data)
            task = self._task(interactions, labels, item_features)
            tell_unread_values(type(self).__name__, interactions)
            if labels is not None:
                tell_below("labels", labels, interactions.threshold, "count as relevant")
        learned = Learned(np.ones(sum(task.serving.n_features)), [])
        try:
            learned.take_up(
                self._steps(task.learning),
                callback,
                self._most_steps(task),
                show_progress=show_progress and self.method is not None,
            )
        except KeyboardInterrupt:
            if learned.history:
                self._adopt(self._stored(task, learned))
            raise
        self._adopt(self._stored(task, learned))
        return self

    @property
    def uses_values(self) -> bool:
        """False: a walk reads only which items users had, and when."""
        return False

    @property
    def weights(self) -> Floats:
        """phi: weights of the node features, then of the edge features, float64, (m1 + m2,)."""
        return self.store.extras["weights"]

    @property
    def item_prior(self) -> Floats:
        """Probabilities of the walk of a user without items, float64, shape (n_items,)."""
        prior: Floats = np.asarray(self.store.item_prior)
        return prior

    def _fit_told(self) -> FitFacts | None:
        if self._held is None:
            return None
        return fit_of(self._held.store, set_since(self, self._held.store.fitter))

    def _task(self, data: Interactions, labels: Any, item_features: ArrayLike | None) -> Task:
        draw = Draw(self.queries, self.candidates, generator(self.random_state))
        return Task.of_interactions(
            data,
            labels,
            item_features,
            recent=self.recent,
            gap=self.gap,
            draw=None if self.method is None else draw,
            walker=self._walker(self.alpha, self.n_threads),
        )

    def _most_steps(self, task: Task) -> int:
        if isinstance(self.method, GFN):
            return self.method.steps(sum(task.serving.n_features))
        return self.method.iterations if self.method else 0

    def _steps(self, graphs: Graphs | None) -> Iterator[Tuned]:
        if self.method is None or graphs is None:
            return iter(())
        problem = Problem.of(
            graphs,
            self.loss,
            alpha=self.alpha,
            accuracy=self.accuracy,
            backend=self.backend,
            n_threads=self.n_threads,
        )
        return self.method.learn(problem)

    def _stored(self, task: Task, learned: Learned) -> FactorStore:
        weights = learned.weights
        walk = task.walk(weights)
        starts = task.starts(walk, weights)
        prior = walk.prior(self._walker(self.alpha, self.n_threads))
        own = without_zeros(task.seen)
        by_item = np.bincount(own.indices, minlength=walk.n_items).astype(np.int64)
        store = FactorStore(
            np.zeros((len(task.user_ids), 1)),
            np.zeros((walk.n_items, 1)),
            task.user_ids,
            task.item_ids,
            counts=Counts(np.diff(own.indptr).astype(np.int64), by_item),
            item_prior=prior,
            fitter=describe(self),
            history=learned.history,
            threshold=task.threshold,
        )
        extras = {"weights": weights, **walk_arrays(walk, starts)}
        return pack(replace(with_prior(store, 1.0), extras=extras), task.seen)

    @classmethod
    def _from_store(cls, store: FactorStore, own: OwnClasses = IMPORTED) -> Self:
        name, options = store.fitter["name"], dict(store.fitter["options"])
        if name != cls.__name__:
            raise ValueError(
                f"the store is of {name}, not {cls.__name__}; mfrank.load loads any model"
            )
        known = {kind.__name__: kind for kind in (cls, GBN, GBP, GFN, SquareLoss)}
        try:
            options["backend"] = runnable(options["backend"])
            model: Self = restore({"name": name, "options": options}, known)
            model._adopt(store)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the {name} saved with the store is damaged: {error}") from error
        return model
