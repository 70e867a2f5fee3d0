"""The users' side and the items' side of a store: one code for both, raw ids or row numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import on_host
from mfrank.backends import Factors
from mfrank.data.ids import Ids
from mfrank.data.interactions import Interactions
from mfrank.distinct import distinct
from mfrank.foreign import is_on_gpu, is_sparse_on_gpu, sparse_to_host, take, to_host
from mfrank.picked import Listed
from mfrank.retrieval import on_gpu
from mfrank.retrieval.asked import Asked, Rows, check_rows_there
from mfrank.retrieval.candidates import ItemFilter
from mfrank.store.factors import FactorStore

__all__ = ["Matrix", "Raw", "Side", "given_ids", "given_lists", "given_rows", "is_single", "sides"]

Raw: TypeAlias = Hashable | ArrayLike
"""One id, or many (a list, an array, a range, a Series)."""

Matrix: TypeAlias = Interactions | sp.sparray | sp.spmatrix
"""Interactions, or a sparse matrix of scipy's or CuPy's."""


def is_single(raw: Raw) -> bool:
    """Whether one id is meant, not many."""
    return isinstance(raw, str | bytes) or np.ndim(raw) == 0  # type: ignore[arg-type]


def given_ids(raw: Raw, argument: str) -> Raw:
    """Ids of any library's array as numpy's or the GPU's; a single one comes to the host."""
    taken = take(raw, argument)
    single: Raw = to_host(taken, argument) if is_single(taken) else taken
    return single


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One side of a store.

    Attributes
    ----------
    name : {"user", "item"}
    factors : shape (n, K)
    biases : shape (n,), or None
    ids : Ids
    by_row : bool
        Whether callers speak row numbers even where the ids have labels.
    directions : function
        That gives the factors' directions, which the store keeps.
    """

    name: str
    factors: Factors
    biases: NDArray[Any] | None
    ids: Ids
    by_row: bool
    directions: Callable[[], Factors]

    def rows(self, raw: Raw, argument: str) -> Rows:
        """Row numbers of one or many ids, int64, 1-D; ValueError where one is unknown."""
        return on_host(self.rows_there(raw, argument))

    def rows_there(self, raw: Raw, argument: str) -> Rows:
        """As :meth:`rows`; on the GPU where the ids are row numbers that lie there."""
        many = [raw] if is_single(raw) else raw
        if self.speaks_rows:
            return check_rows_there(many, len(self.ids), argument)  # type: ignore[arg-type]
        return self.find(many, argument)

    def find(self, many: Any, argument: str, *, missing: int | None = None) -> Rows:
        """Row numbers of ids, whoever speaks row numbers; ``missing`` stands for unknown ones."""
        try:
            return self.ids.rows(many, missing=missing)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{argument}: {error}") from None

    def asked(self, raw: Raw) -> Asked:
        """Who is asked for; as new to the model where any id is unknown."""
        many = [raw] if is_single(raw) else raw
        rows: Rows
        if self.by_row or (self.speaks_rows and is_on_gpu(many)):
            rows = check_rows_there(many, 2**31, f"{self.name}id")  # type: ignore[arg-type]
            known = bool((rows < len(self.ids)).all())
        else:
            rows = self.find(many, f"{self.name}id", missing=-1)
            known = bool((rows >= 0).all())
        return Asked.known(rows, len(self.ids)) if known else Asked.new(len(rows))

    def filter(self, values: Any, asked: Asked, argument: str) -> ItemFilter | Listed:
        """Bring a filter argument to row numbers: one list, or one for each query asked.

        What lies on a GPU stays there, but ids that have labels.
        """
        values = take(values, argument)
        if values is None:
            return None
        if is_sparse_on_gpu(values):
            return asked.pick_lists(on_gpu.of_sparse(values, len(self.ids), argument), argument)
        if not self.speaks_rows:
            values = to_host(values, argument)
        if sp.issparse(values):
            _check_columns(values, self, argument)
            return asked.pick(values, argument)
        if not _is_nested(values):
            return self.rows_there(values, argument)
        if len(values) != asked.n_queries:
            raise ValueError(
                f"{argument} must have a list for each of the {asked.n_queries} queries, or be one "
                f"list for all; got {len(values)} lists"
            )
        if is_on_gpu(values):
            return on_gpu.of_table(values, len(self.ids), argument)
        return [self.rows(row, argument).tolist() for row in values]

    def answer(self, rows: NDArray[np.int32]) -> NDArray[Any]:
        """Ids of row numbers, as callers speak them; labels are on the host."""
        return rows if self.speaks_rows else self.ids.raw(on_host(rows))

    @property
    def speaks_rows(self) -> bool:
        """Whether callers speak row numbers."""
        return self.by_row or self.ids.table is None


def sides(store: FactorStore, *, by_row: bool = False) -> tuple[Side, Side]:
    """Both sides of a store, users first."""
    users = store.user_factors, store.user_biases, store.user_ids
    items = store.item_factors, store.item_biases, store.item_ids
    return (
        Side("user", *users, by_row, lambda: store.user_directions),
        Side("item", *items, by_row, lambda: store.item_directions),
    )


def given_rows(
    matrix: Matrix, raw: Raw, asking: Side, answering: Side, argument: str
) -> sp.csr_array:
    """One row of interactions for each id asked about, its columns the answering side's rows.

    Interactions are read by their ids. A sparse matrix has a row for each id asked about, or is the
    whole one (:meth:`Asked.pick`); its columns are the answering side's rows. Ids need not be known
    to the model.
    """
    matrix = sparse_to_host(matrix)
    if isinstance(matrix, Interactions):
        return _by_ids(matrix, raw, asking, answering, argument)
    if not sp.issparse(matrix):
        raise TypeError(
            f"{argument} must be Interactions or a scipy sparse matrix, got {type(matrix).__name__}"
        )
    _check_columns(matrix, answering, argument)
    return asking.asked(raw).pick(matrix, argument)


def given_lists(
    matrix: Matrix, raw: Raw, asking: Side, answering: Side, argument: str
) -> sp.csr_array | Listed:
    """As :func:`given_rows`, whose values do not count; of a matrix on a GPU where it lies."""
    if not is_sparse_on_gpu(matrix):
        return given_rows(matrix, raw, asking, answering, argument)
    lists = on_gpu.of_sparse(matrix, len(answering.ids), argument)
    return asking.asked(raw).pick_lists(lists, argument)


def _by_ids(
    matrix: Interactions, raw: Raw, asking: Side, answering: Side, argument: str
) -> sp.csr_array:
    table, rows, columns = matrix.user_items, matrix.user_ids, matrix.item_ids
    if asking.name == "item":
        table, rows, columns = matrix.item_users, columns, rows
    labels = asking.ids.raw(asking.rows(raw, argument)) if asking.by_row else raw
    try:
        picked = table[rows.rows([labels] if is_single(labels) else labels)]  # type: ignore[arg-type]
        if columns == answering.ids:
            return picked
        used = distinct(picked.indices)
        place = np.zeros(len(columns), dtype=np.int64)
        place[used] = answering.ids.rows(columns.raw(used))
    except ValueError as error:
        raise ValueError(f"{argument}: {error}") from None
    shape = picked.shape[0], len(answering.ids)
    return sp.csr_array((picked.data, place[picked.indices], picked.indptr), shape)


def _is_nested(values: Any) -> bool:
    """Whether a filter has one list for each query."""
    if isinstance(values, np.ndarray) or is_on_gpu(values):
        return bool(values.ndim > 1)
    return isinstance(values, Sequence) and not all(map(is_single, values))


def _check_columns(matrix: Any, columns: Side, argument: str) -> None:
    if matrix.ndim != 2 or matrix.shape[1] != len(columns.ids):
        raise ValueError(
            f"{argument} must have a column for each of the {len(columns.ids)} {columns.name}s, "
            f"got shape {matrix.shape}"
        )
