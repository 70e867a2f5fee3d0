"""The row of somebody new, made from the items that they like.

Not by way of a scipy matrix: to build one takes longer than to solve the row and find its list.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mfrank.arrays.csr import CSR
from mfrank.arrays.interop import to_host

__all__ = ["LikedItems"]


class LikedItems(NamedTuple):
    """A single row of a matrix of users and items.

    Attributes
    ----------
    items : CSR, without values
        Every item, to be filtered.
    likes : CSR
        The items with a value other than 0, to solve the user's factors from.
    values : shape (entries of likes,)
        The values in ``likes``.
    """

    items: CSR
    likes: CSR
    values: NDArray[Any]

    @classmethod
    def of(
        cls, columns: NDArray[np.int64], values: Any, n_items: int, dtype: DTypeLike
    ) -> LikedItems:
        """Build the row; values of an item that repeats are added up.

        Parameters
        ----------
        columns : int64, shape (n,)
            Rows of the items, in any order; -1 is left out.
        values : shape (n,), or None
            None is 1 for each.
        n_items : int
        dtype : dtype
            Of the values in ``likes``.

        Raises
        ------
        TypeError, ValueError
            ``values`` are not one real, finite number for each of ``columns``.
        """
        numbers = _numbers(values, len(columns))
        order = np.argsort(columns, kind="stable")
        order = order[np.searchsorted(columns, 0, sorter=order) :]
        ascending, numbers = columns[order].astype(np.int32), numbers[order]
        begins = np.ones(len(order), dtype=bool)
        begins[1:] = ascending[1:] != ascending[:-1]
        items = ascending[begins]
        sums = np.bincount(np.cumsum(begins) - 1, numbers, minlength=len(items))
        with np.errstate(over="ignore"):
            merged = sums.astype(dtype)
        finite = np.isfinite(merged)
        if not finite.all():
            raise ValueError(
                f"values must be finite and fit {np.dtype(dtype)}, got {sums[~finite][0]} for an "
                "item; drop or replace it"
            )
        likes = items[merged != 0]
        kept = merged[merged != 0]
        return cls(_row(items, None, n_items), _row(likes, kept, n_items), kept)


def _numbers(values: Any, size: int) -> NDArray[np.float64]:
    if values is None:
        return np.ones(size)
    given = np.asarray(to_host(values, "values"))
    if given.shape != (size,):
        raise ValueError(
            f"values must have one number for each of the {size} itemids, got shape {given.shape}"
        )
    if given.dtype.kind == "c":
        raise TypeError("values must be real numbers, got complex ones")
    try:
        return given.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"values must be numbers: {error}") from error


def _row(items: NDArray[np.int32], values: NDArray[Any] | None, n_items: int) -> CSR:
    return CSR(np.array([0, len(items)]), items, values, n_items)
