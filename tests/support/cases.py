"""Many small cases as one test: for those of a few milliseconds each, which pytest would double."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any


def in_one_test(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Any], Any]:
    """Like ``pytest.mark.parametrize``, but in one test; a failure names its case.

    The log is empty at the beginning of each case; folders such as ``tmp_path`` are shared.
    """
    each = list(cases)
    own = [names] if isinstance(names, str) else [*names]

    def of(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def all_of_them(**given: Any) -> None:
            for case in each:
                values = [case] if isinstance(names, str) else case
                if "caplog" in given:
                    given["caplog"].clear()
                try:
                    test(**given, **dict(zip(own, values, strict=True)))
                except BaseException as error:
                    error.add_note(f"in the case {case!r}")
                    raise

        asked = inspect.signature(test).parameters
        kept = [asked[name] for name in asked if name not in own]
        all_of_them.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]
        return all_of_them

    return of
