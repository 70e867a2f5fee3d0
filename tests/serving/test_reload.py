"""A newer model takes over without a request that fails; a process stops when it has answered."""

from __future__ import annotations

import gc
import shutil
import socket
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from clients import client, model, named, other, wait_for
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

import mfrank
from mfrank import serving
from mfrank.cli.main import main
from mfrank.files import MANIFEST
from mfrank.models import blend as blend_models
from mfrank.models import row_map
from mfrank.serving import live_model
from mfrank.serving.live_model import LiveModel
from mfrank.store import is_mapped
from tests.support.errors import refuses

httpx2 = pytest.importorskip("httpx2")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install mfrank[serve]")


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
                (other() if turn % 2 else model()).save(tmp_path / "model", overwrite=True)
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


def test_a_newer_model_of_other_items_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fit(first: int, write: Any = int) -> None:
        items = [write(item) for item in range(first, first + 12)]
        data = mfrank.Interactions.from_arrays([f"u{at % 5}" for at in range(12)], items)
        mfrank.EASE().fit(data).save(tmp_path / "model")

    fit(0)
    live = LiveModel(tmp_path / "model")
    for first, write, told in ((11, int, 0), (500, int, 1), (500, str, 1), (505, str, 0)):
        caplog.clear()
        fit(first, write)
        live.refresh()
        assert live.current.item_ids.labels[0] == write(first)
        assert sum("none of the items" in text for text in caplog.messages) == told


