"""Tables written atomically, as text or parquet."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable, Mapping
from typing import IO, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.data import parquet_files
from mfrank.data.table_kinds import USUAL, kind_of
from mfrank.files.atomic import replacing
from mfrank.files.regular import path_of

__all__ = ["check_table_file", "write_table"]


def check_table_file(path: str | os.PathLike[str]) -> None:
    """Raise, as :func:`write_table` does, if there is no format for this suffix or it is missing.

    Raises
    ------
    ValueError
        If the suffix is unknown.
    ModuleNotFoundError
        If the file is parquet and pandas or pyarrow is not installed.
    """
    if kind_of(path) == ".parquet":
        parquet_files.modules()


def write_table(path: str | os.PathLike[str], columns: Mapping[str, ArrayLike]) -> None:
    """Write columns of equal length with a header, atomically.

    In text a missing value (None) is an empty field, and floats have as few digits as needed to
    read the same number back.

    Raises
    ------
    ValueError
        If the suffix is unknown, or the columns differ in length.
    ModuleNotFoundError
        If the file is parquet and pandas or pyarrow is not installed.
    OSError
        If writing fails; an earlier file of that name is then unchanged.
    """
    file, kind = path_of(path), kind_of(path)
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    if len({array.shape for array in arrays.values()}) > 1:
        lengths = {name: array.shape for name, array in arrays.items()}
        raise ValueError(f"columns must have one length, got {lengths}")
    with replacing(file) as draft:
        if kind == ".parquet":
            parquet_files.write(draft, arrays)
            return
        opener = cast(Callable[..., IO[str]], gzip.open if file.suffix.lower() == ".gz" else open)
        with opener(draft, "wt", encoding="utf-8", newline="") as text:
            writer = csv.writer(text, delimiter=USUAL[kind] or "\t", lineterminator="\n")
            writer.writerow(arrays)
            writer.writerows(zip(*map(_printable, arrays.values()), strict=True))


def _printable(array: NDArray[Any]) -> list[Any]:
    """Values for the csv module; floats as text, because it prints float32 as a longer float64."""
    printable: list[Any] = (array.astype(str) if array.dtype.kind == "f" else array).tolist()
    return printable
