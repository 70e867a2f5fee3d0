"""The rows of a leaderboard, from what came of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mfrank.evaluation.report import Score
from mfrank.tuning.leaderboard import Leaderboard, Row
from mfrank.tuning.mixture import Part
from mfrank.tuning.outcomes import Outcome
from mfrank.tuning.trials import Runner

__all__ = ["leaderboard_of"]


def leaderboard_of(
    runner: Runner,
    outcomes: Sequence[Outcome],
    left_out: Mapping[str, str],
    parts: Sequence[Part],
    score: Score | None,
) -> Leaderboard:
    """All outcomes, what was left out and why, and the blend if ``score`` is that of one."""
    weights = {part.outcome.trial: part.weight for part in parts}
    metric = str(runner.judge.metric)
    rows = [_row(runner, outcome, weights.get(outcome.trial), metric) for outcome in outcomes]
    if score is not None:
        together = " + ".join(f"{part.weight:g} {part.outcome.trial.family}" for part in parts)
        of_blend = _interval(score.value, score.standard_error)
        rows.append(_unfitted("blend", together, metric) | of_blend | {"weight": 1.0})
    rows += [_unfitted(name, name, metric) | {"error": reason} for name, reason in left_out.items()]
    rows.sort(key=lambda row: -1.0 if row["value"] is None else row["value"], reverse=True)
    return Leaderboard(tuple({"rank": rank, **row} for rank, row in enumerate(rows, 1)))


def _row(runner: Runner, outcome: Outcome, weight: float | None, metric: str) -> Row:
    model = runner.model(outcome.trial)
    return {
        "family": outcome.trial.family,
        "model": repr(model).replace(", not fitted)", ")").replace("(not fitted)", "()"),
        "factors": getattr(model, "factors", None),
        "epochs": outcome.epochs,
        "rung": outcome.trial.rung,
        "metric": metric,
        **_interval(outcome.value, outcome.standard_error),
        "seconds": outcome.seconds,
        "weight": weight,
        "error": outcome.error,
    }


def _unfitted(family: str, model: str, metric: str) -> Row:
    """The row of what was no trial."""
    return {
        "family": family,
        "model": model,
        "factors": None,
        "epochs": 0,
        "rung": None,
        "metric": metric,
        **_interval(None, None),
        "seconds": 0.0,
        "weight": None,
        "error": None,
    }


def _interval(value: float | None, error: float | None) -> dict[str, float | None]:
    """The value with its 95 % interval by the normal distribution."""
    if value is None or error is None or not error >= 0:
        return {"value": value, "standard_error": None, "low": None, "high": None}
    reach = 1.96 * error
    return {"value": value, "standard_error": error, "low": value - reach, "high": value + reach}
