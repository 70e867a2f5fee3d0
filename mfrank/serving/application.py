"""The application: the routes, the middleware around them, and the watch on the model's folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastapi import FastAPI, Response

from mfrank._version import __version__
from mfrank.arrays.checks import check_above_zero
from mfrank.arrays.threads import usable_cores
from mfrank.retrieval.recommender import Recommender
from mfrank.serving.api import Desk, routes
from mfrank.serving.docs_page import STYLE, page
from mfrank.serving.guards import (
    HEADERS,
    AllowedHosts,
    Bounded,
    Heads,
    Hosts,
    Measured,
    RawPaths,
    WithHeaders,
)
from mfrank.serving.limits import Limits
from mfrank.serving.live_model import LiveModel
from mfrank.serving.measures import Measures
from mfrank.serving.questions import Batch
from mfrank.serving.quick_lists import QuickLists
from mfrank.serving.refusals import add_refusals
from mfrank.serving.together import Together

__all__ = ["build"]


def build(
    model: Recommender | str | os.PathLike[str],
    limits: Limits,
    reload_seconds: float,
    allow_hosts: Iterable[str],
    classes: Iterable[type],
    trust: bool,
) -> FastAPI:
    """The application of :func:`mfrank.serving.app`."""
    check_above_zero(reload_seconds=reload_seconds)
    hosts = AllowedHosts(allow_hosts)
    live, measures = LiveModel(model, classes, trust), Measures()
    # Each thread asks the model on one core. Long requests share the cores with the short ones,
    # which never wait for a thread that a long one has.
    n_threads = usable_cores()
    pool = ThreadPoolExecutor(n_threads, "mfrank-answer")
    long_pool = ThreadPoolExecutor(n_threads, "mfrank-long-answer")

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        live.watch(reload_seconds)
        try:
            yield
        finally:
            live.stop()

    application = _Described(
        title="mfrank",
        version=__version__,
        description="Lists, scores and explanations of one model.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    application.state.live, application.state.limits = live, limits
    application.state.hosts = hosts
    application.state.desk = desk = Desk(live, limits, pool, long_pool)
    application.include_router(routes(desk, measures))
    add_refusals(application)

    @application.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return Response(page(application.openapi()), media_type="text/html")

    @application.get("/docs.css", include_in_schema=False)
    async def style() -> Response:
        return Response(STYLE, media_type="text/css")

    # The last one added is the outermost.
    application.add_middleware(Bounded, limits=limits)
    application.add_middleware(Heads)
    application.add_middleware(Measured, measures=measures)
    application.add_middleware(WithHeaders, headers=HEADERS)
    application.add_middleware(RawPaths)
    application.add_middleware(
        QuickLists,
        desk=desk,
        measures=measures,
        queue=lambda: Together(live, pool, n_threads),
        begin=lambda: live.watch(reload_seconds),
    )
    application.add_middleware(Hosts, allowed=hosts)
    return application


class _Described(FastAPI):
    """An application whose description has the limits of this service, and what a body may have."""

    def openapi(self) -> dict[str, Any]:
        """The description; made once."""
        if self.openapi_schema is None:
            described, limits = super().openapi(), self.state.limits
            batch = Batch.model_json_schema()
            described["components"]["schemas"]["Batch"] = batch
            batch["properties"]["n"]["default"] = limits.usual_n
            parts = [batch["properties"]]
            for methods in described["paths"].values():
                for route in methods.values():
                    given = route.get("parameters", ())
                    parts.append({each["name"]: each["schema"] for each in given})
            for part in parts:
                for name, schema in part.items():
                    _bound(schema, {"n": {"maximum": limits.max_n}}.get(name, {}), limits)
        return super().openapi()


def _bound(schema: dict[str, Any], more: dict[str, Any], limits: Limits) -> None:
    """Write limits into the description of a parameter."""
    schema.update(more)
    for each in schema.get("anyOf", ()):
        _bound(each, {}, limits)
    if schema.get("type") == "array":
        schema["maxItems"] = limits.max_batch
        _bound(schema["items"], {}, limits)
    if schema.get("type") == "object":
        schema["maxProperties"] = limits.max_batch
