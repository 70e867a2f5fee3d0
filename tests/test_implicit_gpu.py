"""The library that bench/gpu.py compares with, which needs others that its wheel does not bring."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"
NEEDED = [
    "implicit",
    "rmm-cu13",
    "nvidia-cublas",
    "nvidia-curand",
    "nvidia-cuda-runtime",
    "cuda-pathfinder",
]


def run(code: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: nothing of CUDA, and no implicit, is loaded there yet."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=BENCH, capture_output=True, text=True, check=False)


def test_the_extension_loads_with_every_function_that_it_calls() -> None:
    """Python binds all of them on import: one that is not found is an ImportError."""
    for package in NEEDED:
        try:
            version(package)
        except PackageNotFoundError:
            pytest.skip(f"{package}, of the extra bench-gpu, is not installed")
    done = run("import implicit_gpu; print(implicit_gpu.extension().LeastSquaresSolver.__name__)")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "LeastSquaresSolver"


def test_what_is_missing_is_said() -> None:
    code = "import sys; sys.modules['rmm'] = sys.modules['cuda.pathfinder'] = None; "
    done = run(code + "import implicit_gpu; print(implicit_gpu.why_unavailable())")
    assert "pathfinder" in done.stdout, done.stderr
    assert 'pip install -e ".[bench-gpu]"' in done.stdout
