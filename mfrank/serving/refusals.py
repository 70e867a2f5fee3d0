"""Refusals of requests: a status and a sentence, as JSON ``{"error": ...}``."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from mfrank.data.unknown_ids import UnknownIdError
from mfrank.serving.answers import CannotAnswer

__all__ = ["add_refusals", "refusal", "refused", "told", "too_late"]

_LOG = logging.getLogger("mfrank.serving")


def refusal(status: int, sentence: str, **more: Any) -> Response:
    """The answer to a refused request."""
    headers = {"Retry-After": "1"} if status == 503 else None
    content = json.dumps({"error": sentence, **more}, default=str)
    return Response(content, status, headers, "application/json")


def told(error: Exception) -> tuple[int, str]:
    """The status and the sentence of an error that is the request's fault, or the model's."""
    match error:
        case CannotAnswer():
            return 501, str(error)
        case UnknownIdError():
            return 404, str(error)
        case RequestValidationError():
            return 422, _sentence(error.errors())
        case HTTPException():
            return error.status_code, str(error.detail)
        case ValueError() | TypeError():
            return 422, str(error)
    _LOG.error("a request failed", exc_info=error)
    return 500, "this request failed inside; the service's log says why"


def refused(error: Exception) -> Response:
    """The answer to a request that ended with an error."""
    status, sentence = told(error)
    if isinstance(error, UnknownIdError):
        return refusal(status, sentence, ids=list(error.ids))
    return refusal(status, sentence)


def too_late(seconds: float) -> HTTPException:
    """The error of a request that is not answered in time."""
    return HTTPException(503, f"there was no answer within {seconds:g} s; try again later")


def add_refusals(application: FastAPI) -> None:
    """Answer every error of this application as JSON."""

    async def answer(_: Request, error: Exception) -> Response:
        return refused(error)

    own = (RequestValidationError, HTTPException, CannotAnswer, ValueError, TypeError, Exception)
    for kind in own:
        application.add_exception_handler(kind, answer)


def _sentence(errors: Sequence[Any]) -> str:
    """What is wrong with the parameters, such as ``n: Input should be ..., got '-1'``."""
    parts = []
    for error in errors[:3]:
        place = ".".join(str(part) for part in error["loc"][1:]) or "the body"
        given = error.get("input")
        got = f", got {given!r}" if isinstance(given, str | int | float) else ""
        parts.append(f"{place}: {error['msg']}{got[:100]}")
    return "; ".join(parts)
