"""Every backend that runs here, and a GPU that is emulated, against the contract of its parts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import emulated_gpu
import numpy as np
import pytest

from mfrank import backends
from mfrank.arrays import device as gpu
from mfrank.testing import CHECKS, check
from tests.support.errors import refuses

EVERY = [(part, name) for part, checks in CHECKS.items() for name in checks]
BACKENDS = sorted({*backends.names()} - {"reference"})


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> backends.Backend:
    name = request.param
    if name == "cuda" and gpu.why_unavailable() and not emulated_gpu.why_unavailable():
        request.getfixturevalue("device")
    elif reason := backends.named(name).why_unavailable():
        pytest.skip(reason)
    return backends.choose(name)


@pytest.mark.parametrize(("part", "name"), EVERY, ids=[name for _, name in EVERY])
def test_it_holds(backend: backends.Backend, part: str, name: str) -> None:
    CHECKS[part][name](backend)


def test_the_specification_holds_of_itself() -> None:
    check(backends.reference)


class Sorting:
    """A stranger's backend: top-K alone, by a stable sort."""

    descending = True

    def top_k(self, *of: Any, **how: Any) -> Any:
        ids, scores = backends.reference.top_k(*of, **how)
        return (ids, scores) if self.descending else (ids[:, ::-1], scores[:, ::-1])


def test_a_stranger_with_one_part_is_checked_in_that_part() -> None:
    check(Sorting())
    with pytest.raises(NotImplementedError, match=r"Sorting.* has no walk .*'walks'"):
        check(Sorting(), parts=["walks"])


def test_a_part_that_is_wrong_is_named() -> None:
    wrong = Sorting()
    wrong.descending = False
    with pytest.raises(AssertionError, match="top_k, equals_a_full_sort_ties_included"):
        check(wrong)


@pytest.mark.parametrize("part", ["rows", "lists", "walks"])
def test_each_part_finds_a_small_fault(part: str) -> None:
    """A number in a million that is off, as by a wrong sign of one term."""
    functions = {"rows": "gram", "lists": "score", "walks": "walk"}
    name = functions[part]

    def off(*of: Any, **how: Any) -> Any:
        found = getattr(backends.reference, name)(*of, **how)
        values = {"rows": lambda: found.matrix, "lists": lambda: found, "walks": lambda: found[0]}
        array = values[part]()
        array.flat[-1:] += 0.01 * (1 + np.abs(array).max(initial=0))
        return found

    members = backends.members(backends.Backend)
    own = {each: getattr(backends.reference, each) for each in members}
    with pytest.raises(AssertionError, match=part):
        check(SimpleNamespace(**own | {name: off}), parts=[part])


def test_what_is_no_part_is_refused() -> None:
    with refuses(ValueError, "parts"):
        check(Sorting(), parts=["row"])
    with refuses(ValueError, "backend"):
        check(object())
