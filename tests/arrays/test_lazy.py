"""Lazy attributes are kept, and nobody waits for another to compute his own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from mfrank.arrays import lazy


class Meeting:
    """Its value is computed while another one is."""

    def __init__(self, barrier: Barrier) -> None:
        self.barrier = barrier
        self.computed = 0

    @lazy
    def value(self) -> object:
        """What both have."""
        self.computed += 1
        self.barrier.wait(10)
        return object()


def test_it_is_computed_once_and_documented() -> None:
    alone = Meeting(Barrier(1))
    assert alone.value is alone.value
    assert alone.computed == 1
    assert Meeting.value.__doc__ == "What both have."


def test_threads_that_compute_the_same_get_the_same() -> None:
    shared = Meeting(Barrier(2))
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda meeting: meeting.value, [shared, shared])
    assert first is second is shared.value


def test_objects_of_a_class_compute_at_once() -> None:
    barrier = Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(
            lambda meeting: meeting.value, [Meeting(barrier), Meeting(barrier)]
        )
    assert first is not second
