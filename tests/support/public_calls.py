"""Every public function, class and method, with plausible arguments by their names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hostile_requests
import numpy as np
import scipy.sparse as sp
from engines import Shuffled
from hostile import Rng, UsersOwnError, anything, damaged
from small_world import (
    N_ITEMS,
    N_USERS,
    data,
    frame,
    judged,
    model,
    models,
    named,
    one_of,
    other,
    path,
    timed,
)

import mfrank
from mfrank import pagerank
from mfrank.arrays import is_count
from mfrank.data import Counts, Ids
from mfrank.losses import Loss

SEAMS = {
    *("gradients", "memory", "largest_array", "largest_pair_array", "weigh"),
    *("user_problem", "item_problem", "user_weights", "item_weights", "observed", "interaction"),
    *(
        "item_rows",
        "user_rows",
        "multiplier",
        "state",
        "update",
        "catch_up",
        "value",
        "check",
        "is_over",
        "fingerprint",
        "from_contents",
        "to_contents",
    ),
}
"""Methods that mfrank calls, with what it has made."""

LONG = {
    "alternations",
    "iterations",
    "repeats",
    "rounds",
    "queries",
    "batch_size",
    "trials",
    "samples",
}
"""Counts of which a large one, or a theorem's, is no error but takes its time."""


def _few(rng: Rng, end: int) -> list[int]:
    return rng.integers(0, end, int(rng.integers(1, 4))).tolist()


def _callback(*_: Any) -> None:
    raise UsersOwnError


def _matrix(rng: Rng) -> Any:
    return one_of(rng, [other(), data().to_scipy(), data().to_scipy(), named()])


def _of_items(rng: Rng) -> Any:
    return one_of(rng, [other(), sp.csr_array(data().to_scipy().T)])


def _filter(rng: Rng) -> Any:
    return one_of(
        rng,
        [
            None,
            _few(rng, N_ITEMS),
            [[0], [1, 2]],
            data().to_scipy()[:2],
            np.array([[0, 1], [2, 3]]),
        ],
    )


def _users(rng: Rng) -> Any:
    return one_of(rng, [0, 3, [0, 1], np.arange(N_USERS), "user-1", range(2), [N_USERS]])


def _items(rng: Rng) -> Any:
    return one_of(rng, [0, 3, [0, 1], np.arange(N_ITEMS), "item-1", range(2)])


def _metric(rng: Rng) -> Any:
    kinds = [mfrank.NDCG, mfrank.Recall, mfrank.MRR, mfrank.AUC, mfrank.Coverage, mfrank.Gini]
    beyond = [mfrank.Novelty, mfrank.IntraListSimilarity, mfrank.Serendipity]
    beyond += [mfrank.Miscalibration, mfrank.UnbiasedRecall, mfrank.UnbiasedNDCG]
    cut = [k @ 3 for k in [*kinds, *beyond] if k is not mfrank.AUC]
    return one_of(rng, [*kinds[:3], *cut, "ndcg@5"])


def _made(*kinds: Any) -> Callable[[Rng], Any]:
    """An object of one of the classes, whose options may be hostile."""
    return lambda rng: called(one_of(rng, kinds), rng, 0.2)


def _public(kind: type) -> list[Any]:
    found = [getattr(mfrank, name) for name in mfrank.__all__]
    return [one for one in found if isinstance(one, type) and issubclass(one, kind)]


_LOSSES = [loss for loss in _public(Loss) if loss is not Loss]
_OBJECTIVES = [
    *(mfrank.WRMF, mfrank.IALS, mfrank.EALS, mfrank.RG2, mfrank.RGX, mfrank.RGXPrinted),
    mfrank.RG2Sampled,
]
_SCHEDULES = [mfrank.Constant, mfrank.CosineDecay, mfrank.StepDecay]
_OPTIMIZERS = [mfrank.Adam, mfrank.Adagrad, mfrank.SGD, mfrank.Langevin]
_STORES = ("ALS", "named", "Descent", "SupervisedPageRank")


def _store(rng: Rng) -> Any:
    return model(one_of(rng, _STORES)).store


def _ids(rng: Rng) -> Any:
    return one_of(rng, [Ids.numbered(N_USERS), [f"u{n}" for n in range(N_USERS)], None])


def _space(rng: Rng) -> Any:
    knn, ease = {"neighbors": [1, 5]}, {"regularization": (1.0, 100.0)}
    return one_of(rng, [None, None, {mfrank.ItemKNN(): knn}, {mfrank.EASE(): ease}])


