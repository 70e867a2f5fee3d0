"""How well ``mfrank.tune`` ranks, with the same single call for every data set.

The test part is the published one where there is one, else the latest fifth of the interactions
where there are times, else a random fifth of each user's. Of ml-1m-seq, it is the last item of each
user, and the searches choose by the item before; of sessions (yoochoose-100k, globo-sessions), the
last item of the latest ones, and the searches choose by that of the sessions before these.
``mfrank.compare`` gets this split and gives the minutes to ``tune`` and, for the same search on the
same validation part, to each opponent that is installed: implicit's ALS, BPR and LMF, irspack's
RP3beta, SANSA, item-kNN and, with times, recent popularity. Beside them: popularity; EASE as Steck
states it, with a ridge chosen on that part (and only for the most popular items, ``--ease-items``,
where its matrix would not fit); of sequences and sessions, V-SkNN, chosen on that part; and with
``--networks`` a GRU4Rec in PyTorch on the CPU, which gets the same minutes, and a SASRec, which
gets ten times these. What was found is fitted once more to the whole training part and judged once
on the test part; differences from ``tune`` are paired by users.

With ``--without NAME`` ``tune`` alone is run, with its whole space and, for each NAME, without one
family or ladder of it (``mfrank.tuning.families``), such as "next item" or EASE, or without the
trees: what it adds.

With ``--develop`` no test part is read: a part is held out of the training part as ``tune`` does
it; ``tune`` alone gets the rest, and is judged on the held-out part. Changes of the search are
judged in this way.

    python bench/tuned.py lastfm-2k citeulike-a ml-1m gowalla retail globo --minutes 10
    python bench/tuned.py ml-1m-seq yoochoose-100k globo-sessions --minutes 5
    python bench/tuned.py citeulike-a ml-1m lastfm-2k --minutes 1 --ease-items 4000 --threads 1
    python bench/tuned.py yoochoose-100k --minutes 2 --networks
    python bench/tuned.py gowalla --minutes 10 --models "implicit ALS" popularity
    python bench/tuned.py gowalla ml-1m --minutes 3 --threads 1 --seed 1 --develop
    python bench/tuned.py retail gowalla --minutes 2 --threads 1 --develop --without ALS Descent
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp
from contenders.next_item import VSKNN, Network
from harness.records import line, parser, save
from harness.subjects import developed, divided, last_held_out, last_of_sessions
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import mfrank
from mfrank.comparison import usual_models
from mfrank.data import Split
from mfrank.tuning import (
    SPACE,
    TIMED_SPACE,
    Predict,
    Space,
    TrialJudge,
    learned_order,
    search_result,
)

SESSIONS = {"yoochoose-100k": "yoochoose-100k", "globo-sessions": "globo"}
"""The data of each."""
SUBJECTS = (
    *SESSIONS,
    "ml-1m-seq",
    "ml-1m",
    "gowalla",
    "lastfm-2k",
    "citeulike-a",
    "globo",
    "retail",
    "movietweetings",
)
CHOSEN_BY = mfrank.NDCG @ 20
PAIRED = (CHOSEN_BY, mfrank.NDCG @ 10, mfrank.Recall @ 20, mfrank.Recall @ 10)
METRICS = (
    *(*PAIRED, mfrank.MRR @ 20, mfrank.UnbiasedRecall @ 20, mfrank.UnbiasedNDCG @ 20),
    mfrank.Coverage @ 20,
)
TUNE, TREES = "mfrank.tune", "trees"
MOST_FACTORS = 512
USERS_AT_ONCE = 1000
RIDGES = (30.0, 100.0, 300.0, 1000.0, 3000.0)


def judge_of(train: mfrank.Interactions, args: argparse.Namespace) -> TrialJudge:
    """The validation part of every search."""
    return TrialJudge.of(train, CHOSEN_BY, args.seed, args.threads, predict=args.predict)


class Steck:
    """EASE (Steck 2019), whose ridge is chosen on a part that is held out."""

    needs_times = True

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args

    def fit(self, user_items: mfrank.Interactions, **_: Any) -> None:
        """Choose the ridge and fit to all."""
        judge = judge_of(user_items, self.args)
        scores = []
        for ridge in RIDGES:
            self._fit(judge.train.user_items, ridge)
            scores.append(judge.score(self.recommend).value)
        self._fit(user_items.user_items, RIDGES[int(np.argmax(scores))])

    def _fit(self, matrix: Any, ridge: float) -> None:
        self.model = mfrank.EASE(ridge, neighbors=2000).fit(likes_of(matrix))

    def recommend(self, users: NDArray[Any], user_items: Any, N: int = 10) -> Any:
        """Lists of users, by row."""
        return self.model.recommend(users, user_items, N=N, by_row=True)


class ChosenVSKNN(VSKNN):
    """V-SkNN whose numbers of sessions are chosen on a part that is held out."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self.args = args

    def fit(self, user_items: mfrank.Interactions, **_: Any) -> ChosenVSKNN:
        """Choose and fit to all."""
        judge = judge_of(user_items, self.args)
        scores = []
        for numbers in self.grid:
            self.k, self.sample = numbers
            super().fit(judge.train)
            scores.append(judge.score(self.recommend).value)
        self.k, self.sample = self.grid[int(np.argmax(scores))]
        return super().fit(user_items)


