"""Common parts of all recommenders: store, seen items, saving, loading, removal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Self, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import MadeOfFields, in_turn, lazy, paragraphs, turn_of, without_turns
from mfrank.backends import Factors
from mfrank.data import Counts, Ids, without_zeros
from mfrank.files import Origin, Place, joined_origins, name_of
from mfrank.retrieval.seen import Seen, pack, unpack
from mfrank.retrieval.side import Raw, given_ids, sides
from mfrank.store import IMPORTED, FactorStore, OwnClasses, Record, columns_name, names_of

# A store and its seen entries without some of the users and items.


_OF_NOBODY = {"epoch", "seconds", "batch", "content"}  # of all that a history has
_PER_ROW = {"user": ("user_factors", "user_biases"), "item": ("item_factors", "item_biases")}


def without(
    store: FactorStore, seen: sp.csr_array | None, users: ArrayLike, items: ArrayLike
) -> tuple[FactorStore, sp.csr_array | None]:
    """Remove rows of both sides; the arrays of the result are new and hold no removed data.

    Parameters
    ----------
    store : FactorStore
    seen : csr_array, shape (n_users, n_items), or None
        Zeros are only seen and do not count.
    users, items : row numbers; they may repeat

    Raises
    ------
    ValueError
        The store has counts, but ``seen`` is None.
    TypeError
        The store has extras, which may contain data of users and items.
    """
    means = {name: side for side in _PER_ROW for name in names_of(side)[1:] if name in store.extras}
    known = {name for side in _PER_ROW for name in (*names_of(side), columns_name(side))}
    unknown = set(store.extras) - known
    if unknown:
        raise TypeError(
            f"the store has extras of {store.fitter['name']} ({', '.join(sorted(unknown))}), of "
            "which it is not known what they hold of users and items; fit anew without them"
        )
    if store.counts is not None and seen is None:
        raise ValueError(
            "the model has no seen entries, by which its counts could be lowered: remove from the "
            "model that was fitted, or from one saved with with_seen=True"
        )
    store = store.on_host()
    kept = {"user": _others(users, store.n_users), "item": _others(items, store.n_items)}
    left = None if seen is None else _part(seen, kept["user"], kept["item"])
    arrays: dict[str, Any] = {
        name: array[rows]
        for side, rows in kept.items()
        for name in _PER_ROW[side]
        if (array := getattr(store, name)) is not None
    }
    if store.item_prior is not None:
        arrays["item_prior"] = store.item_prior[kept["item"]]
    fields: dict[str, Any] = {
        **arrays,
        "user_ids": store.user_ids.take(kept["user"]),
        "item_ids": store.item_ids.take(kept["item"]),
        "counts": None if store.counts is None or left is None else _counts(left),
        "extras": {
            name: array[kept[means[name]]] if name in means else array
            for name, array in store.extras.items()
        },
        "history": [_without_sums(record) for record in store.history],
    }
    return replace(store, **fields), left


def _others(rows: ArrayLike, n_rows: int) -> NDArray[np.int64]:
    return np.setdiff1d(np.arange(n_rows), np.asarray(rows, np.int64))


def _part(seen: sp.csr_array, users: NDArray[Any], items: NDArray[Any]) -> sp.csr_array:
    """Some rows and columns, in new arrays even if these are all."""
    part = sp.csr_array(seen[users][:, items])
    part.sort_indices()
    return part


def _counts(seen: sp.csr_array) -> Counts:
    learned = without_zeros(seen)
    by_item = np.bincount(learned.indices, minlength=seen.shape[1])
    return Counts(np.diff(learned.indptr).astype(np.int64), by_item.astype(np.int64))


def _without_sums(record: Any) -> Record:
    """A record of the history without its objective and metric, which are sums over users."""
    return {name: record[name] if name in _OF_NOBODY else None for name in record}


class NotFittedError(ValueError, AttributeError):
    """The model has no factors yet: call ``fit`` first."""


@dataclass(frozen=True, eq=False)
class Held(MadeOfFields):
    """A store and the seen entries of the same users and items; neither is ever edited.

    ``parts`` has further parameters of the model, such as weights between items.
    """

    store: FactorStore
    seen: Seen | None
    parts: Any = None

    @property
    def origin(self) -> Origin:
        """The origin of the store; empty before the store is computed."""
        return self.store.origin if "store" in vars(self) else {}

    def on_host(self) -> FactorStore:
        """The store in numpy; it replaces a store on a GPU, so each is copied once.

        The replacement is made here, not in the model, which may have another store by now.
        """
        here = self.store.on_host()
        if here is not self.store:
            object.__setattr__(self, "store", here)
        return here


class Promised(Held):
    """A store that is computed on first access, and the seen entries.

    Parameters
    ----------
    make : function
        Computes the store; may be called again by a second reader before the first call returns.
    seen : Seen or None
    """

    _make: Callable[[], FactorStore]

    def __init__(self, make: Callable[[], FactorStore], seen: Seen | None) -> None:
        object.__setattr__(self, "_make", make)
        object.__setattr__(self, "seen", seen)

    @lazy
    def store(self) -> FactorStore:
        """The store."""
        made = self._make()
        object.__setattr__(self, "_make", lambda: made)  # what it was made from can be freed
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it as a plain ``Held``."""
        return Held, (self.store, self.seen)


