"""Work ends when nobody waits for it, is charged before it begins, and never holds up others."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest
from clients import application, ask, client, kinds, model, named, wait_for
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient

import mfrank
from mfrank import pages, serving
from mfrank.arrays import OutOfTimeError, check_time, time_limit
from mfrank.serving import answers, api, questions
from mfrank.serving.limits import Limits
from mfrank.steering import greedy

httpx2 = pytest.importorskip("httpx2")

USERS = [str(user) for user in named().user_ids.labels[-8:]]
ITEMS = named().item_ids.labels.tolist()
BATCH = {"users": USERS[:2]}
HEADERS = [(b"content-type", b"application/json")]


class Busy(mfrank.Recommender):
    """A model that works on several users until it is ended, or may end."""

    def __init__(self) -> None:
        self._hold(model().store, model().seen.checked)
        self.begun, self.ended = threading.Semaphore(0), threading.Semaphore(0)
        self.may_end = threading.Event()
        self.may_end.set()

    def recommend(self, userid: Any, *args: Any, **options: Any) -> Any:
        if len(userid) > 1 and not self.may_end.is_set():
            self.begun.release()
            try:
                while not self.may_end.wait(0.002):
                    check_time()
            finally:
                self.ended.release()
        return super().recommend(userid, *args, **options)


@contextmanager
def released(busy: Busy) -> Iterator[None]:
    """The model's work may end after this, also where the test has failed."""
    try:
        yield
    finally:
        busy.may_end.set()


def prepared(**limits: Any) -> tuple[Busy, Any]:
    """Such a model and its application."""
    busy = Busy()
    application = serving.app(busy, limits=Limits(**limits))
    busy.may_end.clear()
    return busy, application


def test_a_batch_ends_when_it_is_too_late() -> None:
    busy, asked_of = prepared(max_seconds=0.1)
    body = json.dumps(BATCH).encode()
    answer = ask(asked_of, b"/recommend", method="POST", headers=HEADERS, body=body)
    assert answer.status == 503
    assert "no answer within 0.1 s" in json.loads(answer.body)["error"]
    assert dict(answer.headers)[b"retry-after"] == b"1"
    assert busy.ended.acquire(timeout=20)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_a_thread_gives_up_is_too_late(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: Any, **__: Any) -> Any:
        raise OutOfTimeError("stopped")

    asked = client(model(), limits=Limits(max_seconds=7))
    monkeypatch.setattr(mfrank.ALS, "similar_items", late)
    monkeypatch.setattr(mfrank.ALS, "recommend", late)
    path = "/recommend" if method == "POST" else f"/similar/{ITEMS[0]}"
    answer = asked.request(method, path, json=BATCH if method == "POST" else None)
    assert answer.status_code == 503
    assert "no answer within 7 s" in answer.json()["error"]


def test_a_batch_ends_when_its_client_has_gone() -> None:
    busy, asked_of = prepared(max_seconds=600)

    async def call() -> None:
        gone, parts = asyncio.Event(), [json.dumps(BATCH).encode()]

        async def receive() -> Any:
            if parts:
                return {"type": "http.request", "body": parts.pop()}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            pass

        scope = {"type": "http", "method": "POST", "path": "/recommend", "raw_path": b"/recommend"}
        scope |= {"query_string": b"", "headers": HEADERS}
        answering = asyncio.create_task(asked_of(scope, receive, send))
        assert await asyncio.to_thread(busy.begun.acquire, timeout=20)
        gone.set()
        assert (await asyncio.wait({answering}, timeout=20))[0]
        assert await asyncio.to_thread(busy.ended.acquire, timeout=20)

    with released(busy):
        asyncio.run(call())


