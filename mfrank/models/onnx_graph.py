"""A factor store as an ONNX graph of top-K lists, for servers without Python."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank._version import __version__
from mfrank.arrays import check_instance, needs
from mfrank.errors import InputValueError
from mfrank.files import path_of, replacing
from mfrank.models.exchange import check_exportable, with_bias_columns
from mfrank.store import (
    FactorStore,
    empty_rows,
    has_item_weights,
    ranks_by_factors,
    refuse_reranked,
    unpack_neighbors,
)

_OPSET, _IR_VERSION = 17, 8  # of 2022: runtimes since then read the file
_MOST_BYTES = 2**31 - 2**20  # protobuf ends at 2 GiB


def to_onnx(store: FactorStore, path: str | os.PathLike[str]) -> Path:
    """Write an ONNX graph that scores all items for users and selects the best.

    ========== ================ ==================================================================
    input      type, shape      what it is
    ========== ================ ==================================================================
    users      int64 (users,)   row numbers, as ``store.user_ids.rows(ids)``
    n          int64 (1,)       length of a list, at most the number of items
    filtered   bool (users,     items not to recommend, such as those seen; ``numpy.zeros((1,
               n_items)         n_items), bool)`` filters none, and a single row is for all users
    ========== ================ ==================================================================

    The outputs are ``ids`` (int64 or strings) and ``scores``, both of shape (users, n), best first,
    ties by lower row; and ``all_scores``, shape (users, n_items). Lists are as in the model's
    ``recommend``, and scores agree up to rounding. Padding has score -infinity: the end of a list
    with fewer than n candidates, or with too few items linked to the user's items, and the whole
    list of a user without usable data. Cold items are in no list.

    Before version 1.31, onnxruntime's TopK divides by the number of ``users``: without any, the
    whole process ends.

    Models of weights between items (:class:`mfrank.EASE`, :class:`mfrank.ItemFilter`,
    :class:`mfrank.ItemKNN`) and blends with them become a sparse product: the file has the users'
    items and each item's weights, in float64, but no items x items matrix.

    Parameters
    ----------
    store : FactorStore
    path : path
        The file, such as ``model.onnx``.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    ModuleNotFoundError
        The package onnx is not installed.
    ValueError
        There are no items; ids are neither all integers nor all strings; the model is a walk
        (:class:`mfrank.SupervisedPageRank`); or its arrays exceed 2 GiB, the limit of an ONNX file.
    OSError
        Writing fails; an old file is unchanged.
    """
    check_instance("store", store, FactorStore, "a FactorStore, such as model.store")
    refuse_reranked(store)
    onnx = _onnx()
    if not store.n_items:
        raise InputValueError("`store` has no items, so there is nothing to rank")
    store.item_ids.check_column("item_ids")
    scoring = _scoring(onnx, store)
    size = sum(array.nbytes for array in scoring.arrays.values())
    if size > _MOST_BYTES:
        raise InputValueError(
            f"the model takes {size / 2**30:.1f} GiB, and an ONNX file has at most 2",
            "use to_parquet or to_safetensors",
        )
    model = onnx.helper.make_model(
        _graph(
            onnx,
            scoring,
            store.item_ids.labels,
            _unlisted(onnx, store.on_host()),
        ),
        opset_imports=[onnx.helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="mfrank",
        producer_version=__version__,
    )
    with replacing(path_of(path)) as draft:
        draft.write_bytes(model.SerializeToString())
    return path_of(path)


class _Scoring(NamedTuple):
    """The nodes that make ``all_scores`` of ``users``, and the arrays that they read."""

    nodes: list[Any]
    arrays: dict[str, NDArray[Any]]
    dtype: np.dtype[Any]


def _scoring(onnx: Any, store: FactorStore) -> _Scoring:
    if not has_item_weights(store):
        check_exportable(store)
        return _by_factors(onnx, store, "all_scores")
    weights, values = unpack_neighbors(store.extras, store.n_users, store.n_items)
    if not ranks_by_factors(store):
        return _by_item_weights(onnx, weights, values, "all_scores")
    factors = _by_factors(onnx, store, "of_factors")
    items = _by_item_weights(onnx, weights, values, "of_items")
    node, double = onnx.helper.make_node, onnx.TensorProto.DOUBLE
    nodes = [
        node("Cast", ["of_factors"], ["of_factors_wide"], to=double),
        node("Add", ["of_factors_wide", "of_items"], ["sums"]),
        # ItemBlend rounds its sums, so that equal ones are tied.
        node("Cast", ["sums"], ["all_scores"], to=onnx.TensorProto.FLOAT),
    ]
    wide = {name: array.astype(np.float64) for name, array in factors.arrays.items()}
    return _Scoring(
        [*factors.nodes, *items.nodes, *nodes], wide | items.arrays, np.dtype(np.float32)
    )


def _unlisted(onnx: Any, store: FactorStore) -> tuple[list[Any], dict[str, NDArray[Any]]]:
    """What makes ``unlisted``: items that nobody met, and those to which nothing leads from users.

    Factors lead nowhere from users without any, or to items without any, unless item biases rank
    items for anybody; weights between items lead nowhere if their sum is exactly 0.
    """
    node = onnx.helper.make_node
    none = np.zeros(store.n_items, dtype=bool)
    arrays: dict[str, NDArray[Any]] = {
        "unmet": none if store.unmet_items is None else store.unmet_items
    }
    nodes, unlinked = [], []
    if has_item_weights(store):
        scores = "of_items" if ranks_by_factors(store) else "all_scores"
        arrays["no_weight"] = np.zeros(())
        nodes.append(node("Equal", [scores, "no_weight"], ["without_weights"]))
        unlinked.append("without_weights")
    if ranks_by_factors(store):
        nobody = np.logical_not(store.user_factors.any(axis=1))
        lone = empty_rows(store.item_factors, store.item_biases)
        if store.ranks_anybody:
            nobody[:], lone = False, None
        arrays |= {"nobody": nobody[:, None], "lone": none if lone is None else lone}
        nodes += [
            node("Gather", ["nobody", "users"], ["of_nobody"], axis=0),
            node("Or", ["of_nobody", "lone"], ["without_factors"]),
        ]
        unlinked.append("without_factors")
    nodes += [
        node("And", [unlinked[0], unlinked[-1]], ["unlinked"]),
        node("Or", ["unlinked", "unmet"], ["unlisted"]),
    ]
    return nodes, arrays


def _by_factors(onnx: Any, store: FactorStore, output: str) -> _Scoring:
    """Dot products of factors."""
    users, items = with_bias_columns(store)
    node = onnx.helper.make_node
    nodes = [
        node("Gather", ["user_factors", "users"], ["chosen"], axis=0),
        node("MatMul", ["chosen", "item_columns"], [output]),
    ]
    arrays = {"user_factors": users, "item_columns": np.ascontiguousarray(items.T)}
    return _Scoring(nodes, arrays, users.dtype)


def _by_item_weights(
    onnx: Any, weights: sp.csr_array, values: sp.csr_array, output: str
) -> _Scoring:
    """``values[users] @ weights``, in float64: the weights of each user's items are added up.

    ONNX has no sparse matrices. The items of the users are found by their number in the batch: the
    j-th entry belongs to the first user by whom more than j entries are counted. Rows of weights
    are padded with zeros to one length, which is at most a model's ``neighbors``.
    """
    columns, padded = _padded(weights)
    arrays = {
        "begins": values.indptr[:-1].astype(np.int64),
        "counts": np.diff(values.indptr).astype(np.int64),
        "user_items": values.indices.astype(np.int64),
        "user_values": values.data.astype(np.float64),
        "weight_columns": columns,
        "weights": padded,
        "n_items": np.array([weights.shape[1]], dtype=np.int64),
        "zero": np.array(0, dtype=np.int64),
        "one": np.array(1, dtype=np.int64),
        "last_axis": np.array([1], dtype=np.int64),
        "flat": np.array([-1], dtype=np.int64),
    }
    node, whole = onnx.helper.make_node, onnx.TensorProto.INT64
    nodes = [
        node("Gather", ["counts", "users"], ["own_counts"]),
        node("Gather", ["begins", "users"], ["own_begins"]),
        node("CumSum", ["own_counts", "zero"], ["ends"]),
        node("ReduceSum", ["own_counts"], ["n_entries"], keepdims=0),
        node("Range", ["zero", "n_entries", "one"], ["places"]),
        # user of each entry: how many users end at or before it
        node("Unsqueeze", ["places", "last_axis"], ["place_column"]),
        node("GreaterOrEqual", ["place_column", "ends"], ["is_after"]),
        node("Cast", ["is_after"], ["is_after_as_int"], to=whole),
        node("ReduceSum", ["is_after_as_int", "last_axis"], ["of_user"], keepdims=0),
        node("Sub", ["ends", "own_counts"], ["starts"]),
        node("Sub", ["own_begins", "starts"], ["shifts"]),
        node("Gather", ["shifts", "of_user"], ["entry_shifts"]),
        node("Add", ["places", "entry_shifts"], ["entries"]),
        node("Gather", ["user_items", "entries"], ["items"]),
        node("Gather", ["user_values", "entries"], ["entry_values"]),
        # the weights of these items, times the values
        node("Gather", ["weight_columns", "items"], ["near"], axis=0),
        node("Gather", ["weights", "items"], ["near_weights"], axis=0),
        node("Unsqueeze", ["entry_values", "last_axis"], ["value_column"]),
        node("Mul", ["near_weights", "value_column"], ["parts"]),
        node("Unsqueeze", ["of_user", "last_axis"], ["user_column"]),
        node("Shape", ["near"], ["near_shape"]),
        node("Expand", ["user_column", "near_shape"], ["near_users"]),
        node("Reshape", ["near_users", "flat"], ["flat_users"]),
        node("Reshape", ["near", "flat"], ["flat_near"]),
        node("Reshape", ["parts", "flat"], ["flat_parts"]),
        node("Unsqueeze", ["flat_users", "last_axis"], ["pair_users"]),
        node("Unsqueeze", ["flat_near", "last_axis"], ["pair_items"]),
        node("Concat", ["pair_users", "pair_items"], ["cells"], axis=1),
        node("Shape", ["users"], ["n_users"]),
        node("Concat", ["n_users", "n_items"], ["shape"], axis=0),
        node(
            "ConstantOfShape", ["shape"], ["zeros"], value=onnx.numpy_helper.from_array(np.zeros(1))
        ),
        node("ScatterND", ["zeros", "cells", "flat_parts"], [output], reduction="add"),
    ]
    return _Scoring(nodes, arrays, np.dtype(np.float64))


def _padded(rows: sp.csr_array) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Columns and values of the rows, side by side, padded with column 0 and value 0."""
    lengths = np.diff(rows.indptr)
    shape = rows.shape[0], max(1, int(lengths.max()))
    at = np.repeat(np.arange(shape[0]), lengths)
    place = np.arange(rows.nnz) - np.repeat(rows.indptr[:-1], lengths)
    columns, values = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    columns[at, place], values[at, place] = rows.indices, rows.data
    return columns, values


def _graph(
    onnx: Any,
    scoring: _Scoring,
    labels: NDArray[Any],
    unlisted: tuple[list[Any], dict[str, NDArray[Any]]],
) -> Any:
    make, whole, truth = onnx.helper, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
    real = make.np_dtype_to_tensor_dtype(scoring.dtype)
    kind = onnx.TensorProto.STRING if labels.dtype == object else whole
    node, tensor, n_items = make.make_node, onnx.numpy_helper.from_array, len(labels)
    arrays = {
        **scoring.arrays,
        **unlisted[1],
        "item_ids": labels,
        "lowest": np.array(-np.inf, scoring.dtype),
    }
    return make.make_graph(
        [
            *scoring.nodes,
            *unlisted[0],
            node("Or", ["filtered", "unlisted"], ["excluded"]),
            node("Where", ["excluded", "lowest", "all_scores"], ["allowed"]),
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
        [tensor(array, name) for name, array in arrays.items()],
    )


def _onnx() -> Any:
    with needs("onnx", "ONNX files need the package onnx"):
        import onnx
        import onnx.helper
        import onnx.numpy_helper
    return onnx