class PopularEASE(Steck):
    """The same of the most popular items; all others score 0."""

    def __init__(self, n_items: int, args: argparse.Namespace) -> None:
        super().__init__(args)
        self.n_items = n_items

    def _fit(self, matrix: Any, ridge: float) -> None:
        """B = I - P / diag(P), where P is the inverse of X'X + ridge."""
        self.likes = likes_of(matrix)
        popularity = np.asarray(self.likes.sum(axis=0)).ravel()
        self.kept = np.sort(np.argsort(-popularity, kind="stable")[: self.n_items])
        self.of_kept = self.likes[:, self.kept]
        gram = (self.of_kept.T @ self.of_kept).toarray()
        inverse = np.linalg.inv(gram + ridge * np.eye(len(self.kept), dtype="f4"))
        self.weights = -inverse / np.diag(inverse)
        np.fill_diagonal(self.weights, 0.0)

    def recommend(self, users: NDArray[Any], user_items: Any, N: int = 10) -> Any:
        """Lists of users, by row."""
        rows, parts = sp.csr_array(user_items), []
        for begin in range(0, len(users), USERS_AT_ONCE):
            part = slice(begin, begin + USERS_AT_ONCE)
            parts.append(self._lists(users[part], rows[part], N))
        return tuple(map(np.vstack, zip(*parts, strict=True)))

    def _lists(self, users: NDArray[Any], rows: sp.csr_array, n: int) -> Any:
        scores = np.zeros((len(users), self.likes.shape[1]), np.float32)
        scores[:, self.kept] = self.of_kept[users] @ self.weights
        scores[np.repeat(np.arange(len(users)), np.diff(rows.indptr)), rows.indices] = -np.inf
        top = np.argpartition(-scores, n - 1, axis=1)[:, :n]
        order = np.argsort(-np.take_along_axis(scores, top, 1), axis=1, kind="stable")
        ids = np.take_along_axis(top, order, 1)
        return ids, np.take_along_axis(scores, ids, 1)


class LikesKNN(mfrank.ItemKNN):
    """Item-kNN of which items users have, whatever their values."""

    def fit(self, user_items: Any, **options: Any) -> Any:
        """Fit to ones."""
        return super().fit(likes_of(user_items), **options)


def likes_of(matrix: Any) -> sp.csr_array:
    """Which items each user has, without values."""
    rows = getattr(matrix, "user_items", matrix)
    return sp.csr_array((sp.csr_array(rows) > 0).astype(np.float32))


def contenders(split: Split, args: argparse.Namespace) -> dict[str, Any]:
    """Models by name."""
    if args.develop or args.without:
        return {TUNE: mfrank.tune}
    train = split.train
    found = usual_models(
        *(None,),
        tuned=True,
        factors=MOST_FACTORS,
        iterations=15,
        n_threads=args.threads,
        random_state=args.seed,
        timed=train.timestamps is not None,
    )
    ease: dict[str, Any] = {"EASE": Steck(args)}
    if min(train.n_users, train.n_items) > args.ease_items:
        ease = {f"EASE, {args.ease_items:,} items": PopularEASE(args.ease_items, args)}
    own = {**ease, "item-kNN": LikesKNN(), "popularity": mfrank.Popularity()}
    if args.predict:
        own["V-SkNN"] = ChosenVSKNN(args)
    if args.predict and args.networks and find_spec("torch") is None:
        print("GRU4Rec and SASRec are left out: pip install torch", flush=True)
    elif args.predict and args.networks:
        judge, how = partial(judge_of, args=args), {"seed": args.seed, "threads": args.threads}
        own["GRU4Rec"] = Network(args.minutes, judge, recurrent=True, **how)
        own["SASRec, 10 times the minutes"] = Network(10 * args.minutes, judge, **how)
    replaced = ("mfrank EASE", "mfrank ItemKNN", "mfrank Popularity")
    every = {name: model for name, model in found.items() if name not in replaced} | own
    wanted = {TUNE, *(args.models or every)}
    return {name: model for name, model in every.items() if name in wanted}


