"""Ranked lists as tables: one row for each place of a list that is filled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Table", "list_table"]

Table = Mapping[str, NDArray[Any]]
"""Columns of equal length by name."""


def list_table(
    asked: tuple[str, NDArray[Any]], answered: tuple[str, NDArray[Any]], scores: NDArray[Any]
) -> Table:
    """Columns of what was asked, rank (from 1), what was answered, and score.

    Parameters
    ----------
    asked : name and ids, shape (U,)
    answered : name and ids, shape (U, N)
    scores : shape (U, N)
        NaN where a list has ended.
    """
    listed = ~np.isnan(scores)
    of, rank = np.nonzero(listed)
    return {
        asked[0]: asked[1][of],
        "rank": rank + 1,
        answered[0]: answered[1][listed],
        "score": scores[listed],
    }
