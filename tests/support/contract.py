"""What every model can do, models of every kind, and tiny data that hypothesis draws for them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import reject, settings
from hypothesis import strategies as st

import mfrank
from mfrank.als import QuadraticObjective

CAN: dict[str, dict[str, str]] = {
    "ALS": {
        "new users": "solved exactly from their items",
        "explain": "exact: a user is linear in their items",
        "update": "rows with new interactions, solved exactly",
        "remove": "yes",
        "similar users": "by factors",
        "export": "every format",
    },
    "Descent": {
        "new users": "a linear map from their items, which fits the trained users best",
        "explain": "by that map; the rest is the baseline",
        "update": "new rows by linear maps; no steps of the loss",
        "remove": "yes",
        "similar users": "by factors",
        "export": "every format",
    },
    "EASE, ItemFilter, ItemKNN": {
        "new users": "from their items, as all users",
        "explain": "exact: a sum over the user's items",
        "update": "as after a fit to old and new interactions",
        "remove": "as after a fit without them",
        "similar users": "no: `similar_items`",
        "export": "ONNX, safetensors",
    },
    "NextItem": {
        "new users": "from their last items, in their order",
        "explain": "exact: a sum over the user's items",
        "update": "the weights of items that meet what is new, exactly; others stay",
        "remove": "as after a fit without them",
        "similar users": "no: `similar_items`",
        "export": "ONNX, safetensors",
    },
    "AsymmetricALS, SequentialRules": {
        "new users": "from their last items, in their order",
        "explain": "exact: a sum over the user's items",
        "update": "as after a fit to old and new interactions, by their times",
        "remove": "as after a fit without them",
        "similar users": "no: `similar_items`",
        "export": "ONNX, safetensors",
    },
    "Popularity": {
        "new users": "one list for all",
        "explain": "the count, as the baseline",
        "update": "a fit to old and new interactions",
        "remove": "as after a fit without them; a window stays",
        "similar users": "each alone",
        "export": "every format",
    },
    "SupervisedPageRank": {
        "new users": "a walk from their items",
        "explain": "the heaviest paths of the walk",
        "update": "no: fit again",
        "remove": "no: fit again without them",
        "similar users": "no: `similar_items`",
        "export": "safetensors",
    },
    "Blend": {
        "new users": "each part folds in",
        "explain": "the sum of its parts'",
        "update": "each part; weights stay",
        "remove": "from each part",
        "similar users": "by factors, if all parts have them",
        "export": "as its parts",
    },
    "Reranker": {
        "new users": "by its first stage",
        "explain": "exact: what each feature adds, by SHAP values",
        "update": "its first stage; trees stay",
        "remove": "from its first stage",
        "similar users": "by its first stage",
        "export": "no: that of its first stage",
    },
    "Recommender": {
        "new users": "no: load the model with `mfrank.load`",
        "explain": "no: `similar_items`",
        "update": "no: fit again",
        "remove": "yes, unless the factors are of a fit",
        "similar users": "by factors",
        "export": "every format",
    },
    "ItemBlend": {
        "new users": "no: `mfrank.Blend`",
        "explain": "no: `mfrank.Blend`",
        "update": "no: `mfrank.Blend`",
        "remove": "no: `mfrank.Blend`",
        "similar users": "no: `similar_items`",
        "export": "ONNX, safetensors",
    },
}
"""How each model does what not all of them do; docs/life.md has the same table."""


@cache
def public_models() -> list[str]:
    """Public classes that rank items for users."""
    found = ((name, getattr(mfrank, name)) for name in mfrank.__all__)
    return sorted(
        name for name, each in found if inspect.isclass(each) and hasattr(each, "recommend")
    )


def in_markdown() -> str:
    whats = list(CAN["ALS"])
    lines = [["model", *whats], ["---"] * (1 + len(whats))]
    lines += [
        [", ".join(f"`{name}`" for name in names.split(", ")), *row.values()]
        for names, row in CAN.items()
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


REFUSED = (mfrank.InputTypeError, mfrank.InputValueError)
NOT_MODELS = {"FaissLists"}
"""Rank for users, but are no models: an index of a model's factors."""


def small(objective: Any = None, **options: Any) -> mfrank.ALS:
    return mfrank.ALS(
        objective or mfrank.IALS(), factors=3, iterations=2, random_state=0, **options
    )


def descent(loss: Any = None, **options: Any) -> mfrank.Descent:
    return mfrank.Descent(loss or mfrank.SampledSoftmax(), 3, 2, random_state=0, **options)


