"""How an application is put together and run: what it answers for, and where it listens."""

from __future__ import annotations

import errno
import io
import os
import socket
import sys
import threading
from typing import Any

import pytest
from clients import ask, client, model, named
from fastapi import FastAPI

from mfrank import serving
from mfrank.arrays import usable_cores
from mfrank.serving.limits import Limits
from mfrank.serving.live_model import LiveModel
from tests.support.errors import refuses

uvicorn = pytest.importorskip("uvicorn", reason="needs uvicorn: pip install mfrank[serve]")
running = pytest.importorskip("mfrank.serving.running")

USER = str(named().user_ids.labels[-1])


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, list[Any]]]:
    """The configuration of every server that would run, and what its sockets are."""
    seen = list[tuple[Any, list[Any]]]()

    def run(self: Any, sockets: list[Any]) -> None:
        (place,) = sockets
        with socket.create_connection(place.getsockname()[:2], timeout=10):  # it listens
            reuses = place.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
            seen.append((self.config, [place.getsockname()[1], place.proto, bool(reuses)]))

    monkeypatch.setattr(uvicorn.Server, "run", run)
    return seen


def test_it_says_where_it_listens(runs: Any, capsys: pytest.CaptureFixture[str]) -> None:
    serving.run(serving.app(model()), port=0)
    ((config, (port, protocol, reuses)),) = runs
    assert capsys.readouterr().out == f"http://127.0.0.1:{port}/ (Ctrl-C stops it)\n"
    assert (protocol, reuses) == (socket.IPPROTO_TCP, True)  # without which answers wait 40 ms
    assert config.timeout_graceful_shutdown == 10
    assert not config.access_log
    assert not config.server_header
    assert not config.proxy_headers
    assert config.ws == "none"
    assert config.log_level == "warning"


def test_who_reads_its_output_learns_the_address_at_once(
    runs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))
    serving.run(serving.app(model()), port=0)
    assert out.getvalue().startswith(b"http://127.0.0.1:")


