"""What the benches share: the data sets, implicit under mfrank's conditions, and their records."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from datetime import date
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy
import scipy.sparse as sp

import mfrank
from mfrank.data.datasets import from_npz, published_split
from mfrank.data.interactions import Interactions
from mfrank.data.splits import Split


def load(name: str) -> Split:
    """A data set by its published split."""
    return published_split(_folder(name))


def interactions(name: str) -> Interactions:
    """A data set to recommend from: its training part, or all of it where no split is published."""
    folder = _folder(name)
    with np.load(folder / "interactions.npz") as arrays:
        split = "split" in arrays
    return published_split(folder).train if split else from_npz(folder)


def _folder(name: str) -> Path:
    """A data set's folder, in MFRANK_DATA or ../shared/data."""
    default = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("MFRANK_DATA", default)) / name
    if not folder.is_dir():
        sys.exit(f"{folder} is not there: set MFRANK_DATA to the folder of the data sets")
    return folder


class ImplicitALS:
    """implicit's ALS with one BLAS thread, as its documentation asks for."""

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        regularization: float = 0.01,
        factors: int = 64,
        iterations: int = 15,
        n_threads: int = 0,
        random_state: int | None = None,
        use_cg: bool = True,
    ) -> None:
        from implicit.als import AlternatingLeastSquares
        from threadpoolctl import threadpool_limits

        self._limits = threadpool_limits
        with self._limits(1, "blas"):
            self.model = AlternatingLeastSquares(
                factors=factors,
                alpha=alpha,
                regularization=regularization,
                iterations=iterations,
                num_threads=n_threads,
                random_state=random_state,
                use_cg=use_cg,
                use_gpu=False,
            )
        self.epoch_seconds: list[float] = []

    def fit(self, user_items: sp.csr_array, callback: Any = None) -> Self:
        """Fit to a users x items matrix; the seconds of each epoch are kept."""

        def keep(epoch: int, seconds: float, loss: object) -> None:
            self.epoch_seconds.append(seconds)
            if callback is not None:
                callback(epoch, self.user_factors, self.item_factors)

        with self._limits(1, "blas"):
            self.model.fit(sp.csr_matrix(user_items), show_progress=False, callback=keep)
        return self

    @property
    def user_factors(self) -> np.ndarray[Any, Any]:
        """Fitted user factors."""
        return self.model.user_factors  # type: ignore[no-any-return]

    @property
    def item_factors(self) -> np.ndarray[Any, Any]:
        """Fitted item factors."""
        return self.model.item_factors  # type: ignore[no-any-return]


def describe_machine() -> dict[str, Any]:
    """Processor, cores and versions that a number was measured with."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), model)
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "mfrank": mfrank.__version__,
    }


def save(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """Write the rows as JSON, with the command, the date and the machine beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    script = Path(sys.argv[0])
    command = shlex.join(["python", f"{script.parent.name}/{script.name}", *sys.argv[1:]])
    record = {
        "command": command,
        "date": date.today().isoformat(),
        "machine": describe_machine(),
        "rows": rows,
    }
    (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
