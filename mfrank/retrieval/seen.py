"""The seen items of each user: as rows of either side, and as extras of a saved factor store."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import (
    CSR,
    MadeOfFields,
    check_csr,
    check_indptr,
    checked,
    counted,
    in_place,
    is_canonical,
    lazy,
    on_host,
    read_only,
    sparse_to_host,
)
from mfrank.data import (
    Interactions,
    check_numbering,
    has_zeros,
    in_shape,
    matrix_in_rows,
    not_in,
    placed,
    select,
    with_zeros,
    without_zeros,
)
from mfrank.errors import InputValueError, unreadable
from mfrank.retrieval.value_scale import ValueScale
from mfrank.store import FactorStore, is_mapped

_log = logging.getLogger("mfrank")

_ENTRIES_AT_ONCE = 1 << 22
_POSITIVE, _VALUES = "seen_positive", "seen_values"


@dataclass(frozen=True, eq=False)
class Seen(MadeOfFields):
    """The seen entries, users x items, as rows of either side; built and checked on first use.

    An entry with the stored value 0 (False) is only seen: the model was not fitted to it, but lists
    leave it out like all others.

    Attributes
    ----------
    matrix : csr_array, shape (n_users, n_items)
    left_out : csr_array of the same shape, or None
        The cells that lists leave out (:meth:`mfrank.Recommender.leave_out`); None for ``matrix``.
    """

    matrix: sp.csr_array
    left_out: sp.csr_array | None = None

    @lazy
    def filtered(self) -> Seen:
        """The entries that lists leave out."""
        return self if self.left_out is None else Seen(self.left_out)

    def updated(self, matrix: sp.csr_array, more: sp.csr_array | None = None) -> Seen:
        """The entries after an update; lists also leave out ``more``, or those that are new."""
        if self.left_out is None:
            return Seen(matrix)
        both = self.checked, self.filtered.checked
        before, left_out = (in_shape(rows, matrix.shape) for rows in both)
        new = select(matrix, not_in(matrix, before)) if more is None else more
        return Seen(matrix, pattern(with_zeros(left_out, new)))

    def rows_of(self, side: str) -> CSR:
        """Items of each user, or users of each item; errors as in :func:`check_seen`."""
        return self._of_users if side == "user" else self._of_items

    def refuse_other_order(
        self, matrix: Any, rows: NDArray[np.int64] | None, side: str, argument: str
    ) -> None:
        """Raise if a matrix is that of the fit, with a row for each id, but ids in another order.

        A matrix with as many rows as there are ids is read as a row for each, in their order. The
        whole one of the fit would then give each id the row of another.

        Parameters
        ----------
        matrix : scipy sparse, or anything else, of which nothing is checked
        rows : int64, or None
            Rows of the ids in the model; None if they are new.
        side : {"user", "item"}
        argument : str
            Name of the matrix, for the error.
        """
        n_rows = self.matrix.shape[side == "item"]
        if rows is None or not sp.issparse(matrix) or len(rows) != n_rows:
            return
        numbers = on_host(rows)
        if np.array_equal(numbers, np.arange(n_rows)):
            self._refuse_transposed(matrix, side, argument)
            return
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < n_rows:  # some are new
            return
        given = checked(matrix, argument).tocsr()
        for had in (self, self.liked):
            whole = had.rows_of(side)
            if same_cells(whole, given) and not same_cells(whole, whole.pick(numbers)):
                raise InputValueError(
                    f"`{argument}` is the matrix of the fit, whose rows have its order, and the "
                    f"{side}s have another:",
                    f"pass the rows of these {side}s, in their order, such as {argument}[rows]",
                )

    def _refuse_transposed(self, matrix: Any, side: str, argument: str) -> None:
        """Raise if a square matrix is that of the fit, but with users as columns."""
        n_users, n_items = self.matrix.shape
        if n_users != n_items or matrix.nnz not in (self.matrix.nnz, self.liked.matrix.nnz):
            return
        given, other = checked(matrix, argument).tocsr(), "user" if side == "item" else "item"
        for had in (self, self.liked):
            if same_cells(had.rows_of(side), given):
                return
        sizes = np.diff(given.indptr)
        for had in (self, self.liked):
            columns = had.rows_of(side).indices
            alike = np.array_equal(np.bincount(columns, minlength=n_users), sizes)
            if alike and same_cells(had.rows_of(other), given):
                raise InputValueError(
                    f"`{argument}` is the matrix of the fit with its rows as columns:",
                    "fit to the matrix whose rows are users, or pass the rows as the fit had them",
                )

    @lazy
    def checked(self) -> sp.csr_array:
        """The matrix, after :func:`check_seen`."""
        check_seen(self.matrix)
        return self.matrix

    @lazy
    def popularity(self) -> NDArray[np.float64]:
        """Number of users who like each item (values above 0), shape (n_items, 1)."""
        matrix = self.checked
        counts = np.zeros((matrix.shape[1], 1))
        for begin in range(0, matrix.nnz, _ENTRIES_AT_ONCE):
            part = slice(begin, begin + _ENTRIES_AT_ONCE)
            liked = matrix.indices[part][matrix.data[part] > 0]
            counts[:, 0] += np.bincount(liked, minlength=len(counts))
        return read_only(counts)

    @lazy
    def value_scale(self) -> ValueScale | None:
        """The unit of the values, if they are known and are not few."""
        return ValueScale.of_some(self.matrix.data)

    @lazy
    def has_only(self) -> bool:
        """Whether there are entries that are only seen."""
        return has_zeros(self.matrix)

    @lazy
    def liked(self) -> Seen:
        """The entries that a fit learns from, without the ones that are only seen."""
        return Seen(without_zeros(self.checked)) if self.has_only else self

    @property
    def positives(self) -> sp.csr_array:
        """The checked matrix of :attr:`liked`."""
        return self.liked.checked

    @property
    def only(self) -> sp.csr_array:
        """The checked entries that are only seen."""
        return select(self.checked, np.flatnonzero(self.checked.data == 0))

    @lazy
    def _of_users(self) -> CSR:
        return CSR.from_scipy(self.checked, dtype=None)

    @lazy
    def _of_items(self) -> CSR:
        return CSR.from_scipy(self.checked.T.tocsr(), dtype=None)


def pattern(rows: sp.csr_array) -> sp.csr_array:
    """The cells of a canonical matrix, all with the value True."""
    return sp.csr_array((np.ones(rows.nnz, dtype=bool), rows.indices, rows.indptr), rows.shape)


def same_cells(one: CSR | sp.csr_array, other: CSR | sp.csr_array) -> bool:
    """Whether two canonical matrices of one shape store the same cells, whatever their values."""
    return one is other or (
        np.array_equal(one.indptr, other.indptr) and np.array_equal(one.indices, other.indices)
    )


def left_out_of(given: Any, store: FactorStore) -> sp.csr_array:
    """The cells of ``user_items`` in the rows of a model; those of others are logged.

    Raises
    ------
    ValueError
        A matrix has another shape, or the model knows none of the cells.
    """
    name, ids, here = "user_items", (store.user_ids, store.item_ids), sparse_to_host(given)
    if sp.issparse(here):
        return pattern(matrix_in_rows(here, *ids, name).seen)
    data = Interactions.of(here)
    own = data.user_ids, data.item_ids
    for side, theirs, known in zip(("user", "item"), own, ids, strict=True):
        check_numbering(theirs, known, name, side)
    places = [known.rows(theirs.labels, missing=-1) for theirs, known in zip(own, ids, strict=True)]
    found = placed(data, places[0], places[1], *ids).seen
    unknown = data.seen.nnz - found.nnz
    if unknown and not found.nnz:
        raise InputValueError(
            f"`{name}` has no user and item that the model knows: their ids are like "
            f"{own[0].labels.item(0)!r} and {own[1].labels.item(0)!r}, the model's like "
            f"{ids[0].labels.item(0)!r} and {ids[1].labels.item(0)!r}"
        )
    if unknown:
        _log.info(
            "%s to leave out are of users or items that the model does not know",
            counted(unknown, "entry"),
        )
    return pattern(found)


def check_seen(seen: sp.csr_array) -> None:
    """Check that the columns of every row are valid items, ascending and distinct.

    Called before a save, and before scipy or a kernel first reads memory-mapped columns.

    Raises
    ------
    ValueError
        An index array is invalid, or columns are unsorted or repeat.
    """
    check_csr(seen.indptr, seen.indices, *seen.shape, "seen")
    if not is_canonical(seen.indptr, seen.indices):
        raise InputValueError("`seen.indices` must ascend within each row, each item once")


def without_relevant(seen: sp.csr_array, relevance: sp.csr_array) -> sp.csr_array:
    """``seen`` without the zeros where ``relevance`` is above 0; both are canonical.

    An evaluation then ranks held-out items that are only seen in training. No model has learned
    from them, so this is fair.
    """
    zeros = np.flatnonzero(seen.data == 0)
    if not len(zeros):
        return seen
    relevant = select(relevance, np.flatnonzero(relevance.data > 0))
    left = not_in(select(seen, zeros), relevant)
    if len(left) == len(zeros):
        return seen
    kept = np.ones(seen.nnz, dtype=bool)
    kept[zeros] = False
    kept[zeros[left]] = True
    return select(seen, np.flatnonzero(kept))


def pack(
    store: FactorStore, seen: sp.csr_array | Seen, *, with_values: bool = False
) -> FactorStore:
    """Return the store with ``seen`` (users x items) in its extras.

    ``with_values`` is for models that read them, if they are known; others have the pattern, with
    marks of the zeros.

    Raises
    ------
    ValueError
        The arrays of ``seen`` were modified since the fit, and :func:`unpack` would refuse them.
    """
    seen = seen if isinstance(seen, Seen) else Seen(seen)
    try:
        check_seen(seen.matrix)
        if seen.left_out is not None:
            check_seen(seen.left_out)
    except ValueError as error:
        raise InputValueError(
            f"the model's interactions were changed since the fit ({error})",
            "fit anew, or save with `with_seen=False`",
        ) from error
    extras = {**store.extras, **_arrays_of("seen", seen.matrix)}
    if with_values and seen.matrix.dtype != bool:
        extras[_VALUES] = seen.matrix.data
    elif not (positive := seen.matrix.data != 0).all():
        extras[_POSITIVE] = positive
    if seen.left_out is not None:
        extras |= _arrays_of("left_out", seen.left_out)
    return replace(store, extras=extras)


def unpack(store: FactorStore) -> tuple[FactorStore, Seen | None]:
    """Split a store into the store without the seen entries, and these, or None.

    They are bool matrices, but for the entries that were saved with their values.

    Memory-mapped columns are checked later, by :class:`Seen`: checking them here would read the
    whole file.

    Raises
    ------
    ValueError
        A pattern is damaged.
    """
    if not set(_names_of("seen")) <= set(store.extras):
        return store, None
    extras, shape = dict(store.extras), (store.n_users, store.n_items)
    marks, values = extras.pop(_POSITIVE, None), extras.pop(_VALUES, None)
    try:
        seen = _matrix_of("seen", extras, shape, marks, values)
        left_out = None
        if set(_names_of("left_out")) <= set(extras):
            left_out = _matrix_of("left_out", extras, shape)
    except ValueError as error:
        raise unreadable("the seen items saved with the model", "are damaged", error) from error
    return replace(store, extras=extras), Seen(seen, left_out)


def _names_of(pattern: str) -> tuple[str, str]:
    """Names of the extras with the offsets and columns of a pattern."""
    return f"{pattern}_indptr", f"{pattern}_indices"


def _arrays_of(name: str, rows: sp.csr_array) -> dict[str, NDArray[Any]]:
    offsets, columns = _names_of(name)
    return {
        offsets: rows.indptr.astype(np.int64, copy=False),
        columns: rows.indices.astype(np.int32, copy=False),
    }


def _matrix_of(
    name: str,
    extras: dict[str, NDArray[Any]],
    shape: tuple[int, int],
    positive: NDArray[Any] | None = None,
    values: NDArray[Any] | None = None,
) -> sp.csr_array:
    """Take the arrays of a pattern out of the extras, as a matrix of bool or of these values."""
    indptr, indices = (extras.pop(each) for each in _names_of(name))
    if indptr.dtype != np.int64 or indices.dtype != np.int32:
        raise InputValueError(f"offsets are {indptr.dtype}, columns {indices.dtype}")
    # First, because scipy does not check that offsets lie within the columns.
    check_indptr(indptr, indices.size, shape[0], name)
    if positive is None:
        positive = np.ones(indices.size, dtype=bool)
    if positive.dtype != bool or positive.shape != indices.shape:
        raise InputValueError("`seen_positive` must be bool, one for each entry")
    if values is not None and (values.dtype.kind != "f" or values.shape != indices.shape):
        raise InputValueError("`seen_values` must be floating-point numbers, one for each entry")
    rows = in_place(positive if values is None else values, indices, indptr, shape)
    if not is_mapped(indices):
        check_seen(rows)
        if values is not None and not np.isfinite(values).all():
            raise InputValueError("`seen_values` must be finite")
    return rows
