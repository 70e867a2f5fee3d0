"""The application: the routes, the middleware around them, and the watch on the model's folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

from fastapi import FastAPI, Response

from mfrank._version import __version__
from mfrank.arrays.checks import shown
from mfrank.arrays.threads import usable_cores
from mfrank.retrieval.recommender import Recommender
from mfrank.serving.api import Desk, routes
from mfrank.serving.docs_page import STYLE, page
from mfrank.serving.guards import HEADERS, Bounded, Measured, RawPaths, WithHeaders
from mfrank.serving.limits import Limits
from mfrank.serving.live_model import LiveModel
from mfrank.serving.measures import Measures
from mfrank.serving.quick_lists import QuickLists
from mfrank.serving.refusals import add_refusals
from mfrank.serving.together import Together

__all__ = ["build"]


def build(
    model: Recommender | str | os.PathLike[str], limits: Limits, reload_seconds: float
) -> FastAPI:
    """The application of :func:`mfrank.serving.app`."""
    if not reload_seconds > 0:
        raise ValueError(f"reload_seconds must be above 0, got {shown(reload_seconds)}")
    live, measures = LiveModel(model), Measures()
    # The threads ask models, each on one core; one more reads a newer model meanwhile.
    n_threads = usable_cores()
    pool = ThreadPoolExecutor(n_threads, "mfrank-answer")
    reader = ThreadPoolExecutor(1, "mfrank-reload")

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watch = asyncio.create_task(live.watch(reload_seconds, reader))
        try:
            yield
        finally:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch

    application = FastAPI(
        title="mfrank",
        version=__version__,
        description="Lists, scores and explanations of one model.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    application.state.live = live
    desk = Desk(live, limits, pool)
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
    application.add_middleware(Measured, measures=measures)
    application.add_middleware(WithHeaders, headers=HEADERS)
    application.add_middleware(RawPaths)
    application.add_middleware(
        QuickLists,
        desk=desk,
        measures=measures,
        queue=lambda: Together(live, pool, n_threads),
    )
    return application
