"""The trees' scores of the first stage's lists, and what the features add to a score."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.backends import choose
from mfrank.errors import InputValueError
from mfrank.models.reranker import trees
from mfrank.models.reranker.features import (
    IN_LIST,
    FirstLists,
    GivenFeatures,
    ListedUsers,
    in_list,
    names_of,
)
from mfrank.models.reranker.pairs import blocks, described, known_users
from mfrank.models.reranker.second_fit import SecondFit
from mfrank.models.value_notes import values_told
from mfrank.retrieval import (
    Answer,
    Fallback,
    KnownQueries,
    LikedItems,
    ListCall,
    ListOptions,
    Matrix,
    OwnRows,
    Raw,
    Recommender,
    RowScorer,
    given_ids,
    given_rows,
    sides,
    unannounced,
)


class TreeExplanation(NamedTuple):
    """Explanation of a re-ranked item: score = sum of contributions + baseline.

    Attributes
    ----------
    score : float
    contributions : list of (feature, float)
        What each feature adds (its SHAP value), largest first.
    baseline : float
        The mean score of the training pairs.
    """

    score: float
    contributions: list[tuple[str, float]]
    baseline: float


class Asking(NamedTuple):
    """The users of a call, U of them.

    Attributes
    ----------
    users : ListedUsers
    rows : int64, shape (U,)
        Their rows in the model; -1 is unknown.
    """

    users: ListedUsers
    rows: NDArray[np.int64]

    @classmethod
    def known(cls, model: Recommender, userid: Raw, by_row: bool) -> Asking:
        """Users of the fit, by their factors; unknown ones have no candidates."""
        store = model.store.on_host()
        rows = sides(store, by_row=by_row)[0].rows(userid, "userid", missing=0)
        return cls(known_users(model, rows), rows)

    @classmethod
    def folded(cls, model: Recommender, userid: Raw, matrix: Matrix, by_row: bool) -> Asking:
        """Users as they are folded in from their rows of ``user_items``."""
        held = model._now()
        users, items = sides(held.on_host(), by_row=by_row)
        rows = users.rows(userid, "userid", missing=-1)
        counts = np.diff(given_rows(matrix, userid, users, items, "user_items").indptr)
        own = OwnRows(KnownQueries.to_solve(users, userid), matrix, items, None)
        options = ListOptions(1, None, None, 0, choose(model.backend), "error")
        queries = None
        if not isinstance(model, RowScorer):
            queries = model._queries_of(ListCall(held, own, options, None, None, True))
        return cls(_folded(model, queries, counts.astype(np.int64)), rows)

    @classmethod
    def somebody(
        cls, model: Recommender, itemids: Any, values: Any, by_row: bool, on_unknown: str
    ) -> Asking:
        """Somebody new who has these items."""
        held = model._now()
        items = sides(held.on_host(), by_row=by_row)[1]
        missing = None if on_unknown == "error" else -1
        liked = given_ids(itemids, "itemids", ordered=values is not None)
        columns = items.rows(liked, "itemids", missing=missing)
        own = LikedItems.of(columns, values, len(items.ids), held.store.dtype)
        queries = None
        if not isinstance(model, RowScorer):
            with values_told():  # by the first stage
                queries = model._somebody(held, own, has_values=values is not None)
        counts = np.array([len(own.likes.indices)])
        return cls(_folded(model, queries, counts), np.array([-1]))


def _folded(model: Recommender, queries: Any, counts: NDArray[np.int64]) -> ListedUsers:
    """Users by their queries; by the placeholder of the fit if the model ranks by no factors."""
    if queries is None:
        return ListedUsers(model.store.on_host().user_factors[:1].repeat(len(counts), 0), counts)
    return ListedUsers(np.atleast_2d(queries.factors), counts, getattr(queries, "values", None))


class RankedCandidates(NamedTuple):
    """The lists of a first stage, with all that the trees read of them."""

    model: Recommender
    given: GivenFeatures
    asking: Asking
    lists: FirstLists

    @classmethod
    def of(
        cls, model: Recommender, given: GivenFeatures, asking: Asking, first: Answer, by_row: bool
    ) -> RankedCandidates:
        """The lists ``first`` of a model, shape (U, candidates)."""
        listed = ~np.isnan(first.scores)
        rows = np.full(first.ids.shape, -1, dtype=np.int64)
        if listed.any():
            rows[listed] = sides(model.store, by_row=by_row)[1].rows(first.ids[listed], "items")
        return cls(model, given, asking, FirstLists(rows, first.scores))

    def _features(self) -> Iterator[tuple[slice, FirstLists, NDArray[np.float32]]]:
        """Features of all listed pairs, block of users by block."""
        users, rows = self.asking
        for block in blocks(*self.lists.scores.shape):
            part = FirstLists(*(each[block] for each in self.lists))
            features = described(self.model, users.at(block), part, rows[block], self.given)
            if len(features):
                yield block, part, features

    def scores(self, fitted: SecondFit, n_threads: int) -> NDArray[np.float64]:
        """The score of each position of the lists; NaN for padding."""
        scores = np.full(self.lists.scores.shape, np.nan)
        for block, part, features in self._features():
            scores[block][part.pairs] = trees.scores(fitted.trees, features, n_threads)
        if not fitted.first_weight:
            return scores
        return in_list(scores) + fitted.first_weight * in_list(self.lists.scores)

    def shares(self, fitted: SecondFit, item: int) -> NDArray[np.float64] | None:
        """What each feature adds to an item's score in the only list, and a baseline at the end.

        None if the item is not in the list.
        """
        for _, part, features in self._features():
            at = np.flatnonzero(part.rows[part.pairs] == item)
            if len(at):
                shares: NDArray[np.float64] = trees.shares(fitted.trees, features[at])[0]
                if fitted.first_weight:
                    grown = trees.scores(fitted.trees, features, 1)
                    shares[-1] -= grown.mean()
                    shares /= grown.std() or 1.0
                    first = in_list(part.scores)[part.pairs][at[0]]
                    shares[IN_LIST] += fitted.first_weight * first
                return shares
        return None


class Reordered(NamedTuple):
    """Lists of a first stage, in the order of the trees."""

    fitted: SecondFit
    model: Recommender
    by_row: bool
    n_threads: int

    def of(
        self,
        first_stage: Callable[[int, Fallback], Answer],
        asking: Callable[[], Asking],
        n: int,
        fallback: Fallback,
    ) -> Answer:
        """The best ``n``: candidates by the trees, other items, and popular ones at the end."""
        filled = first_stage(n, fallback) if fallback != "none" else None  # checks it, too
        with unannounced() if filled is not None else nullcontext():
            found = first_stage(max(n, self.fitted.candidates), "none")
        listed = Answer(*map(np.atleast_2d, found))
        first = Answer(*(part[:, : self.fitted.candidates] for part in listed))
        given = self.fitted.given
        lists = RankedCandidates.of(self.model, given, asking(), first, self.by_row)
        new = lists.scores(self.fitted, self.n_threads)
        order = np.argsort(-new, axis=1, kind="stable")[:, :n]  # NaN sorts last
        best, scores = (np.take_along_axis(part, order, axis=1) for part in (first.ids, new))
        if n > new.shape[1]:
            best, scores = _continued(Answer(best, scores), listed)
        if filled is not None:
            left = np.isnan(scores)  # both have the same items in the places before these
            best[left], scores[left] = (np.atleast_2d(part)[left] for part in filled)
        return Answer(best, scores).like(found)

    def explained(
        self, userid: Raw, user_items: Matrix | None, itemid: Raw, n: int
    ) -> TreeExplanation:
        """What the ``n`` features that add most add to the score of an item; one id of each."""
        users: Any = [userid]
        (fitted, model, by_row, _), folds = self, user_items is not None
        item = int(sides(model.store, by_row=by_row)[1].rows(itemid, "itemid")[0])
        filters = folds or model.seen is not None
        first = model.recommend(
            *(users, user_items, fitted.candidates, filters),
            recalculate_user=folds,
            by_row=by_row,
            n_threads=1,
        )
        if user_items is None:
            asking = Asking.known(model, users, by_row)
        else:
            asking = Asking.folded(model, users, user_items, by_row)
        candidates = RankedCandidates.of(model, fitted.given, asking, first, by_row)
        shares = candidates.shares(fitted, item)
        if shares is None:
            raise InputValueError(
                f"`itemid` is not among the user's {fitted.candidates} candidates, which the trees "
                "score:",
                "explain the score of the first stage, by model.explain",
            )
        names = names_of(model.store, fitted.given)
        order = np.argsort(-shares[:-1], kind="stable")[:n]
        listed = [(names[at], float(shares[at])) for at in order]
        return TreeExplanation(float(shares.sum()), listed, float(shares[-1]))


def _continued(best: Answer, listed: Answer) -> Answer:
    """Candidates by the trees, and behind them the rest of the first stage's lists.

    The scores go on from that of the last candidate, by the first stage's differences.
    """
    (ids, scores), width = best, best.scores.shape[1]
    behind = listed.scores[:, width:].astype(np.float64) - listed.scores[:, [width - 1]]
    more = scores[:, [-1]] + np.minimum(behind, 0)  # differences may be rounded
    return Answer(np.hstack([ids, listed.ids[:, width:]]), np.hstack([scores, more]))
