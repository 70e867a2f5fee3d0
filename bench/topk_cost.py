"""Users per second that get their best N items, without the items that they already have.

All answer from the same fitted factors for every user of the data set, float32, in alternating
runs; users per second are medians, ``over_mfrank`` the median of the rounds' ratios of seconds.
faiss cannot filter by user: its flat index is asked for as many more items as a user has, and these
are then taken out, which is exact; users are sorted by how many items they have.

    python bench/topk_cost.py --data gowalla globo --factors 64 128 --n 10 100
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness.records import line, parser, save
from harness.subjects import interactions
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import mfrank
from mfrank.data import Interactions

Ask = Callable[[], Any]
BATCH = 1000
"""Users a peer is asked for at a time; implicit's own evaluation asks for as many."""


def mfrank_lists(model: mfrank.ALS, data: Interactions, n: int, threads: int) -> Ask:
    """All users through ``recommend``."""
    users = np.arange(data.n_users)
    return lambda: model.recommend(users, data.user_items, N=n, by_row=True, n_threads=threads)


def implicit_lists(model: mfrank.ALS, data: Interactions, n: int, threads: int) -> Ask:
    """All users through implicit's ``recommend``, in batches, one BLAS thread."""
    from implicit.cpu.als import AlternatingLeastSquares

    with threadpool_limits(1, "blas"):
        peer = AlternatingLeastSquares(factors=model.factors, num_threads=threads)
    peer.user_factors, peer.item_factors = model.user_factors.copy(), model.item_factors.copy()
    rows = data.to_scipy()

    def ask() -> None:
        with threadpool_limits(1, "blas"):
            for users in batches(np.arange(data.n_users)):
                peer.recommend(users, rows[users], N=n)

    return ask


def faiss_lists(model: mfrank.ALS, data: Interactions, n: int, threads: int) -> Ask:
    """All users through faiss's flat index, over-fetched and filtered, in batches."""
    import faiss

    index = faiss.IndexFlatIP(model.factors)
    index.add(model.item_factors)
    counts, rows = data.counts.users, data.user_items
    order = np.argsort(counts, kind="stable")
    has = np.zeros((BATCH, data.n_items), dtype=bool)

    def ask() -> None:
        faiss.omp_set_num_threads(threads)
        for users in batches(order):
            fetched = min(n + int(counts[users].max()), data.n_items)
            _, ids = index.search(model.user_factors[users], fetched)
            unseen(ids, rows[users], has, n)

    return ask


def unseen(
    ids: NDArray[np.int64], rows: sp.csr_array, has: NDArray[np.bool_], n: int
) -> NDArray[np.int64]:
    """The first n of each list that the row does not hold; ``has`` is scratch, all False."""
    cells = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), rows.indices
    has[cells] = True
    held = np.take_along_axis(has[: len(ids)], ids, axis=1)
    has[cells] = False
    first = np.argsort(held, axis=1, kind="stable")[:, :n]
    return np.take_along_axis(ids, first, axis=1)


def batches(users: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The users, BATCH at a time."""
    return (users[begin : begin + BATCH] for begin in range(0, len(users), BATCH))


LISTS = {"mfrank": mfrank_lists, "implicit": implicit_lists, "faiss flat": faiss_lists}


def alternate(asks: dict[str, Ask], repeats: int) -> dict[str, list[float]]:
    """Seconds of each, in turns."""
    seconds: dict[str, list[float]] = {library: [] for library in asks}
    for _ in range(repeats):
        for library, ask in asks.items():
            began = time.perf_counter()
            ask()
            seconds[library].append(time.perf_counter() - began)
    return seconds


def askers(model: mfrank.ALS, data: Interactions, n: int, threads: int) -> dict[str, Ask]:
    """Those whose library is installed."""
    asks = {}
    for library, lists in LISTS.items():
        try:
            asks[library] = lists(model, data, n, threads)
        except ImportError as error:
            print(f"{library} is left out: {error}", file=sys.stderr)
    return asks


def main() -> None:
    """Measure, print, save."""
    made = parser(__doc__)
    made.add_argument("--data", nargs="+", default=["gowalla", "globo"])
    made.add_argument("--factors", nargs="+", type=int, default=[64, 128])
    made.add_argument("--n", nargs="+", type=int, default=[10, 100])
    args = made.parse_args()

    for name in args.data:
        data, rows = interactions(name), []
        for factors in args.factors:
            options = {"factors": factors, "iterations": 3, "n_threads": args.threads}
            model = mfrank.ALS(mfrank.IALS(), **options, random_state=0).fit(data)
            for n in args.n:
                seconds = alternate(askers(model, data, n, args.threads), args.repeats)
                for library, own in seconds.items():
                    row = {
                        "factors": factors,
                        "n": n,
                        "library": library,
                        "users_per_second": data.n_users / float(np.median(own)),
                        "over_mfrank": float(np.median(np.divide(own, seconds["mfrank"]))),
                    }
                    rows.append(row)
                    print(f"{name}: {line(row)}", flush=True)
        save(args.folder, f"topk-cost-{name}", rows)


if __name__ == "__main__":
    main()
