"""A process of ``mfrank serve``: it reloads, answers at once, and ends in order, at any moment."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from clients import model, named, other, wait_for

httpx2 = pytest.importorskip("httpx2")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install mfrank[serve]")
pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no SIGHUP")

USER = str(named().user_ids.labels[-1])


def answers(address: str) -> bool:
    try:
        return bool(httpx2.get(address + "/health").status_code == 200)
    except httpx2.TransportError:
        return False


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process of ``mfrank serve`` on a free port, and its address."""
    model().save(tmp_path / "model")
    command = [sys.executable, "-m", "mfrank", "serve", str(tmp_path / "model"), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        found = re.match(r"(http://127\.0\.0\.1:\d+)/", process.stdout.readline())  # type: ignore[union-attr]
        assert found, process.stderr.read()  # type: ignore[union-attr]
        yield process, found[1]
    finally:
        process.kill()
        process.communicate()


def test_a_process_serves_reloads_on_sighup_and_ends_in_order(
    served: tuple[subprocess.Popen[str], str], tmp_path: Path
) -> None:
    process, address = served
    wait_for(lambda: answers(address))
    assert httpx2.get(address + "/health", headers={"host": "evil.example"}).status_code == 400
    other().save(tmp_path / "model")
    process.send_signal(signal.SIGHUP)
    wait_for(lambda: httpx2.get(address + "/health").json()["reloads"] == 1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    assert process.stderr.read() in ("", f"mfrank: {tmp_path / 'model'}: a newer model answers\n")  # type: ignore[union-attr]


def test_answers_over_an_open_connection_do_not_wait_for_acknowledgements(
    served: tuple[subprocess.Popen[str], str],
) -> None:
    """Nagle's algorithm would hold back the body of each answer for 40 ms."""
    with httpx2.Client(base_url=served[1]) as asking:
        taken = []
        for _ in range(20):
            began = time.perf_counter()
            assert asking.get("/health").status_code == 200
            taken.append(time.perf_counter() - began)
    assert min(taken[1:]) < 0.03


def test_a_request_that_has_begun_is_answered_before_the_end(
    served: tuple[subprocess.Popen[str], str],
) -> None:
    process, address = served
    wait_for(lambda: answers(address))
    body = b'{"users": []}'
    head = b"POST /recommend HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as asking:
        asking.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body[:5])
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        assert not answers(address)  # nobody new is let in
        asking.sendall(body[5:])
        told = b""
        while not told.endswith(b'{"lists":[]}'):
            part = asking.recv(4096)
            assert part, told
            told += part
    assert told.startswith(b"HTTP/1.1 200")
    assert process.wait(10) == 0


SERVICE = """
import os, sys, time
sys.path.insert(0, {support!r})
from clients import model
import mfrank
from mfrank import serving
from mfrank.serving import running, signals

class Deep(mfrank.Recommender):
    is_armed = False
    def recommend(self, userid, *args, **options):
        if self.is_armed:
            os.write(1, b"begun\\n")  # whole, whichever thread it is of
            time.sleep(600)  # as in a kernel, which does not look at the time
        return super().recommend(userid, *args, **options)

deep = Deep()
deep._hold(model().store, model().seen.checked)
application = serving.app(deep)
deep.is_armed = True
running._GRACE, signals._LAST = 1, 0.2
serving.run(application, port=0)
"""


def test_work_does_not_outlive_the_end_of_the_service() -> None:
    support = str(Path(__file__).parents[1] / "support")
    process = subprocess.Popen(
        [sys.executable, "-c", SERVICE.format(support=support)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process, ThreadPoolExecutor(2) as pool:
        try:
            found = re.match(r"(http://\S+:\d+)/", process.stdout.readline())
            assert found, process.stderr.read()
            url, batch = found[1] + "/recommend", {"users": [USER]}
            sent = [
                pool.submit(httpx2.post, url, json=batch, timeout=60),
                pool.submit(httpx2.get, f"{url}/{USER}", timeout=60),
            ]
            for _ in sent:
                assert process.stdout.readline() == "begun\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, process.stderr.read()
            assert [each.result(60).status_code for each in sent] == [503, 503]
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()


# Signals at any moment: while it starts, answers or ends.

TERM, INT = signal.SIGTERM, signal.SIGINT
HUP: Any = getattr(signal, "SIGHUP", None)

WAITING = """
import sys, time
from mfrank.cli.main import main
from mfrank.serving import live_model, running, signals
running._GRACE, signals._LAST = {grace}, {last}
load, loads = live_model.load, []

def wait(what):
    print(what, flush=True)
    return sys.stdin.readline()

def loaded(*args, **how):
    loads.append(0)
    if {moment!r} == "start":
        wait("loading")
    model = load(*args, **how)
    asked = []
    recommend = type(model).recommend

    class Waiting(type(model)):
        def recommend(self, *args, **how):
            asked.append(0)
            if len(asked) > 2 and len(loads) == 1 and {moment!r} == "answer":  # it is asked twice
                if wait("asked") == "sleep\\n":
                    time.sleep(600)  # as in a kernel
            return recommend(self, *args, **how)

    model.__class__ = Waiting
    return model

live_model.load = loaded
sys.exit(main(["serve", {folder!r}, "--port", "0"]))
"""


class Service:
    """A process of ``mfrank serve`` that waits at a moment until it is told to go on."""

    def __init__(self, folder: Path, moment: str, grace: float = 10, last: float = 5) -> None:
        code = WAITING.format(folder=str(folder), moment=moment, grace=grace, last=last)
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen([sys.executable, "-c", code], text=True, **pipes)

    def line(self) -> str:
        """The next line that it prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        return line.strip()

    def address(self) -> str:
        """Where it listens, when it does."""
        found = re.match(r"http://127\.0\.0\.1:\d+", self.line())
        assert found
        return found[0]

    def goes_on(self, how: str = "") -> None:
        """End the wait."""
        assert self.process.stdin is not None
        self.process.stdin.write(how + "\n")
        self.process.stdin.flush()

    def gets(self, *signals: signal.Signals) -> None:
        """Send signals, one after the other."""
        for each in signals:
            self.process.send_signal(each)

    def ended(self) -> tuple[int, str]:
        """How it ended: the exit code, and what it printed on stderr."""
        told = self.process.communicate(timeout=60)[1]
        return self.process.returncode, told


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    model().save(tmp_path / "model")
    started = list[Service]()

    def begin(moment: str, **how: Any) -> Service:
        started.append(Service(tmp_path / "model", moment, **how))
        return started[-1]

    yield begin
    for service in started:
        service.process.kill()
        service.process.communicate()


@pytest.mark.parametrize(("signals", "code"), [([INT], 130), ([HUP, TERM, TERM], 0)])
def test_a_service_that_is_still_loading_ends(start, signals: list[Any], code: int) -> None:
    service = start("start")
    assert service.line() == "loading"
    service.gets(*signals)
    ended, told = service.ended()
    assert ended == code
    assert "Traceback" not in told


def test_a_reload_that_comes_during_the_start_is_done_after_it(start) -> None:
    service = start("start")
    assert service.line() == "loading"
    service.gets(HUP, HUP)
    service.goes_on()
    address = service.address()
    assert service.line() == "loading"  # again, once for both
    service.goes_on()
    while httpx2.get(address + "/health").json()["reloads"] != 1:
        pass
    service.gets(TERM)
    code, told = service.ended()
    assert code == 0
    assert told.count("a newer model answers") == 1


@pytest.mark.parametrize("signals", [[TERM], [TERM, HUP], [HUP, TERM, HUP], [TERM, TERM, HUP]])
def test_what_has_begun_is_answered_whatever_comes_meanwhile(start, signals: list[Any]) -> None:
    service = start("answer")
    url = f"{service.address()}/recommend/{USER}"
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(httpx2.get, url, timeout=60)
        assert service.line() == "asked"
        service.gets(*signals)
        service.goes_on()
        assert asked.result(60).status_code == 200
    code, told = service.ended()
    assert code == 0
    assert "Traceback" not in told


@pytest.mark.parametrize(("first", "later"), [(TERM, [HUP, INT, TERM]), (INT, [TERM, HUP])])
def test_the_end_does_not_wait_for_a_thread_nor_stops_halfway(
    start, first: signal.Signals, later: list[Any]
) -> None:
    service = start("answer", grace=0.2, last=0.5)
    url = f"{service.address()}/recommend/{USER}"
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(httpx2.get, url, timeout=60)
        assert service.line() == "asked"
        service.goes_on("sleep")
        service.gets(first)
        with contextlib.suppress(httpx2.HTTPError):  # what is cut off has no answer
            assert asked.result(60).status_code == 503
        service.gets(*later)
    ended, told = service.ended()
    # uvicorn raises those that come while it ends: the last one that it sees says the code
    assert ended in (0, 130)
    assert "the service ends before a thread" in told
    assert "Traceback" not in told
