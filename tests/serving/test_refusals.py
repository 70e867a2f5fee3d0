"""A refused request gets a status, a sentence and the headers that go with it."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import date
from typing import Any

import pytest
from clients import ask, client, model
from fastapi import FastAPI, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from mfrank.arrays import OutOfTimeError
from mfrank.data import UnknownIdError
from mfrank.serving.answers import CannotAnswer
from mfrank.serving.refusals import (
    add_refusals,
    refusal,
    refused,
    status_of,
    too_late,
    wrong_method,
)


class Asked(BaseModel):
    """Some fields to be wrong."""

    n: int
    items: list[int] = []
    a: int = 0
    b: int = 0


def wrong(**given: Any) -> ValidationError:
    with pytest.raises(ValidationError) as failed:
        Asked.model_validate(given)
    return failed.value


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (CannotAnswer("no such model"), 501, "no such model"),
        (UnknownIdError("3 is unknown", [3]), 404, None),
        (HTTPException(415, "no JSON"), 415, "no JSON"),
        (ValueError("n is wrong"), 422, "n is wrong"),
        (TypeError("n is a text"), 422, "n is a text"),
        (ClientDisconnect(), 400, "the client went away before all of the body had arrived"),
        (asyncio.CancelledError(), 503, "the service is being stopped"),
        (too_late(2.0), 503, "there was no answer within 2 s; try again later"),
    ],
)
def test_every_error_has_its_status(
    error: BaseException, status: int, sentence: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    assert status_of(error) == (status, str(error) if sentence is None else sentence)
    answer = refused(error)
    body = json.loads(bytes(answer.body))
    assert (answer.status_code, body["error"]) == (status, status_of(error)[1])
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers.get("retry-after") == ("1" if status == 503 else None)
    assert not caplog.records


def test_a_limit_of_time_is_503_and_a_fault_inside_500_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    status, sentence = status_of(OutOfTimeError("it took longer than 2 s"))
    assert status == 503
    assert sentence.endswith("; try again later, or ask for less")
    assert not caplog.records
    with caplog.at_level(logging.ERROR, "mfrank.serving"):
        assert status_of(KeyError("secret"))[0] == 500
    assert "secret" not in status_of(KeyError("secret"))[1]
    assert "log" in status_of(KeyError("secret"))[1]
    assert caplog.records[0].exc_info is not None


def test_unknown_ids_are_listed_as_json_has_them() -> None:
    ids = ["tea", 3, 0.5, None, date(2026, 11, 25)]
    body = json.loads(bytes(refused(UnknownIdError("who?", ids)).body))
    assert body["ids"] == ["tea", 3, 0.5, None, "2026-11-25"]


def test_a_sentence_has_three_wrong_fields_and_what_was_given() -> None:
    status, sentence = status_of(wrong(n="x", items=[1, "y"], a=[], b="z"))
    assert status == 422
    first, second, third = sentence.split("; ")
    assert first.startswith("n: Input should be")
    assert first.endswith(", got 'x'")
    assert second.startswith("items.1: Input should be")
    assert second.endswith(", got 'y'")
    assert third == "a: Input should be a valid integer"
    with pytest.raises(ValidationError) as failed:
        Asked.model_validate(3)
    assert status_of(failed.value)[1].startswith("the body: ")
    in_query = RequestValidationError([{"loc": ("query", "n"), "msg": "too small", "input": -1}])
    assert status_of(in_query) == (422, "n: too small, got -1")
    long = RequestValidationError([{"loc": ("query", "n"), "msg": "no", "input": "x" * 999}])
    assert len(status_of(long)[1]) == len("n: no") + 100


@pytest.mark.parametrize(
    ("has", "allow"),
    [
        ("GET", "GET, HEAD, OPTIONS"),
        ("POST, GET", "GET, HEAD, OPTIONS, POST"),
        ("POST", "OPTIONS, POST"),
        (None, "OPTIONS"),
    ],
)
def test_a_wrong_method_is_told_what_there_is(has: str | None, allow: str) -> None:
    error = HTTPException(405, headers=None if has is None else {"Allow": has})
    answer = wrong_method("BREW", error)
    assert (answer.status_code, answer.headers["allow"]) == (405, allow)
    assert f"takes {allow}, got BREW" in json.loads(bytes(answer.body))["error"]
    asked = wrong_method("OPTIONS", error)
    assert (asked.status_code, asked.headers["allow"], asked.body) == (204, allow, b"")


def test_headers_of_a_refusal_are_kept() -> None:
    answer = refusal(503, "later", headers={"Retry-After": "9", "X-Own": "a"}, ids=[1])
    assert (answer.headers["retry-after"], answer.headers["x-own"]) == ("9", "a")
    assert json.loads(bytes(answer.body)) == {"error": "later", "ids": [1]}
    error = HTTPException(401, "who?", headers={"WWW-Authenticate": "Basic"})
    assert refused(error).headers["www-authenticate"] == "Basic"


def test_all_errors_of_an_application_are_refusals() -> None:
    application = FastAPI()
    add_refusals(application)
    errors = {
        "value": ValueError("wrong"),
        "cannot": CannotAnswer("no"),
        "type": TypeError("a text"),
        "http": HTTPException(418, "tea"),
        "method": HTTPException(405, headers={"Allow": "POST"}),
    }

    @application.get("/{name}")
    def fail(name: str) -> None:
        raise errors[name]

    statuses = {name: ask(application, f"/{name}".encode()).status for name in errors}
    assert statuses == {"value": 422, "cannot": 501, "type": 422, "http": 418, "method": 405}
    assert dict(ask(application, b"/method").headers)[b"allow"] == b"OPTIONS, POST"


def test_an_application_may_answer_errors_in_its_own_way() -> None:
    application, asked = FastAPI(), list[Any]()

    def answer(*given: Any) -> Response:
        asked.extend(given)
        return Response("sorry", 418)

    add_refusals(application, answer)
    assert ask(application, b"/nowhere").body == b"sorry"
    request, error = asked
    assert (request.url.path, error.status_code) == ("/nowhere", 404)


def test_what_has_one_value_is_given_once() -> None:
    user = str(model().user_ids.labels[-1])
    answer = client(model()).get(f"/recommend/{user}?n=5&n=5")
    assert answer.status_code == 422
    assert answer.json()["error"] == "n must be given once, got 2 of it"


def test_the_value_of_a_wrong_type_is_shown() -> None:
    answer = client(model()).post("/recommend", json={"users": ["a", True, "b"]})
    assert answer.json()["error"].endswith("got True")
    headers = {"content-type": "application/json"}
    answer = client(model()).post("/recommend", content="{", headers=headers)
    assert answer.json()["error"].startswith("the body must be JSON: ")
    answer = client(model()).post("/recommend", content="{}", headers={"content-type": "text/x"})
    assert answer.json()["error"].endswith("; got text/x")
