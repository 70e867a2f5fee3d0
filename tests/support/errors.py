"""Errors about what a caller passed, as a call must raise them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import mfrank

Kind = type[Exception] | tuple[type[Exception], ...]


@contextmanager
def refuses(
    kind: Kind, argument: str | None = "", *, place: object = "", remedy: str = ""
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """The block must raise an error of this kind about this argument; "" is none, None is any.

    ``place`` is the end of the place that it must name: a file or folder, ``"line 3"``. ``remedy``
    is a pattern that what it advises must have.
    """
    assert argument or place or remedy, "say more than that it is refused"
    with pytest.raises(kind) as raised:
        yield raised
    error = raised.value
    assert isinstance(error, mfrank.InputError), f"knows no argument: {error!r}"
    assert argument is None or error.argument == argument, str(error)
    assert error.place.endswith(str(place)), f"{place!s} is not where it is: {error.place}: {error}"
    assert re.search(remedy, error.remedy), f"{remedy!r} is not advised by: {error}"


@contextmanager
def unknown(*ids: object) -> Iterator[pytest.ExceptionInfo[mfrank.UnknownIdError]]:
    """The block must raise an error that names these ids."""
    with pytest.raises(mfrank.UnknownIdError) as raised:
        yield raised
    assert raised.value.ids == ids
