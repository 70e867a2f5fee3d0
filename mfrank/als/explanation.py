"""A user's score of an item, split up by the user's own items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Explanation", "UserWeights"]


@dataclass(frozen=True, eq=False)
class UserWeights:
    """A user's factors as a sum over the user's items, plus a background.

    They hold for the model as it was: not after a fit, an update or a removal.

    Attributes
    ----------
    items : int32, shape (n,)
        Rows of the user's items.
    parts : float64, shape (n, factors)
        What each of them adds to the user's factors.
    background : float64, shape (factors,)
        What the objective's background (0 for WRMF, IALS and EALS) and the user's features add.
    version : int or None
        A checksum of what they were solved from, besides the user's row; None is not checked.
    user : int, id or None
        The user's row, or the id of one whom the model does not have; None is not checked.
    """

    items: NDArray[np.int32]
    parts: NDArray[np.float64]
    background: NDArray[np.float64]
    version: int | None = None
    user: Any = None


@dataclass(frozen=True)
class Explanation:
    """A user's score of an item, split up: score = sum of contributions + baseline.

    As in implicit, it is unpacked as ``score, contributions, user_weights``.

    Attributes
    ----------
    score : float
        The score, with user factors solved from the given row.
    contributions : list of (item, float)
        Contribution of each item of the user's row, largest first.
    baseline : float
        Contribution of the objective's background (0 for WRMF, IALS and EALS) and of the user's
        features.
    user_weights : UserWeights
        To explain other items to the same user without solving the row again.
    """

    score: float
    contributions: list[tuple[Any, float]]
    baseline: float
    user_weights: UserWeights = field(repr=False, compare=False)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.score, self.contributions, self.user_weights))
