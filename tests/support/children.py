"""Python programs beside the tests, for what may end a process or leave it hanging."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
PATHS = [str(ROOT), *(str(path) for path in sorted(TESTS.iterdir()) if path.is_dir())]
"""Where a program finds the package, the tests and their helpers."""


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program beside the tests; a hang is an error."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(PATHS)} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def kill_when_there(code: str, path: Path) -> None:
    """Run a Python program beside the tests, and kill it once it has written a file."""
    program = f"import sys; sys.path[:0] = {PATHS!r}\n{code}"
    child = subprocess.Popen([sys.executable, "-c", program])
    try:
        until = time.monotonic() + 60
        while not path.exists():
            assert time.monotonic() < until
            assert child.poll() is None
            time.sleep(0.002)
    finally:
        child.kill()
        child.wait()
