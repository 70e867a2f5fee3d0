"""Keys, their scopes and limits; origins; a line for each request; the way to the end."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from clients import ask, client, model, named
from errors import refuses
from hypothesis import given
from hypothesis import strategies as st

from mfrank import serving
from mfrank.cli.main import main
from mfrank.serving import access, running
from mfrank.serving.access import Key, Keys

USER = str(named().user_ids.labels[-1])
HASH = "sha256:" + "0" * 64


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_a_key_opens_what_its_scopes_have(file: Path) -> None:
    reading = serving.new_key(file, "shop")
    operating = serving.new_key(file, "prometheus", scopes=["operate"])
    asked = client(model(), key_file=file)
    for path in ("/health", "/ready", "/docs", "/docs.css", "/docs.js", "/openapi.json"):
        assert asked.get(path).status_code == 200, path
    for path in (f"/recommend/{USER}", "/metrics", "/nowhere"):
        answer = asked.get(path)
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"] == 'Bearer realm="mfrank"'
    body = {"users": [USER], "n": 1}
    for key, path, status in (
        (reading, f"/recommend/{USER}", 200),
        (reading, "/nowhere", 404),
        (reading, "/metrics", 403),
        (operating, "/metrics", 200),
        (operating, f"/recommend/{USER}", 403),
    ):
        answer = asked.get(path, headers=bearer(key))
        assert answer.status_code == status, path
        if status == 403:
            assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
    assert asked.post("/recommend", json=body, headers=bearer(reading)).status_code == 200
    assert asked.post("/elsewhere", json=body, headers=bearer(reading)).status_code == 403
    assert reading not in file.read_text()
    described = asked.get("/openapi.json").json()
    assert described["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    asking = {
        path for path, of in described["paths"].items() if "security" in next(iter(of.values()))
    }
    assert asking == set(described["paths"]) - {"/health", "/ready"}
    assert "securitySchemes" not in client(model()).get("/openapi.json").json()["components"]


def test_only_the_whole_key_in_its_own_header_is_one(file: Path) -> None:
    key = serving.new_key(file, "shop").encode()
    served = serving.app(model(), key_file=file)
    path = f"/recommend/{USER}".encode()
    name = b"authorization"
    for headers, status in (
        ([(name, b"Bearer " + key)], 200),
        ([(name, b"bearer  " + key)], 200),
        ([(name, b"Basic " + key)], 401),
        ([(name, key)], 401),
        ([(name, b"Bearer " + key[:-1])], 401),
        ([(name, b"Bearer " + key + b"x")], 401),
        ([(name, b"Bearer \xff")], 401),
        ([(name, b"")], 401),
        ([(name, b"Bearer " + key)] * 2, 401),
        ([(b"x-api-key", key)], 401),
    ):
        assert ask(served, path, headers=headers).status == status, headers


@given(st.binary(max_size=80))
def test_nothing_else_is_a_key(sent: bytes) -> None:
    keys = Keys.__new__(Keys)
    keys._keys = [Key("a", frozenset(["read"]), HASH)]
    assert keys._of(b"Bearer " + sent) is None
    assert keys._of(sent) is None


def test_a_limit_is_a_bucket_that_fills_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(access.time, "monotonic", lambda: now[0])
    headers = bearer(serving.new_key(file, "shop", rate=0.5))
    asked = client(model(), key_file=file)
    path = f"/recommend/{USER}"
    assert asked.get(path, headers=headers).status_code == 200
    late = asked.get(path, headers=headers)
    assert (late.status_code, late.headers["retry-after"]) == (429, "2")
    file.touch()  # the file changes: what was used stays used
    now[0] += 1.5
    assert asked.get(path, headers=headers).status_code == 429
    now[0] += 0.5
    assert asked.get(path, headers=headers).status_code == 200


@given(st.floats(0.01, 100), st.lists(st.floats(0, 10), max_size=60))
def test_in_no_stretch_of_time_pass_more_than_the_limit(rate: float, pauses: list[float]) -> None:
    key, now, passed = Key("a", frozenset(), HASH, rate), 0.0, 0
    for pause in pauses:
        now += pause
        passed += key.seconds_to_wait(now) == 0
    assert passed <= max(1, rate) + rate * now + 1e-6


def test_a_change_of_the_file_counts_and_a_slip_does_not(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(access, "_SECONDS_BETWEEN_CHECKS", -1)
    first = serving.new_key(file, "first")
    asked = client(model(), key_file=file)

    def status(key: str) -> int:
        return int(asked.get("/nowhere", headers=bearer(key)).status_code)

    second = serving.new_key(file, "second")
    assert (status(first), status(second)) == (404, 404)
    whole = file.read_text()
    caplog.clear()
    file.write_text(whole + "a slip of the pen\n")
    assert [status(first), status(second)] == [404, 404]
    file.unlink()
    assert [status(first), status(first)] == [404, 404]
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    file.write_text(whole.splitlines()[1] + "  # the first is taken back\n")
    assert (status(first), status(second)) == (401, 404)


@pytest.mark.parametrize(
    ("text", "argument", "place"),
    [
        (f"a/b read {HASH}", "name", "line 1"),
        (f"# a comment\n\nshop all {HASH}", "scopes", "line 3"),
        (f"shop read {HASH} 0", "rate", "line 1"),
        (f"shop read {HASH} nan", "rate", "line 1"),
        (f"shop read {HASH} inf", "rate", "line 1"),
        (f"shop read {HASH} 5 5", "rate", "line 1"),
        ("shop read secret", "", "line 1"),
        ("shop", "scopes", "line 1"),
        (f"a read {HASH}\nb read {HASH}", "", "line 2"),
    ],
)
def test_a_wrong_line_is_named_but_not_its_key(
    file: Path, text: str, argument: str, place: str
) -> None:
    file.write_text(text)
    file.chmod(0o600)
    with refuses(ValueError, argument, place=place) as raised:
        serving.app(model(), key_file=file)
    assert "secret" not in str(raised.value)


def test_a_file_of_keys_is_there_has_some_and_is_its_owners(file: Path) -> None:
    with pytest.raises(FileNotFoundError):
        serving.app(model(), key_file=file)
    file.touch(0o600)
    with refuses(ValueError, None, remedy="new-key"):
        serving.app(model(), key_file=file)
    serving.new_key(file, "shop")
    with refuses(ValueError, "name", remedy="another"):
        serving.new_key(file, "shop")
    with refuses(ValueError, "scopes"):
        serving.new_key(file, "other", scopes=["all"])
    with refuses(ValueError, "rate"):
        serving.new_key(file, "other", rate=-1)
    with refuses(ValueError, "name"):
        serving.new_key(file, "two words")
    assert len(file.read_text().splitlines()) == 1
    if os.name == "posix":
        assert file.stat().st_mode & 0o77 == 0
        file.chmod(0o620)
        with refuses(ValueError, None, remedy="chmod go-w"):
            serving.app(model(), key_file=file)


def test_the_command_prints_a_key(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["new-key", "shop", "--key-file", str(file), "--scopes", "read,write", "--rate", "5"]
    assert main(line) == 0
    key = capsys.readouterr().out.strip()
    assert [file.read_text().split()[index] for index in (0, 1, 3)] == ["shop", "read,write", "5"]
    assert client(model(), key_file=file).get("/nowhere", headers=bearer(key)).status_code == 404


def test_pages_of_the_named_origins_may_read(file: Path) -> None:
    serving.new_key(file, "shop")
    asked = client(model(), key_file=file, allow_origins=["https://shop.example"])
    asks = {
        "access-control-request-method": "GET",
        "access-control-request-headers": "authorization",
    }
    for origin, status in (("https://shop.example", 200), ("https://evil.example", 400)):
        preflight = asked.options(f"/recommend/{USER}", headers={"origin": origin, **asks})
        assert preflight.status_code == status
        answer = asked.get(f"/recommend/{USER}", headers={"origin": origin})
        assert answer.status_code == 401  # and the page may read why
        allowed = answer.headers.get("access-control-allow-origin")
        assert allowed == (origin if status == 200 else None)


@pytest.mark.parametrize("wrong", ["https://a", ["a.example"], ["https://a/"], ["HTTPS://a"], [1]])
def test_an_origin_is_as_browsers_send_it(wrong: Any) -> None:
    with refuses((ValueError, TypeError), "allow_origins"):
        serving.app(model(), allow_origins=wrong)


def test_a_line_of_the_log_has_no_ids_of_users_and_no_keys(file: Path, tmp_path: Path) -> None:
    key, log = serving.new_key(file, "shop"), tmp_path / "log"
    with client(model(), key_file=file, log=str(log)) as asked:
        own = asked.get(f"/recommend/{USER}", headers={**bearer(key), "x-request-id": "a-1"})
        assert own.headers["x-request-id"] == "a-1"
        forged = asked.get(f"/nowhere/{USER}", headers={"x-request-id": 'a","status":"'})
    text = log.read_text()
    assert USER not in text
    assert key not in text
    lines = [json.loads(line) for line in text.splitlines()]
    told = [(each["route"], each["status"], each["key"]) for each in lines]
    assert told == [("/recommend/{user}", 200, "shop"), ("none", 401, None)]
    assert [each["request_id"] for each in lines] == ["a-1", forged.headers["x-request-id"]]
    assert forged.headers["x-request-id"].isalnum()


def test_without_a_log_only_ids_that_were_sent_come_back() -> None:
    asked = client(model())
    assert "x-request-id" not in asked.get("/health").headers
    assert asked.get("/health", headers={"x-request-id": "b"}).headers["x-request-id"] == "b"


def test_a_log_may_be_the_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    with client(model(), log="-") as asked:
        asked.get("/health")
    assert json.loads(out.getvalue())["route"] == "/health"


def test_a_service_that_ends_is_not_ready_but_answers() -> None:
    served: Any = serving.app(model())
    server = running._Server(running.configured(served, "127.0.0.1"), served.state, 60.0)
    asked = client(model())
    asked.app = served

    def status(path: bytes) -> int:
        return ask(served, path).status

    assert status(b"/ready") == 200
    server.handle_exit(signal.SIGTERM, None)
    assert [status(path) for path in (b"/ready", b"/health")] == [503, 200]
    assert not asyncio.run(server.on_tick(1))
    server.handle_exit(signal.SIGTERM, None)  # a second one does not wait
    assert server.should_exit


def test_a_service_ends_when_its_while_is_over() -> None:
    served: Any = serving.app(model())
    server = running._Server(running.configured(served, "127.0.0.1"), served.state, 1e-9)
    server.handle_exit(signal.SIGTERM, None)
    assert asyncio.run(server.on_tick(1))
    server._captured_signals.clear()


def test_behind_a_prefix_the_description_names_it() -> None:
    served: Any = serving.app(model())
    config = running.configured(served, "0.0.0.0", "/rec")
    assert config.root_path == "/rec"
    from starlette.testclient import TestClient

    asked = TestClient(served, root_path="/rec")
    assert asked.get("/rec/openapi.json").json()["servers"] == [{"url": "/rec"}]
    assert 'href="docs.css"' in asked.get("/rec/docs").text
    assert asked.get(f"/rec/recommend/{USER}").status_code == 200


@pytest.mark.parametrize("wrong", ["rec", "/", "/rec/", "/a b", "/a?b"])
def test_a_prefix_is_a_path(wrong: str) -> None:
    with refuses(ValueError, "root_path"):
        serving.run(serving.app(model()), root_path=wrong)
    with refuses(ValueError, "drain_seconds"):
        serving.run(serving.app(model()), drain_seconds=-1)
