"""The backend of a fit: in this process, or sharded on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from mfrank.backends.registry import choose
from mfrank.backends.sharded.backend import Sharded
from mfrank.backends.surface import Backend
from mfrank.cluster.connecting import Cluster, connected

__all__ = ["solving"]


@contextmanager
def solving(name: str, cluster: Cluster | None) -> Iterator[Backend]:
    """The backend with that name, whose half-steps run on a checked ``cluster`` if there is one.

    Raises
    ------
    ConnectionError, ValueError
        Nothing answers there, or the workers do not all have the arithmetic of this process.
    """
    if cluster is None:
        yield choose(name)
        return
    with connected(cluster) as engine:
        yield cast(Backend, Sharded(choose(name), name, engine))
