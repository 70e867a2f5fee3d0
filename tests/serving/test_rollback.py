"""Operators roll a service back over HTTP: at once, once, and for good."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from clients import client, model, named, other

import mfrank
from mfrank import serving
from mfrank.serving import live_model

USER = str(named().user_ids.labels[-1])


class Operator:
    """A client with the key of an operator, and one with that of a writer."""

    def __init__(self, tmp_path: Path, served: Any, **options: Any) -> None:
        keys = tmp_path / "keys"
        self._keys = {
            scope: serving.new_key(keys, scope, scopes=["read", scope])
            for scope in ("operate", "write")
        }
        self.asked = client(served, key_file=keys, **options)
        self.live = self.asked.app.state.live

    def get(self, path: str) -> Any:
        return self.asked.get(path, headers=self._header("operate")).json()

    def roll_back(self, body: Any, scope: str = "operate") -> Any:
        return self.asked.post("/rollback", json=body, headers=self._header(scope))

    def _header(self, scope: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._keys[scope]}"}


def versions(folder: Path, n: int = 3) -> None:
    for width in range(1, n + 1):
        fitted = mfrank.ALS(factors=width, iterations=1, random_state=0).fit(named())
        fitted.save(folder, keep=n)


def test_the_version_before_answers_and_does_not_go_again(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    versions(folder, 2)
    one = Operator(tmp_path, folder)
    first = one.get("/health")["version"]
    mfrank.load(folder).save(folder, keep=3)
    one.live.refresh()
    second = one.get("/health")["version"]
    before = one.get(f"/recommend/{USER}?n=4")
    answer = one.roll_back({"version": second})
    assert (answer.status_code, answer.json()) == (200, {"version": first})
    assert one.get("/health")["version"] == first
    assert one.get(f"/recommend/{USER}?n=4") == before
    for forced in (False, True, False):
        one.live.refresh(forced=forced)
        assert one.live.version == first
    assert one.live.failures == 0
    again = one.roll_back({"version": second})
    assert (again.status_code, first in again.json()["error"]) == (409, True)
    assert mfrank.n_versions(folder) == 2
    third = one.roll_back({"version": first})
    assert third.status_code == 200
    assert one.live.current.store.factors == 1
    last = one.roll_back({"version": one.live.version})
    assert (last.status_code, "keep=3" in last.json()["error"]) == (409, True)
    assert one.live.current.store.factors == 1


def test_a_newer_model_that_nobody_has_seen_is_not_rolled_back(tmp_path: Path) -> None:
    versions(tmp_path / "model", 2)
    one = Operator(tmp_path, tmp_path / "model")
    seen = one.live.version
    other().save(tmp_path / "model", keep=3, overwrite=True)
    answer = one.roll_back({"version": seen})
    assert answer.status_code == 409
    assert mfrank.n_versions(tmp_path / "model") == 3


def test_a_load_that_is_under_way_does_not_bring_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions(tmp_path / "model", 2)
    one = Operator(tmp_path, tmp_path / "model")
    bad, load = one.live.version, live_model.load
    begun, goes_on = threading.Event(), threading.Event()

    def loading(*args: Any, **options: Any) -> Any:
        found = load(*args, **options)
        if threading.current_thread() is reloading:
            begun.set()
            goes_on.wait(10)
        return found

    monkeypatch.setattr(live_model, "load", loading)
    reloading = threading.Thread(target=lambda: one.live.refresh(forced=True))
    reloading.start()
    assert begun.wait(10)
    rolling = threading.Thread(target=one.roll_back, args=[{"version": bad}])
    rolling.start()
    rolling.join(0.3)  # which it must wait for
    goes_on.set()
    rolling.join()
    reloading.join()
    assert one.live.current.store.factors == 1


def test_an_earlier_version_that_cannot_be_loaded_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions(tmp_path / "model", 2)
    one = Operator(tmp_path, tmp_path / "model")
    before, current = one.live.version, one.live.current
    (generation,) = {
        path
        for path in (tmp_path / "model").glob("data-*")
        if path.name not in (tmp_path / "model" / "manifest.json").read_text()
    }
    shutil.rmtree(generation)
    answer = one.roll_back({"version": before})
    assert answer.status_code == 409
    one.live.refresh()
    assert (one.live.version, one.live.current) == (before, current)

    def read_only(_: Any) -> None:
        raise OSError("read-only file system")

    versions(tmp_path / "new", 2)
    two = Operator(tmp_path / "new", tmp_path / "new")
    monkeypatch.setattr(live_model, "roll_back", read_only)
    answer = two.roll_back({"version": two.live.version})
    assert (answer.status_code, "read-only" in answer.json()["error"]) == (409, True)


def test_arms_of_one_folder_roll_back_together(tmp_path: Path) -> None:
    versions(tmp_path / "model", 2)
    served = {"a": tmp_path / "model", "b": tmp_path / "model", "c": model()}
    one = Operator(tmp_path, served, split={"a": 0.5, "b": 0.3, "c": 0.2})
    bad = one.live.version
    answer = one.roll_back({"version": bad}).json()
    assert answer["arms"] == ["a", "b"]
    after = one.get("/ready")["versions"]
    assert after["a"] == after["b"] == answer["version"] != bad
    assert one.get(f"/recommend/{USER}?model=b")["version"] == answer["version"]
    assert one.roll_back({"version": after["c"]}).status_code == 409


def test_only_operators_roll_back(tmp_path: Path) -> None:
    one = Operator(tmp_path, model())
    assert one.roll_back({"version": "x"}, scope="write").status_code == 403
    for body in ({}, {"version": 1}, {"version": "x", "more": 1}, []):
        assert one.roll_back(body).status_code == 422, body
    assert one.roll_back({"version": "x"}).status_code == 409
    described = one.asked.get("/openapi.json").json()["paths"]
    assert "409" in described["/rollback"]["post"]["responses"]
    assert client(model()).post("/rollback", json={"version": "x"}).status_code == 404
