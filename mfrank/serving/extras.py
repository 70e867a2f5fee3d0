"""What is not installed: an error that says how to install it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["needs"]

_OPTIONAL = ("fastapi", "starlette", "uvicorn", "pydantic", "jinja2", "markupsafe")


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Imports within need this extra; ModuleNotFoundError says so where it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _OPTIONAL:
            raise
        raise ModuleNotFoundError(
            f"this needs {package}: pip install mfrank[{extra}]", name=error.name
        ) from error
