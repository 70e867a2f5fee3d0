"""The description of the service, /openapi.json, with its limits and what a body may have."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from mfrank.serving.access import OPEN
from mfrank.serving.event_forms import EventBatch, OneEvent
from mfrank.serving.limits import Limits
from mfrank.serving.questions import Batch, Rollback

_OF_SEVERAL = "model", "visitor"
"""Parameters of services with several models."""


class Described(FastAPI):
    """An application whose description has the limits of this service, and what a body may have."""

    def openapi(self) -> dict[str, Any]:
        """The description; made once."""
        if self.openapi_schema is None:
            described, limits = super().openapi(), self.state.limits
            names = [str(arm.name) for arm in self.state.arms if self.state.arms.are_named]
            parts = []
            for body in (Batch, OneEvent, EventBatch, Rollback):
                schema = body.model_json_schema(ref_template="#/components/schemas/{model}")
                schema.pop("$defs", None)
                described["components"]["schemas"][body.__name__] = schema
                for name in () if names else _OF_SEVERAL:
                    schema["properties"].pop(name, None)
                parts.append(schema["properties"])
            for methods in described["paths"].values():
                for route in methods.values():
                    given = route.get("parameters", [])
                    given[:] = [each for each in given if names or each["name"] not in _OF_SEVERAL]
                    parts.append({each["name"]: each["schema"] for each in given})
            if self.state.has_keys:
                key = {"type": "http", "scheme": "bearer"}
                described["components"]["securitySchemes"] = {"key": key}
                for path in described["paths"].keys() - set(OPEN):
                    for route in described["paths"][path].values():
                        route["security"] = [{"key": []}]
            for part in parts:
                for name, schema in part.items():
                    if name == "n":
                        schema.update(default=limits.usual_n, maximum=limits.max_n)
                    if name == "model":
                        schema.update(anyOf=[{"enum": names}, {"type": "null"}])
                    for each in schema.get("anyOf", ()) if name == "offset" else ():
                        if each["type"] == "integer":  # with n, which may be the largest
                            each["maximum"] = limits.max_depth - limits.max_n
                    _bound(schema, limits)
        described = super().openapi()
        if self.servers:  # early releases of FastAPI add the mount's path after the first call
            described["servers"] = self.servers
        return described


def _bound(schema: dict[str, Any], limits: Limits) -> None:
    """Write how much it may have into the description of a parameter."""
    for each in schema.get("anyOf", ()):
        _bound(each, limits)
    if schema.get("type") == "array":
        schema["maxItems"] = limits.max_batch
        for each in schema["items"].get("anyOf", ()):
            if each["type"] == "integer":  # an id
                each.update(minimum=-(2**63), maximum=2**63 - 1)
        _bound(schema["items"], limits)
    if schema.get("type") == "object":
        schema["maxProperties"] = limits.max_batch
