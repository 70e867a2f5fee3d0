"""How well a descent ranks for users it was not fitted to, by several ways to find their factors.

A tenth of the users is held out whole; a fifth of what each has is to be ranked, the rest is given.
"the linear map" is what ``Descent.recalculate_user`` does. "ridge" solves the row of iALS against
the items, with the weights that bring the users of the fit nearest to their factors. "steps" are 40
epochs of the loss's own steps on the new users, with the items held. "refit" is a fit to the other
users and to what is given of these.

    python bench/fold_in.py
    python bench/fold_in.py --data gowalla --losses BPR
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness.records import line, parser, save
from harness.subjects import data_folder
from numpy.typing import NDArray

import mfrank
from mfrank.descent import FactorTables

SETS = ("ml-100k", "ml-1m", "citeulike-a", "gowalla")
BACKGROUNDS, RIDGES = (0.03, 0.3, 1.0), (0.1, 1.0, 10.0)
METRICS = ["ndcg@20", "recall@20"]

Users = NDArray[np.floating]


def pattern(name: str) -> mfrank.Interactions:
    """Which user has which item."""
    with np.load(data_folder(name) / "interactions.npz") as arrays:
        return mfrank.Interactions.from_arrays(arrays["user"], arrays["item"], duplicates="max")


def fitted(data: mfrank.Interactions, loss: str, args: argparse.Namespace) -> mfrank.Descent:
    """A descent; hinges and logistic losses begin with an ALS."""
    model = mfrank.Descent(getattr(mfrank, loss)(), args.factors, args.epochs, random_state=0)
    if loss == "SampledSoftmax":
        return model.fit(data)
    return model.fit(
        data, start=mfrank.ALS(mfrank.IALS(), args.factors, 10, random_state=0).fit(data)
    )


def ridge(model: mfrank.Descent, given: sp.csr_array) -> Users:
    """Rows of iALS, with the weights whose users point most as those of the fit."""
    items, known = model.item_factors.astype(np.float64), model.seen.positives
    users = model.user_factors.astype(np.float64)
    sample = np.random.default_rng(0).permutation(np.flatnonzero(np.diff(known.indptr)))[:500]
    gram = items.T @ items
    scale = np.trace(gram) / len(gram) / 10

    def solved(rows: sp.csr_array, background: float, weight: float) -> Users:
        found = np.zeros((rows.shape[0], items.shape[1]))
        shared = background * gram + weight * scale * np.eye(len(gram))
        for at in range(len(found)):
            own = items[rows.indices[rows.indptr[at] : rows.indptr[at + 1]]]
            found[at] = np.linalg.solve(own.T @ own + shared, own.sum(axis=0))
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-30)

    def nearness(options: tuple[float, float]) -> float:
        return float((solved(known[sample], *options) * users[sample]).sum())

    best = max(itertools.product(BACKGROUNDS, RIDGES), key=nearness)
    return solved(given, *best) * np.linalg.norm(users[sample], axis=1).mean()


def steps(model: mfrank.Descent, given: sp.csr_array) -> Users:
    """The loss's own steps, from the mean of all users, with the items held."""
    kept = model.store
    mean = np.tile(kept.user_factors.mean(axis=0), (given.shape[0], 1))
    start = mfrank.FactorStore(mean, kept.item_factors, item_biases=kept.item_biases)
    options = {"optimizer": mfrank.Adam(0.05, decay_1=0.5), "iterations": 40, "random_state": 0}
    fresh = mfrank.Descent(model.loss, model.factors, **options)
    update = FactorTables.update

    def of_users(self: FactorTables, *args: Any, **more: Any) -> None:
        held = self.items.copy(), None if self.biases is None else self.biases.copy()
        update(self, *args, **more)
        self.items[:] = held[0]
        if self.biases is not None:
            self.biases[:] = held[1]

    FactorTables.update = of_users  # type: ignore[method-assign]
    try:
        return fresh.fit(given, start=start).user_factors
    finally:
        FactorTables.update = update  # type: ignore[method-assign]


def measured(name: str, loss: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each way."""
    data = pattern(name)
    split = mfrank.held_out_users(data, test=0.1, random_state=0)
    given, target = split.test.fold_in, split.test.target
    users, columns = given.user_ids, given.user_items
    model = fitted(split.train, loss, args)
    store = model.store

    def ranked(factors: Users, items: mfrank.FactorStore) -> mfrank.Recommender:
        return mfrank.Recommender.of(
            mfrank.FactorStore(
                factors.astype(np.float32), items.item_factors, users, items.item_ids,
                item_biases=items.item_biases,
            )
        )  # fmt: skip

    def refit() -> mfrank.Recommender:
        whole = fitted(split.train + given, loss, args)
        return ranked(whole.user_factors[whole.user_ids.rows(users.labels)], whole.store)

    ways: dict[str, Callable[[], mfrank.Recommender]] = {
        "refit": refit,
        "the linear map": lambda: ranked(model.recalculate_user(users.labels, given), store),
        "ridge": lambda: ranked(ridge(model, columns), store),
        "steps": lambda: ranked(steps(model, columns), store),
    }
    rows = []
    for way, found in ways.items():
        began = time.perf_counter()
        ranker = found()
        seconds = time.perf_counter() - began
        value = mfrank.evaluate(ranker, target, train=given, metrics=METRICS)
        row = {"data": name, "loss": loss, "by": way, "seconds": round(seconds, 3)}
        row |= {metric: round(value[metric].value, 5) for metric in METRICS}
        row["error"] = round(value["ndcg@20"].standard_error, 5)
        print(line(row), flush=True)
        rows.append(row)
    return rows


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("--data", nargs="+", default=SETS)
    arguments.add_argument("--losses", nargs="+", default=("SampledSoftmax", "BPR"))
    arguments.add_argument("--factors", type=int, default=64)
    arguments.add_argument("--epochs", type=int, default=20)
    args = arguments.parse_args()
    pairs = itertools.product(args.data, args.losses)
    save(args.folder, "fold-in", [row for pair in pairs for row in measured(*pair, args)])
