"""Whether published test parts are random draws from the interactions of each user.

In a random draw, how many of an item's interactions are in the test part varies from item to item
as coin tosses do. Where it varies more, the test part was drawn by something else, such as time,
and a random part of the training data tells less about how models rank the test part. The bench
prints the ratio of the two variances, averaged over the items with at least 50 interactions, for
the published parts and for parts that are drawn anew with as many interactions of each user.

    python bench/split_drift.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
from harness.records import line, parser, save
from harness.subjects import load
from numpy.typing import NDArray

FEWEST = 50


def spread(users: NDArray[Any], items: NDArray[Any], is_test: NDArray[np.bool_]) -> float:
    """Variance of items' numbers of test interactions, over that of independent draws."""
    share = np.bincount(users, is_test) / np.maximum(np.bincount(users), 1)
    chance, many = share[users], np.bincount(items) >= FEWEST
    found, expected = np.bincount(items, is_test), np.bincount(items, chance)
    variance = np.bincount(items, chance * (1 - chance))
    return float(np.mean((found - expected)[many] ** 2 / variance[many]))


def drawn_anew(
    users: NDArray[Any], is_test: NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[np.bool_]:
    """As many test interactions of each user, others."""
    inside, shuffled = np.argsort(users, kind="stable"), np.lexsort((rng.random(len(users)), users))
    drawn = np.empty_like(is_test)
    drawn[shuffled] = is_test[inside]
    return drawn


def main() -> None:
    """Compute, print and save."""
    made = parser(__doc__)
    made.add_argument("--data", nargs="+", default=["gowalla", "ml-1m"])
    args = made.parse_args()
    rows = []
    for name in args.data:
        split = load(name)
        parts = (split.train, split.valid, split.test)
        users = np.concatenate([part.entry_users for part in parts])
        items = np.concatenate([part.user_items.indices for part in parts])
        is_test = np.repeat([False, False, True], [part.nnz for part in parts])
        again = drawn_anew(users, is_test, np.random.default_rng(0))
        row = {
            "data": name,
            "test part": float(is_test.mean()),
            "spread": spread(users, items, is_test),
            "drawn anew": spread(users, items, again),
        }
        print(line(row))
        rows.append(row)
    save(args.folder, "split-drift", rows)


if __name__ == "__main__":
    main()
