"""Worker processes: what they are given comes back, whatever becomes of them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from children import run

import mfrank
from mfrank.backends.sharded import blocks
from mfrank.cluster import Processes
from tests.support.errors import refuses


@pytest.fixture(scope="module")
def two() -> Iterator[Processes]:
    with Processes(2) as engine:
        yield engine


def square(number: int) -> int:
    return number * number


def here(_: object = None) -> int:
    return os.getpid()


def beside(made_on: int) -> tuple[int, int]:
    return made_on, os.getpid()


def end_once(mark: Path) -> int:
    """End the process at the first call."""
    if mark.exists():
        return os.getpid()
    mark.touch()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def noted(mark: Path) -> int:
    """Note the call; return how many there were."""
    with mark.open("a") as file:
        file.write(".")
    return mark.stat().st_size


def end_always(mark: Path) -> None:
    noted(mark)
    os._exit(3)


def wrong(text: str) -> None:
    raise KeyError(text)


class Unreadable(Exception):
    """Cannot be unpickled: its arguments are not those of its constructor."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__("told")


def unreadable() -> None:
    raise Unreadable(1, 2)


def test_an_argument_may_be_a_task_whose_result_is_made_where_it_is_taken(two: Processes) -> None:
    first = two.submit(here)
    for made_on, taken_on in two.gather([two.submit(beside, first) for _ in range(4)]):
        assert made_on == taken_on != os.getpid()
    assert two.gather([two.submit(square, two.submit(square, 3))]) == [81]


def test_an_error_is_raised_here_with_where_it_was(two: Processes) -> None:
    with pytest.raises(KeyError, match="absent") as caught:
        two.gather([two.submit(wrong, "absent")])
    assert "in wrong" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError, match="told"):
        two.gather([two.submit(unreadable)])
    assert two.gather([two.submit(square, 2)]) == [4]


def test_the_task_of_a_killed_worker_is_done_again(two: Processes, tmp_path: Path) -> None:
    kept = two.submit(square, 5)
    tasks = [two.submit(end_once, tmp_path / "mark"), *(two.submit(square, kept) for _ in range(4))]
    assert two.gather(tasks)[1:] == [625] * 4


def test_workers_that_died_while_they_had_nothing_to_do_are_replaced() -> None:
    with Processes(2) as engine:
        for worker in engine._workers:
            worker.process.kill()
            worker.process.wait()
        assert engine.gather([engine.submit(square, number) for number in range(5)]) == [
            *(0, 1, 4, 9, 16)
        ]


def test_a_task_that_others_take_is_run_once_on_a_worker(two: Processes, tmp_path: Path) -> None:
    taken = two.submit(noted, tmp_path / "mark")
    two.gather([two.submit(square, taken) for _ in range(8)])
    assert (tmp_path / "mark").stat().st_size <= 2


def test_a_task_that_ends_every_worker_is_given_up(two: Processes, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"ended 3 worker processes.* status 3; .*fewer workers"):
        two.gather([two.submit(end_always, tmp_path / "mark")])
    assert (tmp_path / "mark").stat().st_size == 3
    assert two.gather([two.submit(square, 2)]) == [4]


def test_an_engine_frees_what_nothing_refers_to(two: Processes) -> None:
    kept = two.submit(square, 3)
    two.gather([two.submit(square, kept) for _ in range(4)])
    assert any(kept.key in worker.known for worker in two._workers)
    gone = kept.key
    del kept
    two.workers(here)
    assert not any(gone in worker.known for worker in two._workers)


def test_every_worker_is_asked(two: Processes) -> None:
    told = two.workers(here)
    assert len({pid for _, pid in told}) == 2
    assert all(name == f"process {pid}" for name, pid in told)


