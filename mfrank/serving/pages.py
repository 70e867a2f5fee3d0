"""Pages of a list: a cursor names the model's version, the question and the place in its list.

What changes between two pages does not move the list: a newer model (the version is held for a
while), events that arrive, and what the pages themselves have shown.
"""

from __future__ import annotations

import base64
import json
import time
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from pydantic import BaseModel
from starlette.exceptions import HTTPException

from mfrank.errors import InputValueError
from mfrank.retrieval import Recommender
from mfrank.serving.limits import Limits
from mfrank.serving.live_model import LiveModel

_GONE = "the model of this cursor was replaced, and is held no longer: begin again without `cursor`"


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a list goes on.

    Attributes
    ----------
    of : str
        The path of the list.
    version : str
        Of the model.
    place : int
        Items before the page.
    asked : mapping
        The query, without ``offset`` and ``cursor``.
    events : int
        Number of the last event that counts.
    time : float
        When the list was begun: what was shown from then on is not left out.
    """

    of: str
    version: str
    place: int
    asked: Mapping[str, Any]
    events: int
    time: float

    def text(self) -> str:
        """For a URL."""
        plain = json.dumps(asdict(self), separators=(",", ":")).encode()
        packed = zlib.compress(plain, 9)
        return base64.urlsafe_b64encode(zlib.crc32(packed).to_bytes(4, "big") + packed).decode()

    @classmethod
    def read(cls, text: str) -> Self:
        """Read it.

        Raises
        ------
        ValueError
            It is not one of these.
        """
        try:
            whole = base64.urlsafe_b64decode(text.encode("ascii"))
            packed = whole[4:]
            if zlib.crc32(packed) != int.from_bytes(whole[:4], "big"):
                raise ValueError
            unpacking = zlib.decompressobj()
            read = cls(**json.loads(unpacking.decompress(packed, 2**20)))
            if not (read.place >= 0 and read.events >= 0 and read.time >= 0):
                raise ValueError
        except (ValueError, TypeError, zlib.error):
            raise InputValueError(
                "`cursor` is none of this service", "pass `next` of the page before as it is"
            ) from None
        return read


@dataclass(frozen=True, slots=True)
class Page:
    """The part of a list that a request asks for.

    Attributes
    ----------
    model : Recommender
    version : str
    begin : int
        Items before it.
    asked : query
        The whole question.
    events : int or None
        Number of the last event that counts; None: all.
    time : float
        When the list was begun.
    is_asked : bool
        Whether the answer has ``next``.
    """

    model: Recommender
    version: str
    begin: int
    asked: Any
    events: int | None
    time: float
    is_asked: bool

    @classmethod
    async def of(cls, live: LiveModel, of: str, asked: Any, limits: Limits) -> Self:
        """The page that a query asks for.

        Raises
        ------
        ValueError
            The cursor is of another question, or the page is too far down.
        HTTPException
            410: the version of the cursor is held no longer.
        """
        if asked.cursor is None:
            model, version = live.now
            is_asked = asked.offset is not None
            page = cls(model, version, asked.offset or 0, asked, None, time.time(), is_asked)
        else:
            page = await cls._continued(live, Cursor.read(asked.cursor), of, asked)
        last = page.begin + page.asked.n
        if page.is_asked and last > limits.max_depth:
            raise InputValueError(
                f"`offset`: pages go down to place {limits.max_depth:,} of a list, and this one to "
                f"{last:,}",
                "a service with another --max-depth goes further",
            )
        if page.is_asked:
            live.hold(page.version, limits.max_page_seconds)
        return page

    @classmethod
    async def _continued(cls, live: LiveModel, cursor: Cursor, of: str, asked: Any) -> Self:
        form: type[BaseModel] = type(asked)
        try:
            before: Any = form.model_validate(cursor.asked)
        except ValueError:
            raise InputValueError(
                "`cursor` is of another version of this service", "begin again without `cursor`"
            ) from None
        given = asked.model_fields_set - {"cursor", "n"}
        other = [name for name in sorted(given) if getattr(asked, name) != getattr(before, name)]
        if cursor.of != of or other:
            what = f"`{other[0]}`" if other else "the path"
            raise InputValueError(
                f"`cursor` goes on with another list: {what} is not what it was",
                "pass `cursor` alone, on the path of the page before",
            )
        model = await live.awaited(cursor.version)
        if model is None:
            raise HTTPException(410, _GONE.replace("`", ""))
        n = {"n": asked.n} if asked.has_n else {}
        question = before.model_copy(update=n)
        return cls(model, cursor.version, cursor.place, question, cursor.events, cursor.time, True)

    @property
    def n_above(self) -> int:
        """Items of the list to make: up to the end of the page, and one to see if more follow."""
        n: int = self.begin + self.asked.n + self.is_asked
        return n

    def part(self, items: list[Any]) -> list[Any]:
        """The items of the page."""
        return items[self.begin : self.begin + self.asked.n]

    def next(self, of: str, items: list[Any], events: int) -> str | None:
        """The cursor of the page after this one; None if the list ends."""
        place = self.begin + self.asked.n
        if len(items) <= place:
            return None
        asked = self.asked.model_dump(exclude_defaults=True, exclude={"offset", "cursor"})
        asked["n"] = self.asked.n
        return Cursor(of, self.version, place, asked, events, self.time).text()