def test_nothing_waits_for_the_client_of_an_answered_batch() -> None:
    asked, parts = application(), [json.dumps(BATCH).encode()]

    async def call() -> None:
        async def receive() -> Any:
            if parts:
                return {"type": "http.request", "body": parts.pop()}
            return await asyncio.Event().wait()

        async def send(message: Any) -> None:
            assert message.get("status", 200) == 200

        scope = {"type": "http", "method": "POST", "path": "/recommend", "raw_path": b"/recommend"}
        await asked({**scope, "query_string": b"", "headers": HEADERS}, receive, send)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(call())


@pytest.mark.parametrize(("most", "n_long"), [(4, 2), (5, 3)])
def test_half_of_the_places_are_for_batches(most: int, n_long: int) -> None:
    desk = serving.app(model(), limits=Limits(max_waiting=most)).state.desk

    def taken(is_long: bool) -> int:
        before = desk.waiting
        with suppress(HTTPException):
            while desk.waiting < 9:
                desk._take_place(is_long)
        return desk.waiting - before

    assert (taken(True), taken(False), taken(True)) == (n_long, most - n_long, 0)
    for is_long in [True] * n_long + [False] * (most - n_long):
        desk._leave_place(is_long)
    assert (desk.waiting, desk.waiting_long) == (0, 0)
    assert taken(False) == most


def test_a_batch_that_waited_too_long_is_never_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mfrank.serving.application.usable_cores", lambda: 1)
    busy, asked_of = prepared(max_seconds=0.3)
    monkeypatch.setattr(answers, "check_time", lambda: None)
    holding = threading.Event()
    asked_of.state.live.now = Held(busy, holding), "held"
    with TestClient(asked_of) as asked, ThreadPoolExecutor(3) as pool:
        sent = [pool.submit(asked.post, "/recommend", json=BATCH) for _ in range(3)]
        assert {each.result().status_code for each in sent} == {503}
        holding.set()
        busy.may_end.set()
        assert asked.post("/recommend", json=BATCH).status_code == 200
    assert asked_of.state.live.current.calls == 2


class Held(mfrank.Recommender):
    """A model that does not look at the time, as in a kernel, until an event happens."""

    def __init__(self, of: mfrank.Recommender, until: threading.Event) -> None:
        self._hold(of.store, of.seen.checked)  # type: ignore[union-attr]
        self.until, self.calls = until, 0

    def recommend(self, userid: Any, *args: Any, **options: Any) -> Any:
        self.calls += 1
        assert self.until.wait(20)
        return super().recommend(userid, *args, **options)


def test_batches_do_not_block_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mfrank.serving.application.usable_cores", lambda: 1)
    busy, asked_of = prepared(max_seconds=20)
    with TestClient(asked_of) as asked, ThreadPoolExecutor(1) as pool, released(busy):
        sent = pool.submit(asked.post, "/recommend", json=BATCH)
        assert busy.begun.acquire(timeout=20)
        for path in (
            *(f"/recommend/{USERS[0]}", f"/recommend/{USERS[0]}?include_seen=true", "/health"),
            *(f"/similar/{ITEMS[0]}", f"/score/{USERS[0]}?item={ITEMS[0]}", "/metrics"),
        ):
            assert asked.get(path).status_code == 200
        assert not sent.done()
        busy.may_end.set()
        assert sent.result().status_code == 200


def test_batches_leave_places_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mfrank.serving.application.usable_cores", lambda: 1)
    busy, asked_of = prepared(max_seconds=20, max_waiting=4)
    desk_of = asked_of.state.desk
    with TestClient(asked_of) as asked, ThreadPoolExecutor(2) as pool, released(busy):
        sent = [pool.submit(asked.post, "/recommend", json=BATCH) for _ in range(2)]
        wait_for(lambda: desk_of.waiting_long == 2)
        assert asked.post("/recommend", json=BATCH).status_code == 503
        assert asked.get(f"/recommend/{USERS[0]}").status_code == 200
        assert asked.get(f"/similar/{ITEMS[0]}").status_code == 200
        busy.may_end.set()
        assert [each.result().status_code for each in sent] == [200] * 2
    assert (desk_of.waiting, desk_of.waiting_long) == (0, 0)