def test_workers_end_with_the_engine_and_with_their_parent() -> None:
    with Processes(1) as engine:
        ((_, pid),) = engine.workers(here)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    told = run(
        "import os, signal\nfrom mfrank.cluster.processes import Processes\n"
        "print(Processes(1).workers(os.getpid)[0][1], flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    until = time.monotonic() + 20
    while Path(f"/proc/{int(told.stdout)}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{int(told.stdout)}").exists()


def test_an_engine_leaves_no_file_open() -> None:
    before = os.listdir("/proc/self/fd")
    with Processes(2) as engine:
        engine.workers(here)
    assert os.listdir("/proc/self/fd") == before


DATA = mfrank.synthetic(300, 150, 4000, random_state=0)


def test_a_fit_survives_the_death_of_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_FEWEST_ENTRIES", 500)
    seen = list[int]()

    def kill(*_: object) -> None:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        # Not multiprocessing's resource tracker, which an earlier test may have started.
        lines = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
        workers = [pid for pid, line in lines.items() if b"mfrank.cluster.processes" in line]
        seen.extend(workers)
        os.kill(workers[0], signal.SIGKILL)

    def model() -> mfrank.ALS:
        return mfrank.ALS(mfrank.RGX(), factors=8, iterations=3, random_state=0)

    alone, there = model().fit(DATA), model().fit(DATA, cluster=2, callback=kill)
    assert len(set(seen)) >= 4
    for name in ("user_factors", "item_factors"):
        assert getattr(there, name).tobytes() == getattr(alone, name).tobytes()


def test_mixed_instruction_sets_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ext = pytest.importorskip("mfrank._ext", reason="the extension is not built")
    if ext.isa() == "baseline":
        pytest.skip("there is no other instruction set than baseline")
    monkeypatch.setenv("MFRANK_ISA", "baseline")  # read by the workers, which start later
    model = mfrank.ALS(factors=2, iterations=1)
    with refuses(ValueError, remedy="install the same version"):
        model.fit(DATA, cluster=1)


def stop_once(mark: Path) -> int:
    """Stop the process at the first call, as a debugger or a suspended machine does."""
    if mark.exists():
        return os.getpid()
    mark.touch()
    os.kill(os.getpid(), signal.SIGSTOP)
    raise AssertionError


def take_long(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def test_a_stopped_worker_is_given_up(tmp_path: Path) -> None:
    with Processes(2, patience=1.5) as engine:
        before = {process for _, process in engine.workers(os.getpid)}
        stopped = engine.submit(stop_once, tmp_path / "mark")
        others = [engine.submit(square, number) for number in range(4)]
        assert engine.gather(others) == [0, 1, 4, 9]
        assert engine.gather([stopped])[0] > 0
        after = {process for _, process in engine.workers(os.getpid)}
        assert len(before & after) == 1


def test_a_task_may_take_longer_than_a_worker_may_be_silent() -> None:
    with Processes(1, patience=1.5) as engine:
        ((_, process),) = engine.workers(os.getpid)
        assert engine.gather([engine.submit(take_long, 3.0)]) == [process]


def test_a_worker_that_always_stops_is_told() -> None:
    with Processes(1, patience=1.2) as engine:
        task = engine.submit(signal.raise_signal, signal.SIGSTOP)
        with pytest.raises(RuntimeError, match=r"ended 3 worker processes.*see patience"):
            engine.gather([task])


def test_all_stopped_together_go_on() -> None:
    with Processes(1, patience=1.2) as engine:
        engine.workers(os.getpid)
        (worker,) = engine._workers
        worker.task = engine.submit(os.getpid)  # as if it had one
        engine._ended.set()  # the watch was stopped, too
        engine._watch.join()
        time.sleep(0.1)
        worker.watch(0.3, 1.2)  # one look after hours counts as one
        assert worker.process.poll() is None
        worker.task = None


@pytest.mark.parametrize("patience", [0, -1, float("nan"), "long"])
def test_patience_is_a_time(patience: object) -> None:
    with refuses(ValueError, "patience"):
        Processes(1, patience)  # type: ignore[arg-type]
