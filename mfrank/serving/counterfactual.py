"""What another model would get, by lists into which items were drawn with known probabilities.

A click on an item that the other model would list, too, counts by the inverse of the probability
with which the item was in the list that was shown (IPS: Horvitz & Thompson 1952; Li et al. 2011),
and others count nothing. SNIPS (Swaminathan & Joachims 2015) divides by the weights in the place of
the lists. Both judge which items a list has, and not their order: an item of the list counts as at
the place where it was shown, one from further down as at a random place. They assume that a click
on an item does not depend on the other items of the list.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mfrank.arrays import aligned, counted
from mfrank.errors import InputValueError
from mfrank.evaluation import Difference, Score
from mfrank.retrieval import Recommender
from mfrank.serving.list_log import Clicked

_USERS_AT_ONCE = 1000
_ENOUGH = 0.9
"""A reach below this is told in words."""


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """Estimated clicks a list of another model.

    Attributes
    ----------
    n_users, n_lists : int
        That have drawn items.
    n_unknown : int
        Users whom the model does not know; for them it lists nothing.
    shown : Score
        Clicks of the lists as they were.
    ips, snips : Score
        Clicks of the model's lists.
    difference : Difference
        IPS minus shown, paired by users.
    effective : float
        Effective number of items with their weights, (sum w)^2 / sum w^2.
    reach : float
        Estimated share of the model's items that the lists could have shown: 1 but for chance if
        the items that may be drawn go deep enough. What is missing counts as never clicked in IPS,
        and as the rest in SNIPS.
    """

    n_users: int
    n_lists: int
    n_unknown: int
    shown: Score
    ips: Score
    snips: Score
    difference: Difference
    effective: float
    reach: float

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain objects for JSON."""
        counts = {name: getattr(self, name) for name in ("n_users", "n_lists", "n_unknown")}
        scores = {name: getattr(self, name).to_dict() for name in ("shown", "ips", "snips")}
        more = {"difference": self.difference.to_dict(), "effective": self.effective}
        return {**counts, **scores, **more, "reach": self.reach}

    def __str__(self) -> str:
        rows = [("another model", "clicks a list", "95 % interval")]
        for name, score in ("shown", self.shown), ("IPS", self.ips), ("SNIPS", self.snips):
            low, high = score.interval
            rows.append((name, f"{score.value:.5f}", f"{low:.5f} to {high:.5f}"))
        lines = [
            aligned(rows),
            f"{self.difference}",
            f"{counted(self.n_lists, 'list')} with drawn items, effective number of shown items "
            f"{self.effective:,.0f}, reach {self.reach:.3f}",
        ]
        if self.reach < _ENOUGH:
            lines.append(
                "WARNING: the lists could not have shown many of the model's items, which count as "
                "never clicked in IPS: a larger --explore-depth would reach more"
            )
        if self.n_unknown:
            lines.append(
                f"{counted(self.n_unknown, 'user')} unknown to the model, with empty lists"
            )
        return "\n".join(lines)


class JudgedArm:
    """Adds up the weighted clicks of users, for a model.

    Parameters
    ----------
    model : Recommender
    """

    def __init__(self, model: Recommender) -> None:
        self._model, self._n_unknown = model, 0
        self._waiting: list[tuple[int | str, list[Clicked], Sequence[tuple[float, Any]]]] = []
        # Of each user: lists, clicks, weighted clicks, and weights by the length of the lists.
        self._sums: list[tuple[float, float, float, float]] = []
        self._weights, self._squares = 0.0, 0.0

    def add(
        self, user: int | str, lists: Sequence[Clicked], met: Sequence[tuple[float, Any]]
    ) -> None:
        """Add a user's lists; ``met`` is what the user did, and when."""
        own = [each for each in lists if each.shown.propensities and each.shown.items]
        if own:
            self._waiting.append((user, own, met))
        if len(self._waiting) >= _USERS_AT_ONCE:
            self._judge()

    def result(self) -> Counterfactual:
        """The estimate.

        Raises
        ------
        ValueError
            No list has drawn items, or the model knows none of the users.
        """
        if self._waiting:
            self._judge()
        if not self._sums:
            raise InputValueError(
                "`of` needs lists with drawn items, and the journal has none:",
                "serve with --explore 0.1 for a while",
            )
        if self._n_unknown == len(self._sums):
            raise InputValueError("`of`: the model knows none of the users of the lists")
        lists, clicks, weighted, weights = np.array(self._sums).T
        shown, ips = Score.of_users(clicks / lists, lists), Score.of_users(weighted / lists, lists)
        ratios = np.divide(weighted, weights, out=np.zeros_like(weights), where=weights > 0)
        effective = self._weights**2 / self._squares if self._squares else 0.0
        return Counterfactual(
            n_users=len(lists),
            n_lists=int(lists.sum()),
            n_unknown=self._n_unknown,
            shown=shown,
            ips=ips,
            snips=Score.of_users(ratios, weights),
            difference=ips.paired(shown, "IPS minus shown"),
            effective=effective,
            reach=float(weights.sum() / lists.sum()),
        )

    def _judge(self) -> None:
        """Add up the users that wait."""
        users = [user for user, *_ in self._waiting]
        known = (self._model.user_ids.rows(users, missing=-1) >= 0).tolist()
        self._n_unknown += known.count(False)
        # So many that enough are left without those that the user has met by then.
        longest = max(
            max(len(each.shown.items) for each in lists) + len({item for _, item in met})
            for _, lists, met in self._waiting
        )
        labels = [user for user, is_known in zip(users, known, strict=True) if is_known]
        ranked = iter(self._ranked(labels, longest))
        for (_, lists, met), is_known in zip(self._waiting, known, strict=True):
            self._add_up(lists, met, next(ranked) if is_known else [])
        self._waiting = []

    def _ranked(self, users: list[Any], n: int) -> list[list[Any]]:
        if not users:
            return []
        model = self._model
        answer = model.recommend(
            users,
            N=min(n, len(model.item_ids) or 1),
            filter_already_liked_items=model.seen is not None,
        )
        return [[place["id"] for place in one] for one in answer.to_dicts()]

    def _add_up(
        self, lists: Sequence[Clicked], met: Sequence[tuple[float, Any]], ranked: Sequence[Any]
    ) -> None:
        clicks = weighted = by_length = 0.0
        for shown, clicked in lists:
            before = {item for at, item in met if at < shown.time}
            n = len(shown.items)
            listed = set([item for item in ranked if item not in before][:n])
            weights = [
                1 / odds if item in listed else 0.0
                for item, odds in zip(shown.items, shown.propensities or (), strict=True)
            ]
            clicks += sum(clicked)
            weighted += math.fsum(w for w, each in zip(weights, clicked, strict=True) if each)
            by_length += math.fsum(weights) / n
            self._weights += math.fsum(weights)
            self._squares += math.fsum(w * w for w in weights)
        self._sums.append((float(len(lists)), clicks, weighted, by_length))
