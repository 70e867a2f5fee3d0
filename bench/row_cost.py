"""What a row costs by its length on each path, and what the cost model's constant loses.

A half-step over rows of one length n against random fixed factors, solved exactly and with three
steps of conjugate gradients, alternating; seconds are the best of the rounds. ``slowness`` is how
much slower a multiply-add of conjugate gradients came out than one of the exact solution
(``CG_SLOWNESS`` in cext/kernels/rows/row_solver.h is 4), and ``auto_loss`` what the way that
``auto`` picks takes over the faster of the two. Run it on a new class of machine to see whether it
holds.

    python bench/row_cost.py
    python bench/row_cost.py --factors 64 --lengths 32 256 --repeats 3
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness.records import line, parser, save

from mfrank.arrays.csr import CSR
from mfrank.backends import choose
from mfrank.backends.row_problem import CellTerm, Observed, RowProblem, Shared
from mfrank.backends.solve_options import SolveOptions

COLUMNS = 40_000
ENTRIES = 1_000_000
STEPS = 3
WAYS = "cholesky", "cg", "auto"


def rows_of(length: int, random: np.random.Generator) -> CSR:
    """Rows of so many entries each, about ENTRIES in all."""
    n_rows = ENTRIES // length
    columns = np.sort(random.integers(COLUMNS, size=(n_rows, length)), axis=1)
    columns += np.arange(length)  # none twice
    indptr = np.arange(n_rows + 1) * length
    shape = n_rows, COLUMNS + length
    return CSR.from_scipy(sp.csr_array((np.ones(columns.size), columns.ravel(), indptr), shape))


def measured(length: int, factors: int, repeats: int, threads: int) -> dict[str, Any]:
    """Seconds of a half-step on each way, and what follows."""
    random = np.random.default_rng(0)
    rows = rows_of(length, random)
    fixed = random.normal(size=(rows.n_columns, factors), scale=0.1).astype(np.float32)
    ones, tens = CellTerm(np.ones(rows.n_rows)), CellTerm(np.full(rows.n_rows, 10.0))
    problem = RowProblem(rows, ones.offset, ones.offset, Observed(tens, tens, ones), True)
    shared = Shared(np.sort(random.uniform(1, 100, factors)), np.zeros(factors))
    out = np.empty((rows.n_rows, factors), np.float32)
    best = dict.fromkeys(WAYS, float("inf"))
    for _ in range(repeats):
        for way in WAYS:
            out[:] = 0
            began = perf_counter()
            options = SolveOptions(way, STEPS, n_threads=threads)  # type: ignore[arg-type]
            choose("cpu").solve_rows(problem, fixed, shared, out, options)
            best[way] = min(best[way], perf_counter() - began)
    dual = length**2 * (factors / 2 + length / 6)
    primal = factors**2 * (length / 2 + factors / 6)
    iterated = 2 * length * factors * (STEPS + 1)
    return {
        "factors": factors,
        "length": length,
        **{f"{way}_microseconds": 1e6 * best[way] / rows.n_rows for way in WAYS},
        "slowness": best["cg"] / best["cholesky"] * min(dual, primal) / iterated,
        "auto_loss": best["auto"] / min(best["cholesky"], best["cg"]),
    }


def main() -> None:
    """Measure, print and save."""
    made = parser(__doc__)
    made.add_argument("--factors", nargs="+", type=int, default=[64, 128, 256])
    made.add_argument(
        "--lengths", nargs="+", type=int, default=[4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096]
    )
    args = made.parse_args()
    rows = []
    for factors in args.factors:
        for length in args.lengths:
            rows.append(measured(length, factors, args.repeats, args.threads))
            print(line(rows[-1]), flush=True)
    save(args.folder, "row-cost", rows)


if __name__ == "__main__":
    main()
