"""Numbers of observed items of each user and of observed users of each item."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Counts",
]


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Observed items of each user (n_x) and observed users of each item (m_y).

    Attributes
    ----------
    users, items : int64, shape (n_users,) and (n_items,)
    """

    users: NDArray[np.int64]
    items: NDArray[np.int64]
