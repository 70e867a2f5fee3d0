"""Full disks, little memory, no threads, Ctrl-C at any moment: errors, never a broken state."""

from __future__ import annotations

import sys

import pytest
from children import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="others have no such limits")

WORLD = """
import os, resource, signal, sys, threading, time, warnings
warnings.simplefilter("ignore")
from pathlib import Path
import numpy as np
import mfrank

data = mfrank.synthetic(600, 400, 15_000, random_state=0)
als = lambda: mfrank.ALS(factors=32, iterations=2, n_threads=2, random_state=0)
descent = lambda: mfrank.Descent(factors=16, iterations=1, n_threads=2, random_state=0)
fitted = als().fit(data)
"""

FULL = (
    WORLD
    + """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that a write beyond the limit is an OSError
folder, other = Path({folder!r}), fitted.store
def writes(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, -1))
    for write in (
        lambda: fitted.save(folder / "model"),
        lambda: descent().fit(data, checkpoint=folder / f"checkpoint {size}"),
        lambda: mfrank.to_safetensors(other, folder / "model.safetensors"),
        lambda: mfrank.to_implicit(other, folder / "model.npz"),
    ):
        try:
            write()
        except Exception as error:
            yield type(error).__name__
        else:
            yield "written"
    resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))

print(*writes(-1))
for size in (0, 1, 100, 5_000, 30_000):
    print(*writes(size))
    same = mfrank.load(folder / "model", verify=True)
    assert np.array_equal(same.user_factors, fitted.user_factors)
    for read, file in (
        (mfrank.from_safetensors, "model.safetensors"), (mfrank.from_implicit, "model.npz")
    ):
        assert np.array_equal(read(folder / file).user_factors, fitted.user_factors)
    descent().fit(data, checkpoint=folder / f"checkpoint {size}")
print(sorted(path.name for path in folder.iterdir() if path.suffix or path.name == "model"))
"""
)


def test_a_file_that_cannot_grow_leaves_the_old_model(tmp_path: object) -> None:
    pytest.importorskip("safetensors", reason="the extra safetensors is not installed")
    ended = run(FULL.replace("{folder!r}", repr(str(tmp_path))))
    assert ended.returncode == 0, ended.stderr
    whole, *limited, left = ended.stdout.splitlines()
    assert whole == "written written written written"
    assert set(limited) == {"OSError OSError OSError OSError"}, limited
    assert left == "['model', 'model.npz', 'model.safetensors']"


LITTLE = (
    WORLD
    + """
def memory():
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

def outcome(work, more):
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_AS, (memory() + more, -1))
        try:
            work()
        except MemoryError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

big = mfrank.synthetic(6000, 4000, 150_000, random_state=0)
works = [
    lambda: mfrank.ALS(factors=128, iterations=1, n_threads=2).fit(big),
    lambda: mfrank.Descent(factors=64, iterations=1, n_threads=2).fit(big),
    lambda: fitted.recommend(np.arange(600), N=400),
    lambda: mfrank.evaluate(fitted, data),
]
for work in works:
    print(*(outcome(work, int(more * 2**20)) for more in (0, 0.1, 0.5, 1, 2, 4, 8, 16, 32, 4000)))
"""
)


def test_little_memory_is_a_memory_error() -> None:
    # Freed memory goes back to the system, and no thread has 64 MiB in reserve, or there may be
    # enough of it beyond any limit.
    returned = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    returned["MALLOC_ARENA_MAX"] = "1"
    ended = run(LITTLE, OPENBLAS_NUM_THREADS="1", **returned)
    assert ended.returncode == 0, ended.stderr
    fits = [line.split() for line in ended.stdout.splitlines()]
    assert all(set(codes) <= {"0", "1"} and codes[-1] == "0" for codes in fits), ended.stdout
    assert all("1" in codes for codes in fits), ended.stdout


ALGEBRA = (
    WORLD
    + """
def memory():
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

def outcome(more):
    child = os.fork()
    if not child:
        signal.alarm(60)  # OpenBLAS has tried for ever
        resource.setrlimit(resource.RLIMIT_AS, (memory() + more, -1))
        try:
            mfrank.EASE(100.0, neighbors=20).fit(big)
        except MemoryError:
            os._exit(1)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(2)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

big = mfrank.synthetic(3000, 1500, 30_000, random_state=0)
print(*(outcome(more << 20) for more in (0, 20, 60, 100, 130, 180, 250, 300, 340, 400, 4000)))
"""
)


def test_the_end_of_memory_is_a_memory_error_of_linear_algebra() -> None:
    ended = run(ALGEBRA)
    assert ended.returncode == 0, ended.stderr
    codes = ended.stdout.split()
    assert set(codes) == {"0", "1"}, ended.stdout + ended.stderr
    assert codes == sorted(codes, reverse=True)


NO_THREADS = (
    WORLD
    + """
child = os.fork()
if not child:
    if os.getuid() == 0:
        os.setresuid(65534, 65534, 65534)  # the limit does not hold for root
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    try:
        threading.Thread(target=int).start()
    except RuntimeError:
        pass
    else:
        print("threads")
        os._exit(0)
    again = als().fit(data)
    print(np.array_equal(again.item_factors, fitted.item_factors))
    print(len(descent().fit(data).recommend([0, 1], N=5, n_threads=8)[0]))
    sys.stdout.flush()
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
)


def test_without_threads_the_caller_does_all_the_work() -> None:
    # OpenBLAS interrupts a process in which it cannot start threads of its own.
    ended = run(NO_THREADS, OPENBLAS_NUM_THREADS="1")
    assert ended.returncode == 0, ended.stderr
    if ended.stdout == "threads\n":
        pytest.skip("this user may start threads beyond the limit")
    assert ended.stdout == "True\n2\n"


STORM = (
    WORLD
    + """
struck, armed, over = 0, False, threading.Event()
def strike(*_):
    global armed, struck
    if armed:
        armed, struck = False, struck + 1
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, strike)

def storm():
    pauses = np.random.default_rng(0).exponential(0.01, 10**6)
    for pause in pauses:
        if over.wait(pause):
            return
        os.kill(os.getpid(), signal.SIGINT)

folder = Path({folder!r}) / "model"
walks = mfrank.Interactions.from_arrays(*data.user_items.nonzero(), None, np.arange(data.nnz))
works = [
    lambda: als().fit(data),
    lambda: descent().fit(data),
    lambda: fitted.recommend(np.arange(600), N=50),
    lambda: mfrank.evaluate(fitted, data),
    lambda: mfrank.load(fitted.save(folder)),
    lambda: mfrank.SupervisedPageRank(n_threads=2, random_state=0).fit(walks),
]
fitted.save(folder)
before = [als().fit(data).item_factors, descent().fit(data).item_factors]
thread = threading.Thread(target=storm)
thread.start()
until = time.monotonic() + 4
while time.monotonic() < until:
    for work in works:
        try:
            armed = True
            work()
            armed = False
        except KeyboardInterrupt:
            pass
over.set()
thread.join()
after = [als().fit(data).item_factors, descent().fit(data).item_factors]
assert all(map(np.array_equal, before, after))
assert np.array_equal(mfrank.load(folder, verify=True).item_factors, fitted.item_factors)
print(struck)
"""
)


def test_ctrl_c_at_any_moment_leaves_all_as_it_was(tmp_path: object) -> None:
    ended = run(STORM.replace("{folder!r}", repr(str(tmp_path))))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert int(ended.stdout) > 10
