"""Factor stores as safetensors files, and to and from the ``.npz`` files of implicit.

Nothing is pickled or unpickled, and files are replaced whole: a failed export leaves what was
there.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.data.drafts import replacing
from mfrank.data.ids import Ids
from mfrank.objectives import WRMF
from mfrank.options import describe
from mfrank.quadratic import Counts
from mfrank.store.factors import FORMAT, FactorStore
from mfrank.store.manifest import Contents, check_keys, check_storable, dump_json, parse_json

__all__ = ["from_implicit", "from_safetensors", "to_implicit", "to_safetensors"]

StrPath = str | os.PathLike[str]


def to_safetensors(store: FactorStore, path: StrPath) -> Path:
    """Write all of a store as one safetensors file.

    Each array is a tensor of its own name, ids included; the rest is JSON in the header's
    metadata. :func:`from_safetensors` gives back the same store.

    Raises
    ------
    ImportError
        Without the package safetensors.
    ValueError
        If ids are neither integers nor strings.
    """
    numpy_format = _safetensors().numpy
    contents = store.to_contents()
    header = {
        "format": FORMAT.name,
        "version": str(FORMAT.version),
        "metadata": dump_json(contents.metadata),
    }
    with replacing(Path(path)) as draft:
        numpy_format.save_file(dict(contents.arrays), draft, metadata=header)
    return Path(path)


def from_safetensors(path: StrPath) -> FactorStore:
    """Read what :func:`to_safetensors` wrote.

    Raises
    ------
    ImportError
        Without the package safetensors.
    ValueError
        If the file is no store, or of another format version, or damaged.
    """
    safetensors = _safetensors()
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            version = header.get("version", "")
            FORMAT.check(
                header.get("format"), int(version) if version.isdecimal() else version, path
            )
            check_keys(f"header of {path}", header, {"format", "version", "metadata"})
            metadata = parse_json(header["metadata"], path)
            arrays = {name: _tensor(file, name, path) for name in file.keys()}  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} is not a readable safetensors file: {error}") from None
    return FactorStore.from_contents(Contents(arrays, metadata), path)


def _tensor(file: Any, name: str, path: StrPath) -> NDArray[Any]:
    try:
        tensor: NDArray[Any] = file.get_tensor(name)
        check_storable(name, tensor)
    except (AttributeError, TypeError, ValueError) as error:  # of a dtype that numpy has not, too
        raise ValueError(f"{path} is damaged: tensor {name}: {error}") from None
    return tensor


_FACTORS = ("user_factors", "item_factors")
_SHARED = {"dtype", "factors", "iterations", "num_threads", "random_state", "regularization"}
_OPTIONS = {  # what the ``save`` of implicit's models writes beside the factors
    "implicit.als": _SHARED
    | {"alpha", "calculate_training_loss"}
    | {"cg_steps", "use_cg", "use_native"},
    "implicit.bpr": _SHARED | {"learning_rate", "verify_negative_samples"},
    "implicit.lmf": _SHARED | {"learning_rate", "neg_prop"},
}
_MARKS = {"verify_negative_samples": "implicit.bpr", "neg_prop": "implicit.lmf"}


def to_implicit(store: FactorStore, path: StrPath) -> Path:
    """Write a file that implicit 0.7's ``AlternatingLeastSquares.load`` reads.

    A model that came from implicit's BPR or LMF is written for the class it came from. Rows keep
    their order; ids have no place in the file, and neither have the counts. Biases become two
    more columns of factors, as in implicit's own models, so that ``recommend`` gives the same
    items and scores. Its ``recalculate_user`` agrees with the fit if that was implicit's or of
    ``WRMF(confidence="alpha*r", nu=0)``, whose alpha and ridge are written; other objectives
    have no counterpart in implicit, which then takes its own defaults.

    Parameters
    ----------
    store : FactorStore
    path : path
        ``.npz`` is added if it is missing.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    ValueError
        If the store has an item prior, which implicit lacks.
    """
    if store.item_prior is not None:
        raise ValueError("implicit's files have no place for the item_prior of this store")
    users, items = _with_bias_columns(store.on_host())
    options = {"factors": users.shape[1], **_implicit_options(store), "dtype": store.dtype.name}
    target = Path(path)
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
    """Read a file that ``save`` of implicit 0.7's ALS, BPR or LMF wrote.

    An ALS model becomes one of mfrank's ALS under the same objective, WRMF, and so can fold in
    once it is saved and loaded. The bias columns of BPR and LMF stay columns of the factors, so
    that recommendations and neighbours are those of implicit. A pickled ``random_state`` is not
    opened.

    Parameters
    ----------
    path : path
    user_ids, item_ids : Ids, default the row numbers
        What the rows stand for; implicit does not know.
    counts : Counts, optional
        Of the interactions it was fitted on, which implicit does not save; without them zeros,
        which is all that implicit's ALS objective needs to fold in.

    Raises
    ------
    ValueError
        If the file has other keys, or pickled objects, or does not hold the factors of a model, or
        what is given does not fit them.
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
        raise ValueError(f"{path}: {error}") from error


