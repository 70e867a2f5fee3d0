"""What may be asked: as it is read, and as FastAPI describes it.

Checks go from what is cheap to what is not, and end with the first fault: names of fields, then
lengths, then types. A body of many wrong things costs no more than one of many right ones.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr
from starlette.exceptions import HTTPException

from mfrank.arrays import shown
from mfrank.errors import InputValueError
from mfrank.retrieval import Fallback
from mfrank.serving.limits import Limits

Id = StrictInt | StrictStr

Of = Annotated[str, Path(description="an id, as in the data; quoted, it may contain a slash")]
Length = Annotated[int, Field(ge=1, description="length of the list")]
Some = Annotated[list[str] | None, Field(description="an id; may be repeated")]
Others = Annotated[
    list[str] | None,
    Field(description="an id that is not to be listed, known or not; may be repeated"),
]
Seen = Annotated[bool, Field(description="also list what the user has")]
Instead = Annotated[
    Fallback,
    Field(
        description="what a user with nothing to go by gets, and what follows in a list that the "
        "model does not fill: nothing, or the most popular items"
    ),
]
Diversity = Annotated[
    float,
    Field(ge=0, le=1, description="how much items that are alike are kept apart, from 0 to 1"),
]
Penalty = Annotated[
    float,
    Field(
        ge=0,
        le=1000,
        description="what to take from items that are popular by one deviation, in deviations of "
        "scores",
    ),
]
Offset = Annotated[
    int | None,
    Field(
        ge=0, description="items to skip; the answer then has `next`, the cursor of what follows"
    ),
]
Continued = Annotated[
    str | None, Field(description="`next` of the page before: the list goes on, of the same model")
]
Remembered = Annotated[
    bool,
    Field(
        description="whether a service with --remember-shown leaves out what it has shown lately, "
        "and remembers this list"
    ),
]
Unknown = Literal["error", "skip"]
Where = Annotated[
    list[str],
    Field(
        description="list only items of which a column of the service's table of items holds this, "
        "such as year>=1990 or genres=Comedy,Drama; several must all hold"
    ),
]
Fields = Annotated[
    list[str],
    Field(description="columns of that table to add to each item, such as title,genres"),
]


Model = Annotated[
    str | None,
    Field(
        description="of a service with several models: the one that answers, whoever asks; with "
        "keys, only for those with the scope operate"
    ),
]
Visitor = Annotated[
    Id | None,
    Field(description="of a service with several models: an id by which one of them is chosen"),
]


class PagedQuery(BaseModel):
    """The query of a list that has pages."""

    n: Length = 10
    exclude: Others = None
    offset: Offset = None
    cursor: Continued = None
    model: Model = None

    @property
    def has_n(self) -> bool:
        """Whether the request has a length of its own."""
        return "n" in self.model_fields_set

    @property
    def is_page(self) -> bool:
        """Whether the answer says where the list goes on."""
        return self.offset is not None or self.cursor is not None


class ListQuery(PagedQuery):
    """The query of a user's list."""

    filter_items: Some = None
    items: Some = None
    include_seen: Seen = False
    fallback: Instead = "none"
    diversity: Diversity = 0
    popularity_penalty: Penalty = 0
    remember: Remembered = True
    on_unknown: Unknown = Field(
        "error",
        description="skip: an unknown user has an empty list, unknown items are left out of "
        "filter_items and items",
    )
    where: Where = Field(default_factory=list)
    fields: Fields = Field(default_factory=list)

    @property
    def is_light(self) -> bool:
        """Whether such a list takes about as long as the best items of a user."""
        extra = self.exclude, self.filter_items, self.items, self.popularity_penalty, self.diversity
        return self.fallback == "none" and not any((*extra, self.where))


class LengthQuery(BaseModel):
    """The query of a list that has a length only."""

    n: Length = 10
    model: Model = None


class SimilarQuery(PagedQuery):
    """The query of the items nearest to an item."""

    visitor: Visitor = None
    where: Where = Field(default_factory=list)
    fields: Fields = Field(default_factory=list)


class ScoreQuery(BaseModel):
    """The query of a user's scores."""

    item: list[str] = Field(description="an item id; may be repeated")
    model: Model = None


