"""The models of a service, and which of them answers whom: the arms of an experiment.

A user is assigned by weighted rendezvous hashing: each arm draws an exponential time with its share
as the rate from a hash of salt, arm and id, and the earliest one answers. So the assignment is the
same in every process and on every machine, for any order of the arms; and when shares change, a
user moves only to an arm whose share has grown in proportion to that of the arm before.
"""

from __future__ import annotations

import math
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from fastapi import Request
from starlette.exceptions import HTTPException

from mfrank.arrays import shown
from mfrank.errors import InputError, InputTypeError, InputValueError
from mfrank.retrieval import Recommender
from mfrank.serving.list_log import UNNAMED, ListSource
from mfrank.serving.live_model import CannotRollBackError, LiveModel
from mfrank.serving.pages import Cursor
from mfrank.serving.visitors import Visitors

Served = Recommender | str | os.PathLike[str]

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SUM = 1e-9
"""How far shares may be from 1 together: they are decimal fractions, which floats round."""


def arm_of(user: int | str, split: Mapping[str, float], salt: str = "") -> str:
    """As :func:`mfrank.serving.arm_of`."""
    _check_split(split, split)
    return _drawn(str(user), {name: share for name, share in split.items() if share}, salt)


def _drawn(user: str, shares: Mapping[str, float], salt: str) -> str:
    return min(shares, key=lambda name: _time(user, name, salt) / shares[name])


def _time(user: str, name: str, salt: str) -> float:
    """An exponential time of rate 1, from 53 bits of a hash."""
    # Lengths before the parts: no two triples are one text.
    parts = (part.encode("utf-8", "surrogatepass") for part in (salt, name, user))
    text = b"".join(b"%d:%b" % (len(part), part) for part in parts)
    bits = int.from_bytes(sha256(text).digest()[:8], "big") >> 11
    return -math.log((bits + 0.5) / 2**53)


@dataclass(frozen=True, slots=True, eq=False)
class Arm:
    """A model of a service.

    Attributes
    ----------
    live : LiveModel
        Its ``name`` is the arm's; None in a service of one model without a name.
    visitors : Visitors
        What the service knows of users, beside this model.
    share : float or None
        Of the users; None where the model was asked for by hand.
    """

    live: LiveModel
    visitors: Visitors
    share: float | None

    @property
    def name(self) -> str | None:
        """Name of the arm."""
        return self.live.name

    def source(self, request: Request, version: str) -> ListSource:
        """What is noted of a list."""
        list_id = request.scope.setdefault("request_id", secrets.token_hex(8))
        return ListSource(list_id, self.name or UNNAMED, version, self.share)

    def answering(self, question: Callable[[Recommender], Any]) -> Callable[[], Any]:
        """Work that asks the model which is current when it begins, and says which that was."""

        def work() -> Any:
            model, version = self.live.now
            answer = question(model)
            return {**answer, **self.live.stated(version)} if type(answer) is dict else answer

        return work


