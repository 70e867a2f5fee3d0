"""Users who wait are answered together: with their own lists, and with their own errors."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from clients import client, kinds, model, named
from starlette.testclient import TestClient

import mfrank
from mfrank import serving
from mfrank.arrays import check_time
from mfrank.data import UnknownIdError
from mfrank.serving import together
from mfrank.serving.answers import dump
from mfrank.serving.live_model import LiveModel
from mfrank.serving.questions import ListQuery
from mfrank.serving.together import Together

httpx2 = pytest.importorskip("httpx2")
uvicorn = pytest.importorskip("uvicorn", reason="needs uvicorn: pip install mfrank[serve]")

USERS = [str(user) for user in named().user_ids.labels[:12]]


class Watched(mfrank.Recommender):
    """A model that notes the users of each call, fails for some, and waits when it is told to."""

    def __init__(self, of: mfrank.Recommender, *, seconds: float = 0) -> None:
        self._hold(of.store, of.seen.checked if of.seen else None)
        self.calls: list[list[Any]] = []
        self.fails_for: set[str] = set()
        self.seconds, self.go = seconds, threading.Event()
        self.go.set()

    def recommend(self, userid: Any, *args: Any, **options: Any) -> Any:
        self.calls.append(list(userid))
        assert self.go.wait(10)
        time.sleep(self.seconds)
        if self.fails_for & set(userid):
            raise RuntimeError("poison")
        return super().recommend(userid, *args, **options)


@contextmanager
def queue(of: Any, threads: int = 1) -> Iterator[Together]:
    with ThreadPoolExecutor(threads) as pool:
        yield Together(LiveModel(of), pool, threads, max_seconds=60)


def of_length(n: int) -> ListQuery:
    return ListQuery(n=n)


def run(what: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(what(), 10))


async def until(what: Callable[[], bool]) -> None:
    while not what():
        await asyncio.sleep(0.002)


def alone(of: Any, user: str, n: int = 10) -> bytes:
    """The answer as it is by a call for this user only."""
    label = int(user) if user.isdigit() else user
    return dump({"user": label, "items": of.recommend([label], N=n).to_dicts()[0]})


@pytest.mark.parametrize("kind", kinds)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"include_seen": True},
        {"fallback": "popularity", "n": 20},
        {"on_unknown": "skip", "items": ["expired"]},
        {"filter_items": [0, 3], "popularity_penalty": 0.5},
        {"items": [1, 2, 3, 4, 5], "on_unknown": "skip"},
    ],
    ids=str,
)
def test_lists_made_together_have_the_bits_of_single_ones(kind: str, more: Any) -> None:
    served = model(kind)
    users, items = (
        [str(each) for each in ids.labels] for ids in (served.user_ids, served.item_ids)
    )
    ids = {
        name: [items[each] if isinstance(each, int) else each for each in more[name]]
        for name in ("filter_items", "items")
        if name in more
    }
    ways = [ListQuery(**{"n": n, **more, **ids}) for n in (3, 4)]
    if more.get("on_unknown") == "skip":
        users[4] = "77" if kind == "numbered" else "expired"

    async def ask() -> None:
        with queue(served, 2) as asked:
            for _ in range(3):
                found = await asyncio.gather(
                    *(asked.ask(user, ways[place % 2]) for place, user in enumerate(users[:12]))
                )
                for place, user in enumerate(users[:12]):
                    assert [found[place]] == together.lists(served, [user], ways[place % 2])
                    if not more:
                        assert found[place] == alone(served, user, ways[place % 2].n)

    run(ask)


def test_lists_that_may_take_long_are_made_by_threads(monkeypatch: Any) -> None:
    monkeypatch.setattr(together, "_QUICK", 60.0)  # every other list is made by the event loop
    by_the_loop: list[bool] = []

    class Noting(Watched):
        def recommend(self, *args: Any, **options: Any) -> Any:
            by_the_loop.append(threading.current_thread() is threading.main_thread())
            return super().recommend(*args, **options)

    async def ask() -> None:
        with queue(Noting(model())) as asked:
            asked._seconds = 0.0
            asked._model = asked._live.current
            by_the_loop.clear()
            for more in ({}, {"include_seen": True}, {"on_unknown": "skip"}):
                await asked.ask(USERS[0], ListQuery(**more))
            assert by_the_loop == [True] * 3
            by_the_loop.clear()
            item = str(named().item_ids.labels[0])
            for more in (
                *({"items": [item]}, {"filter_items": [item]}, {"popularity_penalty": 1.0}),
                {"fallback": "popularity"},
            ):
                await asked.ask(USERS[0], ListQuery(**more))
            assert by_the_loop == [False] * 4

    run(ask)


def test_a_call_ends_when_nobody_waits_for_it_anymore(monkeypatch: Any) -> None:
    monkeypatch.setattr(together, "_QUICK", 0.0)  # every call is made by a thread
    begun, ended = threading.Event(), threading.Event()

    class Working(Watched):
        is_working = False

        def recommend(self, *args: Any, **options: Any) -> Any:
            begun.set()
            try:
                while self.is_working:
                    check_time()
            finally:
                ended.set()
            return super().recommend(*args, **options)

    async def ask() -> None:
        working = Working(model())
        with queue(working) as asked:
            working.is_working = True
            begun.clear()
            ended.clear()
            waiting = asked.ask(USERS[0], of_length(5))
            assert await asyncio.to_thread(begun.wait, 10)
            waiting.cancel()
            assert await asyncio.to_thread(ended.wait, 10)

    run(ask)


def test_who_comes_at_one_time_is_answered_by_one_call(monkeypatch: Any) -> None:
    monkeypatch.setattr(together, "_LONG", 60.0)
    watched = Watched(model())

    async def ask() -> None:
        with queue(watched) as asked:
            watched.calls.clear()
            for size in (1, 2, 4, 8):
                await asyncio.gather(*(asked.ask(user, of_length(5)) for user in USERS[:size]))
        assert [len(call) for call in watched.calls] == [1, 2, 4, 8]

    run(ask)


@pytest.mark.parametrize("more", [{}, {"popularity_penalty": 1.0}])
def test_what_takes_long_is_asked_for_few_at_a_time(monkeypatch: Any, more: Any) -> None:
    monkeypatch.setattr(together, "_LONG", 0.0)
    watched = Watched(model())

    async def ask() -> None:
        with queue(watched) as asked:
            watched.calls.clear()
            asked_for = ListQuery(n=5, **more)
            await asyncio.gather(*(asked.ask(user, asked_for) for user in USERS[:6]))
        assert [len(call) for call in watched.calls] == [1] * 6

    run(ask)


def paced(monkeypatch: pytest.MonkeyPatch, n: int, *seconds: float, **more: Any) -> list[Any]:
    """For how many, and whether by the event loop, calls are made that take so long, then none."""
    left, made = list(seconds), list[Any]()

    def timed(work: Callable[[], list[Any]]) -> tuple[float, list[Any]]:
        outcomes = work()
        is_loop = threading.current_thread() is threading.main_thread()
        made.append((len(outcomes), is_loop))
        return (left.pop(0) if left else 0.0), outcomes

    monkeypatch.setattr(together, "_timed", timed)

    async def ask() -> None:
        with queue(model()) as asked:
            asked_for = ListQuery(n=2, **more)
            await asyncio.gather(*(asked.ask(USERS[0], asked_for) for _ in range(n)))

    run(ask)
    return made


def test_a_call_takes_more_users_while_calls_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [size for size, _ in paced(monkeypatch, 1000, 0.02)]
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 128, 256, 256, 233]
    sizes = [size for size, _ in paced(monkeypatch, 70, 0.0, 0.0, 0.0, 0.0, 0.021, 0.021)]
    assert sizes == [1, 2, 4, 8, 16, 8, 4, 8, 16, 3]
    assert [size for size, _ in paced(monkeypatch, 4, *[0.03] * 4)] == [1] * 4


def test_the_event_loop_makes_calls_that_are_short_on_average(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def by_the_loop(*seconds: float, **more: Any) -> list[bool]:
        monkeypatch.setattr(together, "_MOST", 1)
        made = paced(monkeypatch, len(seconds) + 1, *seconds, **more)
        return [is_loop for _, is_loop in made]

    assert by_the_loop(0.0019) == [False, True]  # the first is not known to be short
    assert by_the_loop(0.002) == [False, False]
    assert by_the_loop(0.003, 0.0, 0.0) == [False, False, True, True]
    assert by_the_loop(*[0.0] * 10, 0.008, 0.008) == [False, *[True] * 11, False]
    assert by_the_loop(0.0, 0.0, popularity_penalty=1.0) == [False] * 3


def test_an_error_is_told_to_the_one_whose_it_is() -> None:
    watched = Watched(model())
    watched.fails_for = {USERS[3]}

    async def ask() -> None:
        with queue(watched) as asked:
            for user in USERS[4:8]:  # so that many are asked for at a time
                await asyncio.gather(*(asked.ask(user, of_length(5)) for _ in range(8)))
            users = [USERS[0], "nobody", USERS[3], USERS[1]]
            outcomes = await asyncio.gather(
                *(asked.ask(user, of_length(5)) for user in users), return_exceptions=True
            )
        assert outcomes[0] == alone(model(), USERS[0], 5)
        assert isinstance(outcomes[1], UnknownIdError)
        assert list(outcomes[1].ids) == ["nobody"]
        assert str(outcomes[2]) == "poison"
        assert outcomes[3] == alone(model(), USERS[1], 5)

    run(ask)


def test_who_has_gone_is_not_asked_for_and_a_newer_model_answers_who_waits(
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(together, "_LONG", 60.0)
    old, new = Watched(model()), Watched(mfrank.ALS(factors=3, random_state=3).fit(named()))

    async def ask() -> None:
        with queue(old) as asked:
            old.calls.clear()
            old.go.clear()
            first = asked.ask(USERS[0], of_length(4))
            await until(lambda: len(old.calls) == 1)
            gone, waits, too = (asked.ask(user, of_length(4)) for user in USERS[1:4])
            gone.cancel()
            asked._live.now = new, "new"
            old.go.set()
            assert await first == alone(model(), USERS[0], 4)
            assert await waits == alone(new, USERS[2], 4)
            assert await too == alone(new, USERS[3], 4)
        assert old.calls == [[USERS[0]]]
        assert new.calls[0] == [USERS[2]]  # alone, as it is not known how long a call takes

    run(ask)


def test_who_comes_while_all_threads_work_is_answered_by_the_next_call(monkeypatch: Any) -> None:
    monkeypatch.setattr(together, "_LONG", 60.0)
    monkeypatch.setattr(together, "_QUICK", 0.0)  # every call is made by a thread
    watched = Watched(model())

    async def ask() -> None:
        with queue(watched, 2) as asked:
            for size in (1, 2, 4):  # then eight are asked for at a time
                await asyncio.gather(*(asked.ask(user, of_length(4)) for user in USERS[:size]))
            watched.calls.clear()
            watched.go.clear()
            waiting = []
            for place, user in enumerate(USERS[:8]):
                waiting.append(asked.ask(user, of_length(4)))
                await until(lambda: len(watched.calls) == min(place + 1, 2))  # noqa: B023
            await asyncio.sleep(0.01)
            watched.go.set()
            await asyncio.gather(*waiting)
        assert watched.calls == [USERS[:1], USERS[1:2], USERS[2:8]]

    run(ask)


@pytest.mark.parametrize("place", [0, 1, 3])
def test_one_who_gives_up_within_a_call_costs_the_others_nothing(
    monkeypatch: Any, place: int
) -> None:
    monkeypatch.setattr(together, "_LONG", 60.0)
    monkeypatch.setattr(together, "_QUICK", 0.0)  # every call is made by a thread
    watched = Watched(model())

    async def ask() -> None:
        with queue(watched) as asked:
            for size in (1, 2):  # then four are asked for at a time
                await asyncio.gather(*(asked.ask(user, of_length(4)) for user in USERS[:size]))
            watched.calls.clear()
            watched.go.clear()
            waiting = [asked.ask(user, of_length(4)) for user in USERS[:4]]
            await until(lambda: len(watched.calls) == 1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(waiting[place], 0.01)
            watched.go.set()
            for user, answer in zip(USERS[:4], waiting, strict=True):
                assert answer.cancelled() or await answer == alone(model(), user, 4)
            assert await asked.ask(USERS[5], of_length(4)) == alone(model(), USERS[5], 4)
        assert watched.calls[0] == USERS[:4]
        assert [answer.cancelled() for answer in waiting].count(True) == 1

    run(ask)


def test_limits_hold_where_users_wait_together() -> None:
    path = f"/recommend/{USERS[-1]}"
    late = client(Watched(model(), seconds=0.3), limits=serving.Limits(max_seconds=0.05)).get(path)
    assert late.status_code == 503
    assert late.headers["retry-after"] == "1"
    assert "no answer within 0.05 s" in late.json()["error"]
    asked = client(Watched(model(), seconds=0.3), limits=serving.Limits(max_waiting=1))
    with asked, ThreadPoolExecutor(4) as pool:
        statuses = sorted(answer.status_code for answer in pool.map(asked.get, [path] * 4))
        assert statuses[0] == 200
        assert statuses[-1] == 503
        assert asked.get(path).status_code == 200
        lines = asked.get("/metrics").text.splitlines()
    assert "mfrank_requests_in_progress 1" in lines  # this one


def test_all_of_a_call_that_takes_too_long_are_told(monkeypatch: Any) -> None:
    monkeypatch.setattr(together, "_QUICK", 0.0)  # every call is made by a thread

    class Late(Watched):
        def recommend(self, *args: Any, **options: Any) -> Any:
            answer = super().recommend(*args, **options)
            while not self.go.is_set():
                check_time()
            return answer

    late = Late(model())

    async def ask() -> None:
        with queue(late) as asked:
            for size in (1, 2):  # then four are asked for at a time
                await asyncio.gather(*(asked.ask(user, of_length(4)) for user in USERS[:size]))
            late.calls.clear()
            late.go, asked._max_seconds = Never(), 0.05
            outcomes = await asyncio.gather(
                *(asked.ask(user, of_length(4)) for user in USERS[:3]), return_exceptions=True
            )
        assert late.calls == [USERS[:3]]
        told = {(each.status_code, each.detail) for each in outcomes}  # type: ignore[union-attr]
        assert told == {(503, "there was no answer within 0.05 s; try again later")}

    run(ask)


class Never(threading.Event):
    """An event for which nobody waits, and which does not happen."""

    def wait(self, timeout: float | None = None) -> bool:
        return True


def test_clients_with_an_event_loop_for_each_request_are_answered() -> None:
    limits = serving.Limits(max_seconds=10)
    asked = client(Watched(model(), seconds=0.1), limits=limits)  # outside of "with"
    began = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(asked.get, [f"/recommend/{user}" for user in USERS[-8:]]))
    assert [answer.content for answer in answers] == [alone(model(), user) for user in USERS[-8:]]
    assert time.monotonic() - began < 8  # nobody is woken by the limit only


def test_an_error_does_not_keep_an_older_model() -> None:
    """Else a service that loads models again and again grows until Python looks for cycles."""
    application = serving.app(Watched(model()))
    live = application.state.live
    older = weakref.ref(live.current)
    with TestClient(application) as asked:
        assert asked.get(f"/recommend/{USERS[-1]}").status_code == 200
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                assert asked.get("/recommend/nobody").status_code == 404
            live.now = Watched(model()), "new"
            assert asked.get(f"/recommend/{USERS[-1]}").status_code == 200
            assert older() is None
        finally:
            gc.enable()


def test_who_waits_when_the_service_stops_is_answered() -> None:
    watched = Watched(model())
    config = uvicorn.Config(serving.app(watched), port=0, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        watched.calls.clear()
        watched.go.clear()
        with ThreadPoolExecutor(8) as pool:
            url = f"http://127.0.0.1:{port}/recommend/"
            answers = [pool.submit(httpx2.get, url + user) for user in USERS[-8:]]
            while len(server.server_state.tasks) < 8:
                time.sleep(0.01)
            server.should_exit = True
            time.sleep(0.1)
            watched.go.set()
            assert [answer.result().status_code for answer in answers] == [200] * 8
    finally:
        watched.go.set()
        server.should_exit = True
        thread.join()
