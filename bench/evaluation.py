"""Seconds and peak memory of an evaluation of all users, metric by metric and all together.

An ALS is fitted to the training part. Each row of the table is then one call of ``evaluate`` for
all users of the test part, with its seconds and the memory that it adds to a fresh process; all but
the row with sampled negatives rank the whole catalog. The last rows compare two models by 2,000
samples.

    python bench/evaluation.py --data globo
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from harness.records import line, parser, save
from harness.subjects import data_folder

import mfrank
from mfrank.comparison import peak_memory
from mfrank.data import Split, from_npz, published_split

ACCURACY = ("ndcg@10", "recall@10", "mrr@10")
BEYOND = ("novelty@10", "intra_list_similarity@10", "serendipity@10", "miscalibration@10")
EVERYTHING = (*ACCURACY, *BEYOND, "coverage@10", "gini@10")


def split_of(name: str) -> Split:
    """The published split, or a tenth of each user's interactions."""
    folder = data_folder(name)
    with np.load(folder / "interactions.npz") as arrays:
        published = "split" in arrays
    return published_split(folder) if published else mfrank.by_ratio(from_npz(folder))


def main() -> None:
    """Measure, print, save."""
    made = parser(__doc__)
    made.add_argument("--data", default="globo")
    made.add_argument("--factors", type=int, default=64)
    args = made.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)

    split = split_of(args.data)
    options = {"factors": args.factors, "n_threads": args.threads, "random_state": 0}
    first, second = (
        mfrank.ALS(objective, iterations=5, **options).fit(split.train).store
        for objective in (mfrank.IALS(), mfrank.WRMF())
    )
    data = {"train": split.train, "n_threads": args.threads}
    call = partial(mfrank.evaluate, first, split.test, **data)
    groups = mfrank.by_popularity(split.train)
    calls: dict[str, Callable[[], Any]] = {
        "accuracy": partial(call, metrics=ACCURACY),
        **{metric: partial(call, metrics=metric) for metric in BEYOND},
        "by item group": partial(call, metrics=ACCURACY, item_groups=groups),
        "everything": partial(call, metrics=EVERYTHING, item_groups=groups),
        "100 negatives": partial(call, metrics=ACCURACY, negatives=100),
    }
    pair = {
        "IALS": call(metrics=ACCURACY),
        "WRMF": mfrank.evaluate(second, split.test, metrics=ACCURACY, **data),
    }
    for method in ("bootstrap", "permutation"):
        calls[method] = partial(mfrank.paired_differences, pair, "ndcg@10", method=method)
    rows = []
    for name, work in calls.items():
        seconds = []
        for _ in range(args.repeats):
            began = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - began)
        rows.append(
            {
                "call": name,
                "users": pair["IALS"].n_users,
                "seconds": float(np.median(seconds)),
                "peak_mb": (peak_memory(work) or 0) / 2**20,
            }
        )
        print(line(rows[-1]), flush=True)
    save(args.folder, f"evaluation-{args.data}", rows)


if __name__ == "__main__":
    main()
