"""Runs an application with uvicorn: until it is told to stop, in processes, or in a thread."""

from __future__ import annotations

import ipaddress
import math
import re
import signal
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, Self

import uvicorn
from fastapi import FastAPI
from starlette.datastructures import State
from starlette.types import ASGIApp

from mfrank.arrays import check_at_least_zero, check_count, shown, single_threaded
from mfrank.errors import InputTypeError, InputValueError
from mfrank.serving.connections import LimitedConnection
from mfrank.serving.guards import AllowedHosts, Hosts
from mfrank.serving.limits import Limits
from mfrank.serving.measures import SharedMeasures
from mfrank.serving.signals import handled
from mfrank.serving.workers import several

_GRACE = 10
"""Seconds in which requests that have begun may end."""
_BACKLOG = 2048
_UNTIL_STARTED = 0.01
"""Seconds between looks at whether a thread has begun to answer."""
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
    _check_port(port)
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


def _check_port(port: int) -> None:
    if not 0 <= port < 2**16:
        raise InputValueError(f"`port` must be a whole number from 0 to 65535, got {port}")


def _announce(place: socket.socket) -> None:
    print(f"{_address(place)} (Ctrl-C stops it)", flush=True)


def _address(place: socket.socket) -> str:
    bound_host, bound_port = place.getsockname()[:2]
    address = f"[{bound_host}]" if ":" in bound_host else bound_host
    return f"http://{address}:{bound_port}/"


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


class InThread:
    """An application that a thread of this process serves; see :func:`mfrank.serving.start`.

    Attributes
    ----------
    url : str
    """

    def __init__(self, application: FastAPI, host: str, port: int) -> None:
        _check_port(port)
        with _bound(host, port) as place:
            place.listen(_BACKLOG)
            self.url = _address(place)
            server = uvicorn.Server(configured(application, host))
            own = place.dup()
        self._server = server
        self._thread = threading.Thread(
            target=server.run, args=([own],), name="mfrank-site", daemon=True
        )
        self._thread.start()
        while not server.started:
            if not self._thread.is_alive():
                raise OSError(f"{self.url} cannot be served: the log says why")
            time.sleep(_UNTIL_STARTED)

    def stop(self) -> None:
        """End it, after the requests that have begun."""
        self._server.should_exit = True
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"{self.url} ({'served' if self._thread.is_alive() else 'stopped'})"

    def _repr_html_(self) -> str:
        return (
            f'<p><a href="{self.url}" target="_blank">{self.url}</a></p>'
            f'<iframe src="{self.url}" width="100%" height="700" style="border:0"></iframe>'
        )


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
