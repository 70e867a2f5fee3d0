"""Fits on the workers of an engine: seconds, bytes sent and received, memory, hash of factors."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import mfrank
from mfrank.cluster import Processes
from mfrank.data import Interactions

__all__ = ["fitted", "on_dask", "on_processes", "peak"]

_EPOCHS = 4


class Bytes:
    """Bytes that were sent and received, so far."""

    def __init__(self) -> None:
        self.out = self.back = 0


def fitted(data: Interactions, factors: int, threads: int, cluster: Any = None) -> dict[str, Any]:
    """Seconds of an epoch, the first one's, the bytes of the last and SHA-256 of the factors."""
    counted = cluster if isinstance(cluster, _Counted) else None
    model = mfrank.ALS(mfrank.IALS(), factors, _EPOCHS, random_state=0, n_threads=threads)
    noted: list[tuple[int, int]] = []

    def note(*_: object) -> None:
        if counted:
            noted.append((counted.bytes.out, counted.bytes.back))

    store = model.fit(data, cluster=counted.cluster if counted else None, callback=note).store
    seconds = [float(epoch["seconds"] or 0) for epoch in store.history]
    digest = hashlib.sha256(store.user_factors.tobytes() + store.item_factors.tobytes())
    row = {"seconds_per_epoch": median(seconds[1:]), "first_epoch": seconds[0]}
    if counted:
        (out, back), (now_out, now_back) = noted[-2:]
        row |= {"mib_out": (now_out - out) / 2**20, "mib_back": (now_back - back) / 2**20}
        row["mib_a_worker"] = max(map(peak, counted.pids())) / 2**20
    return row | {"sha256": digest.hexdigest()}


class _Counted:
    """A cluster whose traffic is counted."""

    def __init__(self, cluster: Any, pids: Any) -> None:
        self.cluster, self.pids = cluster, pids
        self.bytes = Bytes()


@contextmanager
def on_processes(n: int) -> Iterator[_Counted]:
    """Worker processes, whose pipes are counted."""
    with Processes(n) as engine:
        counted = _Counted(engine, lambda: [worker.process.pid for worker in engine._workers])
        send, receive = Connection.send_bytes, Connection.recv_bytes

        def sending(self: Connection, message: bytes, *args: Any) -> None:
            counted.bytes.out += len(message)
            send(self, message, *args)

        def receiving(self: Connection, *args: Any) -> bytes:
            message = receive(self, *args)
            counted.bytes.back += len(message)
            return message

        Connection.send_bytes = sending  # type: ignore[method-assign]
        Connection.recv_bytes = receiving  # type: ignore[method-assign]
        try:
            yield counted
        finally:
            Connection.send_bytes = send  # type: ignore[method-assign]
            Connection.recv_bytes = receive  # type: ignore[method-assign]


@contextmanager
def on_dask(n: int) -> Iterator[_Counted]:
    """Workers of a LocalCluster, a thread each; bytes are all that go over the loopback device.

    Arguments and results travel through the scheduler and count twice; others' traffic counts, too.
    """
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=n,
            threads_per_worker=1,
            dashboard_address=None,
            worker_dashboard_address=None,
            memory_limit=0,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        counted = _Counted(client, lambda: list(client.run(os.getpid).values()))
        counted.bytes = _Loopback()
        yield counted


class _Loopback(Bytes):
    def __init__(self) -> None:
        pass

    @property
    def out(self) -> int:  # type: ignore[override]
        """Bytes that the loopback device has received."""
        for line in Path("/proc/net/dev").read_text().splitlines():
            name, _, numbers = line.partition(":")
            if name.strip() == "lo":
                return int(numbers.split()[0])
        raise OSError("there is no loopback device")

    @property
    def back(self) -> int:  # type: ignore[override]
        """In ``out``."""
        return 0


def peak(pid: int) -> float:
    """The most bytes that a process held so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
