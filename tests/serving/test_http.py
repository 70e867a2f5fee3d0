"""Methods, hosts, types, numbers and descriptions: what HTTP clients of all sorts rely on."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any
from urllib.parse import quote

import pytest
from clients import application, ask, client, model, named, numbered_beyond_floats
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

import mfrank
from mfrank import pages, serving
from mfrank.serving import answer_forms
from tests.support.errors import refuses

USER = str(named().user_ids.labels[-1])
ITEM = str(named().item_ids.labels[0])
GETS = (
    *(f"/recommend/{USER}", f"/recommend/{USER}?n=3", f"/recommend/{USER}?diversity=0.2"),
    *("/recommend/nobody", f"/similar/{ITEM}", f"/score/{USER}?item={ITEM}"),
    *(
        f"/explain/{USER}/{ITEM}",
        "/health",
        "/metrics",
        "/docs",
        "/docs.css",
        "/docs.js",
        "/openapi.json",
    ),
    *("/nowhere", f"/recommend/{USER}?n=0", f"/recommend/{USER}?wrong=1"),
)
JSON = [(b"content-type", b"application/json")]


@cache
def site() -> Any:
    return pages.app({"one": model()})


APPLICATIONS = {"serve": application, "explore": site}


@pytest.mark.parametrize("path", GETS)
def test_head_is_get_without_the_body(path: str) -> None:
    asked = TestClient(application(), raise_server_exceptions=False)
    get, head = asked.get(path), asked.head(path)
    assert head.status_code == get.status_code
    assert head.content == b""
    if path not in ("/health", "/metrics"):  # whose numbers change
        assert head.headers == get.headers
    assert head.headers["content-type"] == get.headers["content-type"]


@pytest.mark.parametrize("name", APPLICATIONS)
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE", "BREW", "POST", "OPTIONS"])
def test_a_wrong_method_is_told_what_is_allowed(name: str, method: str) -> None:
    asked = APPLICATIONS[name]()
    paths = {"serve": (b"/health", b"/docs"), "explore": (b"/", b"/search", b"/model/0")}[name]
    for path in paths:
        answer = ask(asked, path, method=method)
        assert answer.status == (204 if method == "OPTIONS" else 405)
        assert dict(answer.headers)[b"allow"] == b"GET, HEAD, OPTIONS"
        assert ask(asked, path, method="HEAD").status == 200
    assert ask(asked, b"/nowhere", method=method).status == 404


def test_a_batch_is_posted() -> None:
    for method in ("GET", "HEAD", "PUT"):
        answer = ask(application(), b"/recommend", method=method)
        assert answer.status == 405
        assert dict(answer.headers)[b"allow"] == b"OPTIONS, POST"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b"content-type", b"application/json")], 200),
        ([(b"content-type", b"Application/JSON; charset=UTF-8")], 200),
        ([(b"content-type", b'application/json;charset="utf-8"')], 200),
        ([(b"content-type", b"application/json; charset=utf8; version=1")], 200),
        ([(b"content-type", b"application/json; charset=us-ascii")], 200),
        ([*JSON, (b"content-encoding", b"identity")], 200),
        ([], 415),
        ([(b"content-type", b"")], 415),
        ([(b"content-type", b"text/plain")], 415),
        ([(b"content-type", b"application/x-www-form-urlencoded")], 415),
        ([(b"content-type", b"application/jsonl")], 415),
        ([(b"content-type", b"application/json; charset=latin-1")], 415),
        ([*JSON, (b"content-encoding", b"gzip")], 415),
    ],
)
def test_a_body_says_that_it_is_json(headers: Any, status: int) -> None:
    body = json.dumps({"users": [USER]}).encode()
    answer = ask(application(), b"/recommend", method="POST", headers=headers, body=body)
    assert answer.status == status
    if status == 415:
        assert "content-type" in json.loads(answer.body)["error"] or b"compressed" in answer.body


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "JSON"),
        (b" ", "JSON"),
        (b"null", "object"),
        (b"{} x", "JSON"),
        (b'{"users": []}{"users": []}', "JSON"),
        (b'{"users": [], "users": ["a"]}', "users"),
        (b'{"users": [], "boosts": {"a": 1, "a": 2}}', "a must be given once"),
        (b'{"users": [], "n": NaN}', "finite"),
        (b'{"from_items": ["a"], "weights": [Infinity]}', "finite"),
        (b'{"from_items": ["a"], "weights": [-Infinity]}', "finite"),
        (b'{"users": [], "boosts": {"a": 1e999}}', "finite"),
        (b'{"users": [], "n": true}', "n: "),
        (b'{"users": [], "n": "5"}', "n: "),
        (b'{"users": [], "n": 5.5}', "n: "),
        (b'{"users": [], "include_seen": 1}', "include_seen: "),
        (b'{"users": [], "N": 5}', "'N'"),
        (b'{"users": [null]}', "users"),
        (b'{"users": [1.5]}', "users"),
        (b'{"users": [["a"]], "n": 1}', "users"),
        (b'{"users": ["a"], "items": ["a", ["b"]]}', "items"),
        (b'{"users": ["a"], "items": [[["b"]]]}', "items"),
        (b'{"users": ["a"], "boosts": ["b"]}', "boosts"),
        (b'{"users": ["a"], "boosts": {"b": "1"}}', "boosts"),
        (b'{"from_items": ["a"], "weights": [true]}', "weights"),
        (b'{"from_items": ["a"], "weights": [1' + b"0" * 400 + b"]}", "weights"),
        (b'{"users": [1' + b"0" * 5000 + b"]}", "digits"),
        (b"\xff\xfe{\x00}\x00", "UTF-8"),
        (b'{"users": ["\xe9"]}', "UTF-8"),
        (b"[" * 100_000, "nested"),
        (b'{"users": ' + b"[" * 900 + b"]" * 900 + b"}", "users"),
    ],
)
def test_a_body_is_read_as_it_stands_or_refused(body: bytes, word: str) -> None:
    answer = ask(application(), b"/recommend", method="POST", headers=JSON, body=body)
    assert answer.status == 422
    assert word in json.loads(answer.body)["error"]


@pytest.mark.parametrize("path", ["/health", f"/recommend/{USER}", f"/recommend/{USER}?n=3"])
def test_a_get_with_a_body_is_refused(path: str) -> None:
    """Its parameters would be left out in silence."""
    asked = client(model())
    assert asked.request("GET", path, content=b"").status_code == 200
    refused = asked.request("GET", path, json={"n": 3})
    assert refused.status_code == 422
    assert "body" in refused.json()["error"]
    large = client(model(), limits=serving.Limits(max_body=10))
    assert large.request("GET", path, content=b"x" * 11).status_code == 413


@pytest.mark.parametrize("name", APPLICATIONS)
@pytest.mark.parametrize(
    ("host", "status"),
    [
        (b"api.example.com", 200),
        (b"API.example.com:443", 200),
        (b"api.example.com.", 200),
        (b"a.b.internal", 200),
        (b"internal", 400),
        (b"[2001:db8::1]:80", 200),
        (b"example.com", 400),
        (b"evil.api.example.com", 400),
        (b"api.example.com.evil.example", 400),
        (b"localhost", 400),
        (b"", 400),
    ],
)
def test_hosts_are_those_that_are_allowed(name: str, host: bytes, status: int) -> None:
    hosts = ["API.example.com", "*.internal", "[2001:db8::1]"]
    asked = {
        "serve": lambda: serving.app(model(), allow_hosts=hosts),
        "explore": lambda: pages.app({"one": model()}, allow_hosts=hosts),
    }[name]()
    answer = ask(asked, b"/docs" if name == "serve" else b"/", host=host)
    assert answer.status == status
    if status == 400:
        assert "--allow-host" in json.loads(answer.body)["error"]
    twice = ask(asked, b"/", host=b"api.example.com", headers=[(b"host", b"evil.example")])
    assert twice.status == 400


@pytest.mark.parametrize("wrong", ["https://a.example", "a.example:80", "a/b", "", "a b", 3])
def test_what_is_no_host_is_refused(wrong: Any) -> None:
    with refuses(ValueError, "allow_hosts"):
        serving.app(model(), allow_hosts=[wrong])
    with refuses(TypeError, "allow_hosts"):
        serving.app(model(), allow_hosts="a.example")


BIG, SMALL = 2**53 + 1, 2**53 - 2


def ids_of(answer: Any) -> set[Any]:
    """Every id in an answer."""
    match answer:
        case dict():
            own = {
                answer[key]
                for key in ("id", "user", "item")
                if isinstance(answer.get(key), int | str)
            }
            own |= set(answer.get("ids", ()))
            return own.union(*map(ids_of, answer.values()))
        case list():
            return set().union(*map(ids_of, answer))
    return set()


def through_javascript(content: bytes) -> Any:
    """JSON as a program reads it whose numbers are floats."""
    return json.loads(content, parse_int=lambda text: int(float(text)))


@pytest.mark.parametrize("as_text", [False, True])
def test_whole_numbers_that_floats_do_not_hold_are_texts(as_text: bool) -> None:
    served = numbered_beyond_floats()
    asked = client(served)
    user, item = (f"{BIG}", f"-{BIG}") if as_text else (BIG, -BIG)
    answers = [
        *(asked.get(f"/recommend/{each}?n=20") for each in (BIG, SMALL)),
        asked.get(f"/recommend/{BIG}?n=20&filter_items=-{BIG}"),
        asked.get(f"/similar/-{BIG}?n=20"),
        asked.get(f"/score/{BIG}?item=-{BIG}&item=-{SMALL}"),
        asked.get(f"/explain/{BIG}/-{BIG}?n=20"),
        asked.post("/recommend", json={"users": [user, SMALL], "filter_items": [[item], []]}),
        asked.post(
            "/recommend", json={"users": [user], "boosts": {str(-BIG): 1.0}, "items": [item]}
        ),
        asked.post("/recommend", json={"from_items": [item], "weights": [2], "n": 20}),
    ]
    assert [each.status_code for each in answers] == [200] * len(answers)
    refused = asked.get(f"/recommend/{2**60 + 1}")
    assert refused.json()["ids"] == [str(2**60 + 1)]
    known = {*served.user_ids.labels.tolist(), *served.item_ids.labels.tolist()}
    spelled = {each if abs(each) <= 2**53 else str(each) for each in known}
    for each in answers:
        assert through_javascript(each.content) == each.json()
        assert ids_of(each.json()) <= spelled
    one = asked.get(f"/recommend/{BIG}?n=20").json()
    again = asked.post("/recommend", json={"users": [one["user"]], "n": 20})
    assert again.json()["lists"] == [one]


def test_pages_write_such_numbers_as_texts_too() -> None:
    asked = TestClient(pages.app({"one": numbered_beyond_floats()}))
    answer = asked.get(f"/user/{BIG}?format=json")
    assert answer.status_code == 200
    assert through_javascript(answer.content) == answer.json()


def test_the_description_has_the_limits_that_hold() -> None:
    limits = serving.Limits(max_n=7, max_batch=3, max_steered=100)
    asked = client(model(), limits=limits)
    described = asked.get("/openapi.json").json()
    listing = described["paths"]["/recommend/{user}"]["get"]
    given = {each["name"]: each["schema"] for each in listing["parameters"]}
    assert (given["n"]["minimum"], given["n"]["default"], given["n"]["maximum"]) == (1, 7, 7)
    assert given["items"]["anyOf"][0]["maxItems"] == 3
    batch = described["components"]["schemas"]["Batch"]["properties"]
    assert batch["users"]["anyOf"][0]["maxItems"] == 3
    one, each, _ = batch["filter_items"]["anyOf"]  # one list for all, one for each, or none
    assert one["maxItems"] == each["maxItems"] == each["items"]["maxItems"] == 3
    assert batch["boosts"]["maxProperties"] == 3
    assert not {"maxItems", "maxProperties"} & {*batch["n"], *batch["diversity"]}
    for levers in (given, batch):
        for name, least, most in (("diversity", 0, 1), ("popularity_penalty", 0, 1000)):
            assert (levers[name]["minimum"], levers[name]["maximum"]) == (least, most)
    assert (batch["n"]["minimum"], batch["n"]["default"], batch["n"]["maximum"]) == (1, 7, 7)
    for path, status in (("?n=7", 200), ("?n=8", 422), ("?n=0", 422)):
        assert asked.get(f"/recommend/{USER}{path}").status_code == status
        n = int(path[3:])
        assert asked.post("/recommend", json={"users": [USER], "n": n}).status_code == status
    for n, status in ((3, 200), (4, 422)):
        assert asked.post("/recommend", json={"users": [USER] * n}).status_code == status
        boosts = dict.fromkeys(named().item_ids.labels[:n].tolist(), 1)
        asked_for = {"users": [USER], "boosts": boosts}
        assert asked.post("/recommend", json=asked_for).status_code == status


def test_every_status_that_occurs_is_described() -> None:
    asked = client(
        model("Popularity"), limits=serving.Limits(max_body=300), allow_hosts=["testserver"]
    )
    bare = mfrank.Recommender.of(model("ALS").store)
    described = asked.get("/openapi.json").json()["paths"]
    body, long = {"users": [USER]}, {"users": [USER] * 100}
    seen = [
        *(("/recommend/{user}", "get", asked.get(path)) for path in GETS[:4]),
        ("/recommend/{user}", "get", asked.get(f"/recommend/{USER}?n=0")),
        ("/recommend/{user}", "get", asked.get(f"/recommend/{USER}", headers={"host": "evil"})),
        ("/similar/{item}", "get", asked.get(f"/similar/{ITEM}")),
        ("/explain/{user}/{item}", "get", asked.get(f"/explain/{USER}/{ITEM}")),
        ("/explain/{user}/{item}", "get", client(bare).get(f"/explain/{USER}/{ITEM}")),
        ("/recommend", "post", asked.post("/recommend", json=body)),
        ("/recommend", "post", asked.post("/recommend", json=long)),
        ("/recommend", "post", asked.post("/recommend", content=b"{}")),
        ("/recommend", "post", asked.post("/recommend", json={"users": ["nobody"]})),
        ("/recommend", "post", asked.post("/recommend", json={})),
        ("/health", "get", asked.get("/health")),
    ]
    statuses = {answer.status_code for _, _, answer in seen}
    assert {200, 400, 404, 413, 415, 422, 501} <= statuses
    for path, method, answer in seen:
        assert str(answer.status_code) in described[path][method]["responses"], (path, answer)


def test_every_answer_has_the_form_that_is_described() -> None:
    asked = client(model())
    described = asked.get("/openapi.json").json()
    answers = {
        "/recommend/{user}": asked.get(f"/recommend/{USER}?n=2"),
        "/recommend": asked.post("/recommend", json={"users": [USER]}),
        "/similar/{item}": asked.get(f"/similar/{ITEM}"),
        "/score/{user}": asked.get(f"/score/{USER}?item={ITEM}"),
        "/explain/{user}/{item}": asked.get(f"/explain/{USER}/{ITEM}"),
        "/health": asked.get("/health"),
        "/ready": asked.get("/ready"),
    }
    assert set(described["paths"]) == {*answers, "/metrics"}
    nobody = asked.get("/recommend/nobody")
    for path, answer in answers.items():
        ((method, route),) = described["paths"][path].items()
        assert answer.headers["content-type"] == "application/json"
        fits(described, route["responses"]["200"], answer)
        for status, refusal in route["responses"].items():
            if status != "200":
                assert refusal["description"].endswith(".")  # a sentence, not the status in words
                fits(described, refusal, nobody)
        statuses = set(map(str, (200, 400, 401, 403, 404, 413, 422, 429, 500, 501, 503)))
        assert set(route["responses"]) - {"410", "415"} == statuses
        assert ("415" in route["responses"]) is (method == "post")
        assert ("requestBody" in route) is (method == "post")
    body = described["paths"]["/recommend"]["post"]["requestBody"]
    assert body["required"] is True
    fields = form_of(described, body)
    assert fields["properties"]["users"]
    assert fields["additionalProperties"] is False
    plain = asked.get("/metrics").headers["content-type"]
    assert plain == "text/plain; version=0.0.4; charset=utf-8"


def form_of(described: Any, content: Any) -> Any:
    reference = content["content"]["application/json"]["schema"]["$ref"]
    return described["components"]["schemas"][reference.removeprefix("#/components/schemas/")]


def fits(described: Any, content: Any, answer: Any) -> None:
    """An answer has the fields that the description names for it, and their types."""
    form, given = form_of(described, content), answer.json()
    assert set(form["required"]) <= set(given) <= set(form["properties"])
    getattr(answer_forms, form["title"]).model_validate_json(answer.content)


@pytest.mark.parametrize("prefix", ["/api", "/a/b", "/\xe9"])
def test_it_works_where_it_is_mounted(prefix: str) -> None:
    outer = Starlette(routes=[Mount(prefix, serving.app(model()))])
    asked = TestClient(outer, raise_server_exceptions=False)
    at = quote(prefix)
    own = client(model())
    for path in GETS:
        if path not in ("/openapi.json", "/health", "/metrics"):
            assert asked.get(at + path).content == own.get(path).content, path
    page = asked.get(f"{at}/docs").text
    links = re.findall(r'(?:href|src)="([^"]*)"', page)
    assert links
    for link in links:
        assert asked.get(f"{at}/{link}").status_code == 200
    openapi = asked.get(f"{at}/openapi.json").json()
    assert openapi["servers"] == [{"url": prefix}]
    odd = quote("a/b c?d=%41&\xe9<b>", safe="")
    assert asked.get(f"{at}/recommend/{odd}").json()["user"] == "a/b c?d=%41&\xe9<b>"


def test_options_is_asked_of_no_model() -> None:
    answer = ask(application(), f"/recommend/{USER}".encode(), method="OPTIONS")
    assert (answer.status, answer.body) == (204, b"")
    assert not any(name.startswith(b"access-control") for name, _ in answer.headers)


def test_a_limit_of_the_service_is_named_with_its_remedy() -> None:
    asked = client(model(), limits=serving.Limits(max_n=5, max_batch=2, max_steered=30))
    for body, flag in (
        ({"users": [USER], "n": 6}, "--max-n"),
        ({"users": [USER] * 3}, "--max-batch"),
        ({"users": [USER] * 2, "n": 5, "diversity": 0.3}, "--max-steered"),
    ):
        refused = asked.post("/recommend", json=body)
        assert refused.status_code == 422
        assert flag in refused.json()["error"]
    assert isinstance(mfrank.serving.Limits(), serving.Limits)
