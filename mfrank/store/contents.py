"""A store as named arrays and JSON, for a file of any format, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from numpy.typing import NDArray

from mfrank.arrays.placement import on_host
from mfrank.data.counts import Counts
from mfrank.data.stored_ids import stored_ids
from mfrank.files.manifest import Contents, check_keys
from mfrank.store import checks as check

if TYPE_CHECKING:
    from mfrank.store.factors import FactorStore

__all__ = ["arrays_on_host", "check_metadata", "check_values", "contents_of", "made_of"]

_REQUIRED = ("user_factors", "item_factors")
_OPTIONAL = ("user_biases", "item_biases", "item_prior")
_METADATA = ("fitter", "history", "versions")
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
    if store.threshold is not None:  # earlier versions of mfrank do not know it
        metadata["threshold"] = store.threshold
    return Contents(arrays, metadata)


def check_metadata(metadata: Mapping[str, Any], where: object) -> None:
    """Raise ValueError unless this is the metadata of a store, which ``where`` names."""
    check_keys(f"metadata of {where}", metadata, set(_METADATA), {"threshold"})


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
        raise ValueError(f"{where} is damaged: {error}") from error


def check_values(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse values that a load would: shared arrays may have changed, maps were not checked."""
    for name in _REQUIRED + _OPTIONAL:
        if name in arrays:
            check.check_finite(name, arrays[name])
    for name in ("counts.users", "counts.items"):
        if name in arrays:
            check.check_not_negative(name, arrays[name])


def arrays_on_host(store: FactorStore) -> dict[str, NDArray[Any]]:
    """Return the factors, and the biases and prior that are not None, in numpy."""
    return {
        name: on_host(array)
        for name in _REQUIRED + _OPTIONAL
        if (array := getattr(store, name)) is not None
    }
