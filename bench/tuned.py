"""How well ``mfrank.tune`` ranks, by one call that is the same for every data set.

The test part is the published one where there is one, else the latest fifth of the interactions
where there are times, else a random fifth of each user's. ``tune`` gets the training part and the
minutes. Beside it: implicit's ALS, searched for the same minutes on the same validation part, in
the units in which ``tune`` searches WRMF, any width and up to 15 epochs; EASE of the most popular
items that fit (``--ease-items``), its ridge chosen on that part; item-kNN and popularity. Every
model is fitted once more to the whole training part and judged once on the test part; differences
to ``tune`` are paired by users.

With ``--develop`` no test part is read: ``tune`` alone gets the rest of the training part, after a
part is held out of it as ``tune`` does, and is judged on that. Changes of the search are judged so.

    python bench/tuned.py lastfm-2k citeulike-a ml-1m gowalla retail globo --minutes 10
    python bench/tuned.py citeulike-a ml-1m lastfm-2k --minutes 1 --ease-items 4000 --threads 1
    python bench/tuned.py gowalla ml-1m --minutes 3 --threads 1 --seed 1 --develop
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness.records import line, parser, save
from harness.subjects import data_folder
from numpy.typing import NDArray
from scipy.stats import qmc
from threadpoolctl import threadpool_limits

import mfrank
from mfrank.data.datasets import from_npz, published_split
from mfrank.data.splits import Split
from mfrank.evaluation.report import Evaluation
from mfrank.tuning.facts import Facts
from mfrank.tuning.families import Closed, named
from mfrank.tuning.judge import Judge

SUBJECTS = ("ml-1m", "gowalla", "lastfm-2k", "citeulike-a", "globo", "retail")
CHOSEN_BY = mfrank.NDCG @ 20
METRICS = (
    *(mfrank.NDCG @ 10, CHOSEN_BY, mfrank.Recall @ 20, mfrank.MRR @ 20),
    mfrank.Coverage @ 20,
)
WIDTHS, EPOCHS, PATIENCE = (32, 512), 15, 2
RIDGES = (30.0, 100.0, 300.0, 1000.0)

Recommend = Callable[..., tuple[NDArray[Any], NDArray[Any]]]


def subject(name: str) -> Split:
    """Training and test part."""
    folder = data_folder(name)
    with np.load(folder / "interactions.npz") as arrays:
        columns = set(arrays)
    if "split" in columns:
        return published_split(folder)
    data = from_npz(folder)
    if data.timestamps is not None:
        return mfrank.by_time(data, test=0.2)
    return mfrank.by_ratio(data, train=0.8, valid=0.0, test=0.2, random_state=0)


def developed(split: Split, args: argparse.Namespace) -> Split:
    """The training part alone, divided as by ``tune``, but by another seed."""
    judge = Judge.of(split.train, CHOSEN_BY, 1000 + args.seed, args.threads)
    return replace(split, train=judge.train, test=judge.valid)


class Look:
    """Judges implicit after every epoch, and ends its fit past the best epoch or out of time."""

    def __init__(self, model: Any, judge: Judge, ends: float) -> None:
        self.model, self.judge, self.ends = model, judge, ends
        self.values: list[float] = []
        self.seconds: list[float] = []

    def __call__(self, epoch: int, seconds: float, *_: Any) -> None:
        """After an epoch."""
        self.seconds.append(seconds)
        self.values.append(self.judge.score(self.model).value)
        past_best = len(self.values) - self.best > PATIENCE
        if past_best or time.perf_counter() + seconds > self.ends:
            raise StopIteration

    @property
    def best(self) -> int:
        """Epochs until the best."""
        return self.values.index(max(self.values)) + 1


def implicit_als(judge: Judge, train: sp.csr_matrix, args: argparse.Namespace) -> Any:
    """The best of implicit's ALS that is found in the minutes, those of its refit kept."""
    from implicit.cpu.als import AlternatingLeastSquares

    ends = time.perf_counter() + 60 * args.minutes
    facts, wrmf, fitted = Facts.of(judge.train), named("WRMF"), judge.train.to_scipy()
    assert isinstance(wrmf, Closed)
    value, epochs, options, refit = -1.0, 0, dict[str, Any](), 0.0
    for *places, width in points(3, args.seed):
        if time.perf_counter() + refit > ends:
            break
        values = {axis.name: axis.at(at) for axis, at in zip(wrmf.axes, places, strict=False)}
        objective = wrmf.scaled(values | {"nu": 0.0}, facts)
        assert isinstance(objective, mfrank.WRMF)
        tried = {
            "factors": int(WIDTHS[0] * (WIDTHS[1] / WIDTHS[0]) ** width),
            "alpha": objective.alpha,
            "regularization": objective.regularization,
            "num_threads": args.threads,
            "random_state": args.seed,
        }
        model = AlternatingLeastSquares(iterations=EPOCHS, **tried)
        look = Look(model, judge, ends - refit)
        with suppress(StopIteration):
            model.fit(fitted, show_progress=False, callback=look)
        if max(look.values) > value:
            value, epochs, options = max(look.values), look.best, tried
            refit = 1.25 * sum(look.seconds[:epochs])
    model = AlternatingLeastSquares(iterations=epochs, **options)
    model.fit(train, show_progress=False)
    return model


