"""The service is as /openapi.json describes it: schemathesis asks what it allows, and what not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import mfrank
from mfrank import serving

schemathesis = pytest.importorskip(
    "schemathesis", reason="needs schemathesis: pip install mfrank[test]"
)
pytest.importorskip("fastapi", reason="needs FastAPI: pip install mfrank[serve]")
checks = pytest.importorskip("schemathesis.specs.openapi.checks")

QUESTIONS = [
    "GET /recommend/{user}",
    "POST /recommend",
    "GET /similar/{item}",
    "GET /score/{user}",
    "GET /explain/{user}/{item}",
    "POST /events",
    "POST /rollback",
    "GET /health",
    "GET /ready",
    "GET /metrics",
]
OF_TABLE = {"where", "fields", "boosts_where", "at_most"}
"""What may be refused because of the columns of the table of items."""
TOLD_APART = OF_TABLE | {"cursor", "weights", "diversity", "time"}
"""What may be refused though the description allows it: it cannot say which cursors there are, that
there is a weight for each item, that long lists with diversity take too much time, or which time
it is."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The description of a service with all that one may have, and its key."""
    folder: Path = tmp_path_factory.mktemp("service")
    rng = np.random.default_rng(0)
    users, items = ([f"{p}{i}" for i in rng.integers(0, n, 300)] for p, n in (("u", 20), ("i", 9)))
    data = mfrank.Interactions.from_arrays(users, items)
    mfrank.ALS(factors=4, iterations=1, random_state=0).fit(data).save(folder / "model")
    rows = "".join(f"i{i},Title {i},{1980 + i},a|b,{i == 3}\n" for i in range(9))
    (folder / "items.csv").write_text(f"item_id,title,year,genres,hidden\n{rows}")
    key = serving.new_key(folder / "keys", "all", scopes=["read", "write", "operate"])
    application = serving.app(
        folder / "model",
        items=folder / "items.csv",
        journal=folder / "journal",
        key_file=folder / "keys",
        remember_shown=60,
    )
    return schemathesis.openapi.from_asgi("/openapi.json", application), key


def operations(described: Any) -> dict[str, Any]:
    found = (each.ok() for each in described.get_all_operations())
    return {each.label: each for each in found}


def names_in(body: Any) -> set[str]:
    """The names of a body, and of its parts."""
    if isinstance(body, list):
        return {name for each in body for name in names_in(each)}
    if not isinstance(body, dict):
        return set()
    return {*body, *(name for each in body.values() for name in names_in(each))}


def test_every_question_is_asked_here(service: Any) -> None:
    assert sorted(operations(service[0])) == sorted(QUESTIONS)


@pytest.mark.parametrize(
    ("label", "mode"),
    [(each, mode) for each in QUESTIONS for mode in ("positive", "negative") if (each, mode)
     not in {("GET /health", "negative"), ("GET /ready", "negative")}],  # nothing can be wrong
)  # fmt: skip
def test_the_service_is_as_it_is_described(service: Any, label: str, mode: str) -> None:
    described, key = service
    operation, headers = operations(described)[label], {"Authorization": f"Bearer {key}"}

    @settings(
        max_examples=6,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode)))
    def ask(case: Any) -> None:
        response = case.call(headers=headers)
        sent = {*(case.query or ()), *names_in(case.body)}
        unsure = [checks.positive_data_acceptance] if sent & TOLD_APART else []
        case.validate_response(response, headers=headers, excluded_checks=unsure)

    ask()
