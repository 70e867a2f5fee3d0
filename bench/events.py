"""How well purchases are ranked by a fit to all kinds of events, each with its weight.

Tmall: what was viewed, put into a cart and bought; one purchase of each user is held out, to be
ranked among all items that the user has not bought. ``alpha``, the ridge and the weights are chosen
by NDCG@10 on another purchase of each user, held out of the training part. Then the fit is made
once more to the whole training part, and judged once. implicit fits the same matrices.

    python bench/events.py
    python bench/events.py --factors 16 --epochs 3 --folder /tmp/trial
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from harness.records import line, parser, save
from harness.subjects import data_folder
from implicit.cpu.als import AlternatingLeastSquares
from threadpoolctl import threadpool_limits

import mfrank
from mfrank.data import Interactions
from mfrank.evaluation import Evaluation

METRICS = ("ndcg@10", "recall@10")
KINDS = ("view", "cart", "purchase")
ALPHAS = (1, 3, 10, 30)
RIDGES = (0.3, 3, 30, 100)
FACTORS_OF_A_WEIGHT = (0.2, 0.5, 2, 5)
"""Steps by which a weight is tried, one kind after the other."""


class Events(NamedTuple):
    """Rows of events, and how many users and items there are."""

    users: np.ndarray[Any, Any]
    items: np.ndarray[Any, Any]
    kinds: np.ndarray[Any, Any]
    shape: tuple[int, int]

    def take(self, rows: np.ndarray[Any, Any]) -> Events:
        """Some of the rows."""
        return Events(self.users[rows], self.items[rows], self.kinds[rows], self.shape)

    def weighted(self, weights: dict[str, float | None]) -> Interactions:
        """The sum of the weights of each pair's events."""
        events = np.array(KINDS)[self.kinds]
        return Interactions.from_arrays(
            self.users, self.items, events=events, weights=weights, shape=self.shape
        )

    def bought(self) -> Interactions:
        """Purchases alone, whatever their number."""
        own = self.weighted({"view": None, "cart": None, "purchase": 1})
        return own.at_least(1, binary=True)


def read() -> tuple[Events, Events]:
    """Training and test part."""
    with np.load(data_folder("tmall-events") / "interactions.npz") as arrays:
        users, items, kinds, split = (arrays[k] for k in ("user", "item", "event", "split"))
    every = Events(users, items, kinds, (users.max() + 1, items.max() + 1))
    return every.take(split == 0), every.take(split == 2)


def held_out(train: Events) -> tuple[Events, Events]:
    """A random purchase of each user who has several, and the rest."""
    order = np.random.default_rng(0).permutation(np.flatnonzero(train.kinds == 2))
    _, first, counts = np.unique(train.users[order], return_index=True, return_counts=True)
    chosen = np.zeros(len(train.users), bool)
    chosen[order[first[counts > 1]]] = True
    return train.take(~chosen), train.take(chosen)


Fit = Callable[[Interactions, float, float], Any]


def of_mfrank(args: argparse.Namespace) -> Fit:
    """Factors of WRMF."""

    def fit(data: Interactions, alpha: float, ridge: float) -> Any:
        objective = mfrank.WRMF(alpha=alpha, regularization=ridge)
        how = {"random_state": 0, "n_threads": args.threads}
        return mfrank.ALS(objective, args.factors, args.epochs, **how).fit(data).store

    return fit


def of_implicit(args: argparse.Namespace) -> Fit:
    """Factors of implicit's ALS."""

    def fit(data: Interactions, alpha: float, ridge: float) -> Any:
        model = AlternatingLeastSquares(
            factors=args.factors,
            alpha=alpha,
            regularization=ridge,
            iterations=args.epochs,
            num_threads=args.threads,
            random_state=0,
        )
        with threadpool_limits(1, "blas"):
            model.fit(data.to_scipy(), show_progress=False)
        return mfrank.FactorStore(model.user_factors, model.item_factors)

    return fit


def judged(store: Any, part: Events, bought: Interactions) -> Evaluation:
    """Rank what is held out among all that was not bought."""
    ranker = mfrank.Recommender.of(mfrank.FactorStore(store.user_factors, store.item_factors))
    return mfrank.evaluate(ranker, part.bought(), train=bought, metrics=list(METRICS))


class Chosen(NamedTuple):
    """The best options so far, and what they reached."""

    value: float
    weights: dict[str, float | None]
    alpha: float
    ridge: float


def searched(fit: Fit, rest: Events, valid: Events, start: dict[str, float | None]) -> Chosen:
    """The best alpha and ridge for these weights."""
    data, bought = rest.weighted(start), rest.bought()
    found = [
        Chosen(judged(fit(data, *how), valid, bought)["ndcg@10"].value, start, *how)
        for how in itertools.product(ALPHAS, RIDGES)
    ]
    return max(found)


def with_weights(fit: Fit, rest: Events, valid: Events, best: Chosen) -> Chosen:
    """Change the weight of one kind after the other, as long as it helps."""
    bought = rest.bought()
    for kind in KINDS[:2] * 2:
        for factor in FACTORS_OF_A_WEIGHT:
            weights = {**best.weights, kind: (best.weights[kind] or 0) * factor}
            store = fit(rest.weighted(weights), best.alpha, best.ridge)
            value = judged(store, valid, bought)["ndcg@10"].value
            best = max(best, Chosen(value, weights, best.alpha, best.ridge), key=lambda c: c.value)
    return best


def rows_of(library: str, fit: Fit, train: Events, test: Events) -> list[dict[str, Any]]:
    """A row for each way to use the events."""
    rest, valid = held_out(train)
    alone: dict[str, float | None] = {"view": None, "cart": None, "purchase": 1}
    ways = {
        "purchases alone": searched(fit, rest, valid, alone),
        "all alike": searched(fit, rest, valid, dict.fromkeys(KINDS, 1)),
    }
    first = searched(fit, rest, valid, {"view": 1, "cart": 3, "purchase": 5})
    ways |= {"view 1, cart 3, purchase 5": first}
    ways |= {"searched weights": with_weights(fit, rest, valid, first)}
    rows = []
    for way, chosen in ways.items():
        store = fit(train.weighted(chosen.weights), chosen.alpha, chosen.ridge)
        result = judged(store, test, train.bought())
        rows.append(
            {
                "library": library,
                "events": way,
                **{metric: result[metric].value for metric in METRICS},
                "standard_error": result["ndcg@10"].standard_error,
                "weights": " ".join(f"{k}={w:g}" for k, w in chosen.weights.items() if w),
                "alpha": chosen.alpha,
                "regularization": chosen.ridge,
            }
        )
        print(line(rows[-1]), flush=True)
    return rows


def main() -> None:
    """Search, fit, judge, and write the rows."""
    arguments = parser(__doc__)
    arguments.add_argument("--factors", type=int, default=64)
    arguments.add_argument("--epochs", type=int, default=8)
    args = arguments.parse_args()
    train, test = read()
    rows = [
        *rows_of("mfrank", of_mfrank(args), train, test),
        *rows_of("implicit", of_implicit(args), train, test),
    ]
    save(args.folder, "events", rows)


if __name__ == "__main__":
    main()
