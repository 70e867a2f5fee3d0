"""The estimate of an epoch's seconds grows with what costs time."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mfrank
from mfrank.als import epoch_seconds, shared_seconds, tables_at_once
from mfrank.arrays import usable_cores
from mfrank.backends import SolveOptions
from mfrank.data import Counts

ONE = SolveOptions(n_threads=1)


def counts(n_users: int, n_items: int, each: int) -> Counts:
    of_item = np.full(n_items, max(n_users * each // n_items, 1))
    return Counts(np.full(n_users, each), of_item)


@given(
    n_users=st.integers(1, 500),
    n_items=st.integers(1, 500),
    each=st.integers(0, 50),
    width=st.integers(1, 2_000),
    solver=st.sampled_from(["auto", "cholesky", "cg"]),
)
def test_more_of_anything_takes_longer(
    n_users: int, n_items: int, each: int, width: int, solver: str
) -> None:
    options = replace(ONE, solver=solver)
    seconds = epoch_seconds(counts(n_users, n_items, each), width, options)
    assert shared_seconds(width) < seconds
    for more in (
        (counts(2 * n_users, 2 * n_items, each), width),
        (counts(n_users, n_items, each + n_items), width),
        (counts(n_users, n_items, each), width + 1),
    ):
        assert epoch_seconds(*more, options) > seconds
    few = epoch_seconds(counts(n_users, n_items, each), width, replace(options, n_threads=8))
    assert few < seconds


@given(each=st.integers(1, 3_000), width=st.integers(1, 500))
def test_the_default_solver_is_never_slower(each: int, width: int) -> None:
    rows = counts(50, 50, each)
    by = {name: replace(ONE, solver=name) for name in ("auto", "cholesky", "cg")}
    seconds = {name: epoch_seconds(rows, width, options) for name, options in by.items()}
    assert seconds["auto"] <= min(seconds["cholesky"], seconds["cg"])


@pytest.mark.parametrize("best", [False, True])
def test_a_fit_holds_as_many_tables_as_are_told(best: bool) -> None:
    """By what Python's allocator saw; tables of these sizes have no pages of their own."""
    data = mfrank.synthetic(6_000, 1_500, 30_000, random_state=0)
    split = mfrank.by_ratio(data, train=0.8, valid=0.2, test=0.0, random_state=0)
    stopping = mfrank.EarlyStopping(split.valid, users=100) if best else None
    model = mfrank.ALS(mfrank.IALS(), factors=48, iterations=3, random_state=0, n_threads=1)
    train = split.train
    assert train.item_users.nnz == train.counts.items.sum()  # made before, as they are of the data
    tracemalloc.start()
    try:
        model.fit(train, stopping=stopping)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    kept = {"best": True} if best else {}
    told = tables_at_once(6_000, 1_500, 48 * 4, **kept) * 7_500 * 48 * 4
    assert 0.9 * told < peak < 1.1 * told


def test_wide_fits_to_few_rows_take_the_cube_of_their_width() -> None:
    rows = counts(200, 80, 10)
    ratio = epoch_seconds(rows, 8_000, ONE) / epoch_seconds(rows, 4_000, ONE)
    assert ratio == pytest.approx(8, rel=0.1)
    assert shared_seconds(1_000) == pytest.approx(1.0)  # both sides, half a second each


def test_many_short_rows_take_the_square_of_the_width() -> None:
    """To turn and to add up: four multiply-adds for each number of a K x K matrix."""
    rows = Counts(np.zeros(10**6, np.int64), np.zeros(10**6, np.int64))
    for width in (64, 256):
        own = epoch_seconds(rows, width, ONE) - shared_seconds(width)
        assert own * 1e10 == pytest.approx(4 * 2e6 * width**2)


def multiply_adds(each: int, width: int, options: SolveOptions) -> float:
    """To solve a row of so many entries, without what every row costs or reading them."""
    none = np.zeros(1000, np.int64)
    sides = Counts(np.full(1000, each), none), Counts(none, none)
    with_entries, without = (epoch_seconds(side, width, options) * 1e10 / 1000 for side in sides)
    return with_entries - without - 1000 * each


@pytest.mark.parametrize("each", [30, 400, 1000, 3000])
def test_an_exact_row_takes_the_smaller_of_two_systems(each: int) -> None:
    """One among its entries, or one among the factors: symmetric products, then Cholesky."""
    width = 1000
    found = multiply_adds(each, width, replace(ONE, solver="cholesky"))
    among = each**2 * width / 2 + each**3 / 6, width**2 * each / 2 + width**3 / 6
    assert found == pytest.approx(min(among), rel=1e-4)


@pytest.mark.parametrize("steps", [1, 5])
def test_a_step_reads_the_factors_of_all_entries_twice(steps: int) -> None:
    """Each multiply-add is as slow as four; as exact where no number of steps is told."""
    each, width = 2000, 64
    iterated = replace(ONE, solver="cg", cg_steps=steps)
    found = multiply_adds(each, width, iterated)
    assert found == pytest.approx(4 * 2 * each * width * steps, rel=1e-4)
    told = multiply_adds(each, width, replace(iterated, cg_tolerance=0.1))
    assert told == multiply_adds(each, width, replace(ONE, solver="cholesky"))
    least = multiply_adds(each, width, replace(ONE, cg_steps=steps))
    assert least == pytest.approx(min(found, told))


def test_an_epoch_takes_less_with_every_core() -> None:
    rows = counts(500, 500, 50)
    cores = epoch_seconds(rows, 64, SolveOptions(n_threads=usable_cores()))
    assert epoch_seconds(rows, 64, SolveOptions()) == cores
