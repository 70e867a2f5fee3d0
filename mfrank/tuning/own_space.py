"""A caller's own space for a search: models, and of each the options to try.

``tune(space={model: {option: [value, ...] or (low, high)}})``. Each model is a family on a ladder
of its own; the values of ``factors`` are its rungs.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from mfrank.arrays import shown
from mfrank.data import Events, Interactions
from mfrank.errors import InputError, InputTypeError, InputValueError
from mfrank.models import ALS, PARTS, Descent, Popularity, describe, reads_times, unfitted
from mfrank.tuning.family import Axis, Family, Point, Setting, Space
from mfrank.tuning.fit_costs import fit_bytes, trial_seconds
from mfrank.tuning.own_options import Choices, Option, Range, distinct, option_of

_STEP = 4.0
"""The widths of a range of ``factors`` are at most this many times the one before."""
_EXAMPLE = "{mfrank.EASE(): {'regularization': (10, 5000)}}"


@dataclass(frozen=True, eq=False)
class OwnFamily(Family):
    """A model that the caller gave, with the options to try; others are as given.

    Attributes
    ----------
    given : model
        Not fitted.
    options : tuple of Choices or Range
        All that are searched but ``factors``.
    widths : tuple of int
        ``factors`` on each rung; empty if they are as given, or the model has none.
    is_grid : bool
        Whether there are lists alone.
    """

    name: str
    given: Any
    options: tuple[Option, ...]
    widths: tuple[int, ...] = ()
    is_grid: bool = False
    kind: type[Any] = field(init=False)
    axes: tuple[Axis, ...] = field(init=False)
    rungs: int = field(init=False)

    may_refuse = (InputError,)

    def __post_init__(self) -> None:
        for name, value in (
            ("kind", type(self.given)),
            ("axes", tuple(option.axis for option in self.options)),
            ("rungs", max(1, len(self.widths))),
        ):
            object.__setattr__(self, name, value)

    @property
    def uses_values(self) -> bool:
        """Whether one of its models reads the values of interactions."""
        return any(getattr(model, "uses_values", False) for model in self.singles())

    @property
    def reads_times(self) -> bool:
        """Whether one of its models reads timestamps."""
        return any(map(reads_times, self.singles()))

    @property
    def n_points(self) -> float:
        """The number of different points."""
        return math.prod(option.size for option in self.options)

    @property
    def n_combinations(self) -> float:
        """The number of different fits."""
        return self.n_points * self.rungs

    @property
    def first(self) -> Point:
        """The options as given, each at the middle if the space has another one there."""
        known = self.given.get_params()
        return tuple(option.place_of(known[option.name]) for option in self.options)

    def points(self) -> Iterator[Point]:
        """All points, where there is no end of values in none of the options."""
        return product(*(option.places() for option in self.options))

    def snapped(self, point: Point) -> Point:
        """The one point that stands for all with the same values."""
        return tuple(o.snapped(place) for o, place in zip(self.options, point, strict=True))

    def made(self, values: Mapping[str, Any], rung: int = 0) -> Any:
        """The given model, unfitted, with these options."""
        width = {"factors": self.widths[rung]} if self.widths else {}
        return unfitted(self.given).set_params(**{**width, **values})

    def singles(self) -> Iterator[Any]:
        """The model at the first point, and with each tested value of each option."""
        first = self._values(self.first)
        yield self.made(first)
        for option in self.options:
            for value in option.tested:
                yield self.made(first | {option.name: value})

    def model(self, point: Point, rung: int, setting: Setting) -> Any:
        """See :meth:`Family.model`; the seed and threads are the search's unless it has its own."""
        made = self.made(self._values(point), rung)
        if getattr(made, "random_state", 0) is None:
            made.random_state = setting.seed
        if getattr(made, "n_threads", 1) == 0:
            made.n_threads = setting.n_threads
        return made

    def work_at(self, point: Point, rung: int, setting: Setting) -> float:
        """Rough seconds of the trial of a point."""
        return trial_seconds(self.model(point, rung, setting), setting.facts, setting.n_threads)

    def work(self, rung: int, setting: Setting) -> float:
        """See :meth:`Family.work`."""
        return self.work_at(self.first, rung, setting)

    def bytes_needed(self, rung: int, setting: Setting) -> int:
        """See :meth:`Family.bytes_needed`: of the first point."""
        return fit_bytes(self.model(self.first, rung, setting), setting.facts)

    def refusal(self, point: Point, rung: int, setting: Setting) -> str | None:
        """See :meth:`Family.refusal`: memory, which options other than the width decide, too."""
        needed = fit_bytes(self.model(point, rung, setting), setting.facts)
        if needed <= setting.memory:
            return None
        gibibytes, most = needed / 2**30, setting.memory / 2**30
        told = f"a fit would take about {gibibytes:.3g} GiB, and may take {most:.3g}"
        return f"{MemoryError.__name__}: {told}"

    def _values(self, point: Point) -> dict[str, Any]:
        return {o.name: o.at(place) for o, place in zip(self.options, point, strict=True)}


