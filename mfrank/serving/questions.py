"""What may be asked, and what is answered: as FastAPI checks it and /docs tells it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

__all__ = [
    "About",
    "Asked",
    "Batch",
    "Diversity",
    "Explained",
    "ItemList",
    "Length",
    "Lists",
    "Of",
    "Penalty",
    "Refusal",
    "Seen",
    "Some",
    "UserList",
]

Id = StrictInt | StrictStr

Of = Annotated[str, Path(description="an id, as in the data; quoted, it may contain a slash")]
Length = Annotated[int, Query(ge=1, description="length of the list")]
Some = Annotated[list[str] | None, Query(description="an id; may be repeated")]
Asked = Annotated[list[str], Query(description="an item id; may be repeated")]
Seen = Annotated[bool, Query(description="also list what the user has")]

_DIVERSITY = "how much items that are alike are kept apart, from 0 to 1"
_PENALTY = "what to take from items that are popular by one deviation, in deviations of scores"

Diversity = Annotated[float, Query(ge=0, le=1, description=_DIVERSITY)]
Penalty = Annotated[float, Query(ge=0, le=1000, description=_PENALTY)]


class Batch(BaseModel):
    """Lists of many users, or the list of somebody new."""

    model_config = ConfigDict(extra="forbid")

    users: list[Id] | None = Field(None, description="users of the model")
    from_items: list[Id] | None = Field(None, description="what somebody new likes")
    weights: list[Annotated[float, Field(allow_inf_nan=False)]] | None = Field(
        None,
        description="a value for each of from_items, as in the training data; default 1. "
        "Models that do not read values, such as those of RG2, take each as 1",
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
    boosts: dict[str, float] = Field(
        default_factory=dict,
        description="by item id, what to add to its score, in deviations of the user's scores",
    )
    diversity: float = Field(0, ge=0, le=1, description=_DIVERSITY)
    popularity_penalty: float = Field(0, ge=0, le=1000, description=_PENALTY)


class Scored(BaseModel):
    """A place of a list."""

    id: Id
    score: float | None


class UserList(BaseModel):
    """The list of a user, best first; shorter than n if fewer items are left."""

    user: Id
    items: list[Scored]


class ItemList(BaseModel):
    """The items nearest to an item, nearest first."""

    item: Id
    items: list[Scored]


class Lists(BaseModel):
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
    reloads: int


class Refusal(BaseModel):
    """Why there is no answer."""

    error: str
