"""The factor store: what every fitter ends in, and what recommend, evaluate and save start from."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import on_host
from mfrank.data.ids import Ids
from mfrank.directions import directions_of
from mfrank.foreign import is_on_gpu
from mfrank.lazy import lazy
from mfrank.pickles import MadeOfFields
from mfrank.quadratic import Counts
from mfrank.read_only import read_only
from mfrank.store import checks as check
from mfrank.store.folder import read, write
from mfrank.store.manifest import Contents, Format, check_keys
from mfrank.version import __version__

__all__ = ["FORMAT", "FactorStore"]

FORMAT = Format("mfrank.factors", version=1)
"""Format of a saved store. Its version rises when an older mfrank would misread a newer store."""

_REQUIRED = ("user_factors", "item_factors")
_OPTIONAL = ("user_biases", "item_biases", "item_prior")
_GROUPS = ("user_ids", "item_ids", "counts", "extras")


def _versions() -> dict[str, str]:
    return {
        "mfrank": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


@dataclass(frozen=True, eq=False, repr=False)
class FactorStore(MadeOfFields):
    """A fitted model as arrays: user x scores item y by p_x . q_y + b_x + b_y.

    A store does not change: it keeps read-only views of the arrays it is given (and copies only
    what is not C-contiguous), so a fitter that goes on must go on in arrays of its own.

    Factors that lie on a GPU (CuPy's, or any with DLPack or ``__cuda_array_interface__``) stay
    there, as CuPy's arrays; ``backend="cuda"`` computes on them where they are, other backends copy
    them at each call. CuPy's arrays cannot be made read-only: do not write to them.

    Parameters
    ----------
    user_factors, item_factors : float32 or float64, shape (n_users, factors), (n_items, factors)
        Both of one dtype and on one side, without NaN or infinity.
    user_ids, item_ids : Ids
        What the rows stand for.
    counts : Counts
        Observed items of each user and users of each item in the fit; fold-in reads them.
    user_biases, item_biases : shape (n_users,) and (n_items,), optional
        Added to the scores; kept in the factors' dtype, beside them. None is no bias.
    item_prior : shape (n_items,), optional
        What is known of each item before any user is, from fitters that have it (supervised
        PageRank); kept in the factors' dtype. It is no part of the score above.
    fitter : mapping
        ``{"name": ..., "options": {...}}``: the fitter and its dataclass of options as JSON, see
        :func:`mfrank.options.describe`. By default the name is ``"unknown"``.
    history : sequence of mappings
        One record an epoch, see :meth:`mfrank.steps.Step.record`; a value that is not finite is
        kept as None.
    versions : mapping of str to str
        Of mfrank, numpy and Python at the fit; by default those of now.
    extras : mapping of str to array
        Further numeric arrays of the fitter's own, by names of a-z, 0-9 and _.

    Raises
    ------
    TypeError, ValueError
        If shapes, dtypes or values do not fit together.
    """

    user_factors: NDArray[Any]
    item_factors: NDArray[Any]
    user_ids: Ids
    item_ids: Ids
    _: KW_ONLY
    counts: Counts
    user_biases: NDArray[Any] | None = None
    item_biases: NDArray[Any] | None = None
    item_prior: NDArray[Any] | None = None
    fitter: Mapping[str, Any] = field(default_factory=lambda: {"name": "unknown", "options": {}})
    history: Sequence[Mapping[str, float | int | None]] = ()
    versions: Mapping[str, str] = field(default_factory=_versions)
    extras: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        users, items = len(self.user_ids), len(self.item_ids)
        put = partial(object.__setattr__, self)
        put("user_factors", check.factor_matrix("user_factors", self.user_factors, users))
        put("item_factors", check.factor_matrix("item_factors", self.item_factors, items))
        if self.item_factors.shape[1] != self.factors or self.item_factors.dtype != self.dtype:
            raise ValueError(
                f"user_factors and item_factors must have one width and dtype, got "
                f"{self.factors} columns of {self.dtype} and {self.item_factors.shape[1]} of "
                f"{self.item_factors.dtype}"
            )
        if is_on_gpu(self.user_factors) != is_on_gpu(self.item_factors):
            raise ValueError(
                "user_factors and item_factors must be both on the host or both on the GPU"
            )
        for name, size in (("user_biases", users), ("item_biases", items), ("item_prior", items)):
            if getattr(self, name) is not None:
                put(name, check.per_row(name, getattr(self, name), size, self.user_factors))
        put("counts", check.counts_of(self.counts, users, items))
        put("fitter", check.fitter_of(self.fitter))
        put("history", tuple(check.history_record(record) for record in self.history))
        put("versions", check.versions_of(self.versions))
        put("extras", {name: check.extra_array(name, array) for name, array in self.extras.items()})

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    @property
    def factors(self) -> int:
        """Width of the factors."""
        return int(self.user_factors.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the factors, float32 or float64."""
        return self.user_factors.dtype

    @lazy
    def user_directions(self) -> NDArray[Any]:
        """User factors scaled to length 1, made when first asked for and kept."""
        return read_only(directions_of(self.user_factors))

    @lazy
    def item_directions(self) -> NDArray[Any]:
        """Item factors scaled to length 1, made when first asked for and kept."""
        return read_only(directions_of(self.item_factors))

    def __repr__(self) -> str:
        return (
            f"FactorStore({self.n_users} users x {self.n_items} items, {self.factors} factors, "
            f"{self.dtype}, fitted by {self.fitter['name']})"
        )

    def on_host(self) -> FactorStore:
        """The store with its factors, biases and prior in numpy: itself where they are."""
        if not is_on_gpu(self.user_factors):
            return self
        here: dict[str, Any] = self._arrays_on_host()
        return replace(self, **here)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Save as a folder of ``.npy`` arrays with a manifest, in place of a store saved there.

        Whatever happens (a crash, a full disk, another saver), the folder holds either the old
        store or the new one; see :mod:`mfrank.store.folder`. Nothing is pickled.

        Raises
        ------
        ValueError
            If the folder holds anything but a store, ids are neither integers nor strings, or
            arrays that the store shares with others have changed to what no store may hold.
        OSError
            If writing fails; a store saved before is still there.
        """
        path, contents = Path(folder), self.to_contents()
        self._check_values(contents.arrays)
        write(path, contents, FORMAT)
        return path

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], *, mmap: bool = False, verify: bool = False
    ) -> FactorStore:
        """Load what :meth:`save` saved.

        Parameters
        ----------
        folder : path
        mmap : bool, default False
            Map the arrays instead of reading them: opening takes no time, processes share the
            memory, and what is never looked at is never read. Values are then not checked.
        verify : bool, default False
            Compare every file with its SHA-256. Shapes, dtypes and sizes are always checked.

        Raises
        ------
        FileNotFoundError
            If there is no such folder.
        ValueError
            If it is no store, or of another format version, or damaged; the message says how.
        """
        return cls.from_contents(read(Path(folder), FORMAT, mmap=mmap, verify=verify), folder)

    def to_contents(self) -> Contents:
        """All of the store as named arrays and JSON metadata, for a file of any format."""
        arrays = self._arrays_on_host()
        counts = {"users": self.counts.users, "items": self.counts.items}
        groups = {"counts": counts, "extras": self.extras}
        for name, ids in (("user_ids", self.user_ids), ("item_ids", self.item_ids)):
            if ids.table is not None:  # row numbers need no array
                groups[name] = ids.to_arrays()
        for group, members in groups.items():
            arrays |= {f"{group}.{name}": array for name, array in members.items()}
        history = list(self.history)
        return Contents(
            arrays, {"fitter": self.fitter, "history": history, "versions": self.versions}
        )

    @classmethod
    def from_contents(cls, contents: Contents, where: object) -> FactorStore:
        """Build the store that :meth:`to_contents` took apart; ``where`` goes into errors."""
        check_keys(f"metadata of {where}", contents.metadata, {"fitter", "history", "versions"})
        plain: dict[str, NDArray[Any]] = {}
        groups: dict[str, dict[str, NDArray[Any]]] = {group: {} for group in _GROUPS}
        for name, array in contents.arrays.items():
            group, _, member = name.partition(".")
            groups.get(group, plain)[member if group in groups else name] = array
        check_keys(where, plain, set(_REQUIRED), _OPTIONAL)
        try:
            fields: dict[str, Any] = {
                **plain,
                "user_ids": check.stored_ids(groups["user_ids"], len(plain["user_factors"])),
                "item_ids": check.stored_ids(groups["item_ids"], len(plain["item_factors"])),
                "counts": Counts(**groups["counts"]),
                "extras": groups["extras"],
                **contents.metadata,
            }
            return cls(**fields)
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"{where} is damaged: {error}") from error

    def _check_values(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Refuse what load would: shared values may have changed, those of maps were not read."""
        for name in _REQUIRED + _OPTIONAL:
            if name in arrays:
                check.check_finite(name, arrays[name])
        for name in ("counts.users", "counts.items"):
            check.check_not_negative(name, arrays[name])

    def _arrays_on_host(self) -> dict[str, NDArray[Any]]:
        """Factors, and those of the biases and the prior that there are, in numpy."""
        return {
            name: on_host(array)
            for name in _REQUIRED + _OPTIONAL
            if (array := getattr(self, name)) is not None
        }
