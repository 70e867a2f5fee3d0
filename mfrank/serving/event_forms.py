"""Events as they are sent to POST /events, and what is answered."""

from __future__ import annotations

import time
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mfrank.arrays import shown
from mfrank.errors import InputValueError
from mfrank.serving.limits import Limits
from mfrank.serving.questions import Id, check_lengths, read_json, unknown_name

_AHEAD = 86_400
"""Seconds by which clocks and time zones of senders may differ from the service's."""

_SECONDS = "send seconds since 1970, or no `time`: then its arrival counts"

_NEW = "an id; a new one becomes known at the next update"


_NOT_BLANK: dict[str, Any] = {
    "anyOf": [
        {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
        {"type": "string", "pattern": r"\S"},
    ]
}


class OneEvent(BaseModel):
    """What a user did."""

    model_config = ConfigDict(extra="forbid", strict=True)

    user: Id = Field(description=_NEW, json_schema_extra=_NOT_BLANK)
    item: Id = Field(description=_NEW, json_schema_extra=_NOT_BLANK)
    kind: str | None = Field(None, min_length=1, max_length=100, description='such as "purchase"')
    value: float = Field(
        1.0, ge=0, le=1e30, description="as in the training data; 0: only left out of lists"
    )
    time: float | None = Field(
        None,
        ge=631152000,
        le=4102444800,
        description="seconds since 1970, of 1990 at least, at most a day ahead; by default, of its "
        "arrival",
    )
    id: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="a name of the event; sent again, it is not counted again",
    )


_EXAMPLE: dict[str, Any] = {
    "examples": [{"events": [{"user": "alice", "item": "item-9", "kind": "view", "id": "c3f1"}]}]
}


class EventBatch(BaseModel):
    """Events, of which all or none are taken; a single event may be the body itself."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra=_EXAMPLE)

    events: list[OneEvent]


class UnknownIds(BaseModel):
    """Ids that the model does not know yet."""

    users: list[Id]
    items: list[Id]


class EventsTaken(BaseModel):
    """What became of the events; they are on the disk."""

    new: int
    repeated: int = Field(description="events whose ids were there before")
    unknown: UnknownIds


def read_events(body: bytes, limits: Limits) -> list[OneEvent]:
    """The body of POST /events.

    Raises
    ------
    ValueError
        It is neither an event nor a batch, or one of the events is wrong; the message has the index
        of the first.
    """
    given = read_json(body)
    if isinstance(given, dict) and "events" in given:
        for name in given:
            if name not in EventBatch.model_fields:
                raise ValueError(f"{unknown_name(name, EventBatch.model_fields)} in the body")
        many = given["events"]
    else:
        many = [given]
    if not isinstance(many, list):
        raise InputValueError("`events` must be a list of events")
    check_lengths({"events": many}, limits)
    events = []
    for index, each in enumerate(many):
        where = f"event {index}"
        if not isinstance(each, dict):
            raise InputValueError(
                f'{where} must be an object, such as {{"user": "alice", "item": "item-9"}}',
                place=where,
            )
        for name in each:
            if name not in OneEvent.model_fields:
                raise InputValueError(
                    f"{where}: {unknown_name(name, OneEvent.model_fields)}", place=where
                )
        try:
            events.append(OneEvent.model_validate(each))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = first["loc"][0] if first["loc"] else ""
            told = f", got {shown(each[field])}" if field in each else ""
            remedy = _SECONDS if field == "time" else ""
            raise InputValueError(
                f"{where}: `{field}`: {first['msg']}{told}", remedy, place=where
            ) from None
        if (events[-1].time or 0) > time.time() + _AHEAD:  # it would be the latest for years
            days = ((events[-1].time or 0) - time.time()) / 86400
            raise InputValueError(
                f"{where}: `time` is {days:,.0f} days ahead of this service's clock, got "
                f"{events[-1].time}",
                _SECONDS,
                place=where,
            )
    return events