def _weight(rng: Rng) -> Any:
    return one_of(rng, [0.0, 0.3, 1.0])


PLAUSIBLE: dict[str, Callable[[Rng], Any]] = {
    "N": lambda rng: one_of(rng, [1, 3, 10, 100]),
    "accuracy": lambda rng: one_of(rng, ["certificate", 1e-3]),
    "alternations": lambda rng: one_of(rng, [0, 1, 3]),
    "at": lambda rng: one_of(rng, [(0.5,), (0.2, 0.8), ()]),
    "at_most": lambda rng: one_of(rng, [None, 1, {"a": 1}]),
    "backend": lambda rng: one_of(rng, ["auto", "cpu", "reference"]),
    "batches": lambda rng: one_of(rng, ["users", "positives"]),
    "batch_size": lambda rng: one_of(rng, [1, 4, 100]),
    "boosts": lambda rng: one_of(rng, [{}, {0: 0.5}, {"item-1": -2.0}, {0: 1000, 3: 1}]),
    "by_row": lambda rng: bool(rng.integers(2)),
    "calibration": _weight,
    "callback": lambda rng: one_of(rng, [lambda *_: None, _callback]),
    "candidates": lambda rng: one_of(rng, [1, 5, 30]),
    "correction": lambda rng: one_of(rng, ["max-t", "holm"]),
    "categories": lambda rng: one_of(
        rng, [None, {0: "a", 1: ["a", 2]}, dict.fromkeys(range(N_ITEMS), "a"), {"item-1": "a"}]
    ),
    "cells": lambda rng: np.zeros((2, 3), int),
    "checkpoint": lambda rng: None,
    "choice": lambda rng: one_of(rng, ["sigmoid", "softmax", "exact"]),
    "clip": lambda rng: one_of(rng, [None, 0.1]),
    "confidence": lambda rng: one_of(rng, ["alpha*r", "1+alpha*r"]),
    "counts": lambda rng: one_of(
        rng, [None, data().counts, Counts(np.ones(3, int), np.ones(2, int))]
    ),
    "cutoff": lambda rng: one_of(rng, [None, 1, 10]),
    "data": lambda rng: one_of(rng, [timed(), timed(), data()]),
    "cluster": lambda rng: one_of(rng, [None, None, None, Shuffled(2)]),
    "decay": lambda rng: one_of(rng, [1.0, 1.0, 0.5]),
    "diversity": _weight,
    "dtype": lambda rng: one_of(rng, ["float32", "float64", np.float64]),
    "duplicates": lambda rng: one_of(rng, ["sum", "max", "last"]),
    "empty": lambda rng: one_of(rng, [None, 0.0, 1.0]),
    "extras": lambda rng: one_of(rng, [{}, {"a": np.zeros(3)}, {"A-": np.ones(1)}, {1: 2}]),
    "factors": lambda rng: one_of(rng, [1, 3, 20]),
    "feature_regularization": lambda rng: one_of(rng, [1.0, 0.1, 1e30]),
    "features": lambda rng: np.random.default_rng(0).random((12, 3)),
    "filter_items": _filter,
    "filter_users": _filter,
    "fitter": lambda rng: one_of(
        rng, [{"name": "x", "options": {}}, {"name": "ALS", "options": {}}]
    ),
    "folder": lambda rng: None,
    "format": lambda rng: one_of(rng, ["parquet", "csv"]),
    "frame": lambda rng: frame(),
    "gather_dtype": lambda rng: one_of(rng, [None, "float16"]),
    "history": lambda rng: one_of(rng, [(), [{"epoch": 1, "seconds": 0.1, "objective": None}]]),
    "item_groups": lambda rng: one_of(
        rng, [None, mfrank.by_popularity(data()), mfrank.Groups.of(list("abcabcabcabc"))]
    ),
    "init": lambda rng: one_of(rng, ["spectral", "random"]),
    "interactions": lambda rng: one_of(rng, [data(), timed(), named(), 50]),
    "item": lambda rng: "item",
    "item_biases": lambda rng: one_of(rng, [None, True, np.ones(N_ITEMS, np.float32)]),
    "item_factors": lambda rng: np.ones((N_ITEMS, 3), np.float32),
    "item_features": lambda rng: one_of(
        rng, [None, np.ones((N_ITEMS, 2)), rng.random((N_ITEMS, 3))]
    ),
    "item_ids": lambda rng: one_of(rng, [Ids.numbered(N_ITEMS), list("abcdefghijkl"), None]),
    "item_prior": lambda rng: one_of(rng, [None, np.ones(N_ITEMS)]),
    "item_users": _of_items,
    "itemid": _items,
    "itemids": _items,
    "items": _filter,
    "iterations": lambda rng: one_of(rng, [0, 1, 2]),
    "judged": lambda rng: judged(),
    "k": lambda rng: one_of(rng, [1, 2]),
    "labels": lambda rng: None,
    "loss": lambda rng: _made(*_LOSSES)(rng),
    "mask": lambda rng: rng.random(data().nnz) < 0.5,
    "matrix": lambda rng: data().to_scipy(),
    "method": lambda rng: one_of(
        rng, [None, _made(pagerank.GBN)(rng), _made(pagerank.GFN)(rng), _made(pagerank.GBP)(rng)]
    ),
    "metric": _metric,
    "metrics": lambda rng: one_of(rng, [_metric(rng), [_metric(rng), _metric(rng)], []]),
    "model": lambda rng: model(one_of(rng, models())),
    "minutes": lambda rng: one_of(rng, [None, 0.001]),
    "models": lambda rng: {"one": mfrank.ALS(factors=2, iterations=1)},
    "n_threads": lambda rng: one_of(rng, [0, 1, 2, 3]),
    "name": lambda rng: one_of(rng, ["rg", "lightgcn", "implicit", "trec"]),
    "negative_sampling": lambda rng: one_of(rng, ["uniform", "popularity", "batch"]),
    "negatives": lambda rng: one_of(rng, [None, 1, 3, 20]),
    "new": _matrix,
    "objective": _made(*_OBJECTIVES),
    "on_unknown": lambda rng: one_of(rng, ["error", "skip"]),
    "optimizer": _made(*_OPTIMIZERS),
    "other": lambda rng: one_of(rng, [_store(rng), data()]),
    "part": lambda rng: one_of(rng, [0.2, 0.5]),
    "parts": lambda rng: one_of(
        rng, [[data(), other()], [data(), named()], [timed(), timed()], []]
    ),
    "patience": lambda rng: one_of(rng, [1, 2]),
    "peak_memory": lambda rng: False,
    "pool": lambda rng: one_of(rng, [None, 1, 50]),
    "popularity_penalty": _weight,
    "popularity_power": lambda rng: one_of(rng, [0.0, 0.75, -1.0]),
    "positives": lambda rng: one_of(rng, [None, 1, 10]),
    "prior": lambda rng: one_of(rng, [None, _store(rng)]),
    "queries": lambda rng: one_of(rng, [20, np.repeat(range(4), 3)]),
    "random_state": lambda rng: one_of(rng, [None, 0, np.random.default_rng(0)]),
    "relevance": lambda rng: np.arange(12) % 3,
    "ridge": lambda rng: one_of(rng, ["own", "authors"]),
    "schedule": _made(*_SCHEDULES),
    "scores": lambda rng: one_of(rng, [None, "dot", "cosine", "distance", np.arange(12.0)]),
    "sep": lambda rng: one_of(rng, [None, ",", "\t", "::", ";"]),
    "shape": lambda rng: one_of(rng, [None, (N_USERS, N_ITEMS), (3, 3)]),
    "show_progress": lambda rng: False,
    "solver": lambda rng: one_of(rng, ["auto", "cholesky", "cg"]),
    "space": _space,
    "start": lambda rng: one_of(
        rng, [None, model("ALS"), model("Descent"), _store(rng), np.ones(3)]
    ),
    "steer": lambda rng: one_of(rng, [None, _made(mfrank.Steering)(rng)]),
    "stopping": lambda rng: one_of(rng, [None, called(mfrank.EarlyStopping, rng, 0.2)]),
    "store": _store,
    "test": lambda rng: one_of(rng, [other(), other().to_scipy(), 0.1, 3]),
    "timestamp": lambda rng: one_of(rng, [None, False]),
    "timestamps": lambda rng: one_of(rng, [None, np.arange(20)]),
    "train": lambda rng: one_of(rng, [data(), data().to_scipy(), None, 0.8]),
    "trials": lambda rng: one_of(rng, [1, 2]),
    "user": lambda rng: "user",
    "user_biases": lambda rng: one_of(rng, [None, np.ones(N_USERS)]),
    "user_factors": lambda rng: np.ones((N_USERS, 3), np.float32),
    "user_features": lambda rng: one_of(rng, [None, np.ones((N_USERS, 2))]),
    "user_ids": _ids,
    "user_items": _matrix,
    "userid": _users,
    "userids": _users,
    "users": lambda rng: one_of(rng, [_few(rng, N_USERS), np.arange(20) % N_USERS]),
    "valid": lambda rng: one_of(rng, [other(), data().to_scipy(), 0.1]),
    "value": lambda rng: one_of(rng, [None, False]),
    "values": lambda rng: one_of(rng, [None, np.ones(20), [1.0, 2.0]]),
    "weight": lambda rng: one_of(rng, [0.5, 0.0, -1.0]),
    "window": lambda rng: one_of(rng, [None, 3.0, 0.0]),
    "y": lambda rng: None,
}
"""Arguments by name; the others have a default."""

