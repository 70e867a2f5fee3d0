"""Seconds per epoch, users per second and agreement with the processor, on a GPU.

One command, with a GPU and ``pip install -e ".[cuda13,bench-gpu]"`` (or ``cuda12``, without
``bench-gpu``: implicit's GPU build is for CUDA 13):

    python bench/gpu.py
    python bench/gpu.py --data ml-20m --factors 64 128 --contenders "cuda auto" "cuda cg"
    python bench/gpu.py --data gowalla --contenders "cuda auto" "cpu auto" --with features biases

Contenders are mfrank's CUDA backend with exact solves where they cost least (``auto``), with exact
solves throughout (``cholesky``), with three steps of conjugate gradients (``cg``) and with fixed
factors read in float16; the CPU backend; and implicit's own GPU build where it can run (conjugate
gradients; implicit_gpu.py loads what its wheel needs). ``ml-20m`` and ``100m`` are drawn
(harness/drawn.py). The objective is WRMF with confidence alpha r, as in epoch_cost.py.
``over_floor`` is seconds over the least that an exact epoch can take at the GPU's measured rates of
float32 products and of copies (floor.py). ``gpu_mib`` is the memory that CuPy's pool grew to; for
implicit it is what the GPU held at the ends of epochs beyond what it held before. ``agreement`` is
the largest difference of some users' scores from the CPU's after one epoch from the same start,
over their length; ``agreement_promised`` is what the backend promises for the rows of a half-step.
``with`` names what a fit has beside factors: biases, or 2,000 random features of items, 20 each.
Data of more than 20 million entries are not compared with the CPU, which takes minutes for them.
``objective_over_cpu`` is by how much the objective of an exact fit is above the CPU's, and
``same_bits_twice`` whether two such fits on the GPU are equal.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from itertools import product
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from gpu_peers import implicit_gpu
from harness.drawn import drawn
from harness.floor import Machine, Work
from harness.records import line, parser, save
from harness.subjects import interactions

import mfrank
from mfrank.arrays import device as gpu
from mfrank.backends import choose
from mfrank.data import Interactions
from mfrank.retrieval import recommend

SHAPES = {
    "ml-20m": (138_000, 27_000, 20_000_000),
    "100m": (5_000_000, 500_000, 100_000_000),
}
CONTENDERS = [
    "cuda auto",
    "cuda auto float16",
    "cuda cholesky",
    "cuda cg",
    "cpu auto",
    "implicit gpu",
]
OBJECTIVE = mfrank.WRMF(alpha=10.0, regularization=1.0)
_PRODUCT, _COPIED, _TRIALS = 8192, 1 << 30, 7
_USERS_AT_ONCE = 1 << 16
_COMPARED = 20_000_000
_TAGS, _TAGS_EACH = 2000, 20
WITH = ["nothing", "features", "biases"]


def main() -> None:
    """Measure, print and save."""
    made = parser(__doc__, repeats=1)
    made.add_argument("--data", nargs="+", default=["ml-20m", "globo", "100m"])
    made.add_argument("--factors", nargs="+", type=int, default=[64, 128, 256, 512])
    made.add_argument("--contenders", nargs="+", default=CONTENDERS, choices=CONTENDERS)
    made.add_argument("--with", nargs="+", choices=WITH, default=["nothing"], dest="beside")
    made.add_argument("--pool-gib", type=float, help="most memory that CuPy may take for fits")
    made.add_argument("--epochs", type=int, default=5)
    made.add_argument("--users", type=int, default=1_000_000, help="that ask for their best items")
    args = made.parse_args()
    if reason := gpu.why_unavailable():
        sys.exit(f"no GPU to measure: {reason}")

    machine, rows = measured_machine(), []
    for name in args.data:
        data = drawn(*SHAPES[name]) if name in SHAPES else interactions(name)
        if args.pool_gib:
            _pool().set_limit(size=int(args.pool_gib * 2**30))
        for factors in args.factors:
            least = machine.floor(Work.of_epoch(data.counts, factors))["seconds"]
            for contender, beside in product(filter(_is_there, args.contenders), args.beside):
                row = epochs(contender, data, factors, args, beside)
                rows.append({"data": name, "factors": factors, "with": beside, **row})
                rows[-1]["over_floor"] = row["seconds_per_epoch"] / least
                print(line(rows[-1]), flush=True)
                save(args.folder, "gpu", rows, gpu=described())
        rows.append({"data": name, **lists(data.n_items, args)})
        if data.user_items.nnz <= _COMPARED:
            rows[-1] |= agreement(data, args)
        print(line(rows[-1]), flush=True)
        save(args.folder, "gpu", rows, gpu=described())


def _is_there(contender: str) -> bool:
    """All are but perhaps implicit's, whose wheel does not bring all that it needs."""
    reason = implicit_gpu.why_unavailable() if contender == "implicit gpu" else None
    if reason:
        print(f"implicit gpu is left out: {reason}", flush=True)
    return reason is None


def epochs(
    contender: str, data: Interactions, factors: int, args: argparse.Namespace, beside: str
) -> dict[str, Any]:
    """Median seconds of the epochs of a fit after the first, which has the start."""
    seconds: list[float] = []
    _pool().free_all_blocks()
    began, mib = perf_counter(), None
    if contender == "implicit gpu":
        mib = _fit_implicit(data, factors, args.epochs, seconds.append)
    else:
        backend, solver, *gathers = contender.split()
        model = mfrank.ALS(
            OBJECTIVE,
            factors=factors,
            iterations=args.epochs,
            solver=solver,
            random_state=0,
            gather_dtype=gathers[0] if gathers else None,
            backend=backend,
            n_threads=args.threads if backend == "cpu" else 0,
            biases=beside == "biases",
        )
        given = {"item_features": features(data.n_items)} if beside == "features" else {}
        model.fit(data, callback=lambda _, took, __: seconds.append(took), **given)
        if backend == "cuda":
            mib = _pool().total_bytes() / 2**20
    return {
        "contender": contender,
        "seconds_per_epoch": median(seconds[1:]),
        "seconds_of_the_fit": perf_counter() - began,
        "gpu_mib": mib,
    }


