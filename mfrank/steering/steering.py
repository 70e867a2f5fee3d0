"""Requirements on lists in addition to the highest scores."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mfrank.arrays import MadeOfFields, check_count, is_number, shown, tell_idle
from mfrank.data import Ids, UnknownIdError
from mfrank.errors import InputTypeError, InputValueError
from mfrank.steering.categories import labels_of, tell_lists

_MOST = 1000


@dataclass(frozen=True)
class Steering(MadeOfFields):
    """Requirements on lists in addition to the highest scores, for ``recommend(..., steer=)``.

    At their defaults, levers do not change a bit of the lists. A weight has the same effect for
    every model and user, whatever the scale of the scores:

    - **Boosts and popularity penalty** are added to scores, in standard deviations of the user's
      scores of all items. Lists are the exact best of the whole catalog by these sums, which are
      returned as scores.
    - **Diversity and calibration** are traded off against relevance. Relevance is the score (with
      boosts and penalty), shifted and scaled to 1 for the best and 0 for the last of the user's
      best ``pool`` items. Only these items can be listed.
    - **Caps** always hold. If they leave positions empty, the pool grows until the list is full or
      no item is left.

    A list is filled position by position, with the item of highest value among the remaining items
    that the caps allow::

        (1 - calibration) ((1 - diversity) relevance - diversity max_cosine) - calibration KL

    with ties in the order of the plain list. Without diversity and calibration, this is the item
    with the highest score. ``max_cosine`` is the highest cosine between the factors of the item and
    of an item already listed, 0 for the first (MMR, Carbonell & Goldstein 1998). ``KL`` is the
    Kullback-Leibler divergence of the shares of categories in the list, including the item, from
    the shares in the user's items (Steck 2018, with alpha = 0.01). With diversity or calibration,
    scores need not descend.

    Parameters
    ----------
    boosts : mapping of item id to number, or Series with ids as its index, default none
        Added to the item's score, from -1000 to 1000: .5 is weak, 3 is strong; negative numbers
        demote. A boost above 0 also lists an item without a link from the user's items
        (:class:`mfrank.EASE`, :class:`mfrank.ItemKNN`, walks); a penalty or a boost below 0 does
        not.
    popularity_penalty : float, default 0
        From 0 to 1000: subtracted from the score per standard deviation of popularity above the
        mean of all items. Popularity is log(1 + number of users in the fit). Items below the mean
        gain.
    categories : mapping of item id to a label or a list of labels, or such a Series, optional
        Labels are hashables other than lists, tuples and sets. Items without an entry form their
        own category for calibration, without a cap; entries of unknown items are ignored.
    at_most : int, or mapping of label to int, optional
        Maximum number of items per category in a list, >= 0; categories outside the mapping have no
        cap. An item is left out if one of its categories is full. If each item has one category, no
        list within the caps has a higher sum of scores.
    diversity : float, default 0
        Weight from 0 to 1. Requires item factors.
    calibration : float, default 0
        Weight from 0 to 1. An item with several categories counts in equal parts for each.
    pool : int, optional
        Number of items to choose from, at least N, for diversity and calibration; by default the
        larger of 100 and 10 N.

    Raises
    ------
    TypeError, ValueError
        A value has the wrong type or is out of range; caps or calibration lack ``categories``; or
        ``at_most`` has a label that no item has.

    Examples
    --------
    >>> import mfrank
    >>> store = mfrank.FactorStore([[1.0]], [[3.0], [2.0], [1.0]], item_ids=["tea", "pie", "ale"])
    >>> model = mfrank.Recommender.of(store)
    >>> drinks = mfrank.Steering(categories={"tea": "drink", "ale": "drink"}, at_most=1)
    >>> model.recommend(0, filter_already_liked_items=False, N=2, steer=drinks).ids.tolist()
    ['tea', 'pie']
    """

    boosts: Mapping[Any, float] = field(default_factory=dict)
    popularity_penalty: float = 0.0
    categories: Mapping[Any, Any] | None = field(default=None, repr=False)
    at_most: int | Mapping[Hashable, int] | None = None
    diversity: float = 0.0
    calibration: float = 0.0
    pool: int | None = None

    def __post_init__(self) -> None:
        for name in ("boosts", "categories"):
            given = _by_id(name, getattr(self, name))
            if isinstance(given, Mapping):
                object.__setattr__(self, name, dict(given))
            elif name == "boosts" or given is not None:
                raise InputTypeError(f"`{name}` must be a mapping by item id, got {shown(given)}")
        if isinstance(self.at_most, Mapping):
            object.__setattr__(self, "at_most", dict(self.at_most))
        for item, boost in self.boosts.items():
            _check_between(f"boosts[{shown(item)}]", boost, -_MOST, _MOST)
        _check_between("popularity_penalty", self.popularity_penalty, 0, _MOST)
        _check_between("diversity", self.diversity, 0, 1)
        _check_between("calibration", self.calibration, 0, 1)
        if self.pool is not None:
            check_count("pool", self.pool, 1, 2**31 - 1)
            if self.at_most is None and not (self.diversity or self.calibration):
                tell_idle(
                    "`pool` has no effect by itself:",
                    "pass `diversity`, `calibration` or `at_most`, too, or leave it out",
                )
        self._check_categories()

    @property
    def adds(self) -> bool:
        """Whether a lever changes scores."""
        return bool(self.boosts) or self.popularity_penalty > 0

    @property
    def calibrates(self) -> bool:
        """Whether a lever needs the users' items."""
        return self.calibration > 0

    def in_rows(self, items: Ids) -> Steering:
        """The same Steering with row numbers as item ids, for ``by_row=True``.

        Raises
        ------
        UnknownIdError
            An item in ``boosts`` is unknown.
        """
        try:
            boosted = items.rows(list(self.boosts)).tolist()
        except UnknownIdError as error:
            raise error.within("`steer.boosts`") from None
        boosts = zip(boosted, self.boosts.values(), strict=True)
        categories = None
        if self.categories is not None:
            rows = items.rows(list(self.categories), missing=-1).tolist()
            # Unknown items stay, at negative rows, so that all labels stay known.
            keys = (row if row >= 0 else -1 - place for place, row in enumerate(rows))
            categories = dict(zip(keys, self.categories.values(), strict=True))
        made = object.__new__(type(self))  # not checked, nor told of, again
        vars(made).update(vars(self), boosts=dict(boosts), categories=categories)
        return made

    @property
    def digest(self) -> str:
        """SHA-256 of all levers, to detect a change."""
        parts = []
        for name in ("boosts", "categories", "at_most"):
            given = getattr(self, name)
            parts.append(sorted(map(repr, given.items())) if isinstance(given, dict) else given)
        weights = self.popularity_penalty, self.diversity, self.calibration
        parts.append([[float(weight) for weight in weights], self.pool])
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def _check_categories(self) -> None:
        if self.categories is None:
            for name in ("at_most", "calibration"):
                if getattr(self, name) not in (None, 0):
                    raise InputValueError(f"`{name}` needs categories, the labels of items")
            return
        each = map(labels_of, self.categories.values())
        known = dict.fromkeys(label for labels in each for label in labels)
        tell_lists(known)
        if self.at_most is None:
            if self.categories and not self.calibrates:
                tell_idle(
                    "`categories` have no effect by themselves:",
                    "pass `at_most` or `calibration`, too, or leave them out",
                )
            return
        if not isinstance(self.at_most, Mapping):
            check_count("at_most", self.at_most, 0)
            return
        for label, cap in self.at_most.items():
            check_count(f"at_most[{shown(label)}]", cap, 0)
            if label not in known:
                raise InputValueError(
                    f"`at_most` has {shown(label)}, which is no category of any item"
                )