class NoQuery(BaseModel):
    """The query of a path that has none."""


Query = TypeVar("Query", bound=BaseModel)
_LISTS = "exclude", "filter_items", "items", "item", "where", "fields"
"""Parameters of a URL that may be repeated."""


_OF_BATCH: dict[str, Any] = {
    "examples": [{"users": ["alice", "bob"], "n": 10}],
    "oneOf": [
        {
            "required": ["users"],
            "properties": {"users": {"type": "array"}, "weights": {"const": None}},
        },
        {
            "required": ["from_items"],
            "properties": {"from_items": {"type": "array"}, "include_seen": {"const": False}},
        },
    ],
}


class Batch(BaseModel):
    """Lists of many users, or the list of a new user."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra=_OF_BATCH)

    users: list[Id] | None = Field(None, description="users of the model")
    from_items: list[Id] | None = Field(None, description="what somebody new likes")
    weights: list[float] | None = Field(
        None,
        description="a value for each of from_items, as in the training data; default 1. "
        "Models that do not read values, such as those of RG2, take each as 1. Where the training "
        "data were cut by a threshold, such as ratings from 4 on, items below are only left out of "
        "the list, unless all weights are 1",
    )
    n: int = Field(10, ge=1, description="length of the lists")
    filter_items: list[Id] | list[list[Id]] | None = Field(
        None, description="never list these: one list for all, or one for each user"
    )
    items: list[Id] | list[list[Id]] | None = Field(
        None, description="list only these, in the same forms"
    )
    exclude: list[Id] = Field(
        default_factory=list, description="never list these, known or not, to any of the users"
    )
    remember: Remembered = True
    include_seen: Seen = False
    model: Model = None
    visitor: Visitor = None
    on_unknown: Unknown = Field(
        "error", description="skip: an unknown user has an empty list, unknown items are left out"
    )
    fallback: Instead = "none"
    boosts: dict[str, float] = Field(
        default_factory=dict,
        description="by item id, what to add to its score, in deviations of the user's scores",
    )
    diversity: Diversity = 0
    popularity_penalty: Penalty = 0
    where: Where = Field(default_factory=list)
    fields: Fields = Field(default_factory=list)
    boosts_where: dict[str, float] = Field(
        default_factory=dict,
        description="by condition, as of where: what to add to the score of items that hold it, in "
        "deviations of the user's scores; added to other boosts of the item",
    )
    at_most: dict[str, int] = Field(
        default_factory=dict,
        description="by column of the table of items, of which one may be named: the largest "
        'number of items of each of its values in a list, such as {"genres": 2}',
    )


class Rollback(BaseModel):
    """Which version is to be replaced by the one before it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: str = Field(description="of the model that answers now, as /health has it")


def read_query(query: bytes, form: type[Query], limits: Limits) -> Query:
    """The parameters of a URL.

    Raises
    ------
    ValueError
        One is unknown, is given too often, or has a wrong value.
    """
    given: dict[str, Any] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        given.setdefault(name, []).append(value)
    fields = form.model_fields
    for name in given:
        if name not in fields:
            raise ValueError(f"{unknown_name(name, fields)} in the query")
    for name, values in given.items():
        if name in _LISTS:
            check_lengths({name: values}, limits)
            if name == "fields":  # as the parameters of other services: fields=title,genres
                given[name] = [part.strip() for value in values for part in value.split(",")]
        elif len(values) > 1:
            raise InputValueError(f"`{name}` must be given once, got {len(values)} of it")
        else:
            given[name] = values[0]
    asked = form.model_validate({"n": limits.usual_n, **given})
    if "n" not in given:
        asked.model_fields_set.discard("n")
    if "n" in fields:
        check_length(asked.n, limits)  # type: ignore[attr-defined]
    return asked


def check_length(n: int, limits: Limits) -> None:
    """Refuse longer lists than the limits have.

    Raises
    ------
    ValueError
    """
    if n > limits.max_n:
        raise InputValueError(
            f"`n` must be at most {limits.max_n}, got {n}; a service with another --max-n has "
            "longer lists"
        )