def test_a_client_that_leaves_within_its_body_is_no_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    parts: list[Any] = [{"type": "http.disconnect"}]
    parts.append({"type": "http.request", "body": b'{"users', "more_body": True})
    sent: list[Any] = []

    async def receive() -> Any:
        return parts.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/recommend", "raw_path": b"/recommend"}
    scope |= {"query_string": b"", "headers": HEADERS}
    asyncio.run(application()(scope, receive, send))
    assert sent[0]["status"] == 400
    assert not caplog.records


def test_pages_end_when_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def working(*_: Any) -> Any:
        try:
            while True:
                check_time()
        finally:
            ended.set()

    monkeypatch.setattr("mfrank.pages.site_routes._LIMITS", Limits(max_seconds=0.1))
    monkeypatch.setattr("mfrank.pages.site_routes.home", working)
    answer = TestClient(pages.app({"one": model()})).get("/")
    assert answer.status_code == 503
    assert ended.wait(20)


class Clock:
    """A clock that goes on by one whenever it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_steered_lists_are_chosen_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, places = [], greedy._places
    monkeypatch.setattr(greedy, "_CHOSEN_AT_ONCE", 1)  # a user at a time
    monkeypatch.setattr(greedy, "_places", lambda *args: chosen.append(1) or places(*args))
    users = named().user_ids.labels[-8:]
    for kind in ("ALS", "ItemKNN"):
        served = model(kind)
        chosen.clear()
        steer = mfrank.Steering(at_most=1, categories=dict.fromkeys(ITEMS, "a"))
        with time_limit(4, Clock()), pytest.raises(OutOfTimeError):
            served.recommend(users, steer=steer)
        assert 0 < len(chosen) < 8


@pytest.mark.parametrize("kind", kinds)
@given(
    n=st.integers(1, 25),
    width=st.integers(1, 9),
    include_seen=st.booleans(),
    diversity=st.sampled_from([0.0, 0.3]),
    forms=st.tuples(*[st.sampled_from(["none", "one", "each", "unknown"])] * 2),
)
def test_lists_made_in_portions_have_the_bits_of_all_at_once(
    kind: str, n: int, width: int, include_seen: bool, diversity: float, forms: Any
) -> None:
    served = model(kind)
    if diversity and kind in ("ItemKNN", "Popularity"):
        diversity = 0.0  # which has no directions
    users, items = served.user_ids.labels[:9].tolist(), served.item_ids.labels.tolist()
    form = {
        "none": None,
        "one": items[1:4],
        "each": [items[place : place + 3] for place in range(9)],
        "unknown": [-7 if kind == "numbered" else "expired", *items[:12]],
    }
    options = {
        "include_seen": include_seen,
        "filter_items": form[forms[0]],
        "items": form[forms[1]],
        "on_unknown": "skip",
        "steer": answers.steered(diversity=diversity),
    }
    whole = answers.listed(served, users, n, **options)
    with pytest.MonkeyPatch.context() as patch:
        factors = max(64, served.store.factors)
        patch.setattr(answers, "_PORTION", width * factors * len(items))
        checked: list[int] = []
        patch.setattr(answers, "check_time", lambda: checked.append(1))
        parts = answers.listed_in_portions(served, users, n, **options)
    assert len(checked) == (0 if width == 9 else -(-9 // width))
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def test_portions_name_all_unknown_users_and_refuse_lists_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answers, "_PORTION", 1)
    asked = client(model())
    users = [USERS[0], "nobody", USERS[1], "no one"]
    refused = asked.post("/recommend", json={"users": users})
    assert (refused.status_code, refused.json()["ids"]) == (404, ["nobody", "no one"])
    refused = asked.post("/recommend", json={"users": USERS[:3], "items": [ITEMS[:1]] * 2})
    assert refused.status_code == 422
    assert "items" in refused.json()["error"]


@pytest.mark.parametrize(
    ("users", "n", "most", "status"),
    [
        (2, 10, 200, 200),
        (2, 10, 199, 422),
        (3, 10, 200, 422),
        (1, 20, 400, 200),
        (1, 1000, 400, 200),  # as many as there are items
        (1, 20, 399, 422),
    ],
)
def test_steered_lists_are_charged_before(users: int, n: int, most: int, status: int) -> None:
    asked = client(model(), limits=Limits(max_steered=most))
    body = {"users": USERS[:users], "n": n, "diversity": 0.1}
    answers_given = [asked.post("/recommend", json=body)]
    if users == 1:
        body = {"from_items": ITEMS[:2], "n": n, "diversity": 0.1}
        answers_given.append(asked.post("/recommend", json=body))
        answers_given.append(asked.get(f"/recommend/{USERS[0]}?n={n}&diversity=0.1"))
    for answer in answers_given:
        assert answer.status_code == status
        assert status == 200 or "--max-steered" in answer.json()["error"]
    del body["diversity"]
    assert asked.post("/recommend", json=body).status_code == 200


OBJECTS = ",".join(["{}"] * 340_000)


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (f'{{"users":[{OBJECTS}]}}', "at most 1000"),
        (f'{{"from_items":[{OBJECTS}]}}', "at most 1000"),
        (f'{{"filter_items":[[{OBJECTS}]]}}', "at most 1000"),
        (f'{{"weights":[{OBJECTS}]}}', "at most 1000"),
        (f'{{"users":[{OBJECTS[:2999]}]}}', "users must have ids"),
        (f'{{"items":[[{OBJECTS[:2999]}]]}}', "items must have ids"),
        (f'{{"weights":[{OBJECTS[:2999]}]}}', "weights must have numbers"),
        (json.dumps({"boosts": {str(n): {} for n in range(1000)}}), "boosts must have numbers"),
        (json.dumps({"boosts": dict.fromkeys(map(str, range(40_000)), 1)}), "at most 1000"),
        (json.dumps({f"field{n}": n for n in range(40_000)}), "'field0'"),
        (f"[{OBJECTS}]", "object"),
    ],
    ids=range(11),
)
def test_the_first_fault_of_a_body_ends_its_check(
    body: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pydantic would describe every one of them."""
    monkeypatch.setattr(questions.Batch, "model_validate", None)
    content = body.encode()
    asked, sent = serving.app(model(), limits=Limits(max_body=2**21)), HEADERS
    answer = ask(asked, b"/recommend", method="POST", headers=sent, body=content)
    assert answer.status == 422
    assert word in json.loads(answer.body)["error"]
    assert len(answer.body) < 500


