"""A process ends in peace while its threads still work: with the code asked for, without a word."""

from __future__ import annotations

import os

import pytest
from children import run

DAEMONS = """
import os, sys, threading, time, warnings
warnings.simplefilter("ignore")  # of forks beside BLAS's threads
import numpy as np
import mfrank
from mfrank.backends import choose
from mfrank.arrays.csr import distinct
data = mfrank.synthetic(1000, 600, 30_000, random_state=0)
model = mfrank.ALS(factors=16, iterations=1, random_state=0, n_threads=2).fit(data)
long, ones = np.ones((100_000, 128), np.float32), np.ones(100_000)
many = np.random.default_rng(0).integers(0, 9**5, 10**4)
def work():
    while True:
        {work}
codes = []
for child in range(12):
    pid = os.fork()
    if pid == 0:
        threading.Thread(target=work, daemon=True).start()
        time.sleep(0.02 + 0.011 * child)
        sys.exit(child)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(codes == list(range(12)), codes)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="to start a Python anew takes too long")
@pytest.mark.parametrize(
    "work",
    [
        "mfrank.ALS(factors=16, iterations=2, n_threads=2).fit(data)",
        "mfrank.Descent(factors=16, iterations=2, n_threads=2).fit(data)",
        "model.recommend(np.arange(1000), N=10, n_threads=2)",
        "choose().gram(long, ones, 4)",
        "distinct(many)",
    ],
)
def test_a_daemon_thread_is_left_where_it_is(work: str) -> None:
    result = run(DAEMONS.format(work=work))
    assert result.stdout.startswith("True"), result.stdout
    assert result.stderr == ""


BEYOND_MAIN = """
import sys, threading
import mfrank
data = mfrank.synthetic(500, 3000, 20_000, random_state=0)
def work():
    threading.main_thread().join()
    mfrank.ALS(factors=16, iterations=2, n_threads=2).fit(data)
    # Products of matrices that several threads of Python share.
    model = mfrank.Descent(
        factors=64, iterations=1, negatives=2000, shared_negatives=True, n_threads=2
    ).fit(data)
    print(len(model.recommend([0], N=5)[0][0]))
threading.Thread(target=work).start()
sys.exit(7)
"""


def test_a_thread_goes_on_once_main_has_ended() -> None:
    result = run(BEYOND_MAIN)
    assert (result.returncode, result.stdout, result.stderr) == (7, "5\n", "")
