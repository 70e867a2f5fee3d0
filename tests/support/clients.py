"""Small served models, and clients that ask them without a network."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pytest

import mfrank

pytest.importorskip("fastapi", reason="needs FastAPI: pip install mfrank[serve]")
pytest.importorskip("httpx2", reason="needs httpx2, with which Starlette's test client asks")

from starlette.testclient import TestClient

from mfrank import serving

__all__ = [
    "Reply",
    "application",
    "ask",
    "client",
    "kinds",
    "model",
    "named",
    "numbered_beyond_floats",
    "other",
    "wait_for",
]


@cache
def named() -> mfrank.Interactions:
    """Interactions with text as ids, one of which has all that URLs quote."""
    data = mfrank.synthetic(30, 20, 200, names=True, random_state=0)
    users = data.user_ids.labels.copy()
    users[3] = "a/b c?d=%41&é<b>"
    return mfrank.Interactions.from_arrays(
        users[data.entry_users], data.item_ids.labels[data.user_items.indices]
    )


@cache
def model(kind: str = "ALS") -> Any:
    """A fitted model of a kind."""
    if kind == "numbered":
        return mfrank.ALS(factors=4, iterations=2, random_state=0).fit(
            mfrank.synthetic(30, 20, 200, random_state=0)
        )
    fits = {
        "ALS": lambda: mfrank.ALS(mfrank.IALS(), factors=4, iterations=2, random_state=0),
        "WRMF": lambda: mfrank.ALS(mfrank.WRMF(), factors=4, iterations=2, random_state=0),
        "Descent": lambda: mfrank.Descent(factors=4, iterations=1, random_state=0),
        "ItemKNN": mfrank.ItemKNN,
        "Popularity": mfrank.Popularity,
    }
    return fits[kind]().fit(named())


def other() -> mfrank.ALS:
    """A fitted model that may replace another one."""
    return mfrank.ALS(mfrank.IALS(), factors=2, iterations=1, random_state=5).fit(named())


def wait_for(what: Callable[[], Any], seconds: float = 10) -> None:
    """Return when something has happened."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.01)


kinds = ("ALS", "WRMF", "Descent", "ItemKNN", "Popularity", "numbered")


def client(served: Any, **options: Any) -> Any:
    """A client of the service of a model."""
    return TestClient(serving.app(served, **options), raise_server_exceptions=False)


@cache
def application(kind: str = "ALS", max_n: int = 1000) -> Any:
    """The service of a model of a kind, one for all tests that ask for it."""
    return serving.app(model(kind), limits=serving.Limits(max_n=max_n))


class Reply(NamedTuple):
    """What an application answered to a raw request."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


def ask(
    application: Any,
    path: bytes,
    query: bytes = b"",
    *,
    method: str = "GET",
    headers: Sequence[tuple[bytes, bytes]] = (),
    body: bytes | Sequence[bytes] = b"",
    host: bytes = b"localhost",
) -> Reply:
    """Send a request as its bytes are, which clients would spell in their own way.

    A body may be given in the parts in which it arrives.
    """
    sent: list[Any] = []

    async def call() -> None:
        chunks = [body] if isinstance(body, bytes) else body
        parts = [
            {"type": "http.request", "body": chunk, "more_body": left > 0}
            for left, chunk in enumerate(reversed(chunks))
        ]
        gone = asyncio.Event()

        async def receive() -> Any:
            if not parts:
                await gone.wait()
            return parts.pop() if parts else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path.decode("latin-1")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": [(b"host", host), *headers],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "state": {},
        }
        await application(scope, receive, send)

    asyncio.run(call())
    content = b"".join(each.get("body", b"") for each in sent[1:])
    return Reply(sent[0]["status"], sent[0]["headers"], content)


@cache
def numbered_beyond_floats() -> Any:
    """A model whose ids are whole numbers, of which most are none of JavaScript's."""
    data = mfrank.synthetic(30, 20, 200, random_state=0)
    users, items = (2**53 - 3 + np.arange(size) for size in (30, 20))
    return mfrank.ALS(mfrank.IALS(), factors=4, iterations=2, random_state=0).fit(
        mfrank.Interactions.from_arrays(users[data.entry_users], -items[data.user_items.indices])
    )
