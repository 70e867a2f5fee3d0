"""The routes of the service: each takes the model that answers now, and asks it in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from fastapi import APIRouter, Response
from starlette.exceptions import HTTPException

from mfrank.retrieval.recommender import Recommender
from mfrank.serving.answers import (
    dump,
    explanation,
    from_items,
    known_of,
    listed,
    similar,
    steered,
)
from mfrank.serving.limits import Limits
from mfrank.serving.live_model import LiveModel
from mfrank.serving.measures import Measures
from mfrank.serving.questions import (
    About,
    Asked,
    Batch,
    Diversity,
    Explained,
    ItemList,
    Length,
    Lists,
    Of,
    Penalty,
    Refusal,
    Seen,
    Some,
    UserList,
)
from mfrank.serving.written import batch, user_lists

__all__ = ["Desk", "routes"]

_REFUSALS: dict[int | str, dict[str, Any]] = {
    404: {"model": Refusal, "description": "A user or an item is unknown."},
    413: {"model": Refusal, "description": "The body is too large."},
    422: {"model": Refusal, "description": "A parameter is wrong."},
    501: {"model": Refusal, "description": "This kind of model has no such answer."},
    503: {"model": Refusal, "description": "Too many requests, or it took too long."},
}


@dataclass(slots=True)
class Desk:
    """Where requests wait for a thread that asks the model."""

    live: LiveModel
    limits: Limits
    pool: ThreadPoolExecutor
    waiting: int = 0

    async def ask(self, question: Callable[[Recommender], Any]) -> Response:
        """The answer of the model that is current when a thread takes the question.

        It is JSON, if the question returns bytes, or becomes JSON.
        """
        with self.place():
            loop = asyncio.get_running_loop()
            content = await loop.run_in_executor(self.pool, self._answered, question)
        return Response(content, media_type="application/json")

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take a place among the requests that wait, if there is one."""
        if self.waiting >= self.limits.max_waiting:
            raise HTTPException(503, "too many requests are waiting; try again later")
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    def check(self, n: int, *lists: Any) -> None:
        """Refuse what is longer than the limits."""
        if n > self.limits.max_n:
            raise ValueError(f"n must be at most {self.limits.max_n}, got {n}")
        for each in lists:
            if each is not None and _size(each) > self.limits.max_batch:
                raise ValueError(
                    f"a request may have at most {self.limits.max_batch} ids in a list"
                )

    def _answered(self, question: Callable[[Recommender], Any]) -> bytes:
        answer = question(self.live.current)
        return answer if isinstance(answer, bytes) else dump(answer)


def routes(desk: Desk, measures: Measures) -> APIRouter:
    """The routes that answer from the desk's model."""
    router = APIRouter(responses=_REFUSALS)

    @router.get("/recommend/{user}", responses={200: {"model": UserList}})
    async def recommend(
        user: Of,
        n: Length = 10,
        filter_items: Some = None,
        items: Some = None,
        include_seen: Seen = False,
        diversity: Diversity = 0,
        popularity_penalty: Penalty = 0,
    ) -> Response:
        """Best items of a user, without what they have."""
        desk.check(n, filter_items, items)

        def question(model: Recommender) -> Any:
            asked = known_of([unquote(user)], model.user_ids)[0]
            blocked, only = (
                known_of(each, model.item_ids) if each is not None else None
                for each in (filter_items, items)
            )
            found = listed(
                model,
                [asked],
                n,
                include_seen=include_seen,
                filter_items=blocked,
                items=only,
                steer=steered(diversity=diversity, popularity_penalty=popularity_penalty),
            )
            return user_lists([asked], found)[0]

        return await desk.ask(question)

    @router.post("/recommend", responses={200: {"model": Lists}})
    async def recommend_batch(asked: Batch) -> Response:
        """Best items of many users, or of somebody new who likes ``from_items``."""
        if (asked.users is None) == (asked.from_items is None):
            raise ValueError("the body must have either users or from_items")
        if asked.weights is not None and asked.from_items is None:
            raise ValueError("weights go with from_items")
        if asked.include_seen and asked.users is None:
            raise ValueError("include_seen goes with users; somebody new has from_items only")
        desk.check(asked.n, asked.users, asked.from_items, asked.filter_items, asked.items)
        desk.check(1, list(asked.boosts))

        def question(model: Recommender) -> Any:
            boosted = known_of(list(asked.boosts), model.item_ids) if asked.boosts else []
            steer = steered(
                boosts=dict(zip(boosted, asked.boosts.values(), strict=True)),
                diversity=asked.diversity,
                popularity_penalty=asked.popularity_penalty,
            )
            more: dict[str, Any] = {
                "filter_items": asked.filter_items,
                "items": asked.items,
                "on_unknown": asked.on_unknown,
                "steer": steer,
            }
            if asked.from_items is not None:
                found = from_items(model, asked.from_items, asked.n, weights=asked.weights, **more)
                return {"lists": [{"user": None, "items": found}]}
            users, more["include_seen"] = asked.users or [], asked.include_seen
            if not users:
                return {"lists": []}
            return batch(users, listed(model, users, asked.n, **more))

        return await desk.ask(question)

    @router.get("/similar/{item}", responses={200: {"model": ItemList}})
    async def similar_items(item: Of, n: Length = 10) -> Response:
        """The items nearest to an item."""
        desk.check(n)

        def question(model: Recommender) -> Any:
            asked = known_of([unquote(item)], model.item_ids)[0]
            return {"item": asked, "items": similar(model, asked, n)}

        return await desk.ask(question)

    @router.get("/score/{user}", responses={200: {"model": UserList}})
    async def score(user: Of, item: Asked) -> Response:
        """A user's scores of some items, in their order."""
        desk.check(1, item)

        def question(model: Recommender) -> Any:
            asked = known_of([unquote(user)], model.user_ids)[0]
            items = known_of(item, model.item_ids)
            scores = model.score([asked] * len(items), items).tolist()
            pairs = zip(items, scores, strict=True)
            return {"user": asked, "items": [{"id": each, "score": s} for each, s in pairs]}

        return await desk.ask(question)

    @router.get("/explain/{user}/{item}", responses={200: {"model": Explained}})
    async def explain(user: Of, item: Of, n: Length = 10) -> Response:
        """Why a user's score of an item is what it is."""
        desk.check(n)

        def question(model: Recommender) -> Any:
            who = known_of([unquote(user)], model.user_ids)[0]
            what = known_of([unquote(item)], model.item_ids)[0]
            return {"user": who, "item": what, **explanation(model, who, what, n)}

        return await desk.ask(question)

    @router.get("/health", responses={200: {"model": About}})
    async def health() -> Response:
        """The model that answers now."""
        live, model = desk.live, desk.live.current
        about = {
            "status": "ok",
            "model": model.store.fitter["name"],
            "users": len(model.user_ids),
            "items": len(model.item_ids),
            "loaded": live.since,
            "reloads": live.loads,
        }
        return Response(dump(about), media_type="application/json")

    @router.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Counts and times in the text format of Prometheus."""
        return Response(measures.text(desk.live), media_type="text/plain; version=0.0.4")

    return router


def _size(ids: Any) -> int:
    return sum(len(each) if isinstance(each, list) else 1 for each in ids)