def _by_id(name: str, given: Any) -> Any:
    """A Series as a mapping from its index; anything else unchanged."""
    if not hasattr(type(given), "iloc") or not hasattr(given, "items"):
        return given
    index = given.index
    counts = type(index).__name__ == "RangeIndex" and index.name is None and index.start == 0
    # A column of a table of which rows were sorted or left out still has the numbers of the rows.
    is_column = given.ndim == 1 and given.name is not None and index.name is None
    if given.ndim != 1 or counts or (is_column and index.dtype.kind in "iu"):
        raise InputValueError(
            f"`{name}` must have the ids of items as its index, got a {type(given).__name__} "
            "whose index counts rows, or has no name:",
            "pass `frame.set_index('item')[column]`; if its index has the ids, name it with "
            "rename_axis('item')",
        )
    if not index.is_unique:
        twice = index[index.duplicated()][0]
        raise InputValueError(
            f"`{name}` has {shown(twice)} twice in its index; each item has one value"
        )
    return dict(zip(index.tolist(), given.tolist(), strict=True))


def _check_between(name: str, value: object, least: int, most: int) -> None:
    if not (is_number(value) and least <= value <= most):  # type: ignore[operator]
        raise InputValueError(
            f"`{name}` must be a number from {least} to {most}, got {shown(value)}"
        )
