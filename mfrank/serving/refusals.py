"""Refusals of requests: a status and a sentence, as JSON ``{"error": ...}``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from mfrank.arrays import OutOfTimeError
from mfrank.data import UnknownIdError
from mfrank.serving.answers import CannotAnswer, dump
from mfrank.serving.event_journal import OtherEventError
from mfrank.serving.live_model import CannotRollBackError

_LOG = logging.getLogger("mfrank.serving")


def refusal(
    status: int, sentence: str, *, headers: Mapping[str, str] | None = None, **more: Any
) -> Response:
    """The answer to a refused request."""
    again = {"Retry-After": "1"} if status == 503 else {}
    content = dump({"error": sentence, **more})
    return Response(content, status, {**again, **(headers or {})}, "application/json")


def status_of(error: BaseException) -> tuple[int, str]:
    """The status of an error, and the sentence that explains it."""
    match error:
        case CannotAnswer():
            return 501, str(error)
        case UnknownIdError():
            return 404, str(error)
        case OtherEventError() | CannotRollBackError():
            return 409, str(error)
        case RequestValidationError():
            return 422, _sentence([each["loc"][1:] for each in error.errors()], error.errors())
        case ValidationError():
            errors = error.errors()
            return 422, _sentence([each["loc"] for each in errors], errors)
        case HTTPException():
            return error.status_code, str(error.detail)
        case OutOfTimeError():
            return 503, f"{error}; try again later, or ask for less"
        case ValueError() | TypeError():
            return 422, str(error)
        case ClientDisconnect():
            return 400, "the client went away before all of the body had arrived"
        case asyncio.CancelledError():
            return 503, "the service is being stopped"
    _LOG.error("a request failed", exc_info=error)
    return 500, "this request failed inside; the service's log says why"


def refused(error: BaseException, **more: Any) -> Response:
    """The answer to a request that ended with an error."""
    status, sentence = status_of(error)
    if isinstance(error, UnknownIdError):
        return refusal(status, sentence, ids=[_plain(each) for each in error.ids], **more)
    headers = error.headers if isinstance(error, HTTPException) else None
    return refusal(status, sentence, headers=headers, **more)


def too_late(seconds: float) -> HTTPException:
    """The error of a request that is not answered in time."""
    return HTTPException(503, f"there was no answer within {seconds:g} s; try again later")


def wrong_method(method: str, error: HTTPException) -> Response:
    """The answer where a path has no such method: what it has; OPTIONS asks for just that."""
    has = {each.strip() for each in (error.headers or {}).get("Allow", "").split(",")} - {""}
    more = {"HEAD", "OPTIONS"} if "GET" in has else {"OPTIONS"}
    allow = ", ".join(sorted(has | more))
    if method == "OPTIONS":
        return Response(status_code=204, headers={"Allow": allow})
    sentence = f"Method Not Allowed: this path takes {allow}, got {method}"
    return refusal(405, sentence, headers={"Allow": allow})


def add_refusals(
    application: FastAPI, answer: Callable[[Request, Exception], Response] | None = None
) -> None:
    """Answer every error of this application, as JSON by default."""

    async def answered(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException) and error.status_code == 405:
            return wrong_method(request.method, error)
        return answer(request, error) if answer else refused(error)

    faults = (RequestValidationError, HTTPException, CannotAnswer, ValueError, TypeError)
    for kind in (*faults, ClientDisconnect, Exception):
        application.add_exception_handler(kind, answered)


def _plain(label: Any) -> Any:
    return label if isinstance(label, str | int | float | None) else str(label)


def _sentence(places: Sequence[Sequence[Any]], errors: Sequence[Any]) -> str:
    """What is wrong with the parameters, such as ``n: Input should be ..., got '-1'``."""
    parts = []
    for place, error in list(zip(places, errors, strict=True))[:3]:
        name = ".".join(map(str, place)) or "the body"
        given = error.get("input")
        got = f", got {given!r}" if isinstance(given, str | int | float) else ""
        parts.append(f"{name}: {error['msg']}{got[:100]}")
    return "; ".join(parts)
