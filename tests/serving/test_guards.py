"""What stands before an application: the hosts that it answers for, and its door."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from clients import ask, client, model, named
from hypothesis import given
from hypothesis import strategies as st

from mfrank import serving
from mfrank.serving.guards import HEADERS, AllowedHosts, Door, Hosts
from mfrank.serving.limits import Limits
from mfrank.serving.measures import Measures

USER = str(named().user_ids.labels[-1])
SENT = [(name.lower().encode(), text.encode()) for name, text in HEADERS.items()]


@given(st.lists(st.binary(max_size=9), max_size=5))
def test_any_header_of_a_host_is_judged(hosts: list[bytes]) -> None:
    allowed = AllowedHosts(["localhost"])
    assert not any(allowed.has(host) for host in hosts)
    assert allowed.has(b"LOCALHOST:1")


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("Api.example.com.", b"api.example.com", b"example.com"),
        ("*.example.com", b"a.b.example.com:80", b"example.com"),
        ("*", b"anything", b""),
        ("192.0.2.1", b"192.0.2.1:8000", b"192.0.2.10"),
        ("[::1]", b"[::1]", b"::1"),
        ("under_score", b"under_score", b"under"),
    ],
)
def test_a_host_is_allowed_by_its_name_or_its_end(name: str, right: bytes, wrong: bytes) -> None:
    allowed = AllowedHosts([name])
    assert (allowed.has(right), allowed.has(wrong)) == (True, False)


def test_a_host_that_was_refused_may_be_allowed_later() -> None:
    allowed = AllowedHosts(["a.example"])
    assert not allowed.has(b"b.example")
    allowed.add(["b.example"])
    assert allowed.has(b"b.example")
    assert allowed.has(b"a.example")


SCOPE = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}


async def ignored(message: Any) -> None:
    pass


async def shown(scope: Any, receive: Any, send: Any) -> None:
    """Answer with what came through the door."""
    names = ("method", "path", "query_string")
    content = json.dumps([str(scope.get(name)) for name in names]).encode()
    if scope["type"] == "http":
        headers = [(b"x-own", b"1"), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def test_another_application_may_have_hosts_too() -> None:
    guarded = Hosts(shown, AllowedHosts(["localhost"]))
    assert ask(guarded, b"/a").status == 200
    refused = ask(guarded, b"/a", host=b"evil.example")
    assert refused.status == 400
    assert "evil.example" in json.loads(refused.body)["error"]
    assert set(SENT) <= set(refused.headers)


def test_the_start_of_a_service_has_no_host() -> None:
    with client(model(), allow_hosts=["testserver"]) as asked:
        assert asked.get("/health").status_code == 200
        assert asked.get("/health", headers={"host": "other"}).status_code == 400


def door(application: Any = shown, **limits: Any) -> Any:
    return Door(application, AllowedHosts(), Limits(**limits), Measures())


def test_head_is_answered_as_get_without_the_body() -> None:
    get, head = (ask(door(), b"/a", method=method) for method in ("GET", "HEAD"))
    assert json.loads(get.body) == ["GET", "/a", "b''"]
    assert (head.status, head.headers, head.body) == (200, get.headers, b"")
    assert get.headers[0] == (b"x-own", b"1")
    assert get.headers[2:] == SENT


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        (b"/a%2Fb?n=1", b"n=1", ["/a%2Fb", "b'n=1'"]),
        (b"/zo\xc3\xab", b"a=\xc3\xab", ["/zo%C3%AB", "b'a=%C3%AB'"]),
        (b"/\x7f\x80\xff", b"\x80", ["/\x7f%80%FF", "b'%80'"]),
        (b"/%zz", b"%zz", ["/%zz", "b'%zz'"]),
    ],
)
def test_paths_and_queries_are_as_they_were_sent(path: bytes, query: bytes, expected: Any) -> None:
    assert json.loads(ask(door(), path, query).body)[1:] == expected


@pytest.mark.parametrize(
    ("scope", "path"),
    [
        ({"raw_path": b"/b%20c"}, "/b%20c"),
        ({"path": "/b c"}, "/b c"),
        ({"raw_path": b"/@a/b%20c", "root_path": "/@a"}, "/@a/b%20c"),
        ({"raw_path": b"/%40a/b%20c", "root_path": "/@a"}, "/@a/b%20c"),
        ({"raw_path": b"/%C3%A9/b%20c", "root_path": "/\xe9"}, "/\xe9/b%20c"),
    ],
)
def test_a_path_begins_with_where_the_application_is_mounted(
    scope: dict[str, Any], path: str
) -> None:
    seen: list[str] = []

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["path"])

    asyncio.run(door(noting)({**SCOPE, **scope}, None, ignored))
    assert seen == [path]


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("POST", {"content-length": "10"}, 200),
        ("POST", {"content-length": "11"}, 413),
        ("POST", {"content-length": "0" * 17 + "9"}, 200),
        ("POST", {"content-length": "0" * 18 + "9"}, 413),
        ("POST", {"content-length": "-1"}, 413),
        ("POST", {"content-length": ""}, 413),
        ("POST", {"transfer-encoding": "chunked"}, 200),
        ("GET", {"content-length": "0"}, 200),
        ("GET", {"content-length": "1"}, 422),
        ("GET", {"transfer-encoding": "chunked"}, 422),
        ("HEAD", {"content-length": "1"}, 422),
    ],
)
def test_a_body_is_judged_by_what_is_declared(
    method: str, headers: dict[str, str], status: int
) -> None:
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    answer = ask(door(max_body=10), b"/", method=method, headers=sent)
    assert answer.status == status
    if status == 413:
        assert "at most 10 bytes" in json.loads(answer.body)["error"]
    assert dict(answer.headers)[b"x-content-type-options"] == b"nosniff"


def test_bodies_are_limited_with_and_without_their_length() -> None:
    small = client(model(), limits=serving.Limits(max_body=100))

    def chunks() -> Any:
        yield from [b"x" * 60] * 3

    for content in (b"x" * 101, chunks()):
        answer = small.post("/recommend", content=content)
        assert answer.status_code == 413
        assert "at most 100 bytes" in answer.json()["error"]


@pytest.mark.parametrize(("more", "status"), [(0, 200), (1, 413)])
@pytest.mark.parametrize("n_chunks", [1, 2, 3])
def test_all_chunks_of_a_body_count(n_chunks: int, more: int, status: int) -> None:
    small = serving.app(model(), limits=serving.Limits(max_body=120))
    body = json.dumps({"users": [USER], "n": 3}).encode().ljust(120 + more)
    size = -(-len(body) // n_chunks)  # each chunk alone is below the limit
    chunks = [body[begin : begin + size] for begin in range(0, len(body), size)]
    headers = [(b"content-type", b"application/json"), (b"transfer-encoding", b"chunked")]
    answer = ask(small, b"/recommend", method="POST", headers=headers, body=chunks)
    assert answer.status == status


def test_what_is_no_request_goes_through() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def call() -> None:
        passed = door()
        await passed({"type": "websocket", "headers": []}, None, send)
        assert "requests_total{" not in text_of(passed)

    asyncio.run(call())
    assert sent[0]["type"] == "http.response.body"


def text_of(passed: Door) -> str:
    live: Any = SimpleNamespace(name=None, current=model(), since=0.0, loads=0, failures=0)
    return passed.measures.text(live)


def test_an_answer_that_never_began_is_counted_as_a_fault() -> None:
    async def failing(*_: Any) -> None:
        await asyncio.sleep(0.02)
        raise RuntimeError("inside")

    passed = door(failing)
    with pytest.raises(RuntimeError, match="inside"):
        ask(passed, b"/")
    told = text_of(passed)
    assert 'requests_total{route="none",method="GET",status="500"} 1\n' in told
    assert "requests_in_progress 0\n" in told
    seconds = float(told.split('seconds_sum{route="none"} ')[1].split("\n")[0])
    assert 0.01 < seconds < 60


@pytest.mark.parametrize("has_begun", [False, True])
def test_an_answer_that_stalls_is_cut_off(has_begun: bool) -> None:
    async def stalling(scope: Any, receive: Any, send: Any) -> None:
        if has_begun:
            await send({"type": "http.response.start", "status": 200})
        await asyncio.Event().wait()

    measures, left = Measures(), []

    async def noting(*request: Any) -> None:
        try:
            await Door(stalling, AllowedHosts(), Limits(max_seconds=0.05), measures)(*request)
        finally:
            task = asyncio.current_task()
            left.append(task and task.cancelling())

    if has_begun:
        with pytest.raises(TimeoutError):
            ask(noting, b"/")
    else:
        answer = ask(noting, b"/")
        assert (answer.status, dict(answer.headers)[b"retry-after"]) == (503, b"1")
    assert (left, measures.in_progress) == ([0], 0)  # nothing else ends with it


def test_a_request_that_has_been_answered_is_not_too_late() -> None:
    async def call() -> None:
        passed = door(max_seconds=0.02)
        await passed(SCOPE, None, ignored)
        await asyncio.sleep(0.06)  # would be cancelled here

    asyncio.run(call())


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_request_whose_service_ends_is_told_so_if_it_can_be(has_begun: bool) -> None:
    sent: list[Any] = []

    async def stalling(scope: Any, receive: Any, send: Any) -> None:
        if has_begun:
            await send({"type": "http.response.start", "status": 200})
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    async def call() -> None:
        asked = asyncio.create_task(door(stalling)(SCOPE, None, send))
        await asyncio.sleep(0.01)
        asked.cancel()
        if has_begun:
            with pytest.raises(asyncio.CancelledError):
                await asked
        else:
            await asked

    asyncio.run(call())
    assert sent[0]["status"] == (200 if has_begun else 503)
    if not has_begun:
        assert "being stopped" in json.loads(sent[1]["body"])["error"]
