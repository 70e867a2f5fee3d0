"""Ids as the pages have them, of users and of what they liked."""

from __future__ import annotations

import numpy as np

__all__ = ["pairs_of_a_shop"]


def pairs_of_a_shop() -> list[tuple[str, str]]:
    """Users, alice and bob among them, with items, sorted and each pair once."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 40, 1500), rng.integers(0, 30, 1500)
    names = [*("alice", "bob"), *(f"user-{n}" for n in range(38))]
    return sorted({(names[u], f"item-{i}") for u, i in zip(users, items, strict=True)})
