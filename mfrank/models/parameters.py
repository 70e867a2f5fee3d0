"""Dataclasses of options as scikit-learn parameters, as JSON, and in print.

Each hyperparameter is one dataclass field; the estimator, the command line and the saved file are
built from it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from copy import copy
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from mfrank.arrays import counted, in_turn, paragraphs, table, without_turns
from mfrank.errors import InputTypeError, InputValueError
from mfrank.store import IMPORTED, History, OwnClasses, summary

if TYPE_CHECKING:
    from mfrank.retrieval import ModelState

# How models print: as one line, and as HTML in a notebook.
#
# Nothing here raises, even if an option has an invalid value.


class FitFacts(NamedTuple):
    """Facts about a fit, for printing.

    Attributes
    ----------
    to : str
        Summary of the training data, such as ``"200 users x 100 items"``.
    history : sequence of mappings
        One record per epoch.
    """

    to: str
    history: History = ()


def fit_of(model: Any, held: ModelState | None) -> FitFacts | None:
    """Facts about the fit of a model that holds this; None before a fit."""
    if held is None:
        return None
    store = held.store
    shape = f"{counted(store.n_users, 'user')} x {counted(store.n_items, 'item')}"
    changed = ", ".join(set_since(model, store.fitter))
    return FitFacts(shape + (f" with other {changed}" if changed else ""), store.history)


def as_line(model: Any, fit: FitFacts | None) -> str:
    """One line: the first option, options with non-default values, and whether it is fitted."""
    first, *others = _options(model)
    told = [] if first.name == "backend" else [first]  # says nothing of what the model is
    told += [option for option in [first, *others] if option.value != option.default]
    parts = [f"{option.name}={option.value}" for option in dict.fromkeys(told)]
    state = f"fitted to {fit.to}" if fit else "not fitted"
    return f"{type(model).__name__}({', '.join([*parts, state])})"


def as_html(model: Any, fit: FitFacts | None) -> str:
    """Tables of all options with their defaults, and of the fit."""
    options = table(type(model).__name__, _options(model), ("option", "value", "default"))
    if fit is None:
        return options + paragraphs(["not fitted"])
    return options + table("FitFacts", [("fitted to", fit.to), *summary(fit.history)])


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


_log = logging.getLogger("mfrank")

_AT_ONCE = frozenset({"backend", "n_threads", "random_state"})
"""Options that are not of what a fit made: how and where to compute, or spent with the fit."""


class Parameters:
    """scikit-learn's parameter protocol for a dataclass, as used by ``clone`` and searches.

    If a field is itself a dataclass, such as an objective, its options are named ``field__option``.
    Subclasses need ``repr=False`` so that :mod:`mfrank.models.parameters` prints them.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        # Options alone: of the state of a fit, fields may be computed when they are first read.
        is_option = name in type(self).__dataclass_fields__  # type: ignore[attr-defined]
        super().__setattr__(name, of_python(value) if is_option else value)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the options by name; ``deep=True`` adds nested options as ``outer__inner``."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.init}  # type: ignore[arg-type]
        nested = {
            f"{name}__{f.name}": getattr(value, f.name)
            for name, value in own.items()
            if deep and is_dataclass(value)
            for f in fields(value)
        }
        return own | nested

    @in_turn
    def set_params(self, **params: Any) -> Self:
        """Set options by the names in :meth:`get_params`; if one is invalid, none changes.

        They take effect at the next fit; ``backend`` and ``n_threads`` at once.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            A name is unknown (the message lists the known ones), or a value is invalid.
        """
        changed = {name: value for name, value in params.items() if "__" not in name}
        # Set whole dataclasses first: a nested option of the same call changes the new one.
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

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn 1.6 and newer asks of an estimator: sparse rows, and no target."""
        from sklearn.utils import InputTags, Tags, TargetTags  # whoever asks has imported it

        reads = InputTags(two_d_array=False, sparse=True)
        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=reads)

    def __sklearn_is_fitted__(self) -> bool:
        """The answer to scikit-learn's ``check_is_fitted``."""
        return getattr(self, "_held", None) is not None or self._fit_told() is not None

    def __getstate__(self) -> dict[str, Any]:
        """What copies get."""
        return without_turns(vars(self))

    def _tell_set_since(self, fitter: Mapping[str, Any]) -> None:
        """Warn of options that were set after a fit: they count from the next one.

        ``fitter`` describes the model as it was fitted (:func:`describe`).
        """
        if changed := set_since(self, fitter):
            now = ", ".join(f"{name}={getattr(self, name)!r}" for name in changed)
            _log.warning(
                "set after the fit, and counts from the next one: %s; until then, the model "
                "answers, is updated and is saved with the options of its fit",
                " ".join(now.split()),
            )

    @recursive_repr()
    def __repr__(self) -> str:
        return as_line(self, self._fit_told())

    def _repr_html_(self) -> str:
        return as_html(self, self._fit_told())

    def _fit_told(self) -> FitFacts | None:
        """Facts about the fit to print; None before a fit."""
        return None

    def _check_known(self, name: str) -> None:
        if name not in (known := self.get_params(deep=True)):
            raise InputValueError(
                f"unknown parameter {name!r} for {type(self).__name__}",
                f"it has {', '.join(known)}",
                place=name,
            )


