"""A newer model takes over without a request that fails; a process stops when it has answered."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clients import client, model, named

import mfrank
from mfrank.cli.main import main
from mfrank.files.manifest import MANIFEST
from mfrank.serving.live_model import LiveModel

httpx2 = pytest.importorskip("httpx2")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install mfrank[serve]")


def other() -> mfrank.ALS:
    return mfrank.ALS(mfrank.IALS(), factors=2, iterations=1, random_state=5).fit(named())


def wait_for(what: Any, seconds: float = 10) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.01)


def test_a_newer_model_answers_and_no_request_fails(tmp_path: Path) -> None:
    model().save(tmp_path / "model")
    user = str(named().user_ids.labels[-1])
    with client(tmp_path / "model", reload_seconds=0.02) as asked:
        statuses, done = [], threading.Event()

        def keep_asking() -> None:
            while not done.is_set():
                statuses.append(asked.get(f"/recommend/{user}").status_code)

        asking = threading.Thread(target=keep_asking)
        asking.start()
        try:
            for turn in range(1, 4):
                (other() if turn % 2 else model()).save(tmp_path / "model")
                wait_for(lambda turn=turn: asked.get("/health").json()["reloads"] >= turn)
        finally:
            done.set()
            asking.join()
        assert set(statuses) == {200}
        expected = other().recommend(user).ids.tolist()
        listed = asked.get(f"/recommend/{user}").json()["items"]
        assert [each["id"] for each in listed] == expected


def test_a_damaged_folder_leaves_the_old_model(tmp_path: Path) -> None:
    model().save(tmp_path / "model")
    live = LiveModel(tmp_path / "model")
    before = live.current
    (tmp_path / "model" / MANIFEST).write_text("{")
    live.refresh()
    live.refresh()
    assert live.current is before
    assert (live.loads, live.failures) == (0, 1)
    (tmp_path / "model" / MANIFEST).unlink()
    live.refresh()
    assert live.current is before


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a fitted model or a folder"):
        LiveModel(3)  # type: ignore[arg-type]
    with pytest.raises((ValueError, OSError)):
        LiveModel(tmp_path)
    assert main(["serve", str(tmp_path / "none")]) == 2


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


def test_a_port_that_is_taken_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model().save(tmp_path / "model")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(tmp_path / "model"), "--port", str(port)]) == 1
    assert f"cannot listen on 127.0.0.1, port {port}" in capsys.readouterr().err
    assert main(["serve", str(tmp_path / "model"), "--port", "70000"]) == 2
    assert "port must be" in capsys.readouterr().err


def answers(address: str) -> bool:
    try:
        return bool(httpx2.get(address + "/health").status_code == 200)
    except httpx2.TransportError:
        return False


def test_without_the_packages_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model().save(tmp_path / "model")
    for name in [name for name in sys.modules if name.startswith("mfrank.serving.")]:
        if name.rpartition(".")[2] not in ("extras", "limits"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert main(["serve", str(tmp_path / "model")]) == 1
    assert "pip install mfrank[serve]" in capsys.readouterr().err
