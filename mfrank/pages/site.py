"""What all pages read: one or two models and their blend, the catalog, and users' items."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any
from urllib.parse import quote

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import check_instance
from mfrank.data import Counts, Interactions, UnknownIdError
from mfrank.errors import InputTypeError, InputValueError
from mfrank.models import ALS, Blend, Reranker
from mfrank.pages.catalog import SiteCatalog
from mfrank.retrieval import Recommender, RowScorer
from mfrank.serving.answers import Items, explains_alone, recommendations
from mfrank.store import FactorStore, blend


@dataclass(frozen=True, slots=True)
class UserItems:
    """A user's items: those that a model has seen, and those held out from it.

    Attributes
    ----------
    seen, held_out : list of (item, value or None)
        By descending value, then popularity.
    left_out : set of items
        Items that the model's lists leave out: ``seen``, and others that the user has seen and the
        model did not learn from, such as those with ratings below a threshold.
    """

    seen: list[tuple[Any, float | None]]
    held_out: list[tuple[Any, float | None]]
    left_out: set[Any]


class Site:
    """Snapshots of the models, with the data and the catalog.

    After a model has changed, :meth:`current` returns a new one. ``cache`` holds results that pages
    computed from it.
    """

    def __init__(
        self,
        models: Mapping[str, Recommender],
        data: Interactions | None,
        items: str | os.PathLike[str] | None,
    ) -> None:
        if not 1 <= len(models) <= 2:
            raise InputValueError(f"`models` must be one or two, got {len(models)}")
        for name, model in models.items():
            check_instance(f"models[{name!r}]", model, Recommender, "a fitted model")
            if isinstance(model, Reranker):  # pages need scores of all items
                raise InputTypeError(
                    f"`models[{name!r}]` is a Reranker, which scores only candidates:",
                    "show its first stage, reranker.model",
                )
        if data is not None:
            check_instance("data", data, Interactions, "Interactions")
        self._sources, self.cache = (models, data, items), dict[Any, Any]()
        self._computing, self.names = Lock(), list(models)
        self.models = [model._snapshot() for model in models.values()]
        if data is not None:
            _check_known(data, self.models)
        self.data = data
        first = self.models[0]
        self.catalog = SiteCatalog(first.item_ids, first.user_ids, _popularity(first), items)
        values = None if data is None else data.user_items.data
        self.has_values = values is not None and bool((values != values[:1]).any())

    def current(self) -> Site:
        """Return this site, or a new one if a model has changed since."""
        models = self._sources[0].values()
        same = all(model._is_as(own) for model, own in zip(models, self.models, strict=True))
        return self if same else Site(*self._sources)

    def compute_once(self, key: Any, compute: Callable[[], Any]) -> Any:
        """Return the result of the first call with this key; one result is computed at a time."""
        with self._computing:
            if key not in self.cache:
                self.cache[key] = compute()
            return self.cache[key]

    def links(self, page: str) -> list[dict[str, Any]]:
        """The name of each model and the URL of its page."""
        return [
            {"name": name, "url": path_of(page, index)} for index, name in enumerate(self.names)
        ]

    def item(self, label: Any, **more: Any) -> dict[str, Any]:
        """An item as pages and JSON have it."""
        entry = self.catalog.entry(label)
        return {
            "id": label,
            "name": entry.name,
            "facts": entry.facts,
            "kind": entry.kind,
            "users": self.catalog.users_of(label),
            "url": path_of("item", label),
            **more,
        }

    def items(self, labels: Sequence[Any]) -> list[dict[str, Any]]:
        """Several items."""
        return [self.item(label) for label in labels]

    def recommend(self, index: int, user: Any, n: int, **options: Any) -> Items:
        """A user's list, without their items if the model knows them.

        Options are those of ``recommend``, such as ``steer``.
        """
        model = self.models[index]
        include_seen = model.seen is None
        listed: Items = recommendations(model, [user], n, include_seen=include_seen, **options)[0]
        return listed

    def lever_names(self, index: int) -> list[str]:
        """Names of a model's levers, apart from those that every model has."""
        model = self.models[index]
        names = [] if model.store.counts is None else ["popularity_penalty"]
        return names if isinstance(model, RowScorer) else [*names, "diversity"]

    def user_items(self, index: int, user: Any) -> UserItems:
        """A user's items, divided by what a model has seen.

        Raises
        ------
        UnknownIdError
            The model does not know the user.
        """
        model = self.models[index]
        row = int(model.user_ids.rows([user])[0])
        values = self._values_of(user)
        if model.seen is None:
            return UserItems(self._sorted(values), [], set())
        own = model.seen.matrix
        among = slice(own.indptr[row], own.indptr[row + 1])
        every = model.item_ids.raw(own.indices[among]).tolist()
        known = set(every)
        seen = [item for item, liked in zip(every, own.data[among] != 0, strict=True) if liked]
        held_out = {item: value for item, value in values.items() if item not in known}
        return UserItems(
            self._sorted({item: values.get(item) for item in seen}), self._sorted(held_out), known
        )

    def values_row(self, index: int, user: Any) -> sp.csr_array | None:
        """A user's items with the values that the model needs to explain a score but lacks.

        Shape (1, n_items), values from the data. None if the model needs none, or the data lack a
        value.
        """
        model = self.models[index]
        if not isinstance(model, ALS | Blend) or explains_alone(model):
            return None
        seen = self.user_items(index, user).seen
        values = [value for _, value in seen if value is not None]
        if not values or len(values) < len(seen):
            return None
        columns = model.item_ids.rows([item for item, _ in seen], missing=-1)
        known = columns >= 0
        place = np.zeros(known.sum(), dtype=np.int64), columns[known]
        shape = (1, len(model.item_ids))
        return sp.csr_array(sp.coo_array((np.array(values)[known], place), shape))

    def _values_of(self, user: Any) -> dict[Any, float | None]:
        if self.data is None:
            return {}
        try:
            row = int(self.data.user_ids.rows([user])[0])
        except UnknownIdError:
            return {}
        own = self.data.user_items
        among = slice(own.indptr[row], own.indptr[row + 1])
        items = self.data.item_ids.raw(own.indices[among]).tolist()
        return dict(zip(items, own.data[among].tolist(), strict=True))

    def _sorted(self, values: Mapping[Any, float | None]) -> list[tuple[Any, float | None]]:
        return sorted(
            values.items(), key=lambda each: (-(each[1] or 0), -self.catalog.users_of(each[0]))
        )