def features(n_items: int) -> sp.csr_array:
    """Of items: some of as many tags."""
    random, cells = np.random.default_rng(0), (n_items, _TAGS_EACH)
    tags = random.integers(0, _TAGS, cells).ravel()
    indptr = np.arange(n_items + 1) * _TAGS_EACH
    found = sp.csr_array((np.ones(len(tags)), tags, indptr), (n_items, _TAGS))
    found.sum_duplicates()
    return found


def _fit_implicit(
    data: Interactions, factors: int, iterations: int, note: Callable[[float], None]
) -> float:
    """Tell the seconds of each epoch; returns the MiB that the GPU came to hold for it."""
    from implicit.gpu.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(
        factors=factors,
        regularization=OBJECTIVE.regularization,
        iterations=iterations,
        random_state=1,  # 0 is the time of day to it
    )
    before, held = _mib_in_use(), []

    def epoch(_: int, took: float, __: float | None) -> None:
        note(took)
        held.append(_mib_in_use() - before)

    confidences = OBJECTIVE.alpha * data.user_items  # its fit reads no alpha
    model.fit(confidences, show_progress=False, callback=epoch)
    return max(held)


def lists(n_items: int, args: argparse.Namespace) -> dict[str, float]:
    """Users a second who get their 10 best of so many items, at 128 factors."""
    device, random = gpu.device(), np.random.default_rng(0)
    items = device.asarray(random.standard_normal((n_items, 128), dtype=np.float32))
    users = random.standard_normal((min(args.users, _USERS_AT_ONCE), 128), dtype=np.float32)
    there, backend = device.asarray(users), choose("cuda")
    recommend(there, items, n=10, backend=backend)  # compiles
    n_batches = max(1, args.users // len(users))
    began = perf_counter()
    for _ in range(n_batches):
        ids, _ = recommend(there, items, n=10, backend=backend)
    device.asnumpy(ids)
    return {"users_per_second": n_batches * len(users) / (perf_counter() - began)}


def agreement(data: Interactions, args: argparse.Namespace) -> dict[str, Any]:
    """Largest difference from the processor's factors after one epoch, and of the objective."""
    models = [_exact(data, args, 1, backend) for backend in ("cpu", "cuda")]
    # Each fit has a basis of its own: scores of some items do not.
    random = np.random.default_rng(0)
    users, items = random.integers(0, data.n_users, 4096), random.integers(0, data.n_items, 256)
    scores = [model.user_factors[users] @ model.item_factors[items].T for model in models]
    lengths = np.linalg.norm(scores[0], axis=1)
    differences = np.linalg.norm(scores[1] - scores[0], axis=1) / np.maximum(lengths, 1e-12)
    cpu, cuda, again = (_exact(data, args, args.epochs, each) for each in ("cpu", "cuda", "cuda"))
    bits = [model.user_factors.tobytes() + model.item_factors.tobytes() for model in (cuda, again)]
    return {
        "agreement": float(differences.max()),
        "agreement_median": float(median(differences)),
        "agreement_promised": choose("cuda").TOLERANCE["float32"],
        "objective": _objective(cuda),
        "objective_over_cpu": _objective(cuda) / _objective(cpu) - 1,
        "same_bits_twice": bits[0] == bits[1],
    }


def _exact(
    data: Interactions, args: argparse.Namespace, iterations: int, backend: str
) -> mfrank.ALS:
    """A fit without conjugate gradients, which each backend uses for other rows."""
    return mfrank.ALS(
        OBJECTIVE,
        factors=min(args.factors),
        iterations=iterations,
        solver="cholesky",
        random_state=0,
        backend=backend,
        track_objective=True,
    ).fit(data)


def _objective(model: mfrank.ALS) -> float:
    return float(model.store.history[-1]["objective"] or np.nan)


def measured_machine() -> Machine:
    """The GPU's best rates of float32 products and of copies."""
    device = gpu.device()
    left = device.xp.ones((_PRODUCT, _PRODUCT), np.float32)
    source = device.xp.ones(_COPIED // 8)  # CuPy copies single bytes slowly
    product = _best_seconds(lambda: (left @ left)[0])
    copy = _best_seconds(lambda: source.copy()[:1])
    return Machine(_PRODUCT**3 / product, 2 * _COPIED / copy)


def _best_seconds(work: Callable[[], Any]) -> float:
    def once() -> float:
        began = perf_counter()
        gpu.device().asnumpy(work())  # waits for it
        return perf_counter() - began

    return min(once() for _ in range(_TRIALS))


def _pool() -> Any:
    import cupy

    return cupy.get_default_memory_pool()


def _mib_in_use() -> float:
    import cupy

    free, total = cupy.cuda.runtime.memGetInfo()
    return float(total - free) / 2**20


def described() -> dict[str, Any]:
    """The GPU and what it was driven by."""
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    return {
        "name": properties["name"].decode(),
        "memory_mib": properties["totalGlobalMem"] / 2**20,
        "cupy": cupy.__version__,
        "cuda": cupy.cuda.runtime.runtimeGetVersion(),
    }


if __name__ == "__main__":
    main()
