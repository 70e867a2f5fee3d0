"""How long small things take, beside implicit: one list, an item's neighbors, a fit, an import.

- Lists and neighbors, one call at a time: mfrank and implicit answer from the same float32 factors
  and leave out what the user has. implicit has one BLAS thread, as it asks for, or as mfrank.
- A fit of a small matrix: WRMF with the same numbers, mfrank as it comes, implicit by conjugate
  gradients (its default) and by Cholesky, on one thread and on as many as mfrank.
- ``import``: a process that imports numpy and one of the two, less one that imports numpy.

Libraries take turns; times are medians over the rounds, ``over_mfrank`` is the median of the
rounds' ratios.

    python bench/latency.py
    python bench/latency.py --parts lists --data gowalla --factors 64 256
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from harness.records import line, parser, save
from harness.subjects import interactions
from implicit.cpu.als import AlternatingLeastSquares
from threadpoolctl import threadpool_limits

import mfrank
from mfrank.data import Interactions

Call = Callable[[int], Any]
Measure = Callable[[], float]


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


def with_blas(threads: int, measure: Measure) -> float:
    """What is measured while BLAS has so many threads."""
    with threadpool_limits(threads, "blas"):
        return measure()


def race(contenders: Mapping[str, Measure], unit: str, args: Any, **facts: Any) -> list[Any]:
    """A row for each contender, the first of which is mfrank, from so many rounds in turns."""
    rounds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(args.repeats):
        for name, measure in contenders.items():
            rounds[name].append(measure())
    first = next(iter(rounds.values()))
    found = []
    for name, taken in rounds.items():
        ratio = float(np.median(np.divide(taken, first)))
        row = {**facts, "contender": name, unit: float(np.median(taken)), "over_mfrank": ratio}
        print(line(row), flush=True)
        found.append(row)
    return found


def lists(data: Interactions, args: Any) -> list[Any]:
    """A row for each width, question and contender."""
    found = []
    for factors in args.factors:
        options = {"factors": factors, "iterations": 3, "n_threads": args.threads}
        model = mfrank.ALS(mfrank.IALS(), **options, random_state=0).fit(data)
        for question, ask in calls(model, data, args).items():
            contenders: dict[str, Measure] = {
                "mfrank": lambda ask=ask: microseconds(ask["mfrank"], args.calls)
            }
            for threads in sorted({1, args.threads}):
                contenders[f"implicit, {threads} BLAS"] = lambda threads=threads, ask=ask: (
                    with_blas(threads, lambda: microseconds(ask["implicit"], args.calls))
                )
            found += race(contenders, "microseconds", args, factors=factors, question=question)
    return found


def fits(data: Interactions, args: Any) -> list[Any]:
    """A row for each width and contender, whose fits have 15 epochs."""
    matrix, found = data.to_scipy(), []

    def seconds(make: Callable[[], Any], **options: Any) -> float:
        began = time.perf_counter()
        make().fit(matrix, **options)
        return time.perf_counter() - began

    def peer(factors: int, cg: bool, threads: int) -> float:
        options = {"factors": factors, "alpha": 10, "regularization": 1, "random_state": 0}

        def make() -> Any:
            return AlternatingLeastSquares(**options, use_cg=cg, num_threads=threads)

        return with_blas(1, lambda: seconds(make, show_progress=False))

    def own(factors: int) -> float:
        options = {"factors": factors, "n_threads": args.threads, "random_state": 0}
        return seconds(lambda: mfrank.ALS(mfrank.WRMF(alpha=10, regularization=1), **options))

    for factors in args.factors:
        contenders: dict[str, Measure] = {"mfrank": lambda factors=factors: own(factors)}
        for cg in (True, False):
            for threads in sorted({1, args.threads}):
                name = f"implicit, {'cg' if cg else 'cholesky'}, {threads} threads"
                contenders[name] = lambda of=(factors, cg, threads): peer(*of)
        found += race(contenders, "seconds", args, factors=factors)
    return found


def imports(args: Any) -> list[Any]:
    """A row for each library: seconds beyond those of numpy."""

    def seconds(more: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import numpy; {more}"], check=True)
        return time.perf_counter() - began

    def beyond(more: str) -> float:
        return seconds(more) - seconds("")

    contenders = {"mfrank.ALS": "import mfrank; mfrank.ALS", "mfrank": "import mfrank"}
    contenders |= {"implicit.als": "import implicit.als", "scipy.sparse": "import scipy.sparse"}
    made = {name: (lambda more=more: beyond(more)) for name, more in contenders.items()}
    return race(made, "seconds_beyond_numpy", args)


def main() -> None:
    """Measure, print, save."""
    made = parser(__doc__, repeats=5)
    made.add_argument("--parts", nargs="+", choices=["lists", "fits", "import"])
    made.add_argument("--data", nargs="+", default=["gowalla", "ml-100k"])
    made.add_argument("--small", default="ml-100k", help="what is fitted")
    made.add_argument("--factors", nargs="+", type=int, default=[16, 64, 128, 256])
    made.add_argument("--n", type=int, default=10)
    made.add_argument("--calls", type=int, default=300)
    args = made.parse_args()
    parts = args.parts or ["lists", "fits", "import"]

    if "import" in parts:
        save(args.folder, "latency-import", imports(args))
    if "fits" in parts:
        save(args.folder, f"latency-fits-{args.small}", fits(interactions(args.small), args))
    if "lists" in parts:
        for name in args.data:
            rows = [{"data": name, **row} for row in lists(interactions(name), args)]
            save(args.folder, f"latency-lists-{name}", rows)


if __name__ == "__main__":
    main()
