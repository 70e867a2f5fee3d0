"""Signals to a service at any moment: while it starts, reloads, answers, ends, or is another's."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clients import model, named
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from mfrank import serving
from mfrank.serving import live_model, signals
from mfrank.serving.live_model import LiveModel
from mfrank.serving.signals import end_soon, handled
from tests.support.errors import refuses

httpx2 = pytest.importorskip("httpx2")
uvicorn = pytest.importorskip("uvicorn", reason="needs uvicorn: pip install mfrank[serve]")
pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no SIGHUP")

USER = str(named().user_ids.labels[-1])

TERM, INT = signal.SIGTERM, signal.SIGINT
HUP: Any = getattr(signal, "SIGHUP", None)


def test_two_signals_during_a_reload_are_one_more_reload(tmp_path: Path, monkeypatch) -> None:
    model().save(tmp_path / "model")
    live = LiveModel(tmp_path / "model")
    begun, goes_on = threading.Semaphore(0), threading.Semaphore(0)
    load, done = live_model.load, threading.Event()

    def loaded(*args: Any, **how: Any) -> Any:
        begun.release()
        goes_on.acquire()
        return load(*args, **how)

    def ended(which: LiveModel, **_: Any) -> None:
        if which is live:  # others may still be watched
            done.set()

    monkeypatch.setattr(live_model, "load", loaded)
    before = set(threading.enumerate())
    with handled(live):
        signal.raise_signal(HUP)
        live.watch(60)
        assert begun.acquire(timeout=10)
        signal.raise_signal(HUP)
        signal.raise_signal(HUP)
        goes_on.release()
        assert begun.acquire(timeout=10)
        goes_on.release()
        monkeypatch.setattr(LiveModel, "refresh", ended)  # a third would be this
        live.stop()
        for thread in set(threading.enumerate()) - before:
            thread.join(10)
        signal.raise_signal(HUP)  # after the end: nothing is left that could answer it
    assert live.loads == 2
    assert not done.is_set()


def handlers() -> list[Any]:
    return [signal.getsignal(each) for each in (TERM, HUP, INT)]


def of_the_host(*_: Any) -> None:
    """A handler that a program has set for itself."""


@pytest.fixture
def running(monkeypatch) -> list[list[Any]]:
    """The handlers that there are while a server runs, which ends at once."""
    seen = list[list[Any]]()
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: seen.append(handlers()))
    return seen


def test_handlers_are_set_while_a_service_runs_and_put_back(running, tmp_path: Path) -> None:
    model().save(tmp_path / "model")
    before = handlers()
    serving.run(serving.app(tmp_path / "model"), port=0)
    assert handlers() == before
    assert running[0][0] != before[0]
    assert running[0][1] != before[1]
    with refuses(ValueError, "port"):
        serving.run(serving.app(model()), port=-1)
    assert handlers() == before


def test_a_program_keeps_its_own_handlers(running) -> None:
    before = [signal.signal(each, of_the_host) for each in (TERM, HUP)]
    try:
        serving.run(serving.app(model()), port=0)
        assert running[0][:2] == handlers()[:2] == [of_the_host, of_the_host]
    finally:
        for each, handler in zip((TERM, HUP), before, strict=True):
            signal.signal(each, handler)


def test_a_service_in_a_thread_sets_none(running) -> None:
    before = handlers()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(serving.run, serving.app(model()), port=0).result(60)
    assert running == [before]


def test_an_application_in_another_server_sets_none(tmp_path: Path) -> None:
    model().save(tmp_path / "model")
    before = handlers()
    inner = serving.app(tmp_path / "model")
    with TestClient(Starlette(routes=[Mount("/shop", app=inner)])) as asked:
        assert asked.get(f"/shop/recommend/{USER}").status_code == 200
        assert handlers() == before
    with TestClient(inner) as asked:
        assert asked.get("/health").status_code == 200
        assert handlers() == before
    assert handlers() == before
    inner.state.live.stop()


@pytest.fixture
def put_back() -> Iterator[None]:
    """The handlers of the tests' own process are what they were."""
    before = handlers()
    yield
    for each, handler in zip((TERM, HUP, INT), before, strict=True):
        signal.signal(each, handler)


def loads() -> tuple[Any, list[int]]:
    """In the place of a model that is loaded anew, and what it was told."""
    told = list[int]()
    return SimpleNamespace(look_now=lambda: told.append(1)), told


def test_a_reload_that_is_asked_for_before_there_is_a_model_is_kept_for_it() -> None:
    before, (live, told) = handlers(), loads()
    with handled(starting=True):
        signal.raise_signal(HUP)
        signal.raise_signal(HUP)
        with handled(live):
            assert told == [1]
            signal.raise_signal(HUP)
            assert told == [1, 1]
        signal.raise_signal(HUP)  # the service has ended, but not yet the process
    assert handlers() == before
    live, told = loads()
    with handled(starting=True), handled(live):
        assert not told
        signal.raise_signal(HUP)
        assert told == [1]


def test_a_reload_is_of_no_interest_where_there_is_no_model() -> None:
    before = handlers()
    with handled():
        assert handlers()[0] != before[0]
        assert handlers()[1:] == before[1:]
    assert handlers() == before


@pytest.mark.parametrize("usual", [signal.SIG_DFL, signal.SIG_IGN])
def test_what_is_ignored_is_heard_and_ignored_again(usual: Any, put_back: None) -> None:
    """So a process that nohup began."""
    live, told = loads()
    signal.signal(TERM, usual)
    signal.signal(HUP, usual)
    with handled(live):
        signal.raise_signal(HUP)
        assert told == [1]
    assert handlers()[:2] == [usual, usual]


def test_the_end_is_announced_to_all_threads_and_is_not_put_off(
    monkeypatch: pytest.MonkeyPatch, put_back: None
) -> None:
    ended, slept = queue.Queue[Any](), list[float]()

    def leave(code: int) -> None:
        ended.put((code, threading.current_thread().daemon))

    def write(to: int, text: bytes) -> None:
        ended.put((to, text.decode()))

    monkeypatch.setattr(signals, "time", SimpleNamespace(sleep=slept.append))
    monkeypatch.setattr(signals, "os", SimpleNamespace(_exit=leave, write=write))
    with pytest.raises(SystemExit) as left, handled():
        signal.raise_signal(TERM)
    assert left.value.code == 0
    assert ended.get(timeout=10)[0] == 2
    assert ended.get(timeout=10) == (0, True)  # a thread that does not keep the process
    assert handlers() == [signal.SIG_IGN] * 3
    end_soon(130)
    assert "the service ends" in ended.get(timeout=10)[1]
    assert ended.get(timeout=10) == (130, True)
    assert slept == [5.0] * 2
