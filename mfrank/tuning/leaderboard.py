"""The trials of a search, best first."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from textwrap import wrap
from typing import Any, overload

from mfrank.arrays import table, terminal_width
from mfrank.data import FrameKind, frame_of
from mfrank.evaluation import Score
from mfrank.files import path_of, replacing
from mfrank.tuning.days import DayRecord
from mfrank.tuning.family import Point
from mfrank.tuning.ladder import Outcome, best
from mfrank.tuning.learned_order import TreesTrial
from mfrank.tuning.mixture import BlendPart
from mfrank.tuning.trial_journal import days_of
from mfrank.tuning.trials import Runner

Row = dict[str, Any]
"""A line of a leaderboard, as types that JSON has."""

_CELLS: Mapping[str, Callable[[Row], str]] = {
    "rank": lambda row: str(row["rank"]),
    "day": lambda row: row["day"] or "",
    "began": lambda row: f"{datetime.fromtimestamp(row['began']):%Y-%m-%d %H:%M}",
    "value": lambda row: "-" if row["value"] is None else f"{row['value']:.4f}",
    "interval": lambda row: "-" if row["low"] is None else f"{row['low']:.4f} to {row['high']:.4f}",
    "metric": lambda row: row["metric"],
    "trials": lambda row: str(row["trials"]),
    "factors": lambda row: "-" if row["factors"] is None else str(row["factors"]),
    "epochs": lambda row: str(row["epochs"]),
    "seconds": lambda row: f"{row['seconds']:.1f}",
    "used": lambda row: "" if row["weight"] is None else f"{row['weight']:g}",
    "model": lambda row: (
        row["model"] if row["error"] is None else f"{row['model']}: {row['error']}"
    ),
}
"""What is shown of a row, by column."""
_COLUMNS = ("rank", "value", "interval", "factors", "epochs", "seconds", "used", "model")
_OF_DAYS = ("began", "value", "interval", "metric", "trials", "seconds", "model")
_SHOWN = 10


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Leaderboard(Sequence[Row]):
    """A sequence of dicts, best first; ``print`` shows the first ten.

    ================================ ============================================================
    ``rank``, ``family``             rank from 1, kind of model
    ``model``, ``factors``           the call that creates the model, and its width
    ``epochs``, ``rung``             the best epoch, and the rung of the ladder
    ``metric``, ``value``            the metric and its value on the validation part
    ``standard_error``               standard error of the value
    ``low``, ``high``                95 % interval over the evaluated users
    ``seconds``                      duration of the trial
    ``weight``                       weight in the final model; None if it is not part of it
    ``error``                        why the trial failed or was stopped
    ``day``                          the day of the earlier search that found the setting, or None
    ================================ ============================================================

    Families without enough memory or time have a row, too, without a value; ``error`` says why.
    Models are chosen on the validation part, so the values of the best are slightly optimistic.

    Attributes
    ----------
    rows : tuple of dict
    columns : tuple of str
        Those that are shown.
    """

    rows: tuple[Row, ...]
    columns: tuple[str, ...] = _COLUMNS

    @classmethod
    def of_days(cls, storage: str | os.PathLike[str]) -> Leaderboard:
        """What each search in a file of ``tune(storage=)`` found: a row for each, the newest first.

        Rows have ``day``, ``began`` (seconds since 1970), ``metric``, ``value``,
        ``standard_error``, ``low``, ``high``, ``trials``, ``seconds``, ``model`` and ``error``. The
        values of different days are on different held-out parts.

        Raises
        ------
        ValueError
            There is no such file, or it has no searches, or it is damaged.
        TimeoutError
            Another process has locked the file for half a minute.
        """
        rows = [_day(record, outcomes) for record, outcomes in reversed(days_of(storage))]
        return cls(tuple(rows), _OF_DAYS)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The rows as JSON; with ``path``, also written to a file, atomically."""
        text = json.dumps(list(self.rows), indent=2)
        if path is not None:
            with replacing(path_of(path)) as draft:
                draft.write_text(text + "\n", encoding="utf-8")
        return text

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """The rows as a table.

        Parameters
        ----------
        kind : {"pandas", "polars", "arrow"}, default "pandas"
            The table's library.

        Raises
        ------
        ModuleNotFoundError
            The library is not installed.
        """
        names = dict.fromkeys(name for row in self.rows for name in row)
        return frame_of({name: [row.get(name) for row in self.rows] for name in names}, kind=kind)

    def __repr__(self) -> str:
        cells = [self.columns, *self._cells()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        most = terminal_width()
        lines = [line for row in cells for line in _lines(row, widths, most)]
        left_out = len(self.rows) - _SHOWN
        return "\n".join([*lines, *([f"... {left_out} more"] if left_out > 0 else [])])

    def _repr_html_(self) -> str:
        return table("Leaderboard", self._cells(), self.columns)

    def _cells(self) -> list[tuple[str, ...]]:
        return [tuple(_CELLS[name](row) for name in self.columns) for row in self.rows[:_SHOWN]]


def _lines(row: Sequence[str], widths: Sequence[int], most: int | None) -> list[str]:
    """A row as a line; if it is wider than the terminal, its model is on a line below."""
    line = "  ".join(map(str.ljust, row, widths)).rstrip()
    if most is None or len(line) <= most:
        return [line]
    indent = " " * (widths[0] + 2)
    below = wrap(row[-1], most, initial_indent=indent, subsequent_indent=indent)
    return [line.removesuffix(row[-1]).rstrip(), *below]


# The rows of a leaderboard, from what came of a search.


def leaderboard_of(
    runner: Runner,
    outcomes: Sequence[Outcome],
    left_out: Mapping[str, str],
    parts: Sequence[BlendPart],
    score: Score | None,
    days: Mapping[tuple[str, Point], str],
    *,
    trees: TreesTrial | None = None,
) -> Leaderboard:
    """All outcomes, families left out, the blend if ``score`` is of one, and trees over the best.

    The value of the trees is that of what they are over, with their gain.
    """
    weights = {part.outcome.trial: part.weight for part in parts}
    metric = str(runner.judge.metric)
    rows = [
        _row(runner, outcome, weights.get(outcome.trial), metric)
        | {"day": days.get((outcome.trial.family, outcome.trial.point))}
        for outcome in outcomes
    ]
    if score is not None:
        of_blend = _interval(score.value, score.standard_error)
        rows.append(_unfitted("blend", told_parts(parts), metric) | of_blend | {"weight": 1.0})
    if trees is not None and trees.model is not None:
        best_of_all: Score | Outcome = score or parts[0].outcome
        value, error = (best_of_all.value or 0.0) + (trees.gain or 0.0), best_of_all.standard_error
        over = f"trees over {told_parts(parts)}"
        rows.append(_unfitted("trees", over, metric) | _interval(value, error) | {"weight": 1.0})
    elif trees is not None and trees.reason is not None:
        left_out = {**left_out, "trees": trees.reason}
    rows += [_unfitted(name, name, metric) | {"error": reason} for name, reason in left_out.items()]
    rows.sort(key=lambda row: -1.0 if row["value"] is None else row["value"], reverse=True)
    of_former = any(row["day"] for row in rows)
    columns = (_COLUMNS[0], "day", *_COLUMNS[1:]) if of_former else _COLUMNS
    return Leaderboard(tuple({"rank": rank, **row} for rank, row in enumerate(rows, 1)), columns)


def told_parts(parts: Sequence[BlendPart]) -> str:
    """The families of the parts, with their weights if they are several."""
    if len(parts) == 1:
        return parts[0].outcome.trial.family
    return " + ".join(f"{part.weight:g} {part.outcome.trial.family}" for part in parts)


def _day(record: DayRecord, outcomes: Sequence[Outcome]) -> Row:
    """The row of a search of a file; of one that did not end, its best trial."""
    found = record.best
    if found is None:
        leader = best(outcomes)
        found = {"model": "-", "value": None, "standard_error": None}
        if leader is not None:
            found = asdict(leader) | {"model": leader.trial.family}
    return {
        "day": record.day,
        "began": record.began,
        "metric": record.metric,
        **_interval(found["value"], found["standard_error"]),
        "trials": len(outcomes),
        "seconds": sum(outcome.seconds for outcome in outcomes),
        "model": found["model"],
        "error": None if record.best else "the search did not end",
    }


def _row(runner: Runner, outcome: Outcome, weight: float | None, metric: str) -> Row:
    model = runner.model(outcome.trial)
    return {
        "family": outcome.trial.family,
        "model": call_of(model),
        "factors": getattr(model, "factors", None),
        "epochs": outcome.epochs,
        "rung": outcome.trial.rung,
        "metric": metric,
        **_interval(outcome.value, outcome.standard_error),
        "seconds": outcome.seconds,
        "weight": weight,
        "error": outcome.error,
    }


def call_of(model: Any) -> str:
    """The call that makes an unfitted model."""
    return repr(model).replace(", not fitted)", ")").replace("(not fitted)", "()")


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
        "day": None,
    }


def _interval(value: float | None, error: float | None) -> dict[str, float | None]:
    """The value with its 95 % interval by the normal distribution."""
    if value is None or error is None or not error >= 0:
        return {"value": value, "standard_error": None, "low": None, "high": None}
    reach = 1.96 * error
    return {"value": value, "standard_error": error, "low": value - reach, "high": value + reach}
