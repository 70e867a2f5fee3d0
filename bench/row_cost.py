"""What a row costs by its length on each path, and what the cost model's constants lose.

A half-step over rows of one length n against random fixed factors is solved exactly and with three
steps of conjugate gradients, alternating; seconds are the best of the rounds. ``slowness`` is how
much slower a multiply-add of conjugate gradients was measured than one of the exact solution; the
cost model (cext/kernels/rows/row_solver.h) has ``CG_SLOWNESS``, 4 with AVX-512 and else 2.5, and
``UNCACHED_CG_SLOWNESS``, 10, for rows with 131,072 entries or more. ``auto_loss`` is the time of
the way that ``auto`` picks over that of the faster one. ``waits`` is the share of auto's seconds
that goes away where all rows draw from NEAR columns, which stay in the caches: more than any faster
gathers, such as those of half the bytes, could save. Run it on a new class of machine to see
whether the constants hold.

    python bench/row_cost.py
    python bench/row_cost.py --factors 64 --lengths 32 256 --repeats 3
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness.records import line, parser, save

from mfrank.arrays import CSR
from mfrank.backends import CellTerm, ObservedLoss, RowProblem, Shared, SolveOptions, choose

COLUMNS = 40_000
NEAR = 256
ENTRIES = 1_000_000
STEPS = 3
WAYS = "cholesky", "cg", "auto", "near"


def problem_of(length: int, n_columns: int, random: np.random.Generator) -> RowProblem:
    """Rows of so many entries each, about ENTRIES in all, mostly of the first n_columns."""
    n_rows = ENTRIES // length
    columns = np.sort(random.integers(n_columns, size=(n_rows, length)), axis=1)
    columns += np.arange(length)  # none twice
    indptr = np.arange(n_rows + 1) * length
    shape = n_rows, COLUMNS + length
    rows = CSR.from_scipy(sp.csr_array((np.ones(columns.size), columns.ravel(), indptr), shape))
    ones, tens = CellTerm(np.ones(n_rows)), CellTerm(np.full(n_rows, 10.0))
    return RowProblem(rows, ones.offset, ones.offset, ObservedLoss(tens, tens, ones), True)


def measured(length: int, factors: int, repeats: int, threads: int) -> dict[str, Any]:
    """Seconds of a half-step on each way, and what follows."""
    random = np.random.default_rng(0)
    far, near = (problem_of(length, n_columns, random) for n_columns in (COLUMNS, NEAR))
    rows = far.rows
    fixed = random.normal(size=(rows.n_columns, factors), scale=0.1).astype(np.float32)
    gram = fixed.T.astype(np.float64) @ fixed
    shared = Shared(np.linalg.eigvalsh(gram), np.zeros(factors))
    out = np.empty((rows.n_rows, factors), np.float32)
    best = dict.fromkeys(WAYS, float("inf"))
    for _ in range(repeats):
        for way in WAYS:
            out[:] = 0
            began = perf_counter()
            solver = "auto" if way == "near" else way
            options = SolveOptions(solver, STEPS, n_threads=threads)  # type: ignore[arg-type]
            problem = near if way == "near" else far
            choose("cpu").solve_rows(problem, fixed, shared, out, options)
            best[way] = min(best[way], perf_counter() - began)
    dual = length**2 * (factors / 2 + length / 6)
    primal = factors**2 * (length / 2 + factors / 6)
    iterated = 2 * length * factors * (STEPS + 1)
    return {
        "factors": factors,
        "length": length,
        **{f"{way}_microseconds": 1e6 * best[way] / rows.n_rows for way in WAYS[:3]},
        "slowness": best["cg"] / best["cholesky"] * min(dual, primal) / iterated,
        "auto_loss": best["auto"] / min(best["cholesky"], best["cg"]),
        "waits": 1 - best["near"] / best["auto"],
    }


def main() -> None:
    """Measure, print and save."""
    made = parser(__doc__)
    made.add_argument("--factors", nargs="+", type=int, default=[64, 128, 256])
    made.add_argument(
        "--lengths",
        nargs="+",
        type=int,
        default=[4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 32768, 131072],
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
