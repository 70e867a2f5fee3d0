"""Users who wait for lists at the same time, answered by one call; the short way to it.

A call for sixteen users takes little longer than a call for one. While a thread makes lists, the
requests that arrive wait, and are then answered together. If a call takes almost no time, the event
loop makes it, for all requests that have arrived. Lists have the bits of single calls, and an error
in one request is reported to that request alone.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote
from weakref import WeakKeyDictionary

from starlette.types import ASGIApp, Receive, Scope, Send

from mfrank.retrieval import Recommender
from mfrank.serving.answers import known_of, listed, user_lists
from mfrank.serving.api import Desk
from mfrank.serving.guards import HEADERS
from mfrank.serving.limits import Measures
from mfrank.serving.live_model import LiveModel
from mfrank.serving.refusals import refused, too_late

_QUICK = 0.002
"""A call of at most this many seconds is made by the event loop: waking a thread takes as long."""
_LONG = 0.02
"""Seconds above which calls take fewer users, so that nobody waits long for the others."""
_MOST = 256
_OF_LAST = 0.2

Outcome = bytes | Exception


@dataclass(slots=True, eq=False)
class _Waiting:
    user: str
    n: int
    answer: asyncio.Future[bytes]


class Together:
    """The queue of users, touched by the event loop only; threads get a part and return answers.

    Parameters
    ----------
    live : LiveModel
    pool : ThreadPoolExecutor
    n_threads : int
        Maximum number of calls at a time.
    """

    def __init__(self, live: LiveModel, pool: ThreadPoolExecutor, n_threads: int) -> None:
        self._live, self._pool, self._n_threads = live, pool, n_threads
        self._queue: list[_Waiting] = []
        self._calls, self._planned = 0, False
        self._model: Recommender | None = None
        self._seconds, self._most = _QUICK, 1

    def ask(self, user: str, n: int) -> asyncio.Future[bytes]:
        """The list of a user, as JSON; if the future is cancelled before its turn, no work is done.

        Parameters
        ----------
        user : str
            The id as a text.
        n : int
        """
        loop = asyncio.get_running_loop()
        waiting = _Waiting(user, n, loop.create_future())
        self._queue.append(waiting)
        if not self._planned and self._calls < self._n_threads:
            self._planned = True
            loop.call_soon(self._call)  # after the other requests that have arrived by now
        return waiting.answer

    def _call(self) -> None:
        """Answer those who wait, here or in a thread."""
        self._planned = False
        while self._calls < self._n_threads:
            model = self._live.current
            if model is not self._model:  # it is not yet known how long it takes
                self._model, self._seconds, self._most = model, _QUICK, 1
            if not (some := self._next()):
                return
            users, n = [each.user for each in some], some[0].n
            if self._seconds < _QUICK:
                self._told(model, some, *_timed(model, users, n))
                continue
            self._calls += 1
            loop = asyncio.get_running_loop()
            answers = loop.run_in_executor(self._pool, _timed, model, users, n)
            answers.add_done_callback(
                lambda done, model=model, some=some: self._returned(model, some, done)  # type: ignore[misc]
            )

    def _next(self) -> list[_Waiting]:
        """The first user who still waits, and others who want lists of the same length."""
        left = [each for each in self._queue if not each.answer.done()]
        alike = [each for each in left if each.n == left[0].n][: self._most]
        taken = set(map(id, alike))
        self._queue = [each for each in left if id(each) not in taken]
        return alike

    def _returned(
        self,
        model: Recommender,
        some: Sequence[_Waiting],
        done: asyncio.Future[tuple[float, list[Outcome]]],
    ) -> None:
        self._calls -= 1
        if not done.cancelled():
            self._told(model, some, *done.result())
        self._call()

    def _told(
        self,
        model: Recommender,
        some: Sequence[_Waiting],
        seconds: float,
        outcomes: Sequence[Outcome],
    ) -> None:
        """Hand out answers, and learn from the time they took how many to ask for at once."""
        if model is self._model:
            self._seconds += _OF_LAST * (seconds - self._seconds)
            if seconds > _LONG:
                self._most = max(1, len(some) // 2)
            elif len(some) == self._most:
                self._most = min(_MOST, 2 * self._most)
        for each, outcome in zip(some, outcomes, strict=True):
            if each.answer.done():
                continue
            if isinstance(outcome, bytes):
                each.answer.set_result(outcome)
            else:
                each.answer.set_exception(outcome)


def _timed(model: Recommender, users: Sequence[str], n: int) -> tuple[float, list[Outcome]]:
    began = time.perf_counter()
    outcomes = _answered(model, users, n)
    return time.perf_counter() - began, outcomes


def _answered(model: Recommender, users: Sequence[str], n: int) -> list[Outcome]:
    """The list of each user, or what is wrong with it."""
    found = _found(model, users)
    known = [each for each in found if not isinstance(each, Exception)]
    lists = iter(_lists(model, known, n))
    return [each if isinstance(each, Exception) else next(lists) for each in found]


def _found(model: Recommender, users: Sequence[str]) -> list[Any]:
    """The id of each user in the model, or the error that there is none."""
    try:
        return known_of(users, model.user_ids)
    except Exception as error:
        if len(users) == 1:
            return [error.with_traceback(None)]
        return [found for user in users for found in _found(model, [user])]


def _lists(model: Recommender, users: Sequence[Any], n: int) -> list[Outcome]:
    """The lists of known users; if all together fail, each alone."""
    if not users:
        return []
    try:
        return [*user_lists(users, listed(model, users, n))]
    except Exception as error:
        if len(users) == 1:
            return [error]
        return [outcome for user in users for outcome in _lists(model, [user], n)]


# ``GET /recommend/alice?n=10`` in the shortest way, because it is what is asked most.
#
# Only requests for a list by an id, with no parameter or only a correct ``n``, are answered here.
# All others, including those whose parameters may be refused, are handled by the routes of
# :mod:`mfrank.serving.api`.


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
