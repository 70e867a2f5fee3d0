"""Connections are limited in number, in the size of headers, and in the time that they take."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from clients import model, named

from mfrank import pages, serving

uvicorn = pytest.importorskip("uvicorn", reason="needs uvicorn: pip install mfrank[serve]")
connections = pytest.importorskip("mfrank.serving.connections")
running = pytest.importorskip("mfrank.serving.running")

USER = str(named().user_ids.labels[-1])
GET = f"GET /recommend/{USER} HTTP/1.1\r\nhost: localhost\r\n".encode()
POST = b"POST /recommend HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"


@contextmanager
def listening(application: Any) -> Iterator[int]:
    """A service in a thread, as ``mfrank serve`` runs it, and its port."""
    with socket.create_server(("127.0.0.1", 0)) as place:
        server = uvicorn.Server(running.configured(application, "127.0.0.1"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]})
        thread.start()
        try:
            yield place.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(20)
        assert not thread.is_alive()


def served(**limits: Any) -> Any:
    return listening(serving.app(model(), limits=serving.Limits(**limits)))


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def told(connection: socket.socket) -> bytes:
    """All that is answered until the service closes the connection."""
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def answered(connection: socket.socket) -> tuple[int, bytes]:
    """One answer on a connection that stays open."""
    read = b""
    while b"\r\n\r\n" not in read:
        part = connection.recv(1 << 16)
        assert part, read
        read += part
    head, _, body = read.partition(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head)[1])  # type: ignore[index]
    while len(body) < length:
        body += connection.recv(1 << 16)
    return int(head[9:12]), body


def status(answer: bytes) -> int:
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    return int(answer[9:12])


@pytest.mark.parametrize("begun", [b"", b"\r\n", b"G", GET, GET + b"x-odd: "])
def test_headers_that_do_not_arrive_end_the_connection(begun: bytes) -> None:
    with served(max_header_seconds=0.1) as port, connected(port) as asking:
        asking.sendall(begun)
        answer = told(asking)
        assert status(answer) == 408 if begun else answer == b""


def test_headers_that_drip_have_no_more_time() -> None:
    with served(max_header_seconds=0.3) as port, connected(port) as asking:
        asking.sendall(HEALTH)
        assert answered(asking)[0] == 200
        for _ in range(100):
            try:
                asking.sendall(b"a" if _ else b"GET /")
                asking.settimeout(0.02)
                answer = asking.recv(1 << 16)
                break
            except TimeoutError:
                continue
        else:
            pytest.fail("it waited on")
        assert answer.startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("size", [900, 70_000, 2_000_000])
@pytest.mark.parametrize("where", ["url", "name", "value", "many"])
def test_headers_are_limited_in_bytes(where: str, size: int) -> None:
    text = b"a" * size
    request = {
        "url": b"GET /" + text + b" HTTP/1.1\r\nhost: localhost\r\n",
        "name": GET + text + b": 1\r\n",
        "value": GET + b"x: " + text + b"\r\n",
        "many": GET + b"x: 1\r\n" * (size // 6 + 1),
    }[where]
    with served(max_headers=800) as port, connected(port) as asking:
        try:
            asking.sendall(request + b"\r\n")
            answer = told(asking)
        except ConnectionError:  # it was refused before all of it was sent
            assert size > 10_000
        else:
            assert status(answer) == 431


def test_a_long_body_is_not_counted_to_the_headers() -> None:
    body = json.dumps({"users": [USER], "filter_items": named().item_ids.labels[:9].tolist()})
    head = f"POST /recommend HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
    head += "content-type: application/json\r\n\r\n"
    with served(max_headers=120) as port, connected(port) as asking:
        for _ in range(3):
            asking.sendall((head + body).encode())
            assert answered(asking)[0] == 200
        asking.sendall(HEALTH * 3)  # at once, before the first is answered
        read = b""
        while read.count(b"HTTP/1.1 200") < 3:
            read += asking.recv(1 << 16)


def test_connections_are_limited_and_free_again() -> None:
    with served(max_connections=3) as port, ExitStack() as open_ones:
        kept = [open_ones.enter_context(connected(port)) for _ in range(3)]
        for each in kept:
            each.sendall(HEALTH)
            assert answered(each)[0] == 200
        with connected(port) as one_more:
            assert status(told(one_more)) == 503
        kept[0].sendall(HEALTH)
        assert answered(kept[0])[0] == 200
        kept.pop().close()
        for _ in range(100):
            with connected(port) as later:
                later.sendall(HEALTH)
                if answered(later)[0] == 200:
                    break
        else:
            pytest.fail("no place became free")


def test_a_body_that_nobody_reads_does_not_hold_a_connection(monkeypatch: Any) -> None:
    monkeypatch.setattr(connections, "_REST", 0.1)
    with served(max_body=100) as port, connected(port) as asking:
        asking.sendall(
            b"POST /recommend HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n"
        )
        assert answered(asking)[0] == 413
        assert told(asking) == b""
    with served(max_body=100) as port, connected(port) as asking:
        asking.sendall(
            b"POST /recommend HTTP/1.1\r\nhost: localhost\r\ncontent-length: 200\r\n\r\n"
        )
        assert answered(asking)[0] == 413
        asking.sendall(b"x" * 200 + HEALTH)  # the rest, and the next request
        assert answered(asking)[0] == 200


def test_an_answer_that_nobody_reads_does_not_hold_a_connection(monkeypatch: Any) -> None:
    monkeypatch.setattr(connections, "_STALLED", 0.1)
    lost = threading.Event()
    own = connections.LimitedConnection.connection_lost

    def connection_lost(self: Any, exc: Any) -> None:
        own(self, exc)
        lost.set()

    monkeypatch.setattr(connections.LimitedConnection, "connection_lost", connection_lost)
    body = json.dumps({"users": [USER] * 1000, "n": 20}).encode()
    head = b"POST /recommend HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    request = head + b"content-length: %d\r\n\r\n" % len(body) + body
    with served() as port:
        asking = socket.socket()
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        asking.settimeout(10)
        asking.connect(("127.0.0.1", port))
        with asking:
            asking.sendall(request * 12)  # more than the buffers of both ends hold of answers
            assert lost.wait(10)


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"nonsense\r\n\r\n"])
def test_what_is_no_http_is_refused_as_json(sent: bytes) -> None:
    with served() as port, connected(port) as asking:
        asking.sendall(sent)
        assert status(told(asking)) == 400


def test_pages_have_the_same_limits(monkeypatch: Any) -> None:
    with listening(pages.app({"one": model()})) as port:
        with connected(port) as asking:
            asking.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 100_000)
            assert status(told(asking)) == 431
        with connected(port) as asking:
            asking.sendall(b"GET / HTTP/1.1\r\nhost: evil.example\r\n\r\n")
            assert answered(asking)[0] == 400
        with connected(port) as asking:
            asking.sendall(b"GET / HTTP/1.1\r\nhost: [::1]:80\r\n\r\n")
            assert answered(asking)[0] == 200
