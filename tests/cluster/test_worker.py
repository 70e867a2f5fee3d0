"""What a worker process runs: here in this process, with a thread that gives the orders."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from select import select
from typing import Any

import pytest

from mfrank.cluster import Call, KeptResult, Order, Results, serve
from mfrank.cluster import processes as worker


class Beats:
    """The signs of life of a worker, as those who started it read them."""

    def __init__(self) -> None:
        self.near, self.far = os.pipe()
        os.set_blocking(self.far, False)

    def heard(self, n: int) -> bytes:
        """The next n signs; waits for them, but not for ever."""
        told = b""
        while len(told) < n:
            assert select([self.near], [], [], 10)[0], "no sign of life"
            told += os.read(self.near, n - len(told))
        return told


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> Iterator[Beats]:
    monkeypatch.setattr(worker, "BEAT", 0.01)
    before = {*threading.enumerate()}
    made = Beats()
    yield made
    os.close(made.near)
    for thread in {*threading.enumerate()} - before:
        thread.join(20)  # nobody reads its signs any longer
        assert not thread.is_alive()
    os.close(made.far)


def served(orders: Callable[[Connection], None], beats: Beats) -> None:
    """Serve until a thread has given its orders; Ctrl-C is ignored meanwhile."""
    here, there = Pipe()

    def give() -> None:
        with here:
            orders(here)

    before, thread = signal.getsignal(signal.SIGINT), threading.Thread(target=give)
    thread.start()
    try:
        serve(os.dup(there.fileno()), beats.far)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
        there.close()
        thread.join()


def answers(beats: Beats, *orders: Order) -> list[tuple[bool, Any]]:
    """What a worker answers to each of some orders."""
    told = list[tuple[bool, Any]]()

    def give(link: Connection) -> None:
        for order in orders:
            link.send_bytes(pickle.dumps(order))
            told.append(pickle.loads(link.recv_bytes()))

    served(give, beats)
    return told


class Unreadable(Exception):
    """Can be pickled, but not read again."""

    def __reduce__(self) -> Any:
        return int, self.args


def unreadable() -> None:
    raise Unreadable("told")


def test_each_order_is_answered_until_nobody_asks(beats: Beats) -> None:
    total = Call(sum, (KeptResult(3),))
    found = answers(
        beats,
        Order(total, {3: Call(range, (5,))}, ()),
        Order(total, {}, ()),
        Order(Call(int, ("many",)), {}, ()),
        Order(Call(unreadable, ()), {}, ()),
        Order(Call(threading.Lock, ()), {}, ()),
        Order(total, {}, (3,)),
        Order(Call(abs, (-4,)), {}, ()),
    )
    assert [value for succeeded, value in found if succeeded] == [10, 10, 4]
    errors = [value for succeeded, value in found if not succeeded]
    assert [type(error) for error in errors] == [ValueError, RuntimeError, TypeError, KeyError]
    assert errors[0].__notes__[0].startswith("In a worker process:\nTraceback")
    assert "Unreadable: told" in str(errors[1])
    assert "In a worker process" in str(errors[1])


GONE = threading.Event()


def when_gone() -> bool:
    return GONE.wait(20)


def test_it_ends_if_who_asked_is_gone_when_the_answer_is_there(beats: Beats) -> None:
    def give(link: Connection) -> None:
        link.send_bytes(pickle.dumps(Order(Call(when_gone, ()), {}, ())))
        link.close()
        GONE.set()

    GONE.clear()
    served(give, beats)


def test_it_gives_signs_of_life_also_if_they_were_not_read_for_long(beats: Beats) -> None:
    full = 0
    with suppress(BlockingIOError):
        while True:
            full += os.write(beats.far, b"-" * 512)

    def give(link: Connection) -> None:
        assert beats.heard(full) == b"-" * full
        assert beats.heard(3) == b"..."

    served(give, beats)


def test_it_frees_what_no_task_will_take() -> None:
    class Large:
        pass

    results, made = Results(), list[weakref.ref[Large]]()

    def make() -> Large:
        large = Large()
        made.append(weakref.ref(large))
        return large

    results.obey(Order(Call(id, (KeptResult(0),)), {0: Call(make, ())}, ()))
    assert made[0]() is not None
    results.obey(Order(Call(os.getpid, ()), {1: Call(id, (make(),))}, (0,)))
    assert made[0]() is None
    assert made[1]() is not None  # data of a call that is not run yet
    results.obey(Order(Call(os.getpid, ()), {}, (1,)))
    assert made[1]() is None
