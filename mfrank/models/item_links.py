"""Links between items: products of the items' columns, their strongest, and what a day changes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import Work
from mfrank.arrays import ext as _ext
from mfrank.data import cells, rank_in_rows

_is_native: bool = _ext is not None

_CELLS_AT_ONCE, _MOST_BLOCKS = 1 << 22, 32
"""Cells of a block of rows, and the most blocks: each native call checks both matrices anew."""


def nearest_items(user_items: sp.csr_array, n_neighbors: int) -> sp.csr_array:
    """The cosines, above 0, of each item with its nearest neighbors, in its row; ties by lower row.

    ``user_items`` are canonical, without zeros.
    """
    return linked(*unit_columns(user_items), n_neighbors)


def unit_columns(user_items: sp.csr_array) -> tuple[sp.csr_array, sp.csr_array]:
    """Two matrices whose product has the cosines of items: columns of length 1, transposed first.

    Rows are canonical, without zeros.
    """
    n_items = user_items.shape[1]
    values, items = user_items.data.astype(np.float64), user_items.indices
    largest = np.zeros(n_items)
    np.maximum.at(largest, items, np.abs(values))
    values = np.ldexp(values, -np.frexp(largest)[1][items])  # exact; no square leaves the range
    lengths = np.sqrt(np.bincount(items, values**2))
    units = sp.csr_array((values / lengths[items], items, user_items.indptr), user_items.shape)
    return units.T.tocsr(), units


def links_of(user_items: sp.csr_array) -> NDArray[np.float64]:
    """Number of pairs of entries that link each item to others, shape (n_items,)."""
    of_users = np.diff(user_items.indptr)
    weights = np.repeat(of_users, of_users).astype(np.float64)
    found = np.bincount(user_items.indices, weights, minlength=user_items.shape[1])
    return found.astype(np.float64, copy=False)


def linked(left: sp.csr_array, right: sp.csr_array, n_neighbors: int) -> sp.csr_array:
    """The strongest links of each item; ``left @ right`` has all, of which those above 0 count."""
    return largest_products(left, right, n_neighbors, np.arange(left.shape[0]))


def largest_products(
    left: sp.csr_array,
    right: sp.csr_array,
    most: int,
    items: NDArray[np.int64],
    divisor: NDArray[np.float64] | None = None,
    *,
    is_signed: bool = False,
) -> sp.csr_array:
    """The largest entries of rows of ``left @ right``, ties by lower column.

    Parameters
    ----------
    left, right : csr_array, float64
        Canonical.
    most : int
        Maximum number of entries of a row.
    items : int, shape (R,)
        The rows; of each, the column of its number is left out.
    divisor : float64, shape (n_columns,), optional
        Divides the columns of the product.
    is_signed : bool, default False
        Whether entries below 0 count, by their magnitude.

    Returns
    -------
    csr_array, float64, shape (R, n_columns)
        Columns ascend.

    Raises
    ------
    OutOfTimeError
        See :mod:`mfrank.arrays.work`.
    """
    lengths, n_columns = np.diff(right.indptr), right.shape[1]
    pairs = np.bincount(cells.entry_rows(left), lengths[left.indices], left.shape[0]).astype(float)
    if not _is_native:

        def products(part: slice) -> sp.csr_array:
            found = sp.csr_array(left[items[part]] @ right)
            if divisor is not None:
                found.data /= divisor[found.indices]
            counted = found.data != 0 if is_signed else found.data > 0
            return found if counted.all() else cells.select(found, np.flatnonzero(counted))

        return strongest(products, n_columns, most, pairs, items)

    assert _ext is not None
    each, both = pairs[items], {"left": arrays(left), "right": arrays(right)}
    room = np.minimum(each, min(most, n_columns)).astype(np.int64)
    work, parts = Work(float(each.sum())), [sp.csr_array((0, n_columns))]
    shares = np.maximum(room / _CELLS_AT_ONCE, each * _MOST_BLOCKS / max(each.sum(), 1.0))
    for begin, end in pairwise([0, *_block_ends(shares, 1.0)]):
        begins, counts = np.append(0, np.cumsum(room[begin:end])), np.empty(end - begin, np.int64)
        columns, values = np.empty(begins[-1], np.int32), np.empty(begins[-1])
        _ext.largest_products(
            **both,
            rows=items[begin:end],
            most=most,
            divisor=divisor,
            is_signed=is_signed,
            n_columns=n_columns,
            begins=begins,
            columns=columns,
            values=values,
            counts=counts,
            n_threads=0,
        )
        place = np.arange(begins[-1]) - np.repeat(begins[:-1], room[begin:end])
        found = place < np.repeat(counts, room[begin:end])
        indptr = np.append(0, np.cumsum(counts))
        parts.append(
            sp.csr_array((values[found], columns[found], indptr), (len(counts), n_columns))
        )
        work.advance(float(each[begin:end].sum()))
    return sp.csr_array(sp.vstack(parts, format="csr"))


def arrays(
    matrix: sp.csr_array,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Offsets, columns and values of the rows, as the extension takes them."""
    return (
        matrix.indptr.astype(np.int64, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        matrix.data,
    )


def strongest(
    weights_of: Callable[[slice], sp.csr_array],
    n_items: int,
    n_neighbors: int,
    work_of: NDArray[np.float64] | None = None,
    items: NDArray[np.int64] | None = None,
) -> sp.csr_array:
    """The weights between different items with the largest magnitudes.

    Parameters
    ----------
    weights_of : function
        Called with slices of ``items``; returns their weights, sparse, shape (slice, n_items).
    n_items, n_neighbors : int
        ``n_neighbors`` is the maximum number of weights per row; ties by lower column.
    work_of : shape (n_items,), optional
        Products of entries that its weights sum up; by default equal for all, and of any number.
    items : int, shape (R,), optional
        The items whose weights are wanted; by default all.

    Returns
    -------
    csr_array, float64, shape (R, n_items)

    Raises
    ------
    OutOfTimeError
        See :mod:`mfrank.arrays.work`.
    """
    parts = [sp.csr_array((0, n_items))]
    wanted = np.arange(n_items) if items is None else items
    each = np.ones(len(wanted)) if work_of is None else work_of[wanted]
    widths = np.full(len(wanted), n_items) if work_of is None else np.minimum(each, n_items)
    ends = _block_ends(widths, rows_at_once(n_items) * n_items)
    work = Work(float(each.sum()))
    for begin, end in pairwise([0, *ends]):
        weights = weights_of(slice(begin, end))
        rows = cells.entry_rows(weights)
        sizes = np.abs(weights.data)
        sizes[weights.indices == wanted[begin + rows]] = -1  # itself
        least = np.maximum(_nth_largest(sizes, weights.indptr, n_neighbors), 0)
        weights = cells.select(weights, np.flatnonzero(sizes >= least[rows]))
        weights.sort_indices()  # so that ties are by row: the ranks are stable
        counts = np.diff(weights.indptr)
        if (crowded := counts > n_neighbors).any():  # of equals the first; few rows have some
            near, some = np.ones(weights.nnz, dtype=bool), np.repeat(crowded, counts)
            indptr = np.append(0, np.cumsum(counts * crowded))
            near[some] = rank_in_rows(indptr, -np.abs(weights.data[some])) < n_neighbors
            weights = cells.select(weights, np.flatnonzero(near))
        parts.append(weights)
        work.advance(float(each[begin:end].sum()))
    return sp.csr_array(sp.vstack(parts, format="csr"))


def _block_ends(widths: NDArray[Any], most: float) -> list[int]:
    """Where blocks of rows end that have at most so many entries, or one row."""
    sums, ends = np.cumsum(widths), list[int]()
    while (begin := ends[-1] if ends else 0) < len(widths):
        least = sums[begin - 1] if begin else 0
        ends.append(max(begin + 1, int(np.searchsorted(sums, least + most, side="right"))))
    return ends


def strongest_of_dense(rows: NDArray[np.floating], n: int) -> sp.csr_array:
    """The largest magnitudes of dense rows: at least ``n`` entries per row, more for ties."""
    sizes = np.abs(rows)
    place = max(0, rows.shape[1] - n)
    least = np.partition(sizes, place, axis=1)[:, place, None]
    at, columns = np.nonzero((sizes >= least) & (sizes > 0))
    indptr = np.searchsorted(at, np.arange(len(rows) + 1))
    return sp.csr_array((rows[at, columns], columns, indptr), rows.shape)


def _nth_largest(
    sizes: NDArray[np.float64], indptr: NDArray[np.integer], n: int
) -> NDArray[np.float64]:
    """The n-th largest of each row; 0 if it has no more: much quicker than sorting all."""
    found = np.zeros(len(indptr) - 1)
    for row in np.flatnonzero(np.diff(indptr) > n):
        own = sizes[indptr[row] : indptr[row + 1]]
        found[row] = np.partition(own, len(own) - n)[len(own) - n]
    return found


def rows_at_once(n_columns: int) -> int:
    """Number of rows that may be dense at once, for a matrix with this number of columns."""
    return max(1, _CELLS_AT_ONCE // max(n_columns, 1))


# What changed rows of users change. A weight is a sum over the users of both items, and all of them
# are divided by sums over the column of one item, so most rows stay as they are, bit by bit.


_COLUMN = 3
"""Cost of a pair whose second item is in a changed column, beside that of one in a changed row."""
_WORTH = 1.2
"""Cost, in all pairs of entries, up to which it is quicker than to make all links anew (on globo,
whose 2.4 million interactions are linked anew in a second)."""


def changes(
    before: sp.csr_array, after: sp.csr_array
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which users, and which items, have a cell that differs between two matrices of a shape."""
    differ = sp.csr_array(after.astype(np.float64) - before)
    return np.diff(differ.indptr) > 0, marked(differ.indices, after.shape[1])


def marked(some: NDArray[np.integer], n: int) -> NDArray[np.bool_]:
    """True at some of the numbers below n."""
    found = np.zeros(n, dtype=bool)
    found[some] = True
    return found


def few(user_items: sp.csr_array, rows: NDArray[np.bool_], columns: NDArray[np.bool_]) -> bool:
    """Whether :func:`relinked` of these rows and columns is quicker than :func:`linked`."""
    pairs = links_of(user_items)
    cost = pairs[rows].sum() + _COLUMN * pairs[columns].sum()
    return bool(cost <= _WORTH * pairs.sum())


def relinked(
    near: sp.csr_array,
    left: sp.csr_array,
    right: sp.csr_array,
    n_neighbors: int,
    rows: NDArray[np.bool_],
    columns: NDArray[np.bool_],
) -> sp.csr_array:
    """The links of :func:`linked`, bit by bit, from those before a change.

    Parameters
    ----------
    near : csr_array, shape (n_items, n_items)
        The strongest links before the change.
    left, right : csr_array
        The matrices after the change.
    n_neighbors : int
        As for ``near``.
    rows : bool, shape (n_items,)
        Items any of whose links may have changed.
    columns : bool, shape (n_items,)
        Items to which the links of all items may have changed; they are among ``rows``.
    """
    n_items = near.shape[0]
    full = np.diff(near.indptr) == n_neighbors
    least = np.zeros(n_items)  # a new link below it is in no list
    least[full] = _last(near[np.flatnonzero(full)], n_neighbors)[0]
    new = _strong_columns(left, right, columns, np.where(rows, np.inf, least))
    kept = cells.select(near, np.flatnonzero(~columns[near.indices]))
    changed = (np.diff(new.indptr) > 0) | (np.diff(kept.indptr) < np.diff(near.indptr))
    some = np.flatnonzero(changed & ~rows)
    merged = strongest(
        lambda part: sp.csr_array(kept[some[part]] + new[some[part]]),
        n_items,
        n_neighbors,
        items=some,
    )
    # A link that was not listed is not above the last one that was.
    again = np.union1d(np.flatnonzero(rows), some[_falls(near[some], merged, n_neighbors)])
    whole = largest_products(left, right, n_neighbors, again)
    source = np.arange(n_items)
    source[some] = n_items + np.arange(len(some))
    source[again] = n_items + len(some) + np.arange(len(again))
    return sp.csr_array(sp.vstack([near, merged, whole], format="csr")[source])


def _strong_columns(
    left: sp.csr_array,
    right: sp.csr_array,
    columns: NDArray[np.bool_],
    least: NDArray[np.float64],
) -> sp.csr_array:
    """The links to some columns that reach the least of their row, shape (n_items, n_items)."""
    n_items = len(least)
    new = cells.select(right, np.flatnonzero(columns[right.indices]))
    met = right.indices[np.repeat(np.diff(new.indptr) > 0, np.diff(right.indptr))]
    some = np.flatnonzero(marked(met, n_items) & (least < np.inf))
    found = largest_products(left, new, max(1, int(columns.sum())), some)
    reach = found.data >= least[some[cells.entry_rows(found)]]
    found = cells.select(found, np.flatnonzero(reach))
    source = np.full(n_items, len(some))
    source[some] = np.arange(len(some))
    return sp.csr_array(sp.vstack([found, sp.csr_array((1, n_items))], format="csr")[source])


def _falls(before: sp.csr_array, after: sp.csr_array, n: int) -> NDArray[np.bool_]:
    """The rows with n links before, of which some of those after come behind the last of these."""
    full, filled = (np.diff(links.indptr) == n for links in (before, after))
    falls: NDArray[np.bool_] = full & ~filled
    both = np.flatnonzero(full & filled)
    (old, old_at), (new, new_at) = (_last(links[both], n) for links in (before, after))
    falls[both] = np.logical_or(new < old, (new == old) & (new_at > old_at))
    return falls


def _last(links: sp.csr_array, n: int) -> tuple[NDArray[np.float64], NDArray[np.integer]]:
    """The weakest of n links of each row, and the last of its columns."""
    values, columns = links.data.reshape(-1, n), links.indices.reshape(-1, n)
    least = values.min(axis=1, initial=np.inf)
    return least, np.where(values == least[:, None], columns, -1).max(axis=1, initial=-1)
