"""Supervised PageRank as an estimator: a walk on items, with learned feature weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import (
    Seed,
    changed,
    check_above_zero,
    check_choice,
    check_count,
    check_threads,
    generator,
    in_turn,
    share,
    shown,
    tell_idle,
)
from mfrank.backends import choose
from mfrank.data import Interactions
from mfrank.errors import InputTypeError, InputValueError, unreadable
from mfrank.models.factor_model import Callback, after_epoch
from mfrank.models.options import check_backend, runnable, warn_if_slow
from mfrank.models.page_rank_fit import Floats, Learned, Task
from mfrank.models.parameters import FitFacts, Parameters, describe, fit_of, restore
from mfrank.models.value_notes import tell_of_liked, tell_uncut, tell_unread_values
from mfrank.pagerank import (
    GBN,
    GBP,
    GFN,
    Accuracy,
    Draw,
    Graphs,
    ItemWalk,
    LearnerStep,
    Path,
    Problem,
    SquareLoss,
    Walker,
    heaviest_paths,
    recencies,
)
from mfrank.retrieval import (
    LikedItems,
    Matrix,
    ModelState,
    OwnRows,
    Raw,
    Rows,
    RowScorer,
    given_id,
    of_one_state,
    sides,
)
from mfrank.store import IMPORTED, FactorStore, OwnClasses
from mfrank.store import contents as extra_rows

Method = GBN | GBP | GFN

# Best overall on the validation splits of bench/pagerank_quality.py.
_DEFAULT_METHOD, _DEFAULT_LOSS = GBN(epsilon=1e-10, radius=3.0), SquareLoss(0.02)


class _FittedWalk(NamedTuple):
    """A walk, the users' restart probabilities, shape (n_users, n_items), and the fit's options."""

    walk: ItemWalk
    starts: sp.csr_array
    alpha: float
    recent: int
    tolerance: float


class WalkExplanation(NamedTuple):
    """Explanation of a recommended item.

    Attributes
    ----------
    score : float
        Stationary probability of the item.
    paths : list of Path
        ``(items, mass)``, largest mass first. A path leads from a restart item of the walk to this
        item, with at most two items between them.
    """

    score: float
    paths: list[Path]


@dataclass(eq=False, repr=False)
class SupervisedPageRank(Parameters, RowScorer):
    """Rank items by a random walk that restarts at the user's most recent items.

    The walk's transition and restart probabilities are proportional to weighted sums of features
    of edges and items. The weights are learned from labeled queries (Bogolubsky et al. 2016); see
    :meth:`fit`. Scores are the walk's stationary probabilities; an item that the walk does not
    reach has score 0 and is in no list.

    With ``recalculate_user``, a walk restarts at the items of ``user_items``: the last ``recent``
    ones for Interactions with timestamps, otherwise all, without a recency weight. A user without
    items gets the item prior. Similar items are the most likely items of a walk that restarts at
    the item.

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
    backend : {"auto", "cpu", "numpy", "reference", "cuda"}, default "auto"
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
            raise InputTypeError(
                "`method` must be one of mfrank.pagerank's, such as GBN(), or None; got "
                f"{shown(self.method)}"
            )
        if not isinstance(self.loss, SquareLoss):
            raise InputTypeError(
                f"`loss` must be a mfrank.pagerank.SquareLoss, got {shown(self.loss)}"
            )
        if not isinstance(self.loss.margin, int | float):
            raise InputValueError(
                "`loss` must have one margin, a number",
                "for a margin per pair of labels, learn with mfrank.pagerank.Problem",
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
        if self.method is None:
            idle = changed(self, "accuracy", "queries", "candidates")
            if describe(self.loss) != describe(_DEFAULT_LOSS):
                idle.append("loss")
            for name in idle:
                tell_idle(
                    f"`{name}` has no effect, as nothing is learned with `method=None`:",
                    "leave it out, or name a method",
                )
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
        after = after_epoch(callback)
        warn_if_slow(self.backend)
        if isinstance(data, Graphs):
            if item_features is not None:
                raise InputValueError(
                    "`item_features` go with interactions", "graphs have their own"
                )
            for name in changed(self, "gap", "queries", "candidates"):
                tell_idle(
                    f"`{name}` has no effect on graphs, whose queries are all there:",
                    "leave it out, or pass interactions",
                )
            task = Task.of_graphs(data, labels, learns=self.method is not None)
        else:
            interactions = Interactions.of(data)
            task = self._task(interactions, labels, item_features)
            tell_unread_values(type(self).__name__, interactions)
            if labels is not None:
                tell_uncut("labels", labels, interactions, "count as relevant")
        learned = Learned(np.ones(sum(task.serving.n_features)), [])
        try:
            learned.take_up(
                self._steps(task.learning),
                after,
                self._most_steps(task),
                show_progress=show_progress and self.method is not None,
            )
        except KeyboardInterrupt:
            if learned.history:
                self._adopt_learned(task, learned)
            raise
        self._adopt_learned(task, learned)
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

    @of_one_state
    def explain(
        self,
        userid: Raw,
        user_items: Matrix | None,
        itemid: Raw,
        N: int = 10,
        *,
        by_row: bool = False,
    ) -> WalkExplanation:
        """The paths of up to three steps by which a user's walk reaches an item.

        The masses of all paths, of any length, sum to the item's probability
        (:func:`mfrank.pagerank.item_walk.heaviest_paths`).

        Parameters are those of :meth:`mfrank.ALS.explain`: ``user_items`` are the restart items of
        the user, and at most ``N`` paths are returned.

        Raises
        ------
        ValueError, TypeError
            ``userid`` or ``itemid`` is not one id, or is unknown; or as in :meth:`recommend`.
        """
        check_count("N", N, 1)
        userid, itemid = given_id(userid, "userid"), given_id(itemid, "itemid")
        both, walk = sides(self.store, by_row=by_row), self._walk
        item = int(both[1].rows(itemid, "itemid")[0])
        start = self._row_of(both[0], userid, user_items, both[1])
        fitted = self._fitted()
        values = walk.rank(start, fitted.tolerance, self._walker(fitted.alpha, self.n_threads))[0]
        if not start.nnz:  # a user without items: as in ItemWalk.rank
            start = sp.csr_array(walk.bases[None] / walk.bases.sum())
        paths = heaviest_paths(walk, start, values, item, fitted.alpha, N)
        named = [
            Path(tuple(both[1].answer(np.array(path.items, np.int32)).tolist()), path.mass)
            for path in paths
        ]
        return WalkExplanation(float(values[item]), named)

    def _fit_told(self) -> FitFacts | None:
        return fit_of(self, self._held)

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

    def _steps(self, graphs: Graphs | None) -> Iterator[LearnerStep]:
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

    def _adopt_learned(self, task: Task, learned: Learned) -> None:
        walker = self._walker(self.alpha, self.n_threads)
        self._adopt(task.store(learned.weights, learned.history, walker, describe(self)))

    @classmethod
    def _from_store(cls, store: FactorStore, own: OwnClasses = IMPORTED) -> Self:
        name, options = store.fitter["name"], dict(store.fitter["options"])
        if name != cls.__name__:
            raise InputValueError(
                f"the store is of {name}, not {cls.__name__}", "mfrank.load loads any model"
            )
        known = {kind.__name__: kind for kind in (cls, GBN, GBP, GFN, SquareLoss)}
        try:
            options["backend"] = runnable(options["backend"])
            model: Self = restore({"name": name, "options": options}, known)
            model._adopt(store)
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(f"the {name} saved with the store", "is damaged", error) from error
        return model

    def _parts_of(self, store: FactorStore) -> _FittedWalk:
        walk = ItemWalk.from_arrays(dict(store.extras))
        if walk.n_items != store.n_items:
            raise ValueError(f"the walk is of {walk.n_items} items, the store of {store.n_items}")
        starts = extra_rows.unpack(store.extras, "starts", (store.n_users, store.n_items))
        options = store.fitter["options"]
        return _FittedWalk(walk, starts, options["alpha"], options["recent"], options["tolerance"])

    def _fitted(self) -> _FittedWalk:
        parts: _FittedWalk = self._now().parts
        return parts

    @property
    def _walk(self) -> ItemWalk:
        return self._fitted().walk

    def _rows_of(self, users: NDArray[np.int64]) -> sp.csr_array:
        """Restart probabilities of users of the fit, shape (len(users), n_items)."""
        return extra_rows.pick(self._fitted().starts, users, "starts")

    def _rows_given(self, own: OwnRows) -> sp.csr_array:
        data = own.matrix
        if isinstance(data, Interactions) and data.timestamps is not None:
            recent = recencies(data, self._fitted().recent)
            timed = replace(data, user_items=recent, timestamps=None, seen_only=None)
            return self._walk.starts(replace(own, matrix=timed).rows)
        rows = own.rows
        ones = (rows.data != 0).astype(np.float64)
        given = sp.csr_array((ones, rows.indices, rows.indptr), rows.shape, copy=True)
        given.eliminate_zeros()  # what is only seen
        return self._walk.starts(given)

    def _somebody(self, held: ModelState, own: LikedItems, *, has_values: bool) -> sp.csr_array:
        tell_of_liked(self, own.values, held.store.threshold, given=has_values)
        rows: sp.csr_array = super()._somebody(held, own, has_values=has_values)
        return rows

    def _scores_of(self, rows: sp.csr_array, n_threads: int) -> NDArray[Any]:
        fitted = self._fitted()
        walker = self._walker(fitted.alpha, n_threads)
        return fitted.walk.rank(rows, fitted.tolerance, walker)

    def _nothing_in(self, rows: sp.csr_array, scores: NDArray[Any]) -> NDArray[np.bool_]:
        return np.zeros(len(scores), dtype=bool)  # without items, the prior ranks

    def _scores_near(self, items: Rows, n_threads: int) -> NDArray[Any]:
        one_each = np.ones(len(items)), items, np.arange(len(items) + 1)
        starts = sp.csr_array(one_each, (len(items), self._walk.n_items))
        scores = self._scores_of(starts, n_threads)
        scores[scores == 0] = -np.inf  # which the walk does not reach
        return scores

    def _walker(self, alpha: float, n_threads: int) -> Walker:
        return Walker(alpha, choose(self.backend), n_threads)
