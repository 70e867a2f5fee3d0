"""Where questions wait for the model; users who wait for lists are answered together, by one call.

A call for sixteen users takes little longer than a call for one. While a thread makes lists, the
requests that arrive wait, and those that ask alike are then answered together. If a call takes
almost no time, the event loop makes it, for all requests that have arrived. Lists have the bits of
single calls, and an error in one request is reported to that request alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import Request
from starlette.exceptions import HTTPException

from mfrank.arrays import OutOfTimeError
from mfrank.data import UnknownIdError
from mfrank.retrieval import Recommender
from mfrank.serving.answers import (
    dump,
    excluded,
    from_url,
    listed,
    only_items,
    steered,
    user_lists,
)
from mfrank.serving.catalogue import ItemsOfModel
from mfrank.serving.limits import Limits, in_thread, in_time
from mfrank.serving.live_model import LiveModel
from mfrank.serving.questions import ListQuery
from mfrank.serving.refusals import too_late

_QUICK = 0.002
"""A call of at most this many seconds is made by the event loop: waking a thread takes as long."""
_LONG = 0.02
"""Seconds above which calls take fewer users, so that nobody waits long for the others."""
_MOST = 256
"""Users of a call."""
_OF_LAST = 0.2
"""Weight of the last call in the mean of their seconds."""

Outcome = bytes | Exception


@dataclass(slots=True, eq=False)
class _Waiting:
    user: str
    asked: ListQuery
    answer: asyncio.Future[bytes]


class Together:
    """The queue of users of the running event loop, which alone touches it.

    Threads get a part of it and return answers.

    Parameters
    ----------
    live : LiveModel
    pool : ThreadPoolExecutor
    n_threads : int
        Maximum number of calls at a time.
    max_seconds : float
        Of a call.
    """

    def __init__(
        self, live: LiveModel, pool: ThreadPoolExecutor, n_threads: int, max_seconds: float
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._live, self._pool, self._n_threads = live, pool, n_threads
        self._max_seconds = max_seconds
        self._queue: list[_Waiting] = []
        self._calls, self._planned = 0, False
        self._model: Recommender | None = None
        self._seconds, self._most = _QUICK, 1

    def ask(self, user: str, asked: ListQuery) -> asyncio.Future[bytes]:
        """The list of a user, as JSON; if the future is cancelled before its turn, no work is done.

        Parameters
        ----------
        user : str
            The id as a text.
        asked : ListQuery
        """
        waiting = _Waiting(user, asked, self.loop.create_future())
        self._queue.append(waiting)
        if not self._planned and self._calls < self._n_threads:
            self._planned = True
            self.loop.call_soon(self._call)  # after the other requests that have arrived by now
        return waiting.answer

    def _call(self) -> None:
        """Answer those who wait, here or in a thread."""
        self._planned = False
        while self._calls < self._n_threads:
            model, version = self._live.now
            if model is not self._model:  # it is not yet known how long it takes
                self._model, self._seconds, self._most = model, _QUICK, 1
            if not (some := self._next()):
                return
            users, table = [each.user for each in some], self._live.items_of(model)
            end = self._live.stated_bytes(version)
            work = partial(_outcomes, model, users, some[0].asked, table, end)
            if some[0].asked.is_light and self._seconds < _QUICK:
                self._told(model, some, *_timed(work))
                continue
            self._calls += 1
            limited = partial(_limited, work, some, self._max_seconds)
            answers = self.loop.run_in_executor(self._pool, _timed, limited)
            answers.add_done_callback(partial(self._returned, model, some))

    def _next(self) -> list[_Waiting]:
        """The first user who still waits, and others who ask alike."""
        left = [each for each in self._queue if not each.answer.done()]
        asked = left[0].asked if left else None
        taken: list[_Waiting] = []
        self._queue = []
        for each in left:
            is_alike = each.asked is asked or each.asked == asked  # most are the same object
            place = taken if is_alike and len(taken) < self._most else self._queue
            place.append(each)
        return taken

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
            if some[0].asked.is_light:
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


def _timed(work: Callable[[], list[Outcome]]) -> tuple[float, list[Outcome]]:
    began = time.perf_counter()
    outcomes = work()
    return time.perf_counter() - began, outcomes


def _limited(
    work: Callable[[], list[Outcome]], some: Sequence[_Waiting], seconds: float
) -> list[Outcome]:
    """The outcomes of work that is given up when it takes too long, or when nobody waits for it."""
    try:
        return in_time(work, seconds, lambda: all(each.answer.done() for each in some))
    except OutOfTimeError:
        return [too_late(seconds)] * len(some)


def _outcomes(
    model: Recommender,
    users: Sequence[str],
    asked: ListQuery,
    table: ItemsOfModel | None,
    end: bytes,
) -> list[Outcome]:
    """The list of each user, or what is wrong with it: halves are asked again until that is one."""
    try:
        return [*lists(model, users, asked, table, end)]
    except OutOfTimeError:
        raise
    except Exception as error:
        if len(users) == 1:
            # The log has no use for frames of an unknown id, and they would keep an older model.
            return [error.with_traceback(None) if isinstance(error, UnknownIdError) else error]
    half = len(users) // 2
    return [
        *_outcomes(model, users[:half], asked, table, end),
        *_outcomes(model, users[half:], asked, table, end),
    ]


def lists(
    model: Recommender,
    users: Sequence[str],
    asked: ListQuery,
    table: ItemsOfModel | None = None,
    end: bytes = b"}",
) -> list[bytes]:
    """The list of each user, as JSON; ``end`` is its last brace and what stands before it."""
    options = options_of(model, asked, table)
    rows = from_url(users, model.user_ids, asked.on_unknown)
    found = user_lists(rows, listed(model, rows, asked.n, **options), table, asked.fields)
    return found if end == b"}" else [each[:-1] + end for each in found]


def options_of(model: Recommender, asked: ListQuery, table: ItemsOfModel | None) -> dict[str, Any]:
    """What a query asks of lists, as arguments of :func:`mfrank.serving.answers.listed`."""
    blocked, only = (
        None if each is None else from_url(each, model.item_ids, asked.on_unknown)
        for each in (asked.filter_items, asked.items)
    )
    if asked.exclude:
        others = from_url(asked.exclude, model.item_ids, "skip")
        blocked = [*(blocked or ()), *excluded(others, model.item_ids)]
    return {
        "include_seen": asked.include_seen,
        "filter_items": blocked,
        "items": only_items(table, asked.where, asked.fields, only),
        "on_unknown": asked.on_unknown,
        "fallback": asked.fallback,
        "steer": steered(diversity=asked.diversity, popularity_penalty=asked.popularity_penalty),
    }


class Desk:
    """Where questions wait for a thread that asks the model.

    Questions that may take long, such as batches, have threads of their own, as many as the others:
    all share the cores, but the short ones never wait for a thread that a long one has.
    """

    def __init__(self, limits: Limits, n_threads: int) -> None:
        self.limits = limits
        self.waiting, self.waiting_long = 0, 0
        self._writer = ThreadPoolExecutor(1, "mfrank-write")
        self._together: dict[LiveModel, Together] = {}
        self.use_threads(n_threads)

    def use_threads(self, n_threads: int) -> None:
        """Ask the model in so many threads from now on; called before the first question."""
        self._n_threads = n_threads
        self._pool = ThreadPoolExecutor(n_threads, "mfrank-answer")
        self._long_pool = ThreadPoolExecutor(n_threads, "mfrank-long-answer")

    async def list_of(self, live: LiveModel, user: str, asked: ListQuery) -> bytes:
        """The list of a user, made together with those of others who ask alike."""
        loop, together = asyncio.get_running_loop(), self._together.get(live)
        if together is None or together.loop is not loop:  # some clients have one for each request
            together = self._together[live] = Together(
                live, self._pool, self._n_threads, self.limits.max_seconds
            )
        self._take_place()
        answer = together.ask(user, asked)
        try:
            return await answer
        finally:
            self._leave_place()
            del answer  # an error in it has this frame, which would keep it, and its model

    async def write(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What a write to the disk returns, in the thread of all writes.

        A write that has begun ends, whoever waits for it.
        """
        self._take_place()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._writer, work)
        finally:
            self._leave_place()

    async def ask(
        self, request: Request, question: Callable[[], Any], *, is_long: bool = False
    ) -> bytes:
        """The answer to a question, made by a thread, as JSON.

        The question returns JSON as bytes, or what becomes JSON. When nobody waits for the answer
        anymore, because it is too late or the client has gone, the thread gives up at its next
        :func:`mfrank.arrays.work.check_time`.
        """

        def work() -> bytes:
            answer = question()
            return answer if isinstance(answer, bytes) else dump(answer)

        pool, seconds = self._long_pool if is_long else self._pool, self.limits.max_seconds
        self._take_place(is_long)
        try:
            answer = in_thread(pool, work, seconds)
            return await (_unless_gone(answer, request) if is_long else answer)
        except OutOfTimeError:
            raise too_late(seconds) from None
        finally:
            self._leave_place(is_long)

    def _take_place(self, is_long: bool = False) -> None:
        """Take a place among the requests that wait, if there is one; long ones have half."""
        most = self.limits.max_waiting
        if self.waiting >= most or (is_long and 2 * self.waiting_long >= most):
            raise HTTPException(503, "too many requests are waiting; try again later")
        self.waiting += 1
        self.waiting_long += is_long

    def _leave_place(self, is_long: bool = False) -> None:
        self.waiting -= 1
        self.waiting_long -= is_long


async def _unless_gone(asked: Coroutine[Any, Any, bytes], request: Request) -> bytes:
    """The answer, unless the client goes away before."""
    answer, leaving = asyncio.ensure_future(asked), asyncio.ensure_future(_left(request))
    leaving.add_done_callback(lambda _: answer.cancel())
    try:
        return await answer
    except asyncio.CancelledError:
        if not leaving.done():  # it is this request that is cancelled
            raise
        raise HTTPException(503, "the client has gone") from None
    finally:
        leaving.cancel()


async def _left(request: Request) -> None:
    """Wait until the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
