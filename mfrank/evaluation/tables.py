"""Results by name: dicts that print as one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from mfrank.arrays.counted import counted
from mfrank.arrays.notebook import paragraphs, table
from mfrank.arrays.text_table import aligned, terminal_width

__all__ = ["ByGroup", "Differences", "p_value"]

Row = tuple[str, ...]


class _Judged(Protocol):
    @property
    def scores(self) -> Mapping[Any, Any]: ...
    @property
    def n_users(self) -> int: ...


class _Compared(Protocol):
    @property
    def metric(self) -> Any: ...
    @property
    def mean(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def p_value(self) -> float: ...
    @property
    def n_users(self) -> int: ...
    @property
    def test(self) -> str: ...


V = TypeVar("V", bound=_Judged)
D = TypeVar("D", bound=_Compared)


class ByGroup(dict[str, V]):
    """Evaluations by the names of groups, as a dict that prints a row for each."""

    def _cells(self) -> list[Row]:
        first = next(iter(self.values()), None)
        metrics = [] if first is None else list(first.scores)
        header = ("group", "users", *(n for m in metrics for n in (str(m), "std. error")))
        return [header, *(self._row(name, metrics) for name in self)]

    def _row(self, name: str, metrics: list[Any]) -> Row:
        scores = [self[name].scores[metric] for metric in metrics]
        values = (t for s in scores for t in (f"{s.value:.5f}", f"{s.standard_error:.5f}"))
        return (name, f"{self[name].n_users:,}", *values)

    def __repr__(self) -> str:
        return aligned(self._cells(), terminal_width())

    def _repr_html_(self) -> str:
        header, *rows = self._cells()
        return table("Evaluation by group", rows, header)


class Differences(dict[str, D]):
    """Differences of one model to others, by their names, as a dict that prints a row for each.

    Attributes
    ----------
    to : str
        The model from whose values those of the others were subtracted.
    """

    def __init__(self, differences: Mapping[str, D], to: str) -> None:
        super().__init__(differences)
        self.to = to

    def _cells(self) -> list[Row]:
        rows = [
            (name, f"{one.mean:+.5f}", f"{one.low:+.5f} to {one.high:+.5f}", p_value(one.p_value))
            for name, one in self.items()
        ]
        return [(f"{self.to} minus", "mean", "95 % interval", "p"), *rows]

    def _told(self) -> str:
        one = next(iter(self.values()))
        return f"{one.metric}, {one.test}, {counted(one.n_users, 'user')}"

    def __repr__(self) -> str:
        return f"{aligned(self._cells(), terminal_width())}\n{self._told()}"

    def _repr_html_(self) -> str:
        header, *rows = self._cells()
        return table("Paired differences", rows, header) + paragraphs([self._told()])


def p_value(value: float) -> str:
    """A p-value as text; 0 means that it is too small for a float."""
    return "< 1e-300" if value == 0 else f"{value:.3g}"
