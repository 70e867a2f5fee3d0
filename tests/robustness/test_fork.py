"""A process that works on several threads may fork: its children work too, and end."""

from __future__ import annotations

import os
import sys

import pytest
from children import run

FORKS = """
import faulthandler, os, signal, threading, time, traceback, warnings
warnings.simplefilter("ignore")  # of forks beside threads, which are what this is about
import numpy as np
import mfrank

matrix = mfrank.synthetic(600, 400, 15_000, random_state=0).user_items

def once(seed):
    data = mfrank.Interactions.from_sparse(matrix)
    model = mfrank.ALS(factors=8, iterations=1, n_threads=2, random_state=seed).fit(data)
    model.recommend(np.arange(50), N=5)
    mfrank.evaluate(model, data)
    mfrank.Descent(
        factors=8, iterations=1, n_threads=2, negatives=100, shared_negatives=bool(seed % 2),
        random_state=seed,
    ).fit(data)

def work(seed):
    while not over.is_set():
        once(seed)

def end_of(child):
    until = time.monotonic() + 20
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    return "hung"

over = threading.Event()
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
for thread in threads:
    thread.start()
ends = []
for seed in range(30):
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(15)  # where it waits, before it is ended
        try:
            once(seed)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    ends.append(end_of(child))
    if ends[-1]:
        break
over.set()
for thread in threads:
    thread.join()
print(ends == [0] * 30, ends)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="without Python's global lock, a thread may hold the lock of a dict at the fork",
)
def test_children_of_a_process_whose_threads_fit() -> None:
    result = run(FORKS)
    assert result.stdout.startswith("True"), result.stdout + result.stderr
    assert result.stderr == ""


WITHIN = """
import os, threading, warnings
warnings.simplefilter("ignore")
from mfrank.arrays.threads import _openblas, single_threaded
library = _openblas()
if library is None:
    raise SystemExit("no OpenBLAS")
library.write(2)

def stay():
    with single_threaded():
        entered.set()
        leave.wait()

def of_child(ask):
    child = os.fork()
    if child == 0:
        os._exit(ask())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

entered, leave = threading.Event(), threading.Event()
other = threading.Thread(target=stay)
other.start()
entered.wait()
print(of_child(library.read), end=" ")
with single_threaded():
    def within():
        with single_threaded():
            return library.read()
    print(of_child(within), end=" ")
    child = os.fork()
if child == 0:
    os._exit(library.read())
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), end=" ")
print(library.read(), end=" ")
leave.set()
other.join()
print(library.read())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_has_the_blas_threads_of_its_own_blocks() -> None:
    """One in a block that its thread is in, else as many as there were before the blocks."""
    result = run(WITHIN)
    if "no OpenBLAS" in result.stderr:
        pytest.skip("numpy does not bring an OpenBLAS of its own here")
    assert (result.stdout, result.stderr) == ("2 1 2 1 2\n", "")


IMPORTING = """
import os, sys, threading, warnings
warnings.simplefilter("ignore")
import mfrank
import logging

importing, forking = threading.Event(), threading.Event()

class Finder:
    # Within an import of mfrank, a thread waits until another forks, and then names a logger.
    def find_spec(self, name, path=None, target=None):
        if name == "mfrank.models.ease":
            sys.meta_path.remove(self)
            importing.set()
            forking.wait(30)
            threading.Event().wait(0.2)
            logging.getLogger("of a module that is imported")
        return None

sys.meta_path.insert(0, Finder())
thread = threading.Thread(target=lambda: mfrank.EASE)
thread.start()
importing.wait()
forking.set()
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
thread.join()
print("ended")
"""


def test_a_fork_during_an_import_waits_for_no_lock_of_logging() -> None:
    """Which the import takes while the fork waits for the import."""
    assert run(IMPORTING).stdout == "ended\n"
