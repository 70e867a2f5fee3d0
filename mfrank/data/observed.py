"""Observed cells of a users x items matrix, the ids of its rows and columns, and its views."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays.checks import check_instance, is_number, shown
from mfrank.arrays.counted import counted
from mfrank.arrays.csr import CSR
from mfrank.arrays.lazy import lazy
from mfrank.arrays.notebook import table
from mfrank.arrays.read_only import read_only, read_only_rows
from mfrank.data import cells
from mfrank.data.cells import Cells, Summed, ValuesFrom
from mfrank.data.counts import Counts
from mfrank.data.ids import Ids
from mfrank.data.pickling import MadeOfFields
from mfrank.files.folder import Origin

__all__ = ["Observed"]


@dataclass(frozen=True, eq=False, repr=False)
class Observed(MadeOfFields):
    """The data of :class:`mfrank.Interactions`, documented there, and how they are read."""

    _noted = ("_summed", "_values_from")

    user_items: sp.csr_array
    user_ids: Ids
    item_ids: Ids
    timestamps: NDArray[np.int64] | None = None
    seen_only: Self | None = None
    threshold: float | None = field(default=None, kw_only=True)
    origin: Origin = field(default_factory=dict, kw_only=True)
    _views: dict[tuple[str, Any], CSR] = field(default_factory=dict, init=False)
    _summed: Summed | None = field(default=None, init=False)
    _values_from: ValuesFrom = field(default="given", init=False)

    def __post_init__(self) -> None:
        if self.threshold is not None and not is_number(self.threshold):
            raise ValueError(
                f"threshold must be a finite number or None, got {shown(self.threshold)}"
            )
        # No arguments of the constructor, so that whoever replaces the matrix loses them.
        object.__setattr__(self, "_summed", None)
        object.__setattr__(self, "_values_from", "given")
        for name in ("user_ids", "item_ids"):
            check_instance(name, getattr(self, name), Ids, "Ids, such as Ids.of(labels)")
        if not sp.issparse(self.user_items):
            raise TypeError(
                "user_items must be a scipy.sparse.csr_array (users x items), got "
                f"{type(self.user_items).__name__}"
            )
        shape = (len(self.user_ids), len(self.item_ids))
        if self.user_items.shape != shape:
            raise ValueError(
                f"the matrix has {self.user_items.shape[0]} users and {self.user_items.shape[1]} "
                f"items, but ids are given for {shape[0]} and {shape[1]}"
            )
        if self.timestamps is not None and len(self.timestamps) != self.user_items.nnz:
            raise ValueError(
                f"{counted(len(self.timestamps), 'timestamp')} for {counted(self.nnz, 'entry')}"
            )
        object.__setattr__(self, "user_items", read_only_rows(self.user_items, "user_items"))
        object.__setattr__(self, "origin", dict(self.origin))  # of its own, for its saves
        if self.timestamps is not None:
            object.__setattr__(self, "timestamps", read_only(self.timestamps))
        object.__setattr__(self, "seen_only", self._own_seen_only())

    def _own_seen_only(self) -> Self | None:
        """The cells that are only seen, with these ids; None if there are none."""
        given = self.seen_only
        if given is None:
            return None
        check_instance("seen_only", given, Observed, "Interactions, or None")
        if given.user_items.shape != self.user_items.shape:
            raise ValueError(
                f"seen_only must have the shape {self.user_items.shape}, got "
                f"{given.user_items.shape}"
            )
        if self.timestamps is not None and given.timestamps is None:
            raise ValueError("seen_only must have timestamps, as these interactions have")
        if not given.nnz:
            return None
        own = given.user_ids is self.user_ids and given.item_ids is self.item_ids
        timed = self.timestamps is not None
        if own and timed == (given.timestamps is not None) and given.seen_only is None:
            return given
        return replace(
            given,
            user_ids=self.user_ids,
            item_ids=self.item_ids,
            timestamps=given.timestamps if timed else None,
            seen_only=None,
        )

    @classmethod
    def _of_cells(
        cls,
        found: Cells,
        user_ids: Ids,
        item_ids: Ids,
        origin: Origin | None = None,
        threshold: float | None = None,
    ) -> Self:
        only = found.seen_only
        seen_only = None if only is None else cls(only.rows, user_ids, item_ids, only.timestamps)
        made = cls(
            *(found.rows, user_ids, item_ids, found.timestamps, seen_only),
            threshold=threshold,
            origin=origin or {},
        )
        if found.summed is not None and len(found.summed.places):
            object.__setattr__(made, "_summed", found.summed)
        object.__setattr__(made, "_values_from", found.values_from)
        return made

    @property
    def cells(self) -> Cells:
        """The cells, without those that are only seen."""
        return Cells(self.user_items, self.timestamps, None, self._summed, self._values_from)

    @property
    def largest(self) -> NDArray[Any]:
        """The largest entry of each cell, where several were added up; else the value."""
        if self._values_from == "repeats":
            return np.ones_like(self.user_items.data)
        if self._summed is None:
            return self.user_items.data
        largest = self.user_items.data.copy()
        largest[self._summed.places] = self._summed.largest
        return largest

    @property
    def n_users(self) -> int:
        """Number of users, those without entries included."""
        return int(self.user_items.shape[0])

    @property
    def n_items(self) -> int:
        """Number of items, those without entries included."""
        return int(self.user_items.shape[1])

    @property
    def nnz(self) -> int:
        """Number of observed cells."""
        return int(self.user_items.nnz)

    @lazy
    def item_users(self) -> sp.csr_array:
        """The transposed matrix as CSR, shape (n_items, n_users); built once."""
        return read_only_rows(self.user_items.T.tocsr(), "item_users")

    @lazy
    def counts(self) -> Counts:
        """Numbers of observed items of each user and of users of each item."""
        items = np.bincount(self.user_items.indices, minlength=self.n_items)
        users = np.diff(self.user_items.indptr)
        return Counts(*(read_only(each.astype(np.int64)) for each in (users, items)))

    @lazy
    def seen(self) -> sp.csr_array:
        """All cells that users know, shape (n_users, n_items): lists leave them out.

        ``user_items`` and, with the stored value 0, the cells of ``seen_only``; without these,
        ``user_items`` itself. Built once, in memory.
        """
        if self.seen_only is None:
            return self.user_items
        return read_only_rows(cells.with_zeros(self.user_items, self.seen_only.user_items), "seen")

    @property
    def entry_users(self) -> NDArray[np.int32]:
        """User row of every entry, int32, shape (nnz,), aligned with ``user_items.indices``."""
        return cells.entry_rows(self.user_items)

    def user_rows(self, dtype: DTypeLike | None = np.float32) -> CSR:
        """The users' rows for the kernels, cached; ``dtype=None`` drops the values."""
        return self._view("user_items", dtype)

    def item_rows(self, dtype: DTypeLike | None = np.float32) -> CSR:
        """The items' rows for the kernels, cached; ``dtype=None`` drops the values."""
        return self._view("item_users", dtype)

    def seen_rows(self) -> CSR:
        """The users' rows of ``seen`` for the kernels, without values; cached."""
        return self.user_rows(None) if self.seen_only is None else self._view("seen", None)

    def to_scipy(self) -> sp.csr_matrix:
        """A writable copy of the users x items matrix for other libraries.

        It is a ``csr_matrix``, because implicit reads nothing else: ``model.fit(data.to_scipy())``.
        """
        matrix: sp.csr_matrix = sp.csr_matrix(self.user_items, copy=True)
        return matrix

    def to_pandas(self) -> Any:
        """DataFrame with the columns user, item, value and, if there are any, timestamp.

        Cells that are only seen are in ``seen_only.to_pandas()``.

        Raises
        ------
        ModuleNotFoundError
            If pandas is not installed.
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "to_pandas needs pandas: pip install mfrank[pandas]"
            ) from error
        columns = {
            "user": self.user_ids.labels[self.entry_users],
            "item": self.item_ids.labels[self.user_items.indices],
            "value": self.user_items.data,
        }
        if self.timestamps is not None:
            columns["timestamp"] = self.timestamps
        return pandas.DataFrame(columns)

    def __repr__(self) -> str:
        density = f", density {self._density}" if self._density else ""
        times = "" if self.timestamps is None else ", timestamps"
        only = "" if self.seen_only is None else f", {self.seen_only.nnz:,} more only seen"
        return (
            f"Interactions({counted(self.n_users, 'user')} x {counted(self.n_items, 'item')}, "
            f"{counted(self.nnz, 'entry')}{density}{times}{only})"
        )

    def _repr_html_(self) -> str:
        values, times = self.user_items.data, self.timestamps
        rows = [
            ("users", self.user_ids.summary),
            ("items", self.item_ids.summary),
            ("entries", f"{self.nnz:,}"),
            *([] if self.seen_only is None else [("only seen", f"{self.seen_only.nnz:,}")]),
            ("density", self._density or "none"),
            ("values", "ones" if (values == 1).all() else _range(values)),
            ("timestamps", "none" if times is None else _range(times)),
        ]
        return table("Interactions", rows)

    @property
    def _density(self) -> str:
        """Fraction of the cells that are observed, as text; empty if there are no cells."""
        cells_in_all = self.n_users * self.n_items
        return f"{self.nnz / cells_in_all:.3%}" if cells_in_all else ""

    def _view(self, side: str, dtype: DTypeLike | None) -> CSR:
        key = side, None if dtype is None else np.dtype(dtype)
        if key not in self._views:
            across = self.user_rows(dtype) if side == "item_users" else None
            self._views[key] = CSR.from_scipy(getattr(self, side), dtype, across)
        return self._views[key]


def _range(numbers: NDArray[Any]) -> str:
    return f"{numbers.min()} to {numbers.max()}" if numbers.size else "none"
