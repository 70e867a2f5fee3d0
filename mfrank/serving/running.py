"""Runs an application with uvicorn, until it is told to stop."""

from __future__ import annotations

import ipaddress
import signal
import sys
from types import FrameType

import uvicorn
from fastapi import FastAPI
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp

__all__ = ["serve"]

_GRACE = 10
"""Seconds that requests which have begun get to end."""


def serve(application: FastAPI, host: str, port: int) -> None:
    """What :func:`mfrank.serving.run` does."""
    signal.signal(signal.SIGTERM, _end)
    live = getattr(application.state, "live", None)
    if live is not None and hasattr(signal, "SIGHUP"):  # Windows has none
        signal.signal(signal.SIGHUP, lambda *_: live.look_now())
    outer: ASGIApp = application
    if _is_loopback(host):
        names = [host, "localhost", "127.0.0.1", "[::1]"]
        outer = TrustedHostMiddleware(application, allowed_hosts=names, www_redirect=False)
    config = uvicorn.Config(
        outer,
        host=host,
        port=port,
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
    )
    with config.bind_socket() as socket:
        bound_host, bound_port = socket.getsockname()[:2]
        socket.listen(config.backlog)  # who reads the line below may connect at once
        shown = f"[{bound_host}]" if ":" in bound_host else bound_host
        print(f"http://{shown}:{bound_port}/ (Ctrl-C stops it)", flush=True)
        uvicorn.Server(config).run(sockets=[socket])


def _end(_signal: int, _frame: FrameType | None) -> None:
    """Exit with 0: uvicorn raises the signal again when it has answered what had begun."""
    sys.exit(0)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