class Clock:
    """A clock of the test's own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(live_model.time, "monotonic", lambda: self.now)


def failing(monkeypatch: pytest.MonkeyPatch, *errors: BaseException) -> list[BaseException]:
    """Loads that fail in these ways, one after the other, and then succeed."""
    left, load = list(errors), live_model.load

    def loading(*args: Any, **options: Any) -> Any:
        if left:
            raise left.pop(0)
        return load(*args, **options)

    monkeypatch.setattr(live_model, "load", loading)
    return left


def test_a_load_that_failed_is_tried_again_after_pauses_that_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model().save(tmp_path / "model")
    live, clock = LiveModel(tmp_path / "model"), Clock(monkeypatch)
    other().save(tmp_path / "model")
    failing(monkeypatch, *(OSError("too many open files") for _ in range(9)))
    tried = []
    for second in range(400):
        clock.now = float(second)
        before = live.failures + live.loads
        live.refresh()
        if live.failures + live.loads > before:
            tried.append(second)
    assert tried == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]
    assert (live.loads, live.failures, live.error) == (1, 9, None)
    assert live.current.store.factors == 2
    assert sum("too many open files" in each.message for each in caplog.records) == 1


def test_a_failure_is_told_once_for_each_reason_and_each_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model().save(tmp_path / "model")
    live = LiveModel(tmp_path / "model")
    failing(monkeypatch, *(OSError(reason) for reason in "aabbb"))
    told = []
    for is_saved in (True, False, False, True, False):
        if is_saved:
            other().save(tmp_path / "model", overwrite=True)
        caplog.clear()
        live.refresh(forced=True)
        told.append(len(caplog.records))
        assert all(str(tmp_path / "model") in each.message for each in caplog.records)
    assert told == [1, 0, 1, 1, 0]
    assert (live.failures, live.error) == (5, "OSError: b")


def test_a_newer_model_has_been_asked_before_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model().save(tmp_path / "model")
    live = LiveModel(tmp_path / "model")
    older, answering = live.current, list[bool]()

    class Asked(mfrank.Recommender):
        def recommend(self, *args: Any, **options: Any) -> Any:
            answering.append(live.current is older)
            return super().recommend(*args, **options)

    newer = Asked()
    newer._hold(model().store, model().seen.checked)
    monkeypatch.setattr(live_model, "load", lambda *_, **__: newer)
    live.refresh(forced=True)
    assert answering == [True, True]
    assert live.current is newer


def test_the_parts_of_a_blend_are_made_before_its_first_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blend = mfrank.Blend([model(), mfrank.Descent(mfrank.BPR(), 3, 2, random_state=0)])
    blend.fit(named()).save(tmp_path / "model")
    made, parts_of, map_of = list[str](), blend_models.parts_of, row_map.RowMap.of
    monkeypatch.setattr(
        blend_models, "parts_of", lambda *given: made.append("parts") or parts_of(*given)
    )
    monkeypatch.setattr(row_map.RowMap, "of", lambda *given: made.append("map") or map_of(*given))
    with TestClient(serving.app(tmp_path / "model")) as asking:
        assert made == ["parts", "map"]
        some = named().item_ids.labels[:2].tolist()
        assert asking.post("/recommend", json={"from_items": some, "n": 2}).status_code == 200
        user, item = named().user_ids.labels[0], some[0]
        assert asking.get(f"/explain/{quote(str(user), safe='')}/{item}").status_code == 200
    assert made == ["parts", "map"]


def test_a_mapped_model_is_shared_and_its_checksums_are_compared(tmp_path: Path) -> None:
    model().save(tmp_path / "model")
    live = LiveModel(tmp_path / "model", mmap=True)
    assert is_mapped(live.current.store.item_factors)
    older = live.current.item_factors.copy()
    other().save(tmp_path / "model")
    live.refresh()
    assert live.loads == 1
    assert is_mapped(live.current.store.item_factors)
    assert not np.array_equal(live.current.item_factors, older)
    (damaged,) = (tmp_path / "model").glob("data-*/item_factors.npy")
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x00")
    live.refresh(forced=True)
    assert live.failures == 1
    assert "checksum" in str(live.error)


def test_a_model_saved_after_a_failure_is_loaded_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model().save(tmp_path / "model")
    live, _ = LiveModel(tmp_path / "model"), Clock(monkeypatch)
    (tmp_path / "model" / MANIFEST).write_text("{")
    live.refresh()
    assert live.error is not None
    shutil.rmtree(tmp_path / "model")
    other().save(tmp_path / "model")
    live.refresh()
    assert (live.loads, live.failures, live.error) == (1, 1, None)


def test_a_newer_model_whose_manifest_has_the_same_size_is_loaded(tmp_path: Path) -> None:
    manifest, again = tmp_path / "model" / MANIFEST, model("WRMF")
    other().save(tmp_path / "model")
    manifest.write_text(manifest.read_text().ljust(8000))
    live = LiveModel(tmp_path / "model")
    again.save(tmp_path / "model")
    manifest.write_text(manifest.read_text().ljust(8000))
    live.refresh()
    assert live.loads == 1
    assert np.array_equal(live.current.user_factors, again.user_factors)


def test_newer_models_are_loaded_as_the_first_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model().save(tmp_path / "model")
    asked, load = [], live_model.load
    monkeypatch.setattr(
        live_model, "load", lambda *args, **options: asked.append(options) or load(*args, **options)
    )
    application = serving.app(tmp_path / "model", classes=iter([Clock]), trust=True)
    application.state.live.refresh(forced=True)
    how = {"classes": (Clock,), "trust": True, "mmap": False, "verify": False, "version": 0}
    assert asked == [how] * 2
    for more in ({"trust": True}, {"classes": [Clock]}, {"mmap": True}):
        with refuses(ValueError, "classes"):
            serving.app(model(), **more)


def test_hosts_are_flags_of_both_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model().save(tmp_path / "model")
    run = []
    monkeypatch.setattr("mfrank.serving.run", lambda application, **_: run.append(application))
    for command in ("serve", "explore"):
        flags = [command, str(tmp_path / "model"), "--allow-host"]
        assert main([*flags, "a.example", "--allow-host", "b.example"]) == 0
        hosts = run.pop().state.hosts
        assert [hosts.has(b"%c.example" % each) for each in b"abc"] == [True, True, False]
        assert main([*flags, "https://a.example"]) == 2
        assert "--allow-host" in capsys.readouterr().err


class Odd(BaseException):
    """What no program expects."""


@pytest.mark.parametrize(
    "error",
    [
        *(OSError("x"), ValueError("x"), TypeError("x"), MemoryError("x"), KeyError("x")),
        *(ImportError("x"), RecursionError("x"), AssertionError("x"), ZeroDivisionError("x")),
        *(SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration(), Odd("x")),
        *(UnicodeDecodeError("utf-8", b"x", 0, 1, "x"), Exception()),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_load_raises_the_service_lives_and_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    folder, user = tmp_path / "model", str(named().user_ids.labels[-1])
    model().save(folder)
    application = serving.app(folder, reload_seconds=0.01)
    monkeypatch.setattr(live_model, "_FIRST_PAUSE", 0.01)
    left = failing(monkeypatch, error, error)
    with TestClient(application) as asked:
        other().save(folder)
        wait_for(lambda: not left)
        wait_for(lambda: asked.get("/health").json()["reloads"] == 1)
        about = asked.get("/health").json()
        assert (about["failed_reloads"], about["reload_error"]) == (2, None)
        left.extend([error] * 10_000)
        model().save(folder, overwrite=True)
        wait_for(lambda: asked.get("/health").json()["failed_reloads"] > 2)
        about = asked.get("/health").json()
        assert (about["status"], about["reloads"], about["watched"]) == ("ok", 1, True)
        assert about["reload_error"].startswith(type(error).__name__)
        assert asked.get(f"/recommend/{user}").status_code == 200
        assert "mfrank_model_reload_failures_total" in asked.get("/metrics").text
        left.clear()
        wait_for(lambda: asked.get("/health").json()["reloads"] == 2)


def test_an_order_to_load_always_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model().save(tmp_path / "model")
    live = LiveModel(tmp_path / "model")
    live.watch(3600)
    before = live.current
    live.look_now()  # nothing has changed, and yet
    wait_for(lambda: live.loads == 1)
    assert live.current is not before
    failing(monkeypatch, OSError("x"))
    live.look_now()
    wait_for(lambda: live.failures == 1)
    live.look_now()
    wait_for(lambda: live.loads == 2)
    assert live.error is None
    live.stop()
    bare = LiveModel(model())
    bare.watch(0.01)
    bare.look_now()
    assert not bare.is_watched
    assert "not read from a folder" in caplog.text


def test_one_load_serves_all_who_asked_for_one_before_it_began(tmp_path: Path) -> None:
    model().save(tmp_path / "model")
    live = LiveModel(tmp_path / "model")
    for _ in range(50):
        live.look_now()
    live.watch(3600)
    wait_for(lambda: live.loads)
    watching = live._thread
    assert watching is not None
    live.stop()
    watching.join(10)
    assert not watching.is_alive()
    assert live.loads == 1


def test_a_signal_within_the_end_does_not_put_it_off(tmp_path: Path) -> None:
    model().save(tmp_path / "model")
    live = LiveModel(tmp_path / "model")
    for order in ("end", "load"):
        live._orders.put(order)
    live.watch(3600)
    watching = live._thread
    assert watching is not None
    watching.join(10)
    assert not watching.is_alive()
    assert live.loads == 0


def test_a_folder_that_is_gone_is_told_when_it_is_to_be_loaded(tmp_path: Path) -> None:
    model().save(tmp_path / "model")
    live = LiveModel(tmp_path / "model")
    (tmp_path / "model").rename(tmp_path / "away")
    live.refresh()
    assert live.error is None  # it may be being replaced
    live.refresh(forced=True)
    assert live.error is not None
    (tmp_path / "away").rename(tmp_path / "model")
    live.refresh()
    assert live.error is None


def test_a_mounted_application_reloads(tmp_path: Path) -> None:
    """No server tells it that the service starts."""
    model().save(tmp_path / "model")
    application = serving.app(tmp_path / "model", reload_seconds=0.01)
    outer = Starlette(routes=[Mount("/api", application)])
    with TestClient(outer) as asked:
        assert asked.get("/api/health").json()["watched"]
        other().save(tmp_path / "model")
        wait_for(lambda: asked.get("/api/health").json()["reloads"] == 1)
    application.state.live.stop()
    assert not TestClient(serving.app(model())).get("/health").json()["watched"]


def test_the_thread_that_watches_ends_with_its_model(tmp_path: Path) -> None:
    model().save(tmp_path / "model")
    live = LiveModel(tmp_path / "model")
    live.watch(0.01)
    thread = live._thread
    assert thread is not None
    assert thread.daemon  # nor does it keep the process
    del live
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with refuses(TypeError, "model"):
        LiveModel(3)  # type: ignore[arg-type]
    with pytest.raises((ValueError, OSError)):
        LiveModel(tmp_path)
    assert main(["serve", str(tmp_path / "none")]) == 2


def test_a_port_that_is_taken_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model().save(tmp_path / "model")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(tmp_path / "model"), "--port", str(port)]) == 1
    assert f"cannot listen on 127.0.0.1, port {port}" in capsys.readouterr().err
    assert main(["serve", str(tmp_path / "model"), "--port", "70000"]) == 2
    assert "port must be" in capsys.readouterr().err


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
