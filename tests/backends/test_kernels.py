"""How the native kernels behave: instruction sets, threads, fork, Ctrl-C, and what they refuse."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from children import ROOT, run
from numpy.typing import NDArray
from problems import solve_plainly

from mfrank.als import Eigenbasis, solve_in_own_basis
from mfrank.arrays import CSR
from mfrank.backends import CellTerm, ObservedLoss, RowProblem, SolveOptions, cpu, reference

if reason := cpu.why_unavailable():
    pytest.skip(reason, allow_module_level=True)

from mfrank import _ext


def problem(n_rows: int, n_columns: int, length: int, dtype: str = "float32") -> RowProblem:
    """Rows of `length` distinct random columns, WRMF-like coefficients."""
    rng = np.random.default_rng(0)
    columns = np.sort(rng.permuted(np.tile(np.arange(n_columns), (n_rows, 1)), axis=1)[:, :length])
    indptr = np.arange(n_rows + 1) * length
    data = rng.integers(1, 6, size=indptr[-1]).astype(dtype)
    one = CellTerm(np.ones(n_rows), 0.5)
    rows = CSR(indptr, columns.astype(np.int32).ravel(), data, n_columns)
    return RowProblem(
        rows, np.ones(n_rows), np.full(n_rows, 0.1), ObservedLoss(one, one, one), True
    )


def solved(of: RowProblem, fixed: NDArray[Any], **options: Any) -> NDArray[Any]:
    """What the native code gives, in the eigenbasis of a Gram matrix of equal weights."""
    at = Eigenbasis.of(reference.gram(fixed, np.ones(len(fixed))))
    turned, out = np.empty_like(fixed), np.zeros((of.rows.n_rows, fixed.shape[1]), fixed.dtype)
    at.turn(cpu, fixed, turned)
    cpu.solve_rows(of, turned, at.shared, out, SolveOptions(**options))
    return out


def factors(n_rows: int, n_factors: int, dtype: str = "float32") -> NDArray[Any]:
    return np.random.default_rng(1).standard_normal((n_rows, n_factors)).astype(dtype)


FILES = (
    "backends/test_backends.py",
    "losses/test_ramps.py",
    "losses/test_top_thresholds.py",
    "backends/test_sketches.py",
    "losses/test_smoothing.py",
    "losses/test_soft_ndcg.py",
    "arrays/test_random.py",
)
CONTRACT = (
    "import sys, pytest; from mfrank import _ext; print('isa', _ext.isa());"
    "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider',"
    f"{', '.join(repr(f'tests/{file}') for file in FILES)}, '-k',"
    "'(cpu and not many_factors) or test_ramps or top_thresholds or sketches or test_smoothing or "
    "soft_ndcg or normal_numbers']))"
)


@pytest.mark.parametrize("isa", ["avx512", "avx2", "baseline", "neon"])
def test_every_instruction_set_keeps_the_contract(isa: str) -> None:
    if isa == _ext.isa():
        pytest.skip(f"this process has {isa}: these tests run in it as they are")
    asked = run("from mfrank import _ext; print(_ext.isa())", MFRANK_ISA=isa)
    if "cannot run it" in asked.stderr or "MFRANK_ISA must be" in asked.stderr:
        pytest.skip(f"this machine has no {isa}")
    assert asked.stdout.strip() == isa
    result = subprocess.run(
        [sys.executable, "-c", CONTRACT],
        env=os.environ | {"MFRANK_ISA": isa, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert f"isa {isa}" in result.stdout
    assert result.returncode == 0, result.stdout[-3000:]


def test_an_unknown_instruction_set_is_an_error_not_a_fallback() -> None:
    result = run("from mfrank.backends import choose; choose('auto')", MFRANK_ISA="sse9")
    assert re.search(r"ValueError: MFRANK_ISA must be .*; got 'sse9'", result.stderr)


def test_without_the_extension_the_reason_says_how_to_get_it() -> None:
    code = (
        "import sys; sys.modules['mfrank._ext'] = None\n"
        "from mfrank.backends import choose, cpu\n"
        "print(choose('auto').__name__, cpu.why_unavailable())"
    )
    output = run(code).stdout
    assert output.startswith("mfrank.backends.numpy")
    assert "compiler" in output


FORK = """
import os, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from test_kernels import factors, problem, solved
work, fixed = problem(400, 90, 30), factors(90, 16)
before = solved(work, fixed, n_threads=3)
child = os.fork()
if child == 0:
    os._exit(0 if (solved(work, fixed, n_threads=3) == before).all() else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_can_solve_too() -> None:
    result = run(FORK)
    assert result.returncode == 0, result.stderr


IDLE = """
import os, time
from test_kernels import factors, problem, solved
solved(problem(400, 90, 30), factors(90, 16), n_threads=2)  # BLAS has its threads by now
time.sleep(2)
before = len(os.listdir("/proc/self/task"))
solved(problem(400, 90, 30), factors(90, 16), n_threads=9)
there = len(os.listdir("/proc/self/task"))
time.sleep(2)
print(there > before, len(os.listdir("/proc/self/task")) == before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="no /proc here")
def test_threads_that_wait_for_work_end_after_a_while() -> None:
    result = run(IDLE)
    assert result.stdout == "True True\n", result.stdout + result.stderr


INTERRUPT = """
import os, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
import numpy as np
from mfrank import _ext
{setup}
def strike():
    global struck
    struck = time.process_time()
    os.kill(os.getpid(), signal.SIGINT)
try:
    threading.Timer(0.1, strike).start()
    {call}
except KeyboardInterrupt:
    print("interrupted", time.process_time() - struck)
else:
    print("finished")
"""

# Entries may repeat a column, so a few bytes of factors serve rows of any length.
LONG_ROWS = """
lengths = {lengths}
indptr = np.concatenate([[0], np.cumsum(lengths)])
n = len(lengths)
one = (np.ones(n), 0.0)
arguments = dict(
    rows=(indptr, np.zeros(indptr[-1], np.int32), None), observed=(one, one, one),
    users_are_rows=True, weight=np.ones(n), ridge=np.ones(n), fixed=np.ones((3, 256), np.float32),
    eigenvalues=np.ones(256), vector=np.zeros(256), start=np.zeros((n, 256), np.float32), turn=None,
    out=np.zeros((n, 256), np.float32), gain=np.zeros(n), cg_steps=1000000, cg_tolerance=0.0,
    to_tolerance=False)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no os.kill with SIGINT")
@pytest.mark.parametrize(
    ("lengths", "call"),
    [
        ("[3_000_000]", "_ext.solve_rows(**arguments, solver='cholesky', n_threads=1)"),
        ("[3_000_000]", "_ext.solve_rows(**arguments, solver='cg', n_threads=1)"),
        ("[2_000] * 3_000", "_ext.solve_rows(**arguments, solver='cholesky', n_threads=2)"),
        ("[3_000_000, 1]", "_ext.solve_rows(**arguments, solver='cholesky', n_threads=2)"),
        (
            "[1]",
            "while True: _ext.gram(np.ones((200_000, 256), np.float32), np.ones(200_000), 2)",
        ),
        (
            "[1]",
            "s, one = np.random.rand(4000, 900), np.ones(4000); _ext.soft_ndcg("
            "s / 1e3, s >= 0, s[:, :9].copy(), one, 1.0, 10, s, one, 2)",
        ),
    ],
)
def test_interrupt(lengths: str, call: str) -> None:
    """Ctrl-C ends a call within a second: one long row, many rows or lists, one thread or more.

    Seconds of work on each of two threads: a busy machine's clock would say nothing.
    """
    code = INTERRUPT.format(setup=LONG_ROWS.format(lengths=lengths), call=call)
    result = run(code)
    assert result.stdout.startswith("interrupted"), result.stdout + result.stderr
    assert float(result.stdout.split()[1]) < 2 * 1.0


def test_calls_from_several_python_threads_agree_with_one() -> None:
    works = [(problem(60 + 20 * i, 80, 10 + i), factors(80, 8 + 5 * i)) for i in range(6)]
    alone = [solved(work, fixed, n_threads=2) for work, fixed in works]
    with ThreadPoolExecutor(6) as pool:
        together = pool.map(lambda w: solved(*w, n_threads=2), works * 3)
    for got, expected in zip(together, alone * 3, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_offsets_beyond_32_bits() -> None:
    """The rows lie beyond entry 2^31 of arrays whose other pages are never touched."""
    small, fixed = problem(5, 9, 4), factors(9, 6)
    start = 2**31 + 10
    indices = np.zeros(start + 20, np.int32)
    data = np.zeros(start + 20, np.float32)
    indices[start:], data[start:] = small.rows.indices, small.rows.data
    far = CSR(small.rows.indptr + start, indices, data, 9)
    beyond = RowProblem(far, small.weight, small.ridge, small.observed, True)
    np.testing.assert_array_equal(solved(beyond, fixed), solved(small, fixed))


def test_a_fold_in_is_the_same_as_among_many_columns() -> None:
    """One short row over many columns turns only its own; so do many, which turn all."""
    fixed = factors(500, 12, "float64")
    gram = reference.gram(fixed, np.ones(500))
    for n_rows in (1, 200):
        rows = problem(n_rows, 500, 7, "float64")
        got = solve_in_own_basis(cpu, rows, fixed, Eigenbasis.of(gram), SolveOptions())
        np.testing.assert_allclose(got, solve_plainly(rows, fixed, gram), rtol=1e-8, atol=1e-11)


def test_auto_iterates_where_that_costs_less_and_is_exact_elsewhere() -> None:
    long, short, fixed = problem(3, 4000, 3900), problem(3, 4000, 5), factors(4000, 48)
    for rows, same in ((long, False), (short, True)):
        exact = solved(rows, fixed, solver="cholesky")
        auto = solved(rows, fixed, solver="auto", cg_steps=1)
        assert np.array_equal(auto, exact) == same
    # So many steps would cost more than the exact solution.
    exact = solved(long, fixed, solver="cholesky")
    np.testing.assert_array_equal(solved(long, fixed, solver="auto", cg_steps=100), exact)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_row_of_very_many_entries_is_summed_by_all_threads(dtype: str) -> None:
    rows, fixed = problem(2, 40_000, 39_000, dtype), factors(40_000, 20, dtype)
    one, two, five = (solved(rows, fixed, solver="cholesky", n_threads=n) for n in (1, 2, 5))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, five)
    gram = reference.gram(fixed, np.ones(len(fixed)))
    expected = solve_plainly(rows, fixed, gram) @ Eigenbasis.of(gram).basis
    np.testing.assert_allclose(one, expected, rtol=100 * cpu.TOLERANCE[dtype])


@pytest.mark.parametrize("n_factors", [40, 300])
@pytest.mark.parametrize("tolerance", [0.3, 1e-2, 1e-4, 1e-9])
def test_a_tolerance_is_kept(tolerance: float, n_factors: int) -> None:
    rows = problem(12, 900, 500, "float64")
    fixed = factors(900, n_factors, "float64") * np.geomspace(1, 1e-3, n_factors)
    at = Eigenbasis.of(reference.gram(fixed, np.ones(900)))
    x = solved(rows, fixed, solver="cg", cg_steps=1, cg_tolerance=tolerance)
    diagonal = at.shared.values + rows.ridge[0]
    c, d = rows.curvature().reshape(12, 500), rows.pull().reshape(12, 500)
    for r in range(12):
        f = fixed[rows.rows.row(r)[0]] @ at.basis
        matrix, right = np.diag(diagonal) + (f.T * c[r]) @ f, f.T @ d[r] + at.shared.vector
        error = x[r] - np.linalg.solve(matrix, right)
        bound = tolerance * np.sqrt(right**2 @ (1 / diagonal))
        assert np.sqrt(error @ matrix @ error) <= bound + 1e-12


def test_rows_that_miss_the_tolerance_are_solved_exactly() -> None:
    rows, fixed = problem(12, 900, 500, "float64"), factors(900, 40, "float64")
    exact = solved(rows, fixed, solver="cholesky")
    for tolerance, same in ((1e-12, True), (0.3, False)):
        x = solved(rows, fixed, solver="cg", cg_steps=1, cg_tolerance=tolerance)
        assert np.array_equal(x, exact) == same


def arguments(**changes: Any) -> dict[str, Any]:
    """Keywords of a small valid _ext.solve_rows call."""
    one = (np.ones(2), 0.0)
    indptr, indices = np.array([0, 2, 3]), np.array([0, 3, 1], np.int32)
    valid: dict[str, Any] = {
        "rows": (indptr, indices, np.ones(3, np.float32)),
        "observed": (one, one, one),
        "users_are_rows": True,
        "weight": np.ones(2),
        "ridge": np.ones(2),
        "fixed": np.ones((4, 3), np.float32),
        "eigenvalues": np.ones(3),
        "vector": np.zeros(3),
        "start": np.zeros((2, 3), np.float32),
        "turn": np.eye(3, dtype=np.float32),
        "gain": np.zeros(2),
        "out": np.zeros((2, 3), np.float32),
        "solver": "auto",
        "cg_steps": 3,
        "cg_tolerance": 1e-4,
        "to_tolerance": False,
        "n_threads": 1,
    }
    return valid | changes


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


def rows(indptr: list[int], indices: list[int], dtype: Any = np.int32) -> tuple[Any, Any, None]:
    return np.array(indptr), np.array(indices, dtype=dtype), None


REFUSED: dict[str, tuple[Callable[[], dict[str, Any]], type[Exception], str]] = {
    "column too large": (lambda: {"rows": rows([0, 1, 2], [0, 4])}, IndexError, r"\[0, 4\)"),
    "column negative": (lambda: {"rows": rows([0, 1, 2], [0, -1])}, IndexError, r"\[0, 4\)"),
    "indptr falls": (lambda: {"rows": rows([0, 2, 1], [0, 1])}, ValueError, "indptr"),
    "indptr beyond": (lambda: {"rows": rows([0, 2, 9], [0, 1])}, ValueError, "indptr"),
    "indptr negative": (lambda: {"rows": rows([-1, 1, 2], [0, 1])}, ValueError, "indptr"),
    "64-bit columns": (lambda: {"rows": rows([0, 1, 2], [0, 1], int)}, TypeError, "int32"),
    "wrong dtype": (lambda: {"out": np.zeros((2, 3))}, TypeError, "out must be .*float32"),
    "half precision": (lambda: {"fixed": np.ones((4, 3), "f2")}, TypeError, "fixed must be"),
    "a list": (lambda: {"weight": [1.0, 1.0]}, TypeError, "weight must be .*float64, got list"),
    "wrong shape": (lambda: {"ridge": np.ones(3)}, ValueError, "ridge must have 2 elements, got 3"),
    "wrong width": (lambda: {"turn": np.eye(4, dtype="f")}, ValueError, "turn must have 3 rows"),
    "flat": (lambda: {"fixed": np.ones(4, "f")}, ValueError, "fixed must have 2 dimensions"),
    "strided": (lambda: {"fixed": np.ones((4, 6), "f")[:, ::2]}, ValueError, "C-contiguous"),
    "read-only": (lambda: {"out": frozen(np.zeros((2, 3), "f"))}, ValueError, "out must be writ"),
    "solver": (lambda: {"solver": "lu"}, ValueError, "solver must be auto, cholesky or cg"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_door_refuses(name: str) -> None:
    changes, error, message = REFUSED[name]
    _ext.solve_rows(**arguments())
    with pytest.raises(error, match=message):
        _ext.solve_rows(**arguments(**changes()))
