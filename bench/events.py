"""How well purchases are ranked by a fit to all kinds of events, each with its weight.

Tmall: what was viewed, put into a cart and bought; one purchase of each user is held out, to be
ranked among all items that the user has not bought. ``alpha``, the ridge, the epochs and the
weights are chosen by NDCG@10 on another purchase of each user, held out of the training part. Then
the fit is made once more to the whole training part, and judged once. implicit fits the same
matrices.

``mfrank.tune`` has the same events and a time: it finds weights, and searches all of its models.
The same call, with the same time, has the purchases alone, and all kinds alike; differences are
paired by users. With ``--develop``, no test part is read: another purchase of each user takes its
place.

    python bench/events.py
    python bench/events.py --factors 16 --folder /tmp/trial
    python bench/events.py --tune 10
    python bench/events.py --tune 2 --develop --folder /tmp/trial
"""

from __future__ import annotations

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
ALPHAS = (0.1, 0.3, 1, 3, 10, 30)
RIDGES = (0.1, 1, 10, 100)
EPOCHS = (1, 2, 4, 8, 16)
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


def held_out(train: Events, seed: int = 0) -> tuple[Events, Events]:
    """A random purchase of each user who has several, and the rest."""
    order = np.random.default_rng(seed).permutation(np.flatnonzero(train.kinds == 2))
    _, first, counts = np.unique(train.users[order], return_index=True, return_counts=True)
    chosen = np.zeros(len(train.users), bool)
    chosen[order[first[counts > 1]]] = True
    return train.take(~chosen), train.take(chosen)


Watch = Callable[[int, mfrank.FactorStore], None]
"""Called after each epoch, with its number from 1 and the factors."""
Fit = Callable[["Chosen", Interactions, Watch], None]


def fit_mfrank(options: Chosen, data: Interactions, watch: Watch) -> None:
    """WRMF, as many epochs as the options have."""
    objective = mfrank.WRMF(alpha=options.alpha, regularization=options.ridge)
    model = mfrank.ALS(objective, options.factors, options.epochs, random_state=0)
    model.fit(data, callback=lambda epoch, *_: watch(epoch + 1, model.store))


def fit_implicit(options: Chosen, data: Interactions, watch: Watch) -> None:
    """The ALS of implicit."""
    model = AlternatingLeastSquares(
        factors=options.factors,
        alpha=options.alpha,
        regularization=options.ridge,
        iterations=options.epochs,
        random_state=0,
    )

    def seen(epoch: int, *_: Any) -> None:
        factors = model.user_factors.copy(), model.item_factors.copy()
        watch(epoch + 1, mfrank.FactorStore(*factors))

    with threadpool_limits(1, "blas"):
        model.fit(data.to_scipy(), show_progress=False, callback=seen)


def judged(store: Any, part: Events, bought: Interactions) -> Evaluation:
    """Rank what is held out among all that was not bought."""
    ranker = mfrank.Recommender.of(mfrank.FactorStore(store.user_factors, store.item_factors))
    return mfrank.evaluate(ranker, part.bought(), train=bought, metrics=list(METRICS))


class Chosen(NamedTuple):
    """Options of a fit, and what they reached."""

    value: float
    weights: dict[str, float | None]
    alpha: float
    ridge: float
    epochs: int
    factors: int


def best_epoch(fit: Fit, options: Chosen, rest: Events, valid: Events, bought: Any) -> Chosen:
    """The options with the best number of epochs."""
    found = [options]

    def watch(epoch: int, store: mfrank.FactorStore) -> None:
        if epoch in EPOCHS:
            value = judged(store, valid, bought)["ndcg@10"].value
            found.append(options._replace(value=value, epochs=epoch))

    fit(options, rest.weighted(options.weights), watch)
    return max(found, key=lambda each: each.value)


def searched(
    fit: Fit, rest: Events, valid: Events, start: dict[str, float | None], factors: int
) -> Chosen:
    """The best options for these weights."""
    bought = rest.bought()
    grid = [
        Chosen(-1.0, start, *how, EPOCHS[-1], factors) for how in itertools.product(ALPHAS, RIDGES)
    ]
    return max(
        (best_epoch(fit, each, rest, valid, bought) for each in grid), key=lambda each: each.value
    )


def with_weights(fit: Fit, rest: Events, valid: Events, best: Chosen) -> Chosen:
    """Change the weight of one kind after the other, as long as it helps."""
    bought = rest.bought()
    for kind in KINDS[:2] * 2:
        for factor in FACTORS_OF_A_WEIGHT:
            weights = {**best.weights, kind: (best.weights[kind] or 0) * factor}
            tried = best._replace(value=-1.0, weights=weights, epochs=EPOCHS[-1])
            reached = best_epoch(fit, tried, rest, valid, bought)
            best = max(best, reached, key=lambda each: each.value)
    return best