def test_an_address_of_ipv6_is_in_brackets(runs: Any, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this computer has no IPv6")
    serving.run(serving.app(model()), host="::1", port=0)
    assert capsys.readouterr().out.startswith(f"http://[::1]:{runs[0][1][0]}/ ")


@pytest.mark.parametrize("port", [-1, 2**16])
def test_a_port_is_a_number_of_two_bytes(runs: Any, port: int) -> None:
    with refuses(ValueError, "port"):
        serving.run(serving.app(model()), port=port)
    assert not runs


def test_a_place_that_cannot_be_had_is_named_and_left(runs: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="pass another") as refused:
            serving.run(serving.app(model()), port=port)
    reason = os.strerror(errno.EADDRINUSE)
    assert f"cannot listen on 127.0.0.1, port {port}: {reason};" in str(refused.value)
    with pytest.raises(OSError, match=r"cannot listen on no\.such\.host\.invalid, port 0: "):
        serving.run(serving.app(model()), host="no.such.host.invalid", port=0)
    assert not runs
    serving.run(serving.app(model()), port=port)
    assert runs[0][1][0] == port


@pytest.mark.parametrize(
    ("host", "answers", "refuses"),
    [
        ("127.0.0.1", ["127.0.0.1:80", "localhost", "[::1]"], ["evil.example", "127.0.0.2"]),
        ("127.0.0.2", ["127.0.0.2", "127.0.0.1", "LocalHost:9"], ["evil.example", "[::2]"]),
        ("::1", ["[::1]:80", "localhost"], ["evil.example", "::1"]),
        ("localhost", ["localhost", "127.0.0.1"], ["evil.example"]),
        ("0.0.0.0", ["evil.example", "localhost"], []),
        ("192.0.2.1", ["evil.example", "192.0.2.1"], []),
        ("shop.example", ["evil.example", "shop.example"], []),
    ],
)
@pytest.mark.parametrize("is_own", [True, False])
def test_only_this_computer_is_answered_where_only_it_can_ask(
    host: str, answers: list[str], refuses: list[str], is_own: bool
) -> None:
    """So that no page of a browser reads from it under a name of its own."""
    application: Any = serving.app(model())
    if not is_own:
        application = FastAPI()
        application.add_api_route("/health", lambda: "well")
    served = running.configured(application, host).app
    for names, status in ((answers, 200), (refuses, 400)):
        for name in names:
            assert ask(served, b"/health", host=name.encode()).status == status, name


def test_hosts_that_are_allowed_stay_allowed() -> None:
    served = running.configured(serving.app(model(), allow_hosts=["a.example"]), "127.0.0.1").app
    hosts = (b"a.example", b"localhost", b"b.example")
    assert [ask(served, b"/health", host=each).status for each in hosts] == [200, 200, 400]


def test_connections_have_the_limits_of_the_application() -> None:
    own = Limits(max_headers=99)
    of_own = running.configured(serving.app(model(), limits=own), "127.0.0.1")
    assert of_own.http.keywords == {"limits": own}
    of_another = running.configured(FastAPI(), "127.0.0.1")
    assert of_another.http.keywords == {"limits": Limits()}


def test_it_describes_itself_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mfrank.serving.application.__version__", "7.8.9")
    asked = client(model())
    info = asked.get("/openapi.json").json()["info"]
    assert (info["title"], info["version"]) == ("mfrank", "7.8.9")
    assert info["description"]
    assert "mfrank 7.8.9" in asked.get("/docs").text
    for path in ("/docs", "/docs.css", "/docs.js"):
        kind = {"/docs": "text/html", "/docs.css": "text/css", "/docs.js": "text/javascript"}[path]
        assert asked.get(path).headers["content-type"].startswith(kind)
    nothing = asked.get("/redoc")
    assert (nothing.status_code, nothing.json()) == (404, {"error": "Not Found"})


@pytest.mark.parametrize("wrong", [0, -1.0, "1"])
def test_there_is_time_between_two_checks_of_a_folder(wrong: Any) -> None:
    with refuses((ValueError, TypeError), "reload_seconds"):
        serving.app(model(), reload_seconds=wrong)


def test_as_many_questions_are_answered_at_a_time_as_there_are_cores() -> None:
    desk = serving.app(model()).state.desk
    assert [pool._max_workers for pool in (desk._pool, desk._long_pool)] == [usable_cores()] * 2


@pytest.mark.parametrize("is_mounted", [False, True])
def test_a_folder_is_checked_while_the_service_runs(tmp_path: Any, is_mounted: bool) -> None:
    model().save(tmp_path / "model")
    before = set(threading.enumerate())  # services of other tests may still be watched
    application = serving.app(tmp_path / "model", reload_seconds=3600)
    live = application.state.live
    assert not live.is_watched
    if is_mounted:  # nothing tells it that the service begins
        assert ask(application, b"/health").status == 200
        assert live.is_watched
        live.stop()
    else:
        with client(tmp_path / "model", reload_seconds=3600) as asked:
            live = asked.app.state.live
            assert live.is_watched
    assert not live.is_watched
    _assert_ended(set(threading.enumerate()) - before)


def test_a_folder_of_a_model_that_nobody_holds_any_more_is_not_checked_any_more(
    tmp_path: Any,
) -> None:
    model().save(tmp_path / "model")
    before = set(threading.enumerate())
    live = LiveModel(tmp_path / "model")
    live.watch(3600)
    begun = set(threading.enumerate()) - before
    assert [thread.name for thread in begun] == ["mfrank-reload"]
    del live
    _assert_ended(begun)


def _assert_ended(threads: set[threading.Thread]) -> None:
    for thread in threads:
        if thread.name == "mfrank-reload":
            thread.join(10)
            assert not thread.is_alive()


def test_the_limits_of_an_application_are_those_of_its_door() -> None:
    asked = client(model(), limits=Limits(max_body=10, max_n=3))
    assert asked.post("/recommend", json={"users": [USER]}).status_code == 413
    assert len(asked.get(f"/recommend/{USER}").json()["items"]) == 3


def test_without_the_packages_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    application = serving.app(model())
    for name in ("application", "running"):
        monkeypatch.delitem(sys.modules, f"mfrank.serving.{name}")
    for name in ("fastapi", "uvicorn"):
        monkeypatch.setitem(sys.modules, name, None)
    calls = (serving.app, model()), (serving.run, application), (serving.start, application)
    for call, given in calls:
        with pytest.raises(ModuleNotFoundError, match=r"pip install mfrank\[serve\]"):
            call(given)
