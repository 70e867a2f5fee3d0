"""What may be asked, and what is answered: as it is checked, and as /docs tells it.

Checks go from what is cheap to what is not, and end with the first fault: names of fields, then
lengths, then types. A body of many wrong things costs no more than one of many right ones.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Annotated, Any, Literal, get_args, get_origin

from fastapi import Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr
from starlette.exceptions import HTTPException

from mfrank.arrays import shown
from mfrank.retrieval import Fallback
from mfrank.serving.limits import Limits

Id = StrictInt | StrictStr

Of = Annotated[str, Path(description="an id, as in the data; quoted, it may contain a slash")]
Length = Annotated[int, Query(ge=1, description="length of the list")]
Some = Annotated[list[str] | None, Query(description="an id; may be repeated")]
Asked = Annotated[list[str], Query(description="an item id; may be repeated")]
Seen = Annotated[bool, Query(description="also list what the user has")]
Unknown = Annotated[
    Literal["error", "skip"],
    Query(
        description="skip: an unknown user has an empty list, unknown items are left out of "
        "filter_items and items"
    ),
]

_DIVERSITY = "how much items that are alike are kept apart, from 0 to 1"
_FALLBACK = (
    "what a user with nothing to go by gets, and what follows in a list that the model does not "
    "fill: nothing, or the most popular items"
)
_PENALTY = "what to take from items that are popular by one deviation, in deviations of scores"

Diversity = Annotated[float, Query(ge=0, le=1, description=_DIVERSITY)]
Instead = Annotated[Fallback, Query(description=_FALLBACK)]
Penalty = Annotated[float, Query(ge=0, le=1000, description=_PENALTY)]


class Batch(BaseModel):
    """Lists of many users, or the list of somebody new."""

    model_config = ConfigDict(extra="forbid", strict=True)

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
    include_seen: bool = Field(False, description="also list what the user has")
    on_unknown: Literal["error", "skip"] = Field(
        "error", description="skip: an unknown user has an empty list, unknown items are left out"
    )
    fallback: Fallback = Field("none", description=_FALLBACK)
    boosts: dict[str, float] = Field(
        default_factory=dict,
        description="by item id, what to add to its score, in deviations of the user's scores",
    )
    diversity: float = Field(0, ge=0, le=1, description=_DIVERSITY)
    popularity_penalty: float = Field(0, ge=0, le=1000, description=_PENALTY)


class ScoredPlace(BaseModel):
    """A place of a list."""

    id: Id
    score: float | None


class UserList(BaseModel):
    """The list of a user, best first; shorter than n if fewer items are left."""

    user: Id
    items: list[ScoredPlace]


class ItemList(BaseModel):
    """The items nearest to an item, nearest first."""

    item: Id
    items: list[ScoredPlace]


class UserLists(BaseModel):
    """The lists of the users in the order asked for, or of somebody new, whose user is null."""

    lists: list[dict[str, Any]]


class Contribution(BaseModel):
    """An item of the user, and what it adds to the score."""

    id: Id
    contribution: float


class WalkPath(BaseModel):
    """A path from an item of the user, and its probability."""

    items: list[Id]
    mass: float


class Explained(BaseModel):
    """score = contributions + others + baseline, or = the masses of paths + others."""

    user: Id
    item: Id
    score: float
    baseline: float | None = None
    contributions: list[Contribution] | None = None
    paths: list[WalkPath] | None = None
    others: float


class About(BaseModel):
    """The model that answers now."""

    status: str
    model: str
    users: int
    items: int
    loaded: float = Field(description="Unix time at which it was loaded")
    reloads: int = Field(description="newer models that were loaded")
    failed_reloads: int = Field(description="loads that failed; the model before them answers on")
    reload_error: str | None = Field(description="why the last load failed; null if it did not")
    watched: bool = Field(description="whether a newer model in the folder is loaded")


class Refusal(BaseModel):
    """Why there is no answer."""

    error: str


async def check_query(request: Request) -> None:
    """Refuse parameters that a route does not have, and those that are given too often.

    Raises
    ------
    ValueError
    """
    given = Counter(name for name, _ in request.query_params.multi_items())
    parameters = {each.alias: each for each in request.scope["route"].dependant.query_params}
    for name in given:
        if name not in parameters:
            raise ValueError(f"{_unknown(name, parameters)} in the query")
    limits: Limits = request.app.state.limits
    for name, times in given.items():
        if _is_list(parameters[name].field_info.annotation):
            check_lengths({name: range(times)}, limits)
        elif times > 1:
            raise ValueError(f"{name} must be given once, got {times} of it")


def check_lengths(lists: Mapping[str, Any], limits: Limits) -> None:
    """Refuse lists, or lists of lists, that have more ids than a request may have.

    Raises
    ------
    ValueError
    """
    for name, ids in lists.items():
        nested = sum(len(each) for each in ids if isinstance(each, list))
        if max(len(ids), nested) > limits.max_batch:
            raise ValueError(
                f"{name}: a request may have at most {limits.max_batch} ids in a list; a service "
                "with another --max-batch takes more"
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
    given = _json(body)
    if not isinstance(given, dict):
        raise ValueError('the body must be a JSON object, such as {"users": ["alice"]}')
    for name in given:
        if name not in Batch.model_fields:
            raise ValueError(f"{_unknown(name, Batch.model_fields)} in the body")
    many = {name: each for name, each in given.items() if isinstance(each, list | dict)}
    check_lengths(many, limits)
    for name, each in many.items():
        _check_types(name, each)
    return Batch.model_validate({"n": limits.usual_n, **given})


def _check_types(name: str, given: list[Any] | dict[str, Any]) -> None:
    """Refuse the first of many values that has a wrong type, which pydantic would all describe."""
    is_ids = name not in ("weights", "boosts")
    right: tuple[type, ...] = (int, str) if is_ids else (int, float)
    values = list(given.values()) if isinstance(given, dict) else given
    if is_ids and values and all(type(each) is list for each in values):
        values = [each for inner in values for each in inner]
    wrong = next((each for each in values if type(each) not in right), None)
    if not {type(each) for each in values} <= set(right):
        what = "ids, which are texts or whole numbers" if is_ids else "numbers"
        raise ValueError(f"{name} must have {what}, got {shown(wrong)}")


def _json(body: bytes) -> Any:
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


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the body must have finite numbers, got {text[:100]}")
    return number


def _unknown(name: str, known: Iterable[str]) -> str:
    there = f"known: {', '.join(known)}" if known else "this path has none"
    return f"unknown parameter {name[:100]!r} ({there})"


def _is_list(annotation: Any) -> bool:
    return any(get_origin(each) is list for each in (annotation, *get_args(annotation)))


# The page /docs: the OpenAPI description as plain HTML that loads no other file.
#
# FastAPI's own page loads its program from another host.


STYLE = """\
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 52rem; margin: 0 auto; padding: 1rem; }
h2 { margin: 2.5rem 0 0.25rem; font-size: 1.1rem; font-family: ui-monospace, monospace; }
h2 b { display: inline-block; min-width: 3.5rem; color: light-dark(#2451b3, #8fb4ff); }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: 0.3rem 0.8rem 0.3rem 0;
  border-top: 1px solid light-dark(#ddd, #444); }
code { font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
"""


def page(openapi: Mapping[str, Any]) -> str:
    """The description of all routes as an HTML page."""
    info = openapi["info"]
    title = escape(f"{info['title']} {info['version']}")
    return "".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<title>{title}</title><link rel="stylesheet" href="docs.css"></head><body>',
            f"<h1>{title}</h1><p>{escape(info.get('description', ''))}</p>",
            '<p>For programs: <a href="openapi.json">openapi.json</a></p>',
            *_routes(openapi),
            "</body></html>",
        )
    )


def _routes(openapi: Mapping[str, Any]) -> Iterator[str]:
    for path, methods in openapi["paths"].items():
        for method, route in methods.items():
            yield f"<h2><b>{escape(method.upper())}</b> {escape(path)}</h2>"
            yield f"<p>{escape(route.get('description', ''))}</p><table>"
            for given in (*route.get("parameters", ()), *_fields(openapi, route)):
                yield _row(given["name"], _kind(given["schema"]), given.get("description", ""))
            for status, answer in route["responses"].items():
                yield _row(status, "", answer["description"])
            yield "</table>"


def _fields(openapi: Mapping[str, Any], route: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The fields of a route's body."""
    body = route.get("requestBody", {}).get("content", {}).get("application/json", {})
    if reference := body.get("schema", {}).get("$ref"):
        fields = openapi["components"]["schemas"][reference.rpartition("/")[2]]["properties"]
        for name, schema in fields.items():
            yield {"name": name, "schema": schema, "description": schema.get("description", "")}


def _kind(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_kind, schema["anyOf"])))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    default = f", default {schema['default']}" if schema.get("default") not in (None, []) else ""
    kind = " | ".join(schema["enum"]) if "enum" in schema else schema.get("type", "any")
    return f"{kind}{default}"


def _row(name: str, kind: str, about: str) -> str:
    cells = f"<code>{escape(name)}</code>", escape(kind), escape(about)
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
