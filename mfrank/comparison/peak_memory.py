"""Peak memory of a function, measured in a fresh process.

The result is the rise of the resident set above its size before the call, which excludes the
interpreter, the libraries and the function's input. Only Linux reports it (VmHWM and VmRSS of
``/proc/self/status``, after the high-water mark was reset).
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

__all__ = ["peak_memory"]

_STATUS = Path("/proc/self/status")
_CHILD = "from mfrank.comparison.peak_memory import _measure_stdin; _measure_stdin()"

_log = logging.getLogger("mfrank")


def peak_memory(
    work: Callable[[], object], warm_up: Callable[[], object] | None = None
) -> int | None:
    """Peak number of bytes that ``work`` adds to the memory of a fresh process.

    Parameters
    ----------
    work : function
        Called without arguments; it is pickled, and must be importable in the new process.
    warm_up : function, optional
        Called before, likewise: the libraries that it loads are not counted.

    Returns
    -------
    int or None
        None if the system does not report it, or if ``work`` fails, which is logged.
    """
    if not _STATUS.exists():
        return None
    try:
        # Not multiprocessing: its "spawn" would run the caller's script again.
        child = subprocess.run(
            [sys.executable, "-c", _CHILD],
            input=pickle.dumps((warm_up, work)),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            check=True,
        )
    except (subprocess.CalledProcessError, pickle.PicklingError, AttributeError) as error:
        output = getattr(error, "stderr", b"").decode(errors="replace").strip()
        _log.warning("peak memory not measured: %s", output.splitlines()[-1] if output else error)
        return None
    return int(child.stdout.split()[-1])


def _measure_stdin() -> None:
    warm_up, work = pickle.load(sys.stdin.buffer)
    if warm_up is not None:
        warm_up()
    gc.collect()
    with contextlib.suppress(OSError):  # some containers forbid it
        Path("/proc/self/clear_refs").write_text("5")
    before = _kibibytes("VmRSS")
    work()
    print(1024 * max(_kibibytes("VmHWM") - before, 0))


def _kibibytes(entry: str) -> int:
    lines = _STATUS.read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{entry}:")).split()[1])
