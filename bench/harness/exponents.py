"""How seconds grow with a size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["exponent"]


def exponent(
    rows: Sequence[dict[str, Any]], what: str, seconds: str = "seconds_per_epoch"
) -> float:
    """Slope of log seconds on the log of what grows, NaN for a single size."""
    if len(rows) < 2:
        return float("nan")
    x, y = (np.log([row[key] for row in rows]) for key in (what, seconds))
    return float(np.polyfit(x, y, 1)[0])
