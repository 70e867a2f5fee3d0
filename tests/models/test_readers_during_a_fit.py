"""Threads that read a model while it is fitted change no bit of it, and what they hold stays.

Every line of a fit that is about its memory is a place where a reader may come, and every such line
of a reader one where it may be delayed until the fit has gone on: all of them are tried.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import FrameType
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.als import engine, half_steps
from mfrank.arrays import memory as recycled
from mfrank.models import at_once, factor_model, popularity
from mfrank.models import item_models as neighbor_lists
from mfrank.models import page_rank as walks
from mfrank.retrieval import model_state as states
from mfrank.retrieval import recommender, row_scorer

DATA = mfrank.synthetic(60, 40, 700, random_state=0)
SQUARE = mfrank.synthetic(60, 60, 700, random_state=0)  # all tables have one shape
SOLVERS = ("cholesky", "cg", "auto")
OF_THE_FIT = {module.__file__ for module in (engine, recycled, factor_model)}
OF_A_READER = {module.__file__ for module in (half_steps, recycled, recommender, states)}


def als(solver: str, epochs: int = 2) -> mfrank.ALS:
    steps = {} if solver == "cholesky" else {"cg_steps": 1}
    return mfrank.ALS(mfrank.IALS(), 6, epochs, solver=solver, **steps, random_state=0, n_threads=1)


def bits(held: Any) -> tuple[bytes, bytes]:
    return held.user_factors.tobytes(), held.item_factors.tobytes()


@contextmanager
def at_lines(files: set[str | None], call: Callable[[], object]) -> Iterator[None]:
    """Call a function before every line of these files that this thread comes to."""

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            call()
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)


class Readers:
    """Read a model in threads of their own; note what they hold, and how it was."""

    def __init__(self, model: mfrank.ALS, *, keep: bool) -> None:
        self.model, self.keep = model, keep
        self.held: list[tuple[Any, tuple[bytes, bytes]]] = []

    def read(self) -> None:
        try:
            store = self.model.store
        except mfrank.NotFittedError:
            return
        if self.keep:
            self.held.append((store, bits(store)))

    def come(self) -> None:
        reader = threading.Thread(target=self.read)
        reader.start()
        reader.join()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("data", "keep"), [(DATA, False), (SQUARE, True)])
def test_a_reader_may_come_at_any_line_of_a_fit(
    data: mfrank.Interactions, solver: str, keep: bool
) -> None:
    """One in each fit, because what it reads stays with the model until the next epoch."""
    expected = bits(als(solver).fit(data))
    for line in count(1):
        readers, lines = Readers(als(solver), keep=keep), count(1)

        def come_once(readers: Readers = readers, lines: Any = lines, line: int = line) -> None:
            if next(lines) == line:
                readers.come()

        with at_lines(OF_THE_FIT, come_once):
            readers.model.fit(data)
        assert bits(readers.model) == expected, line
        for store, then in readers.held:
            assert bits(store) == then
        if next(lines) <= line:
            break
    assert line > 50


class Delayed(Readers):
    """One reader, who comes when the fit asks where to write, and stops at its n-th line."""

    def __init__(self, model: mfrank.ALS, line: int) -> None:
        super().__init__(model, keep=True)
        self.line, self.lines = line, 0
        self.stopped, self.fit_is_over = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.read_slowly)

    def read_slowly(self) -> None:
        with at_lines(OF_A_READER, self.at_a_line):
            self.read()
        self.stopped.set()  # if there are not so many lines

    def at_a_line(self) -> None:
        self.lines += 1
        if self.lines == self.line:
            self.stopped.set()
            self.fit_is_over.wait(30)

    def fit(self, epoch: int) -> None:
        """Fit the model; the reader comes before the users of this epoch are overwritten."""
        place_of, calls = recycled.Recycled.place_of, count(1)

        def after_the_reader(lender: Any, table: Any) -> Any:
            if next(calls) == epoch:
                self.thread.start()
                self.stopped.wait(30)
            return place_of(lender, table)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(recycled.Recycled, "place_of", after_the_reader)
            self.model.fit(DATA)
        self.fit_is_over.set()
        self.thread.join()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("epoch", [2, 3])
def test_a_reader_may_stop_at_any_line_while_the_fit_goes_on(solver: str, epoch: int) -> None:
    expected = bits(als(solver, 4).fit(DATA))
    for line in count(1):
        reader = Delayed(als(solver, 4), line)
        reader.fit(epoch)
        assert bits(reader.model) == expected, line
        for store, then in reader.held:
            assert bits(store) == then
        if reader.lines < line:
            break
    assert line > 10


@pytest.mark.parametrize("solver", SOLVERS)
def test_many_readers_at_once(solver: str) -> None:
    model, over, wrong = als(solver, 25), threading.Event(), []

    def read() -> None:
        while not over.is_set():
            readers = Readers(model, keep=True)
            readers.read()
            wrong.extend(then for store, then in readers.held if bits(store) != then)

    threads = [threading.Thread(target=read) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        model.fit(DATA)
    finally:
        over.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert not wrong
    assert bits(model) == bits(als(solver, 25).fit(DATA))


def test_the_tables_of_users_and_items_are_never_one() -> None:
    """Even if both have one shape, and a loan ends just before the fit asks for memory."""
    lender, table = recycled.Recycled(), np.zeros((6, 4), np.float32)
    held = lender.lend(lender.place_of(table))
    del held
    other = lender.empty_beside(table, table.shape)  # such as by a reader
    assert not np.shares_memory(other, table)
    assert lender.place_of(table) is table


SMALLER = mfrank.synthetic(45, 25, 300, random_state=1)
"""Other data of fewer users and items: parts of one fit with the store of another do not fit."""
ROW_SCORERS: dict[str, Any] = {
    "EASE": lambda: mfrank.EASE(5.0),
    "ItemFilter": lambda: mfrank.ItemFilter(),
    "ItemKNN": lambda: mfrank.ItemKNN(),
    "SupervisedPageRank": lambda: mfrank.SupervisedPageRank(method=None, n_threads=1),
}


@pytest.mark.parametrize("name", ROW_SCORERS)
def test_a_call_during_a_refit_is_of_the_model_before_or_after(name: str) -> None:
    """Between any two lines of the refit that change the model, and for every line of a call."""
    make = ROW_SCORERS[name]

    def answers(model: Any) -> tuple[Any, ...]:
        listed = model.recommend([0, 3], N=4)
        return (
            listed.ids.tolist(),
            listed.scores.tolist(),
            model.similar_items(1, N=3).ids.tolist(),
            model.score([2, 4], [1, 3]).tolist(),
        )

    before, after = (answers(make().fit(data)) for data in (DATA, SMALLER))
    assert before != after
    model, seen = make().fit(DATA), set[bool]()

    def ask() -> None:
        found = answers(model)
        assert found in (before, after)
        seen.add(found == after)

    with at_lines(
        {at_once.__file__, popularity.__file__, walks.__file__, recommender.__file__}, ask
    ):
        model.fit(SMALLER)
    assert seen == {False, True}

    for place in count():  # the other way: it is fitted anew at each line of a call in turn
        got, n_lines = _lists_of_a_model_refitted_at(make().fit(DATA), place)
        assert got in (before[:2], after[:2])
        if n_lines <= place:
            break


def _lists_of_a_model_refitted_at(model: Any, place: int) -> tuple[tuple[Any, Any], int]:
    """Lists by a call in which the model is fitted anew at one line, and its number of lines."""
    lines = count()

    def refit() -> None:
        if next(lines) == place:
            model.fit(SMALLER)

    with at_lines({row_scorer.__file__, neighbor_lists.__file__, walks.__file__}, refit):
        got = model.recommend([0, 3], N=4)
    return (got.ids.tolist(), got.scores.tolist()), next(lines)
