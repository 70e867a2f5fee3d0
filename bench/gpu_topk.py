"""Users per second that get their best N items, on a GPU.

    python bench/gpu_topk.py
    python bench/gpu_topk.py --catalogs 41000 --factors 128 --n 10 --contenders mfrank torch

All answer for the same float32 factors, which lie on the GPU, in alternating runs: mfrank's exact
lists; implicit's GPU build (left out where it cannot run), whose lists come to the host; and torch,
a float32 matrix product and ``topk`` for some users at a time. Factors are normal numbers
(``random``), or item r's are divided by the square root of r, as if sorted by popularity
(``skewed``). ``users_per_second`` are medians, ``over_mfrank`` the median of the rounds' ratios of
seconds. ``short_of_best`` is the most by which the score of a listed item falls short of the score
of the item that torch lists in the same place, both in float64, over the product of the user's norm
and the largest norm of an item. What is not a tie in float32 shows as more than 1e-6; mfrank's
lists must stay below that.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np
from gpu import described
from gpu_peers import implicit_gpu
from harness.records import line, parser, save
from numpy.typing import NDArray

from mfrank.arrays import device as arrays
from mfrank.backends import choose
from mfrank.retrieval import recommend

Ids = Any
"""Listed items, shape (U, n), in numpy or where the library has them."""

Ask = Callable[[], Ids]

_SCORES_ASKED = 1_200_000_000  # users times items
_SCORES_AT_ONCE = 1 << 28  # of torch
_CHECKED = 256  # users
_ROUNDING = 1e-6


def main() -> None:
    """Measure, check, print and save."""
    made = parser(__doc__)
    made.add_argument("--catalogs", nargs="+", type=int, default=[41_000, 500_000])
    made.add_argument("--factors", nargs="+", type=int, default=[64, 128, 256])
    made.add_argument("--n", nargs="+", type=int, default=[10, 100])
    made.add_argument("--kinds", nargs="+", default=["random", "skewed"])
    made.add_argument("--contenders", nargs="+", default=list(LISTS), choices=list(LISTS))
    args = made.parse_args()
    if reason := arrays.why_unavailable():
        sys.exit(f"no GPU to measure: {reason}")
    if "implicit" in args.contenders and (reason := implicit_gpu.why_unavailable()):
        print(f"implicit is left out: {reason}", flush=True)
        args.contenders.remove("implicit")  # loaded above, before torch, if it is there

    rows: list[dict[str, Any]] = []
    for row in measured(args):
        rows.append(row)
        print(line(row), flush=True)
        save(args.folder, "gpu-topk", rows, gpu=described())
    wrong = [
        row for row in rows if row["contender"] == "mfrank" and row["short_of_best"] > _ROUNDING
    ]
    if wrong:
        sys.exit(f"mfrank's lists are not the best: {wrong}")


def measured(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each contender and problem."""
    for n_items, factors, kind in product(args.catalogs, args.factors, args.kinds):
        n_users = max(1000, _SCORES_ASKED // n_items)
        users, items = drawn(n_users, n_items, factors, kind)
        for n in args.n:
            asks = {name: LISTS[name](users, items, n) for name in args.contenders}
            short = {name: short_of_best(ask(), users, items) for name, ask in asks.items()}
            seconds = alternate(asks, args.repeats)
            yard = seconds.get("mfrank")
            for name, own in seconds.items():
                yield {
                    "items": n_items,
                    "users": n_users,
                    "factors": factors,
                    "kind": kind,
                    "n": n,
                    "contender": name,
                    "users_per_second": n_users / float(np.median(own)),
                    "over_mfrank": None if yard is None else float(np.median(np.divide(own, yard))),
                    "short_of_best": short[name],
                }


def drawn(n_users: int, n_items: int, factors: int, kind: str) -> tuple[Any, Any]:
    """Factors of users and items, tensors on the GPU."""
    import torch

    draws = torch.Generator("cuda").manual_seed(0)
    users, items = (
        torch.randn((n, factors), generator=draws, device="cuda") for n in (n_users, n_items)
    )
    if kind == "skewed":
        items /= torch.arange(1, n_items + 1, device="cuda")[:, None] ** 0.5
    return users, items


def mfrank_lists(users: Any, items: Any, n: int) -> Ask:
    """By :func:`mfrank.retrieval.top_k.recommend`, from and to arrays on the GPU."""
    device, backend = arrays.device(), choose("cuda")
    placed = device.asarray(users), device.asarray(items)
    return lambda: recommend(*placed, n=n, backend=backend)[0]


def implicit_lists(users: Any, items: Any, n: int) -> Ask:
    """By the query that implicit's models ask."""
    gpu = implicit_gpu.extension()
    query, placed = gpu.KnnQuery(), [gpu.Matrix(each.cpu().numpy()) for each in (items, users)]
    return lambda: query.topk(*placed, n)[0]


def torch_lists(users: Any, items: Any, n: int) -> Ask:
    """Products in float32, not TF32, of as many users as make 2^28 scores."""
    import torch

    some = users.split(max(1, _SCORES_AT_ONCE // len(items)))
    return lambda: torch.cat([(each @ items.T).topk(n).indices for each in some])


LISTS: dict[str, Callable[[Any, Any, int], Ask]] = {
    "mfrank": mfrank_lists,
    "implicit": implicit_lists,
    "torch": torch_lists,
}


def alternate(asks: dict[str, Ask], rounds: int) -> dict[str, list[float]]:
    """Seconds of each round of each contender; every other round goes backwards."""
    seconds: dict[str, list[float]] = {name: [] for name in asks}
    for number in range(rounds):
        for name in list(asks)[:: -1 if number % 2 else 1]:
            arrays.device().synchronize()
            began = perf_counter()
            asks[name]()
            arrays.device().synchronize()
            seconds[name].append(perf_counter() - began)
    return seconds


def short_of_best(ids: Ids, users: Any, items: Any) -> float:
    """How far listed scores of some users are below the best, relative to the largest possible."""
    import torch

    listed = torch.as_tensor(_on_host(ids[:_CHECKED]).astype(np.int64), device="cuda")
    if any(len(row.unique()) < len(row) for row in listed):
        return float("inf")
    some, wide = users[:_CHECKED].double(), items.double()
    scores = some @ wide.T
    best = scores.topk(listed.shape[1]).values
    lengths = some.norm(dim=1, keepdim=True) * wide.norm(dim=1).max()
    return float(((best - scores.gather(1, listed)) / lengths).max())


def _on_host(ids: Ids) -> NDArray[Any]:
    if isinstance(ids, np.ndarray):
        return ids
    return ids.cpu().numpy() if hasattr(ids, "cpu") else arrays.device().asnumpy(ids)


if __name__ == "__main__":
    main()
