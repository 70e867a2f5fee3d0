"""The user side and the item side of a store, with the same operations by id or row number."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, MappingView, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import (
    Listed,
    distinct,
    is_on_gpu,
    is_sparse_on_gpu,
    on_host,
    shown,
    sparse_to_host,
    take,
    to_host,
)
from mfrank.backends import Factors
from mfrank.data import (
    Ids,
    Interactions,
    OnUnknown,
    UnknownIdError,
    check_numbering,
    is_frame,
    select,
)
from mfrank.retrieval import filters as gpu_filters
from mfrank.retrieval.filters import ItemFilter, Queries, Rows, check_rows_there
from mfrank.store import FactorStore

Raw: TypeAlias = Hashable | ArrayLike
"""One id, or several (a list, an array, a range, a Series)."""

Matrix: TypeAlias = Interactions | sp.sparray | sp.spmatrix
"""Interactions, or a scipy or CuPy sparse matrix."""

_COLLECTIONS = (set, frozenset, Mapping, MappingView, Iterator)


def is_single(raw: Raw) -> bool:
    """Whether ``raw`` is one id, not an array of ids."""
    if isinstance(raw, str | bytes | int | np.generic):
        return True
    if isinstance(raw, (list, tuple, *_COLLECTIONS)):
        return False
    try:
        return np.ndim(raw) == 0  # type: ignore[arg-type]
    except ValueError:  # lists of several lengths, refused by name where they are read
        return False


def given_ids(raw: Raw, argument: str, *, ordered: bool = True) -> Raw:
    """The ids of an argument in a form that can be read more than once.

    Arrays of any library become arrays of numpy or CuPy, iterators and views of dicts become lists,
    and an array of no dimensions becomes its single element, on the host. Without ``ordered`` a set
    becomes a list, too.

    Raises
    ------
    TypeError
        It is a mapping or a sparse matrix, or a set and ``ordered``.
    """
    if isinstance(raw, str | int | list):
        return raw
    if isinstance(raw, set | frozenset):
        if ordered:
            raise TypeError(
                f"{argument} must be in an order, because answers are, got a {type(raw).__name__}; "
                "pass a list, such as list(ids)"
            )
        return list(raw)
    if isinstance(raw, Mapping) or sp.issparse(raw):
        raise TypeError(
            f"{argument} must be an id or a list of ids, got a {type(raw).__name__}; of a mapping, "
            "list(ids) are its keys"
        )
    if isinstance(raw, Iterator | MappingView):
        return list(cast(Iterable[Any], raw))
    taken: Any = take(raw, argument)
    if not is_single(taken):
        return cast(Raw, taken)
    single = to_host(taken, argument)
    return cast(Raw, single.item() if isinstance(single, np.ndarray) else single)


def given_id(raw: Raw, argument: str) -> Raw:
    """A single id; raise TypeError if it is anything else."""
    single = raw if isinstance(raw, set | frozenset) else given_ids(raw, argument)
    if not is_single(single):
        raise TypeError(f"{argument} must be one id, got {shown(raw)}")
    return single


def given_filter(values: Any, argument: str) -> Any:
    """A filter in a form that can be read more than once, sets among its lists included.

    Raises
    ------
    TypeError
        It is a mapping, or a column of lists, whose order may be another than that of the query
        ids.
    """
    if values is None or sp.issparse(values) or is_sparse_on_gpu(values):
        return values
    given: Any = given_ids(values, argument, ordered=False)
    if is_single(given):
        return [given]
    if not isinstance(given, list | tuple):
        if is_on_gpu(given) or isinstance(given, range):
            return given
        taken = np.asarray(given)
        if taken.dtype != object or taken.ndim != 1 or all(map(is_single, taken)):
            return given
        if given is not taken:
            raise TypeError(
                f"{argument} must be one list of ids, or a list of lists, got a column of lists "
                f"({type(given).__name__}); pass its .tolist(), in the order of the query ids"
            )
        given = taken.tolist()
    if all(map(is_single, given)):
        return given
    for place, row in enumerate(given):
        if is_single(row):
            raise TypeError(
                f"{argument} must be one list of ids, or have a list for each query id; got "
                f"{shown(row)} among lists, in place {place}"
            )
    return [given_ids(row, argument, ordered=False) for row in given]


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
        Whether the caller uses row numbers even if the ids have labels.
    directions : function
        Returns the factors normalized to length 1, shape (n, K), which the store caches.
    unmet : function
        Returns which rows the model knows nothing of, bool (n,), or None if there are none; the
        store caches them.
    lone : function
        Returns which rows have no neighbors, in the same form.
    """

    name: str
    factors: Factors
    biases: NDArray[Any] | None
    ids: Ids
    by_row: bool
    directions: Callable[[], Factors]
    unmet: Callable[[], NDArray[np.bool_] | None]
    lone: Callable[[], NDArray[np.bool_] | None]

    def rows(self, raw: Raw, argument: str, *, missing: int | None = None) -> Rows:
        """Row numbers of one or many ids, 1-D int64; ``missing`` is the row of unknown ids.

        Without ``missing``, an unknown id raises UnknownIdError.
        """
        return on_host(self.rows_there(raw, argument, missing=missing))

    def rows_there(self, raw: Raw, argument: str, *, missing: int | None = None) -> Rows:
        """Like :meth:`rows`, but row numbers on a GPU stay there."""
        many: Any = [raw] if is_single(raw) else raw
        if self._reads_rows(many):
            return check_rows_there(many, len(self.ids), argument, missing=missing)
        return self.find(many, argument, missing=missing)

    def _reads_rows(self, many: Any) -> bool:
        """Whether these are row numbers as they are: a copy to the host would take long."""
        stay = self.speaks_rows and is_on_gpu(many) and many.dtype.kind in "iu"
        return self.by_row or stay

    def find(self, many: Any, argument: str, *, missing: int | None = None) -> Rows:
        """Row numbers of ids, even if ``by_row``; ``missing`` is the row of unknown ids.

        Without ``missing``, an unknown id raises UnknownIdError.
        """
        try:
            return self.ids.rows(many, missing=missing)
        except UnknownIdError as error:
            raise error.given_as(argument) from None
        except (TypeError, ValueError) as error:
            raise type(error)(f"{argument}: {error}") from None

    def queries(self, raw: Raw) -> Queries:
        """The ids as queries; all of them are new to the model if any id is unknown."""
        many = [raw] if is_single(raw) else raw
        rows: Rows
        if self._reads_rows(many):
            rows = check_rows_there(many, 2**31, f"{self.name}id")  # type: ignore[arg-type]
            known = bool((rows < len(self.ids)).all())
        else:
            rows = self.find(many, f"{self.name}id", missing=-1)
            known = bool((rows >= 0).all())
        return Queries.known(rows, len(self.ids)) if known else Queries.new(len(rows))

    def filter(
        self, values: Any, queries: Queries, argument: str, on_unknown: OnUnknown
    ) -> ItemFilter | Listed:
        """Convert a filter argument to row numbers: one list, or one per query.

        Row numbers on a GPU stay there, except a 2-D array from which unknown ones are left out;
        ids with labels are copied to the host.
        """
        values = given_filter(values, argument)
        if values is None:
            return None
        if is_sparse_on_gpu(values):
            return queries.pick_lists(
                gpu_filters.of_sparse(values, len(self.ids), argument), argument
            )
        if not self.speaks_rows:
            values = to_host(values, argument)
        if sp.issparse(values):
            _check_columns(values, self, argument)
            return queries.pick(values, argument)
        if not is_nested(values):
            return self._of_list(values, argument, on_unknown)
        if len(values) != queries.n_queries:
            raise ValueError(
                f"{argument} must have a list for each of the {queries.n_queries} queries, or be "
                f"one list for all; got {len(values)} lists"
            )
        if is_on_gpu(values):
            if on_unknown == "error" and values.dtype.kind in "iu":
                return gpu_filters.of_table(values, len(self.ids), argument)
            values = on_host(values)
        return [self._of_list(row, argument, on_unknown).tolist() for row in values]

    def answer(self, rows: NDArray[np.int32]) -> NDArray[Any]:
        """The caller's ids of row numbers; labels are on the host."""
        return rows if self.speaks_rows else self.ids.raw(on_host(rows))

    def _of_list(self, raw: Raw, argument: str, on_unknown: OnUnknown) -> Rows:
        """Row numbers of ids, where they lie; with "skip", only those of the known ones."""
        if on_unknown == "error":
            return self.rows_there(raw, argument)
        rows = self.rows_there(raw, argument, missing=-1)
        return rows[rows >= 0]

    @property
    def speaks_rows(self) -> bool:
        """Whether the caller's ids are row numbers."""
        return self.by_row or self.ids.table is None


