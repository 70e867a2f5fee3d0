"""Limits of requests, work that ends when nobody waits for it, and what is measured."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from clients import client, model, named

from mfrank._version import __version__
from mfrank.arrays import OutOfTimeError, check_time
from mfrank.serving.limits import Limits, in_thread, in_time
from mfrank.serving.measures import Measures
from tests.support.errors import refuses

USER = str(named().user_ids.labels[-1])


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
def test_every_limit_is_a_number_above_zero(name: str) -> None:
    assert getattr(Limits(**{name: 1}), name) == 1
    wrong = [0, -1, "x", None] if name.endswith("_seconds") else [0, -1, 0.5, "x", None]
    for value in wrong:
        with refuses((TypeError, ValueError), name):
            Limits(**{name: value})


def test_the_usual_list_is_not_longer_than_may_be_asked_for() -> None:
    assert [Limits(max_n=n).usual_n for n in (1, 9, 10, 11)] == [1, 9, 10, 10]


def test_work_is_not_begun_when_nobody_waits_for_it() -> None:
    begun: list[int] = []
    with pytest.raises(OutOfTimeError):
        in_time(lambda: begun.append(1), 60, lambda: True)
    assert not begun
    assert in_time(lambda: "done", 60, lambda: False) == "done"


def working() -> None:
    while True:
        check_time()


def test_work_ends_when_its_time_is_over_or_nobody_waits() -> None:
    with pytest.raises(OutOfTimeError):
        in_time(working, 0.01, lambda: False)
    asked: list[int] = []
    with pytest.raises(OutOfTimeError):
        in_time(working, 600, lambda: asked.append(1) or len(asked) > 5)  # type: ignore[func-returns-value]


def test_work_in_a_thread_ends_with_the_call_that_waits() -> None:
    async def call(pool: ThreadPoolExecutor) -> None:
        assert await in_thread(pool, lambda: "done", 60) == "done"
        with pytest.raises(OutOfTimeError):
            await in_thread(pool, working, 0.01)
        waiting = asyncio.create_task(in_thread(pool, working, 600))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    with ThreadPoolExecutor(1) as pool:
        asyncio.run(asyncio.wait_for(call(pool), 20))


def told(measures: Measures, live: Any) -> tuple[dict[str, float], dict[str, str]]:
    """The samples of the text, and the kinds of its families, whose samples follow them."""
    text = measures.text(live)
    assert text.endswith("\n")
    samples: dict[str, float] = {}
    kinds: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, family, about = line.split(" ", 3)
            assert about
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == family
            kinds[name] = kind
        else:
            name, _, value = line.rpartition(" ")
            assert name.startswith(family)
            samples[name.removeprefix("mfrank_")] = float(value)
    return samples, kinds


LIVE = SimpleNamespace(name=None, current=model(), since=1.7e9, loads=3, failures=4)


def test_requests_are_counted_and_timed_as_prometheus_reads_it() -> None:
    measures, taken = Measures(), [0.0005, 0.0006, 0.3, 10.0, 11.0]
    for seconds in taken:
        measures.add("/b", "GET", 200, seconds)
    measures.add("/a", "POST", 422, 0.2)
    measures.in_progress = 2
    samples, kinds = told(measures, LIVE)
    requests = {name: value for name, value in samples.items() if "requests_total" in name}
    assert list(requests.items()) == [
        ('requests_total{route="/a",method="POST",status="422"}', 1),
        ('requests_total{route="/b",method="GET",status="200"}', 5),
    ]
    for route, seen in (("/a", [0.2]), ("/b", taken)):
        begin = f'request_seconds_bucket{{route="{route}",le="'
        counts = {
            float(name.removeprefix(begin).rstrip('"}')): value
            for name, value in samples.items()
            if name.startswith(begin)
        }
        assert counts == {bound: sum(each <= bound for each in seen) for bound in counts}
        *bounds, last = counts
        assert (bounds[0], bounds[-1], last) == (0.0005, 10, float("inf"))
        assert all(1.99 < more / less < 2.51 for less, more in pairwise(bounds))
        assert samples[f'request_seconds_sum{{route="{route}"}}'] == pytest.approx(sum(seen))
        assert samples[f'request_seconds_count{{route="{route}"}}'] == len(seen)
    assert samples["requests_in_progress"] == 2
    assert kinds["mfrank_requests_total"] == "counter"
    assert kinds["mfrank_request_seconds"] == "histogram"


def test_the_state_of_the_service_is_measured() -> None:
    before = time.time()
    samples, kinds = told(Measures(), LIVE)
    began = samples.pop("start_time_seconds")
    assert before - 1e-3 <= began <= time.time() + 1e-3  # digits are left out
    assert samples == {
        f'info{{version="{__version__}"}}': 1,
        "requests_in_progress": 0,
        "model_loaded_seconds": 1.7e9,
        "model_users": 30,
        "model_items": 20,
        "model_reloads_total": 3,
        "model_reload_failures_total": 4,
    }
    totals = {name for name, kind in kinds.items() if kind == "counter"}
    assert totals == {name for name in kinds if name.endswith("_total")}
    assert set(kinds.values()) == {"counter", "gauge", "histogram"}
    many = SimpleNamespace(**{**vars(LIVE), "since": 1764123456.789})
    assert told(Measures(), many)[0]["model_loaded_seconds"] == many.since


def test_health_and_metrics_tell_what_was_asked() -> None:
    asked, path = client(model()), f"/recommend/{USER}"
    for method in ("GET", "GET", "GET", "HEAD", "OPTIONS", "BREW"):
        asked.request(method, path)
    asked.get("/recommend/nobody")
    asked.post("/recommend", json={"users": [USER]})
    about = asked.get("/health").json()
    told = ("status", "model", "users", "items", "reloads", "failed_reloads", "reload_error")
    assert [about[name] for name in told] == ["ok", "ALS", 30, 20, 0, 0, None]
    lines = asked.get("/metrics").text.splitlines()
    requests = [line for line in lines if line.startswith("mfrank_requests_total")]
    route = 'route="/recommend/{user}",method='
    for expected in (
        f'{route}"GET",status="200"}} 3',
        f'{route}"HEAD",status="200"}} 1',
        f'{route}"OPTIONS",status="204"}} 1',
        f'{route}"other",status="405"}} 1',
        f'{route}"GET",status="404"}} 1',
        'route="/recommend",method="POST",status="200"} 1',
        'route="/health",method="GET",status="200"} 1',
    ):
        assert "mfrank_requests_total{" + expected in requests
    assert len(requests) == 7
    assert 'mfrank_request_seconds_count{route="/recommend/{user}"} 7' in lines
    assert "mfrank_requests_in_progress 1" in lines  # this one
