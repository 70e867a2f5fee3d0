"""Ids from the arrays of a file, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from mfrank.data.ids import Ids

__all__ = ["stored_ids"]

_TEXT = {"utf8": "uint8", "offsets": "int64"}
_DTYPES = ({"labels": "int64"}, _TEXT, _TEXT | {"whole": "bool"})


def stored_ids(arrays: Mapping[str, NDArray[Any]], rows: int) -> Ids:
    """Ids from the arrays of a file (:meth:`Ids.to_arrays`); without arrays, the row numbers.

    Raises
    ------
    ValueError
        They are not the arrays of as many ids as there are rows.
    """
    if not arrays:
        return Ids.numbered(rows)
    found = {name: array.dtype.name for name, array in arrays.items() if array.ndim == 1}
    if found not in _DTYPES:
        raise ValueError(f"ids cannot be stored as {', '.join(sorted(arrays))} with these dtypes")
    if "offsets" in arrays and len(arrays["offsets"]) != rows + 1:
        raise ValueError(f"there are {len(arrays['offsets']) - 1} ids stored for {rows} rows")
    if "whole" in arrays and len(arrays["whole"]) != rows:
        raise ValueError(f"whole must have {rows} marks, got {len(arrays['whole'])}")
    return Ids.from_arrays(arrays)