def refuse_target(y: object) -> None:
    """Raise TypeError if ``y``, which scikit-learn passes by position, is not None."""
    if y is not None:
        raise InputTypeError(
            "`y` must be None, since interactions have no target",
            "pass held-out interactions as `stopping=mfrank.EarlyStopping(valid)`, "
            "where a model has epochs",
        )


def of_python(value: Any) -> Any:
    """The value with Python's numbers in place of numpy's, also in the options of a dataclass.

    In numpy's arithmetic a float64 scalar makes float64 of what are arrays of float32, and small
    integers overflow; the numbers of a grid, such as ``np.logspace(-3, 0)``, are such scalars.
    """
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    if not is_dataclass(value) or isinstance(value, type) or not _is_frozen(value):
        return value
    options = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
    own = {name: of_python(option) for name, option in options.items()}
    changed = {name: option for name, option in own.items() if option is not options[name]}
    return replace(value, **changed) if changed else value


def _is_frozen(value: Any) -> bool:
    return bool(type(value).__dataclass_params__.frozen)


def is_of(value: Any, description: object) -> bool:
    """Whether an option has the value that :func:`describe` described."""
    try:
        return bool(_plain(value) == description)
    except Exception:  # an option may have been set to an array, or to anything else
        return False


def set_since(options: Any, fitter: Mapping[str, Any]) -> list[str]:
    """Options whose values differ from their description."""
    if fitter["name"] != type(options).__name__:
        return []
    names = [f.name for f in fields(options) if f.init and f.name not in _AT_ONCE]
    of_fit = fitter["options"]
    return [
        name for name in names if name in of_fit and not is_of(getattr(options, name), of_fit[name])
    ]


def describe(options: Any) -> dict[str, Any]:
    """Options as JSON: ``{"name": class, "options": {field: value}}``, nested for dataclasses.

    A nested class from outside mfrank, such as the caller's own loss, is named by its import path,
    ``"package.module:Name"``.
    """
    values = {f.name: _plain(getattr(options, f.name)) for f in fields(options) if f.init}
    return {"name": type(options).__name__, "options": values}


def restore(
    description: Mapping[str, Any],
    known: Mapping[str, type[Any]],
    kinds: tuple[type, ...] = (),
    own: OwnClasses = IMPORTED,
) -> Any:
    """Build the object that :func:`describe` described.

    Parameters
    ----------
    description : mapping
    known : mapping of str to type
        Classes that may be named without an import path.
    kinds : tuple of types
        A class named by import path must be a dataclass derived from one of these. By default, no
        import path is accepted.
    own : OwnClasses
        Which classes may be named by import path; by default, already imported ones.

    Raises
    ------
    ValueError
        A class is unknown, not allowed, not importable, lacks one of the options, or raises an
        error when it is created.
    """
    name, values = description["name"], dict(description["options"])
    if ":" in name:
        kind = own.find(name, kinds)
    elif name in known:
        kind = known[name]
    else:
        raise InputValueError(
            f"no class {name!r} to restore", f"this version has {', '.join(known)}", place=name
        )
    options = {f.name for f in fields(kind)}
    if unknown := sorted(set(values) - options):
        raise InputValueError(
            f"`{name}` has no option {unknown[0]!r}: another version of mfrank saved it",
            "fit again, or load the factors alone with `mfrank.FactorStore.load`",
        )
    for key, value in values.items():
        if isinstance(value, Mapping) and set(value) == {"name", "options"}:
            values[key] = restore(value, known, kinds, own)
        elif isinstance(value, list):  # JSON has no tuples
            values[key] = tuple(value)
    try:
        return kind(**values)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the caller's own class may raise whatever it likes
        raise InputValueError(f"`{name}`: {type(error).__name__}: {error}") from error


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        kind = type(value)
        own = kind.__module__.partition(".")[0] == __name__.partition(".")[0]
        path = kind.__name__ if own else f"{kind.__module__}:{kind.__qualname__}"
        return {**describe(value), "name": path}
    if isinstance(value, np.random.Generator):
        return None  # its state has advanced, so no seed would reproduce it
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, type | np.dtype):
        return np.dtype(value).name
    return list(value) if isinstance(value, tuple) else value
