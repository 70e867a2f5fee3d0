"""Load on a local service over HTTP connections that stay open, and the memory that it holds."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Ask", "load", "memory", "processor_seconds", "wait_for"]

Ask = Callable[[np.random.Generator], bytes]
"""The bytes of a request."""


async def _ask_on(
    port: int, ask: Ask, seed: int, until: float, taken: list[float], statuses: Collection[int]
) -> None:
    """Ask on a connection until the time is over; add the seconds that each answer took."""
    rng = np.random.default_rng(seed)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    while time.perf_counter() < until:
        request, began = ask(rng), time.perf_counter()
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if int(head.split()[1]) not in statuses:
            raise RuntimeError(f"{request!r} was answered by {head.decode()}")
        length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length))
        taken.append(time.perf_counter() - began)
    writer.close()


async def load(
    port: int,
    ask: Ask,
    connections: int,
    seconds: float,
    seed: int = 0,
    statuses: Collection[int] = (200,),
) -> tuple[float, list[float]]:
    """Requests a second, and the seconds of each, of so many connections at once.

    Raises
    ------
    RuntimeError
        An answer has none of the statuses.
    """
    taken: list[float] = []
    began = time.perf_counter()
    until = began + seconds
    tasks = (
        _ask_on(port, ask, connections * seed + place, until, taken, statuses)
        for place in range(connections)
    )
    await asyncio.gather(*tasks)
    return len(taken) / (time.perf_counter() - began), taken


def wait_for(
    process: subprocess.Popen[Any], port: int, ask: Ask, statuses: Collection[int] = (200,)
) -> None:
    """Until a service answers, or ends."""
    while process.poll() is None:
        try:
            asyncio.run(load(port, ask, 1, 0.5, statuses=statuses))
            return
        except OSError:
            time.sleep(0.2)


def memory(process: subprocess.Popen[Any]) -> float:
    """MiB that a process holds."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def processor_seconds(process: subprocess.Popen[Any]) -> float:
    """What a process has taken of all processors so far, its threads included."""
    # The name, in parentheses, may have spaces; user and system time are numbers 14 and 15.
    after_name = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")