def last(fit: Fit, options: Chosen, data: Events) -> mfrank.FactorStore:
    """The factors of the last epoch."""
    stores = list[mfrank.FactorStore]()
    fit(options, data.weighted(options.weights), lambda _, store: stores.append(store))
    return stores[-1]


def rows_of(
    library: str, fit: Fit, train: Events, test: Events, factors: int
) -> list[dict[str, Any]]:
    """A row for each way to use the events."""
    rest, valid = held_out(train)
    some: dict[str, dict[str, float | None]] = {
        "purchases alone": {"view": None, "cart": None, "purchase": 1},
        "all alike": dict.fromkeys(KINDS, 1),
        "view 1, cart 3, purchase 5": {"view": 1, "cart": 3, "purchase": 5},
    }
    ways = {way: searched(fit, rest, valid, weights, factors) for way, weights in some.items()}
    ways["searched weights"] = with_weights(fit, rest, valid, ways["view 1, cart 3, purchase 5"])
    rows = []
    for way, chosen in ways.items():
        result = judged(last(fit, chosen, train), test, train.bought())
        rows.append(
            {
                "library": library,
                "events": way,
                **{metric: result[metric].value for metric in METRICS},
                "standard_error": result["ndcg@10"].standard_error,
                "weights": " ".join(f"{k}={w:g}" for k, w in chosen.weights.items() if w),
                "alpha": chosen.alpha,
                "regularization": chosen.ridge,
                "epochs": chosen.epochs,
            }
        )
        print(line(rows[-1]), flush=True)
    return rows


WAYS: dict[str, dict[str, float | None] | None] = {
    "weights found": None,
    "purchases alone": {"view": None, "cart": None, "purchase": 1},
    "all alike": dict.fromkeys(KINDS, 1),
}


def tuned(train: Events, test: Events, minutes: float) -> list[dict[str, Any]]:
    """What ``mfrank.tune`` reaches; the purchase to choose by is that of the other searches."""
    ids = [np.arange(n) for n in train.shape]
    own, chooses = (
        mfrank.Events.from_arrays(
            part.users, part.items, np.array(KINDS)[part.kinds], user_ids=ids[0], item_ids=ids[1]
        )
        for part in held_out(train)
    )
    held_out_ids = mfrank.Interactions.from_arrays(
        test.users, test.items, user_ids=own.user_ids, item_ids=own.item_ids
    )
    rows, results = list[dict[str, Any]](), list[Evaluation]()
    for way, weights in WAYS.items():
        found = mfrank.tune(
            own,
            target="purchase",
            weights=weights,
            valid=chooses,
            metric="ndcg@10",
            minutes=minutes,
            show_progress=True,
        )
        print(found, flush=True)
        results.append(mfrank.evaluate(found.model, held_out_ids, metrics=list(METRICS)))
        first, last = (each["ndcg@10"] for each in (results[0], results[-1]))
        rows.append(
            {
                "library": "mfrank",
                "events": f"mfrank.tune, {minutes:g} minutes, {way}",
                **{metric: results[-1][metric].value for metric in METRICS},
                "standard_error": last.standard_error,
                "behind": first.value - last.value if weights else None,
                "p": first.paired(last, mfrank.NDCG @ 10).p_value if weights else None,
                "weights": " ".join(f"{k}={w:g}" for k, w in (found.weights or {}).items() if w),
                "model": type(found.model).__name__,
            }
        )
        print(line(rows[-1]), flush=True)
    return rows


def main() -> None:
    """Search, fit, judge, and write the rows."""
    arguments = parser(__doc__)
    arguments.add_argument("--factors", type=int, default=64)
    arguments.add_argument("--tune", type=float, metavar="MINUTES", help="only by mfrank.tune")
    arguments.add_argument("--develop", action="store_true", help="read no test part")
    args = arguments.parse_args()
    train, test = read()
    if args.develop:
        train, test = held_out(train, seed=1)
    if args.tune is not None:
        save(args.folder, "events-tune", tuned(train, test, args.tune))
        return
    rows = [
        *rows_of("mfrank", fit_mfrank, train, test, args.factors),
        *rows_of("implicit", fit_implicit, train, test, args.factors),
    ]
    save(args.folder, "events", rows)


if __name__ == "__main__":
    main()
