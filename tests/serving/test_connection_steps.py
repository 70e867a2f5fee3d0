"""A connection step by step: what it waits for, and how long, by timers that a test sets off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mfrank.serving.limits import Limits

uvicorn = pytest.importorskip("uvicorn", reason="needs uvicorn: pip install mfrank[serve]")
connections = pytest.importorskip("mfrank.serving.connections")

GET = b"GET / HTTP/1.1\r\n\r\n"
POST = b"POST / HTTP/1.1\r\ncontent-length: 4\r\n\r\n"
KEPT, REST, STALLED = 5, 5.0, 10.0  # seconds: the first are uvicorn's


class Wire(asyncio.Transport):
    """The end of a client that reads what is written, or does not."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.left, self.reads = b"", 0, True
        self.ended: str | None = None

    def write(self, data: Any) -> None:
        self.written += data
        self.left += 0 if self.reads else len(data)

    def get_write_buffer_size(self) -> int:
        return self.left

    def close(self) -> None:
        self.ended = self.ended or "closed"

    def abort(self) -> None:
        self.ended = "aborted"

    def is_closing(self) -> bool:
        return self.ended is not None

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Timer:
    """A call that is made when a test says so, unless it is cancelled before."""

    def __init__(self, seconds: float, call: Callable[[], Any]) -> None:
        self.seconds, self.call, self.is_set = seconds, call, True

    def cancel(self) -> None:
        self.is_set = False


class Loop:
    """The running event loop, with such timers."""

    def __init__(self) -> None:
        self.loop, self.timers = asyncio.get_running_loop(), list[Timer]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loop, name)

    def call_later(self, seconds: float, what: Any, *args: Any) -> Timer:
        self.timers.append(Timer(seconds, lambda: what(*args)))
        return self.timers[-1]


