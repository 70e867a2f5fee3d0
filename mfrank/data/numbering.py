"""The first pass over files: their ids, how often each occurs, and the kind of timestamps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray

from mfrank.data.fields import as_text
from mfrank.data.ids import Ids
from mfrank.data.labels import canonical, objects
from mfrank.data.odd_ids import tell_converted
from mfrank.data.table_files import Portion
from mfrank.data.time_units import Magnitudes, Moments, TimeKind
from mfrank.data.values import Extent

__all__ = ["Labels", "Numbering"]

_LABELS_AT_ONCE = 1 << 20
"""Minimum number of whole numbers that are collected before the new ones among them are found."""
_WIDER = get_args(TimeKind).index
"""A file with numbers and dates has dates, one with fractions has numbers."""


class Numbering:
    """What was found in the files so far; it can be saved, and loaded by a resumed run.

    Attributes
    ----------
    users, items : Labels
    times : dict of str to TimeKind
        The kind of the timestamps of each text file, by its name.
    magnitudes : Magnitudes
        Of all timestamps that are numbers.
    spans : dict of str to list of two ints
        The lowest and the highest timestamp of each file, by its name.
    values : Extent
    timed : list of str
        The first file that has no timestamps, and the first that has; empty if there is none yet.
    """

    def __init__(self) -> None:
        self.users, self.items = Labels(), Labels()
        self.times: dict[str, TimeKind] = {}
        self.magnitudes = Magnitudes()
        self.spans: dict[str, list[int]] = {}
        self.values = Extent()
        self.timed = ["", ""]

    @property
    def facts(self) -> dict[str, Any]:
        """Everything that is not in the arrays, as JSON."""
        magnitudes = self.magnitudes.to_dict()
        facts = {"times": self.times, "timed": self.timed, "magnitudes": magnitudes}
        facts["spans"] = self.spans
        return facts | {"values": self.values.to_dict()}

    @classmethod
    def load(cls, file: Path, facts: Mapping[str, Any]) -> Self:
        """Read what :meth:`save` wrote."""
        made = cls()
        with np.load(file, allow_pickle=False) as arrays:
            for side in ("users", "items"):
                own = {name.partition(".")[2]: name for name in arrays if name.startswith(side)}
                labels = Labels.of({part: arrays[name] for part, name in own.items()})
                setattr(made, side, labels)
        made.times, made.timed = dict(facts["times"]), list(facts["timed"])
        made.magnitudes = Magnitudes(**facts["magnitudes"])
        made.spans = dict(facts["spans"])
        made.values = Extent(**facts["values"])
        return made

    def save(self, file: Path) -> None:
        """Write the ids to a new file."""
        arrays: dict[str, Any] = {}
        for side, labels in (("users", self.users), ("items", self.items)):
            arrays |= {f"{side}.{name}": array for name, array in labels.to_arrays().items()}
        with file.open("xb") as opened:
            np.savez(opened, **arrays)

    def add(self, path: Path, portion: Portion) -> None:
        """Take in some rows of a file, whose values are checked.

        Raises
        ------
        ValueError, TypeError
            A value or an id is invalid, or only some files have timestamps; the message names the
            file.
        """
        self.timed[portion.is_timed] = self.timed[portion.is_timed] or str(path)
        without, with_times = self.timed
        if without and with_times:
            raise ValueError(
                f"{with_times} has timestamps and {without} has none; read all without them: "
                "timestamp=False"
            )
        if (when := portion.moments) is not None:
            self._add_times(str(path), when, portion.first_row)
        for labels, role in ((self.users, "user"), (self.items, "item")):
            if labels.is_empty:  # once for all files
                tell_converted(role, portion.columns[role])
            try:
                labels.add(canonical(portion.columns[role], portion.first_row))
            except (TypeError, ValueError) as error:
                raise type(error)(f"{path}: {role}s: {error}") from None
        _check_values(path, portion)
        self.values.add(portion.columns.get("value", np.empty(0)))

    def _add_times(self, path: str, when: Moments, first_row: int) -> None:
        self.times[path] = max(self.times.get(path, when.kind), when.kind, key=_WIDER)
        self.magnitudes.add(when, first_row)
        if len(when.numbers):
            ends = [*self.spans.get(path, ()), int(when.numbers.min()), int(when.numbers.max())]
            self.spans[path] = [min(ends), max(ends)]


class Labels:
    """How often each id occurs; whole numbers become text where another portion has text."""

    def __init__(self) -> None:
        self._numbers = np.empty(0, np.int64)
        self._occurrences = np.empty(0, np.int64)
        self._new: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._text = Counter[Any]()

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Build from the arrays that :meth:`to_arrays` returned."""
        made = cls()
        made._numbers, made._occurrences = arrays["numbers"], arrays["occurrences"]
        text = {name: arrays[name] for name in ("utf8", "offsets", "whole") if name in arrays}
        if text:
            labels = Ids.from_arrays(text).labels.tolist()
            made._text.update(dict(zip(labels, arrays["text_occurrences"].tolist(), strict=True)))
        return made

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been counted."""
        return not (self._text or self._new or len(self._numbers))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The ids and their numbers as arrays."""
        self._merge()
        arrays = {"numbers": self._numbers, "occurrences": self._occurrences}
        if self._text:
            arrays |= Ids.of(objects(self._text)).to_arrays()
            arrays["text_occurrences"] = np.array(list(self._text.values()), np.int64)
        return arrays

    def add(self, labels: NDArray[Any]) -> None:
        """Count canonical labels."""
        if labels.dtype != np.int64:
            self._text.update(labels.tolist())
            return
        self._new.append(np.unique(labels, return_counts=True))
        # Sort all again only when as many new ones have come as there are.
        if sum(len(new) for new, _ in self._new) >= max(_LABELS_AT_ONCE, len(self._numbers)):
            self._merge()

    def _merge(self) -> None:
        parts = [(self._numbers, self._occurrences), *self._new]
        labels, occurrences = (np.concatenate(part) for part in zip(*parts, strict=True))
        self._numbers, place = np.unique(labels, return_inverse=True)
        self._occurrences = np.zeros(len(self._numbers), np.int64)
        np.add.at(self._occurrences, place, occurrences)
        self._new = []

    def numbered(self) -> tuple[Ids, NDArray[np.int64]]:
        """The ids in the order of their rows, and how often each occurs."""
        self._merge()
        if not self._text:
            return Ids.factorize(self._numbers)[0], self._occurrences
        text = Counter(dict(zip(as_text(self._numbers), self._occurrences.tolist(), strict=True)))
        text.update(self._text)
        ids = Ids.factorize(objects(text))[0]
        return ids, np.array([text[label] for label in ids.labels], np.int64)


def _check_values(path: Path, portion: Portion) -> None:
    values = portion.columns.get("value", np.empty(0))
    infinite = np.flatnonzero(~np.isfinite(values))
    if len(infinite):
        row = int(infinite[0])
        raise ValueError(
            f"{path}: the value of row {portion.first_row + row} is {values[row]}, not finite"
        )
