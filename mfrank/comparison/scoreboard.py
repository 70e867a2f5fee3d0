"""The result of a comparison: one row per model, as text, JSON or CSV."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from mfrank.arrays import aligned, paragraphs, table, terminal_width
from mfrank.data import FrameKind, frame_of, write_table
from mfrank.evaluation import Evaluation
from mfrank.files import path_of, replacing
from mfrank.tuning import Leaderboard


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """Cost and ranking quality of one model.

    Attributes
    ----------
    model, library : str
        Name in the comparison, and library with its version.
    epoch_seconds, total_seconds : float
        Wall-clock seconds of an epoch and of a fit, medians over the repeated fits.
    peak_memory : int or None
        Bytes by which a fit raises the memory of a fresh process
        (:func:`mfrank.comparison.peak_memory`); None if it was not measured.
    objective : float or None
        Objective of the model at its fitted factors; None if it is not one of mfrank's.
    objective_name : str
        The objective with its options; values of the same objective are comparable.
    evaluation : Evaluation
        Evaluation of the first fit.
    ratios : mapping of str to float or None
        Each measure divided by the baseline's; empty without a baseline. Ratios of times are
        medians over the repeats of the ratio within a repeat.
    """

    model: str
    library: str
    epoch_seconds: float
    total_seconds: float
    peak_memory: int | None
    objective: float | None
    objective_name: str
    evaluation: Evaluation
    ratios: Mapping[str, float | None]

    def record(self) -> dict[str, Any]:
        """All values by column name, in one flat dict; values that are not finite are None."""
        scores: dict[str, Any] = {}
        known = self.evaluation.known_users.scores if self.evaluation.n_cold_users else {}
        for metric, score in self.evaluation.scores.items():
            scores[str(metric)] = score.value
            scores[f"{metric} standard error"] = score.standard_error
            if metric in known:
                scores[f"{metric} known users"] = known[metric].value
        flat = {
            "model": self.model,
            "library": self.library,
            "epoch_seconds": self.epoch_seconds,
            "total_seconds": self.total_seconds,
            "peak_memory": self.peak_memory,
            "objective": self.objective,
            "objective_name": self.objective_name,
            **scores,
            **{f"{measure} ratio": ratio for measure, ratio in self.ratios.items()},
        }
        return {name: _finite(value) for name, value in flat.items()}


_COLUMNS = tuple(f.name for f in fields(Row) if f.name not in ("evaluation", "ratios"))
"""The columns of every table; metrics and ratios follow."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Models fitted and evaluated side by side; ``print`` shows tables that fit the terminal.

    Attributes
    ----------
    rows : tuple of Row
        Rows in the order of the models.
    baseline : str or None
        Name of the reference model of the ratios.
    settings : mapping
        Sizes of the data, threads, repeats, machine.
    notes : tuple of str
        Explanations of the tables, such as a library that is not installed.
    leaderboards : mapping of str to Leaderboard
        Trials of each tuned model.
    """

    rows: tuple[Row, ...]
    baseline: str | None
    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    leaderboards: Mapping[str, Leaderboard] = field(default_factory=dict)

    def __getitem__(self, model: str) -> Row:
        for row in self.rows:
            if row.model == model:
                return row
        raise KeyError(
            f"{model} was not compared; there are {', '.join(r.model for r in self.rows)}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Settings, notes and rows, as JSON types."""
        return {
            "settings": dict(self.settings),
            "baseline": self.baseline,
            "notes": list(self.notes),
            "rows": [row.record() for row in self.rows],
            "leaderboards": {name: list(board) for name, board in self.leaderboards.items()},
        }

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write :meth:`to_dict` to a JSON file, atomically."""
        with replacing(path_of(path)) as draft:
            draft.write_text(json.dumps(self.to_dict(), indent=2) + "\n", encoding="utf-8")

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write one line per model (:func:`mfrank.data.tables.write_table`).

        A missing value is an empty field; without models there is only the header.
        """
        write_table(path, self._table())

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """A table with a row for each model, and the columns of :meth:`to_csv`.

        Parameters
        ----------
        kind : {"pandas", "polars", "arrow"}, default "pandas"
            The table's library.
        """
        return frame_of(self._table(), kind=kind)

    def _table(self) -> dict[str, Any]:
        records = [row.record() for row in self.rows]
        names = dict.fromkeys(name for record in records for name in record) or _COLUMNS
        return {name: [record.get(name) for record in records] for name in names}

    def __str__(self) -> str:
        width = terminal_width()
        blocks = [aligned(_filled(each), width) for each in (self._costs(), self._quality())]
        return "\n\n".join([*blocks, "\n".join(self.notes)]).rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        costs, quality = _filled(self._costs()), _filled(self._quality())
        return (
            table("Costs", costs[1:], costs[0])
            + table("Quality", quality[1:], quality[0])
            + paragraphs(self.notes)
        )

    def _costs(self) -> list[list[str]]:
        table = [["model", "ms/epoch", "", "total s", "", "peak MiB", "", "objective"]]
        for row in self.rows:
            peak = None if row.peak_memory is None else row.peak_memory / 2**20
            table.append(
                [
                    row.model,
                    f"{1000 * row.epoch_seconds:.2f}",
                    _times(row.ratios.get("epoch_seconds")),
                    f"{row.total_seconds:.3f}",
                    _times(row.ratios.get("total_seconds")),
                    "-" if peak is None else f"{peak:.1f}",
                    _times(row.ratios.get("peak_memory")),
                    "-" if row.objective is None else f"{row.objective:.6g}",
                ]
            )
        return table

    def _quality(self) -> list[list[str]]:
        metrics = list(self.rows[0].evaluation.scores) if self.rows else []
        table = [["model", *(cell for metric in metrics for cell in (str(metric), ""))]]
        for row in self.rows:
            cells = [row.model]
            for metric, score in row.evaluation.scores.items():
                error = f" ±{score.standard_error:.4f}".replace("±0", "±")
                cells.append(f"{score.value:.4f}" + ("" if score.per_user is None else error))
                cells.append(_times(row.ratios.get(str(metric))))
            table.append(cells)
        return table


def _filled(table: Sequence[Sequence[str]]) -> list[list[str]]:
    """Drop the columns that are empty in all rows, such as ratios without a baseline."""
    columns = [column for column in zip(*table, strict=True) if any(column)]
    return [list(row) for row in zip(*columns, strict=True)]


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}x"


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