RECIPES: dict[str, Any] = {
    **{
        f"ALS, {name}": lambda kind=kind: small(
            kind(negatives=2) if kind is mfrank.RG2Sampled else kind()
        )
        for name in mfrank.__all__
        if inspect.isclass(kind := getattr(mfrank, name)) and issubclass(kind, QuadraticObjective)
    },
    "ALS, weighted": lambda: small(mfrank.IALS(weighted=True)),
    "ALS, biases": lambda: small(biases=True),
    "ALS, float64": lambda: small(mfrank.WRMF(), dtype="float64"),
    "Descent, cosines": descent,
    "Descent, dots": lambda: descent(mfrank.BPR()),
    "Descent, distances": lambda: descent(mfrank.SML()),
    "Descent, SONG": lambda: descent(mfrank.SONG()),
    "Descent, Softmax": lambda: descent(mfrank.Softmax(), item_biases=True),
    "EASE": lambda: mfrank.EASE(2.0),
    "EASE, candidates": lambda: mfrank.EASE(2.0, 3, 0.5, 0.5, candidates=3),
    "ItemFilter": mfrank.ItemFilter,
    "ItemKNN": mfrank.ItemKNN,
    "NextItem": mfrank.NextItem,
    "NextItem, candidates": lambda: mfrank.NextItem(neighbors=3, candidates=3),
    "AsymmetricALS": lambda: mfrank.AsymmetricALS(factors=3),
    "SequentialRules": mfrank.SequentialRules,
    "Popularity": mfrank.Popularity,
    "Popularity, window": lambda: mfrank.Popularity(window=12),
    "SupervisedPageRank": lambda: mfrank.SupervisedPageRank(random_state=0),
    "SupervisedPageRank, unlearned": lambda: mfrank.SupervisedPageRank(None),
}
BLENDS: dict[str, tuple[list[Any], list[float] | None]] = {
    "two ALS": ([small(), small(mfrank.WRMF())], [1, 0.5]),
    "ALS and cosines": ([small(biases=True), descent()], [1, 2]),
    "distances and float64": (
        [descent(mfrank.SML()), small(mfrank.RG2(), dtype="float64")],
        [1, 0.3],
    ),
    "links first": ([mfrank.EASE(2.0), small()], [1, 0.4]),
    "filter": ([descent(mfrank.BPR()), mfrank.ItemFilter()], None),
    "values": ([small(mfrank.WRMF()), mfrank.ItemKNN()], [0.7, 0.2]),
    "popularity": ([small(), mfrank.Popularity()], [1, 0.1]),
    "only popularity has factors": ([mfrank.EASE(2.0), mfrank.Popularity()], [1, 0.1]),
    "a window": ([mfrank.Popularity(window=12), descent(), mfrank.ItemKNN()], [0.2, 1, 1]),
    "what comes next": (
        [
            *(small(), mfrank.NextItem((1.0, 3.0)), mfrank.SequentialRules()),
            mfrank.AsymmetricALS((2.0,), factors=2),
        ],
        [1, 0.5, 0.5, 0.3],
    ),
    "all kinds": (
        [mfrank.ItemKNN(), descent(), mfrank.ItemFilter(), small(), mfrank.EASE(9.0)],
        [0.3, 1, 0.5, 0.7, 0.2],
    ),
}
RECIPES |= {
    f"Blend, {name}": lambda parts=parts, weights=weights: mfrank.Blend(parts, weights)
    for name, (parts, weights) in BLENDS.items()
}
MADE: dict[str, Callable[[Any], Any]] = {
    "Recommender": lambda data: mfrank.Recommender.of(small().fit(data).store),
    "Recommender, from elsewhere": lambda data: mfrank.Recommender.of(
        mfrank.FactorStore(
            *(getattr(descent().fit(data).store, f"{side}_factors") for side in ("user", "item")),
            data.user_ids.raw(np.arange(data.n_users)),
            data.item_ids.raw(np.arange(data.n_items)),
        )
    ),
    "ItemBlend": lambda data: mfrank.ItemBlend.of(
        mfrank.Blend([small(), mfrank.EASE(2.0)]).fit(data).store
    ),
}


