"""The estimator of two-stage recommendation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Self, TypeVar, cast

from mfrank.arrays import (
    Seed,
    check_above_zero,
    check_at_least_zero,
    check_count,
    check_threads,
    generator,
    in_turn,
    shown,
    turn_of,
)
from mfrank.data import OnUnknown
from mfrank.errors import InputTypeError, InputValueError
from mfrank.files import Origin
from mfrank.models.factor_model import check_fitted_by, restoring
from mfrank.models.parameters import FitFacts, Parameters, describe, set_since
from mfrank.models.reranker import trees
from mfrank.models.reranker.features import GivenFeatures, names_of
from mfrank.models.reranker.pairs import CandidateRecall, HeldOutOfUsers, in_rows_of, training_pairs
from mfrank.models.reranker.second_fit import SecondFit
from mfrank.models.reranker.second_stage import Asking, Reordered, TreeExplanation
from mfrank.retrieval import (
    Answer,
    Fallback,
    Matrix,
    ModelState,
    NotFittedError,
    Raw,
    Recommender,
    Seen,
    given_id,
    given_ids,
    is_single,
    liked_ids,
)
from mfrank.steering import Steering
from mfrank.store import IMPORTED, FactorStore, History, OwnClasses

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _of_first_stage(method: _Method) -> _Method:
    """The method of a reranker's first stage."""

    @wraps(method)
    def passed_on(reranker: Reranker, *args: Any, **options: Any) -> Any:
        return getattr(reranker.model, method.__name__)(*args, **options)

    return cast(_Method, passed_on)


