"""Factor stores, and whether two are the same."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from hypothesis import strategies as st

from mfrank import FactorStore
from mfrank.data import Counts, Ids


def store(n_users: int = 4, n_items: int = 3, factors: int = 2, **changes: Any) -> FactorStore:
    """A valid store with every field filled."""
    rng = np.random.default_rng(0)
    given: dict[str, Any] = {
        "user_factors": rng.normal(size=(n_users, factors)),
        "item_factors": rng.normal(size=(n_items, factors)),
        "user_ids": Ids.of([f"user {n}" for n in range(n_users)]),
        "item_ids": Ids.of(np.arange(n_items) * 7 + 1),
        "user_biases": rng.normal(size=n_users),
        "item_biases": rng.normal(size=n_items),
        "item_prior": rng.random(n_items),
        "counts": Counts(np.arange(n_users), np.arange(n_items)),
        "fitter": {"name": "ALS", "options": {"objective": {"name": "RG2"}, "seed": None}},
        "history": [{"epoch": 1, "objective": 0.1 + 0.2, "seconds": 1e-3}],
        "versions": {"mfrank": "1.2.3"},
        "extras": {"weights": np.arange(3, dtype=np.int8), "flag": np.array(True)},
        "threshold": 3.5,
        "where": {"event": ("purchase", "rent")},
        "event_weights": {"purchase": 2.0, "rent": 1.0, "view": None},
        "weightings": ("log_weight",),
    }
    return FactorStore(**given | changes)


def same_array(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def same_counts(a: Counts | None, b: Counts | None) -> bool:
    if a is None or b is None:
        return a is b
    return same_array(a.users, b.users) and same_array(a.items, b.items)


def same(a: FactorStore, b: FactorStore) -> bool:
    """Whether two stores agree to the last bit in every field."""
    arrays = ["user_factors", "item_factors", "user_biases", "item_biases", "item_prior"]
    plain = ["user_ids", "item_ids", "fitter", "history", "versions"]
    plain += ["threshold", "where", "event_weights", "weightings"]
    assert {f.name for f in fields(a)} == {*arrays, *plain, "counts", "extras"}
    return (
        all(same_array(getattr(a, name), getattr(b, name)) for name in arrays)
        and all(getattr(a, name) == getattr(b, name) for name in plain)
        and same_counts(a.counts, b.counts)
        and a.extras.keys() == b.extras.keys()
        and all(same_array(a.extras[name], b.extras[name]) for name in a.extras)
    )


def ids(size: int) -> st.SearchStrategy[Ids]:
    """Ids of every kind that can be saved."""
    whole = st.integers(-(2**63), 2**63 - 1)
    texts = st.text(st.characters(), max_size=4)  # surrogates included
    return st.one_of(
        st.just(Ids.numbered(size)),
        st.lists(whole, min_size=size, max_size=size, unique=True).map(Ids.of),
        st.lists(texts, min_size=size, max_size=size, unique=True).map(Ids.of),
    )


@st.composite
def stores(draw: st.DrawFn) -> FactorStore:
    """Stores of any shape, dtype and kind of ids, with and without the optional arrays."""
    n_users, n_items = draw(st.integers(0, 5)), draw(st.integers(0, 5))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))

    def maybe(size: int) -> Any:
        return rng.normal(size=size).astype(dtype) if draw(st.booleans()) else None

    factors = draw(st.integers(1, 4))
    counts = Counts(rng.integers(0, 9, n_users), rng.integers(0, 9, n_items))
    number = st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    return FactorStore(
        rng.normal(size=(n_users, factors)).astype(dtype),
        rng.normal(size=(n_items, factors)).astype(dtype),
        draw(ids(n_users)),
        draw(ids(n_items)),
        counts=draw(st.sampled_from([counts, None])),
        user_biases=maybe(n_users),
        item_biases=maybe(n_items),
        item_prior=maybe(n_items),
        fitter={"name": draw(st.text()), "options": {"x": draw(number), "y": [draw(st.text())]}},
        history=draw(st.lists(st.dictionaries(st.text(), number), max_size=3)),
        extras=draw(st.dictionaries(st.sampled_from("abc"), st.just(rng.normal(size=(2, 0, 3))))),
        threshold=draw(st.none() | st.floats(allow_nan=False, allow_infinity=False)),
        where=draw(st.dictionaries(st.text(), st.lists(st.text(), max_size=2).map(tuple))),
        event_weights=draw(st.dictionaries(st.text(), st.none() | st.floats(-9, 9))),
        weightings=draw(st.lists(st.text(), max_size=2).map(tuple)),
    )
