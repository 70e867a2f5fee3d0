"""OpenTelemetry sees every request, also those that bypass the routing of FastAPI."""

from __future__ import annotations

from typing import Any

import pytest

import mfrank
from mfrank import serving

trace = pytest.importorskip("opentelemetry.sdk.trace", reason="needs opentelemetry-sdk")
export = pytest.importorskip("opentelemetry.sdk.trace.export")
memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
instrumentation = pytest.importorskip(
    "opentelemetry.instrumentation.fastapi", reason="needs opentelemetry-instrumentation-fastapi"
)
testclient = pytest.importorskip("fastapi.testclient", reason="needs FastAPI")


def without_ids(span: Any, scope: Any) -> None:
    """As in docs/serving.md."""
    for name in ("http.target", "http.url", "url.path", "url.query"):
        span.set_attribute(name, "")


def test_every_request_has_a_span_by_its_route_and_ids_may_be_left_out() -> None:
    data = mfrank.Interactions.from_arrays(["ann", "ann", "bob"], ["pie", "tea", "tea"])
    model = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(data)
    application, provider = serving.app(model), trace.TracerProvider()
    spans = memory.InMemorySpanExporter()
    provider.add_span_processor(export.SimpleSpanProcessor(spans))
    instrumentation.FastAPIInstrumentor.instrument_app(
        application,
        tracer_provider=provider,
        server_request_hook=without_ids,
        exclude_spans=["receive", "send"],
    )
    client = testclient.TestClient(application, base_url="http://localhost")
    for path in ("/recommend/ann", "/recommend/ann?offset=0", "/health"):
        assert client.get(path).status_code == 200
    assert client.get("/recommend/zoe").status_code == 404
    assert client.post("/recommend", json={"users": ["ann"]}).status_code == 200
    found = spans.get_finished_spans()
    assert [each.name for each in found] == [
        *["GET /recommend/{user}"] * 2,
        "GET /health",
        "GET /recommend/{user}",
        "POST /recommend",
    ]
    assert not any("ann" in str(each.attributes) for each in found)
    statuses = [
        each.attributes.get("http.status_code") or each.attributes["http.response.status_code"]
        for each in found
    ]
    assert statuses == [200, 200, 200, 404, 200]
