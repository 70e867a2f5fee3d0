"""The argument ``cluster`` of a fit: its valid values, and the engine that each names."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from mfrank._system import INHERITS_PIPES
from mfrank.arrays import check_count, is_count, needs, shown
from mfrank.cluster.task_engine import Engine
from mfrank.errors import InputTypeError, InputValueError

if TYPE_CHECKING:
    import distributed

Cluster: TypeAlias = "int | str | distributed.Client | Engine"

_MOST_PROCESSES = 1024
_RAY = "ray"
_ADDRESS = re.compile(r"([a-z]+://)?[\w.\-\[\]:]+:\d+")
_SECONDS = 10


def check_cluster(cluster: Any) -> None:
    """Raise unless ``cluster`` is None or names an engine; starts and connects to nothing.

    Raises
    ------
    TypeError, ValueError
        It is neither None nor the name of an engine.
    ModuleNotFoundError
        It is an address and Dask is not installed, or "ray" and Ray is not.
    """
    if cluster is None:
        return
    if is_count(cluster):
        check_count("cluster", cluster, 1, _MOST_PROCESSES)
        if not INHERITS_PIPES:
            raise InputValueError(
                "`cluster`: worker processes need POSIX", "pass a dask.distributed.Client"
            )
    elif isinstance(cluster, str) and cluster == _RAY:
        _ray()
    elif isinstance(cluster, str):
        if not _ADDRESS.fullmatch(cluster):
            raise InputValueError(
                "`cluster` must be the address of a Dask scheduler, such as "
                f"'tcp://127.0.0.1:8786', or 'ray', got {shown(cluster)}"
            )
        _client_class()
    elif _is_client(cluster):
        if cluster.asynchronous:
            raise InputValueError(
                "`cluster` is an asynchronous Client", "make one with asynchronous=False"
            )
        if cluster.status != "running":
            raise InputValueError(
                f"`cluster` is a Client that is {cluster.status}", "connect a new one"
            )
    elif isinstance(cluster, type) or not isinstance(cluster, Engine):
        raise InputTypeError(
            "`cluster` must be a number of worker processes, a dask.distributed.Client, the "
            f"address of its scheduler, or 'ray'; got {shown(cluster)}"
        )


@contextmanager
def connected(cluster: Any) -> Iterator[Engine]:
    """Connect to the engine of a checked ``cluster``; on exit, end what was started here.

    Raises
    ------
    ConnectionError
        Nothing answers at the address, or there is no Ray cluster.
    """
    if is_count(cluster):
        from mfrank.cluster.processes import Processes

        with Processes(int(cluster)) as engine:
            yield engine
    elif isinstance(cluster, str) and cluster == _RAY:
        with _connected_to_ray():
            from mfrank.cluster.ray import Ray

            yield Ray()
    elif isinstance(cluster, str):
        from mfrank.cluster.dask import Dask

        with _client(cluster) as client:
            yield Dask(client)
    elif _is_client(cluster):
        from mfrank.cluster.dask import Dask

        yield Dask(cluster)
    else:
        yield cluster


def _client(address: str) -> Any:
    try:
        return _client_class()(address, timeout=_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"cluster: no Dask scheduler answers at {address!r} ({error}); start one with "
            "`dask scheduler`, and `dask worker ADDRESS` on each machine"
        ) from error


@contextmanager
def _connected_to_ray() -> Iterator[None]:
    """Connect to the Ray cluster of this machine, unless this process is connected to one."""
    ray = _ray()
    if ray.is_initialized():
        yield
        return
    try:
        ray.init(address="auto")
    except ConnectionError as error:
        raise ConnectionError(
            f"cluster: this machine is part of no Ray cluster ({error}); run `ray start` on "
            "each machine, or call ray.init() before"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _ray() -> Any:
    with needs("ray", "a cluster of Ray needs Ray, which is not installed"):
        import ray
    return ray


def _client_class() -> Any:
    with needs("dask", "cluster is the address of a Dask scheduler, which needs Dask"):
        from distributed import Client
    return Client


def _is_client(value: object) -> bool:
    """Whether it is a Dask client; Dask is not imported for it."""
    loaded = sys.modules.get("distributed")
    return loaded is not None and isinstance(value, loaded.Client)
