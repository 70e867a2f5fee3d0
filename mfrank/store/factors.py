"""The factor store: the result of every fit, used to recommend, evaluate and save."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, overload

import numpy as np
from numpy.typing import NDArray

from mfrank._version import __version__
from mfrank.arrays import (
    MadeOfFields,
    check_count,
    check_flags,
    counted,
    covariance_of,
    directions_of,
    is_on_gpu,
    lazy,
    on_host,
    read_only,
    table,
)
from mfrank.data import Counts, Ids, ReadWeights, ReadWhere, checked_event_weights
from mfrank.errors import InputValueError, Notice
from mfrank.files import (
    Contents,
    Format,
    Origin,
    Place,
    has_changed,
    name_of,
    paths_of,
    place_of,
    read,
    read_from,
    write,
    write_to,
)
from mfrank.store import fields
from mfrank.store.cold_rows import empty_rows, ranks_anybody, unmet_items
from mfrank.store.contents import arrays_on_host, check_values, contents_of, made_of
from mfrank.store.history import summary

FORMAT = Format("mfrank.factors", version=1)
"""Format of a saved store; its version rises when an older mfrank would misread a new store."""

_log = logging.getLogger("mfrank")

_FEW, _HARDLY_ANY = 20, 0.01
"""Up to so many items may be any; another catalog has up to this share of the items of one."""
_ROW_NUMBERS: Any = None


def _versions() -> dict[str, str]:
    return {
        "mfrank": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


@dataclass(frozen=True, eq=False, repr=False)
class FactorStore(MadeOfFields):
    """A fitted model as arrays; user x's score of item y is p_x . q_y + b_x + b_y.

    A store is immutable. It has read-only views of the arrays passed to it, and copies only arrays
    that are not C-contiguous: do not write to an array that you passed.

    Factors on a GPU (CuPy arrays, or any with DLPack or ``__cuda_array_interface__``) stay there as
    CuPy arrays. ``backend="cuda"`` uses them in place; other backends copy them at each call. CuPy
    arrays cannot be read-only: do not write to them.

    Parameters
    ----------
    user_factors, item_factors : float32 or float64, shape (n_users, factors), (n_items, factors)
        Both with the same dtype, both on the host or on a GPU, without NaN or infinity.
    user_ids, item_ids : Ids or labels in row order, optional
        Ids of the rows; by default the row numbers.
    counts : Counts, optional
        Numbers of items of each user and users of each item in the fit. Required for fold-in and
        for the features of a second stage.
    user_biases, item_biases : shape (n_users,) and (n_items,), optional
        Added to the scores; stored in the factors' dtype, on their device. None means no bias.
    item_prior : shape (n_items,), optional
        Prior of each item, independent of users (supervised PageRank); stored in the factors'
        dtype. It is not part of the score above.
    fitter : mapping
        ``{"name": ..., "options": {...}}``: the fitter's class and options as JSON, see
        :func:`mfrank.models.parameters.describe`. The default name is ``"unknown"``.
    history : sequence of mappings
        One record per epoch, see :meth:`mfrank.store.history.Step.record`, and one per
        :meth:`mfrank.ALS.partial_fit`; values that are not finite become None.
    versions : mapping of str to str
        Versions of mfrank, numpy and Python at the fit; by default the running ones.
    extras : mapping of str to array
        Further numeric arrays of the fitter; names consist of a-z, 0-9 and _.
    threshold : float, optional
        Threshold of the fit's data, see :meth:`mfrank.Interactions.at_least`.
    where : mapping of str to tuple of str, optional
        Values of columns by which the rows of the fit's data were chosen, see
        :class:`mfrank.Interactions`.
    event_weights : mapping of str to float or None, optional
        What an event of each kind counted in the fit's data, see there.
    weightings : tuple of str, optional
        Functions that weighted the values of the fit's data, such as ``("log_weight",)``.

    Raises
    ------
    TypeError, ValueError
        If shapes, dtypes or values are invalid or inconsistent.
    """

    _noted = ("_origin",)

    user_factors: NDArray[Any]
    item_factors: NDArray[Any]
    user_ids: Ids = _ROW_NUMBERS
    item_ids: Ids = _ROW_NUMBERS
    _: KW_ONLY
    counts: Counts | None = None
    user_biases: NDArray[Any] | None = None
    item_biases: NDArray[Any] | None = None
    item_prior: NDArray[Any] | None = None
    fitter: Mapping[str, Any] = field(default_factory=lambda: {"name": "unknown", "options": {}})
    history: Sequence[Mapping[str, float | int | None]] = ()
    versions: Mapping[str, str] = field(default_factory=_versions)
    extras: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    threshold: float | None = None
    where: ReadWhere = field(default_factory=dict)
    event_weights: ReadWeights = field(default_factory=dict)
    weightings: Sequence[str] = ()

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        for side in ("user", "item"):
            factors, ids = getattr(self, f"{side}_factors"), getattr(self, f"{side}_ids")
            own = fields.ids_of(side, ids, factors)
            put(f"{side}_ids", own)
            put(f"{side}_factors", fields.factor_matrix(side, factors, len(own)))
        users, items = len(self.user_ids), len(self.item_ids)
        theirs = self.user_factors.shape[1], self.user_factors.dtype
        if theirs != (self.factors, self.dtype):
            raise InputValueError(
                "`user_factors` and `item_factors` must have one width and dtype, got "
                f"{theirs[0]} columns of {theirs[1]} and {self.factors} of {self.dtype}"
            )
        if is_on_gpu(self.user_factors) != is_on_gpu(self.item_factors):
            raise InputValueError(
                "`user_factors` and `item_factors` must be both on the host or both on the GPU"
            )
        for name, size in (("user_biases", users), ("item_biases", items), ("item_prior", items)):
            if getattr(self, name) is not None:
                put(name, fields.per_row(name, getattr(self, name), size, self.user_factors))
        if self.counts is not None:
            put("counts", fields.counts_of(self.counts, users, items))
        put("fitter", fields.fitter_of(self.fitter))
        put("history", fields.history_of(self.history))
        put("versions", fields.versions_of(self.versions))
        put("extras", fields.extras_of(self.extras))
        put("threshold", fields.threshold_of(self.threshold))
        put("where", fields.where_of(self.where))
        put("event_weights", checked_event_weights(self.event_weights))
        put("weightings", fields.weightings_of(self.weightings))

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
        return int(self.item_factors.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the factors, float32 or float64."""
        return self.item_factors.dtype

    def _users_at(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """User factors of some rows."""
        some: NDArray[Any] = self.user_factors[rows]
        return some

    @property
    def known_counts(self) -> Counts:
        """The counts.

        Raises
        ------
        ValueError
            If the store has none.
        """
        if self.counts is None:
            raise InputValueError(
                "this needs the counts of the fit, which the store was made without:",
                "pass `FactorStore(..., counts=interactions.counts)`",
            )
        return self.counts

    @property
    def origin(self) -> Origin:
        """Generations of the folders it was loaded from or saved to (:mod:`mfrank.files.folder`).

        Used by the model that has the store. A store itself never changes, so saving it cannot undo
        a change.
        """
        origin: Origin = vars(self).get("_origin", {})
        return origin

    @lazy
    def user_directions(self) -> NDArray[Any]:
        """User factors with rows scaled to length 1, computed on first access."""
        return read_only(directions_of(self.user_factors))

    @lazy
    def item_directions(self) -> NDArray[Any]:
        """Item factors with rows scaled to length 1, computed on first access."""
        return read_only(directions_of(self.item_factors))

    @lazy
    def item_coordinates(self) -> NDArray[Any]:
        """Item factors with the biases, if there are any, as a last column."""
        if self.item_biases is None:
            return self.item_factors
        return read_only(np.concatenate([self.item_factors, self.item_biases[:, None]], axis=1))

    @lazy
    def item_covariance(self) -> NDArray[np.float64]:
        """Covariance over the items of their coordinates, in numpy, computed on first access."""
        return covariance_of(on_host(self.item_coordinates))

    @lazy
    def unmet_items(self) -> NDArray[np.bool_] | None:
        """Cold items, bool (n_items,), which are not recommended; None if there are none.

        They have no interactions in the fit and no features, or their factors and bias are 0. On
        the device of the factors, computed on first access.
        """
        return unmet_items(self)

    @lazy
    def unmet_users(self) -> NDArray[np.bool_] | None:
        """Cold users: their factors and bias are 0."""
        return empty_rows(self.user_factors, self.user_biases)

    @lazy
    def lone_items(self) -> NDArray[np.bool_] | None:
        """Items without neighbors: cold items, and items without factors."""
        unmet, without = self.unmet_items, empty_rows(self.item_factors, None)
        return unmet if without is None else without if unmet is None else unmet | without

    @lazy
    def lone_users(self) -> NDArray[np.bool_] | None:
        """Users without neighbors, because they have no factors."""
        return empty_rows(self.user_factors, None)

    @lazy
    def ranks_anybody(self) -> bool:
        """Whether item biases rank items even for a user without factors."""
        return ranks_anybody(self.item_factors, self.item_biases, self.user_biases)

    def __repr__(self) -> str:
        return (
            f"FactorStore({counted(self.n_users, 'user')} x {counted(self.n_items, 'item')}, "
            f"{counted(self.factors, 'factor')}, {self.dtype}, fitted by {self.fitter['name']})"
        )

    def _repr_html_(self) -> str:
        rows = [
            ("users", self.user_ids.summary),
            ("items", self.item_ids.summary),
            ("factors", f"{self.factors:,}"),
            ("dtype", str(self.dtype)),
            ("where", "GPU" if is_on_gpu(self.user_factors) else "host"),
            ("fitted by", str(self.fitter["name"])),
            *summary(self.history),
        ]
        return table("FactorStore", rows)

    def on_host(self) -> FactorStore:
        """The store with factors, biases and prior in numpy; itself if they already are."""
        if not is_on_gpu(self.item_factors):
            return self
        here: dict[str, Any] = arrays_on_host(self)
        return replace(self, **here)

    @overload
    def save(self, folder: str | os.PathLike[str]) -> Path: ...

    @overload
    def save(self, folder: IO[bytes]) -> None: ...

    def save(self, folder: Place) -> Path | None:
        """Save as a folder of ``.npy`` arrays with a manifest, replacing an older store.

        The replacement is atomic: after a crash or a full disk, or with two savers, the folder
        contains the old store or the new one (:mod:`mfrank.files.folder`). Nothing is pickled.

        Parameters
        ----------
        folder : path, or file object opened for writing bytes
            A file object gets an uncompressed zip of the files, which is incomplete if writing
            fails.

        Returns
        -------
        Path of the folder; None for a file object

        Raises
        ------
        TypeError
            If the file object is for text.
        ValueError
            If the folder contains something other than a store, ids are neither integers nor
            strings, or shared arrays were modified and now contain invalid values.
        OSError
            If writing fails; the folder is unchanged.
        """
        vars(self)["_origin"] = origin = dict(self.origin)  # copies have the old one
        return self._save_over(folder, origin, overwrite=True)

    def _save_over(
        self,
        folder: Place,
        origin: Origin | None = None,
        before: Mapping[str, tuple[str, ...]] | None = None,
        *,
        overwrite: bool = False,
        keep: int = 1,
    ) -> Path | None:
        """As :meth:`save`, for a model of this origin; see :func:`mfrank.files.folder.write`.

        ``before`` is the origin of an earlier model, in whose place it was fitted.
        """
        check_count("keep", keep, 1)
        place, contents = place_of(folder), self.to_contents()
        check_values(contents.arrays)
        if not isinstance(place, Path):
            if keep > 1:
                raise InputValueError("`keep` needs a folder: a file object has one version")
            write_to(place, contents, FORMAT)
            return None
        is_kept = self._has_other_items(place, origin or {})
        if not overwrite and has_changed(place, FORMAT, before or {}):
            is_kept = True
            _log.warning(
                Notice(
                    f"{place} has a model that another process saved there since the one before "
                    "this fit was: it is kept as the version before, and "
                    "`mfrank.roll_back(folder)` brings it back"
                )
            )
        keep = max(keep, 1 + is_kept)
        write(place, contents, FORMAT, origin, overwrite, keep)
        return place

    def _has_other_items(self, folder: Path, origin: Origin) -> bool:
        """Whether a folder has a model of another catalog, which is told; it is to be kept.

        A model that comes from the folder may have other items than it had.
        """
        if not paths_of(folder).isdisjoint(origin):
            return False
        try:
            before = FactorStore.load(folder, mmap=True).item_ids
        except (OSError, ValueError):  # nothing, or what nobody can read
            return False
        if min(len(before), self.n_items) < _FEW or self.item_ids.overlap(before) > _HARDLY_ANY:
            return False
        like, other = (ids.labels[:1].tolist()[0] for ids in (before, self.item_ids))
        _log.warning(
            Notice(
                f"{folder} had a model of other items, like {like!r} where those of the new one "
                f"are like {other!r}: it is kept as the version before, and "
                "`mfrank.roll_back(folder)` brings it back; save each catalog to a folder of its "
                "own"
            )
        )
        return True

    @classmethod
    def load(
        cls, folder: Place, *, mmap: bool = False, verify: bool = False, version: int = 0
    ) -> FactorStore:
        """Load a store saved by :meth:`save`.

        Parameters
        ----------
        folder : path, or seekable file object opened for reading bytes
            The contents of a file object are always verified and cannot be mapped.
        mmap : bool, default False
            Memory-map the arrays: loading is immediate, processes share the memory, and only
            accessed parts are read. Values are then not checked.
        verify : bool, default False
            Compare every file with its SHA-256. Shapes, dtypes and sizes are always checked.
        version : int, default 0
            1 loads the version before the current one, 2 the one before that, if they were kept
            (``save(keep=)`` of a model).

        Raises
        ------
        FileNotFoundError
            If there is no such folder.
        TypeError
            If the file object is for text.
        ValueError
            If it is not a store, has another format version, or is damaged; the message says how.
        """
        check_count("version", version, 0)
        check_flags(mmap=mmap, verify=verify)
        place = place_of(folder)
        if isinstance(place, Path):
            contents = read(place, FORMAT, mmap=mmap, verify=verify, version=version)
            return cls.from_contents(contents, place)
        if mmap or version:
            given = "mmap=True" if mmap else "version"
            raise InputValueError(f"`{given}` needs a folder: this is a file object")
        return cls.from_contents(read_from(place, FORMAT), name_of(place))

    def to_contents(self) -> Contents:
        """The whole store as named arrays and JSON metadata, for a file of any format."""
        return contents_of(self)

    @classmethod
    def from_contents(cls, contents: Contents, where: object) -> FactorStore:
        """Build a store from the result of :meth:`to_contents`; ``where`` names it in errors."""
        store = made_of(contents, cls, where)
        vars(store)["_origin"] = contents.origin
        return store
