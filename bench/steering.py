"""What steering lists costs and does: each lever of ``mfrank.Steering`` along its weight.

Lists of 10 from an IALS model, without what users have. ``steering-cost-DATA`` has microseconds per
list for each lever and for plain lists, measured in alternation, for many users at a time and for
one; ``over_plain`` is the median of the rounds' ratios. ``steering-DATA`` has, along each lever's
weight, NDCG on the test part, coverage and Gini of the catalog, and means over the lists:
``diversity``, 1 minus the mean cosine of factors over the pairs of items; ``categories``, how many
a list has; and ``divergence``, Steck's, between the shares of categories in the list and those in
what the user has.

Categories are the genres of items.csv. Without that file they are fifths of the interactions, from
the most popular items down, so that calibration and caps act on popularity.

    python bench/steering.py
"""

from __future__ import annotations

import csv
import time
from collections.abc import Hashable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from harness.records import line, parser, save
from harness.subjects import data_folder, load
from numpy.typing import NDArray

import mfrank
from mfrank.data import Interactions, Split
from mfrank.steering import ALPHA, ItemCategories, shares_of

Categories = Mapping[int, list[Hashable]]

N = 10
OBJECTIVE = mfrank.IALS(alpha0=0.1, regularization=0.003, nu=1)
_SAMPLE = 2000
"""Users whose lists are looked into."""