OWN: dict[tuple[str, str], Callable[[Rng], Any]] = {
    ("ALS.recommend_all", "folder"): lambda rng: "lists",
    ("ALS.recommend_all", "filter_items"): lambda rng: None,
    ("EarlyStopping", "random_state"): lambda rng: 0,
    ("EarlyStopping", "users"): lambda rng: one_of(rng, [None, 1, 5]),
    ("FactorStore", "user_ids"): _ids,
    ("Interactions", "user_items"): lambda rng: data().user_items,
    ("Interactions", "timestamps"): lambda rng: one_of(rng, [None, np.arange(data().nnz)]),
    ("Interactions", "user_ids"): lambda rng: Ids.numbered(N_USERS),
    ("Interactions", "item_ids"): lambda rng: Ids.numbered(N_ITEMS),
    ("Interactions.from_arrays", "users"): lambda rng: np.arange(20) % N_USERS,
    ("Interactions.from_arrays", "items"): lambda rng: np.arange(20) % N_ITEMS,
    ("ALS.remove", "items"): _items,
    ("ALS.remove", "users"): _users,
    ("Groups", "names"): lambda rng: ("a", "b"),
    ("Groups", "of_rows"): lambda rng: rng.integers(-1, 2, 12),
    ("Groups.of", "labels"): lambda rng: ["a", None, 3],
    ("LinearRanker", "loss"): _made(mfrank.ListNet, mfrank.ListMLE, mfrank.LambdaRank),
    ("Reranker", "loss"): lambda rng: one_of(rng, ["YetiRank", "StochasticRank:metric=NDCG;top=3"]),
    ("StochasticRank", "metric"): lambda rng: one_of(rng, ["ndcg", "mrr"]),
    ("SupervisedPageRank", "loss"): _made(pagerank.SquareLoss),
    ("by_ratio", "test"): lambda rng: 0.1,
    ("by_ratio", "train"): lambda rng: 0.8,
    ("by_ratio", "valid"): lambda rng: 0.1,
    ("by_session", "interactions"): lambda rng: timed(),
    ("by_session", "test"): lambda rng: one_of(rng, [0.1, 20]),
    ("by_time", "test"): lambda rng: one_of(rng, [0.1, 20]),
    ("by_time", "interactions"): lambda rng: timed(),
    ("leave_last", "interactions"): lambda rng: timed(),
    ("fold_rows", "splits"): lambda rng: mfrank.by_ratio(frame()),
    ("rolling", "folds"): lambda rng: one_of(rng, [1, 2]),
    ("rolling", "interactions"): lambda rng: timed(),
    ("rolling", "test"): lambda rng: one_of(rng, [1, 3]),
    ("rolling", "valid"): lambda rng: one_of(rng, [None, 1]),
    ("user_folds", "folds"): lambda rng: one_of(rng, [2, 3]),
    ("paired_differences", "method"): lambda rng: one_of(rng, ["bootstrap", "permutation"]),
    ("serving.ask", "body"): hostile_requests.body,
    ("serving.ask", "method"): lambda rng: one_of(rng, [*["GET"] * 5, "POST", "POST", "PUT"]),
    ("serving.ask", "query"): hostile_requests.query,
    ("serving.ask", "route"): hostile_requests.route,
    ("synthetic", "interactions"): lambda rng: 50,
    ("tune", "random_state"): lambda rng: 0,
}

