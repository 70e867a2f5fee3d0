"""A leaderboard to draw, and what is read back from a picture."""

from __future__ import annotations

from typing import Any

from mfrank.tuning import Leaderboard


def trial(rank: int, value: float | None, **more: Any) -> dict[str, Any]:
    reach = 0.01 * rank
    return {
        "rank": rank, "family": "als", "model": f"ALS({rank})", "factors": 2 ** (3 + rank % 4),
        "epochs": 3, "rung": 0, "metric": "NDCG@10", "value": value, "standard_error": 0.005,
        "low": None if value is None else value - reach,
        "high": None if value is None else value + reach,
        "seconds": float(rank), "weight": None, "error": None,
    } | more  # fmt: skip


BOARD = Leaderboard(
    (
        trial(1, 0.30, weight=0.7),
        trial(2, 0.25, family="softmax", weight=0.3),
        trial(3, 0.20),
        trial(4, 0.10, family="softmax"),
        trial(5, None, error="diverged"),
    )
)


def lines(axes: Any) -> dict[str, tuple[Any, Any]]:
    return {
        line.get_label(): line.get_data()
        for line in axes.get_lines()
        if not line.get_label().startswith("_")
    }


def legend(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def intervals(axes: Any, axis: int) -> list[tuple[float, float]]:
    """The low and the high end of each bar, along an axis, in the order of drawing."""
    return [
        (float(ends[0, axis]), float(ends[1, axis]))
        for container in axes.containers
        for reach in container.lines[2]
        for ends in reach.get_segments()
    ]