@contextmanager
def left_out(name: str) -> Iterator[None]:
    """Every search is without a family, without the families of a ladder, or without trees."""
    if name == TREES:
        with (
            patch.object(search_result, "can_be_tried", lambda: False),
            patch.object(learned_order, "can_be_tried", lambda: False),
        ):
            yield
        return
    usual = Space.able

    def able(space: Space, needs: Any) -> Any:
        kept, reasons = usual(space, needs)
        ladders = {
            ladder: some
            for ladder, of in kept.ladders.items()
            if ladder != name and (some := tuple(one for one in of if one.name != name))
        }
        return Space(ladders, tuple(one for one in kept.baselines if one.name != name)), reasons

    with patch.object(Space, "able", able):
        yield


def ablated(split: Split, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for the whole search, and one without each family."""
    whole = compared(split, args)
    yield from rows_of(whole)
    for name in args.without:
        with left_out(name):
            found = compared(split, args)
        (row,) = rows_of(found)
        yield row | {"model": f"without {name}"} | behind(whole, found.rows[0].evaluation)


def compared(split: Split, args: argparse.Namespace) -> mfrank.comparison.Comparison:
    """All models, tuned and judged; what is left out is told."""
    found = mfrank.compare(
        split,
        models=contenders(split, args),
        tune=args.minutes,
        predict=args.predict,
        factors=MOST_FACTORS,
        n_threads=args.threads,
        repeats=1,
        metrics=METRICS,
        random_state=args.seed,
        peak_memory=False,
        show_progress=args.show_progress,
    )
    for note in found.notes:
        if "left out" in note:
            print(note, flush=True)
    return found


def rows_of(comparison: mfrank.comparison.Comparison) -> Iterator[dict[str, Any]]:
    """A row for each model, with its paired differences to the first."""
    for found in comparison.rows:
        row = {"model": found.model}
        row |= {str(m).lower(): found.evaluation[m].value for m in METRICS}
        if found.model != TUNE:
            row |= behind(comparison, found.evaluation)
        if board := comparison.leaderboards.get(found.model):
            best = board[0]
            row |= {"trials": len(board), "chosen": best["model"], "valid": best["value"]}
        yield row | {"fit_seconds": found.total_seconds}


def behind(comparison: mfrank.comparison.Comparison, evaluation: Any) -> dict[str, Any]:
    """How far ``tune`` is ahead of another model, paired by users."""
    row: dict[str, Any] = {}
    for metric in PAIRED:
        ahead = comparison[TUNE].evaluation.compare(evaluation, metric)
        of = "" if metric == CHOSEN_BY else f" {metric}".lower()
        row[f"{metric}_below".lower()] = ahead.mean
        row[f"interval{of}"] = f"{ahead.low:+.4f} to {ahead.high:+.4f}"
        row[f"p{of}"] = ahead.p_value
    return row


def subject(name: str, args: argparse.Namespace) -> tuple[Predict | None, Split]:
    """What is to be predicted, if that is a next item, and the data."""
    if name in SESSIONS:
        split = last_of_sessions(SESSIONS[name], CHOSEN_BY, args.seed, args.threads)
        return "session", split
    if name == "ml-1m-seq":
        return "next", last_held_out(name)
    return None, divided(name)


def main() -> None:
    """Tune, judge, print and save, data set by data set."""
    made = parser(__doc__)
    made.add_argument("data", nargs="+", choices=SUBJECTS)
    made.add_argument("--minutes", type=float, default=10.0, help="of each search")
    made.add_argument("--ease-items", type=int, default=20_000, help="most items of EASE")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--develop", action="store_true", help="leave the test parts alone")
    families = {one.name for one in (*TIMED_SPACE.families(), *SPACE.baselines)}
    names = sorted({*families, *TIMED_SPACE.ladders, TREES})
    made.add_argument("--without", nargs="+", default=[], choices=names)
    made.add_argument(
        "--models", nargs="+", metavar="NAME", help="opponents of tune (default: all)"
    )
    made.add_argument("--networks", action="store_true", help="GRU4Rec, SASRec; needs torch")
    made.add_argument("--show-progress", action="store_true")
    args = made.parse_args()
    for name in args.data:
        rows = []
        with threadpool_limits(args.threads, "blas"):
            args.predict, split = subject(name, args)
            if args.develop:
                split = developed(split, CHOSEN_BY, args.seed, args.threads, args.predict)
            found = ablated(split, args) if args.without else rows_of(compared(split, args))
            for row in found:
                print(name, line(row), flush=True)
                rows.append(row)
        kind = "without" if args.without else "tuned"
        kind = f"{kind}-developed-{args.seed}" if args.develop else kind
        save(Path(args.folder), f"{kind}-{name}-{args.minutes:g}", rows, minutes=args.minutes)


if __name__ == "__main__":
    main()
