"""Rows are copied whole and in order, however many threads there are."""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfrank.arrays import MOST_PARTS, copy_rows, parts_of, run_parts
from mfrank.arrays import threads as in_parts


@given(st.integers(0, 5000))
def test_parts_cover_each_place_once(size: int) -> None:
    parts = parts_of(size)
    assert len(parts) <= MOST_PARTS
    places = [place for part in parts for place in range(*part.indices(size))]
    assert places == list(range(size))
    lengths = [len(range(*part.indices(size))) for part in parts]
    assert not lengths or lengths[-1] <= lengths[0] == max(lengths)
    assert size < 1024 or len(parts) > MOST_PARTS / 2


@pytest.mark.parametrize(("n_threads", "wanted"), [(1, 1), (3, 3), (9, 4)])
def test_each_part_is_worked_on_once_by_as_many_threads_as_there_are(
    n_threads: int, wanted: int
) -> None:
    met, done = threading.Barrier(wanted), Counter[int]()
    threads = set[int]()

    def work(part: int) -> None:
        if part < wanted:  # a thread that has begun one waits until all have
            met.wait(10)
        threads.add(threading.get_ident())
        done[part] += 1

    run_parts(work, range(4), n_threads)
    assert done == dict.fromkeys(range(4), 1)
    assert len(threads) == wanted
    assert threading.get_ident() in threads


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_error_in_any_thread_is_raised_and_ends_the_work(n_threads: int) -> None:
    met, done = threading.Barrier(n_threads), list[int]()

    def work(part: int) -> None:
        if part < n_threads:
            met.wait(10)
            raise KeyError(part)
        done.append(part)

    with pytest.raises(KeyError):
        run_parts(work, range(40), n_threads)
    assert len(done) == 0


def test_where_no_thread_can_be_started_this_one_does_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried, done = list[object](), list[int]()

    def refuse(thread: threading.Thread) -> None:
        tried.append(thread)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    run_parts(done.append, range(5), 3)
    assert done == list(range(5))
    assert len(tried) == 1


@pytest.mark.parametrize(
    ("n_threads", "n_bytes", "helping"),
    [(None, 9 << 20, 6), (0, 9 << 20, 6), (2, 9 << 20, 2), (0, 3 << 20, 3), (0, 1000, 0)],
)
def test_as_many_threads_copy_as_there_are_cores_and_megabytes(
    monkeypatch: pytest.MonkeyPatch, n_threads: int | None, n_bytes: int, helping: int
) -> None:
    asked = []
    monkeypatch.setattr(in_parts, "usable_cores", lambda: 6)
    monkeypatch.setattr(in_parts, "run_parts", lambda work, parts, n: asked.append(n))
    options = {} if n_threads is None else {"n_threads": n_threads}
    copy_rows(np.empty(n_bytes, np.uint8), np.empty(n_bytes, np.uint8), **options)
    assert asked == [helping]


@pytest.mark.parametrize("n_threads", [0, 1, 3])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (900, 7), (900,)])
def test_rows_are_copied(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], n_threads: int
) -> None:
    monkeypatch.setattr(in_parts, "_BYTES_WORTH_A_THREAD", 64)
    rng = np.random.default_rng(0)
    table = rng.standard_normal(shape)
    whole = np.zeros_like(table)
    copy_rows(table, whole, n_threads=n_threads)
    np.testing.assert_array_equal(whole, table)
    rows = rng.integers(0, len(table), 400) if len(table) else np.zeros(0, np.int64)
    some = np.zeros((len(rows), *shape[1:]))
    copy_rows(table, some, rows, n_threads)
    np.testing.assert_array_equal(some, table[rows])
