"""What a caller's own space says of an option: its choices, or the ends of its range."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args, get_type_hints

import numpy as np

from mfrank.arrays import is_count, is_number, shown
from mfrank.errors import InputTypeError, InputValueError
from mfrank.tuning.family import Axis

_LOGARITHMIC = 10
"""From this ratio of its ends on, a range above 0 is logarithmic."""
_DIGITS = 3
"""Of values within a range that is about as wide as its values are large; more if it is narrow."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The values that an option may have; its axis is divided among them."""

    name: str
    values: tuple[Any, ...]

    @property
    def axis(self) -> Axis:
        """In numbers of values."""
        return Axis(self.name, 0.0, float(len(self.values)), logarithmic=False)

    @property
    def size(self) -> float:
        """The number of values."""
        return len(self.values)

    @property
    def tested(self) -> tuple[Any, ...]:
        """The values that a model has to accept before the search begins."""
        return self.values

    @property
    def extremes(self) -> tuple[Any, ...]:
        """Those of which it depends on other options whether a model accepts them, if of any."""
        numbers = [value for value in self.values if is_number(value)]
        odd = [value for value in self.values if not is_number(value)]
        return (*odd, *({min(numbers), max(numbers)} if numbers else ()))

    def at(self, place: float) -> Any:
        """The value at a position from 0 to 1."""
        return self.values[self._index(place)]

    def snapped(self, place: float) -> float:
        """The middle of the part of the axis that has the same value."""
        return (self._index(place) + 0.5) / len(self.values)

    def place_of(self, value: Any) -> float:
        """The position of a value, or of the middle one if this is none of them."""
        index = next((at for at, own in enumerate(self.values) if are_same(own, value)), None)
        return ((len(self.values) // 2 if index is None else index) + 0.5) / len(self.values)

    def places(self) -> Iterator[float]:
        """The position of each value."""
        return ((index + 0.5) / len(self.values) for index in range(len(self.values)))

    def _index(self, place: float) -> int:
        return min(int(place * len(self.values)), len(self.values) - 1)


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from one end to the other; logarithmic if above 0 and at least tenfold.

    It is linear, too, if the ratio of its ends is too large for a float.
    """

    name: str
    low: float
    high: float
    is_whole: bool

    @property
    def axis(self) -> Axis:
        """In the unit of the option; the ends of whole numbers have as much of it as others."""
        ratio, around = self.high / self.low if self.low > 0 else 1.0, self.is_whole / 2
        is_wide = _LOGARITHMIC <= ratio < math.inf
        return Axis(self.name, self.low - around, self.high + around, logarithmic=is_wide)

    @property
    def size(self) -> float:
        """The number of values."""
        return self.high - self.low + 1 if self.is_whole else math.inf

    @property
    def tested(self) -> tuple[float, ...]:
        """See :attr:`Choices.tested`."""
        return (self.at(0.0), self.at(0.5), self.at(1.0))

    extremes = tested

    def at(self, place: float) -> float:
        """The value at a position from 0 to 1: whole, or of few digits."""
        value = self.axis.at(place)
        if self.is_whole:
            return min(max(round(value), int(self.low)), int(self.high))
        widest = max(abs(self.low), abs(self.high))
        digits = _DIGITS - min(0, math.floor(math.log10(2 * (self.high - self.low) / widest)))
        return min(max(float(f"{value:.{digits}g}"), self.low), self.high)

    def snapped(self, place: float) -> float:
        """The position of the value there."""
        return self.axis.place(self.at(place))

    def place_of(self, value: Any) -> float:
        """The position of a value, or of the middle if the range does not have it."""
        is_within = is_number(value) and self.low <= value <= self.high
        return self.snapped(self.axis.place(value) if is_within else 0.5)

    def places(self) -> Iterator[float]:
        """The position of each whole number."""
        return (self.axis.place(value) for value in range(int(self.low), int(self.high) + 1))


Option: TypeAlias = Choices | Range


def are_same(one: Any, other: Any) -> bool:
    """Whether two values of an option are equal."""
    try:
        return bool(one == other)
    except Exception:  # an array, or an object of a class that is not mfrank's
        return False


def option_of(name: str, given: Any, model: Any) -> Option:
    """The option of a model as a space gives it.

    Raises
    ------
    ValueError, TypeError
        It is neither values nor a range, or has something twice, nothing, or what is no number.
    """
    whole = f"`space`: {name} of {type(model).__name__}"
    if isinstance(given, tuple):
        return _range(whole, name, given, model)
    if isinstance(given, np.ndarray) and given.ndim == 1:
        given = given.tolist()
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise InputTypeError(
            f"{whole} must be a list of values or a range (low, high); got {shown(given)}",
            "write a single value as a list, [value], or give it to the model",
        )
    values = [one.item() if isinstance(one, np.generic) else one for one in given]
    if not values:
        raise InputValueError(f"{whole} has no values:", "list some, or leave it out")
    for at, value in enumerate(values):
        if isinstance(value, float) and math.isnan(value):
            raise InputValueError(f"{whole} has NaN among its values:", "leave it out")
        if any(are_same(value, before) for before in values[:at]):
            raise InputValueError(f"{whole} has {shown(value)} twice:", "list each value once")
    return Choices(name, tuple(values))


def _range(whole: str, name: str, given: tuple[Any, ...], model: Any) -> Range:
    if len(given) != 2 or not all(map(is_number, given)):
        raise InputValueError(
            f"{whole}: a tuple is a range of two finite numbers, (low, high); got {shown(given)}",
            "write choices as a list",
        )
    low, high = (one.item() if isinstance(one, np.generic) else one for one in given)
    if not low < high:
        raise InputValueError(
            f"{whole}: the range {shown(given)} must begin below its end:",
            "exchange them" if high < low else f"for one value, list it: [{shown(low)}]",
        )
    hints = _hints(name, model)
    is_whole = int in hints if {int, float} & set(hints) else is_count(low) and is_count(high)
    is_whole = is_whole and float not in hints
    if is_whole and not (is_count(low) and is_count(high)):
        raise InputTypeError(f"{whole} is a count; got {shown(given)}", "write whole numbers")
    return Range(name, low, high, is_whole)


def _hints(name: str, model: Any) -> tuple[Any, ...]:
    """The types that an option may have, as its class says; none if it does not say it."""
    outer, _, inner = name.rpartition("__")
    owner = getattr(model, outer) if outer else model
    try:
        hint = get_type_hints(type(owner))[inner]
    except Exception:  # the caller's own class may name what is nowhere
        return ()
    return get_args(hint) or (hint,)


def distinct(values: Iterable[Any]) -> list[Any]:
    """The values in this order, each once."""
    found = list[Any]()
    for value in values:
        if not any(are_same(value, known) for known in found):
            found.append(value)
    return found