def categories_of(name: str, data: Interactions) -> Categories:
    """Genres by item, or fifths of the interactions."""
    file = data_folder(name) / "items.csv"
    if file.exists():
        with file.open(encoding="utf-8", newline="") as lines:
            return {int(row["item"]): row["genres"].split("|") for row in csv.DictReader(lines)}
    users = data.counts.items
    order = np.argsort(-users, kind="stable")
    before = np.cumsum(users[order]) - users[order]
    fifths = np.minimum(5 * before // max(users.sum(), 1), 4)
    return {int(item): [int(fifth)] for item, fifth in zip(order, fifths, strict=True)}


def levers(categories: Categories) -> dict[str, dict[float, mfrank.Steering]]:
    """Each lever at several weights."""
    weights = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
    return {
        "popularity_penalty": {
            weight: mfrank.Steering(popularity_penalty=weight)
            for weight in (0.25, 0.5, 1.0, 1.5, 2.0)
        },
        "at_most": {
            cap: mfrank.Steering(categories=categories, at_most=cap) for cap in (5, 4, 3, 2)
        },
        "diversity": {weight: mfrank.Steering(diversity=weight) for weight in weights},
        "calibration": {
            weight: mfrank.Steering(categories=categories, calibration=weight) for weight in weights
        },
    }


def boosted(data: Interactions) -> mfrank.Steering:
    """A boost of 50 items drawn at random, as an editor's campaign."""
    items = np.random.default_rng(0).choice(data.n_items, 50, replace=False).tolist()
    return mfrank.Steering(boosts=dict.fromkeys(items, 0.5))


def effects(model: mfrank.ALS, split: Split, categories: Categories, args: Any) -> Iterator[Any]:
    """A row for the plain lists, and for each lever and weight."""
    describe = partial(effect, model, split, categories, args.threads)
    yield {"lever": "plain", "weight": 0, **describe(None)}
    for lever, by_weight in levers(categories).items():
        for weight, steer in by_weight.items():
            yield {"lever": lever, "weight": weight, **describe(steer)}


def effect(
    model: mfrank.ALS,
    split: Split,
    categories: Categories,
    threads: int,
    steer: mfrank.Steering | None,
) -> dict[str, float]:
    """Metrics of the lists."""
    metrics = [f"{name}@{N}" for name in ("ndcg", "coverage", "gini")]
    found = mfrank.evaluate(
        model, split.test, train=split.train, metrics=metrics, n_threads=threads, steer=steer
    )
    told = {metric: float(found[metric].value) for metric in metrics}
    n_users = split.train.n_users
    users = np.random.default_rng(0).choice(n_users, min(_SAMPLE, n_users), replace=False)
    ids = model.recommend(users, split.train, N, by_row=True, n_threads=threads, steer=steer).ids
    return told | looked_into(ids[(ids >= 0).all(1)], users[(ids >= 0).all(1)], model, categories)


def looked_into(
    ids: NDArray[Any], users: NDArray[Any], model: mfrank.ALS, categories: Categories
) -> dict[str, float]:
    """Means over full lists."""
    of_list = model.store.item_directions[ids]
    cosines = np.matmul(of_list, of_list.transpose(0, 2, 1))
    pairs = np.triu_indices(N, 1)
    known = ItemCategories.of(categories, len(model.item_ids), np.asarray)
    cells = np.zeros((len(ids), known.width))
    np.add.at(
        cells, (np.arange(len(ids))[:, None, None], known.columns[ids]), known.shares[ids] / N
    )
    assert model.seen is not None
    wanted = shares_of(model.seen.rows_of("user").pick(users), known)
    listed = (1 - ALPHA) * cells + ALPHA * wanted
    logs = np.log(np.divide(wanted, listed, out=np.ones_like(wanted), where=wanted > 0))
    return {
        "diversity": float(1 - cosines[:, pairs[0], pairs[1]].mean()),
        "categories": float((cells[:, : len(known.numbers)] > 0).sum(1).mean()),
        "divergence": float((wanted * logs).sum(1).mean()),
    }


def costs(model: mfrank.ALS, data: Interactions, categories: Categories, args: Any) -> Any:
    """A row for the plain lists and for each lever, of many users at a time and of one."""
    asked: dict[str, mfrank.Steering | None] = {
        "plain": None,
        "boosts": boosted(data),
        "popularity_penalty": mfrank.Steering(popularity_penalty=0.5),
        "at_most 5": mfrank.Steering(categories=categories, at_most=5),
        "at_most 2": mfrank.Steering(categories=categories, at_most=2),
        "diversity": mfrank.Steering(diversity=0.3),
        "calibration": mfrank.Steering(categories=categories, calibration=0.3),
        "all": mfrank.Steering(boosted(data).boosts, 0.5, categories, 5, 0.3, 0.3),
    }
    users = np.arange(min(args.users, data.n_users))
    for kind, batches in (("many", [users]), ("one", users[:200].tolist())):
        rounds: dict[str, list[float]] = {lever: [] for lever in asked}
        for _ in range(args.repeats + 1):
            for lever, steer in asked.items():
                rounds[lever].append(microseconds(model, batches, steer, args.threads))
        for lever, taken in rounds.items():
            kept = np.array(taken[1:])  # the first round sets levers and caches
            yield {
                "users": kind,
                "lever": lever,
                "microseconds": float(np.median(kept)),
                "over_plain": float(np.median(kept / rounds["plain"][1:])),
            }


def microseconds(
    model: mfrank.ALS, batches: list[Any], steer: mfrank.Steering | None, threads: int
) -> float:
    """Time of a list: the median over the batches."""
    taken = []
    for users in batches:
        began = time.perf_counter()
        model.recommend(users, N=N, by_row=True, n_threads=threads, steer=steer)
        taken.append((time.perf_counter() - began) / np.size(users))
    return 1e6 * float(np.median(taken))


def main() -> None:
    """Measure, print, save."""
    made = parser(__doc__, repeats=5)
    made.add_argument("--data", nargs="+", default=["ml-1m-seq", "gowalla"])
    made.add_argument("--factors", type=int, default=64)
    made.add_argument("--users", type=int, default=10_000, help="asked for at a time")
    made.add_argument("--parts", nargs="+", default=["cost", "effect"], choices=["cost", "effect"])
    args = made.parse_args()

    for name in args.data:
        split = load(name)
        options = {"factors": args.factors, "iterations": 8, "n_threads": args.threads}
        model = mfrank.ALS(OBJECTIVE, **options, random_state=0).fit(split.train)
        categories = categories_of(name, split.train)
        for part, kind, rows in (
            ("cost", "steering-cost", costs(model, split.train, categories, args)),
            ("effect", "steering", effects(model, split, categories, args)),
        ):
            if part not in args.parts:
                continue
            found = []
            for row in rows:
                found.append({"data": name, **row})
                print(line(found[-1]), flush=True)
            save(args.folder, f"{kind}-{name}", found, fit=options)


if __name__ == "__main__":
    main()
