"""What a search found, in words: what won, how sure that is, what it costs, and how to make it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from time import perf_counter
from typing import Any

import numpy as np

from mfrank.arrays import counted, is_on_gpu, sized
from mfrank.evaluation import Metric, Score, p_value
from mfrank.models import ALS, Blend, Descent, Reranker, fit_epochs, unfitted, values_told
from mfrank.retrieval import Recommender, unannounced
from mfrank.tuning.family import ABILITIES, lacking
from mfrank.tuning.leaderboard import Leaderboard, call_of

# What it costs to serve.


_USERS = 256
_FIRST = 16
_MOST_SECONDS = 0.25
_LONGEST = 20


@dataclass(frozen=True, slots=True)
class Serving:
    """What it costs to serve a model.

    Attributes
    ----------
    memory : int
        Bytes of its arrays, with the users' items.
    microseconds : float
        Time of a list of ``length`` items, in a call for ``users`` of them.
    users, length : int
    """

    memory: int
    microseconds: float
    users: int
    length: int

    @classmethod
    def of(cls, model: Recommender, n_threads: int) -> Serving:
        """Measured on a few hundred users; on fewer, if a quarter of a second is too short."""
        n_users, length = len(model.user_ids), min(_LONGEST, len(model.item_ids))

        def seconds(number: int) -> tuple[float, int]:
            rows = np.unique(np.linspace(0, n_users - 1, min(number, n_users)).astype(np.int64))
            began = perf_counter()
            with unannounced(), values_told():
                model.recommend(rows, N=length, by_row=True, n_threads=n_threads)
            return perf_counter() - began, len(rows)

        seconds(1)  # the first call makes what the others share
        took, users = seconds(_FIRST)
        most = int(_MOST_SECONDS * users / took)
        if most > users:
            took, users = seconds(min(_USERS, most))
        return cls(bytes_of(model._now()), 1e6 * took / users, users, length)

    def __str__(self) -> str:
        return (
            f"{sized(self.memory)} of memory, and {self.microseconds:,.3g} microseconds a list "
            f"({counted(self.users, 'user')} at once)"
        )


def bytes_of(held: Any) -> int:
    """Bytes of all arrays in an object, each once."""
    found, known, left = dict[int, int](), dict[int, Any](), [held]
    while left:
        one = left.pop()
        if id(one) in known or isinstance(one, type | str | bytes):
            continue
        known[id(one)] = one
        if isinstance(one, np.ndarray):
            place = one.__array_interface__["data"][0]
            found[place] = max(one.nbytes, found.get(place, 0))
        elif is_on_gpu(one):
            found[id(one)] = one.nbytes
        else:
            left += _within(one)
    return sum(found.values())


def _within(one: Any) -> Iterator[Any]:
    if isinstance(one, Mapping):
        yield from one.values()
    elif isinstance(one, list | tuple):
        yield from one
    else:
        yield from getattr(one, "__dict__", {}).values()
        if is_dataclass(one):
            yield from (getattr(one, field.name, None) for field in fields(one))


# How far it is ahead.


@dataclass(frozen=True, slots=True)
class Lead:
    """How much better the chosen model ranked the held-out part than another.

    Attributes
    ----------
    over : str
        Kind of the other model.
    is_alone : bool
        Whether it is the best single model, and a blend was chosen; else it is the best of the
        families of which nothing was chosen.
    difference : float
        Mean over users.
    standard_error, p_value : float or None
        By a paired t-test over users; None if the values of users are not known any more.
    """

    over: str
    is_alone: bool
    difference: float
    standard_error: float | None = None
    p_value: float | None = None

    @classmethod
    def of(cls, over: str, is_alone: bool, mine: Score, theirs: Score, metric: Metric) -> Lead:
        """The lead of one score over another."""
        if mine.per_user is None or theirs.per_user is None or len(mine.per_user) < 2:
            return cls(over, is_alone, mine.value - theirs.value)
        found = mine.paired(theirs, metric)
        return cls(over, is_alone, found.mean, found.standard_error, found.p_value)

    def __str__(self) -> str:
        which = "single model" if self.is_alone else "of the other families"
        text = f"{self.difference:.4f} ahead of the best {which}, {self.over}"
        if self.standard_error is None or self.p_value is None:
            return text
        told = p_value(self.p_value)
        p = told if told.startswith("<") else f"= {told}"
        chance = "" if self.p_value <= _SURE else ", which may be chance"
        return f"{text} (standard error {self.standard_error:.4f}, p {p}{chance})"


_SURE = 0.05


# How to make it.


def code_of(model: Any, data: str = "data", leaves_out: str | None = None) -> str:
    """Python that fits the same model without a search; the arguments are expressions.

    ``leaves_out`` is what lists leave out, if that is not all of ``data``. Trees learn from
    ``valid``, which was held out of ``train``.
    """
    if isinstance(model, Reranker):
        options = {k: v for k, v in model.get_params(deep=False).items() if k != "model"}
        trees = f"Reranker(first, {', '.join(f'{k}={v!r}' for k, v in options.items())})"
        lines = [
            f"first = {_fit_of(model.model, 'train')}",
            f"model = {trees}.fit(train, valid)",
            f"model = refit(model, {data})",
        ]
    else:
        lines = [f"model = {_fit_of(model, data)}"]
    if leaves_out is not None:
        lines.append(f"model.leave_out({leaves_out})")
    text = "\n".join(lines)
    names = sorted(set(re.findall(r"\b(?:[A-Z]\w+|refit)(?=\()", text)))
    own = {name: module for name, module in _own_classes(model) if name in names}
    imported = [f"from mfrank import {', '.join(name for name in names if name not in own)}"]
    imported += [f"from {module} import {name}" for name, module in own.items()]
    return "\n".join([*imported, text])


def _own_classes(held: Any) -> Iterator[tuple[str, str]]:
    """The caller's own classes among the options of a model, such as a loss, and their modules."""
    if isinstance(held, list | tuple):
        for each in held:
            yield from _own_classes(each)
    elif is_dataclass(held):
        kind = type(held)
        if kind.__module__.partition(".")[0] != __name__.partition(".")[0]:
            yield kind.__name__, kind.__module__
        for option in fields(held):
            if option.init:
                yield from _own_classes(getattr(held, option.name))


