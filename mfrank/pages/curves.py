"""A curve over epochs as points of an SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["HEIGHT", "WIDTH", "curve"]

WIDTH, HEIGHT = 600.0, 160.0


def curve(values: Sequence[float | int | None]) -> dict[str, Any] | None:
    """Points from left to right, y downward, and the first, last, least and greatest value.

    None if there are not two values.
    """
    known = [(epoch, float(value)) for epoch, value in enumerate(values, 1) if value is not None]
    if len(known) < 2:
        return None
    numbers = [value for _, value in known]
    least, span = min(numbers), max(numbers) - min(numbers)
    steps = known[-1][0] - known[0][0]
    points = [
        (
            WIDTH * (epoch - known[0][0]) / steps,
            HEIGHT * (1 - (value - least) / span) if span else HEIGHT / 2,
        )
        for epoch, value in known
    ]
    return {
        "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in points),
        "epochs": [known[0][0], known[-1][0]],
        "least": least,
        "greatest": max(numbers),
        "last": numbers[-1],
    }
