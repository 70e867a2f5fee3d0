"""Dataclasses of options, seen as scikit-learn parameters and as JSON.

A hyper-parameter is a field of one dataclass; estimator, command line and saved file are all
built from that field.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import fields, is_dataclass, replace
from typing import Any, Self

import numpy as np

__all__ = ["Parameters", "describe", "restore"]


class Parameters:
    """scikit-learn's parameter protocol for a dataclass: ``clone`` and searches work on it.

    A field that is a dataclass itself (an objective) is reached as ``field__its_field``.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Options by name; ``deep`` adds those of nested dataclasses as ``outer__inner``."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.init}  # type: ignore[arg-type]
        nested = {
            f"{name}__{f.name}": getattr(value, f.name)
            for name, value in own.items()
            if deep and is_dataclass(value)
            for f in fields(value)
        }
        return own | nested

    def set_params(self, **params: Any) -> Self:
        """Set options by the names of :meth:`get_params`; all or, if one is bad, none of them.

        Raises
        ------
        ValueError
            An unknown name (the known ones are listed), or a value that the option refuses.
        """
        changed = {name: value for name, value in params.items() if "__" not in name}
        # Options of a nested dataclass belong to the one that is set in the same call.
        trial = copy(self)
        for name, value in changed.items():
            trial._check_known(name)
            setattr(trial, name, value)
        for name in params.keys() - changed.keys():
            trial._check_known(name)
            outer, inner = name.split("__", 1)
            changed[outer] = replace(getattr(trial, outer), **{inner: params[name]})
            setattr(trial, outer, changed[outer])
        trial.__post_init__()
        for name, value in changed.items():
            setattr(self, name, value)
        return self

    def __post_init__(self) -> None:
        """Validate the options."""

    def _check_known(self, name: str) -> None:
        if name not in (known := self.get_params(deep=True)):
            raise ValueError(
                f"unknown parameter {name!r} for {type(self).__name__}; it has {', '.join(known)}"
            )


def describe(options: Any) -> dict[str, Any]:
    """Options as JSON: ``{"name": class, "options": {field: value}}``, nested likewise."""
    values = {f.name: _plain(getattr(options, f.name)) for f in fields(options) if f.init}
    return {"name": type(options).__name__, "options": values}


def restore(description: Mapping[str, Any], known: Mapping[str, type[Any]]) -> Any:
    """Build what :func:`describe` described, from the classes ``known`` by name only.

    Raises
    ------
    ValueError
        A class that is not known, or an option that it does not have.
    """
    name, values = description["name"], dict(description["options"])
    if name not in known:
        raise ValueError(f"no class {name!r} to restore; this version knows {', '.join(known)}")
    options = {f.name for f in fields(known[name])}
    if unknown := sorted(set(values) - options):
        raise ValueError(f"{name} has no option {unknown[0]!r}; a newer mfrank may have written it")
    for key, value in values.items():
        if isinstance(value, Mapping) and set(value) == {"name", "options"}:
            values[key] = restore(value, known)
    return known[name](**values)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return describe(value)
    if isinstance(value, np.random.Generator):
        return None  # a stream of numbers that has moved on cannot be saved as its seed
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, type | np.dtype):
        return np.dtype(value).name
    return value
