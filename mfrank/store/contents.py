"""A store as named arrays and JSON, for a file of any format; sparse rows among its extras."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import check_csr, check_indptr, in_place, on_host
from mfrank.data import Counts, stored_ids
from mfrank.errors import InputValueError, unreadable
from mfrank.files import Contents, check_keys
from mfrank.store import fields
from mfrank.store.fields import check_finite, is_mapped

if TYPE_CHECKING:
    from mfrank.store.factors import FactorStore

_REQUIRED = ("user_factors", "item_factors")
_OPTIONAL = ("user_biases", "item_biases", "item_prior")
_METADATA = ("fitter", "history", "versions")
_OF_DATA = {"threshold", "where", "event_weights", "weightings"}
_GROUPS = ("user_ids", "item_ids", "counts", "extras")

_T = TypeVar("_T")


def contents_of(store: FactorStore) -> Contents:
    """Return the whole store as named arrays and JSON metadata."""
    arrays = arrays_on_host(store)
    groups = {"extras": store.extras}
    if store.counts is not None:
        groups["counts"] = {"users": store.counts.users, "items": store.counts.items}
    for name, ids in (("user_ids", store.user_ids), ("item_ids", store.item_ids)):
        if ids.table is not None:  # row numbers need no array
            groups[name] = ids.to_arrays()
    for group, members in groups.items():
        arrays |= {f"{group}.{name}": array for name, array in members.items()}
    metadata: dict[str, Any] = {name: getattr(store, name) for name in _METADATA}
    metadata["history"] = list(store.history)
    if store.threshold is not None:  # earlier versions of mfrank know none of these
        metadata["threshold"] = store.threshold
    for name in ("where", "event_weights"):
        if known := getattr(store, name):
            metadata[name] = dict(known)
    if store.weightings:
        metadata["weightings"] = list(store.weightings)
    return Contents(arrays, metadata)


def check_metadata(metadata: Mapping[str, Any], where: object) -> None:
    """Raise ValueError unless this is the metadata of a store; ``where`` names the place."""
    check_keys(f"metadata of {where}", metadata, set(_METADATA), _OF_DATA)


def made_of(contents: Contents, make: Callable[..., _T], where: object) -> _T:
    """Call ``make`` with the fields of a store; ``where`` names the contents in errors."""
    check_metadata(contents.metadata, where)
    plain: dict[str, NDArray[Any]] = {}
    groups: dict[str, dict[str, NDArray[Any]]] = {group: {} for group in _GROUPS}
    for name, array in contents.arrays.items():
        group, _, member = name.partition(".")
        groups.get(group, plain)[member if group in groups else name] = array
    check_keys(where, plain, set(_REQUIRED), _OPTIONAL)
    try:
        fields: dict[str, Any] = {
            **plain,
            "user_ids": stored_ids(groups["user_ids"], len(plain["user_factors"])),
            "item_ids": stored_ids(groups["item_ids"], len(plain["item_factors"])),
            "counts": Counts(**groups["counts"]) if groups["counts"] else None,
            "extras": groups["extras"],
            **contents.metadata,
        }
        return make(**fields)
    except (AttributeError, TypeError, ValueError) as error:
        raise unreadable(where, "is damaged", error) from error


def check_values(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise as loading would: shared arrays may have changed, mapped ones were never checked."""
    for name in _REQUIRED + _OPTIONAL:
        if name in arrays:
            fields.check_finite(name, arrays[name])
    for name in ("counts.users", "counts.items"):
        if name in arrays:
            fields.check_not_negative(name, arrays[name])


def arrays_on_host(store: FactorStore) -> dict[str, NDArray[Any]]:
    """Return the factors, and the biases and prior that are not None, in numpy."""
    return {
        name: on_host(array)
        for name in _REQUIRED + _OPTIONAL
        if (array := getattr(store, name)) is not None
    }


# Sparse rows among the extras of a factor store: a walk's restarts, the neighbors of items.
#
# The scores of such a model come from these rows; its factors are only a placeholder.


def pack(name: str, rows: sp.csr_array) -> dict[str, NDArray[Any]]:
    """The arrays of a CSR by the names that :func:`unpack` reads."""
    kept = rows.data if rows.data.dtype == np.int64 else rows.data.astype(np.float64, copy=False)
    return {
        f"{name}_indptr": rows.indptr.astype(np.int64),
        f"{name}_indices": rows.indices.astype(np.int32),
        name: kept,
    }


def unpack(
    extras: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, int], dtype: Any = np.float64
) -> sp.csr_array:
    """The CSR of :func:`pack`, checked; memory-mapped columns are not read, see :func:`pick`.

    Raises
    ------
    KeyError, ValueError
        An array is missing or damaged.
    """
    data, indices, indptr = (extras[each] for each in (name, f"{name}_indices", f"{name}_indptr"))
    if data.dtype != dtype or indices.dtype != np.int32 or data.shape != indices.shape:
        raise InputValueError(f"`{name}` must be {np.dtype(dtype)}, each with an int32 column")
    if is_mapped(indices):
        check_indptr(indptr, indices.size, shape[0], name)
    else:
        check_csr(indptr, indices, *shape, name)
        check_finite(name, data)
    return in_place(data, indices, indptr, shape)


def pack_neighbors(weights: sp.csr_array, values: sp.csr_array) -> dict[str, NDArray[Any]]:
    """Weights between items, and the values of users that multiply them.

    The scores are ``values @ weights``. For several models, the weights are stacked vertically and
    the values horizontally.
    """
    return {**pack("neighbors", weights), **pack("values", values)}


def unpack_neighbors(
    extras: Mapping[str, NDArray[Any]], n_users: int, n_items: int
) -> tuple[sp.csr_array, sp.csr_array]:
    """The weights and values of :func:`pack_neighbors`, checked; errors of :func:`unpack`."""
    width = len(extras["neighbors_indptr"]) - 1
    if width % max(n_items, 1):
        raise InputValueError(f"`neighbors` must have rows for all of {n_items} items")
    weights = unpack(extras, "neighbors", (width, n_items))
    values = unpack(extras, "values", (n_users, width))
    check_csr(weights.indptr, weights.indices, *weights.shape, "neighbors")  # if mapped: is small
    return weights, values


def has_rows(extras: Mapping[str, NDArray[Any]]) -> bool:
    """Whether the extras contain rows of :func:`pack`."""
    return any(f"{name}_indptr" in extras and f"{name}_indices" in extras for name in extras)


def pick(rows: sp.csr_array, at: NDArray[np.int64], name: str) -> sp.csr_array:
    """Some of the rows, which may be mapped; checked here, because scipy does not check them."""
    picked: sp.csr_array = rows[at]
    check_csr(picked.indptr, picked.indices, *picked.shape, name)
    return picked
