"""Middleware of the application: hosts, sizes, times, safe headers, undecoded paths, measures.

These are plain ASGI functions, because every request pays for their time.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mfrank.arrays import shown
from mfrank.serving.limits import Limits, Measures
from mfrank.serving.refusals import refusal, refused, too_late

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every answer: a browser runs nothing that is not a file of this application."""


_METHODS = ("GET", "HEAD", "POST", "OPTIONS")


_HOST = re.compile(r"(\*\.)?[a-z0-9_.-]+|\[[0-9a-f:.]+\]|\*")
_PORT = re.compile(r":[0-9]*$")
_MOST_REMEMBERED = 1000


class AllowedHosts:
    """The names by which a service may be asked; any name while there are none.

    Parameters
    ----------
    names : iterable of str
        Such as "api.example.com", "*.example.com", "192.0.2.1", "[::1]", or "*" for every name;
        the port does not matter.

    Raises
    ------
    TypeError, ValueError
        ``names`` is a single text, or one of them is no host name.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names: set[str] = set()
        self._remembered: dict[bytes, bool] = {}
        self.add(names)

    def add(self, names: Iterable[str]) -> None:
        """Allow more names."""
        if isinstance(names, str | bytes):
            raise TypeError(f"allow_hosts must be a list of host names, got {shown(names)}")
        for name in names:
            if not isinstance(name, str) or not _HOST.fullmatch(name.lower()):
                raise ValueError(
                    "allow_hosts must have names of hosts alone, such as api.example.com or "
                    f"*.example.com, got {shown(name)}"
                )
            self._names.add(name.lower().rstrip("."))
        self._remembered.clear()

    def __bool__(self) -> bool:
        return bool(self._names)

    def has(self, host: bytes) -> bool:
        """Whether a request with this header Host is answered, where names are given."""
        found = self._remembered.get(host)
        if found is None:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            found = self._remembered[host] = self._looked_up(host)
        return found

    def _looked_up(self, host: bytes) -> bool:
        name = _PORT.sub("", host.decode("latin-1").lower()).rstrip(".")
        ends = (f"*.{name[place + 1 :]}" for place, each in enumerate(name) if each == ".")
        return bool(name) and not self._names.isdisjoint({name, "*", *ends})


class Hosts:
    """Requests for other host names are refused, so that no web page of theirs can read answers.

    A page whose name was made to lead to this computer ("DNS rebinding") still names its own host.
    """

    def __init__(self, app: ASGIApp, allowed: AllowedHosts) -> None:
        self.app, self.allowed = app, allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if self.allowed and scope["type"] != "lifespan":
            hosts = [value for name, value in scope["headers"] if name == b"host"] or [b""]
            if len(hosts) > 1 or not self.allowed.has(hosts[0]):
                sentence = (
                    f"this service does not answer for the host {hosts[0].decode('latin-1')!r}: "
                    "name it with --allow-host, or allow_hosts"
                )
                await refusal(400, sentence, headers=HEADERS)(scope, receive, send)
                return
        await self.app(scope, receive, send)


class RawPaths:
    """Routes see the path as it was sent, quoted, so that an id may contain a slash.

    Bytes that a URL should have quoted are quoted: curl sends the letters of an id as they are.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "http" and scope.get("raw_path"):
            path = _quoted(scope["raw_path"].partition(b"?")[0])
            root = scope.get("root_path", "")
            if root and not path.startswith(root):  # where a path of letters was mounted
                path = root + path[len(quote(root)) :]
            query = scope["query_string"]
            if not query.isascii():
                query = _quoted(query).encode()
            scope = {**scope, "path": path, "query_string": query}
        await self.app(scope, receive, send)


def _quoted(sent: bytes) -> str:
    """A part of a URL with its bytes beyond ASCII quoted."""
    if sent.isascii():
        return sent.decode()
    return "".join(chr(each) if each < 128 else f"%{each:02X}" for each in sent)


class Heads:
    """HEAD is answered as GET is, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        as_get = {**scope, "method": "GET"}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        try:
            await self.app(as_get, receive, sending)
        finally:
            if "route" in as_get:  # for its measures
                scope["route"] = as_get["route"]


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
        headers = dict(scope["headers"])
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or len(declared) > 18 or int(declared) > self.limits.max_body:
            await refusal(413, too_large)(scope, receive, send)
            return
        if scope["method"] in ("GET", "HEAD") and (
            int(declared) or b"transfer-encoding" in headers
        ):
            sentence = f"{scope['method']} takes its parameters from the URL, and no body"
            await refusal(422, sentence)(scope, receive, send)
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
        except asyncio.CancelledError as error:
            if has_begun:
                raise
            await refused(error)(scope, receive, send)


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