def path_of(*parts: Any) -> str:
    """The path of a page; ids may contain any character, even half a surrogate pair."""
    return "/" + "/".join(quote(str(part), safe="", errors="replace") for part in parts)


def _check_known(data: Interactions, models: Sequence[Recommender]) -> None:
    """Raise ValueError if no model knows any user, or any item, of the data."""
    for side in ("user", "item"):
        given = getattr(data, f"{side}_ids")
        known = [getattr(model, f"{side}_ids") for model in models]
        if len(given) and not any((ids.rows(given.labels, missing=-1) >= 0).any() for ids in known):
            raise InputValueError(
                f"`data` have no {side} of the models: their {side} ids are like "
                f"{given.labels[:3].tolist()}, the models' like {known[0].labels[:3].tolist()}"
            )


def _popularity(model: Recommender) -> NDArray[np.int64]:
    counts = model.store.counts
    if counts is not None:
        return counts.items
    if model.seen is not None:
        return np.bincount(model.seen.positives.indices, minlength=len(model.item_ids))
    return np.zeros(len(model.item_ids), dtype=np.int64)


# A user's list by a blend of both models.


def why_no_blend(site: Site) -> str | None:
    """Why the two models cannot be blended; None if they can."""
    for name, model in zip(site.names, site.models, strict=True):
        if isinstance(model, RowScorer):
            return f"{name} has no factors to blend"
    first, second = site.models
    if first.item_ids != second.item_ids or first.user_ids != second.user_ids:
        return "the two models have different users or items"
    return None


def blended(site: Site, user: Any, weight: float, n: int) -> Items:
    """The best items by the first model's score plus ``weight`` times the second's.

    Items that the user has seen by either model are left out.

    Raises
    ------
    ValueError
        The models cannot be blended.
    """
    if reason := why_no_blend(site):
        raise InputValueError(f"`weight` needs two models that can be blended, but {reason}")
    first, second = (_of_user(model.store.on_host(), user) for model in site.models)
    both = [site.user_items(index, user) for index in (0, 1)]
    seen = {item for own in both for item in own.left_out or dict(own.seen)}
    model = Recommender.of(blend(first, second, weight))
    listed: Items = recommendations(
        model, [user], n, include_seen=True, filter_items=list(seen) if seen else None
    )[0]
    return listed


def _of_user(store: FactorStore, user: Any) -> FactorStore:
    """The store with this user alone, so that a blend does not copy all users."""
    row = store.user_ids.rows([user])
    counts, biases = store.counts, store.user_biases
    return replace(
        store,
        user_factors=store.user_factors[row],
        user_ids=store.user_ids.take(row),
        user_biases=None if biases is None else biases[row],
        counts=None if counts is None else Counts(counts.users[row], counts.items),
    )
