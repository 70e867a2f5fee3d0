"""The application: questions, middleware, and the watch on the model's folder."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from fastapi import FastAPI, Response
from starlette.middleware.cors import CORSMiddleware

from mfrank._version import __version__
from mfrank.arrays import (
    check_above_zero,
    shown,
    usable_cores,
)
from mfrank.errors import InputTypeError, InputValueError
from mfrank.serving.access import Keys
from mfrank.serving.api import Questions, routes
from mfrank.serving.arms import Arms, Served
from mfrank.serving.description import SCRIPT, STYLE, Described, page
from mfrank.serving.guards import AllowedHosts, Door
from mfrank.serving.item_source import ItemSource
from mfrank.serving.limits import Limits
from mfrank.serving.live_model import LiveModel
from mfrank.serving.measures import RequestLog, measures_of_now
from mfrank.serving.refusals import add_refusals
from mfrank.serving.together import Desk
from mfrank.serving.visitors import Visitors

_ORIGIN = re.compile(r"https?://([a-z0-9_.-]+|\[[0-9a-f:.]+\])(:[0-9]+)?|\*")


def build(
    model: Served | Mapping[str, Served],
    limits: Limits,
    reload_seconds: float,
    allow_hosts: Iterable[str],
    classes: Iterable[type],
    trust: bool,
    mmap: bool,
    key_file: str | os.PathLike[str] | None,
    allow_origins: Iterable[str],
    log: str | None,
    visitors: Visitors,
    items: Any,
    items_query: str | None,
    split: Mapping[str, float] | None,
    salt: str | None,
) -> FastAPI:
    """The application of :func:`mfrank.serving.app`."""
    check_above_zero(reload_seconds=reload_seconds)
    hosts, origins = AllowedHosts(allow_hosts), _checked_origins(allow_origins)
    keys = None if key_file is None else Keys(key_file)

    if items is None and items_query is not None:
        raise InputValueError("`items_query` needs `items`,", "the URL of a database")
    source = None if items is None else ItemSource(items, items_query)

    def load(one: Served, name: str | None) -> LiveModel:
        return LiveModel(one, classes, trust, mmap, source, name)

    arms, measures = Arms(model, split, salt, load, visitors), measures_of_now()
    lines = None if log is None else RequestLog(log)

    def begin() -> None:
        arms.watch(reload_seconds)
        if lines is not None:
            lines.start()

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        begin()
        try:
            yield
        finally:
            arms.stop()
            if lines is not None:
                lines.stop()

    application = Described(
        title="mfrank",
        version=__version__,
        description="Lists, scores and explanations of recommenders.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    application.state.arms, application.state.limits = arms, limits
    application.state.live = arms.first.live
    application.state.hosts, application.state.measures = hosts, measures
    application.state.is_draining, application.state.has_keys = False, keys is not None
    application.state.keys = keys
    application.state.desk = desk = Desk(limits, usable_cores())
    described, questions = routes(desk, measures, arms, has_keys=keys is not None)
    application.include_router(described)
    add_refusals(application)

    @application.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return Response(page(application.openapi()), media_type="text/html")

    @application.get("/docs.css", include_in_schema=False)
    async def style() -> Response:
        return Response(STYLE, media_type="text/css")

    @application.get("/docs.js", include_in_schema=False)
    async def script() -> Response:
        return Response(SCRIPT, media_type="text/javascript")

    # The last one added is the outermost.
    application.add_middleware(Questions, questions=questions, limits=limits, begin=begin)
    application.add_middleware(
        Door, hosts=hosts, limits=limits, measures=measures, keys=keys, log=lines
    )
    if origins:
        application.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-Request-Id"],
            expose_headers=["Retry-After", "X-Request-Id"],
        )
    return application


def _checked_origins(origins: Iterable[str]) -> list[str]:
    """The origins of web pages that may read answers."""
    if isinstance(origins, str | bytes):
        raise InputTypeError(f"`allow_origins` must be a list of origins, got {shown(origins)}")
    listed = list(origins)
    for origin in listed:
        if not isinstance(origin, str) or not _ORIGIN.fullmatch(origin):
            raise InputValueError(
                "`allow_origins` must have origins as browsers send them, in small letters and "
                f"without a path, such as https://shop.example.com, or *, got {shown(origin)}"
            )
    return listed
