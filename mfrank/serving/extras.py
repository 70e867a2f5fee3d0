"""Errors for packages that are not installed, which say how to install them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_OPTIONAL = ("fastapi", "starlette", "uvicorn", "pydantic", "jinja2", "markupsafe")


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Imports in the body need this extra; if it is missing, ModuleNotFoundError says so."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _OPTIONAL:
            raise
        raise ModuleNotFoundError(
            f"this needs {package}: pip install mfrank[{extra}]", name=error.name
        ) from error
