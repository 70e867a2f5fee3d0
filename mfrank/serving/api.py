"""The routes of the service: each takes the model that answers now, and asks it in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Request, Response
from starlette.exceptions import HTTPException

from mfrank.arrays import OutOfTimeError
from mfrank.retrieval import Recommender
from mfrank.serving.answers import (
    as_given,
    batch,
    dump,
    explanation,
    from_items,
    from_url,
    known_of,
    listed,
    listed_in_portions,
    numbered,
    similar,
    steered,
    user_lists,
)
from mfrank.serving.limits import Limits, Measures, in_time
from mfrank.serving.live_model import LiveModel
from mfrank.serving.questions import (
    About,
    Asked,
    Batch,
    Diversity,
    Explained,
    Instead,
    ItemList,
    Length,
    Of,
    Penalty,
    Refusal,
    Seen,
    Some,
    Unknown,
    UserList,
    UserLists,
    check_json_type,
    check_query,
    read_batch,
)
from mfrank.serving.refusals import too_late

_REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Refusal, "description": "The service does not answer for this host."},
    404: {"model": Refusal, "description": "A user or an item is unknown."},
    413: {"model": Refusal, "description": "The body is too large."},
    422: {"model": Refusal, "description": "A parameter is wrong, unknown, or given twice."},
    500: {"model": Refusal, "description": "The request failed inside; the log says why."},
    501: {"model": Refusal, "description": "This kind of model has no such answer."},
    503: {"model": Refusal, "description": "Too many requests, or it took too long."},
}
_NO_JSON: dict[int | str, dict[str, Any]] = {
    415: {"model": Refusal, "description": "The body is not said to be JSON in UTF-8."}
}
_BATCH = {"$ref": "#/components/schemas/Batch"}
_BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": _BATCH}}}}


@dataclass(slots=True)
class Desk:
    """Where requests wait for a thread that asks the model.

    Requests that may take long, such as batches, have threads of their own: the others do not wait
    for them.
    """

    live: LiveModel
    limits: Limits
    pool: ThreadPoolExecutor
    long_pool: ThreadPoolExecutor
    waiting: int = 0
    waiting_long: int = 0

    async def ask(
        self, request: Request, question: Callable[[Recommender], Any], *, is_long: bool = False
    ) -> Response:
        """The answer of the model that is current when a thread takes the question.

        It is JSON, if the question returns bytes, or becomes JSON. When nobody waits for the answer
        anymore, because it is too late or the client has gone, the thread gives up at its next
        :func:`mfrank.arrays.work.check_time`.
        """
        nobody_waits = threading.Event()
        with self.place(is_long=is_long):
            pool = self.long_pool if is_long else self.pool
            answer = asyncio.get_running_loop().run_in_executor(
                pool, self._answered, question, nobody_waits
            )
            try:
                content = await (_unless_gone(answer, request) if is_long else answer)
            finally:
                nobody_waits.set()
        return Response(content, media_type="application/json")

    @contextmanager
    def place(self, *, is_long: bool = False) -> Iterator[None]:
        """Take a place among the requests that wait, if there is one; long ones have half."""
        most, long_ones = self.limits.max_waiting, int(is_long)
        if self.waiting >= most or (is_long and 2 * self.waiting_long >= most):
            raise HTTPException(503, "too many requests are waiting; try again later")
        self.waiting += 1
        self.waiting_long += long_ones
        try:
            yield
        finally:
            self.waiting -= 1
            self.waiting_long -= long_ones

    def check(self, n: int) -> None:
        """Refuse longer lists than the limits have."""
        if n > self.limits.max_n:
            raise ValueError(
                f"n must be at most {self.limits.max_n}, got {n}; a service with another --max-n "
                "has longer lists"
            )

    def charge(self, model: Recommender, users: int, n: int, diversity: float) -> None:
        """Refuse steered lists that would take too long to choose."""
        n, most = min(n, len(model.item_ids)), self.limits.max_steered
        if diversity and users * n * n > most:
            raise ValueError(
                f"diversity: {users} users x n={n} x n must be at most {most:,}; ask for fewer "
                "users or a smaller n, or serve with a larger --max-steered"
            )

    def _answered(
        self, question: Callable[[Recommender], Any], nobody_waits: threading.Event
    ) -> bytes:
        try:
            answer = in_time(
                lambda: question(self.live.current), self.limits.max_seconds, nobody_waits
            )
        except OutOfTimeError:
            raise too_late(self.limits.max_seconds) from None
        return answer if isinstance(answer, bytes) else dump(answer)


async def _unless_gone(answer: asyncio.Future[bytes], request: Request) -> bytes:
    """The answer, unless the client goes away before."""
    leaving = asyncio.ensure_future(_left(request))
    leaving.add_done_callback(lambda _: answer.cancel())
    try:
        return await answer
    except asyncio.CancelledError:
        if not leaving.done():  # it is this request that is cancelled
            raise
        raise HTTPException(503, "the client has gone") from None
    finally:
        leaving.cancel()


async def _left(request: Request) -> None:
    """Wait until the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def routes(desk: Desk, measures: Measures) -> APIRouter:
    """The routes that answer from the desk's model."""
    router = APIRouter(responses=_REFUSALS)
    usual_n = desk.limits.usual_n
    checked = [Depends(check_query)]

    @router.get("/recommend/{user}", responses={200: {"model": UserList}}, dependencies=checked)
    async def recommend(
        request: Request,
        user: Of,
        n: Length = usual_n,
        filter_items: Some = None,
        items: Some = None,
        include_seen: Seen = False,
        fallback: Instead = "none",
        diversity: Diversity = 0,
        popularity_penalty: Penalty = 0,
        on_unknown: Unknown = "error",
    ) -> Response:
        """Best items of a user, without what they have."""
        desk.check(n)

        def question(model: Recommender) -> Any:
            desk.charge(model, 1, n, diversity)
            blocked, only = (
                None if each is None else from_url(each, model.item_ids, on_unknown)
                for each in (filter_items, items)
            )
            found = listed(
                model,
                from_url([unquote(user)], model.user_ids, on_unknown),
                n,
                include_seen=include_seen,
                filter_items=blocked,
                items=only,
                on_unknown=on_unknown,
                fallback=fallback,
                steer=steered(diversity=diversity, popularity_penalty=popularity_penalty),
            )
            return user_lists(as_given([unquote(user)], model.user_ids), found)[0]

        return await desk.ask(request, question, is_long=diversity > 0)

    @router.post(
        "/recommend",
        responses={200: {"model": UserLists}, **_NO_JSON},
        openapi_extra=_BODY,
    )
    async def recommend_batch(request: Request) -> Response:
        """Best items of many users, or of somebody new who likes ``from_items``."""
        await check_query(request)
        body = await request.body()
        check_json_type(request.headers)

        def question(model: Recommender) -> Any:
            return _batch_answer(desk, model, read_batch(body, desk.limits))

        return await desk.ask(request, question, is_long=True)

    @router.get("/similar/{item}", responses={200: {"model": ItemList}}, dependencies=checked)
    async def similar_items(request: Request, item: Of, n: Length = usual_n) -> Response:
        """The items nearest to an item."""
        desk.check(n)

        def question(model: Recommender) -> Any:
            asked = known_of([unquote(item)], model.item_ids)[0]
            return {"item": asked, "items": similar(model, asked, n)}

        return await desk.ask(request, question)

    @router.get("/score/{user}", responses={200: {"model": UserList}}, dependencies=checked)
    async def score(request: Request, user: Of, item: Asked) -> Response:
        """A user's scores of some items, in their order."""

        def question(model: Recommender) -> Any:
            asked = known_of([unquote(user)], model.user_ids)[0]
            items = known_of(item, model.item_ids)
            scores = model.score([asked] * len(items), items).tolist()
            pairs = zip(items, scores, strict=True)
            return {"user": asked, "items": [{"id": each, "score": s} for each, s in pairs]}

        return await desk.ask(request, question)

    @router.get(
        "/explain/{user}/{item}", responses={200: {"model": Explained}}, dependencies=checked
    )
    async def explain(request: Request, user: Of, item: Of, n: Length = usual_n) -> Response:
        """Why a user's score of an item is what it is."""
        desk.check(n)

        def question(model: Recommender) -> Any:
            who = known_of([unquote(user)], model.user_ids)[0]
            what = known_of([unquote(item)], model.item_ids)[0]
            return {"user": who, "item": what, **explanation(model, who, what, n)}

        return await desk.ask(request, question)

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
            "failed_reloads": live.failures,
            "reload_error": live.error,
            "watched": live.is_watched,
        }
        return Response(dump(about), media_type="application/json")

    @router.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Counts and times in the text format of Prometheus."""
        return Response(measures.text(desk.live), media_type="text/plain; version=0.0.4")

    return router


def _batch_answer(desk: Desk, model: Recommender, asked: Batch) -> Any:
    """The answer to POST /recommend."""
    if (asked.users is None) == (asked.from_items is None):
        raise ValueError("the body must have either users or from_items")
    if asked.weights is not None and asked.from_items is None:
        raise ValueError("weights go with from_items")
    if asked.include_seen and asked.users is None:
        raise ValueError("include_seen goes with users; somebody new has from_items only")
    desk.check(asked.n)
    desk.charge(model, 1 if asked.users is None else len(asked.users), asked.n, asked.diversity)
    of_items, skip = model.item_ids, asked.on_unknown
    boosted = from_url(list(asked.boosts), of_items, skip)
    more: dict[str, Any] = {
        "filter_items": numbered(asked.filter_items, of_items),
        "items": numbered(asked.items, of_items),
        "on_unknown": skip,
        "fallback": asked.fallback,
        "steer": steered(
            boosts=dict(zip(boosted, asked.boosts.values(), strict=True)),
            diversity=asked.diversity,
            popularity_penalty=asked.popularity_penalty,
        ),
    }
    if asked.from_items is not None:
        liked = numbered(asked.from_items, of_items)
        found = from_items(model, liked, asked.n, weights=asked.weights, **more)
        return {"lists": [{"user": None, "items": found}]}
    if not asked.users:
        return {"lists": []}
    rows = numbered(asked.users, model.user_ids)
    lists = listed_in_portions(model, rows, asked.n, include_seen=asked.include_seen, **more)
    return batch(asked.users, lists)
