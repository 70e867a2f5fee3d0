"""Rows that pandas labels: used by their labels or refused, never read by position in silence.

What sorting, filtering, ``sample`` or ``concat`` leave as an index says that rows are no longer
where they were. An index that counts rows from 0 says nothing, and such an object is an array like
any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mfrank.arrays.checks import shown

__all__ = ["check_same_ids", "check_same_rows", "examples", "is_labelled", "refuse_labels"]


def is_labelled(given: Any) -> bool:
    """Whether this is a Series or DataFrame of pandas whose index does not count rows from 0."""
    return hasattr(type(given), "iloc") and not _counts_rows(given.index)


def refuse_labels(name: str, given: Any, remedy: str) -> None:
    """Raise ValueError if rows have labels, which an argument in a given order cannot use.

    Parameters
    ----------
    name : str
        Of the argument.
    given : object
    remedy : str
        How the labels are brought into the order, in words that follow "or".
    """
    if is_labelled(given):
        raise ValueError(
            f"{name} is a {type(given).__name__} whose index (like {examples(given.index)}) does "
            f"not count rows from 0, and cannot be used: pass {name}.to_numpy() if its order is "
            f"right, or {remedy}"
        )


def check_same_rows(**columns: Any) -> None:
    """Raise ValueError unless all columns have the same labels for their rows, or none has any.

    Columns are arguments of one call by their names; None is left out.
    """
    given = {name: column for name, column in columns.items() if column is not None}
    first = next((name for name, column in given.items() if is_labelled(column)), None)
    if first is None:
        return
    index = given[first].index
    for name, column in given.items():
        own = column.index if hasattr(type(column), "iloc") else None
        if own is None or not (own is index or index.equals(own)):
            theirs = "no index" if own is None else f"another (like {examples(own)})"
            raise ValueError(
                f"{first} has an index (like {examples(index)}) and {name} has {theirs}, so that "
                f"their rows may not belong together: pass {first}.to_numpy() and {name} in the "
                f"same order, or Series with the same index, such as {name}.reindex({first}.index)"
            )


def check_same_ids(**ids: Any) -> None:
    """Like :func:`check_same_rows` for ids only: an array beside a Series contradicts no label."""
    check_same_rows(**{name: each for name, each in ids.items() if hasattr(type(each), "iloc")})


def examples(index: Any) -> str:
    """The first labels of an index, as they are printed in errors."""
    return ", ".join(map(shown, np.asarray(index[:3]).tolist()))


def _counts_rows(index: Any) -> bool:
    n = len(index)
    if hasattr(index, "step"):  # a RangeIndex
        return n == 0 or (index[0] == 0 and (n == 1 or index.step == 1))
    if index.dtype.kind not in "iu" or n == 0:
        return n == 0
    return bool(index[0] == 0 and index[-1] == n - 1 and (np.asarray(index) == np.arange(n)).all())