@dataclass(eq=False, repr=False)
class Reranker(Parameters, Recommender):
    """Re-rank a fitted model's best items by CatBoost's gradient-boosted trees.

    The first stage, any fitted model, recommends its best ``candidates`` items to each user. The
    second stage scores them by trees, which are trained on interactions held out of the first stage
    to maximize a ranking metric directly (StochasticRank). The features of the trees are computed
    from the factor store (:func:`mfrank.models.reranker.features.pair_features`) and, over a
    :class:`mfrank.Blend`, include each part's share of the score and its rank by it; the caller's
    own features of users and items add information that the first stage lacks.

    The second stage only reorders candidates. Held-out items outside the candidates, and users
    without a held-out candidate, are not used in training; :attr:`found` has their number. Behind
    the candidates, longer lists go on in the first stage's order: the score of such an item is that
    of the last candidate, less the difference of their scores in the first stage.

    New users are folded in, similar items and users found, and users and items removed by the first
    stage; an update updates it. The trees stay as they are until the next fit. It is saved and
    loaded as any model, by :func:`mfrank.load`, too. Load only folders from people you trust:
    CatBoost reads the trees, and forged bytes can crash the process, or worse.

    Parameters
    ----------
    model : Recommender
        The fitted first stage. For a store, pass ``Recommender.of(store)``. A first stage without
        factors, such as :class:`mfrank.ItemKNN`, provides only scores and ranks: the features
        ``cosine``, ``user_norm`` and ``item_norm`` carry no information.
    candidates : int, default 100
        Number of items per user to re-rank, >= 2; what comes after them in longer lists keeps the
        first stage's order.
    loss : str, default "StochasticRank:metric=NDCG;top=20"
        A ranking loss of CatBoost with its parameters. StochasticRank runs on one thread and its
        time grows with ``top``; "YetiRank" and especially "QueryRMSE" are faster.
    iterations : int, default 100
        Number of trees, >= 1.
    learning_rate : float, default 0.1
        Step size of the boosting, > 0.
    depth : int, default 6
        Depth of a tree, 1 to 16 (CatBoost's default).
    random_state : int, numpy.random.Generator or None, default None
        Seed of CatBoost. With catboost 1.2.10, the same seed gave the same bits on 1, 2 and 3
        threads; other versions or processors may differ.
    n_threads : int, default 0
        Threads of a fit; 0 uses every core.
    first_weight : float, default 0.0
        Weight of the first stage's scores beside those of the trees, >= 0. Above 0, both are in
        units of the list (less its mean, divided by its standard deviation). 0.5 is safer than 0
        where later use differs from what the trees were trained on.

    References
    ----------
    Ustimenko & Prokhorenkova 2020, *StochasticRank: Global Optimization of Scale-Free Discrete
    Functions*.
    """

    model: Recommender
    candidates: int = 100
    loss: str = "StochasticRank:metric=NDCG;top=20"
    iterations: int = 100
    learning_rate: float = 0.1
    depth: int = 6
    random_state: Seed = None
    n_threads: int = 0
    first_weight: float = 0.0
    _origin: Origin = field(default_factory=dict, init=False, repr=False)
    """See :mod:`mfrank.files.folder`; replaced, never edited but by a save."""

    def __post_init__(self) -> None:
        if not isinstance(self.model, Recommender):
            raise InputTypeError(
                "`model` must be a model of mfrank, such as mfrank.ALS, or Recommender.of(store); "
                f"got {shown(self.model)}"
            )
        if isinstance(self.model, Reranker):
            raise InputTypeError("`model` is a Reranker itself:", "pass its first stage, `model`")
        for name, least in (("candidates", 2), ("iterations", 1), ("depth", 1)):
            check_count(name, getattr(self, name), least)
        check_threads(self.n_threads)
        if not isinstance(self.loss, str):
            raise InputTypeError(f"`loss` must be a str such as 'YetiRank', got {shown(self.loss)}")
        check_above_zero(learning_rate=self.learning_rate)
        check_at_least_zero(first_weight=self.first_weight)
        generator(self.random_state)

    @in_turn
    def fit(
        self,
        train: Any,
        valid: Any,
        *,
        user_features: Any = None,
        item_features: Any = None,
    ) -> Self:
        """Train the trees; the first stage does not change.

        Parameters
        ----------
        train : Interactions, scipy sparse matrix (users x items), or DataFrame
            The training data of the first stage; these items are not candidates.
        valid : Interactions, scipy sparse matrix, or DataFrame
            Interactions held out of the first stage. Entries above 0 that are not in ``train`` are
            relevant, with equal weight; users unknown to the model are skipped. Interactions and
            DataFrames are matched by id, a sparse matrix by row.
        user_features : real numbers, shape (n_users, any), or table, optional
            Additional features, with a row per user of the model; NaN if unknown. Rows of a
            DataFrame or file are matched by id, as in :meth:`mfrank.ALS.fit`; the features of users
            without a row are unknown.
        item_features : real numbers, shape (n_items, any), or table, optional
            The same for the items.

        Returns
        -------
        self

        Raises
        ------
        ModuleNotFoundError
            The package catboost is not installed (``pip install mfrank[rerank]``).
        ValueError, TypeError
            The model is not fitted, ``train`` or ``valid`` does not match it, no user is left to
            learn from, or CatBoost refuses an option.
        """
        self.__post_init__()
        store = self.model.store
        given = GivenFeatures.of(user_features, item_features, store)
        seed = int(generator(self.random_state).integers(2**31))
        growth = trees.Growth(
            self.loss, self.iterations, self.learning_rate, self.depth, seed, self.n_threads
        )
        trees.check(growth)
        seen = in_rows_of(store, train, "train")
        held_out = HeldOutOfUsers.of(valid, seen, store)
        pairs = training_pairs(
            self.model, self.candidates, seen, held_out, given, n_threads=self.n_threads
        )
        grown = trees.grow(
            growth, pairs.features, pairs.relevant, pairs.users, names_of(store, given)
        )
        cbm = trees.to_bytes(grown)
        self._state = SecondFit(cbm, grown, given, pairs.found, self._described())
        self._detach_from_folders()
        return self

    @property
    def found(self) -> CandidateRecall:
        """Number of held-out items of the fit among the candidates, and related counts."""
        return self._fitted().found

    @property
    def seen(self) -> Seen | None:
        """Seen items of each user in the first stage, which lists leave out; None if unknown."""
        return self.model.seen

    def over(self, model: Recommender) -> Self:
        """Return a copy with the same trees over another model, such as one fitted to all data.

        Features are invariant to a rotation of the factors, so trees trained on a fit to part of
        the data also apply to a fit to all data with the same objective and width. If the caller
        has features of users or items, the ids of that side must be the same in both models.

        Raises
        ------
        ValueError, TypeError
            ``model`` is not a fitted recommender, its ids differ from those of the features, or it
            is a blend of other parts.
        """
        moved = copy(self)
        moved.model = model
        moved.__post_init__()
        self._fitted().check(model.store)
        return moved

    @property
    def folds_in(self) -> bool:  # type: ignore[override]
        """Whether users who are not in the fit get lists: if the first stage can fold them in."""
        return self.model.folds_in

    def recommend(
        self,
        userid: Raw,
        user_items: Matrix | None = None,
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: Any = None,
        recalculate_user: bool = False,
        items: Any = None,
        *,
        by_row: bool = False,
        on_unknown: OnUnknown = "error",
        fallback: Fallback = "none",
        n_threads: int = 0,
        steer: Steering | None = None,
    ) -> Answer:
        """Best items of one or many users, chosen by the first stage and ordered by the second.

        Parameters, filters and padding are as in :meth:`mfrank.Recommender.recommend`. Lists are
        sorted by the trees' scores, ties in the order of the first stage; behind the candidates
        they go on in its order. The popular items of ``fallback`` come last, in the order and with
        the scores of the first stage. Memory grows with users times candidates, or times ``N``.

        Returns
        -------
        ids, scores : arrays of shape (N,) for one user, (users, N) for many
            Scores of the trees, float64, comparable only within a list.

        Raises
        ------
        ValueError, TypeError
            There is a ``steer``, or as in the first stage's ``recommend``.
        """
        userid, (fitted, model) = given_ids(userid, "userid"), self._ready(N, steer)

        def first_stage(n: int, fallback: Fallback) -> Answer:
            return model.recommend(
                userid,
                user_items,
                n,
                filter_already_liked_items,
                filter_items,
                recalculate_user,
                items,
                by_row=by_row,
                on_unknown=on_unknown,
                fallback=fallback,
                n_threads=n_threads,
            )

        def asking() -> Asking:
            if recalculate_user and user_items is not None:
                return Asking.folded(model, userid, user_items, by_row)
            return Asking.known(model, userid, by_row)

        lists = Reordered(fitted, model, by_row, n_threads).of(first_stage, asking, N, fallback)
        return Answer(lists.ids[0], lists.scores[0]).like(lists) if is_single(userid) else lists

    def recommend_from_items(
        self,
        itemids: Any,
        N: int = 10,
        *,
        values: Any = None,
        filter_items: Any = None,
        items: Any = None,
        by_row: bool = False,
        on_unknown: OnUnknown = "error",
        fallback: Fallback = "none",
        n_threads: int = 0,
        steer: Steering | None = None,
    ) -> Answer:
        """Recommend items to an unknown user, from a list of liked items.

        As :meth:`mfrank.Recommender.recommend_from_items` of the first stage, in the trees' order;
        features of the user are unknown to the trees. Raises as :meth:`recommend`.
        """
        fitted, model = self._ready(N, steer)
        liked = liked_ids(itemids, values, reads_order=model._reads_order)

        def first_stage(n: int, fallback: Fallback) -> Answer:
            options: dict[str, Any] = {"filter_items": filter_items, "items": items}
            options |= {"values": values, "by_row": by_row, "on_unknown": on_unknown}
            options |= {"fallback": fallback, "n_threads": n_threads}
            return model.recommend_from_items(liked, n, **options)

        def asking() -> Asking:
            return Asking.somebody(model, liked, values, by_row, on_unknown)

        lists = Reordered(fitted, model, by_row, n_threads).of(first_stage, asking, N, fallback)
        return Answer(lists.ids[0], lists.scores[0]).like(lists)

    def explain(
        self,
        userid: Raw,
        user_items: Matrix | None,
        itemid: Raw,
        N: int = 10,
        *,
        by_row: bool = False,
    ) -> TreeExplanation:
        """Decompose the trees' score of a candidate into what each feature adds.

        What the user's items add to the first stage's score is explained by ``model.explain``.

        Parameters are those of :meth:`mfrank.ALS.explain`; the ``N`` features with the largest
        contributions are returned.

        Raises
        ------
        ValueError, TypeError
            The item is not among the user's candidates, or as in :meth:`recommend`.
        """
        check_count("N", N, 1)
        userid, itemid = given_id(userid, "userid"), given_id(itemid, "itemid")
        fitted, model = self._ready(1, None)
        return Reordered(fitted, model, by_row, 1).explained(userid, user_items, itemid, N)

    def score(self, *args: Any, **options: Any) -> Any:
        """Raise TypeError: the score of an item depends on the other candidates."""
        raise InputTypeError(
            "trees score candidates, each beside the others:",
            "use recommend, explain, or the score of the first stage, model",
        )

    def recommend_users(self, *args: Any, **options: Any) -> Answer:
        """Raise TypeError: the trees' scores of different users cannot be compared."""
        raise InputTypeError(
            "trees rank items for a user, and no users for an item:",
            "use recommend_users of the first stage, model",
        )

    similar_items = _of_first_stage(Recommender.similar_items)
    similar_users = _of_first_stage(Recommender.similar_users)
    recalculate_user = _of_first_stage(Recommender.recalculate_user)
    recalculate_item = _of_first_stage(Recommender.recalculate_item)

    def partial_fit(self, *args: Any, **options: Any) -> Self:
        """Update the first stage with new interactions; the trees stay until the next fit.

        Arguments and errors are those of the first stage's ``partial_fit``. ``model`` is then
        an updated copy: the model that was passed stays as it is. Features of new users and items,
        if ``fit`` had any, are unknown to the trees.
        """
        return self._changed(lambda model: model.partial_fit(*args, **options))

    def remove(
        self, users: Raw | None = None, items: Raw | None = None, *, by_row: bool = False
    ) -> Self:
        """Remove users and items from a copy of the first stage, and their features.

        See :meth:`mfrank.Recommender.remove`. The trees stay as they are.
        """
        return self._changed(lambda model: model.remove(users, items, by_row=by_row))

    def leave_out(self, user_items: Matrix | None) -> Self:
        """Let lists of a copy of the first stage leave out only these items.

        See :meth:`mfrank.Recommender.leave_out`.
        """
        return self._changed(lambda model: model.leave_out(user_items))

    @classmethod
    def _from_store(cls, store: FactorStore, own: OwnClasses = IMPORTED) -> Self:
        check_fitted_by(cls, store)
        model, options, fitted = SecondFit.parted(store, own)
        with restoring():
            loaded = cls(model, **options)
        loaded._state = fitted._replace(fitter=loaded._described())
        loaded._origin = store.origin.copy()
        return loaded

    def _described(self) -> dict[str, Any]:
        described = describe(self)
        del described["options"]["model"]
        return described

    def _fitted(self) -> SecondFit:
        if not hasattr(self, "_state"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit() first")
        return self._state

    def _ready(self, n: int, steer: Steering | None) -> tuple[SecondFit, Recommender]:
        """The fit and a snapshot of the first stage, for lists of length ``n``."""
        if steer is not None:
            raise InputValueError(
                "`steer` has no say in the order that trees make",
                "leave it out, or steer the lists of the first stage, model",
            )
        check_count("N", n, 1)
        return self._both()

    def _both(self) -> tuple[SecondFit, Recommender]:
        """The fit and a snapshot of the first stage, whose users and items it has features of."""
        fitted, model = self._fitted(), self.model._snapshot()
        try:
            fitted.check(model.store)
        except InputValueError:  # unless another thread was about to change both
            with turn_of(self, "change"):
                fitted, model = self._fitted(), self.model._snapshot()
            fitted.check(model.store)
        return fitted, model

    @in_turn
    def _changed(self, change: Callable[[Any], object]) -> Self:
        """Change a copy of the first stage, and hold it with the features of its rows."""
        fitted, model = self._both()
        change(model)
        if not model._is_as(self.model):
            self._state = fitted._replace(given=fitted.given.aligned(model.store))
            self.model = model
        return self

    def _now(self) -> ModelState:
        """The state of the first stage, with the trees in its store."""
        fitted, held = self._fitted(), self.model._now()
        last = vars(held).get("_reranked")  # there, so that it ends with what it is made of
        if last is None or last[0] is not fitted:
            last = fitted, ModelState(fitted.beside(held.store), held.seen)
            vars(held)["_reranked"] = last
        state: ModelState = last[1]
        return state

    @property
    def _keeps_values(self) -> bool:
        return bool(getattr(self.model, "_keeps_values", False))

    def _tell_set_since(self, fitter: Mapping[str, Any]) -> None:
        """Warn of options of the trees; ``fitter`` has those of the first stage, too."""
        super()._tell_set_since(self._fitted().fitter)

    def _snapshot(self) -> Self:
        taken = copy(self)
        taken._state, taken.model = self._both()
        return taken

    def _is_as(self, snapshot: Recommender) -> bool:
        assert isinstance(snapshot, Reranker)
        return self._fitted() is snapshot._fitted() and self.model._is_as(snapshot.model)

    def _in_order(self, row: int) -> Any:
        return self.model._in_order(row)

    @property
    def _updates(self) -> History:
        return self.model._updates

    @property
    def _reads_order(self) -> bool:
        return self.model._reads_order

    def _fit_told(self) -> FitFacts | None:
        if not hasattr(self, "_state"):
            return None
        changed = set_since(self, self._state.fitter)
        other = f" with other {', '.join(changed)}" if changed else ""
        return FitFacts(f"{self._state.found.users_trained_on:,} users{other}")
