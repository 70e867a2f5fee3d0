"""``GET /recommend/alice?n=10`` in the shortest way, because it is what is asked most.

Only requests for a list by an id, with no parameter or only a correct ``n``, are answered here. All
others, including those whose parameters may be refused, are handled by the routes of
:mod:`mfrank.serving.api`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from urllib.parse import unquote
from weakref import WeakKeyDictionary

from starlette.types import ASGIApp, Receive, Scope, Send

from mfrank.serving.api import Desk
from mfrank.serving.guards import HEADERS
from mfrank.serving.measures import Measures
from mfrank.serving.refusals import refused, too_late
from mfrank.serving.together import Together

__all__ = ["QuickLists"]

_PATH = b"/recommend/"
_QUERY = re.compile(rb"n=([1-9][0-9]{0,8})")
_ROUTE = "/recommend/{user}"
_HEADERS = [
    (b"content-type", b"application/json"),
    *((name.lower().encode(), text.encode()) for name, text in HEADERS.items()),
]
_BODIES = b"content-length", b"transfer-encoding"


class QuickLists:
    """Wraps an application, and answers these requests in its place.

    Users wait together by event loop: some clients in tests have one for each request. The first
    request calls ``begin``: where the application is mounted in another one, nothing tells it that
    the service starts.
    """

    def __init__(
        self,
        app: ASGIApp,
        desk: Desk,
        measures: Measures,
        queue: Callable[[], Together],
        begin: Callable[[], None],
    ) -> None:
        self.app, self.desk, self.measures, self._queue = app, desk, measures, queue
        self._begin: Callable[[], None] | None = begin
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, Together] = WeakKeyDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if self._begin is not None and scope["type"] != "lifespan":
            self._begin()
            self._begin = None
        asked = self._asked(scope)
        if asked is None:
            await self.app(scope, receive, send)
            return
        began, status, measures = time.perf_counter(), 500, self.measures
        measures.in_progress += 1
        try:
            content = await self._answer(*asked)
            status = 200
            length = b"content-length", b"%d" % len(content)
            start = {"type": "http.response.start", "status": 200, "headers": [length, *_HEADERS]}
            await send(start)
            await send({"type": "http.response.body", "body": content})
        except (Exception, asyncio.CancelledError) as error:
            if status == 200:  # it is the connection that failed
                raise
            response = refused(error)
            response.headers.update(HEADERS)
            status = response.status_code
            await response(scope, receive, send)
        finally:
            measures.in_progress -= 1
            measures.add(_ROUTE, "GET", status, time.perf_counter() - began)

    def _asked(self, scope: Scope) -> tuple[str, int] | None:
        """The id and the length of a list, if a request asks for no more."""
        if scope["type"] != "http" or scope["method"] != "GET":
            return None
        path = scope.get("raw_path") or b""
        if root := scope.get("root_path"):  # where the application is mounted
            path = path.removeprefix(root.encode())
        user, query, n = path[len(_PATH) :], scope["query_string"], self.desk.limits.usual_n
        if not path.startswith(_PATH) or not user or b"/" in user or b"?" in user:
            return None
        if query:
            found = _QUERY.fullmatch(query)
            if found is None or int(found[1]) > self.desk.limits.max_n:
                return None
            n = int(found[1])
        if any(name in _BODIES for name, _ in scope["headers"]):
            return None
        return unquote(user.decode("ascii", "replace")), n

    async def _answer(self, user: str, n: int) -> bytes:
        seconds, loop = self.desk.limits.max_seconds, asyncio.get_running_loop()
        together = self._queues.get(loop)
        if together is None:
            together = self._queues[loop] = self._queue()
        with self.desk.place():
            answer = together.ask(user, n)
            late = loop.call_later(seconds, _give_up, answer, seconds)
            try:
                return await answer
            finally:
                late.cancel()
                del answer  # an error in it has this frame, which would keep it, and its model


def _give_up(answer: asyncio.Future[bytes], seconds: float) -> None:
    if not answer.done():
        answer.set_exception(too_late(seconds))
