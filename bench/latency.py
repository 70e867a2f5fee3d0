"""Microseconds of a call for one user's list, or for one item's neighbors: one call at a time.

mfrank and implicit answer from the same float32 factors and leave out what the user has. implicit
has one BLAS thread, as it asks for, or as many as mfrank. Libraries take turns; times are medians
over the calls, ``over_mfrank`` is the median of the rounds' ratios.

    python bench/latency.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from harness.records import line, parser, save
from harness.subjects import interactions
from implicit.cpu.als import AlternatingLeastSquares
from threadpoolctl import threadpool_limits

import mfrank
from mfrank.data import Interactions

Call = Callable[[int], Any]


def calls(model: mfrank.ALS, data: Interactions, args: Any) -> dict[str, dict[str, Call]]:
    """What each library is asked, by question."""
    with threadpool_limits(1, "blas"):
        peer = AlternatingLeastSquares(factors=model.factors, num_threads=args.threads)
    peer.user_factors, peer.item_factors = model.user_factors.copy(), model.item_factors.copy()
    rows = data.to_scipy()
    own = {"by_row": True, "n_threads": args.threads}
    return {
        "recommend": {
            "mfrank": lambda user: model.recommend(user, N=args.n, **own),
            "implicit": lambda user: peer.recommend(user, rows[user], N=args.n),
        },
        "similar_items": {
            "mfrank": lambda item: model.similar_items(item, N=args.n, **own),
            "implicit": lambda item: peer.similar_items(item, N=args.n),
        },
    }


def microseconds(ask: Call, n_calls: int) -> float:
    """Median of so many calls, after one that is not counted."""
    time.sleep(0.5)  # while BLAS threads of whoever was asked before still spin
    ask(0)
    taken = []
    for one in range(n_calls):
        began = time.perf_counter()
        ask(one)
        taken.append(time.perf_counter() - began)
    return 1e6 * float(np.median(taken))


def race(model: mfrank.ALS, data: Interactions, args: Any) -> list[dict[str, Any]]:
    """A row for each question and contender."""
    found = []
    for question, by_library in calls(model, data, args).items():
        rounds: dict[str, list[float]] = {}
        for _ in range(args.repeats):
            rounds.setdefault("mfrank", []).append(microseconds(by_library["mfrank"], args.calls))
            for threads in sorted({1, args.threads}):
                with threadpool_limits(threads, "blas"):
                    taken = microseconds(by_library["implicit"], args.calls)
                rounds.setdefault(f"implicit, {threads} BLAS", []).append(taken)
        for contender, taken in rounds.items():
            ratios = np.divide(taken, rounds["mfrank"])
            found.append(
                {
                    "factors": model.factors,
                    "question": question,
                    "contender": contender,
                    "microseconds": float(np.median(taken)),
                    "over_mfrank": float(np.median(ratios)),
                }
            )
            print(line(found[-1]), flush=True)
    return found


def main() -> None:
    """Measure, print, save."""
    made = parser(__doc__, repeats=5)
    made.add_argument("--data", default="gowalla")
    made.add_argument("--factors", nargs="+", type=int, default=[64, 256])
    made.add_argument("--n", type=int, default=10)
    made.add_argument("--calls", type=int, default=300)
    args = made.parse_args()

    data, rows = interactions(args.data), []
    for factors in args.factors:
        options = {"factors": factors, "iterations": 3, "n_threads": args.threads}
        rows += race(mfrank.ALS(mfrank.IALS(), **options, random_state=0).fit(data), data, args)
    save(args.folder, f"latency-{args.data}", rows)


if __name__ == "__main__":
    main()