PATHS = {"path", "folder", "checkpoint", "storage"}


@dataclass(frozen=True)
class Entry:
    """A public name that is called; a method is called on the object that ``make`` makes."""

    name: str
    make: Callable[[Rng], Any]
    weight: float = 1.0

    def function(self, rng: Rng) -> Any:
        """What is called."""
        method = self.name.partition(".")[2]
        made = self.make(rng)
        return getattr(made, method) if method else made


def _model_of(name: str) -> Callable[[Rng], Any]:
    """A fitted model, one without a fit or one with odd options."""

    def make(rng: Rng) -> Any:
        if rng.random() < 0.6:
            return model(name)
        return called(getattr(mfrank, name), rng, 0.1)

    return make


def _other_als(rng: Rng) -> Any:
    return model(one_of(rng, ["named", "featured"]))


def _service(rng: Rng) -> Any:
    served = [name for name in models() if name != "LinearRanker"]
    return hostile_requests.Service(one_of(rng, served))


RECEIVERS: dict[str, Callable[[Rng], Any]] = {
    "ALS": lambda rng: _model_of("ALS")(rng) if rng.random() < 0.5 else _other_als(rng),
    "Descent": _model_of("Descent"),
    "SupervisedPageRank": _model_of("SupervisedPageRank"),
    "ItemKNN": _model_of("ItemKNN"),
    "LinearRanker": _model_of("LinearRanker"),
    "Popularity": _model_of("Popularity"),
    "Reranker": _model_of("Reranker"),
    "Recommender": lambda rng: mfrank.Recommender.of(_store(rng)),
    "FactorStore": _store,
    "Interactions": lambda rng: one_of(rng, [data(), named(), timed()]),
    "Judged": lambda rng: judged(),
}
RARE = {"compare": 0.1, "tune": 0.1, "Reranker.fit": 0.3, "synthetic": 0.5}
OFTEN = {"fit": 4.0, "recommend": 3.0, "similar_items": 2.0, "evaluate": 3.0, "from_arrays": 3.0}


