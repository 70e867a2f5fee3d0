"""The requests that docs/serving.md shows are answered, and its table leaves out no route."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import mfrank

pytest.importorskip("fastapi", reason="needs FastAPI: pip install mfrank[serve]")
pytest.importorskip("httpx2", reason="needs httpx2: pip install mfrank[test]")
from starlette.testclient import TestClient

import mfrank.serving

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
if not PAGE.exists():
    pytest.skip("the pages are not beside the tests", allow_module_level=True)
TEXT = PAGE.read_text()


@pytest.fixture(scope="module")
def api() -> Any:
    users = ["alice"] * 2 + ["bob"] * 3 + ["carol"] * 3
    items = ["item-9", "item-17", "item-9", "item-3", "item-4", "item-17", "item-3", "item-5"]
    data = mfrank.Interactions.from_arrays(users, items)
    model = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(data)
    return TestClient(mfrank.serving.app(model))


def test_what_is_asked_for_by_get_is_answered(api: Any) -> None:
    paths = re.findall(r"`GET (/\S+)`", TEXT)
    assert len(paths) > 7
    for path in paths:
        assert api.get(path).status_code == 200, path


def test_what_is_asked_for_by_post_is_answered(api: Any) -> None:
    bodies = re.findall(r"-d '(\{.*\})'", TEXT)
    of_lists = [body for body in bodies if "users" in body or "from_items" in body]
    assert len(of_lists) == 2
    for body in of_lists:
        answer = api.post("/recommend", json=json.loads(body))
        assert answer.status_code == 200, body
        assert all(each["items"] for each in answer.json()["lists"])


def test_every_route_and_every_limit_is_told(api: Any) -> None:
    for path in api.get("/openapi.json").json()["paths"]:
        assert f"/{path.split('/')[1]}" in TEXT, path
    for name in mfrank.serving.Limits.__dataclass_fields__:
        assert f"`--{name.replace('_', '-')}`" in TEXT, name
