"""A fit in a process of its own whose private memory the kernel limits, and what it held.

The limit is RLIMIT_DATA: it counts memory that is private and writable. That is all that numpy and
the kernels allocate, but neither the pages of a mapped file nor the system's copy of the file,
which the system drops when others need the memory. RLIMIT_AS would count the whole file, RLIMIT_RSS
is not enforced, and a control group needs rights that a user may not have. If you have them, run
the whole bench in one, which bounds the system's copy of the file, too
(``systemd-run --scope -p MemoryMax=4G python bench/past_memory.py --ways mapped``).
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp

import mfrank
from mfrank.data import Interactions

__all__ = ["fitted"]

MIB = 1 << 20
_SECONDS = 0.02  # between two looks at what is held


def fitted(folder: Path, **job: Any) -> dict[str, Any]:
    """A fit's seconds, memory and bits; ``out_of_memory`` alone if the limit stopped it.

    Parameters
    ----------
    folder : Path
        Of the interactions.
    job : of
        ``mapped`` (or copied to memory), ``limit_mib`` (above what the process has before, or
        None), ``factors``, ``epochs``, ``threads``.
    """
    child = subprocess.run(
        [sys.executable, __file__, str(folder), json.dumps(job)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    told: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return told


class _Watch(threading.Thread):
    """The most of each kind of memory while a fit runs."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = {"RssAnon": 0, "RssFile": 0, "Cached": 0}
        self._over = threading.Event()

    def run(self) -> None:
        """Look until told that it is over."""
        while True:
            now = _kibibytes("/proc/self/status") | _kibibytes("/proc/meminfo")
            self.most = {name: max(most, now[name]) for name, most in self.most.items()}
            if self._over.wait(_SECONDS):
                return

    def end(self) -> None:
        """Stop looking."""
        self._over.set()
        self.join()


def _kibibytes(path: str) -> dict[str, int]:
    lines = (line.split() for line in Path(path).read_text().splitlines())
    return {line[0].rstrip(":"): int(line[1]) for line in lines if line[-1] == "kB"}


def _limit(mib: int) -> None:
    """Limit private memory to so much above what there is."""
    import resource

    held = 1024 * _kibibytes("/proc/self/status")["VmData"]
    resource.setrlimit(resource.RLIMIT_DATA, (held + mib * MIB,) * 2)


def _model(job: dict[str, Any], epochs: int) -> mfrank.ALS:
    return mfrank.ALS(
        mfrank.IALS(),
        factors=job["factors"],
        iterations=epochs,
        n_threads=job["threads"],
        random_state=0,
    )


def _in_memory(data: Interactions) -> Interactions:
    rows = data.user_items
    arrays = tuple(np.array(array) for array in (rows.data, rows.indices, rows.indptr))
    for array in arrays:
        array.flags.writeable = False  # so that Interactions share them
    return Interactions.from_sparse(sp.csr_array(arrays, rows.shape))


def _child(folder: str, job: dict[str, Any]) -> dict[str, Any]:
    _model(job, 1).fit(mfrank.synthetic(200, 100, 2000, random_state=0))  # libraries and threads
    before = _kibibytes("/proc/meminfo")["Cached"]
    watch = _Watch()
    watch.start()
    if job["limit_mib"] is not None:
        _limit(job["limit_mib"])
    try:
        data = Interactions.open(folder)
        model = _model(job, job["epochs"])
        store = model.fit(data if job["mapped"] else _in_memory(data)).store
    except MemoryError:
        return {"out_of_memory": True}
    finally:
        watch.end()
    digest = hashlib.sha256(np.ascontiguousarray(store.user_factors))
    digest.update(np.ascontiguousarray(store.item_factors))
    return {
        "seconds_per_epoch": median(float(epoch["seconds"] or 0) for epoch in store.history),
        "peak_anonymous_mib": watch.most["RssAnon"] / 1024,
        "peak_mapped_mib": watch.most["RssFile"] / 1024,
        "page_cache_grew_mib": max(watch.most["Cached"] - before, 0) / 1024,
        "sha256": digest.hexdigest(),
    }


if __name__ == "__main__":
    print(json.dumps(_child(sys.argv[1], json.loads(sys.argv[2]))))
