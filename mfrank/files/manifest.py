"""The manifest of a stored folder: its format, arrays and metadata.

A manifest may come from an untrusted source, so all of it is checked before use. It contains no
file names: the path of a file follows from the name of its array, and these names are restricted.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.errors import RESTORE, InputTypeError, InputValueError, unreadable

MANIFEST = "manifest.json"
"""Name of the manifest file."""

GENERATION = re.compile(r"data-[0-9a-f]{16}")
"""Pattern of the names of subfolders with arrays."""

_READ_BY = {
    "mfrank.factors": "mfrank.load",
    "mfrank.linear_ranker": "mfrank.LinearRanker.load",
    "mfrank interactions": "mfrank.Interactions.open",
    "mfrank lists": "pandas.read_parquet",
}
"""The reader of each format, named in the error when another reader meets it."""

_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")
_DTYPE = re.compile(r"[<>|][biuf][1248]")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MOST_DIMENSIONS, _MOST_NUMBERS = 64, 2**60  # about numpy's limits


@dataclass(frozen=True, slots=True)
class Format:
    """Name and version of the format of a folder or file, and other versions that are read.

    ``otherwise`` is the remedy where something else is given.
    """

    name: str
    version: int
    reads: tuple[int, ...] = ()
    otherwise: str = ""

    def check(self, name: object, version: object, where: object) -> None:
        """Raise unless a folder or file has this name and version."""
        if name != self.name:
            reader = _READ_BY.get(name) if isinstance(name, str) else None
            raise InputValueError(
                f"{where} does not hold {self.name!r} but {name!r}",
                f"{reader} reads it" if reader else "",
                place=where,
            )
        if type(version) is not int or version < 1:
            raise unreadable(where, "is damaged", f"it has no format version, got {version!r}")
        if version not in (self.version, *self.reads):
            remedy = "upgrade mfrank" if version > self.version else "save it again"
            raise InputValueError(
                f"{where} is {self.name!r} of format version {version}; this mfrank reads version "
                f"{self.version}:",
                remedy,
                place=where,
            )


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """Named arrays and JSON metadata, the contents of a folder or of a file of any format.

    Attributes
    ----------
    arrays : mapping of str to array
    metadata : mapping
    origin : dict
        The generation of a folder that they were read from (:mod:`mfrank.files.folder`).
    """

    arrays: Mapping[str, NDArray[Any]]
    metadata: Mapping[str, Any]
    origin: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, array in self.arrays.items():
            check_storable(name, array)


@dataclass(frozen=True, slots=True)
class ArrayEntry:
    """Shape, dtype (``numpy.dtype.str``) and SHA-256 of the whole ``.npy`` file of an array."""

    shape: tuple[int, ...]
    dtype: str
    sha256: str

    @classmethod
    def parse(cls, name: str, value: Any, where: object) -> ArrayEntry:
        """Check an entry of a manifest and build it."""
        if not is_name(name):
            raise unreadable(where, "is damaged", f"{name!r} is not a valid array name")
        check_keys(f"{where}: array {name}", _mapping(value, where), {"shape", "dtype", "sha256"})
        shape, dtype, sha256 = value["shape"], value["dtype"], value["sha256"]
        if not _is_shape(shape):
            raise unreadable(where, "is damaged", f"array {name} has no valid shape, got {shape!r}")
        if not isinstance(dtype, str) or not _is_number(dtype):
            raise unreadable(
                where,
                "is damaged",
                f"array {name} has no numeric dtype in this machine's byte order, got {dtype!r}",
            )
        if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
            raise unreadable(
                where, "is damaged", f"array {name} has no valid SHA-256, got {sha256!r}"
            )
        return cls(tuple(shape), dtype, sha256)


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """One generation of a folder.

    Attributes
    ----------
    data : str
        Name of the subfolder with the arrays.
    arrays : mapping of str to ArrayEntry
    metadata : mapping
    """

    data: str
    arrays: Mapping[str, ArrayEntry]
    metadata: Mapping[str, Any]

    def dump(self, format: Format) -> str:
        """Convert to JSON."""
        fields = {"format": format.name, "version": format.version, **asdict(self)}
        return dump_json(fields)

    @classmethod
    def parse(cls, text: str | bytes, format: Format, where: object) -> Manifest:
        """Parse the result of :meth:`dump`; ``where`` names the source in errors."""
        fields = _mapping(parse_json(text, where), where)
        # Check the version first: a later one may have other keys.
        format.check(fields.get("format"), fields.get("version"), where)
        check_keys(where, fields, {"format", "version", "data", "arrays", "metadata"})
        data = fields["data"]
        if not isinstance(data, str) or not GENERATION.fullmatch(data):
            raise unreadable(
                where, "is damaged", f"data must name a folder data-<16 hex digits>, got {data!r}"
            )
        entries = _mapping(fields["arrays"], where).items()
        arrays = {name: ArrayEntry.parse(name, entry, where) for name, entry in entries}
        return cls(data, arrays, _mapping(fields["metadata"], where))


def check_keys(
    where: object, got: Collection[str], required: set[str], optional: Collection[str] = ()
) -> None:
    """Raise if a key is unknown or a required one is missing."""
    unknown = sorted(set(got) - required - set(optional))
    if unknown:
        raise unreadable(where, "has unknown keys", ", ".join(map(repr, unknown)))
    missing = sorted(required - set(got))
    if missing:
        raise unreadable(where, "lacks", ", ".join(map(repr, missing)))


def is_name(name: str) -> bool:
    """Whether this is a valid name of an array, which is also the name of its file."""
    return _NAME.fullmatch(name) is not None


def check_storable(name: str, array: NDArray[Any]) -> None:
    """Raise unless the array is numeric and C-contiguous and its name is valid."""
    if not is_name(name):
        raise ValueError(
            f"an array's name must consist of a-z, 0-9 and _ and start with a letter, got {name!r}"
        )
    if not _is_number(array.dtype.str):
        raise InputTypeError(
            f"`{name}` must hold booleans or numbers in this machine's byte order, got dtype "
            f"{array.dtype}"
        )
    if not array.flags.c_contiguous:
        raise InputValueError(
            f"`{name}` must be C-contiguous", "pass `numpy.ascontiguousarray(array)`"
        )


def dump_json(value: Any) -> str:
    """Convert to strict JSON; NaN and infinity, which it lacks, raise ValueError."""
    return json.dumps(value, indent=1, allow_nan=False)


def parse_json(text: str | bytes, where: object) -> Any:
    """Parse strict JSON; ``where`` names the source in errors."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise unreadable(where, "is not readable as JSON", error) from None


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _mapping(value: Any, where: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputValueError(
            f"{where} should contain a JSON object, got {type(value).__name__}",
            RESTORE,
            place=where,
        )
    return value


def _is_shape(value: Any) -> bool:
    if not isinstance(value, list) or len(value) > _MOST_DIMENSIONS:
        return False
    if any(type(n) is not int or not 0 <= n < _MOST_NUMBERS for n in value):
        return False
    numbers: int = math.prod(max(n, 1) for n in value)
    return numbers < _MOST_NUMBERS


def _is_number(dtype: str) -> bool:
    if not _DTYPE.fullmatch(dtype):
        return False
    try:
        known = np.dtype(dtype)
    except TypeError:  # such as "<f1"
        return False
    return known.str == dtype and bool(known.isnative)
