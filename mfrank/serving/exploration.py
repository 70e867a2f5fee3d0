"""Lists with a drawn share of items from further down, so that other models can be judged by them.

Of a list of n items, each place is opened with probability epsilon. The m items that follow the
list and, if m < n, n - m blanks are dealt to the places in a random order, without repeats; an open
place shows what it was dealt, unless that is a blank. With w = max(n, m), the propensities are
exact: an item of the list is shown, at its own place, with probability 1 - epsilon m / w, and each
of the others with probability epsilon n / w, at every place alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

import numpy as np

from mfrank.arrays import check_count, shown
from mfrank.errors import InputTypeError, InputValueError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Explorer:
    """Draws items from further down into lists.

    Parameters
    ----------
    share : float
        Probability that a place is opened, above 0 and below 1.
    depth : int, default 100
        How many items after the list may be drawn.
    seed : str, default ""
        The same seed, user and request give the same draw.

    Raises
    ------
    TypeError, ValueError
        A number is out of range.
    """

    share: float
    depth: int = 100
    seed: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.share, bool) or not isinstance(self.share, int | float):
            raise InputTypeError(f"`explore` must be a number, got {shown(self.share)}")
        if not 0 < self.share < 1:
            raise InputValueError(
                "`explore` must be a share of the places of a list, above 0 and below 1, got "
                f"{self.share}",
                "leave it out for lists without drawn items",
            )
        check_count("explore_depth", self.depth, 1)

    def drawn(
        self, ranked: Sequence[T], n: int, user: int | str, request: str
    ) -> tuple[list[T], list[float]]:
        """A list of n places, and the probability with which each of its items is in the list.

        Parameters
        ----------
        ranked : sequence
            The list and what follows it, best first.
        n : int
        user : id
        request : str
            An id of the request.
        """
        own, others = list(ranked[:n]), ranked[n : n + self.depth]
        n, m = len(own), len(others)
        width = max(n, m)
        parts = (each.encode("utf-8", "surrogatepass") for each in (self.seed, str(user), request))
        text = b"".join(b"%d:%b" % (len(part), part) for part in parts)
        rng = np.random.default_rng(int.from_bytes(sha256(text).digest(), "big"))
        dealt, is_open = rng.permutation(width)[:n], rng.random(n) < self.share
        odds = [1 - self.share * m / width] * n if width else []
        for place in np.flatnonzero(is_open & (dealt < m)).tolist():
            own[place] = others[dealt[place]]
            odds[place] = self.share * n / width
        return own, odds
