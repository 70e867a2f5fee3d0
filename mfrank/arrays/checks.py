"""Checks of arguments: counts, amounts, fractions, names of choices, rows with labels."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable
from dataclasses import fields
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.errors import InputTypeError, InputValueError


class _ShortRepr(reprlib.Repr):
    """Abbreviates ints that Python refuses to print, whose error would not name the argument."""

    def repr_int(self, x: int, level: int) -> str:
        bits = x.bit_length()
        return super().repr_int(x, level) if bits < 2048 else f"an int of {bits:,} bits"


_SHORT = _ShortRepr()
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 200


def shown(value: object) -> str:
    """The value formatted for errors: never too long, however large or deep it is."""
    if isinstance(value, np.integer | np.float64) and value.dtype.kind in "iuf":
        value = value.item()  # 3, not np.int64(3)
    return _SHORT.repr(value)


def is_count(value: object) -> bool:
    """Whether the value is an integer of Python or numpy, neither a bool nor a time span."""
    return isinstance(value, Integral) and not isinstance(value, bool | np.timedelta64)


def is_number(value: object) -> bool:
    """Whether the value is a finite real number of Python or numpy and not a bool."""
    if not isinstance(value, int | float | np.integer | np.floating):
        return False
    if isinstance(value, bool | np.timedelta64):  # both are integers to Python or numpy
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int too large for a float
        return False


def check_count(
    name: str, value: int, least: int, most: int | None = None, remedy: str = ""
) -> None:
    """Raise unless the value is an integer from ``least`` to ``most``.

    The error for a larger value ends with ``remedy``.
    """
    if type(value) is not int and not is_count(value):
        raise InputTypeError(f"`{name}` must be an int, got {shown(value)}")
    if value < least:
        raise InputValueError(f"`{name}` must be at least {least}, got {shown(value)}")
    if most is not None and value > most:
        raise InputValueError(f"`{name}` must be at most {most}, got {shown(value)}", remedy)


def check_length(name: str, value: int) -> None:
    """Raise unless the value is a valid list length, 1 to 2^31 - 1: item numbers are int32."""
    check_count(name, value, 1, 2**31 - 1)


def check_threads(n_threads: int) -> None:
    """Raise unless ``n_threads`` is an int from 0, which means every usable core, to 1024."""
    check_count("n_threads", n_threads, 0, 1024, "0 uses every core")  # as in cext/host/parallel.h


def check_above_zero(**values: float) -> None:
    """Raise unless every value is a finite number above 0."""
    for name, value in values.items():
        if not is_number(value) or value <= 0:
            raise InputValueError(f"`{name}` must be a finite number > 0, got {shown(value)}")


def check_at_least_zero(**values: float) -> None:
    """Raise unless every value is a finite number and at least 0."""
    for name, value in values.items():
        if not is_number(value) or value < 0:
            raise InputValueError(f"`{name}` must be a finite number >= 0, got {shown(value)}")


def check_powers(most: float = 1, /, **values: float) -> None:
    """Raise unless every value is a number from 0 to ``most``."""
    for name, value in values.items():
        if not is_number(value) or not 0 <= value <= most:
            raise InputValueError(
                f"`{name}` must be a number from 0 to {most:g}, got {shown(value)}"
            )


def share(name: str, value: object, otherwise: str = "") -> float:
    """Check that the value is a fraction in (0, 1) and return it as a Python float.

    ``otherwise`` names the alternatives in the error, such as ``"None or "``.
    """
    if not isinstance(value, float | np.floating):
        raise InputTypeError(f"`{name}` must be {otherwise}a fraction (float), got {shown(value)}")
    if not 0 < value < 1:
        raise InputValueError(f"`{name}` must be {otherwise}a fraction in (0, 1), got {value!r}")
    return float(value)


def check_fractions(**fractions: float) -> None:
    """Raise unless all fractions are >= 0, the first is > 0, and they sum to 1."""
    for name, value in fractions.items():
        if not is_number(value):
            raise InputValueError(f"`fractions` must be >= 0, got `{name}={shown(value)}`")
    first = next(iter(fractions))
    if not all(value >= 0 for value in fractions.values()) or fractions[first] == 0:
        raise InputValueError(f"`fractions` must be >= 0 and {first} > 0, got {fractions}")
    total = math.fsum(fractions.values())
    if not math.isclose(total, 1):
        names = ", ".join(f"`{name}`" for name in fractions)
        raise InputValueError(f"{names} must sum to 1, got {total:g}")


def check_choice(name: str, value: object, known: Iterable[object]) -> None:
    """Raise unless the value is one of ``known``: strings, None, True or False."""
    known = tuple(known)
    if isinstance(value, str) and value in known:
        return
    if not any(value is one for one in known):
        raise InputValueError(
            f"`{name}` must be one of {', '.join(map(str, known))}; got {shown(value)}"
        )


def check_flags(**given: object) -> None:
    """Raise TypeError for a flag that is neither True nor False: the text "no" would be true."""
    for name, value in given.items():
        if not isinstance(value, bool | np.bool_):
            raise InputTypeError(f"`{name}` must be True or False, got {shown(value)}")


def floats_of(name: str, given: ArrayLike) -> NDArray[np.float64]:
    """Convert numbers to a float64 array; raise TypeError if one is not a number."""
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputTypeError(f"`{name}` must be numbers: {error}") from error


def changed(options: Any, *names: str) -> list[str]:
    """Those of these options of a dataclass that are not at their defaults."""
    defaults = {field.name: field.default for field in fields(options)}
    return [name for name in names if getattr(options, name) != defaults[name]]


def check_instance(name: str, value: object, kind: type, wanted: str) -> None:
    """Raise TypeError unless the value is of the class; ``wanted`` says what to pass instead."""
    if not isinstance(value, kind):
        raise InputTypeError(f"`{name}` must be {wanted}; got {shown(value)}")


# Rows that pandas labels: used by their labels or refused, never read by position in silence.
#
# Sorting, filtering, ``sample`` and ``concat`` leave an index which shows that rows have moved. An
# index that counts rows from 0 shows nothing; such an object is treated as an array.


def is_labelled(given: Any) -> bool:
    """Whether this is a Series or DataFrame of pandas whose index does not count rows from 0."""
    return hasattr(type(given), "iloc") and not _counts_rows(given.index)


def refuse_labels(name: str, given: Any, remedy: str) -> None:
    """Raise ValueError if the rows of an argument that is read by position have labels.

    Parameters
    ----------
    name : str
        Name of the argument.
    given : object
    remedy : str
        How to sort by the labels, in words that follow "or".
    """
    if is_labelled(given):
        raise InputValueError(
            f"`{name}` is a {type(given).__name__} whose index (like {examples(given.index)}) "
            "does not count rows from 0, and cannot be used:",
            f"pass {name}.to_numpy() if its order is right, or {remedy}",
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
            raise InputValueError(
                f"{first} has an index (like {examples(index)}) and {name} has {theirs}, so that "
                "their rows may not belong together:",
                f"pass {first}.to_numpy() and {name} in the same order, or Series with the same "
                f"index, such as {name}.reindex({first}.index)",
            )


def check_same_ids(**ids: Any) -> None:
    """Like :func:`check_same_rows` for ids only: an array beside a Series contradicts no label."""
    check_same_rows(**{name: each for name, each in ids.items() if hasattr(type(each), "iloc")})


def examples(index: Any) -> str:
    """The first labels of an index, formatted for errors."""
    return ", ".join(map(shown, np.asarray(index[:3]).tolist()))


def _counts_rows(index: Any) -> bool:
    n = len(index)
    if hasattr(index, "step"):  # a RangeIndex
        return n == 0 or (index[0] == 0 and (n == 1 or index.step == 1))
    if index.dtype.kind not in "iu" or n == 0:
        return n == 0
    return bool(index[0] == 0 and index[-1] == n - 1 and (np.asarray(index) == np.arange(n)).all())