def sides(store: FactorStore, *, by_row: bool = False) -> tuple[Side, Side]:
    """User side and item side of a store."""
    return (
        Side(
            "user",
            store.user_factors,
            store.user_biases,
            store.user_ids,
            by_row,
            directions=lambda: store.user_directions,
            unmet=lambda: store.unmet_users,
            lone=lambda: store.lone_users,
        ),
        Side(
            "item",
            store.item_factors,
            store.item_biases,
            store.item_ids,
            by_row,
            directions=lambda: store.item_directions,
            unmet=lambda: store.unmet_items,
            lone=lambda: store.lone_items,
        ),
    )


def given_rows(
    matrix: Matrix, raw: Raw, query_side: Side, answering: Side, argument: str
) -> sp.csr_array:
    """One row of interactions for each id of ``raw``, shape (len(raw), rows of ``answering``).

    Parameters
    ----------
    matrix : Interactions or sparse matrix
        Interactions are matched by id. A sparse matrix has one row per id or is the whole matrix
        (:meth:`Queries.pick`); its columns are the rows of ``answering``.
    raw : id or ids
        Ids of the side ``query_side``; they may be new to the model.
    query_side, answering : Side
    argument : str
        Name of the matrix, for error messages.
    """
    matrix = sparse_to_host(matrix)
    if isinstance(matrix, Interactions):
        return _by_ids(matrix, matrix.user_items, raw, query_side, answering, argument)
    if not sp.issparse(matrix):
        remedy = "; read it by Interactions.from_frame first" if is_frame(matrix) else ""
        raise TypeError(
            f"{argument} must be Interactions or a scipy sparse matrix, got "
            f"{type(matrix).__name__}{remedy}"
        )
    _check_columns(matrix, answering, argument)
    return query_side.queries(raw).pick(matrix, argument)


