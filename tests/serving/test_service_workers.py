"""Several processes of one service: they answer as one, also while one of them is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from clients import model, named, other, wait_for

from mfrank import serving
from mfrank.serving.workers import check_shareable
from tests.support.errors import refuses

httpx2 = pytest.importorskip("httpx2")
pytest.importorskip("prometheus_client", reason="needs it: pip install mfrank[serve]")
pytestmark = pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs POSIX")

USER, ITEM = str(named().user_ids.labels[-1]), str(named().item_ids.labels[0])


class Service(NamedTuple):
    """A process of ``mfrank serve`` with two workers."""

    process: subprocess.Popen[str]
    address: str
    folder: Path

    def get(self, path: str) -> Any:
        """An answer over a connection of its own."""
        return httpx2.get(self.address + path, timeout=60)

    def metric(self, name: str) -> float:
        """A sum over all workers."""
        lines = self.get("/metrics").text.splitlines()
        return sum(float(each.split()[-1]) for each in lines if each.startswith(f"mfrank_{name}"))

    def workers(self) -> set[int]:
        """The processes that answer."""
        own, found = str(self.process.pid), set[int]()
        for each in Path("/proc").glob("[0-9]*"):
            try:
                parent = (each / "stat").read_text().rpartition(")")[2].split()[1]
                if parent == own and b"spawn_main" in (each / "cmdline").read_bytes():
                    found.add(int(each.name))
            except OSError:  # it has ended
                continue
        return found


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("workers")
    model().save(folder / "model")
    options = {"journal": "journal", "remember-shown": "1h", "shown-file": "shown", "log": "log"}
    command = [sys.executable, "-m", "mfrank", "serve", "model", "--port", "0", "--workers", "2"]
    command += [word for name, value in options.items() for word in (f"--{name}", value)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
    )
    try:
        found = re.match(r"(http://127\.0\.0\.1:\d+)/", process.stdout.readline())  # type: ignore[union-attr]
        assert found, process.stderr.read()  # type: ignore[union-attr]
        running = Service(process, found[1], folder)
        wait_for(lambda: running.metric("workers") == 2, 60)
        yield running
    finally:
        process.kill()  # its workers end when it is gone
        process.communicate()


def test_a_killed_worker_fails_no_request_of_others_and_is_begun_anew(service: Service) -> None:
    before = service.workers()
    assert len(before) == 2
    killed = min(before)
    os.kill(killed, signal.SIGKILL)
    for _ in range(20):  # each over a connection of its own, which the dead one cannot accept
        assert service.get(f"/recommend/{USER}?remember=false").status_code == 200
    wait_for(lambda: service.metric("workers") == 2, 60)
    after = service.workers()
    assert len(after) == 2
    assert killed not in after
    assert before - {killed} < after


def test_what_all_workers_do_is_counted_together_and_written_in_whole_lines(
    service: Service,
) -> None:
    def counted() -> float:
        return service.metric('requests_total{method="GET",route="/similar/{item}",status="200"}')

    def lines() -> list[dict[str, Any]]:
        written = (service.folder / "log").read_text().splitlines()
        return [each for each in map(json.loads, written) if each["route"] == "/similar/{item}"]

    with ThreadPoolExecutor(8) as threads:
        asked = threads.map(service.get, [f"/similar/{ITEM}"] * 40)
    assert {each.status_code for each in asked} == {200}
    wait_for(lambda: len(lines()) == 40, 60)
    assert counted() == 40


def test_events_and_what_was_shown_are_those_of_all_workers(service: Service) -> None:
    def send(number: int) -> int:
        event = {"user": "somebody", "item": ITEM, "id": f"event-{number}"}
        url = service.address + "/events"
        return int(httpx2.post(url, json={"events": [event]}, timeout=60).status_code)

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(send, [*range(20), *range(20)])) == {200}
    with serving.EventJournal(service.folder / "journal") as journal:
        assert journal.n_events(0, journal.last) == 20
    shown = [
        each["id"]
        for _ in range(6)
        for each in service.get(f"/recommend/{USER}?n=2").json()["items"]
    ]
    assert len(shown) == len(set(shown)) > 2


def test_all_workers_follow_the_folder_and_pages_go_on_in_any_of_them(service: Service) -> None:
    path = f"/recommend/{USER}?n=2&offset=0&remember=false"
    whole = service.get(f"/recommend/{USER}?n=6&remember=false").json()["items"]
    page = service.get(path).json()
    old = service.get("/health").json()["version"]

    def versions() -> set[str]:
        return {service.get("/health").json()["version"] for _ in range(8)}

    other().save(service.folder / "model")
    service.process.send_signal(signal.SIGHUP)
    wait_for(lambda: old not in versions(), 120)
    items = page["items"]
    while page["next"] and len(items) < 6:
        page = service.get(f"/recommend/{USER}?cursor={page['next']}").json()
        items += page["items"]
    assert items == whole[: len(items)]
    assert len(items) > 2
    assert len(versions()) == 1


def test_they_end_in_order_together(service: Service) -> None:
    service.process.send_signal(signal.SIGTERM)
    assert service.process.wait(30) == 0
    assert not service.workers()
    with pytest.raises(httpx2.TransportError):
        service.get("/health")
    told = service.process.stderr.read()  # type: ignore[union-attr]
    assert "Traceback" not in told
    assert told.count("another one begins") == 1


def test_the_error_of_a_worker_is_raised_where_it_was_begun(tmp_path: Path) -> None:
    model().save(tmp_path / "model")
    make = partial(serving.app, tmp_path / "model", remember_shown=60)
    with refuses(ValueError, "remember_shown", remedy="shown_file"):
        serving.run(make, port=0, workers=2)


def test_what_several_processes_cannot_do_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with refuses(TypeError, "application", remedy="functools.partial"):
        serving.run(serving.app(model()), port=0, workers=2)
    with refuses(TypeError, "application"):
        serving.run(lambda: serving.app(model()), port=0, workers=2)
    for wrong in (0, -1, 257):
        with refuses(ValueError, "workers"):
            serving.run(partial(serving.app, tmp_path), port=0, workers=wrong)
    with refuses(ValueError, "workers", remedy="folder"):
        check_shareable(serving.app(model()))
    model().save(tmp_path / "model")
    shown = tmp_path / "shown.sqlite"
    check_shareable(serving.app(tmp_path / "model", remember_shown=60, shown_file=shown))
