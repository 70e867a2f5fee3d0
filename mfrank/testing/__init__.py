"""The contract of a backend as checks, to run with or without pytest.

    import mfrank.testing

    mfrank.testing.check(MyBackend())  # every part of which it has a function
    mfrank.testing.check(MyBackend(), parts=["top_k"])


    @pytest.mark.parametrize("name", mfrank.testing.CHECKS["top_k"])
    def test_lists(name: str) -> None:
        mfrank.testing.CHECKS["top_k"][name](MyBackend())

Each check compares functions of the backend with :mod:`mfrank.backends.reference` or with sums
written out in numpy, to the backend's own ``TOLERANCE``. Inputs are drawn with fixed seeds. They
include empty inputs, ties, rows of every length and numbers at the ends of a dtype's range.
mfrank's own backends pass the same checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, TypeAlias

from mfrank.arrays import shown
from mfrank.backends import PARTS, Backend, guest, members
from mfrank.errors import InputValueError
from mfrank.testing import list_checks as lists
from mfrank.testing import row_checks as rows
from mfrank.testing import top_k_checks as top_k
from mfrank.testing import walk_checks as walks
from mfrank.testing.top_k_checks import Query, random_filters, random_lists, uneven_factors
from mfrank.testing.walk_checks import chain

__all__ = [
    "CHECKS",
    "Check",
    "Query",
    "chain",
    "check",
    "random_filters",
    "random_lists",
    "uneven_factors",
]

Check: TypeAlias = Callable[[Backend], None]


def _checks_of(module: ModuleType) -> dict[str, Check]:
    return {
        name.removeprefix("check_"): check
        for name, check in vars(module).items()
        if name.startswith("check_")
    }


CHECKS: Mapping[str, Mapping[str, Check]] = {
    "rows": _checks_of(rows),
    "lists": _checks_of(lists),
    "walks": _checks_of(walks),
    "top_k": _checks_of(top_k),
}
"""By part and name; a check raises AssertionError."""


def check(backend: Any, parts: Iterable[str] | None = None) -> None:
    """Run all checks of some parts of a backend.

    Parameters
    ----------
    backend : module or object
        As in :func:`mfrank.backends.register`, or a backend of mfrank.
    parts : sequence of {"rows", "lists", "walks", "top_k"}, optional
        By default, the parts of which the backend has a function.

    Raises
    ------
    AssertionError
        Names the first failed check and the difference.
    NotImplementedError
        The backend lacks a function of a part.
    ValueError
        A part is unknown, or the backend has no function of any part.
    """
    own = [part for part, of in PARTS.items() if any(hasattr(backend, n) for n in members(of))]
    chosen = own if parts is None else list(parts)
    if unknown := [part for part in chosen if part not in CHECKS]:
        raise InputValueError(f"`parts` must be of {', '.join(CHECKS)}; got {shown(unknown[0])}")
    if not chosen:
        raise InputValueError(f"`backend`: {shown(backend)} has no function of a backend")
    whole = guest(type(backend).__name__, backend)
    for part in chosen:
        for name, run in CHECKS[part].items():
            try:
                run(whole)
            except AssertionError as error:
                raise AssertionError(f"{part}, {name}: {error}") from error
