"""How models print: as one line, and as HTML in a notebook.

Nothing here raises, even if an option has an invalid value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, Field, fields
from typing import Any, NamedTuple

import numpy as np

from mfrank.arrays.counted import counted
from mfrank.arrays.notebook import paragraphs, table
from mfrank.store.factors import FactorStore
from mfrank.store.history import History, summary

__all__ = ["Fit", "as_html", "as_line", "fit_of"]


class Fit(NamedTuple):
    """The facts about a fit that are printed.

    Attributes
    ----------
    to : str
        Summary of the training data, such as ``"200 users x 100 items"``.
    history : sequence of mappings
        One record per epoch.
    """

    to: str
    history: History = ()


def fit_of(store: FactorStore | None, set_since: Sequence[str] = ()) -> Fit | None:
    """The fit that a store came from; None without a store.

    ``set_since`` are the options that were set after it.
    """
    if store is None:
        return None
    shape = f"{counted(store.n_users, 'user')} x {counted(store.n_items, 'item')}"
    other = f" with other {', '.join(set_since)}" if set_since else ""
    return Fit(shape + other, store.history)


def as_line(model: Any, fit: Fit | None) -> str:
    """The first option, all options with non-default values, and whether the model is fitted."""
    first, *others = _options(model)
    told = [] if first.name == "backend" else [first]  # says nothing of what the model is
    told += [option for option in [first, *others] if option.value != option.default]
    parts = [f"{option.name}={option.value}" for option in dict.fromkeys(told)]
    state = f"fitted to {fit.to}" if fit else "not fitted"
    return f"{type(model).__name__}({', '.join([*parts, state])})"


def as_html(model: Any, fit: Fit | None) -> str:
    """Tables of all options with their defaults, and of the fit."""
    options = table(type(model).__name__, _options(model), ("option", "value", "default"))
    if fit is None:
        return options + paragraphs(["not fitted"])
    return options + table("Fit", [("fitted to", fit.to), *summary(fit.history)])


class _Option(NamedTuple):
    """An option as text; ``default`` is empty if there is none."""

    name: str
    value: str
    default: str


def _options(model: Any) -> list[_Option]:
    return [
        _Option(field.name, _written(getattr(model, field.name, MISSING)), _default(field))
        for field in fields(model)
        if field.init
    ]


def _default(field: Field[Any]) -> str:
    if field.default_factory is not MISSING:
        return _written(field.default_factory())
    return "" if field.default is MISSING else _written(field.default)


def _written(value: object) -> str:
    """The ``repr`` of a value on one line; dtypes by name."""
    if value is MISSING:
        return "<not set>"
    if isinstance(value, type) and issubclass(value, np.generic):
        value = np.dtype(value)
    if isinstance(value, np.dtype):
        value = value.name
    try:
        text = repr(value)
    except Exception:  # a class that is not mfrank's may raise anything
        return f"<{type(value).__name__}>"
    return " ".join(line.strip() for line in text.splitlines())
