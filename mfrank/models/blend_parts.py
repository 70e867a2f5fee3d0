"""The parts of a blend: joined to one store, from which they can be made again.

The factors of all parts are side by side, times the root of a part's scale on both sides. The
weights between items of the others are one above the other, and their users' values, times the
scale, side by side (:func:`mfrank.blend`). What else a part needs is among the extras, under its
number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import lazy, read_only
from mfrank.models.als import ALS
from mfrank.models.asymmetric_als import AsymmetricALS
from mfrank.models.descent import Descent
from mfrank.models.ease import EASE
from mfrank.models.factor_model import Callback
from mfrank.models.item_models import ItemFilter, ItemKNN, NeighborRecommender
from mfrank.models.next_item import NextItem
from mfrank.models.popularity import Popularity
from mfrank.models.sequential_rules import SequentialRules
from mfrank.retrieval import ModelState, Recommender
from mfrank.store import FactorStore, blend
from mfrank.store import contents as extra_rows

PARTS: Mapping[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *(ALS, AsymmetricALS, Descent, EASE, ItemFilter, ItemKNN, NextItem, Popularity),
        SequentialRules,
    )
}
"""The models that can be parts of a blend, by name."""


def reads_times(model: Any) -> bool:
    """Whether a fit reads the timestamps of interactions."""
    if isinstance(model, Popularity):
        return model.window is not None
    return isinstance(model, AsymmetricALS | NextItem | SequentialRules)


_JOINED = ("neighbors", "values")
"""What :func:`mfrank.blend` joins of the extras of weights between items."""
_SAMPLE = 64
_SAMPLED_ITEMS = 4096


def unfitted(model: Any) -> Any:
    """A new model with the same options."""
    return type(model)(**model.get_params(deep=False))


def until(epochs: int | None) -> Callback | None:
    """A callback that ends a fit after so many epochs; None ends none."""
    return None if epochs is None else lambda epoch, *_: epoch + 1 == epochs


def has_factors(model: Any) -> bool:
    """Whether it ranks by factors, and not by weights between items."""
    return not isinstance(model, NeighborRecommender)


def factors_first(models: Sequence[Any]) -> list[int]:
    """The numbers of the models in the order of the blend's store."""
    return sorted(range(len(models)), key=lambda at: not has_factors(models[at]))


def spread(model: Recommender) -> float:
    """Mean over users of the standard deviation of item scores, on samples of both."""
    users = _sample(len(model.user_ids), _SAMPLE)
    items = _sample(len(model.item_ids), _SAMPLED_ITEMS)
    deviations = [
        model.score(np.full(len(items), user), items, by_row=True).std() for user in users
    ]
    return float(np.mean(deviations, dtype=np.float64)) or 1.0


def _sample(n_rows: int, most: int) -> NDArray[np.int64]:
    """Rows at equal distances, the same whenever they are asked for."""
    return np.unique(np.linspace(0, n_rows - 1, min(most, n_rows)).astype(np.int64))


def scales_of(models: Sequence[Any], weights: Sequence[float]) -> list[float]:
    """Multiples of the parts' scores; 1 for the first part with factors."""
    scales = [weight / spread(model) for model, weight in zip(models, weights, strict=True)]
    unit = scales[factors_first(models)[0]]
    return [scale / unit for scale in scales]


def scales_in(store: FactorStore) -> list[float]:
    """Multiples of the parts' scores in the store of a blend."""
    return [each["scale"] for each in store.fitter["options"]["parts"]]


def joined(models: Sequence[Recommender], scales: Sequence[float], **options: Any) -> FactorStore:
    """The blend of fitted models, whose scores are multiplied by ``scales``, with its options."""
    order = factors_first(models)
    made = models[order[0]].store
    for at in order[1:]:
        made = blend(made, models[at].store, scales[at])
    extras, described = dict(made.extras), list[dict[str, Any]]()
    for number, (model, scale) in enumerate(zip(models, scales, strict=True)):
        own = model.store
        for name, array in (("user_biases", own.user_biases), ("item_biases", own.item_biases)):
            if array is not None:
                extras[f"part{number}_{name}"] = array
        told: dict[str, Any] = {"fitter": dict(own.fitter)}
        told["history"] = [dict(each) for each in own.history]
        told |= {"width": own.factors * has_factors(model), "scale": float(scale)}
        if isinstance(model, NeighborRecommender):
            told["rows"] = model.similarity.shape[0]
        for name, array in own.extras.items():
            if not ("rows" in told and name.startswith(_JOINED)):
                extras[f"part{number}_{name}"] = array
        described.append(told)
    options["parts"] = described
    for name in ("user_features", "item_features"):
        if name in made.fitter["options"]:
            options[name] = True
    return replace(made, extras=extras, fitter={"name": "Blend", "options": options})


