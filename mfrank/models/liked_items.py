"""The row of somebody new, made from the items that they like.

It is not made from a scipy matrix: building one takes longer than solving the row and finding its
list.
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
        numbers = None if values is None else _numbers(values, len(columns))
        order = columns.argsort(kind="stable")
        order = order[columns.searchsorted(0, sorter=order) :]
        ascending = columns[order]
        begins = np.empty(len(order), dtype=bool)
        begins[:1] = True
        np.not_equal(ascending[1:], ascending[:-1], out=begins[1:])
        items = ascending[begins].astype(np.int32)
        place = begins.cumsum() - 1
        if numbers is None:
            likes, kept = items, np.bincount(place, minlength=len(items)).astype(dtype)
        else:
            sums = _fitting(np.bincount(place, numbers[order], minlength=len(items)), dtype)
            likes, kept = items[sums != 0], sums[sums != 0]
        return cls(_row(items, None, n_items), _row(likes, kept, n_items), kept)


def _fitting(sums: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """The sums in this dtype; ValueError if one is not finite there."""
    with np.errstate(over="ignore"):
        merged = sums.astype(dtype)
    finite = np.isfinite(merged)
    if not finite.all():
        raise ValueError(
            f"values must be finite and fit {np.dtype(dtype)}, got {sums[~finite][0]} for an item; "
            "drop or replace it"
        )
    return merged


def _numbers(values: Any, size: int) -> NDArray[np.float64]:
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