def _fit_of(model: Any, data: str) -> str:
    """The call that makes and fits a model without trees."""
    if isinstance(model, Blend):
        parts = ", ".join(map(call_of, model.parts))
        weights = list(model.weights or [1.0] * len(model.parts))
        epochs = f", {list(model.epochs)}" if model.epochs else ""
        return f"Blend([{parts}], {weights}{epochs}).fit({data})"
    until = ""
    if isinstance(model, ALS | Descent):
        until = f", callback=lambda epoch, *_: epoch == {fit_epochs(model) - 1}"
    return f"{call_of(unfitted(model))}.fit({data}{until})"


# All of it in sentences.


_LAST = {"blend": 1, "trees": 2}
"""Rows of a leaderboard that are no trials, the last one last."""
_CAN = {
    "update": "be updated",
    "explain": "explain its scores",
    "new users": "rank for new users",
}


def sentences(
    model: Any,
    leaderboard: Leaderboard,
    held_out: Sequence[str],
    leads: Sequence[Lead],
    serving: Serving | None,
) -> list[str]:
    """What was found; ``held_out`` are sentences on how it was chosen."""
    kind, with_trees = type(model), ""
    if isinstance(model, Reranker):
        model, with_trees = model.model, "trees over "
    if isinstance(model, Blend):
        epochs = model.epochs or [None] * len(model.parts)
        weights = model.weights or [1.0] * len(model.parts)
        each = zip(weights, map(in_words, model.parts, epochs), strict=True)
        what = f"a blend: {' + '.join(f'{weight:.3g} x {name}' for weight, name in each)}"
    else:
        what = in_words(model, fit_epochs(model) if isinstance(model, ALS | Descent) else None)
    tried = sum(row["value"] is not None and row["family"] not in _LAST for row in leaderboard)
    told = [
        f"the best of {counted(tried, 'model')} is {with_trees}{what}",
        *_judged(leaderboard),
        *held_out,
    ]
    told += [*_popular(leaderboard), *(str(lead) for lead in leads)]
    if serving is not None:
        told.append(f"to serve it takes {serving}")
    lacks = lacking(kind, ABILITIES)
    can = [text for name, text in _CAN.items() if name not in lacks]
    return [*told, *([f"it can {', '.join(can)}"] if can else [])]


def in_words(model: Any, epochs: int | None) -> str:
    """Such as "ALS under IALS, 64 factors, 7 epochs"."""
    name = type(model).__name__
    if not isinstance(model, ALS | Descent):
        return f"{name} within a window" if getattr(model, "window", None) else name
    under = model.objective if isinstance(model, ALS) else model.loss
    width = counted(model.factors, "factor")
    after = "" if epochs is None else f", {counted(epochs, 'epoch')}"
    return f"{name} under {type(under).__name__} ({width}{after})"


def _popular(leaderboard: Leaderboard) -> list[str]:
    """What popularity alone gets on the same interactions, of all times and within a window."""
    found = []
    for family, name in (("Popularity", "popularity"), ("RecentPopularity", "recent popularity")):
        values = [
            row["value"]
            for row in leaderboard
            if row["family"] == family and row["value"] is not None
        ]
        if values:
            found.append(f"{name} alone gets {leaderboard[0]['metric']} {max(values):.4f}")
    return [", ".join(found)] if found else []


def _judged(leaderboard: Leaderboard) -> list[str]:
    """The value of what was chosen, if it was judged."""
    used = [row for row in leaderboard if row["weight"] is not None and row["value"] is not None]
    used.sort(key=lambda row: -_LAST.get(row["family"], 0))
    return [
        f"{row['metric']} {row['value']:.4f}"
        + ("" if row["low"] is None else f" (95 % interval {row['low']:.4f} to {row['high']:.4f})")
        + ", somewhat too high because it was chosen by this"
        for row in used[:1]
    ]
