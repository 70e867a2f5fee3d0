"""Tasks on a Dask cluster.

Data are passed as arguments, through the scheduler, and are not scattered. Scattered data are lost
with their worker; an argument belongs to its task and is sent again with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any, TypeVar

import dask
import distributed

_Told = TypeVar("_Told")


class Dask:
    """An engine on the workers of a Dask client; the client stays open."""

    relays = True

    def __init__(self, client: distributed.Client) -> None:
        self._client = client

    def submit(self, function: Callable[..., Any], *args: Any) -> distributed.Future:
        """See :class:`mfrank.cluster.task_engine.Engine`."""
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
            return self._client.submit(function, *args, pure=False)

    def wait(self, tasks: Iterable[distributed.Future]) -> set[distributed.Future]:
        """See :class:`mfrank.cluster.task_engine.Engine`."""
        with _told_of_loss(), self._client.as_current():  # there may be others
            return set(distributed.wait(list(tasks), return_when="FIRST_COMPLETED").done)

    def gather(self, tasks: Iterable[distributed.Future]) -> list[Any]:
        """See :class:`mfrank.cluster.task_engine.Engine`."""
        with _told_of_loss():
            return list(self._client.gather(list(tasks)))

    def workers(self, probe: Callable[[], _Told]) -> Sequence[tuple[str, _Told]]:
        """See :class:`mfrank.cluster.task_engine.Engine`."""
        try:
            told = self._client.run(probe)
        except Exception as error:  # of whatever type Dask makes of it
            if "No module named 'mfrank" not in str(error):
                raise
            raise ModuleNotFoundError(
                f"cluster: its workers cannot import mfrank ({error}); install the version that is "
                "here there, too"
            ) from error
        # Asked for last: workers come and go, and one that came before its answer is known by now.
        threads = self._client.nthreads()
        return [(name, told[name]) for name in told for _ in range(threads.get(name, 0))]


@contextmanager
def _told_of_loss() -> Iterator[None]:
    """Dask cancels all tasks when their scheduler is gone."""
    try:
        yield
    except CancelledError as error:
        raise ConnectionError(
            "cluster: the Dask scheduler was lost, or it lost the tasks; start one and make the "
            "same call again, which goes on where there is a checkpoint"
        ) from error
