"""The meetings of an epoch: blocks of users and items, their order, and the visited users."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, key_of
from mfrank.descent.engine import DescentPlan, Share

Ints = NDArray[np.int64]

_MOST_BLOCKS = 32
_FEWEST_VISITS, _FEWEST_ITEMS = 1 << 12, 1 << 9
"""Minimum per meeting: with fewer, sending takes longer than the work."""

_OF_ITEMS, _OF_ORDER = 2, 3
"""Streams of random numbers; that of negatives is 1."""


def count_blocks(n_visits: int, n_items: int) -> int:
    """Number of blocks of users, and of items, for this number of visits in an epoch."""
    most = min(isqrt(n_visits // _FEWEST_VISITS), n_items // _FEWEST_ITEMS, _MOST_BLOCKS)
    return max(most, 1)


def user_bounds(visits: Ints, n_blocks: int) -> Ints:
    """Bounds of blocks of users with about equally many visits, from 0 to the end.

    ``visits`` (n_users,) are the visits of each user in an epoch. A block may be empty.
    """
    done = np.cumsum(visits)
    cuts = np.searchsorted(done, np.arange(1, n_blocks) * done[-1] / n_blocks)
    return np.concatenate([[0], cuts + 1, [len(visits)]])


class BlockPair(NamedTuple):
    """Numbers of a block of users and a block of items that meet."""

    round: int
    users: int
    items: int


def pairs(n_blocks: int) -> Iterator[BlockPair]:
    """Every pair of blocks once, in rounds: a Latin square."""
    for number in range(n_blocks):
        for users in range(n_blocks):
            yield BlockPair(number, users, (users + number) % n_blocks)


@dataclass(frozen=True, slots=True, eq=False)
class Deal:
    """The blocks of an epoch.

    Attributes
    ----------
    items : list of int64 arrays
        Rows of the items of each block, ascending.
    users : list of lists of int64 arrays
        Rows of the users to visit in each pair of blocks, ascending.
    visits : int64, shape (D, D)
        Number of visits in each pair of blocks.
    """

    items: list[Ints]
    users: list[list[Ints]]
    visits: Ints

    def shares(self) -> dict[BlockPair, Share]:
        """The share of the epoch of each meeting, without empty meetings."""
        n_blocks, total = len(self.visits), int(self.visits.sum())
        shares: dict[BlockPair, Share] = {}
        first = 0
        for number in range(n_blocks):
            of_round = [pair for pair in pairs(n_blocks) if pair.round == number]
            sizes = [int(self.visits[pair.users, pair.items]) for pair in of_round]
            begin, together = first, sum(sizes)
            for pair, size in zip(of_round, sizes, strict=True):
                if size:
                    shares[pair] = Share(first, begin, together, total)
                first += size
        return shares


def deal(rows: CSR, bounds: Ints, plan: DescentPlan, epoch: int) -> Deal:
    """Assign items to blocks at random, and choose the block of each visit.

    Parameters
    ----------
    rows : CSR
        Positives by user.
    bounds : int64, shape (D + 1,)
        Bounds of the blocks of users.
    plan : DescentPlan
    epoch : int
    """
    n_blocks = len(bounds) - 1
    random = np.random.default_rng(key_of(plan.seed, epoch, 0, _OF_ITEMS))
    ends = np.arange(n_blocks + 1) * rows.n_columns // n_blocks
    dealt = np.split(random.permutation(rows.n_columns), ends[1:-1])
    items, block_of = [np.sort(block) for block in dealt], np.empty(rows.n_columns, np.int64)
    for number, block in enumerate(items):
        block_of[block] = number
    users, visits = [], np.empty((n_blocks, n_blocks), dtype=np.int64)
    for number, (begin, end) in enumerate(pairwise(bounds.tolist())):
        cells = slice(int(rows.indptr[begin]), int(rows.indptr[end]))
        own = np.repeat(np.arange(end - begin), rows.counts[begin:end])
        at = own * n_blocks + block_of[rows.indices[cells]]
        counts = np.bincount(at, minlength=(end - begin) * n_blocks).reshape(-1, n_blocks)
        if plan.batches.of == "users":
            counts = _homes(counts)
        users.append([begin + np.flatnonzero(of_block) for of_block in counts.T])
        visits[number] = counts.sum(axis=0)
    return Deal(items, users, visits)


def _homes(counts: Ints) -> Ints:
    """1 for the block in which each user has most positives, else 0; ties are spread evenly.

    Because items are dealt at random, all positives of a user are equally likely to be there.
    """
    n_users, n_blocks = counts.shape
    users = np.arange(n_users)
    turns = (users[:, None] + np.arange(n_blocks)) % n_blocks
    homes = np.zeros_like(counts)
    homes[users, np.argmax(counts * n_blocks + turns, axis=1)] = 1
    return np.minimum(homes, counts)


def order_key(plan: DescentPlan, epoch: int, share: Share) -> int:
    """Seed of the order of a meeting's visits.

    The first meeting has the seed of an epoch in one process, so a single block gives the same
    bits.
    """
    path = (share.first, _OF_ORDER) if share.first else ()
    return key_of(plan.seed, epoch, *path)