def reranked(
    first: Callable[[], Any], features: bool = False
) -> Callable[[mfrank.Interactions], Any]:
    """Trees over a model, which learn from an item that each user has not."""

    def made(data: mfrank.Interactions) -> Any:
        pytest.importorskip("catboost", reason="the extra rerank is not installed")
        liked = (data.user_items.toarray() == 0).argmax(axis=1)  # an item that each has not
        next_items = mfrank.Interactions.from_arrays(users_of(data), data.item_ids.raw(liked))
        model = mfrank.Reranker(first().fit(data), 4, "QueryRMSE", 4, depth=2, random_state=0)
        tables = {"item_features": np.arange(data.n_items)[:, None]} if features else {}
        return model.fit(data, next_items, **tables)

    return made


MADE |= {
    "Reranker": reranked(small),
    "Reranker, features": reranked(lambda: descent(mfrank.BPR()), features=True),
    "Reranker, links": reranked(lambda: mfrank.EASE(2.0)),
    "Reranker, walk": reranked(lambda: mfrank.SupervisedPageRank(None)),
    "Reranker, blend": reranked(lambda: mfrank.Blend([descent(), mfrank.ItemKNN()], [1, 0.4])),
}
SUBJECTS = [*RECIPES, *MADE]


class Table(NamedTuple):
    """How the interactions of an example are drawn."""

    seed: int
    n_users: int
    n_items: int
    named: bool
    counts: bool

    def data(self) -> mfrank.Interactions:
        rng = np.random.default_rng(self.seed)
        sizes = rng.integers(2, self.n_items - 2, (self.n_users, 1))
        likes = rng.random((self.n_users, self.n_items)).argsort(axis=1) < sizes
        items = np.arange(self.n_items)
        likes[items % self.n_users, items] = True  # every item has a user, and nobody has all
        users, items = np.nonzero(likes)
        order = rng.permutation(len(users))
        return self.of(users[order], items[order], rng.integers(1, 6, len(users)))

    def of(self, users: Any, items: Any, values: Any) -> mfrank.Interactions:
        users, items = (
            np.array([self.name(kind, row) for row in rows.tolist()])
            for kind, rows in (("user", np.asarray(users)), ("item", np.asarray(items)))
        )
        times = np.arange(len(users))
        given = values if self.counts else None
        return mfrank.Interactions.from_arrays(users, items, given, times, timestamp_unit="s")

    def name(self, kind: str, row: int) -> Any:
        return f"{kind}/{row} é" if self.named else 10 * int(row) + 3


TABLES = st.builds(
    Table, st.integers(0, 10**6), st.integers(4, 9), st.integers(6, 8), st.booleans(), st.booleans()
)
FEW = settings(max_examples=3)
ONE = Table(5, 8, 7, True, False)


def fitted(subject: str, data: mfrank.Interactions) -> Any:
    """A model fitted to a table; a table from which nothing can be learned is left out."""
    try:
        if subject in MADE:
            return MADE[subject](data)
        model = RECIPES[subject]()
        return type(model)(**model.get_params(deep=False)).fit(data)
    except mfrank.InputValueError as error:
        if subject.startswith("SupervisedPageRank") or "no ranking to learn" in str(error):
            reject()
        raise


def can(model: Any, what: str) -> bool:
    """Whether a model can do this, by the table."""
    if isinstance(model, mfrank.Blend) and what == "remove":
        return all(can(part, what) for part in model.parts)
    if what == "similar users" and has_links(model):
        return False
    if isinstance(model, mfrank.Reranker) and what not in ("explain", "export"):
        return can(model.model, what)
    (row,) = (row for names, row in CAN.items() if type(model).__name__ in names.split(", "))
    return not row[what].startswith("no")


every_model = pytest.mark.parametrize("subject", SUBJECTS)


def reads_order(model: Any) -> bool:
    kinds = mfrank.AsymmetricALS, mfrank.NextItem, mfrank.SequentialRules
    return any(isinstance(part, kinds) for part in getattr(model, "parts", [model]))


def has_links(model: Any) -> bool:
    return "neighbors_indptr" in model.store.extras


def refused(call: Callable[[], Any]) -> None:
    """It is refused, with a remedy."""
    with pytest.raises(REFUSED) as raised:
        call()
    assert raised.value.remedy, str(raised.value)


def same(one: Any, other: Any) -> None:
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(one.scores, other.scores)


def items_of(data: mfrank.Interactions, row: int) -> list[Any]:
    return data.item_ids.raw(data.user_items[[row]].indices).tolist()


def users_of(data: mfrank.Interactions) -> Any:
    return data.user_ids.raw(np.arange(data.n_users))
