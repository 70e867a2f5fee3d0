"""Where the seconds of an epoch on a GPU go: by kernel, and by step of the algorithm.

    python bench/gpu_kernels.py --data gowalla --factors 64 128 --solver auto cholesky

Kernels are timed by CUDA events on their stream, steps by the clock, waiting for the device at
their end. Both are seconds per epoch, over the epochs after the first. What steps take beyond their
kernels goes to CuPy's own kernels, cuBLAS, copies and the host.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any

from gpu import OBJECTIVE, SHAPES
from harness.drawn import drawn
from harness.records import line, parser, save
from harness.subjects import interactions

import mfrank
from mfrank.arrays import device as gpu
from mfrank.backends import choose

_STEPS = ("gram", "rotate", "solve_rows")


def main() -> None:
    """Measure, print and save."""
    made = parser(__doc__, repeats=1)
    made.add_argument("--data", nargs="+", default=["gowalla"])
    made.add_argument("--factors", nargs="+", type=int, default=[64, 256])
    made.add_argument("--solver", nargs="+", default=["auto", "cholesky", "cg"])
    made.add_argument("--epochs", type=int, default=3)
    args = made.parse_args()
    if reason := gpu.why_unavailable():
        sys.exit(f"no GPU to measure: {reason}")
    rows: list[dict[str, Any]] = []
    for name in args.data:
        data = drawn(*SHAPES[name]) if name in SHAPES else interactions(name)
        for factors in args.factors:
            for solver in args.solver:
                for part, seconds in parts(data, factors, solver, args).items():
                    row = {"data": name, "factors": factors, "solver": solver}
                    rows.append({**row, "part": part, "seconds_per_epoch": seconds})
                    print(line(rows[-1]), flush=True)
    save(args.folder, "gpu-kernels", rows)


def parts(
    data: mfrank.Interactions, factors: int, solver: str, args: argparse.Namespace
) -> dict[str, float]:
    """Seconds per epoch of each kernel and of each step, longest first."""
    found: dict[str, float] = {}
    for watched in (_steps_timed, _kernels_timed):
        with watched() as seconds:
            epochs: list[float] = []
            mfrank.ALS(
                OBJECTIVE,
                factors=factors,
                iterations=args.epochs + 1,
                solver=solver,
                random_state=0,
                backend="cuda",
            ).fit(data, callback=partial(_note, seconds, epochs))
        each = {part: took / args.epochs for part, took in seconds.items()}
        found |= dict(sorted(each.items(), key=lambda pair: -pair[1]))
        if watched is _steps_timed:
            found["epoch"] = sum(epochs[1:]) / args.epochs
    return found


def _note(
    seconds: dict[str, float], epochs: list[float], epoch: int, took: float, _: float | None
) -> None:
    epochs.append(took)
    if epoch == 0:  # which has the start
        seconds.clear()


@contextmanager
def _kernels_timed() -> Iterator[dict[str, float]]:
    """Seconds of each kernel by name, tile and threads; complete when the context ends."""
    import cupy

    from mfrank.backends.cuda.cupy_device import CupyDevice

    plain: Callable[..., None] = CupyDevice.launch
    begun: list[tuple[str, Any, Any]] = []

    class Cleared(defaultdict[str, float]):
        def clear(self) -> None:
            super().clear()
            begun.clear()

    seconds = Cleared(float)

    def launch(self: Any, module: Any, kernel: str, grid: Any, args: Any) -> None:
        before, after = cupy.cuda.Event(), cupy.cuda.Event()
        before.record()
        plain(self, module, kernel, grid, args)
        after.record()
        begun.append((f"kernel {kernel} {module.tile} x {grid.threads}", before, after))

    CupyDevice.launch = launch  # type: ignore[method-assign]
    try:
        yield seconds
    finally:
        CupyDevice.launch = plain  # type: ignore[method-assign]
        for name, before, after in begun:
            after.synchronize()
            seconds[name] += cupy.cuda.get_elapsed_time(before, after) / 1e3


@contextmanager
def _steps_timed() -> Iterator[dict[str, float]]:
    """Seconds of the backend's steps and of the eigendecompositions."""
    from mfrank.als import Eigenbasis

    backend: Any = choose("cuda")
    seconds: dict[str, float] = defaultdict(float)

    def timed(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **how: Any) -> Any:
            gpu.device().synchronize()
            began = perf_counter()
            result = plain(*args, **how)
            gpu.device().synchronize()
            seconds[f"step {name}"] += perf_counter() - began
            return result

        return call

    plain = {name: getattr(backend, name) for name in _STEPS}
    of = Eigenbasis.__dict__["of"]
    try:
        for name, step in plain.items():
            setattr(backend, name, timed(name, step))
        Eigenbasis.of = staticmethod(timed("eigenbasis", Eigenbasis.of))  # type: ignore[assignment]
        yield seconds
    finally:
        for name, step in plain.items():
            setattr(backend, name, step)
        Eigenbasis.of = of


if __name__ == "__main__":
    main()