class Fitted:
    """A store of factors with the seen items of each user, saved and loaded together.

    Both are in one attribute, which an update replaces. A call reads it once and so has a
    consistent store and seen items, even if other threads update the model. Calls that change the
    model take turns (:mod:`mfrank.arrays.threads`).
    """

    backend: str = "auto"
    _held: Held | None = None
    _origin: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """See :mod:`mfrank.files.folder`; replaced, never edited."""

    def __getstate__(self) -> dict[str, Any]:
        """What copies get."""
        return without_turns(vars(self))

    def __repr__(self) -> str:
        state = "not fitted" if self._held is None else f"of {self._held.store!r}"
        return f"{type(self).__name__}({state})"

    def _repr_html_(self) -> str:
        if self._held is None:
            return paragraphs([repr(self)])
        return paragraphs([f"{type(self).__name__} of"]) + self._held.store._repr_html_()

    @property
    def placed(self) -> FactorStore:
        """The store with the factors on the device of the fit, possibly a GPU."""
        return self._now().store

    @property
    def store(self) -> FactorStore:
        """The fitted factors with their ids and history."""
        return self.placed

    @property
    def user_factors(self) -> Factors:
        """User factors, shape (n_users, factors)."""
        return self.store.user_factors

    @property
    def item_factors(self) -> Factors:
        """Item factors, shape (n_items, factors)."""
        return self.store.item_factors

    @property
    def user_ids(self) -> Ids:
        """Id of each user row."""
        return self.placed.user_ids

    @property
    def item_ids(self) -> Ids:
        """Id of each item row."""
        return self.placed.item_ids

    @property
    def seen(self) -> Seen | None:
        """The training items of each user; None if the model does not have them."""
        return None if self._held is None else self._held.seen

    @property
    def threshold(self) -> float | None:
        """Threshold of the fit's data (:meth:`mfrank.Interactions.at_least`), or None."""
        return self.placed.threshold

    @in_turn
    def remove(
        self, users: Raw | None = None, items: Raw | None = None, *, by_row: bool = False
    ) -> Self:
        """Remove users and items, with everything that the model holds about them.

        - Removed: their factors, ids and biases; their seen entries and counts; and the objectives
          and metrics in the history, which include them. After :meth:`save` to the model's folder,
          their data are gone from disk, too.
        - Unchanged: ids and factors of all other users and items. Later row numbers move up.
        - Not removed: what the factors of others have learned from them, until these are fitted or
          solved again; and the caller's own data (interactions, copies of the model, the folder of
          ``checkpoint=``).

        Concurrent calls in other threads finish with the model before the removal.

        Parameters
        ----------
        users, items : id, or 1-D array-like of ids, optional
            An id may repeat.
        by_row : bool, default False
            Ids are row numbers.

        Returns
        -------
        self

        Raises
        ------
        UnknownIdError
            An id is unknown. The model is unchanged.
        ValueError
            Both arguments are None; or the model was saved with ``with_seen=False``, so its counts
            cannot be lowered.
        TypeError
            The model has no factors of its own, such as :class:`mfrank.ItemKNN` and
            :class:`mfrank.SupervisedPageRank`.
        """
        if users is None and items is None:
            raise ValueError("remove needs users or items: ids, or a list of them")
        held = self._now()
        user_side, item_side = sides(held.store, by_row=by_row)
        some_users, some_items = (
            side.rows([] if raw is None else given_ids(raw, name, ordered=False), name)
            for side, raw, name in ((user_side, users, "users"), (item_side, items, "items"))
        )
        seen = None if held.seen is None else held.seen.checked
        self._hold(*without(held.store, seen, some_users, some_items))
        return self

    @overload
    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        with_seen: bool = True,
        overwrite: bool = False,
    ) -> Path: ...

    @overload
    def save(
        self, folder: IO[bytes], *, with_seen: bool = True, overwrite: bool = False
    ) -> None: ...

    def save(
        self, folder: Place, *, with_seen: bool = True, overwrite: bool = False
    ) -> Path | None:
        """Save as a folder, atomically, or to a file object; see :meth:`mfrank.FactorStore.save`.

        ``with_seen`` also saves the seen items of each user (not the values), so that a loaded
        model filters in the same way.

        Raises
        ------
        mfrank.files.folder.ChangedFolderError
            A ValueError: another process has saved to the folder since this model was loaded from
            it or saved to it, and its changes would be lost. Load the model again and repeat the
            change, or pass ``overwrite=True``. A newly fitted model replaces the folder.
        ValueError
            Before anything is written: :meth:`load` would refuse the model (the class of an option
            cannot be imported, or arrays of the interactions were modified since the fit), or the
            folder contains something other than a model.
        OSError
            Writing fails; the folder is unchanged.
        """
        with turn_of(self, "save"):  # else an older state of the model could be saved last
            origin = self._origin  # first: a fit that ends now has none, and replaces both
            held = self._now()
            origin = joined_origins(origin, held.origin)
            store = held.on_host()
            try:
                self._from_store(store)
            except ValueError as error:
                raise ValueError(
                    f"the model cannot be saved, because it could not be loaded ({error}); "
                    "store.save saves its factors"
                ) from error
            self._tell_set_since(store.fitter)
            if held.seen is not None and with_seen:
                store = pack(store, held.seen.matrix)
            # In place before the save, which edits it: it may be stopped at any moment.
            self._origin = origin
            return store._save_over(folder, origin, overwrite=overwrite)

    @classmethod
    def load(
        cls,
        folder: Place,
        *,
        mmap: bool = False,
        verify: bool = False,
        classes: Iterable[type] = (),
        trust: bool = False,
    ) -> Self:
        """Load a saved model; see :func:`mfrank.load`.

        Raises
        ------
        ValueError
            The folder has no model, or its model is damaged, is of another class (``mfrank.load``
            loads any model), or uses a class of the caller's that may not be imported.
        """
        own = OwnClasses.of(classes, trust, folder)
        return cls._from_place(folder, FactorStore.load(folder, mmap=mmap, verify=verify), own)

    @classmethod
    def _from_place(cls, place: Place, store: FactorStore, own: OwnClasses = IMPORTED) -> Self:
        """Like :meth:`_from_store`, but errors name the folder or file."""
        try:
            return cls._from_store(store, own)
        except ValueError as error:
            raise ValueError(f"{name_of(place)}: {error}") from error

    @classmethod
    def _from_store(cls, store: FactorStore, own: OwnClasses = IMPORTED) -> Self:
        model = cls()
        model._adopt(store)
        return model

    def _adopt(self, store: FactorStore) -> None:
        """Set the store, where it is from, and the seen items saved in it."""
        self._hold(*unpack(store))
        self._origin = store.origin.copy()

    def _hold(self, store: FactorStore, seen: sp.csr_array | None) -> None:
        """Replace the store and the seen entries, at once."""
        if self._held is not None:  # what the old store was saved as is in the new one
            self._origin = joined_origins(self._origin, self._held.origin)
        self._held = Held(store, None if seen is None else Seen(seen), self._parts_of(store))

    def _tell_set_since(self, fitter: Mapping[str, Any]) -> None:
        """Warn of options that were set after a fit; here there are none."""

    def _parts_of(self, store: FactorStore) -> Any:
        """What the model ranks by beside the factors, from the store's extras; None if nothing."""
        return None

    def _snapshot(self) -> Self:
        """The model as it is now: a copy with the same arrays, which no change reaches."""
        self._now()
        return copy(self)

    def _is_as(self, snapshot: Fitted) -> bool:
        """Whether the model has not changed since a snapshot."""
        return self._held is snapshot._held

    def _now(self) -> Held:
        """The store and the seen entries, to be read once in a call."""
        if self._held is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit() first")
        return self._held