def own_space(given: Any) -> Space:
    """The space that a caller gives, read and checked: every model accepts its values.

    Raises
    ------
    ValueError, TypeError
        See :func:`mfrank.tune`.
    """
    if not isinstance(given, Mapping):
        raise InputTypeError(
            f"`space` must be a mapping from models to their options; got {shown(given)}",
            f"write it as {_EXAMPLE}",
        )
    if not given:
        raise InputValueError("`space` has no models:", "name one, or leave it out to search all")
    read = [_family(model, options) for model, options in given.items()]
    names = [family.name for family in read]
    families = [
        OwnFamily(_numbered(names, at), one.given, one.options, one.widths, one.is_grid)
        for at, one in enumerate(read)
    ]
    told = [_told(family) for family in families]
    for at, text in enumerate(told):
        if text in told[:at]:
            raise InputValueError(
                f"`space` has {shown(families[at].given)} twice with the same options:",
                "leave one out",
            )
    digest = hashlib.sha256(json.dumps(told).encode()).hexdigest()
    return Space({family.name: (family,) for family in families}, own=digest)


def own_families(space: Space) -> list[OwnFamily]:
    """The families of a caller's space; none of mfrank's."""
    return [family for family in space.families() if isinstance(family, OwnFamily)]


def check_times(space: Space, data: Interactions | Events) -> None:
    """Raise ValueError if a model of a caller's space needs timestamps that the data lack."""
    if data.timestamps is not None:
        return
    for family in own_families(space):
        if family.reads_times:
            raise InputValueError(
                f"`space` has {shown(family.given)}, which needs timestamps, and the data have "
                "none:",
                "leave it out, or pass them to `Interactions.from_arrays`",
            )


def _family(model: Any, given: Any) -> OwnFamily:
    """The family of a model, whose name is that of its class, its objective or its loss."""
    kind = type(model)
    if PARTS.get(kind.__name__) is not kind:
        raise _not_searched(model)
    if not isinstance(given, Mapping):
        raise InputTypeError(
            f"`space`: the options of {kind.__name__} must be a mapping from their names; got "
            f"{shown(given)}",
            f"write it as {_EXAMPLE}; without options, the model is fitted as it is: {{}}",
        )
    template = unfitted(model)
    for name in given:
        _check_known(template, name)
    _check_seed(getattr(template, "random_state", None))
    options = {name: option_of(name, values, template) for name, values in given.items()}
    if isinstance(seeds := options.get("random_state"), Choices):
        for seed in seeds.values:
            _check_seed(seed)
    is_grid = all(isinstance(option, Choices) for option in options.values())
    width = options.pop("factors", None)
    widths = () if width is None else _widths(width)
    family = OwnFamily(_name(template, options), template, tuple(options.values()), widths, is_grid)
    _check_values(family)
    return family