class _PartStore(FactorStore):
    """The store of a part, whose user factors are made of the blend's when they are first read.

    New users and explanations need the factors of items alone.
    """

    _columns: NDArray[Any]
    """Those of the part in the user factors of the blend."""
    _root: float

    @classmethod
    def of(cls, store: FactorStore, columns: slice, scale: float, **others: Any) -> Self:
        """The part of these columns of a blend's store, with other fields."""
        whole, root = replace(store, **others), np.sqrt(scale)
        given = {field.name: getattr(whole, field.name) for field in fields(whole)}
        given["_columns"], given["_root"] = given.pop("user_factors")[:, columns], root
        items = _unscaled(store.item_factors[:, columns], root)
        given["item_factors"] = read_only(np.ascontiguousarray(items))
        made = object.__new__(cls)
        vars(made).update(given)
        return made

    @lazy
    def user_factors(self) -> NDArray[Any]:
        """As of any store."""
        return read_only(np.ascontiguousarray(_unscaled(self._columns, self._root)))

    def _users_at(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Without the others."""
        if "user_factors" in vars(self):
            return super()._users_at(rows)
        return _unscaled(self._columns[rows], self._root)


def _unscaled(table: NDArray[Any], root: float) -> NDArray[Any]:
    return table if root == 1 else (table / root).astype(table.dtype)


def parts_of(held: ModelState, templates: Sequence[Any]) -> list[Any]:
    """The fitted parts of a blend's store, each with the options of its template.

    They have views of its tables where they can.
    """
    store, models = held.on_host(), [unfitted(template) for template in templates]
    described = store.fitter["options"]["parts"]
    n_items, begin, block = store.n_items, 0, 0
    for at in factors_first(models):
        model, told, prefix = models[at], described[at], f"part{at}_"
        own = {
            name.removeprefix(prefix): array
            for name, array in store.extras.items()
            if name.startswith(prefix)
        }
        others: dict[str, Any] = {
            name: own.pop(name, None) for name in ("user_biases", "item_biases")
        }
        others |= {"fitter": told["fitter"], "history": told["history"], "extras": own}
        if has_factors(model):
            columns = slice(begin, begin + told["width"])
            if told["width"] == store.factors and told["scale"] == 1:
                part = replace(store, **others)
            else:
                part = _PartStore.of(store, columns, told["scale"], **others)
            begin = columns.stop
        else:
            rows = slice(block, block + told.get("rows", n_items))
            others["extras"] = own | _of_items(store, rows, told["scale"])
            part = replace(
                store,
                user_factors=np.ones((store.n_users, 1)),
                item_factors=store.known_counts.items.astype(np.float64)[:, None],
                **others,
            )
            block = rows.stop
        model._adopt(part)
        model._hold(part, held.seen)
    return models


def _of_items(store: FactorStore, block: slice, scale: float) -> dict[str, NDArray[Any]]:
    """The extras of a part of weights between items, which are views of those of the blend."""
    weights, values = extra_rows.unpack_neighbors(store.extras, store.n_users, store.n_items)
    begin, end = weights.indptr[block.start], weights.indptr[block.stop]
    given = values if block == slice(0, values.shape[1]) else sp.csr_array(values[:, block])
    return extra_rows.pack("values", given if scale == 1 else sp.csr_array(given / scale)) | {
        "neighbors": store.extras["neighbors"][begin:end],
        "neighbors_indices": store.extras["neighbors_indices"][begin:end],
        "neighbors_indptr": weights.indptr[block.start : block.stop + 1].astype(np.int64) - begin,
    }
