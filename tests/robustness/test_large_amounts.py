"""Counts beyond all measure are refused before any work, by name and with the remedy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from children import run
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.arrays import memory
from mfrank.comparison import peak_memory
from mfrank.models import cost as batch_memory
from mfrank.retrieval import recommend
from tests.support.errors import refuses

DATA = mfrank.synthetic(60, 50, 900, random_state=0)
MODEL = mfrank.ALS(factors=4, iterations=1, random_state=0).fit(DATA)
BOTH = MODEL.user_factors, MODEL.item_factors

ASKS: dict[str, Callable[[Any], object]] = {
    "ALS": lambda n: mfrank.ALS(n_threads=n),
    "ALS.set_params": lambda n: mfrank.ALS().set_params(n_threads=n),
    "Descent": lambda n: mfrank.Descent(n_threads=n),
    "SupervisedPageRank": lambda n: mfrank.SupervisedPageRank(n_threads=n),
    "Reranker": lambda n: mfrank.Reranker(MODEL, n_threads=n),
    "recommend": lambda n: MODEL.recommend(0, n_threads=n),
    "recommend_users": lambda n: MODEL.recommend_users(0, n_threads=n),
    "recommend_from_items": lambda n: MODEL.recommend_from_items([0], n_threads=n),
    "similar_items": lambda n: MODEL.similar_items(0, n_threads=n),
    "similar_users": lambda n: MODEL.similar_users(0, n_threads=n),
    "evaluate": lambda n: mfrank.evaluate(MODEL, DATA, train=DATA, n_threads=n),
    "compare": lambda n: mfrank.compare(DATA, DATA, n_threads=n),
    "retrieval's recommend": lambda n: recommend(*BOTH, n_threads=n),
}
COUNTS: dict[str, Callable[[Any], object]] = {
    **ASKS,
    "cg_steps": lambda n: mfrank.ALS(cg_steps=n),
    "N": lambda n: MODEL.recommend([0, 1], N=n),
    "N of similar_items": lambda n: MODEL.similar_items(0, N=n),
    "n_users": lambda n: mfrank.synthetic(n, 10, 50),
    "n_items": lambda n: mfrank.synthetic(10, n, 50),
    "cutoff of NDCG": lambda n: mfrank.NDCG @ n,
    "cutoff of definitions": lambda n: mfrank.definitions("implicit", n if n is not None else -1),
}

TOO_LARGE = st.one_of(
    st.sampled_from([2**31, 2**32 + 1, 2**63, 2**64 + 1, 10**30, np.uint64(2**63)]),
    st.integers(min_value=2**31),
)
NO_COUNT = st.one_of(
    st.integers(max_value=-1),
    st.booleans(),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from([np.int8(-1), np.float32(2), np.True_, None, 1j, [1]]),
)


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(sorted(COUNTS)), value=st.one_of(TOO_LARGE, NO_COUNT))
def test_a_count_is_refused_by_name(name: str, value: Any) -> None:
    argument = "n_threads" if name in ASKS else name.split()[0]
    with pytest.raises((TypeError, ValueError)) as refused:
        COUNTS[name](value)
    assert argument in str(refused.value)
    if isinstance(value, int) and value >= 2**31:
        assert isinstance(refused.value, ValueError)
        assert "at most" in str(refused.value)


ROOM: dict[str, tuple[Callable[[int], object], str]] = {
    "shape": (lambda n: mfrank.Interactions.from_arrays([0], [0], shape=(n, 5)), "shape"),
    "shape of items": (lambda n: mfrank.Interactions.from_arrays([0], [0], shape=(5, n)), "shape"),
    "synthetic": (lambda n: mfrank.synthetic(10, n, 50), "shape"),
    "recommend": (lambda n: MODEL.recommend(range(60), N=n), "lower N"),
    "recommend to nobody known": (
        lambda n: MODEL.recommend([999], N=n, on_unknown="skip"),
        "lower N",
    ),
    "similar to nothing known": (
        lambda n: MODEL.similar_items([999], N=n, on_unknown="skip"),
        "lower N",
    ),
    "recommend_users": (lambda n: MODEL.recommend_users(range(50), N=n), "lower N"),
    "similar_items": (lambda n: MODEL.similar_items(range(50), N=n), "lower N"),
    "recommend_from_items": (lambda n: MODEL.recommend_from_items([1], N=n), "lower N"),
    "items of items": (lambda n: mfrank.ItemKNN().fit(DATA).recommend([0], N=n), "lower N"),
    "walk": (
        lambda n: mfrank.SupervisedPageRank(method=None).fit(DATA).recommend([0], N=n),
        "lower N",
    ),
    "popular": (lambda n: mfrank.Popularity().fit(DATA).recommend([0], N=n), "lower N"),
}


@pytest.mark.parametrize("name", ROOM)
def test_what_has_no_room_is_refused_by_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ask, remedy = ROOM[name]
    monkeypatch.setattr(memory, "memory_there_is", lambda: 1 << 29)
    for n in (2**28, np.int64(2**30), 2**31 - 1):
        with refuses(MemoryError, None, remedy=remedy):
            ask(n)


@pytest.mark.parametrize("name", ["k", "user_k", "item_k"])
@given(value=NO_COUNT.filter(lambda value: value is not None))
def test_a_core_names_its_bound(name: str, value: Any) -> None:
    with refuses((TypeError, ValueError), name):
        DATA.k_core(**{"k": 1, name: value})


def test_amounts_beyond_int64_are_numbers() -> None:
    large = 10**30
    np.testing.assert_array_equal(
        mfrank.log_weight(DATA, large).user_items.data,
        mfrank.log_weight(DATA, float(large)).user_items.data,
    )
    for half_life in (large, np.int64(10**18)):
        aged = mfrank.recency_weight(DATA, half_life)
        np.testing.assert_array_equal(aged.user_items.data, DATA.user_items.data)
    assert DATA.k_core(large).nnz == 0


@pytest.mark.parametrize("name", ASKS)
def test_a_million_threads_are_refused_with_the_remedy(name: str) -> None:
    for n in (1025, 10**6, 10**9):
        with refuses(ValueError, "n_threads", remedy="0 uses every core"):
            ASKS[name](n)


def test_the_most_threads_and_steps_change_no_answer() -> None:
    few, many = (
        mfrank.ALS(factors=4, iterations=1, solver="cg", n_threads=n, random_state=0).fit(DATA)
        for n in (1, 1024)
    )
    np.testing.assert_array_equal(few.item_factors, many.item_factors)
    patient = mfrank.ALS(factors=4, iterations=1, solver="cg", cg_steps=10_000, random_state=0)
    patient.fit(DATA)
    exact = mfrank.ALS(factors=4, iterations=1, solver="cholesky", random_state=0).fit(DATA)
    np.testing.assert_allclose(patient.item_factors, exact.item_factors, rtol=1e-2, atol=1e-3)


Model = type[mfrank.ALS] | type[mfrank.Descent]
MODELS: list[Model] = [mfrank.ALS, mfrank.Descent]


@pytest.mark.parametrize("kind", MODELS)
@settings(max_examples=20, deadline=None)
@given(width=st.one_of(st.just(10**9), TOO_LARGE))
def test_too_many_factors_are_refused_before_any_work(kind: Model, width: Any) -> None:
    with refuses(MemoryError, "factors", remedy="lower factors"):
        kind(factors=width).fit(DATA)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", ["factors", "n_threads", "cg_steps", "batch_size", "others"])
def test_numpys_integers_are_pythons(kind: Model, name: str) -> None:
    def fitted(value: Any) -> Any:
        return kind(**options | {name: value}, random_state=0).fit(DATA).item_factors

    options = {"iterations": 1, "factors": 4}
    for value in (np.uint8(200), np.int8(100), np.int64(3)):
        if name in kind.__dataclass_fields__:
            np.testing.assert_array_equal(fitted(value), fitted(int(value)))


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("users", "width"), [(40, 900), (20_000, 40)])
def test_a_fit_takes_what_is_said_or_somewhat_more(
    monkeypatch: pytest.MonkeyPatch, kind: Model, users: int, width: int
) -> None:
    """So what is refused could not have been done."""
    data = mfrank.synthetic(users, users // 2, 4 * users, random_state=0)
    model = kind(factors=width, iterations=2, random_state=0)
    said: list[int] = []
    monkeypatch.setattr(batch_memory, "check_memory", lambda needed, *_: said.append(needed))
    model.fit(data)
    measured = peak_memory(partial(model.fit, data))
    if measured is None:
        pytest.skip("memory is measured on Linux only")
    assert said[0] <= measured <= 3 * said[0]


@pytest.mark.parametrize("kind", MODELS)
def test_what_there_is_decides(monkeypatch: pytest.MonkeyPatch, kind: Model) -> None:
    needed: list[int] = []
    monkeypatch.setattr(batch_memory, "check_memory", lambda size, *_: needed.append(size))
    model = kind(factors=40, iterations=1).fit(DATA)
    monkeypatch.undo()
    monkeypatch.setattr(memory, "memory_there_is", lambda: needed[0])
    model.fit(DATA)
    monkeypatch.setattr(memory, "memory_there_is", lambda: needed[0] - 1)
    with refuses(MemoryError, "factors", remedy="lower factors"):
        model.fit(DATA)
    monkeypatch.setattr(memory, "memory_there_is", lambda: None)
    model.fit(DATA)


@pytest.mark.parametrize("kind", MODELS)
def test_memory_that_is_not_free_now_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: Model
) -> None:
    model = kind(factors=40, iterations=1)
    (told := tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:     20 kB\n")
    monkeypatch.setattr(memory, "_MEMORY", told)
    with pytest.warns(RuntimeWarning, match="GiB are free; lower factors") as caught:
        model.fit(DATA)
    assert caught[0].filename == __file__
    for enough in ("MemAvailable: 20000000 kB\n", "MemTotal: 9 kB\n"):
        told.write_text(enough)
        model.fit(DATA)
    monkeypatch.setattr(memory, "_MEMORY", tmp_path / "nothing")
    model.fit(DATA)


@pytest.mark.parametrize(
    ("groups", "limits", "least"),
    [
        ("0::/", {"memory.max": "max"}, None),
        ("0::/", {"memory.max": "4096"}, 4096),
        ("0::/a/b", {"a/b/memory.max": "max", "a/memory.max": "8192"}, 8192),
        ("0::/a:b", {"a:b/memory.max": "4096"}, 4096),
        ("0::/not/here", {"memory.max": "4096"}, 4096),
        ("3:cpu,memory:/a", {"memory/a/memory.limit_in_bytes": "4096"}, 4096),
        ("3:cpu:/a", {"memory/a/memory.limit_in_bytes": "4096"}, None),
    ],
)
def test_control_groups(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    groups: str,
    limits: dict[str, str],
    least: int | None,
) -> None:
    (own := tmp_path / "own").write_text(f"1:name=systemd:/\n{groups}\n")
    for name, limit in limits.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{limit}\n")
    monkeypatch.setattr(memory, "_OWN_GROUPS", own)
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
    monkeypatch.setattr(memory, "memory_of_the_machine", lambda: None)
    monkeypatch.setattr(memory, "limit_of_the_process", lambda: None)
    assert memory.memory_there_is() == least


ULIMIT = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))
import mfrank
from mfrank.arrays.memory import memory_there_is
print(memory_there_is() == 2**32)
try:
    mfrank.ALS(factors=12_000).fit(mfrank.synthetic(60, 50, 900))
except MemoryError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="others have no such limit")
def test_a_limit_of_the_process() -> None:
    lines = run(ULIMIT).stdout.splitlines()
    assert lines[0] == "True"
    assert "4 GiB in total; lower factors" in lines[1]
