"""Backends from outside the package: a part of the surface, and clear errors for the rest."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mfrank
from mfrank import backends
from mfrank.arrays import listed_on_host
from mfrank.backends import registry
from tests.support.errors import refuses

Floats = NDArray[Any]


class Toy:
    """Top-K and products in three lines each, and nothing to fit with."""

    asked: int = 0

    def product(self, left: Floats, right: Floats, n_threads: int = 0) -> Floats:
        return left @ right

    def top_k(
        self,
        queries: Floats,
        items: Floats,
        k: int,
        *,
        item_bias: Floats | None = None,
        exclude: Any = (),
        exclude_all: NDArray[np.int32] | None = None,
        candidates: Any = None,
        n_threads: int = 0,
    ) -> tuple[NDArray[np.int32], Floats]:
        self.asked += 1
        scores = self.product(queries, items.T) + (0 if item_bias is None else item_bias)
        for lists in map(listed_on_host, exclude):
            for row in range(len(scores)):
                scores[row, lists.row(row)[0]] = -np.inf
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k].astype(np.int32)
        return best, np.take_along_axis(scores, best, axis=1)


@pytest.fixture
def toy() -> Iterator[Toy]:
    made = Toy()
    backends.register("toy", made)
    yield made
    del registry._registered["toy"]


def test_what_it_can_it_does(toy: Toy) -> None:
    data = mfrank.synthetic(30, 20, 200, random_state=0)
    fitted = mfrank.ALS(factors=4, iterations=2, random_state=0).fit(data)
    expected_ids, expected = fitted.recommend(range(10), N=5)
    ids, scores = fitted.set_params(backend="toy").recommend(range(10), N=5)
    np.testing.assert_array_equal(ids, expected_ids)
    np.testing.assert_allclose(scores, expected, rtol=1e-4)
    assert toy.asked == 1


def test_what_it_cannot_it_tells(toy: Toy) -> None:
    data = mfrank.synthetic(30, 20, 200, random_state=0)
    with pytest.raises(NotImplementedError, match="backend 'toy' has no solve_rows"):
        mfrank.ALS(factors=4, backend="toy").fit(data)
    with pytest.raises(NotImplementedError, match="backend 'toy' has no"):
        mfrank.Descent(factors=4, backend="toy", init="random").fit(data)


@pytest.mark.parametrize(
    ("options", "features", "fault"),
    [
        ({"biases": True}, {}, {"argument": "backend", "remedy": "use backend='auto'"}),
        (
            {},
            {"item_features": np.ones((20, 1))},
            {"argument": "item_features", "remedy": "use backend='auto'"},
        ),
        (
            {},
            {"user_features": np.ones((30, 1))},
            {"argument": "user_features", "remedy": "use backend='auto'"},
        ),
        (
            {"gather_dtype": "float16"},
            {},
            {"argument": "gather_dtype", "remedy": "leave gather_dtype out"},
        ),
    ],
)
def test_options_that_it_cannot_fit_are_refused_before_any_work(
    toy: Toy, options: dict[str, Any], features: dict[str, Any], fault: dict[str, str]
) -> None:
    data = mfrank.synthetic(30, 20, 200, random_state=0)
    with refuses(ValueError, **fault):
        mfrank.ALS(factors=3, backend="toy", **options).fit(data, **features)


@pytest.mark.parametrize("kind", [mfrank.ALS, mfrank.Descent])
def test_one_whose_arrays_lie_elsewhere_does_not_go_with_a_cluster(toy: Toy, kind: Any) -> None:
    toy.place = lambda array: array.tolist()  # type: ignore[attr-defined]
    data = mfrank.synthetic(30, 20, 200, random_state=0)
    with refuses(ValueError, "cluster"):
        kind(factors=3, backend="toy").fit(data, cluster=2)


def test_it_is_taken_by_name_only(toy: Toy) -> None:
    assert "toy" in backends.names()
    assert backends.choose() is not backends.choose("toy")
    assert backends.choose("toy").top_k == toy.top_k
    with refuses(ValueError, "backend"):
        backends.choose("tooy")


@pytest.mark.parametrize("name", [None, 3, ["cpu"]])
def test_a_name_is_a_text(name: Any) -> None:
    with refuses(TypeError, "backend"):
        backends.choose(name)


def test_what_is_no_part_of_a_backend_it_does_not_have(toy: Toy) -> None:
    assert not hasattr(backends.choose("toy"), "nothing")


def test_without_the_extension_auto_is_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mfrank.backends.cpu.why_missing", "no compiler")
    assert backends.choose("auto") is backends.choose("numpy")
    with refuses(ValueError, "backend"):
        backends.choose("cpu")


def test_one_that_cannot_run_here_says_why() -> None:
    backends.register("broken", SimpleNamespace(product=np.dot, why_unavailable=lambda: "no luck"))
    try:
        with refuses(ValueError, "backend"):
            mfrank.ALS(backend="broken")
    finally:
        del registry._registered["broken"]


@pytest.mark.parametrize("name", ["cpu", "auto", "no name", "", 3])
def test_names_that_are_taken_or_none(name: Any) -> None:
    with refuses(ValueError, "name"):
        backends.register(name, Toy())


def test_what_has_nothing_of_the_surface_is_refused() -> None:
    with refuses(ValueError, "backend"):
        backends.register("empty", SimpleNamespace(other=1))


def test_an_installed_package_needs_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = SimpleNamespace(name="installed", load=Toy)
    points = {"mfrank.backends": [entry]}
    monkeypatch.setattr(registry, "entry_points", lambda group: points[group])
    monkeypatch.setattr(registry, "_installed", registry._installed.__wrapped__)
    monkeypatch.setattr(registry, "_registered", {})
    assert "installed" in backends.names()
    np.testing.assert_array_equal(
        backends.choose("installed").product(np.eye(2), np.eye(2)), np.eye(2)
    )


def test_it_may_be_copied(toy: Toy) -> None:
    assert copy.copy(backends.choose("toy")).product(np.eye(2), np.eye(2)).sum() == 2
