"""The library that bench/gpu.py compares with, which needs others that its wheel does not bring."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from children import ROOT

import mfrank

BENCH = ROOT / "bench"
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
    code = "from gpu_peers import implicit_gpu as peer; print(peer.extension().LeastSquaresSolver"
    done = run(f"{code}.__name__)")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "LeastSquaresSolver"


def test_what_is_missing_is_said() -> None:
    code = "import sys; sys.modules['rmm'] = sys.modules['cuda.pathfinder'] = None; "
    done = run(code + "from gpu_peers import implicit_gpu; print(implicit_gpu.why_unavailable())")
    assert "pathfinder" in done.stdout, done.stderr
    assert 'pip install -e ".[bench-gpu]"' in done.stdout


def test_its_epochs_are_noted_as_it_tells_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many arguments as its text has, in a stand-in that needs no GPU."""
    implicit = pytest.importorskip("implicit", reason="implicit, which says how it calls back")
    text = (Path(implicit.__file__).parent / "gpu" / "als.py").read_text()
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    (told,) = (
        len(c.args) for c in calls if isinstance(c.func, ast.Name) and c.func.id == "callback"
    )

    class Model:
        def __init__(self, **options: Any) -> None:
            self.iterations = options["iterations"]

        def fit(self, user_items: Any, show_progress: bool, callback: Any) -> None:
            assert user_items.max() == 10
            for iteration in range(self.iterations):
                callback(*(iteration, 0.5, None)[:told])

    monkeypatch.syspath_prepend(BENCH)
    stand_in = SimpleNamespace(AlternatingLeastSquares=Model)
    monkeypatch.setitem(sys.modules, "implicit.gpu.als", stand_in)
    bench = importlib.import_module("gpu")
    monkeypatch.setattr(bench, "_mib_in_use", iter([100.0, 104.0, 107.0, 105.0]).__next__)
    seconds: list[float] = []
    data = mfrank.Interactions.from_arrays([0, 1], [1, 0])
    assert bench._fit_implicit(data, 8, 3, seconds.append) == 7.0
    assert seconds == [0.5] * 3
