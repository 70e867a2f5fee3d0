"""Middleware of the application: sizes, times, safe headers, undecoded paths, measures.

These are plain ASGI functions, because every request pays for their time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mfrank.serving.limits import Limits
from mfrank.serving.measures import Measures
from mfrank.serving.refusals import refusal, refused, too_late

__all__ = ["HEADERS", "Bounded", "Measured", "RawPaths", "WithHeaders"]

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every answer: a browser runs nothing that is not a file of this application."""


_METHODS = ("GET", "HEAD", "POST", "OPTIONS")


class RawPaths:
    """Routes see the path as it was sent, quoted, so that an id may contain a slash."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "http" and scope.get("raw_path"):
            path = scope["raw_path"].decode("ascii", "replace").partition("?")[0]
            scope = {**scope, "path": path}
        await self.app(scope, receive, send)


class WithHeaders:
    """Every answer has these headers."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str]) -> None:
        self.app = app
        self.headers = [(name.lower().encode(), text.encode()) for name, text in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self.headers]
            await send(message)

        await self.app(scope, receive, sending)


class Bounded:
    """A body that is too large is 413, an answer that takes too long is 503."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        too_large = f"the body must have at most {self.limits.max_body:,} bytes"
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > self.limits.max_body:
            await refusal(413, too_large)(scope, receive, send)
            return
        received, has_begun = 0, False

        async def receiving() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.limits.max_body:  # sent in chunks, without its length
                raise HTTPException(413, too_large)
            return message

        async def sending(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            async with asyncio.timeout(self.limits.max_seconds):
                await self.app(scope, receiving, sending)
        except TimeoutError:
            if has_begun:
                raise
            await refused(too_late(self.limits.max_seconds))(scope, receive, send)


class Measured:
    """Counts and times every request by its route."""

    def __init__(self, app: ASGIApp, measures: Measures) -> None:
        self.app, self.measures = app, measures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, measures = time.perf_counter(), 500, self.measures

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        measures.in_progress += 1
        try:
            await self.app(scope, receive, sending)
        finally:
            measures.in_progress -= 1
            method = scope["method"] if scope["method"] in _METHODS else "other"
            route = getattr(scope.get("route"), "path", "none")
            measures.add(route, method, status, time.perf_counter() - began)