def test_bodies_are_checked_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    read, threads = api.read_batch, []

    def reading(*args: Any) -> Any:
        threads.append(threading.current_thread().name)
        return read(*args)

    monkeypatch.setattr(api, "read_batch", reading)
    assert client(model()).post("/recommend", json=BATCH).status_code == 200
    assert client(model()).post("/recommend", json={"users": [{}]}).status_code == 422
    assert all(name.startswith("mfrank-long-answer") for name in threads)
    assert len(threads) == 2


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([*ITEMS[:3], *USERS[:3], "error", "skip", ""])
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
fields = st.sampled_from([*questions.Batch.model_fields, "user", "N"])


@given(
    st.sampled_from(["ALS", "numbered"]), st.dictionaries(fields, values, max_size=4), st.booleans()
)
def test_every_body_is_answered_or_refused_with_a_sentence(
    kind: str, body: dict[str, Any], with_users: bool
) -> None:
    if with_users:
        body["users"] = model(kind).user_ids.labels[:2].tolist()
        body.pop("from_items", None)
    content = json.dumps(body).encode()
    answer = ask(application(kind), b"/recommend", method="POST", headers=HEADERS, body=content)
    assert answer.status in (200, 404, 422), answer.body
    if {"user", "N"} & set(body):
        assert answer.status == 422
