"""Errors of arguments that a call must raise."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import mfrank

Kind = type[Exception] | tuple[type[Exception], ...]


@contextmanager
def refuses(
    kind: Kind, argument: str, *, remedy: str = ""
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """The block must raise an error of this kind about this argument.

    ``remedy`` is a pattern that what the error advises must have.
    """
    with pytest.raises(kind) as raised:
        yield raised
    error = raised.value
    assert isinstance(error, mfrank.InputError), f"knows no argument: {error!r}"
    assert error.argument == argument, str(error)
    assert re.search(remedy, error.remedy), f"{remedy!r} is not advised by: {error}"
