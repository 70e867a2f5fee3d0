"""Reader of LETOR and SVMlight text: ``relevance qid:query 1:value 2:value ... # comment``."""

from __future__ import annotations

import math
import os
from array import array
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import check_count
from mfrank.data.fields import whole_number
from mfrank.data.text_files import lines_of
from mfrank.errors import InputValueError, within

_LARGEST = 2**31 - 1  # largest feature number
_LARGE = 2**27  # elements, 1 GiB
_MOST_EMPTY = 1000  # most elements of a large table per value in the file


class _Document(NamedTuple):
    relevance: float
    query: int | str
    numbers: list[int]
    values: list[float]


def read_svmlight(
    path: str | os.PathLike[str], n_features: int | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64], list[int | str]]:
    """Read features (n_documents, n_features), relevance and query of each document.

    Features are numbered from 1; a feature missing from a line is 0. A query spelled as Python
    prints an int64 becomes an int, others stay text: 007 is not 7.
    """
    if n_features is not None:
        check_count("n_features", n_features, 1)
    relevance, queries = array("d"), list[int | str]()
    rows, numbers, values = array("q"), array("q"), array("d")
    for number, line in enumerate(lines_of(path), start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            found = _document(text, n_features)
        except ValueError as error:
            raise within(f"{path}, line {number}", error) from None
        rows.extend([len(queries)] * len(found.numbers))
        numbers.extend(found.numbers)
        values.extend(found.values)
        relevance.append(found.relevance)
        queries.append(found.query)
    if not numbers:
        raise InputValueError(f"{path} has no document with a feature", place=path)
    shape = len(queries), n_features or max(numbers)
    try:
        _check_table(shape, len(numbers))
        features = np.zeros(shape)
    except (MemoryError, ValueError) as error:
        raise within(path, error) from None
    features[np.array(rows), np.array(numbers) - 1] = values
    return features, np.array(relevance), queries


def _document(text: str, n_features: int | None) -> _Document:
    grade, *fields = text.split()
    relevance = _number(grade)
    if relevance < 0:
        raise InputValueError(
            f"`relevance` must be >= 0, got {grade}", "drop documents that were not judged"
        )
    if not fields or not fields[0].startswith("qid:") or fields[0] == "qid:":
        raise InputValueError(
            f"expected qid:query after the relevance, got {' '.join(fields[:1])!r}"
        )
    query = fields[0][4:]
    numbers, values = [], []
    for field in fields[1:]:
        number, colon, value = field.partition(":")
        if not (colon and number.isascii() and number.isdecimal()):
            raise InputValueError(f"expected number:value, got {field!r}")
        numbers.append(int(number))
        values.append(_number(value))
    _check_numbers(numbers, n_features)
    return _Document(relevance, whole_number(query), numbers, values)


def _check_table(shape: tuple[int, int], n_values: int) -> None:
    """Refuse a table that is large and nearly empty, as a damaged feature number makes it."""
    documents, width = shape
    if documents * width > max(_LARGE, _MOST_EMPTY * n_values):
        raise InputValueError(
            f"a table of {documents} documents x {width} features would be nearly empty: the file "
            f"has {n_values} values",
            "number features without gaps",
        )


def _check_numbers(numbers: list[int], n_features: int | None) -> None:
    if not numbers:
        return
    if min(numbers) < 1:
        raise InputValueError("`features` are numbered from 1, got 0", "add 1 to all of them")
    if n_features is not None and max(numbers) > n_features:
        raise InputValueError(f"feature {max(numbers)} is beyond `n_features={n_features}`")
    if max(numbers) > _LARGEST:
        raise InputValueError(
            f"feature {max(numbers)} is beyond {_LARGEST}", "number features from 1"
        )
    if len(set(numbers)) < len(numbers):
        twice = next(number for number in numbers if numbers.count(number) > 1)
        raise InputValueError(f"feature {twice} is given twice")


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InputValueError(f"expected a number, got {text!r}") from None
    if not math.isfinite(value):
        raise InputValueError(f"numbers must be finite, got {text}")
    return value