class Arms:
    """The arms of a service; iterating yields them in their order.

    Parameters
    ----------
    models : Recommender, path or mapping of str to these
    split : mapping of str to float, optional
    salt : str, optional
    load : callable
        Makes a :class:`LiveModel` of a model and a name.
    visitors : Visitors

    Raises
    ------
    ValueError, TypeError
        Names, shares or models cannot be those of one service.
    """

    def __init__(
        self,
        models: Served | Mapping[str, Served],
        split: Mapping[str, float] | None,
        salt: str | None,
        load: Callable[[Served, str | None], LiveModel],
        visitors: Visitors,
    ) -> None:
        if salt is not None and not isinstance(salt, str):
            raise InputTypeError(f"`salt` must be a text, got {shown(salt)}")
        self._arms: dict[str | None, Arm] = {}
        if not isinstance(models, Mapping):
            if split is not None or (salt is not None and visitors.explorer is None):
                raise InputValueError(
                    "`split` and `salt` are for several models with names (`salt` also for "
                    "`explore`),",
                    'such as app({"a": "model-a", "b": "model-b"}, split={"a": 0.9, "b": 0.1})',
                )
            self._arms[None] = Arm(load(models, None), visitors, 1.0)
        else:
            shares = _checked(models, split)
            for name, share in shares.items():
                live = _loaded(load, models[name], name)
                own = visitors if not self._arms else replace(visitors, fresh=visitors.own_fresh())
                self._arms[name] = Arm(live, own, share)
            self._check_ids()
        for arm in self._arms.values():
            arm.visitors.tell_weights(arm.live.current)
        self.first = next(iter(self._arms.values()))
        self.salt = salt or ""
        self._by_hand = {name: replace(arm, share=None) for name, arm in self._arms.items()}
        self._shares = {arm.live.name or "": arm.share for arm in self if arm.share}

    def __iter__(self) -> Iterator[Arm]:
        return iter(self._arms.values())

    @property
    def are_named(self) -> bool:
        """Whether answers say which arm they are of."""
        return self.first.name is not None

    def of(self, request: Request, user: int | str | None, asked: Any) -> Arm:
        """The arm that answers a request, which is noted in its scope.

        Parameters
        ----------
        request : Request
        user : id or None
            None: somebody without an id gets the first arm.
        asked : query or body
            Its ``model`` is an arm that is asked for by hand.

        Raises
        ------
        HTTPException
            403: the key may not choose an arm.
        ValueError
            There is no such arm.
        """
        name = asked.model
        if name is None and getattr(asked, "cursor", None) is not None:
            name = Cursor.read(asked.cursor).asked.get("model")
        if not self.are_named:
            if name is not None:
                raise InputValueError(
                    "`model`: this service has one model without a name,", "ask without it"
                )
            return self.first
        if name is not None:
            arm = self._chosen(request, name)
        elif user is None:
            arm = self.first
        else:
            arm = self._arms[_drawn(str(user), self._shares, self.salt)]
        counts = request.scope.setdefault("arms", {})
        counts[arm.name] = counts.get(arm.name, 0) + 1
        return arm

    def _chosen(self, request: Request, name: str) -> Arm:
        scopes = request.scope.get("key_scopes")
        if scopes is not None and "operate" not in scopes:
            raise HTTPException(
                403, "this key may not choose a model: that needs the scope operate"
            )
        if name not in self._arms:
            known = ", ".join(str(arm.name) for arm in self)
            raise InputValueError(f"`model` must be one of {known}, got {shown(name)}")
        return self._by_hand[name]

    def roll_back(self, version: str) -> dict[str, Any]:
        """Replace a version by the one before it; the answer.

        Raises
        ------
        CannotRollBackError
            Nothing has changed.
        """
        concerned = [arm for arm in self if arm.live.version == version]
        if not concerned:
            others = ", ".join(arm.live.version for arm in self)
            raise CannotRollBackError(
                f"`version`: {shown(version)} does not answer now:", f"the current one is {others}"
            )
        first, *others_there = concerned
        now = first.live.roll_back(version)
        for arm in others_there:  # of the same folder
            arm.live.refresh()
        return {"version": now, **({"arms": [a.name for a in concerned]} if self.are_named else {})}

    def watch(self, seconds: float) -> None:
        """Check the folders from now on."""
        for arm in self:
            arm.live.watch(seconds)

    def stop(self) -> None:
        """End the checks."""
        for arm in self:
            arm.live.stop()
        if self.first.visitors.list_log is not None:
            self.first.visitors.list_log.stop()

    def look_now(self) -> None:
        """Read all folders at once; safe in a signal handler."""
        for arm in self:
            arm.live.look_now()

    def _check_ids(self) -> None:
        """Refuse models whose ids are of two types: their users would not be the same."""
        first, *others = self
        for arm in others:
            for noun in "user", "item":
                theirs, ours = (
                    getattr(each.live.current, f"{noun}_ids").are_text for each in (arm, first)
                )
                if theirs != ours:
                    raise InputValueError(
                        f"`model`: the {noun} ids of {arm.name} are "
                        f"{'texts' if theirs else 'numbers'}, those of {first.name} "
                        f"{'texts' if ours else 'numbers'}:",
                        "fit both to ids of one type",
                    )


def _loaded(load: Callable[[Served, str | None], LiveModel], model: Served, name: str) -> LiveModel:
    try:
        return load(model, name)
    except InputError as error:
        raise error.within(f"model {name}") from None


def _checked(models: Mapping[Any, Served], split: Mapping[str, float] | None) -> dict[str, float]:
    """The share of each model, in the order of the models."""
    if not models:
        raise InputValueError("`model` must have at least one model, got {}")
    for name in models:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise InputValueError(
                f"`model`: a name must be up to 64 letters, digits, . _ -, got {shown(name)}"
            )
    if split is None:
        if len(models) > 1:
            n = len(models)
            example = ",".join(f"{name}={1 / n:.3g}" for name in models)
            raise InputValueError(
                f"`split` must say which share of the users each of the {n} models answers,",
                f"such as {example}",
            )
        split = dict.fromkeys(models, 1.0)
    _check_split(split, models)
    return {name: float(split[name]) for name in models}


def _check_split(split: Mapping[str, float], names: Mapping[str, Any]) -> None:
    if not isinstance(split, Mapping) or not split:
        raise InputTypeError(
            f"`split` must have a share for each name, such as {{'a': 0.9, 'b': 0.1}}, got "
            f"{shown(split)}"
        )
    known = ", ".join(map(str, names))
    for name in split:
        if name not in names:
            raise InputValueError(f"`split`: there is no model {shown(name)}; there are {known}")
    for name in names:
        if name not in split:
            raise InputValueError(
                f"`split` has no share of {name}", f"add {name}=0 if nobody is to get it"
            )
    for name, share in split.items():
        is_number = isinstance(share, int | float) and not isinstance(share, bool)
        if not is_number or not 0 <= share <= 1:
            raise InputValueError(
                f"`split`: the share of {name} must be from 0 to 1, got {shown(share)}"
            )
    if abs(math.fsum(split.values()) - 1) > _SUM:
        raise InputValueError(
            f"`split`: the shares must sum to 1, got {math.fsum(split.values()):.6g}"
        )
