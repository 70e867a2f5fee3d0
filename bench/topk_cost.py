"""Users per second that get their best items, what they have filtered.

Both libraries answer from the same fitted factors for every user of the data set, 2 threads,
float32, in alternating runs; rows are medians, the ratio the median of the repeats' ratios. globo
has 322,897 users and 46,033 items.

    python bench/topk_cost.py --data gowalla globo --factors 64 128 --n 10 100
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from subjects import ImplicitALS, interactions, save
from threadpoolctl import threadpool_limits

import mfrank
from mfrank.data.interactions import Interactions

IMPLICIT_BATCH = 1000
"""Users implicit is asked for at a time; its own evaluation asks for as many."""


def mfrank_lists(model: mfrank.ALS, data: Interactions, n: int, threads: int) -> Callable[[], Any]:
    """All users through ``recommend``."""
    users = np.arange(data.n_users)
    return lambda: model.recommend(users, data.user_items, N=n, by_row=True, n_threads=threads)


def implicit_lists(
    model: mfrank.ALS, data: Interactions, n: int, threads: int
) -> Callable[[], Any]:
    """All users through implicit's ``recommend``, in batches, one BLAS thread."""
    peer = ImplicitALS(factors=model.factors, n_threads=threads).model
    peer.user_factors, peer.item_factors = model.user_factors.copy(), model.item_factors.copy()
    rows = sp.csr_matrix(data.user_items)

    def ask() -> None:
        with threadpool_limits(1, "blas"):
            for begin in range(0, data.n_users, IMPLICIT_BATCH):
                users = np.arange(begin, min(begin + IMPLICIT_BATCH, data.n_users))
                peer.recommend(users, rows[users], N=n)

    return ask


def main() -> None:
    """Measure, print a table, save it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["gowalla", "globo"])
    parser.add_argument("--factors", nargs="+", type=int, default=[64, 128])
    parser.add_argument("--n", nargs="+", type=int, default=[10])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()

    rows = []
    for name in args.data:
        data = interactions(name)
        for factors in args.factors:
            options = {"factors": factors, "iterations": 3, "n_threads": args.threads}
            model = mfrank.ALS(mfrank.IALS(), **options, random_state=0).fit(data)
            for n in args.n:
                asks = {
                    "mfrank": mfrank_lists(model, data, n, args.threads),
                    "implicit": implicit_lists(model, data, n, args.threads),
                }
                seconds: dict[str, list[float]] = {library: [] for library in asks}
                for _ in range(args.repeats):
                    for library, ask in asks.items():
                        began = time.perf_counter()
                        ask()
                        seconds[library].append(time.perf_counter() - began)
                ratio = np.median(np.divide(seconds["implicit"], seconds["mfrank"]))
                row = {
                    "data": name,
                    "factors": factors,
                    "n": n,
                    **{
                        f"{library}_users_per_second": data.n_users / float(np.median(s))
                        for library, s in seconds.items()
                    },
                    "times_implicit": float(ratio),
                }
                rows.append(row)
                print(
                    f"{name:8} {factors:4} factors, N = {n:3}: mfrank "
                    f"{row['mfrank_users_per_second']:9,.0f} users/s, implicit "
                    f"{row['implicit_users_per_second']:9,.0f}, {ratio:.2f}x",
                    flush=True,
                )
    save(args.folder, "topk-cost", rows)


if __name__ == "__main__":
    main()
