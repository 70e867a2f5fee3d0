"""The description of the service: /openapi.json, with its limits, and /docs, a page.

FastAPI's own page loads scripts from another host; this one is plain HTML.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import FastAPI

from mfrank.serving.access import OPEN
from mfrank.serving.limits import Limits
from mfrank.serving.questions import Batch, EventBatch, OneEvent, Rollback

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
        return super().openapi()


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


STYLE = """\
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 52rem; margin: 0 auto; padding: 1rem; }
h2 { margin: 2.5rem 0 0.25rem; font-size: 1.1rem; font-family: ui-monospace, monospace; }
h2 b { display: inline-block; min-width: 3.5rem; color: light-dark(#2451b3, #8fb4ff); }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: 0.3rem 0.8rem 0.3rem 0;
  border-top: 1px solid light-dark(#ddd, #444); }
code { font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
"""


def page(openapi: Mapping[str, Any]) -> str:
    """The description of all routes as an HTML page."""
    info = openapi["info"]
    title = escape(f"{info['title']} {info['version']}")
    return "".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<title>{title}</title><link rel="stylesheet" href="docs.css"></head><body>',
            f"<h1>{title}</h1><p>{escape(info.get('description', ''))}</p>",
            '<p>For programs: <a href="openapi.json">openapi.json</a></p>',
            *_routes(openapi),
            "</body></html>",
        )
    )


def _routes(openapi: Mapping[str, Any]) -> Iterator[str]:
    for path, methods in openapi["paths"].items():
        for method, route in methods.items():
            yield f"<h2><b>{escape(method.upper())}</b> {escape(path)}</h2>"
            yield f"<p>{escape(route.get('description', ''))}</p><table>"
            for given in (*route.get("parameters", ()), *_fields(openapi, route)):
                yield _row(given["name"], _kind(given["schema"]), given.get("description", ""))
            for status, answer in route["responses"].items():
                yield _row(status, "", answer["description"])
            yield "</table>"


def _fields(openapi: Mapping[str, Any], route: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The fields of a route's body."""
    body = route.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = body.get("schema", {})
    for each in schema.get("anyOf", [schema] if schema else ()):
        reference = each["$ref"]
        fields = openapi["components"]["schemas"][reference.rpartition("/")[2]]["properties"]
        for name, schema in fields.items():
            yield {"name": name, "schema": schema, "description": schema.get("description", "")}


def _kind(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_kind, schema["anyOf"])))
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    default = f", default {schema['default']}" if schema.get("default") not in (None, []) else ""
    kind = " | ".join(schema["enum"]) if "enum" in schema else schema.get("type", "any")
    return f"{kind}{default}"


def _row(name: str, kind: str, about: str) -> str:
    cells = f"<code>{escape(name)}</code>", escape(kind), escape(about)
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
