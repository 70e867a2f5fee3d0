"""A factor store as an ONNX graph that makes top-K lists, for servers without Python."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank._version import __version__
from mfrank.arrays.checks import check_instance
from mfrank.files.atomic import replacing
from mfrank.models.bias_columns import with_bias_columns
from mfrank.store.factors import FactorStore

__all__ = ["to_onnx"]

_OPSET, _IR_VERSION = 17, 8  # of 2022: runtimes since then read the file
_MOST_BYTES = 2**31 - 2**20  # protobuf ends at 2 GiB


def to_onnx(store: FactorStore, path: str | os.PathLike[str]) -> Path:
    """Write a graph that scores all items for users and picks the best.

    ========== ================ ==================================================================
    input      type, shape      what it is
    ========== ================ ==================================================================
    users      int64 (users,)   row numbers, as ``store.user_ids.rows(ids)``
    n          int64 (1,)       length of a list, at most the number of items
    filtered   bool (users,     items not to recommend, such as those seen; ``numpy.zeros((1,
               n_items)         n_items), bool)`` filters none, and a single row is for all users
    ========== ================ ==================================================================

    The outputs are ``ids`` (int64 or strings) and ``scores``, each of shape (users, n), best first
    and ties by lower row, and ``all_scores``, of shape (users, n_items). If fewer than n items are
    left by the filter, the rest of the list has score -infinity. Lists are those of
    :meth:`mfrank.Recommender.recommend`; scores are the same up to rounding.

    Parameters
    ----------
    store : FactorStore
    path : path
        Of the file, such as ``model.onnx``.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    ModuleNotFoundError
        The package onnx is not installed.
    ValueError
        There are no items; ids are neither integers nor strings; or the factors take more than the
        2 GiB that fit in an ONNX file.
    OSError
        Writing fails; an old file is still there.
    """
    check_instance("store", store, FactorStore, "a FactorStore, such as model.store")
    onnx = _onnx()
    if not store.n_items:
        raise ValueError("store has no items, so there is nothing to rank")
    users, items = with_bias_columns(store)
    if users.nbytes + items.nbytes > _MOST_BYTES:
        raise ValueError(
            f"the factors take {(users.nbytes + items.nbytes) / 2**30:.1f} GiB, and an ONNX file "
            "has at most 2; use to_parquet or to_safetensors"
        )
    model = onnx.helper.make_model(
        _graph(onnx, users, items, _labels(store)),
        opset_imports=[onnx.helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="mfrank",
        producer_version=__version__,
    )
    onnx.checker.check_model(model)
    with replacing(Path(path)) as draft:
        draft.write_bytes(model.SerializeToString())
    return Path(path)


def _graph(onnx: Any, users: NDArray[Any], items: NDArray[Any], labels: NDArray[Any]) -> Any:
    make, whole, truth = onnx.helper, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
    real = make.np_dtype_to_tensor_dtype(users.dtype)
    kind = onnx.TensorProto.STRING if labels.dtype == object else whole
    node, tensor, n_items = make.make_node, onnx.numpy_helper.from_array, len(items)
    return make.make_graph(
        [
            node("Gather", ["user_factors", "users"], ["chosen"], axis=0),
            node("MatMul", ["chosen", "item_columns"], ["all_scores"]),
            node("Where", ["filtered", "lowest", "all_scores"], ["allowed"]),
            node("TopK", ["allowed", "n"], ["scores", "rows"], axis=-1, largest=1, sorted=1),
            node("Gather", ["item_ids", "rows"], ["ids"], axis=0),
        ],
        "recommend",
        [
            make.make_tensor_value_info("users", whole, ["users"]),
            make.make_tensor_value_info("n", whole, [1]),
            make.make_tensor_value_info("filtered", truth, ["lists", n_items]),
        ],
        [
            make.make_tensor_value_info("ids", kind, ["users", "n"]),
            make.make_tensor_value_info("scores", real, ["users", "n"]),
            make.make_tensor_value_info("all_scores", real, ["users", n_items]),
        ],
        [
            tensor(users, "user_factors"),
            tensor(np.ascontiguousarray(items.T), "item_columns"),
            tensor(labels, "item_ids"),
            tensor(np.array(-np.inf, users.dtype), "lowest"),
        ],
    )


def _labels(store: FactorStore) -> NDArray[Any]:
    """The ids of items; raise ValueError if they are neither integers nor strings."""
    store.item_ids.to_arrays()
    return store.item_ids.labels


def _onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "ONNX files need the package onnx: pip install mfrank[onnx]"
        ) from error
    return onnx
