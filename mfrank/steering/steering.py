"""What people ask of lists in addition to the highest scores."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mfrank.arrays import MadeOfFields, check_count, is_number, shown
from mfrank.data import Ids, UnknownIdError
from mfrank.steering.categories import labels_of

_MOST = 1000


@dataclass(frozen=True)
class Steering(MadeOfFields):
    """What lists should be in addition to the highest scores, for ``recommend(..., steer=)``.

    Every lever at its default leaves lists as they are, bit by bit. One weight means the same for
    every model and every user, whatever the scale of the scores:

    - Boosts and the popularity penalty are added to scores, in standard deviations of the user's
      own scores of all items. Lists are the best of the whole catalog by these sums, exactly, and
      the sums are the scores that are returned.
    - Diversity and calibration are weighed against relevance, which is the scores (with boosts and
      penalty) of the user's best ``pool`` items, shifted and scaled so that the best item has
      relevance 1 and the last 0. Only these items can be listed.
    - Every list keeps the caps exactly. If they leave places of a list empty, the pool grows until
      the places are filled or no item is left.

    A list is filled place by place. Each place gets the item with the highest value among those
    that are left and that no cap forbids::

        (1 - calibration) ((1 - diversity) relevance - diversity max_cosine) - calibration KL

    with ties by the order of the plain list. Without diversity and calibration this is the item
    with the highest score. ``max_cosine`` is the highest cosine of the item's factors with those of
    the items listed before it, 0 for the first (MMR, Carbonell & Goldstein 1998). ``KL`` is the
    Kullback-Leibler divergence from the shares of categories in the list, with that item, to the
    shares in what the user has (Steck 2018, with his alpha = 0.01). Lists with diversity or
    calibration are in this order, so their scores need not descend.

    Parameters
    ----------
    boosts : mapping of item id to number, or Series with ids as its index, default none
        What to add to an item's score, from -1000 to 1000: .5 is a nudge, 3 is strong; negative
        numbers demote. A boost above 0 also lists an item to which no link leads from the user's
        items (:class:`mfrank.EASE`, :class:`mfrank.ItemKNN`, walks); a penalty or a boost below 0
        does not.
    popularity_penalty : float, default 0
        From 0 to 1000: what to subtract from the score of an item whose popularity, the logarithm
        of 1 + its number of users in the fit, is one standard deviation above the mean of all
        items. Items that are less popular than the mean gain.
    categories : mapping of item id to a label or a list of labels, or such a Series, optional
        Labels are any hashables except lists, tuples and sets. For the calibration, items without
        an entry count as a category of their own, which has no cap; entries of items that the model
        does not know are ignored.
    at_most : int, or mapping of label to int, optional
        Maximum number of items of each category in a list, >= 0; categories that are not in the
        mapping have no cap. An item is left out if one of its categories is full. If each item has
        one category, no list within the caps has a higher sum of scores.
    diversity : float, default 0
        Weight from 0 to 1. Models without item factors refuse it.
    calibration : float, default 0
        Weight from 0 to 1. An item with several categories counts in equal parts for each.
    pool : int, optional
        Number of items to choose from, at least N, for diversity and calibration; default the
        larger of 100 and 10 N.

    Raises
    ------
    TypeError, ValueError
        A value has the wrong type or is out of its range; caps or calibration lack ``categories``,
        or ``at_most`` names a label that no item has.

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
                raise TypeError(f"{name} must be a mapping by item id, got {shown(given)}")
        if isinstance(self.at_most, Mapping):
            object.__setattr__(self, "at_most", dict(self.at_most))
        for item, boost in self.boosts.items():
            _check_between(f"boosts[{shown(item)}]", boost, -_MOST, _MOST)
        _check_between("popularity_penalty", self.popularity_penalty, 0, _MOST)
        _check_between("diversity", self.diversity, 0, 1)
        _check_between("calibration", self.calibration, 0, 1)
        if self.pool is not None:
            check_count("pool", self.pool, 1, 2**31 - 1)
        self._check_categories()

    @property
    def adds(self) -> bool:
        """Whether it changes scores."""
        return bool(self.boosts) or self.popularity_penalty > 0

    @property
    def calibrates(self) -> bool:
        """Whether it needs to know what users have."""
        return self.calibration > 0

    def in_rows(self, items: Ids) -> Steering:
        """The same by row numbers of items, as it is passed with ``by_row=True``.

        Raises
        ------
        UnknownIdError
            An item in ``boosts`` is unknown.
        """
        try:
            boosted = items.rows(list(self.boosts)).tolist()
        except UnknownIdError as error:
            raise error.given_as("steer.boosts") from None
        boosts = zip(boosted, self.boosts.values(), strict=True)
        categories = None
        if self.categories is not None:
            rows = items.rows(list(self.categories), missing=-1).tolist()
            # Unknown items stay, at negative rows, so that all labels do.
            keys = (row if row >= 0 else -1 - place for place, row in enumerate(rows))
            categories = dict(zip(keys, self.categories.values(), strict=True))
        return replace(self, boosts=dict(boosts), categories=categories)

    @property
    def digest(self) -> str:
        """SHA-256 of all that it asks, to tell whether it is still the same."""
        told = []
        for name in ("boosts", "categories", "at_most"):
            given = getattr(self, name)
            told.append(sorted(map(repr, given.items())) if isinstance(given, dict) else given)
        weights = self.popularity_penalty, self.diversity, self.calibration
        told.append([[float(weight) for weight in weights], self.pool])
        return hashlib.sha256(repr(told).encode()).hexdigest()

    def _check_categories(self) -> None:
        if self.categories is None:
            for name in ("at_most", "calibration"):
                if getattr(self, name) not in (None, 0):
                    raise ValueError(f"{name} needs categories, the labels of items")
            return
        known = {label for labels in self.categories.values() for label in labels_of(labels)}
        if self.at_most is None:
            return
        if not isinstance(self.at_most, Mapping):
            check_count("at_most", self.at_most, 0)
            return
        for label, cap in self.at_most.items():
            check_count(f"at_most[{shown(label)}]", cap, 0)
            if label not in known:
                raise ValueError(f"at_most has {shown(label)}, which is no category of any item")


def _by_id(name: str, given: Any) -> Any:
    """A Series as a mapping from its index; anything else as it is."""
    if not hasattr(type(given), "iloc") or not hasattr(given, "items"):
        return given
    index = given.index
    if given.ndim != 1 or (type(index).__name__ == "RangeIndex" and index.name is None):
        raise ValueError(
            f"{name} must have the ids of items as its index, got a {type(given).__name__} whose "
            "index counts rows: pass frame.set_index('item')[column]"
        )
    if not index.is_unique:
        twice = index[index.duplicated()][0]
        raise ValueError(f"{name} has {shown(twice)} twice in its index; each item has one value")
    return dict(zip(index.tolist(), given.tolist(), strict=True))


def _check_between(name: str, value: object, least: int, most: int) -> None:
    if not (is_number(value) and least <= value <= most):  # type: ignore[operator]
        raise ValueError(f"{name} must be a number from {least} to {most}, got {shown(value)}")
