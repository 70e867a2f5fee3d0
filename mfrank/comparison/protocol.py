"""The steps of a comparison: alternating fits, memory measurements, evaluation."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import pickle
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np

from mfrank.arrays import usable_cores
from mfrank.comparison.contenders import (
    TimedFit,
    fit_once,
    objective_minimized,
    objective_name,
    objective_value,
)
from mfrank.comparison.scoreboard import Row
from mfrank.data import Interactions
from mfrank.errors import InputValueError
from mfrank.evaluation import Evaluation, Metric, evaluate, items_return
from mfrank.retrieval import Recommender

# Peak memory of a function, measured in a fresh process.
#
# The result is the rise of the resident set above its size before the call, which excludes the
# interpreter, the libraries and the function's input. Only Linux reports it (VmHWM and VmRSS of
# ``/proc/self/status``, after the high-water mark was reset).


_STATUS = Path("/proc/self/status")
_CHILD = "from mfrank.comparison.protocol import _measure_stdin; _measure_stdin()"

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
        Called first, in the same way; the libraries that it loads are not counted.

    Returns
    -------
    int or None
        None if the system does not report memory, or if ``work`` fails, which is logged.
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


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """The setting shared by all contenders: data, metrics, and threads of the evaluation."""

    train: Interactions
    test: Interactions
    metrics: tuple[Metric | str, ...]
    n_threads: int
    left_out: Interactions | None = None
    """What rankings exclude; None for the training part."""

    def check(self) -> None:
        """Raise the errors of the evaluation, by evaluating no users."""
        nothing = SimpleNamespace(
            user_factors=np.zeros((self.test.n_users, 1)),
            item_factors=np.zeros((self.test.n_items, 1)),
        )
        self.evaluate(nothing, users=np.empty(0, dtype=np.int64))
        if not self.test.nnz:
            raise InputValueError("`test` has no entries, so no ranking can be evaluated")

    def evaluate(self, model: Any, **options: Any) -> Evaluation:
        """Evaluate a model; ``options`` are passed to :func:`mfrank.evaluate`."""
        excluded = self.train if self.left_out is None else self.left_out
        with nullcontext() if self.left_out is None else items_return():
            return evaluate(
                model,
                self.test,
                train=excluded,
                metrics=self.metrics,
                n_threads=self.n_threads,
                **options,
            )

    def alternate(
        self, contenders: Mapping[str, Any], repeats: int, *, show_progress: bool
    ) -> dict[str, list[TimedFit]]:
        """Fit each model ``repeats`` times; only the first :class:`TimedFit` keeps its model."""
        runs: dict[str, list[TimedFit]] = {name: [] for name in contenders}
        turns = [
            name
            for repeat in range(repeats)
            for name in (list(contenders) if repeat % 2 == 0 else reversed(list(contenders)))
        ]
        with closing(_announced(turns) if show_progress else (name for name in turns)) as running:
            for name in running:
                fit = fit_once(contenders[name], self.train)
                runs[name].append(replace(fit, model=None) if runs[name] else fit)
        return runs

    def peak(self, model: Any) -> int | None:
        """Peak memory of one more fit, in bytes, measured in a separate process."""
        return peak_memory(partial(fit_once, model, self.train))

    def row(self, name: str, fits: Sequence[TimedFit], peak: int | None) -> Row:
        """The result row of a model, without ratios."""
        model = fits[0].model
        objective, value = objective_minimized(model), None
        if objective is not None:
            value = objective_value(objective, model, self.train, self.n_threads)
        return Row(
            model=name,
            library=_library(model),
            epoch_seconds=statistics.median(fit.epoch_seconds for fit in fits),
            total_seconds=statistics.median(fit.total_seconds for fit in fits),
            peak_memory=peak,
            objective=value,
            objective_name=objective_name(objective) if objective else "",
            evaluation=self.evaluate(model),
            ratios={},
        )

    def settings(self) -> dict[str, Any]:
        """Sizes of the data, threads and machine."""
        return {
            "users": self.train.n_users,
            "items": self.train.n_items,
            "train_entries": self.train.nnz,
            "test_entries": self.test.nnz,
            "threads": self.n_threads or usable_cores(),
            "machine": platform.machine(),
            "python": platform.python_version(),
        }


def _announced(turns: Sequence[str]) -> Generator[str]:
    """Yield the turns, printing the current run and the time left on stderr."""
    began = perf_counter()
    try:
        for done, name in enumerate(turns):
            spent = perf_counter() - began
            left = f", {spent / done * (len(turns) - done):.0f} s left" if done else ""
            sys.stderr.write(f"\r\033[Kcompare: run {done + 1}/{len(turns)}, {name}{left}")
            sys.stderr.flush()
            yield name
    finally:
        sys.stderr.write("\r\033[K")


def _library(model: Any) -> str:
    if isinstance(model, Recommender):
        return f"mfrank {model.store.versions['mfrank']}"
    package = getattr(model, "package", type(model).__module__.partition(".")[0])
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:  # a model defined in a script
        return package
