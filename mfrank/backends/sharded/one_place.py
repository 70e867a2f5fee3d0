"""Whether tasks give what one process computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfrank.backends.registry import choose
from mfrank.cluster.connecting import check_cluster

__all__ = ["check_one_place"]


def check_one_place(cluster: Any, backend: str) -> None:
    """Raise unless ``cluster`` is None, or names a cluster and the backend is not on a GPU.

    Raises
    ------
    TypeError, ValueError, ModuleNotFoundError
        See :func:`mfrank.cluster.connecting.check_cluster`; or the backend is on a GPU.
    """
    check_cluster(cluster)
    if cluster is not None and not isinstance(choose(backend).place(np.empty((1, 1))), np.ndarray):
        raise ValueError(f"cluster and backend={backend!r} do not go together; leave one out")
