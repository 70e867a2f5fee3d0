"""Tasks on a Ray cluster.

Data are passed as arguments. Ray stores them on this node as long as their task may run again; a
result that is lost with its node is recomputed from its call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import ray
from ray.exceptions import OutOfMemoryError, RayTaskError, WorkerCrashedError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

_Told = TypeVar("_Told")


def _call(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


_called = ray.remote(_call)  # one for all functions: each would be sent to every worker anew


class Ray:
    """An engine on the Ray cluster of this process, which stays connected."""

    relays = True

    def submit(self, function: Callable[..., Any], *args: Any) -> ray.ObjectRef:
        """See :class:`mfrank.cluster.task_engine.Engine`."""
        return _called.remote(function, *args)

    def wait(self, tasks: Iterable[ray.ObjectRef]) -> set[ray.ObjectRef]:
        """See :class:`mfrank.cluster.task_engine.Engine`."""
        tasks = list(tasks)
        ray.wait(tasks)
        return set(ray.wait(tasks, num_returns=len(tasks), timeout=0)[0])

    def gather(self, tasks: Iterable[ray.ObjectRef]) -> list[Any]:
        """See :class:`mfrank.cluster.task_engine.Engine`."""
        try:
            return list(ray.get(list(tasks)))
        except (OutOfMemoryError, WorkerCrashedError) as error:
            raise RuntimeError(
                "one task ended several of Ray's workers; if they ran out of memory, use fewer "
                "workers or fewer factors"
            ) from error

    def workers(self, probe: Callable[[], _Told]) -> Sequence[tuple[str, _Told]]:
        """See :class:`mfrank.cluster.task_engine.Engine`; Ray runs a task on each CPU of a node."""
        nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        asked = [
            _called.options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            ).remote(probe)
            for node in nodes
        ]
        try:
            told = self.gather(asked)
        except RayTaskError as error:
            if "No module named 'mfrank" not in str(error):
                raise
            *_, last = str(error).splitlines()  # the others say where
            raise ModuleNotFoundError(
                f"cluster: its workers cannot import mfrank ({last}); install the version that is "
                "here there, too"
            ) from error
        return [
            (f"node {node['NodeManagerAddress']}", each)
            for node, each in zip(nodes, told, strict=True)
            for _ in range(max(1, int(node["Resources"]["CPU"])))
        ]
