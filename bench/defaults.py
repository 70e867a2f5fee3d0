"""How well untuned models rank, beside implicit's untuned ALS.

Each model is made with its default options and fitted once to the training part, with unscaled
values where the data have some (counts, ratings). The parts are those of ``bench/tuned.py``; the
users of yoochoose-100k are sessions. Differences from implicit's are paired by users.

Where values differ, *of ones* is implicit's ALS fitted to ones in place of the values.

With ``--develop`` no test part is read: a part is held out of the training part. Defaults are
chosen in this way, on all data sets together.

    python bench/defaults.py
    python bench/defaults.py --data lastfm-2k ml-100k --develop
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from harness.records import line, parser, save
from harness.subjects import developed, divided
from threadpoolctl import threadpool_limits

import mfrank
from mfrank.data import Split
from mfrank.evaluation import Evaluation

SUBJECTS = (
    *("ml-1m", "gowalla", "lastfm-2k", "citeulike-a", "globo", "retail"),
    *("ml-100k", "ml-1m-seq", "yoochoose-100k"),
)
METRICS = mfrank.NDCG @ 20, mfrank.Recall @ 20
JUDGED = 20_000
"""Most users of a data set who are judged, a seeded sample."""
PEER, PEER_OF_ONES = "implicit ALS", "implicit ALS, of ones"
MODELS: Mapping[str, Callable[..., Any]] = {
    "ALS()": mfrank.ALS,
    "ALS(WRMF())": lambda **options: mfrank.ALS(mfrank.WRMF(), **options),
    "ALS(IALS())": lambda **options: mfrank.ALS(mfrank.IALS(), **options),
    "ALS(EALS())": lambda **options: mfrank.ALS(mfrank.EALS(), **options),
    "ALS(RGX())": lambda **options: mfrank.ALS(mfrank.RGX(), **options),
    "Descent()": mfrank.Descent,
    "Descent(BPR())": lambda **options: mfrank.Descent(mfrank.BPR(), **options),
    "Descent(SONG())": lambda **options: mfrank.Descent(mfrank.SONG(), **options),
}


class Peer:
    """implicit's ALS as it is made without options, fitted to values as they are, or to ones."""

    def __init__(self, *, of_ones: bool, random_state: int, n_threads: int) -> None:
        from implicit.cpu.als import AlternatingLeastSquares

        self.of_ones = of_ones
        self.model = AlternatingLeastSquares(random_state=random_state, num_threads=n_threads)

    def fit(self, train: mfrank.Interactions) -> None:
        """Fit to a matrix of users x items."""
        matrix = train.to_scipy().astype(np.float32)
        if self.of_ones:
            matrix.data[:] = 1
        self.model.fit(matrix, show_progress=False)

    def recommend(self, *args: Any, **options: Any) -> Any:
        """See implicit."""
        return self.model.recommend(*args, **options)


def contenders(split: Split, args: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Models that are not fitted yet, by name, implicit's first."""
    options = {"random_state": args.seed, "n_threads": args.threads}
    yield PEER, Peer(of_ones=False, **options)
    if np.ptp(split.train.user_items.data) > 0:
        yield PEER_OF_ONES, Peer(of_ones=True, **options)
    for name in args.models:
        yield name, MODELS[name](**options)


def judged(split: Split, seed: int) -> Any:
    """Rows of the users that are judged: with interactions in both parts."""
    both = (split.train.counts.users > 0) & (split.test.counts.users > 0)
    users = np.flatnonzero(both)
    if len(users) <= JUDGED:
        return users
    return np.sort(np.random.default_rng(seed).choice(users, JUDGED, replace=False))


def rows_of(split: Split, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each model, with its paired differences to implicit's."""
    users = judged(split, args.seed)
    first: Evaluation | None = None
    for name, model in contenders(split, args):
        began = time.perf_counter()
        model.fit(split.train)
        row: dict[str, Any] = {"model": name, "fit_seconds": time.perf_counter() - began}
        found = mfrank.evaluate(
            model,
            split.test,
            train=split.train,
            metrics=METRICS,
            users=users,
            by_row=True,
            n_threads=args.threads,
        )
        first = first or found
        for metric in METRICS:
            row[str(metric).lower()] = found[metric].value
            if found is not first:
                above = found.compare(first, metric)
                row[f"{str(metric).lower()}_above"] = above.mean
                row[f"{str(metric).lower()}_interval"] = f"{above.low:+.4f} to {above.high:+.4f}"
        yield row


def main() -> None:
    """Fit, judge, print and save, data set by data set."""
    made = parser(__doc__)
    made.add_argument("--data", nargs="+", choices=SUBJECTS, default=SUBJECTS)
    made.add_argument("--models", nargs="+", choices=MODELS, default=tuple(MODELS))
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--develop", action="store_true", help="leave the test parts alone")
    args = made.parse_args()
    for name in args.data:
        rows = []
        with threadpool_limits(args.threads, "blas"):
            split = divided(name)
            if args.develop:
                split = developed(split, METRICS[0], args.seed, args.threads)
            for row in rows_of(split, args):
                print(name, line(row), flush=True)
                rows.append({"data": name, **row})
        kind = f"defaults-developed-{args.seed}" if args.develop else "defaults"
        save(args.folder, f"{kind}-{name}", rows)


if __name__ == "__main__":
    main()
