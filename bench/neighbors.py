"""Seconds to find the nearest items of every item by cosine: mfrank's ItemKNN beside implicit's.

Both fit to the same data, in turns. ``same`` is the share of implicit's neighbors that mfrank has,
too: of items that are equally near, each library has others.

    python bench/neighbors.py ml-1m gowalla globo
"""

from __future__ import annotations

import warnings
from time import perf_counter, process_time
from typing import Any

import numpy as np
from harness.records import line, parser, save
from harness.subjects import interactions
from implicit.nearest_neighbours import CosineRecommender

import mfrank


def timed(fit: Any) -> tuple[float, float, Any]:
    """Seconds, CPU seconds, and what was fitted."""
    began, cpu = perf_counter(), process_time()
    fitted = fit()
    return perf_counter() - began, process_time() - cpu, fitted


def pairs_of(similarity: Any) -> np.ndarray[Any, Any]:
    """A number for each pair of an item and a neighbor that is not itself."""
    near = similarity.tocoo()
    apart = near.row != near.col
    return near.row[apart].astype(np.int64) * near.shape[1] + near.col[apart]


def compared(name: str, neighbors: int, repeats: int, threads: int) -> list[dict[str, Any]]:
    """A row for each library."""
    data = interactions(name)
    matrix = data.to_scipy()

    def ours() -> Any:
        return mfrank.ItemKNN(neighbors=neighbors).fit(data)

    def theirs() -> Any:
        made = CosineRecommender(K=neighbors + 1, num_threads=threads)  # with the item itself
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # implicit's, of matrices that it makes itself
            made.fit(matrix, show_progress=False)
        return made

    rounds = [(timed(ours), timed(theirs)) for _ in range(repeats)]
    both = [pairs_of(model.similarity) for _, _, model in rounds[0]]
    same = float(np.isin(both[1], both[0]).mean())
    over = float(np.median([theirs[0] / ours[0] for ours, theirs in rounds]))
    return [
        {
            "data": name,
            "neighbors": neighbors,
            "contender": contender,
            "seconds": min(turn[which][0] for turn in rounds),
            "cpu_seconds": min(turn[which][1] for turn in rounds),
            "over_mfrank": over if which else 1.0,
            "same": same if which else 1.0,
        }
        for which, contender in enumerate(("mfrank ItemKNN", "implicit CosineRecommender"))
    ]


def main() -> None:
    """Measure, print, save."""
    made = parser(__doc__)
    made.add_argument("data", nargs="*", default=["ml-1m", "gowalla", "globo"])
    made.add_argument("--neighbors", nargs="+", type=int, default=[20, 100])
    args = made.parse_args()
    for name in args.data:
        rows = [
            row
            for neighbors in args.neighbors
            for row in compared(name, neighbors, args.repeats, args.threads)
        ]
        print("\n".join(map(line, rows)), flush=True)
        save(args.folder, f"neighbors-{name}", rows)


if __name__ == "__main__":
    main()
