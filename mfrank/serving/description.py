"""The description of the service: /openapi.json, and /docs, a page on which questions are asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
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


# /docs. FastAPI's own page loads scripts from another host; this one loads a script of this service
# and nothing else.

STYLE = """\
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 52rem; margin: 0 auto; padding: 1rem; }
h2 { margin: 2.5rem 0 0.25rem; font-size: 1.1rem; font-family: ui-monospace, monospace; }
h2 b { display: inline-block; min-width: 3.5rem; color: light-dark(#2451b3, #8fb4ff); }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: 0.3rem 0.8rem 0.3rem 0;
  border-top: 1px solid light-dark(#ddd, #444); }
form { margin: 0.5rem 0; }
input, textarea { font: inherit; width: 100%; min-width: 8rem; box-sizing: border-box; }
textarea.body, output { font-family: ui-monospace, monospace; }
output { display: block; white-space: pre-wrap; overflow-wrap: anywhere; max-height: 30rem;
  overflow-y: auto; }
code { font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
"""

SCRIPT = """\
"use strict";
const key = document.querySelector("#key");

async function ask(form) {
  const query = new URLSearchParams();
  let path = form.dataset.path.slice(1);  // beside this page, also under a prefix
  for (const field of form.querySelectorAll("[data-in]")) {
    const values = field.value.split("\\n").filter(Boolean);
    if (field.dataset.in === "path")
      path = path.replace(`{${field.name}}`, () => encodeURIComponent(field.value));
    else for (const value of values) query.append(field.name, value);
  }
  const url = query.size ? `${path}?${query}` : path, headers = {};
  const body = form.querySelector(".body");
  if (key.value) headers.Authorization = `Bearer ${key.value}`;
  if (body) headers["Content-Type"] = "application/json";
  const answer = await fetch(url, { method: form.dataset.method, headers, body: body?.value });
  const text = await answer.text();
  const isJson = answer.headers.get("content-type")?.startsWith("application/json");
  const shown = isJson ? JSON.stringify(JSON.parse(text), null, 2) : text;
  return `${answer.status} ${answer.statusText}  ${url}\\n\\n${shown}`;
}

for (const form of document.querySelectorAll("form[data-path]"))
  form.addEventListener("submit", event => {
    event.preventDefault();
    const told = form.querySelector("output");
    ask(form).then(text => { told.textContent = text; },
                   error => { told.textContent = `no answer: ${error.message}`; });
  });
"""


def page(openapi: Mapping[str, Any]) -> str:
    """The description of all routes as an HTML page."""
    info = openapi["info"]
    title = escape(f"{info['title']} {info['version']}")
    return "".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<title>{title}</title><link rel="stylesheet" href="docs.css">',
            '<script src="docs.js" defer></script></head><body><main>',
            f"<h1>{title}</h1><p>{escape(info.get('description', ''))}</p>",
            '<p>For programs: <a href="openapi.json">openapi.json</a></p>',
            "<p><label>Key, if the service asks for one: ",
            '<input id="key" spellcheck="false" autocomplete="off"></label></p>',
            *_routes(openapi),
            "</main></body></html>",
        )
    )


def _routes(openapi: Mapping[str, Any]) -> Iterator[str]:
    for path, methods in openapi["paths"].items():
        for method, route in methods.items():
            name = escape(method.upper()), escape(path)
            yield f"<h2><b>{name[0]}</b> {name[1]}</h2>"
            yield f"<p>{escape(route.get('description', ''))}</p>"
            yield f'<form data-method="{name[0]}" data-path="{name[1]}"><table>'
            for given in route.get("parameters", ()):
                yield _row(given, _field(given))
            for given in _fields(openapi, route):
                yield _row(given)
            for status, answer in route["responses"].items():
                yield _row({"name": status, "description": answer["description"]})
            yield f"</table>{_body(openapi, route)}"
            yield f'<button aria-label="Ask {" ".join(name)}">Ask</button><output></output></form>'


def _schemas(openapi: Mapping[str, Any], route: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a route's body may be."""
    body = route.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = body.get("schema", {})
    some = schema.get("anyOf", [schema] if schema else [])
    return [openapi["components"]["schemas"][each["$ref"].rpartition("/")[2]] for each in some]


def _fields(openapi: Mapping[str, Any], route: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The fields of a route's body."""
    for schema in _schemas(openapi, route):
        for name, each in schema["properties"].items():
            yield {"name": name, "schema": each, "description": each.get("description", "")}


def _body(openapi: Mapping[str, Any], route: Mapping[str, Any]) -> str:
    """Where the body is written, with an example."""
    schemas = _schemas(openapi, route)
    if not schemas:
        return ""
    example = json.dumps(schemas[0].get("examples", [{}])[0], indent=2)
    return f'<textarea class="body" rows="6" aria-label="body">{escape(example)}</textarea>'


def _field(given: Mapping[str, Any]) -> str:
    """Where a parameter of the URL is written; of a list, each value on a line of its own."""
    name, schema = escape(given["name"]), given["schema"]
    default = schema.get("default")
    told = "" if default is None or default == [] else escape(json.dumps(default).strip('"'))
    required = " required" if given.get("required") else ""
    how = (
        f'name="{name}" data-in="{escape(given.get("in", "query"))}" aria-label="{name}"{required}'
    )
    if "list" in _kind(schema):
        return f'<textarea rows="1" placeholder="one a line" {how}></textarea>'
    return f'<input placeholder="{told}" {how}>'


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


def _row(given: Mapping[str, Any], field: str = "") -> str:
    kind = escape(_kind(given["schema"])) if "schema" in given else ""
    cells = (
        f"<code>{escape(given['name'])}</code>",
        kind,
        escape(given.get("description", "")),
        field,
    )
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
