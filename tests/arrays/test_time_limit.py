"""Limits of time, by a clock that the tests move."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfrank.arrays import OutOfTimeError, Work, check_time, time_limit


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.time = 50.0

    def __call__(self) -> float:
        return self.time


def blocks_done(seconds: float, each: float, blocks: int) -> tuple[int, float]:
    """Blocks that were done before the work was stopped, and the seconds."""
    clock, done = Clock(), 0
    with time_limit(seconds, clock):
        work = Work(blocks)
        try:
            for _ in range(blocks):
                clock.time += each
                work.advance()
                done += 1
        except OutOfTimeError:
            pass
    return done, clock.time - 50.0


def test_without_a_limit_nothing_is_stopped() -> None:
    check_time()
    work = Work(2)
    for _ in range(5):
        work.advance()


@given(st.floats(0.1, 100), st.floats(0.01, 10), st.integers(1, 50))
def test_work_is_done_whole_if_and_only_if_there_is_time(
    seconds: float, each: float, blocks: int
) -> None:
    done, took = blocks_done(seconds, each, blocks)
    assert took <= seconds + each
    if blocks * each < 0.999 * seconds:
        assert done == blocks
    elif (blocks - 1) * each > 1.001 * seconds:
        assert done < blocks


def test_work_that_would_take_too_long_is_given_up_at_once() -> None:
    done, took = blocks_done(100.0, 1.0, 1000)
    assert took <= 6
    assert done < 6


def test_a_limit_ends_with_its_last_moment() -> None:
    clock = Clock()
    with time_limit(8.0, clock):
        work = Work(4.0)
        clock.time += 7.5
        check_time()
        work.advance(0.0)
        work.advance(3.75)  # half a second for the rest, at the pace so far
        clock.time += 0.5
        with pytest.raises(OutOfTimeError, match="stopped after 8 s"):
            check_time()
        work.advance(0.25)  # what is done is not given up


def test_the_pace_of_a_first_moment_is_not_known() -> None:
    """A twentieth of the limit shows it."""
    clock = Clock()
    with time_limit(100.0, clock):
        work = Work(1000.0)
        clock.time += 4.5
        work.advance()
        work.advance(0.0)
        clock.time += 0.5
        with pytest.raises(OutOfTimeError, match="given up after 5 s"):
            work.advance()


def test_work_that_begins_late_ends_with_the_limit() -> None:
    clock = Clock()
    with time_limit(100.0, clock):
        clock.time += 99
        work = Work(2.0)
        clock.time += 0.5
        work.advance(0.0)  # nothing yet: half a second is left, and perhaps enough
        clock.time += 0.5
        with pytest.raises(OutOfTimeError, match="stopped after 100 s"):
            work.advance()


def test_blocks_of_different_sizes() -> None:
    clock = Clock()
    with time_limit(10.0, clock):
        work = Work(100.0)
        clock.time += 4
        work.advance(50.0)  # half of it in 4 of 10 seconds
        clock.time += 4
        work.advance(50.0)
    with time_limit(10.0, clock):
        work = Work(100.0)
        clock.time += 4
        with pytest.raises(OutOfTimeError, match="would take about 16 s, of which there are 10"):
            work.advance(25.0)


@pytest.mark.parametrize(("outer", "inner"), [(1.0, 5.0), (5.0, 1.0)])
def test_of_two_limits_the_sooner_holds(outer: float, inner: float) -> None:
    clock = Clock()
    with time_limit(outer, clock), time_limit(inner, clock):
        clock.time += 0.9
        check_time()
        clock.time += 0.2
        with pytest.raises(OutOfTimeError, match="stopped after 1 s"):
            check_time()
    check_time()
