"""The application: questions, middleware, the watch on the model's folder, and running it."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from collections.abc import AsyncIterator, Iterable
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI, Response
from starlette.types import ASGIApp

from mfrank._version import __version__
from mfrank.arrays import check_above_zero, single_threaded, usable_cores
from mfrank.errors import InputValueError
from mfrank.retrieval import Recommender
from mfrank.serving.api import Questions, routes
from mfrank.serving.connections import LimitedConnection
from mfrank.serving.description import STYLE, Described, page
from mfrank.serving.guards import AllowedHosts, Door, Hosts
from mfrank.serving.limits import Limits, Measures
from mfrank.serving.live_model import LiveModel
from mfrank.serving.refusals import add_refusals
from mfrank.serving.signals import handled
from mfrank.serving.together import Desk


def build(
    model: Recommender | str | os.PathLike[str],
    limits: Limits,
    reload_seconds: float,
    allow_hosts: Iterable[str],
    classes: Iterable[type],
    trust: bool,
    mmap: bool,
) -> FastAPI:
    """The application of :func:`mfrank.serving.app`."""
    check_above_zero(reload_seconds=reload_seconds)
    hosts = AllowedHosts(allow_hosts)
    live, measures = LiveModel(model, classes, trust, mmap), Measures()

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        live.watch(reload_seconds)
        try:
            yield
        finally:
            live.stop()

    application = Described(
        title="mfrank",
        version=__version__,
        description="Lists, scores and explanations of one model.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    application.state.live, application.state.limits = live, limits
    application.state.hosts = hosts
    application.state.desk = desk = Desk(live, limits, usable_cores())
    described, questions = routes(desk, measures)
    application.include_router(described)
    add_refusals(application)

    @application.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return Response(page(application.openapi()), media_type="text/html")

    @application.get("/docs.css", include_in_schema=False)
    async def style() -> Response:
        return Response(STYLE, media_type="text/css")

    # The last one added is the outermost.
    begin = partial(live.watch, reload_seconds)
    application.add_middleware(Questions, questions=questions, limits=limits, begin=begin)
    application.add_middleware(Door, hosts=hosts, limits=limits, measures=measures)
    return application


# Runs an application with uvicorn, until it is told to stop.


_GRACE = 10
"""Seconds in which requests that have begun may end."""
_BACKLOG = 2048


def serve(application: FastAPI, host: str, port: int) -> None:
    """What :func:`mfrank.serving.run` does."""
    if not 0 <= port < 2**16:
        raise InputValueError(f"`port` must be a whole number from 0 to 65535, got {port}")
    config = configured(application, host)
    live = getattr(application.state, "live", None)
    with handled(live), _listening(host, port) as place:
        bound_host, bound_port = place.getsockname()[:2]
        shown = f"[{bound_host}]" if ":" in bound_host else bound_host
        print(f"http://{shown}:{bound_port}/ (Ctrl-C stops it)", flush=True)
        with single_threaded():  # there is a thread for each core that answers
            uvicorn.Server(config).run(sockets=[place])


def configured(application: FastAPI, host: str) -> uvicorn.Config:
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
        ws="none",
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,  # who asks makes no difference
        timeout_graceful_shutdown=_GRACE,
    )


def _listening(host: str, port: int) -> socket.socket:
    """A socket to which clients may connect from now on.

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
            place.listen(_BACKLOG)
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
