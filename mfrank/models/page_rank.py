"""Supervised PageRank as an estimator: a walk on items, with weights learned from features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.amounts import check_above_zero, check_count, share
from mfrank.choices import check_choice
from mfrank.cores import check_threads
from mfrank.data.interactions import Interactions
from mfrank.models.factor_model import Callback
from mfrank.models.options import check_backend, runnable, warn_if_slow
from mfrank.models.page_rank_learning import Learned
from mfrank.models.page_rank_recommender import WalkRecommender, walk_arrays
from mfrank.models.page_rank_tasks import Task
from mfrank.options import Parameters, describe, restore
from mfrank.pagerank import GBN, GBP, GFN, Graphs, Problem, SquareLoss, Tuned
from mfrank.pagerank.next_clicks import Draw
from mfrank.pagerank.prior import with_prior
from mfrank.pagerank.problem import Accuracy
from mfrank.quadratic import Counts
from mfrank.retrieval.seen import pack
from mfrank.seeds import Seed, generator
from mfrank.store.factors import FactorStore

__all__ = ["SupervisedPageRank"]

Floats = NDArray[np.float64]
Method = GBN | GBP | GFN

# What ranked best on the validation parts of bench/pagerank_quality.py, all in all.
_DEFAULT_METHOD, _DEFAULT_LOSS = GBN(epsilon=1e-10, radius=3.0), SquareLoss(0.02)


@dataclass(eq=False)
class SupervisedPageRank(Parameters, WalkRecommender):
    """Ranks items by a random walk that restarts at what a user had last.

    The weights of the features of items and of moves between them, from which the walk's
    probabilities come, are learned from labelled queries (Bogolubsky et al. 2016): see :meth:`fit`.
    Scores are probabilities; a list has those of all items that are not filtered.

    Parameters
    ----------
    method : GBN, GBP, GFN or None, default GBN(epsilon=1e-10, radius=3)
        Of ``mfrank.pagerank``, how weights are learned. None leaves all of them at 1. The paper's
        radius of .99 leaves many weights too alike for one to lead.
    alpha : float, default 0.7
        Probability of a restart, in (0, 1). What comes next depends on where somebody is: .5, .7
        and .85 ranked best on three data sets (``bench/pagerank_quality.py``), where a ranking of
        the web takes .15 (Page et al. 1999).
    loss : SquareLoss, default SquareLoss(0.02)
        With one margin for all labels: a model with more of them could not be saved. A margin of 0
        ranked below weights of 1 on these data.
    accuracy : {"certificate", "theory"}, default "certificate"
        How iterations end while weights are learned; see :class:`mfrank.pagerank.Problem`.
    recent : int, default 10
        Most items of a user that a walk restarts at, the last by time.
    gap : float or None, default None
        > 0, longest rest between two items for the second to come next, in the unit of the
        timestamps. None: there is no limit.
    queries : int, default 200
        Most users to learn from, drawn from those there are; of graphs all queries are taken.
    candidates : int, default 100
        Items that such a user's next one is told from: those that the walk of weights 1 finds most
        likely.
    tolerance : float, default 1e-6
        > 0, largest sum of absolute errors of a walk's probabilities.
    random_state : int, numpy.random.Generator or None, default None
        Seed of the draw of users. The same seed gives the same bits, whatever ``n_threads``.
    n_threads : int, default 0
        For fits; 0 takes every core this process may use.
    backend : {"auto", "cpu", "reference", "cuda"}, default "auto"
        Where walks are iterated.

    Attributes
    ----------
    weights : float64, shape (m1 + m2,)
        phi, of the features of nodes and then of edges.
    item_prior : float64, shape (n_items,)
        Probabilities of the walk of someone of whom no item is known.
    store : FactorStore
        Has the prior, and among its extras the weights and the walk. It has no factors: they are
        one column of zeros, and ``item_biases`` the log of the prior, so a store that is served
        without its walk ranks by the prior. ``history`` has the loss after each step.

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
                f"{self.method!r}"
            )
        if not isinstance(self.loss, SquareLoss):
            raise TypeError(f"loss must be a mfrank.pagerank.SquareLoss, got {self.loss!r}")
        if not isinstance(self.loss.margin, int | float):
            raise ValueError(
                "loss must have one margin, a number; learn with mfrank.pagerank.Problem where "
                "pairs of labels have their own"
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

    def fit(
        self,
        data: Graphs | Interactions | Any,
        labels: Any = None,
        *,
        item_features: ArrayLike | None = None,
        callback: Callback | None = None,
        show_progress: bool = False,
    ) -> Self:
        """Learn the weights, and keep the walk that they make.

        Of interactions: a user's items by time are a session, each once, at its last time. The
        graph has edges both ways between each item and what came next, with the features of
        :func:`mfrank.pagerank.next_clicks.item_graph`. To learn, each user's last item is held out
        and the graph made without it. Up to ``queries`` users are drawn; each is a query that
        restarts at their last ``recent`` items, where the held-out item shall come before the
        ``candidates`` that the walk of weights 1 finds most likely and the user does not have. The
        walk that is kept is that of all interactions, at the weights learned.

        Of graphs: queries are the users, numbered as in the graphs, and pages the items. The
        walk that is kept is on all graphs laid over each other: an edge between two pages weighs
        the sum of what it weighs in the graphs. A query restarts at its seeds.

        Parameters
        ----------
        data : Interactions with timestamps, or Graphs
        labels : optional
            Of graphs: shape (n_nodes,), graded relevance, NaN where not judged; left out, the
            graphs' own. Of interactions: Interactions or scipy sparse, users x items, the items
            that come next (such as the valid part of a split), whose graph is then that of all
            ``data``; left out, each user's last item. Without a ``method`` they are of no use.
        item_features : shape (n_items, k), optional
            >= 0, of items of interactions.
        callback : function, optional
            Called after every step with its number from 0, its seconds, and the loss. A true
            result stops learning.
        show_progress : bool, default False
            Show steps and time left on stderr.

        Notes
        -----
        After KeyboardInterrupt the model has the best weights of the complete steps.

        Raises
        ------
        ValueError, TypeError
            Before any step: no timestamps, dislikes, nothing to learn from, labels or features
            that do not fit.
        """
        self.__post_init__()
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be a function or None, got {callback!r}")
        warn_if_slow(self.backend)
        if isinstance(data, Graphs):
            if item_features is not None:
                raise ValueError("item_features go with interactions; graphs have their own")
            task = Task.of_graphs(data, labels, learns=self.method is not None)
        else:
            task = self._task(Interactions.of(data), labels, item_features)
        learned = Learned(np.ones(sum(task.serving.n_features)), [])
        total = self._most_steps(task) if show_progress else None
        try:
            learned.take_up(self._steps(task.learning), callback, total)
        except KeyboardInterrupt:
            if learned.history:
                self._adopt(self._stored(task, learned))
            raise
        self._adopt(self._stored(task, learned))
        return self

    @property
    def weights(self) -> Floats:
        """phi, of the features of nodes and then of edges, float64."""
        return self.store.extras["weights"]

    @property
    def item_prior(self) -> Floats:
        """Probabilities of the walk of someone of whom no item is known, float64."""
        prior: Floats = np.asarray(self.store.item_prior)
        return prior

    def _task(self, data: Interactions, labels: Any, item_features: ArrayLike | None) -> Task:
        draw = Draw(self.queries, self.candidates, generator(self.random_state))
        return Task.of_interactions(
            data,
            labels,
            item_features,
            recent=self.recent,
            gap=self.gap,
            draw=None if self.method is None else draw,
            walker=self._walker(self.n_threads),
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
        prior = walk.prior(self._walker(self.n_threads))
        by_item = np.bincount(task.seen.indices, minlength=walk.n_items).astype(np.int64)
        store = FactorStore(
            np.zeros((len(task.user_ids), 1)),
            np.zeros((walk.n_items, 1)),
            task.user_ids,
            task.item_ids,
            counts=Counts(np.diff(task.seen.indptr).astype(np.int64), by_item),
            item_prior=prior,
            fitter=describe(self),
            history=learned.history,
            extras={"weights": weights, **walk_arrays(walk, starts)},
        )
        return pack(with_prior(store, 1.0), task.seen)

    @classmethod
    def _from_store(cls, store: FactorStore) -> Self:
        name, options = store.fitter["name"], dict(store.fitter["options"])
        if name != cls.__name__:
            raise ValueError(f"the store is of {name}, no {cls.__name__}; mfrank.load takes any")
        known = {kind.__name__: kind for kind in (cls, GBN, GBP, GFN, SquareLoss)}
        try:
            options["backend"] = runnable(options["backend"])
            model: Self = restore({"name": name, "options": options}, known)
            model._adopt(store)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the {name} saved with the store is damaged: {error}") from error
        return model