def given_seen(
    matrix: Interactions, raw: Raw, query_side: Side, answering: Side, argument: str
) -> sp.csr_array:
    """Like :func:`given_rows`, with what is only seen as zeros."""
    return _by_ids(matrix, matrix.seen, raw, query_side, answering, argument)


def given_lists(
    matrix: Matrix, raw: Raw, query_side: Side, answering: Side, argument: str
) -> sp.csr_array | Listed:
    """All that is seen, one row for each id of ``raw``; a matrix on a GPU stays there."""
    if isinstance(matrix, Interactions):
        return given_seen(matrix, raw, query_side, answering, argument)
    if not is_sparse_on_gpu(matrix):
        return given_rows(matrix, raw, query_side, answering, argument)
    lists = gpu_filters.of_sparse(matrix, len(answering.ids), argument)
    return query_side.queries(raw).pick_lists(lists, argument)


def _by_ids(
    matrix: Interactions,
    user_items: sp.csr_array,
    raw: Raw,
    query_side: Side,
    answering: Side,
    argument: str,
) -> sp.csr_array:
    """Rows of ``user_items``, which are of these interactions."""
    table, rows, columns = user_items, matrix.user_ids, matrix.item_ids
    if query_side.name == "item":
        table = matrix.item_users if table is matrix.user_items else table.T.tocsr()
        rows, columns = columns, rows
    labels = query_side.ids.raw(query_side.rows(raw, argument)) if query_side.by_row else raw
    check_numbering(rows, query_side.ids, argument, query_side.name)
    check_numbering(columns, answering.ids, argument, answering.name)
    try:
        picked = table[rows.rows([labels] if is_single(labels) else labels)]  # type: ignore[arg-type]
        if columns == answering.ids:
            return picked
        used = distinct(picked.indices)
        place = np.zeros(len(columns), dtype=np.int64)
        place[used] = answering.ids.rows(columns.raw(used), missing=-1)
        if (place[used] < 0).any():
            answering.ids.rows(columns.raw(distinct(picked.indices[picked.data != 0])))
            # Unknown ids that are only seen cannot be listed anyway.
            picked = select(picked, np.flatnonzero(place[picked.indices] >= 0))
    except ValueError as error:
        raise ValueError(f"{argument}: {error}") from None
    shape = picked.shape[0], len(answering.ids)
    return sp.csr_array((picked.data, place[picked.indices], picked.indptr), shape)


def is_nested(values: Any) -> bool:
    """Whether a filter has one list per query."""
    if isinstance(values, np.ndarray) or is_on_gpu(values):
        return bool(values.ndim > 1)
    if isinstance(values, range):  # of numbers, however many
        return False
    return isinstance(values, Sequence) and not all(map(is_single, values))


def _check_columns(matrix: Any, columns: Side, argument: str) -> None:
    if matrix.ndim != 2 or matrix.shape[1] != len(columns.ids):
        raise ValueError(
            f"{argument} must have a column for each of the {len(columns.ids)} {columns.name}s, "
            f"got shape {matrix.shape}"
        )