def _read_npz(path: StrPath) -> tuple[str, NDArray[Any], NDArray[Any], dict[str, Any]]:
    """Model, user factors, item factors and options of one of implicit's files."""
    if not zipfile.is_zipfile(path):
        Path(path).stat()  # a missing file is another error
        raise ValueError(f"{path} is not an .npz file")
    arrays = _arrays(path)
    model = next((_MARKS[name] for name in _MARKS if name in arrays), "implicit.als")
    check_keys(path, arrays, set(_FACTORS), _OPTIONS[model])
    options = {name: _option(name, arrays[name], path) for name in arrays.keys() - set(_FACTORS)}
    users, items = (arrays[name] for name in _FACTORS)
    if np.ndim(users) != 2 or np.ndim(items) != 2:
        raise ValueError(f"{path} holds no factors: they must be matrices")
    return model, users, items, options


def _arrays(path: StrPath) -> dict[str, Any]:
    """What an archive holds by name; None of a random_state that was pickled."""
    with Path(path).open("rb") as content:
        try:
            with np.load(content, allow_pickle=False) as file:
                return {name: _member(file, name) for name in file.files}
        except Exception as error:  # of damaged bytes, parsers of numpy and zipfile raise anything
            told = str(error) or type(error).__name__
            raise ValueError(f"{path} is damaged: {told}") from error


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
        raise ValueError(f"{path}: {name} must be a number or a text, got {value!r}")
    return value.item()


def _fitter(model: str, options: dict[str, Any], factors: int) -> dict[str, Any]:
    """What mfrank calls a model of implicit's."""
    if model != "implicit.als":
        return {"name": model, "options": options}
    weights = {key: options[key] for key in ("alpha", "regularization") if key in options}
    return {"name": "ALS", "options": {"objective": describe(WRMF(**weights)), "factors": factors}}


def _implicit_options(store: FactorStore) -> dict[str, Any]:
    """Options of the fit that implicit has too."""
    name, options = store.fitter["name"], store.fitter["options"]
    if name in _OPTIONS:
        return {k: v for k, v in options.items() if k in _OPTIONS[name] and v is not None}
    objective = options.get("objective")
    weights = objective["options"] if objective and objective["name"] == "WRMF" else {}
    if weights.get("confidence") == "alpha*r" and weights["nu"] == 0:
        return {key: weights[key] for key in ("alpha", "regularization")}
    return {}


def _with_bias_columns(store: FactorStore) -> tuple[NDArray[Any], NDArray[Any]]:
    """Factors whose products are the scores, biases included."""
    users, items = [store.user_factors], [store.item_factors]
    if store.item_biases is not None:
        users.append(np.ones((store.n_users, 1), store.dtype))
        items.append(store.item_biases[:, None])
    if store.user_biases is not None:
        users.append(store.user_biases[:, None])
        items.append(np.ones((store.n_items, 1), store.dtype))
    return np.hstack(users), np.hstack(items)


def _safetensors() -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "safetensors files need the package safetensors: pip install mfrank[safetensors]"
        ) from error
    return safetensors
