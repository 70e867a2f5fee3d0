"""What stands before an application: the hosts that it answers for, and its door.

These are few and plain ASGI, because every request pays for their time.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mfrank.arrays import shown
from mfrank.errors import InputTypeError, InputValueError
from mfrank.serving.access import Keys
from mfrank.serving.limits import Limits
from mfrank.serving.measures import AnyMeasures, RequestLog
from mfrank.serving.refusals import refusal, refused, too_late

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every answer: a browser runs nothing that is not a file of this application."""
_RAW_HEADERS = [(name.lower().encode(), text.encode()) for name, text in HEADERS.items()]

_METHODS = ("GET", "HEAD", "POST", "OPTIONS")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")
"""Ids of requests that are taken over; others could forge lines of a log."""


_HOST = re.compile(r"(\*\.)?[a-z0-9_.-]+|\[[0-9a-f:.]+\]|\*")
_PORT = re.compile(r":[0-9]*$")
_MOST_REMEMBERED = 1000


class AllowedHosts:
    """The host names that a service answers for; all if there are none.

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
        self.has = lru_cache(_MOST_REMEMBERED)(self._has)
        self.add(names)

    def add(self, names: Iterable[str]) -> None:
        """Allow more names."""
        if isinstance(names, str | bytes):
            raise InputTypeError(f"`allow_hosts` must be a list of host names, got {shown(names)}")
        for name in names:
            if not isinstance(name, str) or not _HOST.fullmatch(name.lower()):
                raise InputValueError(
                    "`allow_hosts` must have names of hosts alone, such as api.example.com or "
                    f"*.example.com, got {shown(name)}"
                )
            self._names.add(name.lower().rstrip("."))
        self.has.cache_clear()

    def __bool__(self) -> bool:
        return bool(self._names)

    def refusal(self, scope: Scope) -> Response | None:
        """Why a request is not answered; None if it is."""
        if not self or scope["type"] == "lifespan":
            return None
        hosts = [value for name, value in scope["headers"] if name == b"host"] or [b""]
        if len(hosts) == 1 and self.has(hosts[0]):
            return None
        sentence = (
            f"this service does not answer for the host {hosts[0].decode('latin-1')!r}: "
            "name it with --allow-host, or allow_hosts"
        )
        return refusal(400, sentence, headers=HEADERS)

    def _has(self, host: bytes) -> bool:
        """Whether a request with this header Host is answered, where names are given."""
        name = _PORT.sub("", host.decode("latin-1").lower()).rstrip(".")
        ends = (f"*.{name[place + 1 :]}" for place, each in enumerate(name) if each == ".")
        return bool(name) and not self._names.isdisjoint({name, "*", *ends})


class Hosts:
    """Refuses requests for other host names, whose web pages could read answers.

    After DNS rebinding to this computer, such a page still sends its own host name.
    """

    def __init__(self, app: ASGIApp, allowed: AllowedHosts) -> None:
        self.app, self.allowed = app, allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        await (self.allowed.refusal(scope) or self.app)(scope, receive, send)


class Door:
    """What every request to an application passes.

    - A request for another host than those allowed is refused; so is one without a key, where keys
      are asked for.
    - The path is as it was sent, quoted, so that an id may contain a slash. Bytes that a URL should
      have quoted are quoted: curl sends the letters of an id as they are.
    - HEAD is answered as GET is, without the body.
    - A body that is too large is 413, one of GET is 422, an answer that takes too long is 503.
    - Every answer has :data:`HEADERS` and the request's id, if it sent one or there is a log; it is
      counted and timed by its route, and logged.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: AllowedHosts,
        limits: Limits,
        measures: AnyMeasures,
        keys: Keys | None = None,
        log: RequestLog | None = None,
    ) -> None:
        self.app, self.hosts, self.limits, self.measures = app, hosts, limits, measures
        self.keys, self.log = keys, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        stranger = self.hosts.refusal(scope)
        if stranger is not None or scope["type"] != "http":
            await (stranger or self.app)(scope, receive, send)
            return
        began, method, measures = time.perf_counter(), scope["method"], self.measures
        inner, answer = _as_sent(scope), _Answer(send, method == "HEAD")
        headers = dict(inner["headers"])
        sent = headers.get(b"x-request-id", b"")
        if _REQUEST_ID.fullmatch(sent):
            answer.request_id = sent
        elif self.log is not None:
            answer.request_id = secrets.token_hex(8).encode()
        if answer.request_id:
            inner["request_id"] = answer.request_id.decode()
        measures.in_progress += 1
        try:
            response = self._refusal(inner, headers)
            if response is None:
                response = await self._passed(inner, receive, answer)
            if response is not None:
                await response(inner, receive, answer)
        finally:
            measures.in_progress -= 1
            route = getattr(inner.get("route"), "path", "none")
            name = method if method in _METHODS else "other"
            status, seconds = answer.status or 500, time.perf_counter() - began
            measures.add(route, name, status, seconds)
            arms = inner.get("arms")
            if arms and status == 200:
                measures.add_arms(arms)
            if self.log is not None:
                self.log.add(
                    method=name,
                    route=route,
                    status=status,
                    ms=round(seconds * 1000, 3),
                    request_id=answer.request_id.decode(),
                    key=inner.get("key"),
                    **({"arms": arms} if arms else {}),
                )

    def _refusal(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Response | None:
        """Why a request is not let in; None if it is."""
        if self.keys is not None and (response := self.keys.refusal(scope)):
            return response
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or len(declared) > 18 or int(declared) > self.limits.max_body:
            return refusal(413, self._too_large)
        if scope["method"] == "GET" and (int(declared) or b"transfer-encoding" in headers):
            return refusal(422, "GET takes its parameters from the URL, and no body")
        return None

    async def _passed(self, scope: Scope, receive: Receive, answer: _Answer) -> Response | None:
        """Let the application answer; a refusal if it does not begin to in time."""
        received = 0

        async def receiving() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.limits.max_body:  # sent in chunks, without its length
                raise HTTPException(413, self._too_large)
            return message

        # As asyncio.timeout does, in half of its time.
        task, seconds, is_late = asyncio.current_task(), self.limits.max_seconds, False
        assert task is not None

        def end() -> None:
            nonlocal is_late
            is_late = task.cancel()

        timer = asyncio.get_running_loop().call_later(seconds, end)
        try:
            await self.app(scope, receiving, answer)
        except asyncio.CancelledError as error:
            if not is_late:
                if answer.status:
                    raise
                return refused(error)
            task.uncancel()
            if answer.status:
                raise TimeoutError from error
            return refused(too_late(seconds))
        finally:
            timer.cancel()
        return None

    @property
    def _too_large(self) -> str:
        return f"the body must have at most {self.limits.max_body:,} bytes"


@dataclass(slots=True)
class _Answer:
    """Sends the messages of an answer: with the headers that all have, and of HEAD without body."""

    send: Send
    is_of_head: bool
    status: int = 0  # until it has begun
    request_id: bytes = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *_RAW_HEADERS]
            if self.request_id:
                message["headers"].append((b"x-request-id", self.request_id))
        elif self.is_of_head:
            message = {**message, "body": b""}
        await self.send(message)


def _as_sent(scope: Scope) -> Scope:
    """The scope of a request with its path and query as they were sent, and GET for HEAD."""
    inner = dict(scope)
    if scope["method"] == "HEAD":
        inner["method"] = "GET"
    if sent := scope.get("raw_path"):
        path, root = _quoted(sent.partition(b"?")[0]), scope.get("root_path", "")
        if root and not path.startswith(root):  # where a path of letters was mounted
            path = root + path[len(quote(root)) :]
        inner["path"] = path
        if not scope["query_string"].isascii():
            inner["query_string"] = _quoted(scope["query_string"]).encode()
    return inner


def _quoted(sent: bytes) -> str:
    """A part of a URL with its bytes beyond ASCII quoted."""
    if sent.isascii():
        return sent.decode()
    return "".join(chr(each) if each < 128 else f"%{each:02X}" for each in sent)
