"""The estimator of two-stage recommendation."""

from __future__ import annotations

import os
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.amounts import check_above_zero, check_count
from mfrank.cores import check_threads
from mfrank.options import Parameters, describe
from mfrank.reranking import saving, trees
from mfrank.reranking.features import FEATURES, Askers, FirstLists
from mfrank.reranking.given import GivenFeatures
from mfrank.reranking.held_out import Found, HeldOut, in_rows_of
from mfrank.reranking.pairs import blocks, described, training_pairs
from mfrank.retrieval.lists import Answer
from mfrank.retrieval.recommender import NotFittedError, Recommender
from mfrank.retrieval.seen import Seen
from mfrank.retrieval.sides import Matrix, Raw, given_rows, is_single, sides
from mfrank.seeds import Seed, generator

__all__ = ["Reranker"]


class _Fitted(NamedTuple):
    trees: Any
    given: GivenFeatures
    found: Found


@dataclass(eq=False)
class Reranker(Parameters):
    """A fitted model's best items, put in a new order by CatBoost's trees.

    The first stage, any model of mfrank, gives each user its best ``candidates``. The second
    scores these by gradient-boosted trees, grown on interactions held out of the first stage to
    maximise a ranking metric itself (StochasticRank). It sees what the factors' store says of
    user and item (:func:`mfrank.reranking.features.pair_features`), and the features of users and
    items that the caller has: they are where it can know more than the first stage.

    Nothing is added to a user's candidates: held-out items that are not among them are no part of
    the training, and users without any are left out of it. Recommending cannot find such items
    either, so an evaluation counts them as missed; :attr:`found` tells how many there are.

    Parameters
    ----------
    model : Recommender
        The first stage, fitted. ``Recommender.of(store)`` serves a store.
    candidates : int, default 100
        Items of a user to be put in order, >= 2; no list can be longer.
    loss : str, default "StochasticRank:metric=NDCG;top=20"
        A ranking loss of CatBoost with its parameters. StochasticRank works on one thread and its
        time grows with ``top``; "YetiRank" and above all "QueryRMSE" are faster.
    iterations : int, default 100
        Trees, >= 1.
    learning_rate : float, default 0.1
        > 0.
    depth : int, default 6
        Of a tree, 1 to 16 (CatBoost's default).
    random_state : int, numpy.random.Generator or None, default None
        Seed of CatBoost. With catboost 1.2.10 the same seed gave the same scores, bit by bit, on
        1, 2 and 3 threads. That is CatBoost's doing: other versions or processors may differ.
    n_threads : int, default 0
        Of a fit; 0 takes every core.

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

    def __post_init__(self) -> None:
        if not isinstance(self.model, Recommender):
            raise TypeError(
                "model must be a model of mfrank, such as mfrank.ALS, or Recommender.of(store); "
                f"got {self.model!r}"
            )
        for name, least in (("candidates", 2), ("iterations", 1), ("depth", 1)):
            check_count(name, getattr(self, name), least)
        check_threads(self.n_threads)
        if not isinstance(self.loss, str):
            raise TypeError(f"loss must be a text such as 'YetiRank', got {self.loss!r}")
        check_above_zero(learning_rate=self.learning_rate)
        generator(self.random_state)

    def fit(
        self,
        train: Any,
        valid: Any,
        *,
        user_features: ArrayLike | None = None,
        item_features: ArrayLike | None = None,
    ) -> Self:
        """Grow the trees; the first stage stays as it is.

        Parameters
        ----------
        train : Interactions, scipy sparse (users x items), or DataFrame
            What the first stage was fitted on: no candidates.
        valid : Interactions, scipy sparse, or DataFrame
            Interactions that the first stage has not seen. What is above 0 and not in ``train`` is
            relevant, all of it equally. Both are read by their ids, a sparse matrix by its rows.
            Users that the model does not know are left out.
        user_features : real numbers, shape (n_users, any), optional
            Further features, a row for each user of the model; NaN where unknown.
        item_features : real numbers, shape (n_items, any), optional
            The same of items.

        Returns
        -------
        self

        Raises
        ------
        ModuleNotFoundError
            Without the package catboost (``pip install mfrank[rerank]``).
        ValueError, TypeError
            Before any work: the model is not fitted, ``train`` or ``valid`` do not belong to it,
            no user is left to learn from, CatBoost refuses an option.
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
        held_out = HeldOut.of(valid, seen, store)
        pairs = training_pairs(
            self.model, self.candidates, seen, held_out, given, n_threads=self.n_threads
        )
        grown = trees.grow(
            growth, pairs.features, pairs.relevant, pairs.users, [*FEATURES, *given.names]
        )
        self._adopt(_Fitted(grown, given, pairs.found))
        return self

    @property
    def found(self) -> Found:
        """How many of the held-out items of the fit were among the candidates."""
        return self._fitted().found

    @property
    def seen(self) -> Seen | None:
        """Which items each user has, as the first stage knows them: what lists leave out."""
        return self.model.seen

    def over(self, model: Recommender) -> Self:
        """The same trees over another first stage, such as one refitted on all of the data.

        The features do not depend on how factors are rotated, so trees that were grown over a fit
        on a part serve a fit of the same objective and width on the whole. Users and items must be
        the same where there are features of theirs.
        """
        moved = copy(self)
        moved.model = model
        moved.__post_init__()
        self._fitted().given.check(model.store)
        return moved

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
        n_threads: int = 0,
    ) -> Answer:
        """Best items of one or many users, chosen by the first stage, ordered by the second.

        Parameters and errors are those of :meth:`mfrank.Recommender.recommend`, and so is the
        contract of a list, but for its order: by the trees' scores, ties in the first stage's
        order. Memory grows with users times candidates.

        Returns
        -------
        ids, scores : arrays of shape (N,) for one user, (users, N) for many
            Scores are the trees', float64; they compare within one list only.

        Raises
        ------
        ValueError
            ``N`` exceeds ``candidates``; or as the first stage.
        """
        fitted, store = self._fitted(), self.model.store.on_host()
        check_count("N", N, 1)
        if self.candidates < N:
            raise ValueError(
                f"N must be at most the {self.candidates} candidates of the first stage, got {N}: "
                "fit with more candidates"
            )
        fitted.given.check(store)
        ids, scores = self.model.recommend(
            userid,
            user_items,
            self.candidates,
            filter_already_liked_items,
            filter_items,
            recalculate_user,
            items,
            by_row=by_row,
            n_threads=n_threads,
        )
        many = np.atleast_2d(ids)
        lists = self._by_row(many, np.atleast_2d(scores), by_row)
        folded = user_items if recalculate_user else None
        askers, rows = self._askers(userid, folded, by_row, fitted.given)
        new = np.full(lists.scores.shape, np.nan)
        for block in blocks(len(many), self.candidates):
            part, some = FirstLists(*(x[block] for x in lists)), Askers(*(x[block] for x in askers))
            own = None if rows is None else rows[block]
            features = described(store, some, part, own, fitted.given)
            if len(features):
                new[block][part.pairs] = trees.scores(fitted.trees, features, n_threads)
        order = np.argsort(-new, axis=1, kind="stable")[:, :N]  # NaN, an ended list, comes last
        answer = np.take_along_axis(many, order, axis=1), np.take_along_axis(new, order, axis=1)
        return (answer[0][0], answer[1][0]) if is_single(userid) else answer

    def save(self, folder: str | os.PathLike[str], *, with_seen: bool = True) -> Path:
        """Save both stages; nothing is pickled.

        Whatever happens, the folder holds either what was saved before or this. The trees are
        kept as CatBoost's own model file (cbm). ``with_seen`` as in
        :meth:`mfrank.Recommender.save`.

        Raises
        ------
        ValueError
            Before anything is written: the folder holds anything but a saved Reranker, or
            :meth:`load` would refuse this one, whose options were changed to none.
        OSError
            If writing fails; what was saved before is still there.
        """
        self.__post_init__()
        grown, given, found = self._fitted()
        second = saving.SecondStage(trees.to_bytes(grown), given, found)
        options = {k: v for k, v in describe(self)["options"].items() if k != "model"}
        return saving.save(Path(folder), self.model, options, second, with_seen=with_seen)

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], *, mmap: bool = False, verify: bool = False
    ) -> Self:
        """Load what :meth:`save` saved; see :meth:`mfrank.FactorStore.load`.

        Load only folders that you trust. The trees are read by CatBoost, which damaged bytes can
        crash, or worse. They are compared with their checksum in any case, ``verify`` or not, but
        who forges a folder forges the checksum too.

        Raises
        ------
        FileNotFoundError, ValueError
            There is no such folder; or it holds something else, or is damaged.
        ModuleNotFoundError
            Without the package catboost.
        """
        model, options, second = saving.load(Path(folder), mmap=mmap, verify=verify)
        try:
            loaded = cls(model, **options)
            grown = trees.from_bytes(second.cbm, [*FEATURES, *second.given.names])
        except (TypeError, ValueError) as error:
            raise ValueError(f"{folder} is damaged: {error}") from error
        loaded._adopt(_Fitted(grown, second.given, second.found))
        return loaded

    def _adopt(self, fitted: _Fitted) -> None:
        self._state = fitted

    def _fitted(self) -> _Fitted:
        if not hasattr(self, "_state"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit() first")
        return self._state

    def _by_row(self, ids: NDArray[Any], scores: NDArray[Any], by_row: bool) -> FirstLists:
        """The first stage's answer in rows of items."""
        listed = ~np.isnan(scores)
        rows = np.full(ids.shape, -1, dtype=np.int64)
        if listed.any():
            rows[listed] = sides(self.model.store, by_row=by_row)[1].rows(ids[listed], "items")
        return FirstLists(rows, scores)

    def _askers(
        self, userid: Raw, folded: Matrix | None, by_row: bool, given: GivenFeatures
    ) -> tuple[Askers, NDArray[np.int64] | None]:
        """Who asks: as the model knows them or, folded in, by their rows; and their own rows."""
        store = self.model.store.on_host()
        users, items = sides(store, by_row=by_row)
        if folded is None:
            rows = users.rows(userid, "userid")
            return Askers(store.user_factors[rows], store.counts.users[rows]), rows
        factors = np.atleast_2d(self.model.recalculate_user(userid, folded, by_row=by_row))
        has = given_rows(folded, userid, users, items, "user_items")
        own = None if given.users is None else users.rows(userid, "userid")
        return Askers(factors, np.diff(has.indptr).astype(np.int64)), own