def points(n_axes: int, seed: int) -> Iterator[tuple[float, ...]]:
    """The middle of the cube, then points of a scrambled Sobol sequence."""
    yield (0.5,) * n_axes
    sampler = qmc.Sobol(n_axes, rng=np.random.default_rng(seed))
    while True:
        for point in sampler.random_base2(6):
            yield tuple(point)


def ease(judge: Judge, train: sp.csr_matrix, args: argparse.Namespace) -> Recommend:
    """EASE (Steck 2019) of the most popular items; all others score 0."""
    valid_train = judge.train.to_scipy()
    scores = [judge.score(ease_of(valid_train, ridge, args)).value for ridge in RIDGES]
    return ease_of(train, RIDGES[int(np.argmax(scores))], args)


def ease_of(matrix: sp.csr_matrix, ridge: float, args: argparse.Namespace) -> Recommend:
    """Lists by B = I - P / diag(P), where P is the inverse of X'X + ridge."""
    likes = sp.csr_array(matrix > 0).astype(np.float32)
    popularity = np.asarray(likes.sum(axis=0)).ravel()
    kept = np.sort(np.argsort(-popularity, kind="stable")[: args.ease_items])
    of_kept = likes[:, kept]
    inverse = np.linalg.inv((of_kept.T @ of_kept).toarray() + ridge * np.eye(len(kept), dtype="f4"))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)

    def recommend(users: NDArray[Any], user_items: Any, N: int = 10) -> Any:
        scores = np.zeros((len(users), likes.shape[1]), np.float32)
        scores[:, kept] = of_kept[users] @ weights
        rows = sp.csr_array(user_items)
        scores[np.repeat(np.arange(len(users)), np.diff(rows.indptr)), rows.indices] = -np.inf
        top = np.argpartition(-scores, N - 1, axis=1)[:, :N]
        order = np.argsort(-np.take_along_axis(scores, top, 1), axis=1, kind="stable")
        ids = np.take_along_axis(top, order, 1)
        return ids, np.take_along_axis(scores, ids, 1)

    return recommend


def likes_of(train: mfrank.Interactions) -> sp.csr_matrix:
    """Which items each user has, without values."""
    return sp.csr_matrix((train.user_items > 0).astype(np.float32))


def contenders(split: Split, args: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Name, what is told of it, and the fitted model."""
    began = time.perf_counter()
    tuned = mfrank.tune(
        split.train,
        minutes=args.minutes,
        random_state=args.seed,
        n_threads=args.threads,
        show_progress=args.show_progress,
    )
    told = {
        "seconds": time.perf_counter() - began,
        "trials": len(tuned.leaderboard),
        "chosen": tuned.leaderboard[0]["model"],
        "valid": tuned.leaderboard[0]["value"],
        "held_out": tuned.validation,
    }
    yield "mfrank.tune", told, tuned.model
    if args.develop:
        return
    judge = Judge.of(split.train, CHOSEN_BY, args.seed, args.threads)
    train = split.train.to_scipy()
    fits: dict[str, Callable[[], Any]] = {
        "implicit ALS": lambda: implicit_als(judge, train, args),
        f"EASE, {min(args.ease_items, split.train.n_items):,} items": lambda: ease(
            judge, train, args
        ),
        "item-kNN": lambda: mfrank.ItemKNN().fit(likes_of(split.train)),
        "popularity": lambda: mfrank.Popularity().fit(split.train),
    }
    for name, fit in fits.items():
        began = time.perf_counter()
        model = fit()
        yield name, {"seconds": time.perf_counter() - began}, model


def rows_of(split: Split, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each model, with its paired difference to the first."""
    first: Evaluation | None = None
    for name, told, model in contenders(split, args):
        result = mfrank.evaluate(
            model,
            split.test.user_items,
            train=split.train.user_items,
            metrics=METRICS,
            n_threads=args.threads,
        )
        row = {"model": name, **{str(m).lower(): result[m].value for m in METRICS}}
        if first is None:
            first = result
        else:
            behind = first.compare(result, CHOSEN_BY)
            row |= {
                "ndcg@20_below": behind.mean,
                "interval": f"{behind.low:+.4f} to {behind.high:+.4f}",
                "p": behind.p_value,
            }
        yield row | told


def main() -> None:
    """Tune, judge, print and save, data set by data set."""
    made = parser(__doc__)
    made.add_argument("data", nargs="+", choices=SUBJECTS)
    made.add_argument("--minutes", type=float, default=10.0, help="of tune, and of implicit")
    made.add_argument("--ease-items", type=int, default=20_000, help="most items of EASE")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--develop", action="store_true", help="leave the test parts alone")
    made.add_argument("--show-progress", action="store_true")
    args = made.parse_args()
    for name in args.data:
        rows = []
        with threadpool_limits(args.threads, "blas"):
            split = subject(name)
            for row in rows_of(developed(split, args) if args.develop else split, args):
                print(name, line(row), flush=True)
                rows.append(row)
        kind = f"developed-{args.seed}" if args.develop else "tuned"
        save(Path(args.folder), f"{kind}-{name}-{args.minutes:g}", rows, minutes=args.minutes)


if __name__ == "__main__":
    main()