def entries() -> Iterator[Entry]:
    """Every public name that can be called, and the methods of what it makes."""
    for name in mfrank.__all__:
        found = getattr(mfrank, name)
        if not callable(found) or (isinstance(found, type) and issubclass(found, Exception)):
            continue
        yield Entry(name, lambda rng, found=found: found, RARE.get(name, OFTEN.get(name, 1.0)))
        if name not in RECEIVERS or (name == "Reranker" and name not in models()):
            continue
        for method, _ in inspect.getmembers(found, callable):
            if not method.startswith("_") and method not in SEAMS:
                full = f"{name}.{method}"
                weight = RARE.get(full, OFTEN.get(method, 1.0))
                yield Entry(full, RECEIVERS[name], weight)
    if find_spec("fastapi") and find_spec("httpx2"):
        yield Entry("serving.ask", _service, 4.0)


class Told(list[str]):
    """The calls that were made, as they would be typed."""


told = Told()


def called(function: Any, rng: Rng, hostility: float, name: str = "") -> Any:
    """The result of a call with plausible arguments, of which some are not."""
    arguments = drawn(function, rng, hostility, name or getattr(function, "__name__", ""))
    told.append(
        f"{name or function}({', '.join(f'{k}={_short(v)}' for k, v in arguments.items())})"
    )
    return function(**arguments)


def drawn(function: Any, rng: Rng, hostility: float, name: str) -> dict[str, Any]:
    """Arguments by name."""
    chosen: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            if rng.random() < 0.3:
                chosen["capped" if rng.random() < 0.5 else "factors"] = anything(rng)
            continue
        hostile = rng.random() < hostility
        needed = parameter.default is parameter.empty
        long = parameter.name in LONG
        if not needed and not hostile and not long and rng.random() < 0.5:
            continue
        chosen[parameter.name] = argument(parameter, rng, hostile, name)
    return chosen


def argument(parameter: inspect.Parameter, rng: Rng, hostile: bool, function: str) -> Any:
    """A plausible argument, or a hostile one."""
    if parameter.name in PATHS:
        return path(rng, Path.cwd())
    value = (
        anything(rng) if hostile and rng.random() < 0.4 else _plausible(parameter, rng, function)
    )
    if hostile:
        value = damaged(value, rng)
    if parameter.name in LONG and (value is None or (is_count(value) and value > 3)):
        return 3
    return value


def _plausible(parameter: inspect.Parameter, rng: Rng, function: str) -> Any:
    make = OWN.get((function, parameter.name), PLAUSIBLE.get(parameter.name))
    if make is not None:
        return make(rng)
    if parameter.default is parameter.empty:
        return anything(rng)
    if isinstance(parameter.default, bool):
        return bool(rng.integers(2))
    return parameter.default


def _short(value: Any) -> str:
    try:
        text = f"{type(value).__name__} {value!r}"
    except BaseException:
        text = type(value).__name__
    return " ".join(text.split())[:120]
