"""The requests to a model: their routes and the functions that answer them.

FastAPI describes them, and answers all other requests: other paths, wrong methods, /docs. Its own
routing takes longer than a user's list, so requests to the model bypass it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache, partial
from typing import Annotated, Any, NamedTuple, get_type_hints
from urllib.parse import unquote

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

from mfrank.retrieval import Recommender
from mfrank.serving.answer_forms import (
    About,
    AboutArms,
    Explained,
    ItemList,
    Ready,
    Refusal,
    RolledBack,
    UserList,
    UserLists,
)
from mfrank.serving.answers import (
    dump,
    excluded,
    explanation,
    from_url,
    one_from_url,
    only_items,
    similar,
    told,
)
from mfrank.serving.arms import Arm, Arms
from mfrank.serving.batches import batch_answer, charge
from mfrank.serving.event_forms import (
    EventsTaken,
    read_events,
)
from mfrank.serving.limits import Limits
from mfrank.serving.measures import AnyMeasures
from mfrank.serving.pages import Page
from mfrank.serving.questions import (
    LengthQuery,
    ListQuery,
    NoQuery,
    Of,
    ScoreQuery,
    SimilarQuery,
    check_json_type,
    read_batch,
    read_query,
    read_rollback,
)
from mfrank.serving.refusals import refusal, refused
from mfrank.serving.together import Desk, lists, options_of

_REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Refusal, "description": "The service does not answer for this host."},
    401: {"model": Refusal, "description": "The service asks for a key."},
    403: {"model": Refusal, "description": "The key may not do this."},
    404: {"model": Refusal, "description": "A user or an item is unknown."},
    413: {"model": Refusal, "description": "The body is too large."},
    422: {"model": Refusal, "description": "A parameter is wrong, unknown, or given twice."},
    429: {"model": Refusal, "description": "The key's requests a second are used up."},
    500: {"model": Refusal, "description": "The request failed inside; the log says why."},
    501: {"model": Refusal, "description": "This kind of model has no such answer."},
    503: {"model": Refusal, "description": "Too many requests, or it took too long."},
}
_NO_JSON: dict[int | str, dict[str, Any]] = {
    415: {"model": Refusal, "description": "The body is not said to be JSON in UTF-8."}
}
_GONE: dict[int | str, dict[str, Any]] = {
    410: {"model": Refusal, "description": "The model of the cursor is held no longer."}
}
_NO_EARLIER: dict[int | str, dict[str, Any]] = {
    409: {"model": Refusal, "description": "This is not the version, or none before it is kept."}
}
_CONFLICT: dict[int | str, dict[str, Any]] = {
    409: {"model": Refusal, "description": "An event has the id of another one."}
}


def _body(*names: str) -> dict[str, Any]:
    """The description of a body that is one of these."""
    schemas = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


_MOST_REMEMBERED, _LONGEST_REMEMBERED = 256, 100
"""Queries, and bytes of one: most are the same few, such as ``n=20``, and reading one takes longer
than the rest of the way."""

_Function = Callable[..., Awaitable[bytes]]
_Shape = tuple[str, str, int]
"""Of a request: its method, the first part of its path, and how many ids follow."""


class Question(NamedTuple):
    """A path as FastAPI describes it, the function that answers, and what its query may have."""

    path: str
    answer: _Function
    form: type[BaseModel]


class Questions:
    """Answers the questions in the place of an application, which has all other requests.

    The first call calls ``begin``: where the application is mounted in another one, nothing tells
    it that the service starts.
    """

    def __init__(
        self,
        app: ASGIApp,
        questions: Mapping[_Shape, Question],
        limits: Limits,
        begin: Callable[[], None],
    ) -> None:
        self.app, self.questions = app, questions
        self._read = partial(read_query, limits=limits)
        self._remembered = lru_cache(_MOST_REMEMBERED)(self._read)
        self._begin: Callable[[], None] | None = begin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if self._begin is not None:
            self._begin()
            self._begin = None
        found = self._found(scope) if scope["type"] == "http" else None
        if found is None:
            await self.app(scope, receive, send)
            return
        question, ids = found
        scope["route"] = question  # for its measures
        try:
            query = scope["query_string"]
            read = self._remembered if len(query) <= _LONGEST_REMEMBERED else self._read
            asked = read(query, question.form)
            request = Request(scope, receive)
            content = await question.answer(request, *map(unquote, ids), asked=asked)
        except Exception as error:
            arms = scope.get("arms", {})
            stated = {"arm": next(iter(arms))} if len(arms) == 1 else {}
            await refused(error, **stated)(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": _headers(content)})
        await send({"type": "http.response.body", "body": content})

    def _found(self, scope: Scope) -> tuple[Question, list[str]] | None:
        """The question of a request, and the ids in its path, quoted."""
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        before, *parts = path.split("/")
        if before or not (parts and all(parts)):
            return None
        name, *ids = parts
        question = self.questions.get((scope["method"], name, len(ids)))
        return None if question is None else (question, ids)


def _headers(content: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"content-length", b"%d" % len(content)), (b"content-type", b"application/json")]


def routes(
    desk: Desk, measures: AnyMeasures, arms: Arms, *, has_keys: bool
) -> tuple[APIRouter, dict[_Shape, Question]]:
    """What FastAPI describes, and the questions among it."""
    router = APIRouter(responses=_REFUSALS)
    questions: dict[_Shape, Question] = {}

    def question(
        method: str, path: str, answer: type[BaseModel], **more: Any
    ) -> Callable[[_Function], None]:
        def add(function: _Function) -> None:
            responses = {200: {"model": answer}, **more.pop("responses", {})}
            described: dict[str, Any] = {"methods": [method], "response_model": None, **more}
            router.add_api_route(path, function, responses=responses, **described)
            _, name, *ids = path.split("/")
            form = get_type_hints(function)["asked"]
            questions[method, name, len(ids)] = Question(path, function, form)

        return add

    @question("GET", "/recommend/{user}", UserList, responses=_GONE)
    async def recommend(request: Request, user: Of, asked: Annotated[ListQuery, Query()]) -> bytes:
        """Best items of a user, without seen items."""
        arm = arms.of(request, user, asked)
        live, visitors = arm.live, arm.visitors
        concerned = visitors.concern(user, live.current, remember=asked.remember)
        if concerned or asked.is_page:
            of = f"/recommend/{user}"
            page = await Page.of(live, of, asked, desk.limits)

            def paged() -> Any:
                model, query = page.model, page.asked
                charge(desk.limits, model, 1, page.n_above, query.diversity)
                table = live.items_of(model)
                source = arm.source(request, page.version)
                answer = visitors.page(page, user, of, options_of(model, query, table), source)
                items = told(table, query.fields, answer["items"])
                return {**answer, "items": items, **live.stated(page.version)}

            return await desk.ask(request, paged, is_long=page.asked.diversity > 0)
        if not asked.diversity:
            return await desk.list_of(live, user, asked)

        def diverse() -> bytes:
            model, version = live.now
            charge(desk.limits, model, 1, asked.n, asked.diversity)
            end = live.stated_bytes(version)
            return lists(model, [user], asked, live.items_of(model), end)[0]

        return await desk.ask(request, diverse, is_long=True)

    @question("POST", "/recommend", UserLists, responses=_NO_JSON, openapi_extra=_body("Batch"))
    async def recommend_batch(request: Request, asked: Annotated[NoQuery, Query()]) -> bytes:
        """Best items of many users, or of a new user who likes ``from_items``."""
        body = await request.body()
        check_json_type(request.headers)

        def batched() -> Any:
            return batch_answer(request, arms, read_batch(body, desk.limits), desk.limits)

        return await desk.ask(request, batched, is_long=True)

    @question("GET", "/similar/{item}", ItemList, responses=_GONE)
    async def similar_items(
        request: Request, item: Of, asked: Annotated[SimilarQuery, Query()]
    ) -> bytes:
        """The items nearest to an item."""
        path = f"/similar/{item}"
        live = arms.of(request, asked.visitor, asked).live
        page = await Page.of(live, path, asked, desk.limits)

        def nearest() -> Any:
            model, of = page.model, one_from_url(item, page.model.item_ids)
            table, query = live.items_of(model), page.asked
            others = from_url(query.exclude or (), model.item_ids, "skip")
            only = only_items(table, query.where, query.fields, None)
            found = similar(model, of, page.n_above, excluded(others, model.item_ids), only)
            following = {"next": page.next(path, found, 0)} if page.is_asked else {}
            items = told(table, query.fields, page.part(found))
            return {"item": of, "items": items, **following, **live.stated(page.version)}

        return await desk.ask(request, nearest)

    @question("GET", "/score/{user}", UserList)
    async def score(request: Request, user: Of, asked: Annotated[ScoreQuery, Query()]) -> bytes:
        """A user's scores of some items, in the order of the items."""

        def scored(model: Recommender) -> Any:
            of = one_from_url(user, model.user_ids)
            items = from_url(asked.item, model.item_ids)
            pairs = zip(items, model.score([of] * len(items), items).tolist(), strict=True)
            return {"user": of, "items": [{"id": each, "score": s} for each, s in pairs]}

        return await desk.ask(request, arms.of(request, user, asked).answering(scored))

    @question("GET", "/explain/{user}/{item}", Explained)
    async def explain(
        request: Request, user: Of, item: Of, asked: Annotated[LengthQuery, Query()]
    ) -> bytes:
        """Explanation of a user's score of an item."""

        def explained(model: Recommender) -> Any:
            who = one_from_url(user, model.user_ids)
            what = one_from_url(item, model.item_ids)
            return {"user": who, "item": what, **explanation(model, who, what, asked.n)}

        return await desk.ask(request, arms.of(request, user, asked).answering(explained))

    if arms.first.visitors.journal is not None:
        more = {"responses": {**_NO_JSON, **_CONFLICT}}

        @question(
            "POST", "/events", EventsTaken, openapi_extra=_body("EventBatch", "OneEvent"), **more
        )
        async def events(request: Request, asked: Annotated[NoQuery, Query()]) -> bytes:
            """Take what users did: the answer comes when all events are on the disk."""
            body = await request.body()
            check_json_type(request.headers)
            given = read_events(body, desk.limits)
            models = [arm.live.current for arm in arms]
            answer = await desk.write(lambda: arms.first.visitors.take(models, given))
            for arm in arms:
                if arm.visitors.fresh is not None:
                    arm.visitors.fresh.look()
            return dump(answer)

    if has_keys:  # else anybody who reaches the service could

        @question(
            "POST",
            "/rollback",
            RolledBack,
            responses={**_NO_JSON, **_NO_EARLIER},
            openapi_extra=_body("Rollback"),
        )
        async def rollback(request: Request, asked: Annotated[NoQuery, Query()]) -> bytes:
            """Replace a model by the version before it, in its folder and here."""
            body = await request.body()
            check_json_type(request.headers)
            which = read_rollback(body)
            return await desk.ask(request, lambda: arms.roll_back(which.version), is_long=True)

    @router.get("/health", responses={200: {"model": AboutArms if arms.are_named else About}})
    async def health() -> Response:
        """The model that answers now; of several, each by its name."""
        about = {str(arm.name): _about(arm) for arm in arms}
        told = {"status": "ok", "arms": about} if arms.are_named else about["None"]
        return Response(dump(told), media_type="application/json")

    @router.get("/ready", responses={200: {"model": Ready}})
    async def ready(request: Request) -> Response:
        """Whether to send requests here: 503 once the service has been told to end."""
        if request.app.state.is_draining:
            return refusal(503, "the service is being stopped")
        versions = {str(arm.name): arm.live.version for arm in arms}
        told = {"versions": versions} if arms.are_named else {}
        return Response(dump({"status": "ready", **told}), media_type="application/json")

    @router.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Counts and times in the text format of Prometheus."""
        text = measures.text(*(arm.live for arm in arms))
        return Response(text, media_type="text/plain; version=0.0.4")

    return router, questions


def _about(arm: Arm) -> dict[str, Any]:
    """What /health says of a model."""
    live = arm.live
    model, version = live.now
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
        "version": version,
        **({} if arm.name is None else {"share": arm.share}),
        **arm.visitors.health(model),
    }
    if live.catalogue is not None:
        about["catalogue"] = live.catalogue.about(model.item_ids)
    return about