def check_lengths(lists: Mapping[str, Any], limits: Limits) -> None:
    """Refuse lists, or lists of lists, that have more ids than a request may have.

    Raises
    ------
    ValueError
    """
    for name, ids in lists.items():
        nested = sum(len(each) for each in ids if isinstance(each, list))
        if max(len(ids), nested) > limits.max_batch:
            raise InputValueError(
                f"`{name}`: a request may have at most {limits.max_batch} ids in a list; a "
                "service with another --max-batch takes more"
            )


def check_json_type(headers: Mapping[str, str]) -> None:
    """Refuse a body that does not say that it is JSON in UTF-8, not compressed: with 415."""
    kind, _, rest = headers.get("content-type", "").lower().partition(";")
    charset = rest.partition("charset=")[2].partition(";")[0].strip(' "') or "utf-8"
    if kind.strip() != "application/json" or charset not in ("utf-8", "utf8", "us-ascii"):
        got = headers.get("content-type", "no content-type")
        raise HTTPException(
            415, f"the body must be JSON in UTF-8, with content-type: application/json; got {got}"
        )
    encoding = headers.get("content-encoding", "identity")
    if encoding.strip().lower() != "identity":
        raise HTTPException(415, f"the body must not be compressed, got {encoding}")


def read_batch(body: bytes, limits: Limits) -> Batch:
    """The body of POST /recommend.

    Raises
    ------
    ValueError
        It is no JSON object, or has an unknown field, too long a list or a wrong value.
    """
    given = read_json(body)
    if not isinstance(given, dict):
        raise ValueError('the body must be a JSON object, such as {"users": ["alice"]}')
    for name in given:
        if name not in Batch.model_fields:
            raise ValueError(f"{unknown_name(name, Batch.model_fields)} in the body")
    many = {name: each for name, each in given.items() if isinstance(each, list | dict)}
    check_lengths(many, limits)
    for name, each in many.items():
        _check_types(name, each)
    return Batch.model_validate({"n": limits.usual_n, **given})


def read_rollback(body: bytes) -> Rollback:
    """The body of POST /rollback.

    Raises
    ------
    ValueError
        It is no JSON object with a version alone.
    """
    return Rollback.model_validate(read_json(body))


def _check_types(name: str, given: list[Any] | dict[str, Any]) -> None:
    """Refuse the first of many values that has a wrong type, which pydantic would all describe."""
    if name in ("where", "fields"):
        if not all(type(each) is str for each in given):
            raise InputValueError(f"`{name}` must have texts, got {shown(given)}")
        return
    is_ids = name not in ("weights", "boosts", "boosts_where", "at_most")
    right: tuple[type, ...] = (int, str) if is_ids else (int, float)
    values = list(given.values()) if isinstance(given, dict) else given
    if is_ids and values and all(type(each) is list for each in values):
        values = [each for inner in values for each in inner]
    wrong = next((each for each in values if type(each) not in right), None)
    if not {type(each) for each in values} <= set(right):
        what = "ids, which are texts or whole numbers" if is_ids else "numbers"
        raise InputValueError(f"`{name}` must have {what}, got {shown(wrong)}")


def read_json(body: bytes) -> Any:
    """What a body has: numbers are finite, and names of an object differ."""
    try:
        return json.loads(
            body.decode(),
            object_pairs_hook=_object,
            parse_constant=_number,
            parse_float=_number,
        )
    except UnicodeDecodeError as error:
        raise ValueError(f"the body must be JSON in UTF-8: {error}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the body must be JSON: {error}") from None
    except RecursionError:
        raise ValueError("the body must be JSON that is not nested so deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        name = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{name[:100]} must be given once in an object of the body")
    return read


_EXACT = 2**53
"""Up to this number, floats tell all whole numbers apart."""


def _number(text: str) -> float:
    """A number with a point or an exponent; 5.0 is 5, as JSON has one kind of number."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the body must have finite numbers, got {text[:100]}")
    return int(number) if number.is_integer() and abs(number) <= _EXACT else number


def unknown_name(name: str, known: Iterable[str]) -> str:
    """What is wrong with the name of a parameter."""
    there = f"known: {', '.join(known)}" if known else "this path has none"
    return f"unknown parameter {name[:100]!r} ({there})"
