"""Observed cells of a users x items matrix, the ids of its rows and columns, and its views."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays.checks import check_instance
from mfrank.arrays.counted import counted
from mfrank.arrays.csr import CSR
from mfrank.arrays.lazy import lazy
from mfrank.arrays.notebook import table
from mfrank.arrays.read_only import read_only, read_only_rows
from mfrank.data import cells
from mfrank.data.counts import Counts
from mfrank.data.ids import Ids
from mfrank.data.pickling import MadeOfFields
from mfrank.files.folder import Origin

__all__ = ["Observed"]


@dataclass(frozen=True, eq=False, repr=False)
class Observed(MadeOfFields):
    """The data of :class:`mfrank.Interactions`, documented there, and how they are read."""

    user_items: sp.csr_array
    user_ids: Ids
    item_ids: Ids
    timestamps: NDArray[np.int64] | None = None
    origin: Origin = field(default_factory=dict, kw_only=True)
    _views: dict[tuple[str, Any], CSR] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
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

    def to_scipy(self) -> sp.csr_matrix:
        """A writable copy of the users x items matrix for other libraries.

        It is a ``csr_matrix``, because implicit reads nothing else: ``model.fit(data.to_scipy())``.
        """
        matrix: sp.csr_matrix = sp.csr_matrix(self.user_items, copy=True)
        return matrix

    def to_pandas(self) -> Any:
        """DataFrame with the columns user, item, value and, if there are any, timestamp.

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
        return (
            f"Interactions({counted(self.n_users, 'user')} x {counted(self.n_items, 'item')}, "
            f"{counted(self.nnz, 'entry')}{density}{times})"
        )

    def _repr_html_(self) -> str:
        values, times = self.user_items.data, self.timestamps
        rows = [
            ("users", self.user_ids.summary),
            ("items", self.item_ids.summary),
            ("entries", f"{self.nnz:,}"),
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
            across = None if side == "user_items" else self.user_rows(dtype)
            self._views[key] = CSR.from_scipy(getattr(self, side), dtype, across)
        return self._views[key]


def _range(numbers: NDArray[Any]) -> str:
    return f"{numbers.min()} to {numbers.max()}" if numbers.size else "none"
