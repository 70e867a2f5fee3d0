"""Factor stores as safetensors files and as implicit's ``.npz`` files.

Nothing is pickled or unpickled. Files are replaced atomically; a failed export leaves the old file.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.als import WRMF
from mfrank.arrays import check_instance, needs
from mfrank.data import Counts, Ids
from mfrank.errors import InputValueError, unreadable, within
from mfrank.files import (
    Contents,
    check_keys,
    check_storable,
    dump_json,
    parse_json,
    path_of,
    replacing,
)
from mfrank.models.parameters import describe
from mfrank.store import FORMAT, FactorStore, check_ranks_by_factors, refuse_reranked

# What formats of factors can hold: models that rank by them, biases as columns beside them.


def check_exportable(store: FactorStore) -> None:
    """Raise unless ``store`` is a store of a model that ranks by its factors alone."""
    check_instance("store", store, FactorStore, "a FactorStore, such as model.store")
    check_ranks_by_factors(
        store,
        "to_onnx writes models of weights between items, to_safetensors whole stores, and "
        "recommend_all the lists of any model",
    )


def with_bias_columns(store: FactorStore) -> tuple[NDArray[Any], NDArray[Any]]:
    """Factors of users and items, in numpy, whose dot products include the biases."""
    store = store.on_host()
    users, items = [store.user_factors], [store.item_factors]
    if store.item_biases is not None:
        users.append(np.ones((store.n_users, 1), store.dtype))
        items.append(store.item_biases[:, None])
    if store.user_biases is not None:
        users.append(store.user_biases[:, None])
        items.append(np.ones((store.n_items, 1), store.dtype))
    return np.hstack(users), np.hstack(items)


StrPath = str | os.PathLike[str]


def to_safetensors(store: FactorStore, path: StrPath) -> Path:
    """Write a whole store as one safetensors file.

    Each array, including ids, is a tensor of the same name; everything else is JSON in the header's
    metadata. :func:`from_safetensors` returns an equal store.

    Raises
    ------
    ImportError
        The package safetensors is not installed.
    ValueError
        Ids are neither integers nor strings.
    OSError
        Writing fails, such as on a full disk; an old file is unchanged.
    """
    check_instance("store", store, FactorStore, "a FactorStore, such as model.store")
    refuse_reranked(store)
    safetensors = _safetensors()
    contents = store.to_contents()
    header = {
        "format": FORMAT.name,
        "version": str(FORMAT.version),
        "metadata": dump_json(contents.metadata),
    }
    with replacing(path_of(path)) as draft:
        try:
            safetensors.numpy.save_file(dict(contents.arrays), draft, metadata=header)
        except safetensors.SafetensorError as error:
            raise OSError(f"{path} cannot be written: {error}") from error
    return path_of(path)


def from_safetensors(path: StrPath) -> FactorStore:
    """Read a file written by :func:`to_safetensors`.

    Raises
    ------
    ImportError
        The package safetensors is not installed.
    ValueError
        The file is not a store, has another format version, or is damaged.
    """
    safetensors, place = _safetensors(), path_of(path)
    if place.is_dir():
        raise InputValueError(
            f"{path} is a folder", "pass a file that mfrank.to_safetensors wrote", place=path
        )
    try:
        with safetensors.safe_open(place, framework="numpy") as file:
            header = file.metadata() or {}
            version = header.get("version", "")
            FORMAT.check(
                header.get("format"), int(version) if version.isdecimal() else version, path
            )
            check_keys(f"header of {path}", header, {"format", "version", "metadata"})
            metadata = parse_json(header["metadata"], path)
            arrays = {name: _tensor(file, name, path) for name in file.keys()}  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise unreadable(path, "is not a readable safetensors file", error) from None
    return FactorStore.from_contents(Contents(arrays, metadata), path)


def _tensor(file: Any, name: str, path: StrPath) -> NDArray[Any]:
    try:
        tensor: NDArray[Any] = file.get_tensor(name)
        check_storable(name, tensor)
    except (AttributeError, TypeError, ValueError) as error:  # also dtypes that numpy lacks
        raise unreadable(path, "is damaged", within(f"tensor {name}", error)) from None
    return tensor


_FACTORS = ("user_factors", "item_factors")
_SAVED_BY_IMPLICIT = "pass a file that a model of implicit saved"
_SHARED = {"dtype", "factors", "iterations", "num_threads", "random_state", "regularization"}
_OPTIONS = {  # keys that the ``save`` of implicit's models writes next to the factors
    "implicit.als": _SHARED
    | {"alpha", "calculate_training_loss"}
    | {"cg_steps", "use_cg", "use_native"},
    "implicit.bpr": _SHARED | {"learning_rate", "verify_negative_samples"},
    "implicit.lmf": _SHARED | {"learning_rate", "neg_prop"},
}
_MARKS = {"verify_negative_samples": "implicit.bpr", "neg_prop": "implicit.lmf"}


def to_implicit(store: FactorStore, path: StrPath) -> Path:
    """Write a file that implicit 0.7's ``AlternatingLeastSquares.load`` reads.

    A model read from implicit's BPR or LMF is written for that class. Rows are in the same order;
    the file has neither ids nor counts. Biases become two more columns of factors, as in implicit's
    own models, so ``recommend`` returns the same items and scores. implicit's ``recalculate_user``
    agrees with the fit only if the fit was implicit's or used ``WRMF(confidence="alpha*r", nu=0)``,
    whose alpha and ridge are written. For other objectives, which implicit lacks, it uses its own
    defaults.

    Parameters
    ----------
    store : FactorStore
    path : path
        ``.npz`` is appended if missing.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    ValueError
        The store has an item prior, which implicit's files cannot contain, or its model does not
        rank by its factors alone, such as :class:`mfrank.EASE`.
    """
    check_exportable(store)
    if store.item_prior is not None:
        raise InputValueError("implicit's files cannot contain the `item_prior` of this store")
    users, items = with_bias_columns(store)
    options = {"factors": users.shape[1], **_implicit_options(store), "dtype": store.dtype.name}
    target = path_of(path)
    if target.suffix != ".npz":
        target = target.with_name(target.name + ".npz")
    with replacing(target) as draft:
        np.savez(draft, user_factors=users, item_factors=items, **options)
    return target


def from_implicit(
    path: StrPath,
    *,
    user_ids: Ids | None = None,
    item_ids: Ids | None = None,
    counts: Counts | None = None,
) -> FactorStore:
    """Read a file written by ``save`` of implicit 0.7's ALS, BPR or LMF.

    An ALS model becomes a store of mfrank's ALS with the same objective, WRMF; saved and loaded as
    a model, it can fold in. The bias columns of BPR and LMF stay columns of the factors, so
    recommendations and neighbors agree with implicit's. A pickled ``random_state`` is skipped.

    Parameters
    ----------
    path : path
    user_ids, item_ids : Ids, default the row numbers
        Ids of the rows, which implicit does not save.
    counts : Counts, optional
        Counts of the training interactions, which implicit does not save. The default, zeros,
        suffices for fold-in under implicit's ALS objective.

    Raises
    ------
    ValueError
        The file has other keys or pickled objects, its factors are not matrices, or ``user_ids``,
        ``item_ids`` or ``counts`` do not match them.
    """
    model, users, items, options = _read_npz(path)
    n_users, n_items = len(users), len(items)
    if counts is None:
        counts = Counts(np.zeros(n_users, dtype=np.int64), np.zeros(n_items, dtype=np.int64))
    try:
        return FactorStore(
            users,
            items,
            Ids.numbered(n_users) if user_ids is None else user_ids,
            Ids.numbered(n_items) if item_ids is None else item_ids,
            counts=counts,
            fitter=_fitter(model, options, users.shape[1]),
        )
    except (TypeError, ValueError) as error:
        raise within(path, error) from error


def _read_npz(path: StrPath) -> tuple[str, NDArray[Any], NDArray[Any], dict[str, Any]]:
    """Model name, user factors, item factors and options of an implicit file."""
    path = path_of(path)
    if not zipfile.is_zipfile(path):
        path.stat()  # raises FileNotFoundError for a missing file
        raise InputValueError(f"{path} is not an .npz file", _SAVED_BY_IMPLICIT, place=path)
    arrays = _arrays(path)
    model = next((_MARKS[name] for name in _MARKS if name in arrays), "implicit.als")
    check_keys(path, arrays, set(_FACTORS), _OPTIONS[model])
    options = {name: _option(name, arrays[name], path) for name in arrays.keys() - set(_FACTORS)}
    users, items = (arrays[name] for name in _FACTORS)
    if np.ndim(users) != 2 or np.ndim(items) != 2:
        raise unreadable(path, "is damaged", "`user_factors` and `item_factors` must be matrices")
    return model, users, items, options


def _arrays(path: Path) -> dict[str, Any]:
    """The arrays of an archive by name; None for a pickled random_state."""
    with path.open("rb") as content:
        try:
            with np.load(content, allow_pickle=False) as file:
                return {name: _member(file, name) for name in file.files}
        except Exception as error:  # numpy and zipfile raise anything on damaged bytes
            reason = str(error) or type(error).__name__
            raise unreadable(path, "is damaged", reason) from error


def _member(file: Mapping[str, NDArray[Any]], name: str) -> Any:
    try:
        return file[name]
    except ValueError:
        if name == "random_state":
            return None
        raise


def _option(name: str, value: Any, path: StrPath) -> Any:
    if value is None:
        return None
    if not isinstance(value, np.ndarray) or value.shape != () or value.dtype.kind not in "biufU":
        raise InputValueError(
            f"{path}: {name} must be a number or a str, got {value!r}",
            _SAVED_BY_IMPLICIT,
            place=path,
        )
    return value.item()


def _fitter(model: str, options: dict[str, Any], factors: int) -> dict[str, Any]:
    """Describe an implicit model as ``FactorStore.fitter`` does."""
    if model != "implicit.als":
        return {"name": model, "options": options}
    weights = {key: options[key] for key in ("alpha", "regularization") if key in options}
    return {"name": "ALS", "options": {"objective": describe(WRMF(**weights)), "factors": factors}}


def _implicit_options(store: FactorStore) -> dict[str, Any]:
    """The options of the fit that implicit has as well."""
    name, options = store.fitter["name"], store.fitter["options"]
    if name in _OPTIONS:
        return {k: v for k, v in options.items() if k in _OPTIONS[name] and v is not None}
    objective = options.get("objective")
    weights = objective["options"] if objective and objective["name"] == "WRMF" else {}
    if weights.get("confidence") == "alpha*r" and weights["nu"] == 0:
        return {key: weights[key] for key in ("alpha", "regularization")}
    return {}


def _safetensors() -> Any:
    with needs("safetensors", "safetensors files need the package safetensors"):
        import safetensors
        import safetensors.numpy
    return safetensors
