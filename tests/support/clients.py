"""Small served models, and clients that ask them without a network."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import mfrank

pytest.importorskip("fastapi", reason="needs FastAPI: pip install mfrank[serve]")
pytest.importorskip("httpx2", reason="needs httpx2, with which Starlette's test client asks")

from starlette.testclient import TestClient

from mfrank import serving

__all__ = ["client", "kinds", "model", "named"]


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


kinds = ("ALS", "WRMF", "Descent", "ItemKNN", "Popularity", "numbered")


def client(served: Any, **options: Any) -> Any:
    """A client of the service of a model."""
    return TestClient(serving.app(served, **options), raise_server_exceptions=False)