async def answering(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers at once, after the body, or never, as the path says."""
    if scope["path"] == "/never":
        await asyncio.Event().wait()
    more = scope["path"] == "/read"
    while more:
        more = (await receive())["more_body"]
    head = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
    await send(head)
    await send({"type": "http.response.body", "body": b"ok"})


class Connection:
    """A connection with its client, and its timers."""

    def __init__(self, *, others: int = 0, **limits: Any) -> None:
        config = uvicorn.Config(answering, lifespan="off", server_header=False, date_header=False)
        self.state = uvicorn.server.ServerState()
        self.state.connections = {object() for _ in range(others)}
        self.loop, self.wire = Loop(), Wire()
        made = connections.LimitedConnection
        held: Any = {"max_header_seconds": 3.0, **limits}
        self.served = made(config, self.state, {}, self.loop, limits=Limits(**held))
        self.served.connection_made(self.wire)

    def waits(self) -> list[float]:
        """Seconds of the timers that are set."""
        return [timer.seconds for timer in self.loop.timers if timer.is_set]

    def goes_off(self) -> None:
        """The only timer that is set goes off."""
        (timer,) = (timer for timer in self.loop.timers if timer.is_set)
        timer.is_set = False
        timer.call()

    async def receives(self, *parts: bytes) -> None:
        """Bytes arrive, and the application does what it can."""
        for part in parts:
            self.served.data_received(part)
            for _ in range(20):
                await asyncio.sleep(0)

    def answers(self) -> list[int]:
        """The statuses of what was answered."""
        return [int(each[:3]) for each in self.wire.written.split(b"HTTP/1.1 ")[1:]]

    def refusal(self) -> tuple[int, str]:
        """The status and the sentence of the only answer, which says that it is the last."""
        (status,) = self.answers()
        head, _, body = self.wire.written.partition(b"\r\n\r\n")
        fields = dict(line.split(b": ") for line in head.lower().split(b"\r\n")[1:])
        assert fields == {
            b"content-type": b"application/json",
            b"connection": b"close",
            b"content-length": b"%d" % len(body),
        }
        assert self.wire.ended == "closed"
        return status, json.loads(body)["error"]


def steps(test: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(test(), 20)

    asyncio.run(limited())


def test_headers_have_one_time_however_they_drip() -> None:
    async def first() -> None:
        asked = Connection()
        assert asked.waits() == [3.0]
        for byte in GET[:9]:
            await asked.receives(bytes([byte]))
        assert len(asked.loop.timers) == 1
        asked.goes_off()
        status, sentence = asked.refusal()
        assert (status, asked.waits()) == (408, [])
        assert "within 3 s" in sentence

    async def later() -> None:
        asked = Connection()
        await asked.receives(GET)
        assert (asked.answers(), asked.waits()) == ([200], [KEPT])
        before = len(asked.loop.timers)
        for byte in b"\r\nGET /":
            await asked.receives(bytes([byte]))
            assert asked.waits() == [3.0]
        assert len(asked.loop.timers) == before + 1
        asked.goes_off()
        assert (asked.answers(), asked.wire.ended) == ([200, 408], "closed")

    steps(first)
    steps(later)


def test_a_connection_on_which_nothing_comes_is_closed_without_a_word() -> None:
    async def test() -> None:
        asked = Connection()
        asked.goes_off()
        assert (asked.wire.written, asked.wire.ended) == (b"", "closed")

    steps(test)


def test_one_more_connection_than_there_may_be_is_refused() -> None:
    async def test() -> None:
        asked = Connection(others=2, max_connections=3)
        assert (asked.wire.written, asked.waits()) == (b"", [3.0])
        asked.served.connection_lost(None)
        assert len(asked.state.connections) == 2
        refused = Connection(others=3, max_connections=3)
        assert refused.refusal()[0] == 503
        assert refused.waits() == []

    steps(test)


@pytest.mark.parametrize("more", [0, 1])
def test_the_bytes_of_headers_are_counted_while_they_come(more: int) -> None:
    async def test() -> None:
        asked = Connection(max_headers=100)
        begun = b"GET / HTTP/1.1\r\nx: "
        await asked.receives(begun, b"a" * (100 - len(begun) + more))
        if more:
            assert asked.refusal()[0] == 431
            assert "at most 100 bytes" in asked.refusal()[1]
            assert asked.waits() == []
        else:
            assert (asked.wire.written, asked.waits()) == (b"", [3.0])

    steps(test)


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("place", ["url", "name", "value"])
def test_headers_that_come_at_once_are_measured(place: str, more: int) -> None:
    """A URL, and four bytes beside each name and value."""

    async def test() -> None:
        sizes = {"url": 1, "name": 1, "value": 0}
        sizes[place] += 100 - 1 - 1 - 4 + more
        url, name, value = (b"a" * sizes[each] for each in ("url", "name", "value"))
        asked = Connection(max_headers=100)
        await asked.receives(
            b"GET /" + url[1:] + b" HTTP/1.1\r\n" + name + b": " + value + b"\r\n\r\n"
        )
        if more:
            assert asked.refusal()[0] == 431
            assert "at most 100 bytes" in asked.refusal()[1]
        else:
            assert asked.answers() == [200]
            await asked.receives(GET)  # which is counted anew
            assert asked.answers() == [200, 200]

    steps(test)


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("cut", [0, 90, 150])
def test_headers_behind_another_request_are_measured_too(cut: int, more: int) -> None:
    """Although nobody counts the bytes from which they begin."""

    async def test() -> None:
        asked = Connection(max_headers=100)
        next_one = b"GET /" + b"a" * (99 + more) + b" HTTP/1.1\r\n\r\n"
        both = GET * 2 + next_one
        place = len(GET * 2) + cut if cut else len(both)
        await asked.receives(both[:place], both[place:])
        assert (431 in asked.answers()) is bool(more)
        assert (asked.wire.ended == "closed") is bool(more)
        assert more or asked.answers() == [200] * 3

    async def never() -> None:
        asked = Connection()
        await asked.receives(GET + b"GET /")
        assert sorted(asked.waits()) == [3.0, KEPT]
        late = next(timer for timer in asked.loop.timers if timer.seconds == 3.0 and timer.is_set)
        late.call()
        assert asked.answers() == [200, 408]

    steps(test)
    steps(never)


def test_a_body_is_no_header() -> None:
    async def test() -> None:
        asked = Connection(max_headers=60)
        body = b"x" * 500
        head = b"POST /read HTTP/1.1\r\ncontent-length: 1000\r\n\r\n"
        await asked.receives(head + body)
        assert (asked.answers(), asked.waits()) == ([], [])  # it may take its time
        await asked.receives(body)
        assert (asked.answers(), asked.waits()) == ([200], [KEPT])
        await asked.receives(head + body, body + GET)
        assert (asked.answers(), asked.waits()) == ([200] * 3, [KEPT])

    steps(test)


def test_an_answer_may_take_its_time() -> None:
    async def test() -> None:
        asked = Connection()
        await asked.receives(b"GET /never HTTP/1.1\r\n\r\n")
        assert (asked.answers(), asked.waits(), asked.wire.ended) == ([], [], None)
        for task in asked.state.tasks:
            task.cancel()

    steps(test)


def test_the_rest_of_a_body_that_nobody_reads_has_its_time() -> None:
    async def never() -> None:
        asked = Connection()
        await asked.receives(POST + b"1")
        assert (asked.answers(), asked.waits()) == ([200], [KEPT, REST])
        rest = asked.loop.timers[-1]
        rest.call()
        assert (asked.answers(), asked.wire.ended) == ([200], "closed")

    async def comes() -> None:
        asked = Connection()
        await asked.receives(POST + b"1", b"234")
        assert (asked.answers(), asked.waits()) == ([200], [KEPT])
        await asked.receives(GET)
        assert (asked.answers(), asked.waits()) == ([200, 200], [KEPT])

    steps(never)
    steps(comes)


def test_requests_sent_at_once_are_answered_in_turn() -> None:
    async def test() -> None:
        asked = Connection()
        read = POST.replace(b"/ ", b"/read ")
        await asked.receives(GET + GET + read + b"12")
        assert (asked.answers(), asked.waits()) == ([200, 200], [])  # the third still comes
        await asked.receives(b"34")
        assert (asked.answers(), asked.waits()) == ([200] * 3, [KEPT])

    steps(test)


def test_who_reads_nothing_of_an_answer_is_cut_off() -> None:
    async def test() -> None:
        asked = Connection()
        asked.wire.reads = False
        await asked.receives(GET)
        assert sorted(asked.waits()) == [KEPT, STALLED]
        kept = next(timer for timer in asked.loop.timers if timer.is_set and timer.seconds == KEPT)
        kept.cancel()
        asked.wire.left -= 1
        asked.goes_off()
        assert (asked.wire.ended, asked.waits()) == (None, [STALLED])
        asked.goes_off()
        assert (asked.wire.ended, asked.waits()) == ("aborted", [])

    async def reads_all() -> None:
        asked = Connection()
        asked.wire.reads = False
        await asked.receives(b"nonsense\r\n\r\n")
        assert asked.refusal()[0] == 400
        assert asked.waits() == [STALLED]
        asked.wire.left = 0
        asked.goes_off()
        assert (asked.wire.ended, asked.waits()) == ("closed", [])

    steps(test)
    steps(reads_all)


def test_the_end_of_the_service_ends_connections() -> None:
    async def test() -> None:
        asked = Connection()
        asked.wire.reads = False
        asked.wire.left = 1
        asked.served.shutdown()
        assert asked.wire.ended == "closed"
        assert asked.waits() == [3.0, STALLED]
        asked.served.connection_lost(None)
        assert asked.waits() == [STALLED]
        assert not asked.state.connections

    steps(test)