def _not_searched(model: Any) -> InputError:
    searched = ", ".join(PARTS)
    if model in PARTS.values():
        name = model.__name__
        return InputTypeError(f"`space` has the class {name}:", f"write a model, `mfrank.{name}()`")
    return InputTypeError(
        f"`space` has {shown(model)}, which is no model that is searched:",
        f"those are {searched}; a blend of what is found, and trees over it, are tried anyway",
    )


def _check_known(model: Any, name: Any) -> None:
    """Raise ValueError unless the model has an option of this name."""
    known = list(model.get_params())
    if name in known:
        return
    near = [each for each in known if isinstance(name, str) and each.endswith(f"__{name}")]
    near = near or difflib.get_close_matches(str(name), known, 1)
    remedy = f"the nearest is {near[0]!r}" if near else f"it has {', '.join(known)}"
    raise InputValueError(f"`space`: {type(model).__name__} has no option {shown(name)}:", remedy)


def _check_seed(seed: Any) -> None:
    if isinstance(seed, np.random.Generator):
        raise InputTypeError(
            "`space`: random_state is a Generator, which every fit would change:", "give an int"
        )


def _name(model: Any, options: Mapping[str, Option]) -> str:
    for kind, option in ((ALS, "objective"), (Descent, "loss")):
        if isinstance(model, kind) and option not in options:
            return type(getattr(model, option)).__name__
    if isinstance(model, Popularity) and (model.window is not None or "window" in options):
        return "RecentPopularity"
    return type(model).__name__


def _numbered(names: list[str], at: int) -> str:
    """A name, with a number if there are several of it."""
    name = names[at]
    return name if names.count(name) == 1 else f"{name} {names[: at + 1].count(name)}"


def _widths(width: Option) -> tuple[int, ...]:
    """Few factors first: the values of a list, or steps of a range."""
    if isinstance(width, Choices):
        for value in width.values:
            if not isinstance(value, int) or isinstance(value, bool):
                raise InputTypeError(f"`space`: factors must be whole numbers; got {shown(value)}")
        return tuple(sorted(width.values))
    return tuple(map(int, _steps(width)))


def _steps(width: Range) -> list[float]:
    ratio = width.high / max(1.0, width.low)
    number = max(1, math.ceil(math.log(ratio, _STEP) - 1e-9))
    between = [round(max(1.0, width.low) * ratio ** (at / number)) for at in range(1, number)]
    return distinct([width.low, *between, width.high])


def _check_values(family: OwnFamily) -> None:
    """Raise unless the model accepts every value, and every two of them together."""
    first = family._values(family.first)
    for rung in range(family.rungs):
        _try(family, {}, first, rung)
    for option in family.options:
        for value in option.tested:
            _try(family, first, {option.name: value})
    for one, other in combinations(family.options, 2):
        for mine, theirs in product(one.extremes, other.extremes):
            _try(family, first, {one.name: mine, other.name: theirs})


def _try(
    family: OwnFamily, first: Mapping[str, Any], tried: Mapping[str, Any], rung: int = 0
) -> None:
    """Raise, with the values that are tried, if the model refuses them beside the first ones."""
    try:
        family.made({**first, **tried}, rung)
    except Exception as error:  # the caller's own class may raise whatever it likes
        width = {"factors": family.widths[rung]} if family.widths else {}
        each = ", ".join(f"{name}={shown(value)}" for name, value in {**width, **tried}.items())
        kind = InputTypeError if isinstance(error, TypeError) else InputValueError
        where = f"`space`: {type(family.given).__name__} with {each}"
        raise kind(f"{where}: {error}") from error  # without the marks of arguments of the model


def _told(family: OwnFamily) -> str:
    """All that decides the trials, as JSON."""
    described = describe(family.given)
    described["options"].pop("n_threads", None)  # the same bits on any number
    options = [
        [o.name, list(o.values)] if isinstance(o, Choices) else [o.name, o.low, o.high, o.is_whole]
        for o in family.options
    ]
    return json.dumps([described, options, family.widths], default=_plain, sort_keys=True)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return describe(value)
    return repr(value)
