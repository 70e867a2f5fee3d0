"""Engines run the tasks of a fit. Each is one file with the interface ``surface.Engine``.

``processes`` starts workers on this machine; ``dask`` and ``ray`` use a Dask or Ray cluster. An
engine knows nothing about factors: a task is a function and its arguments.
"""

from mfrank.cluster.connecting import Cluster, check_cluster, connected
from mfrank.cluster.processes import Call, KeptResult, Order, Processes, Results, serve
from mfrank.cluster.task_engine import Engine, Task, array_of, as_done, kind_of, parts_of, wrong

__all__ = [
    "Call",
    "Cluster",
    "Engine",
    "KeptResult",
    "Order",
    "Processes",
    "Results",
    "Task",
    "array_of",
    "as_done",
    "check_cluster",
    "connected",
    "kind_of",
    "parts_of",
    "serve",
    "wrong",
]
