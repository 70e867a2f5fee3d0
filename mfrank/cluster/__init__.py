"""Engines run the tasks of a fit. Each is one file with the interface ``task_engine.Engine``.

``processes`` starts workers on this machine; ``dask`` and ``ray`` use a Dask or Ray cluster. An
engine knows nothing about factors: a task is a function and its arguments.
"""

from mfrank.cluster.connecting import Cluster as Cluster
from mfrank.cluster.connecting import check_cluster as check_cluster
from mfrank.cluster.connecting import connected as connected
from mfrank.cluster.processes import Call as Call
from mfrank.cluster.processes import KeptResult as KeptResult
from mfrank.cluster.processes import Order as Order
from mfrank.cluster.processes import Processes as Processes
from mfrank.cluster.processes import Results as Results
from mfrank.cluster.processes import serve as serve
from mfrank.cluster.task_engine import Engine as Engine
from mfrank.cluster.task_engine import Task as Task
from mfrank.cluster.task_engine import array_of as array_of
from mfrank.cluster.task_engine import as_done as as_done
from mfrank.cluster.task_engine import held as held
from mfrank.cluster.task_engine import kind_of as kind_of
from mfrank.cluster.task_engine import parts_of as parts_of
from mfrank.cluster.task_engine import wrong as wrong
