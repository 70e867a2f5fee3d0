"""What pictures are made of: the rows of a search, the evaluations of several models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mfrank.comparison.scoreboard import Comparison
from mfrank.evaluation.kinds import Metric
from mfrank.evaluation.names import metric as read_metric
from mfrank.evaluation.report import Evaluation

__all__ = ["evaluations_of", "metric_of", "rows_of"]


def metric_of(metric: Metric | str) -> Metric:
    """The metric itself."""
    return read_metric(metric) if isinstance(metric, str) else metric


def rows_of(results: Any) -> list[Mapping[str, Any]] | None:
    """Rows of a search that have a value; None if the results are not a leaderboard."""
    if isinstance(results, str | bytes) or not isinstance(results, Sequence) or not results:
        return None
    if not all(isinstance(row, Mapping) and "value" in row and "model" in row for row in results):
        return None
    rows = [row for row in results if row["value"] is not None]
    if not rows:
        raise ValueError("no model of the leaderboard has a value: each of its rows says why")
    return rows


def evaluations_of(results: Any) -> dict[str, Evaluation]:
    """Evaluations by name."""
    if isinstance(results, Comparison):
        return {row.model: row.evaluation for row in results.rows}
    if isinstance(results, Evaluation):
        return {"": results}
    if (
        isinstance(results, Mapping)
        and results
        and all(isinstance(one, Evaluation) for one in results.values())
    ):
        return {str(name): one for name, one in results.items()}
    raise TypeError(
        "results must be a Leaderboard, a Comparison, or Evaluations by the names of the models; "
        f"got {type(results).__name__}"
    )
