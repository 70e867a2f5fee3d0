"""What is answered, as FastAPI describes it; the answers themselves are written without it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from mfrank.serving.questions import Id


class Stated(BaseModel):
    """Which model answered, in a service with several."""

    arm: str | None = Field(None, description="the name of the model")
    version: str | None = Field(None, description="the version of the model")


class ScoredPlace(BaseModel):
    """An item of a list."""

    id: Id
    score: float | None
    fields: dict[str, Any] | None = Field(None, description="where the request names fields")


class UserList(Stated):
    """The list of a user, best first; shorter than n if there are fewer candidates."""

    user: Id
    list_id: str | None = Field(
        None, description="of a service with --log-lists: its id in the log"
    )
    items: list[ScoredPlace]
    next: str | None = Field(None, description="of pages: the cursor of the next; null at the end")


class ItemList(Stated):
    """The items nearest to an item, nearest first."""

    item: Id
    items: list[ScoredPlace]
    next: str | None = Field(None, description="of pages: the cursor of the next; null at the end")


class RolledBack(BaseModel):
    """The version that answers now."""

    version: str
    arms: list[str] | None = Field(
        None, description="of a service with several models: those whose version it is"
    )


class UserLists(BaseModel):
    """The lists of the users in the order of the request, or of a new user, whose id is null."""

    lists: list[dict[str, Any]]


class Contribution(BaseModel):
    """An item of the user, and its contribution to the score."""

    id: Id
    contribution: float


class FeatureShare(BaseModel):
    """A feature of a re-ranked item, and its contribution to the trees' score."""

    name: str
    contribution: float


class WalkPath(BaseModel):
    """A path from an item of the user, and its probability."""

    items: list[Id]
    mass: float


class Explained(Stated):
    """score = contributions (or features) + others + baseline, or masses of paths + others."""

    user: Id
    item: Id
    score: float
    baseline: float | None = None
    contributions: list[Contribution] | None = None
    features: list[FeatureShare] | None = None
    paths: list[WalkPath] | None = None
    others: float


class About(BaseModel):
    """The current model."""

    status: str
    model: str
    users: int
    items: int
    loaded: float = Field(description="Unix time at which it was loaded")
    reloads: int = Field(description="newer models that were loaded")
    failed_reloads: int = Field(description="loads that failed; the model before them answers on")
    reload_error: str | None = Field(description="why the last load failed; null if it did not")
    watched: bool = Field(description="whether a newer model in the folder is loaded")
    version: str = Field(description="a name of the current model, the same for all its services")
    share: float | None = Field(
        None, description="of a service with several models: the share of the users that it answers"
    )
    events: int | None = Field(
        None, description="of the journal: events that the model has not learned from"
    )
    folds_in: bool | None = Field(
        None,
        description="whether such events change the lists at once; if not, their items are only "
        "left out",
    )
    event_weights: dict[str, float | None] | None = Field(
        None, description="what an event of each kind counts; others count by their values"
    )
    remembers_shown: float | None = Field(
        None, description="seconds for which a list is not repeated"
    )
    lists_left_out: int | None = Field(
        None, description="of a service with --log-lists: lists that the disk was too slow to take"
    )
    catalogue: dict[str, Any] | None = Field(
        None, description="the table of items: its rows and columns, and how many items are listed"
    )


class AboutArms(BaseModel):
    """The models of a service with several."""

    status: str
    arms: dict[str, About] = Field(description="by name; each has its share of the users")


class Ready(BaseModel):
    """That the service takes requests."""

    status: str
    versions: dict[str, str] | None = Field(
        None, description="of a service with several models: the version of each"
    )


class Refusal(BaseModel):
    """The reason of a refusal."""

    error: str
    ids: list[Any] | None = Field(None, description="the users or items that are unknown")
    arm: str | None = Field(None, description="the model that was asked, in a service with several")
