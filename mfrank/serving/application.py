"""The application: questions, middleware, the watch on the model's folder, and running it."""

from __future__ import annotations

import contextlib
import ipaddress
import math
import os
import re
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI, Response
from starlette.datastructures import State
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from mfrank._version import __version__
from mfrank.arrays import (
    check_above_zero,
    check_at_least_zero,
    check_count,
    shown,
    single_threaded,
    usable_cores,
)
from mfrank.errors import InputTypeError, InputValueError
from mfrank.serving.access import Keys
from mfrank.serving.api import Questions, routes
from mfrank.serving.arms import Arms, Served
from mfrank.serving.connections import LimitedConnection
from mfrank.serving.description import Described
from mfrank.serving.docs_page import SCRIPT, STYLE, page
from mfrank.serving.guards import AllowedHosts, Door, Hosts
from mfrank.serving.item_source import ItemSource
from mfrank.serving.limits import Limits
from mfrank.serving.live_model import LiveModel
from mfrank.serving.measures import SharedMeasures, measures_of_now
from mfrank.serving.refusals import add_refusals
from mfrank.serving.request_log import RequestLog
from mfrank.serving.signals import handled
from mfrank.serving.together import Desk
from mfrank.serving.visitors import Visitors
from mfrank.serving.workers import several

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


# Runs an application with uvicorn, until it is told to stop.


_GRACE = 10
"""Seconds in which requests that have begun may end."""
_BACKLOG = 2048
_MOST_WORKERS = 256
_ROOT_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")


def serve(
    application: FastAPI | Callable[[], FastAPI],
    host: str,
    port: int,
    root_path: str,
    drain_seconds: float,
    workers: int,
) -> None:
    """What :func:`mfrank.serving.run` does."""
    check_count("workers", workers, 1, _MOST_WORKERS)
    if not 0 <= port < 2**16:
        raise InputValueError(f"`port` must be a whole number from 0 to 65535, got {port}")
    if not _ROOT_PATH.fullmatch(root_path):
        raise InputValueError(
            "`root_path` must be a path such as /recommender, without a slash at its end, "
            f"got {shown(root_path)}"
        )
    check_at_least_zero(drain_seconds=drain_seconds)
    how: dict[str, Any] = {"host": host, "root_path": root_path, "drain_seconds": drain_seconds}
    if workers > 1:
        if isinstance(application, FastAPI):
            raise InputTypeError(
                "`application` must be a function that makes one, for `workers` above 1",
                "pass functools.partial(mfrank.serving.app, model)",
            )
        with _bound(host, port) as place:
            answer: Any = partial(_answer, place=place, **how)
            several(application, answer, workers, place, partial(_announce, place))
        return
    made = application if isinstance(application, FastAPI) else application()
    with handled(getattr(made.state, "arms", None)), _bound(host, port) as place:
        place.listen(_BACKLOG)
        _announce(place)
        _answer(made, place=place, **how)


def _announce(place: socket.socket) -> None:
    bound_host, bound_port = place.getsockname()[:2]
    address = f"[{bound_host}]" if ":" in bound_host else bound_host
    print(f"http://{address}:{bound_port}/ (Ctrl-C stops it)", flush=True)


def _answer(
    application: FastAPI,
    begun: Callable[[], None] = lambda: None,
    *,
    place: socket.socket,
    host: str,
    root_path: str,
    drain_seconds: float,
) -> None:
    """Answer at a socket until the process is told to end; ``begun`` is called when it does."""
    config = configured(application, host, root_path)
    with handled(getattr(application.state, "arms", None)), single_threaded():
        # There is a thread for each core that answers.
        _Server(config, application.state, drain_seconds, begun).run(sockets=[place])


class _Server(uvicorn.Server):
    """uvicorn's server, which on SIGTERM first lets ``/ready`` say that it ends."""

    def __init__(
        self,
        config: uvicorn.Config,
        state: State,
        drain_seconds: float,
        begun: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._state, self._drain_seconds, self._begun = state, drain_seconds, begun
        self._end = math.inf

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and say so."""
        await super().startup(sockets)
        self._begun()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End, but on the first SIGTERM after a while."""
        is_first = self._end == math.inf
        self._state.is_draining = True
        if sig == signal.SIGTERM and is_first and self._drain_seconds:
            self._end = time.monotonic() + self._drain_seconds
        else:
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """End when the while is over; uvicorn asks ten times a second."""
        measures = getattr(self._state, "measures", None)
        if counter % 10 == 0 and isinstance(measures, SharedMeasures):
            measures.note(*(arm.live for arm in self._state.arms))
        if not self.should_exit and time.monotonic() >= self._end:
            super().handle_exit(signal.SIGTERM, None)
        return await super().on_tick(counter)


def configured(application: FastAPI, host: str, root_path: str = "") -> uvicorn.Config:
    """How uvicorn runs an application of this package, or another one."""
    state: Any = application.state
    outer: ASGIApp = application
    limits = getattr(state, "limits", None) or Limits()
    if _is_loopback(host):
        hosts = getattr(state, "hosts", None)
        if hosts is None:
            hosts = AllowedHosts()
            outer = Hosts(application, hosts)
        own = f"[{host}]" if ":" in host else host
        hosts.add([own, "localhost", "127.0.0.1", "[::1]"])
    connection: Any = partial(LimitedConnection, limits=limits)
    return uvicorn.Config(
        outer,
        http=connection,
        root_path=root_path,
        ws="none",
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,  # who asks makes no difference
        timeout_graceful_shutdown=_GRACE,
    )


def _bound(host: str, port: int) -> socket.socket:
    """A socket with this address, to which nobody can connect yet.

    It names its protocol, which uvicorn's own socket does not: without it asyncio leaves Nagle's
    algorithm on, and answers over open connections wait 40 ms.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        family, kind, protocol, _, address = found[0]
        place = socket.socket(family, kind, protocol)
        try:
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            place.bind(address)
        except BaseException:
            place.close()
            raise
    except OSError as error:
        reason = error.strerror or error
        raise OSError(f"cannot listen on {host}, port {port}: {reason}; pass another") from error
    return place


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
