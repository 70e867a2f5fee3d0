"""An engine that returns what no task gives is named, with the task: no fit goes on with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from engines import Spoiling

import mfrank
from mfrank.backends.sharded import blocks

DATA = mfrank.synthetic(120, 70, 1500, random_state=0)


def of_arrays(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Change every array in a result."""

    def spoil(result: Any) -> Any:
        if isinstance(result, np.ndarray):
            return change(result)
        if isinstance(result, dict):
            return {name: spoil(each) for name, each in result.items()}
        if isinstance(result, tuple):
            made = [spoil(each) for each in result]
            return type(result)(*made) if hasattr(result, "_fields") else tuple(made)
        return result

    return spoil


def full(array: Any, value: float) -> Any:
    return np.full(array.shape, value, array.dtype)


SPOILS: dict[str, Callable[[Any], Any]] = {
    "None": lambda _: None,
    "text": lambda _: "lost",
    "nothing": lambda _: (),
    "a list": lambda result: [result],
    "fewer rows": of_arrays(lambda array: array[1:]),
    "turned": of_arrays(lambda array: array.T if array.ndim > 1 else array[None]),
    "another dtype": of_arrays(lambda array: array.astype(np.complex64)),
    "float16": of_arrays(lambda array: array.astype(np.float16)),
    "zeros": of_arrays(lambda array: full(array, 0)),
    "NaN": of_arrays(lambda array: full(array, np.nan if array.dtype.kind == "f" else -1)),
}
FITS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "columns": (
        "columns_of",
        lambda engine: mfrank.ALS(factors=8, iterations=2).fit(DATA, cluster=engine),
    ),
    "half-step": (
        "solve",
        lambda engine: mfrank.ALS(factors=8, iterations=2).fit(DATA, cluster=engine),
    ),
    "half-step, cg": (
        "solve",
        lambda engine: mfrank.ALS(factors=8, iterations=2, solver="cg").fit(DATA, cluster=engine),
    ),
    "meeting": (
        "meet",
        lambda engine: mfrank.Descent(factors=8, iterations=2, random_state=0).fit(
            DATA, cluster=engine
        ),
    ),
    "walk": ("_settled", lambda engine: walk(engine)),
    "evaluation": (
        "_judged",
        lambda engine: mfrank.evaluate(
            mfrank.Popularity().fit(DATA), DATA, metrics=[mfrank.NDCG @ 5], cluster=engine
        ),
    ),
}


def walk(engine: Any) -> Any:
    from mfrank.pagerank import pagerank

    graph = sp.csr_array(np.ones((5, 5)))
    return pagerank(graph, np.eye(5)[:, :4], cluster=engine)


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("spoil", SPOILS)
def test_the_engine_and_the_task_are_named(fit: str, spoil: str) -> None:
    task, run = FITS[fit]
    engine = Spoiling(task, SPOILS[spoil])
    arrays = spoil not in ("None", "text", "nothing", "a list")
    if fit == "evaluation" and arrays:
        pytest.skip("its result is no array")
    told = r"the engine (Spoiling returned .* for .*|told of \d+).*; .*no cluster"
    with pytest.raises(RuntimeError, match=told) as caught:
        run(engine)
    assert engine.spoiled
    assert re.search(f"returned {WORDS.get(spoil, '')}|told of", str(caught.value))


def of_items(**changes: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """Change the rows of items that a meeting returns."""

    def spoil(tables: Any, loss: Any) -> Any:
        rows = tables["items"]
        changed = {name: change(getattr(rows, name)) for name, change in changes.items()}
        return {**tables, "items": rows._replace(**changed)}, loss

    return spoil


def with_nan(table: Any) -> Any:
    table = table.copy()
    table[0, 0] = np.nan
    return table


SPOILED_MEETINGS: dict[str, Callable[[Any, Any], Any]] = {
    "no tables": lambda tables, loss: ([], loss),
    "a table less": lambda tables, loss: ({"users": tables["users"]}, loss),
    "a tuple": lambda tables, loss: ({**tables, "items": tuple(tables["items"])}, loss),
    "no state": of_items(state=lambda state: {}),
    "fewer rows": of_items(table=lambda table: table[1:]),
    "other numbers": of_items(table=lambda table: table.astype(np.float16)),
    "fewer rows of a state": of_items(
        state=lambda state: {name: array[1:] for name, array in state.items()}
    ),
    "NaN": of_items(table=with_nan),
    "zeros": of_items(table=np.zeros_like),
    "no loss": lambda tables, loss: (tables, None),
    "text for a loss": lambda tables, loss: (tables, "lost"),
    "a loss of NaN": lambda tables, loss: (tables, np.nan),
}


@pytest.mark.parametrize("spoil", SPOILED_MEETINGS)
def test_each_part_of_a_meeting_is_looked_at(spoil: str) -> None:
    engine = Spoiling("meet", lambda result: SPOILED_MEETINGS[spoil](*result))
    told = r"the engine Spoiling returned .* for the meeting of users 0 and items 0"
    with pytest.raises(RuntimeError, match=told):
        mfrank.Descent(factors=4, iterations=1, random_state=0).fit(DATA, cluster=engine)


WORDS = {"None": "None", "text": "'lost'", "nothing": "a tuple", "a list": "a list"}


SPOILED_SUMS = {
    "fewer columns": lambda sums: sums[:, :1],
    "another dimension": lambda sums: sums[..., None],
    **{name: SPOILS[name] for name in ("None", "text", "fewer rows", "another dtype", "NaN")},
}


@pytest.mark.parametrize("spoil", SPOILED_SUMS)
def test_sums_of_long_rows(spoil: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from mfrank.backends import cpu

    monkeypatch.setattr(cpu.SUMS, "summed_from", lambda *_, **__: 20)
    engine = Spoiling("sum_rows", SPOILED_SUMS[spoil])
    with pytest.raises(RuntimeError, match=r"the engine Spoiling returned .* for the sums of"):
        mfrank.ALS(factors=8, iterations=2).fit(DATA, cluster=engine)
    assert engine.spoiled


def test_workers_that_are_none_are_told() -> None:
    engine = Spoiling("", lambda result: result)
    engine.workers = lambda probe: [("worker", None)]  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match=r"Spoiling returned .* for the names of its workers"):
        mfrank.ALS(factors=4, iterations=1).fit(DATA, cluster=engine)


def test_zeros_that_are_right_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_FEWEST_ENTRIES", 200)
    none = mfrank.Interactions.from_arrays(
        DATA.entry_users, DATA.user_items.indices, shape=(DATA.n_users + 300, DATA.n_items)
    )  # the last blocks have no entries
    engine = Spoiling("", lambda result: result)
    fitted = mfrank.ALS(factors=8, iterations=2, random_state=0).fit(none, cluster=engine)
    alone = mfrank.ALS(factors=8, iterations=2, random_state=0).fit(none)
    np.testing.assert_array_equal(fitted.user_factors, alone.user_factors)
    assert not fitted.user_factors[DATA.n_users :].any()
