"""A factor store as two Parquet files, for databases, Spark and dataframes.

``users.parquet`` and ``items.parquet`` have a row per user or item, in row order: ``id``,
``factors`` (a list of fixed length) and, if the store has them, ``bias``, ``count`` and ``prior``.
Everything else (fitter, history, versions) is JSON in the files' metadata.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import needs
from mfrank.data import Counts, Ids
from mfrank.errors import InputValueError, unreadable
from mfrank.files import check_keys, dump_json, parse_json, path_of, replacing
from mfrank.models.exchange import check_exportable
from mfrank.store import FORMAT, FactorStore, check_metadata

StrPath = str | os.PathLike[str]
_SIDES = ("user", "item")
_HEADER = b"mfrank"
_AGAIN = "export the store again"


def to_parquet(store: FactorStore, folder: StrPath) -> Path:
    """Write the factors and ids of a store as ``users.parquet`` and ``items.parquet``.

    :func:`from_parquet` reads an equal store, without ``extras``, which are not written.

    Parameters
    ----------
    store : FactorStore
    folder : path
        Created if missing. Files with these two names are replaced, each atomically.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    ModuleNotFoundError
        pyarrow is not installed.
    ValueError
        Ids are neither all integers nor all strings, or the model of the store does not rank by its
        factors alone, such as :class:`mfrank.EASE`.
    OSError
        Writing fails; an old file is unchanged.
    """
    check_exportable(store)
    pyarrow, store, target = _pyarrow(), store.on_host(), path_of(folder, "folder")
    columns = {side: _columns(pyarrow, store, side) for side in _SIDES}
    header = {
        "format": FORMAT.name,
        "version": FORMAT.version,
        "pair": _digest(store),
        "metadata": store.to_contents().metadata,
    }
    target.mkdir(parents=True, exist_ok=True)
    for side in _SIDES:
        numbered = getattr(store, f"{side}_ids").table is None
        own = dump_json({**header, "side": side, "numbered": numbered})
        table = pyarrow.table(columns[side]).replace_schema_metadata({_HEADER: own.encode()})
        with replacing(target / f"{side}s.parquet") as draft:
            pyarrow.parquet.write_table(table, draft)
    return target


def from_parquet(folder: StrPath) -> FactorStore:
    """Read what :func:`to_parquet` wrote.

    Raises
    ------
    ModuleNotFoundError
        pyarrow is not installed.
    FileNotFoundError
        One of the files is missing.
    ValueError
        A file was not written by :func:`to_parquet` or is damaged, or the two files are from
        different stores.
    """
    pyarrow, source = _pyarrow(), path_of(folder, "folder")
    headers, fields = dict[str, Mapping[str, Any]](), dict[str, Any]()
    counts = dict[str, NDArray[Any]]()
    for side in _SIDES:
        path = source / f"{side}s.parquet"
        if not path.exists():
            raise FileNotFoundError(
                f"there is no {path.name} in {source}; pass the folder of mfrank.to_parquet"
            )
        try:
            table = pyarrow.parquet.read_table(path)
        except pyarrow.ArrowInvalid as error:
            raise unreadable(path, "is not a readable Parquet file", error, _AGAIN) from None
        headers[side] = header = _header(table, path, side)
        try:
            found = {name: table[name].combine_chunks() for name in table.column_names}
            factors = found["factors"]
            width = factors.type.list_size
            values = factors.flatten().to_numpy(zero_copy_only=False)
            fields[f"{side}_factors"] = values.reshape(len(factors), width)
            ids = found["id"].to_numpy(zero_copy_only=False)
            fields[f"{side}_ids"] = Ids.numbered(len(ids)) if header["numbered"] else Ids.of(ids)
            for name, field in (("bias", f"{side}_biases"), ("prior", f"{side}_prior")):
                if name in found:
                    fields[field] = found[name].to_numpy(zero_copy_only=False)
            if "count" in found:
                counts[side] = found["count"].to_numpy(zero_copy_only=False)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise unreadable(path, "is damaged", error, _AGAIN) from error
    if headers["user"]["pair"] != headers["item"]["pair"]:
        raise InputValueError(
            f"users.parquet and items.parquet of {source} are of different stores",
            _AGAIN,
            place=source,
        )
    metadata = headers["user"]["metadata"]
    try:
        check_metadata(metadata, source)
        both = Counts(counts["user"], counts["item"]) if len(counts) == len(_SIDES) else None
        return FactorStore(**fields, **metadata, counts=both)
    except (AttributeError, TypeError, ValueError) as error:
        raise unreadable(source, "is damaged", error, _AGAIN) from error


def _columns(pyarrow: Any, store: FactorStore, side: str) -> dict[str, Any]:
    """The columns of a side's file."""
    ids: Ids = getattr(store, f"{side}_ids")
    ids.check_column(f"{side}_ids")
    factors = getattr(store, f"{side}_factors")
    labels = ids.labels
    kind = pyarrow.int64() if labels.dtype == np.int64 else pyarrow.string()
    columns = {
        "id": pyarrow.array(labels, kind),
        "factors": pyarrow.FixedSizeListArray.from_arrays(
            pyarrow.array(factors.ravel()), factors.shape[1]
        ),
    }
    counts = store.counts
    of_rows = {
        "bias": getattr(store, f"{side}_biases"),
        "count": None if counts is None else getattr(counts, f"{side}s"),
        "prior": store.item_prior if side == "item" else None,
    }
    return columns | {
        name: pyarrow.array(array) for name, array in of_rows.items() if array is not None
    }


def _digest(store: FactorStore) -> str:
    """What the files of one store have in common."""
    digest = hashlib.sha256()
    for factors in (store.user_factors, store.item_factors):
        digest.update(str(factors.shape).encode())
        digest.update(np.ascontiguousarray(factors).data)
    return digest.hexdigest()


def _header(table: Any, path: Path, side: str) -> Mapping[str, Any]:
    """What :func:`to_parquet` wrote beside the table, checked."""
    text = (table.schema.metadata or {}).get(_HEADER)
    if text is None:
        raise InputValueError(f"{path} was not written by mfrank.to_parquet", place=path)
    header: Mapping[str, Any] = parse_json(text, path)
    check_keys(path, header, {"format", "version", "pair", "metadata", "side", "numbered"})
    FORMAT.check(header["format"], header["version"], path)
    if header["side"] != side:
        raise InputValueError(
            f"{path} has {header['side']}s, not {side}s: was it renamed?", _AGAIN, place=path
        )
    return header


def _pyarrow() -> Any:
    with needs("parquet", "Parquet files need the package pyarrow"):
        import pyarrow
        import pyarrow.parquet
    return pyarrow
