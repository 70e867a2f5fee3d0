"""The number of threads that a user allows reaches every piece of arithmetic."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mfrank
from mfrank import backends
from mfrank.backends import Backend, reference, registry

DATA = mfrank.synthetic(40, 30, 300, random_state=0)
ALLOWED = 3


class Watched:
    """The numpy backend; notes the number of threads that each call was given."""

    def __init__(self) -> None:
        self.given: dict[str, set[int]] = {}

    def __getattr__(self, name: str) -> Any:
        function = getattr(reference, name)
        if not callable(function) or name not in backends.members(Backend):
            return function
        stated = inspect.signature(function)

        def watching(*args: Any, **kwargs: Any) -> Any:
            bound = stated.bind(*args, **kwargs)
            bound.apply_defaults()
            given = bound.arguments
            if "options" in given:
                self.given.setdefault(name, set()).add(given["options"].n_threads)
            if "n_threads" in given:
                self.given.setdefault(name, set()).add(given["n_threads"])
            return function(*args, **kwargs)

        return watching


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    backends.register("watched", made)
    yield made
    del registry._registered["watched"]


HOW: dict[str, Any] = {"backend": "watched", "n_threads": ALLOWED, "random_state": 0}


def als(objective: Any) -> None:
    options = {"factors": 4, "iterations": 3, "track_objective": True, **HOW}
    model = mfrank.ALS(objective, **options).fit(DATA)
    model.recommend([1, 2], N=3, n_threads=ALLOWED)
    model.similar_items([1], N=3, n_threads=ALLOWED)
    model.explain(1, DATA, 2)
    model.partial_fit_users([0, 1], DATA.user_items[:2])


def descent() -> None:
    model = mfrank.Descent(mfrank.BPR(), factors=4, iterations=2, **HOW).fit(DATA)
    model.recommend([1, 2], N=3, n_threads=ALLOWED)


USES: dict[str, Callable[[], None]] = {
    "WRMF": lambda: als(mfrank.WRMF(alpha=2.0)),
    "RGX": lambda: als(mfrank.RGX()),
    "pure RGX": lambda: als(mfrank.RGX(alpha=0.0)),
    "Descent": descent,
}


@pytest.mark.parametrize("use", USES)
def test_every_call_has_the_number_of_threads(watched: Watched, use: str) -> None:
    USES[use]()
    watched.given.get("list_sums", set()).discard(0)  # asked once for what it is, not to compute
    assert watched.given.keys() >= {"gram", "rotate", "solve_rows", "top_k"}
    assert watched.given == {name: {ALLOWED} for name in watched.given}
