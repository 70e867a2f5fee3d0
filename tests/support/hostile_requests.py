"""Requests to the JSON API that no client should send, and what may be answered."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from hostile import TEXTS, Rng
from small_world import N_ITEMS, N_USERS, model, one_of

from mfrank import serving
from mfrank.arrays import shown

_ROUTES = (
    *("recommend/{0}", "similar/{1}", "score/{0}", "explain/{0}/{1}", "recommend", "docs"),
    *("health", "metrics", "openapi.json", "recommend/", "/", "{0}", "recommend/{0}/{1}"),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, 0, 1, 3, -1, 2**31, 2**63, 10**30, 0.5, 1e308, math.nan, "", "1", "x", "\0", "é"),
    *(
        [],
        [0],
        [0, 1],
        ["user-1"],
        ["item-1", "x"],
        [[]],
        [[0], [1]],
        [None],
        [1, "a"],
        {},
        [1] * 99,
    ),
    *([10**400], [1.5], [True], {"a": 1}, "skip", "error", ["item-1", "item-2"], [0.5, math.inf]),
)
_FIELDS = (
    *("users", "from_items", "weights", "n", "filter_items", "items", "include_seen", "item"),
    *("on_unknown", "boosts", "diversity", "fallback", "popularity_penalty"),
)
_LIMITS = serving.Limits(max_n=50, max_batch=20, max_body=2000, max_waiting=4)


def route(rng: Rng) -> str:
    """A path of the API, or nearly one."""
    texts = [text for text in TEXTS if isinstance(text, str) and text.isprintable()]
    user = one_of(rng, [rng.integers(N_USERS), f"user-{rng.integers(N_USERS)}", one_of(rng, texts)])
    item = one_of(rng, [rng.integers(N_ITEMS), f"item-{rng.integers(N_ITEMS)}", one_of(rng, texts)])
    odd = "" if rng.random() < 0.7 else "/%"
    return str(one_of(rng, _ROUTES)).format(quote(str(user), odd), quote(str(item), odd))


def query(rng: Rng) -> str:
    """Parameters, some of them twice."""
    return urlencode([(one_of(rng, _FIELDS), one_of(rng, _VALUES)) for _ in range(rng.integers(4))])


def body(rng: Rng) -> bytes:
    """What is JSON most of the time."""
    fields = {one_of(rng, _FIELDS): one_of(rng, _VALUES) for _ in range(rng.integers(4))}
    users = one_of(rng, [[0, 1], ["user-1"], ["user-1", "x"], [3] * 30])
    said: Any = {"users": users} | fields if rng.random() < 0.7 else fields
    text = json.dumps(said if rng.random() < 0.9 else one_of(rng, _VALUES)).encode()
    if rng.random() < 0.8:
        return text
    return bytes(one_of(rng, [text[:-1], b"[" * 999, b"\xff" + text, b"", text * 99, rng.bytes(9)]))


@dataclass(frozen=True)
class Service:
    """The service of a model, asked in this process."""

    kind: str

    def ask(self, method: Any, route: Any, query: Any, body: Any) -> None:
        """Send a request; an error that the service does not mean to answer with passes through."""
        answer = _client(self.kind).request(
            _text(method),
            quote(f"/{_text(route)}?{_text(query)}", "/?%=&+", errors="replace"),
            content=body if isinstance(body, bytes) else _text(body).encode(errors="replace"),
            headers={"host": "localhost", "content-type": "application/json"},
        )
        assert answer.status_code < 500 or answer.status_code in (501, 503), answer.text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else shown(value)


@cache
def _client(kind: str) -> Any:
    from starlette.testclient import TestClient

    return TestClient(serving.app(model(kind), limits=_LIMITS))
