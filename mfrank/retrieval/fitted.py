"""What every recommender has: a store, the seen items, saving and loading."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Self, overload

import scipy.sparse as sp

from mfrank.arrays.notebook import paragraphs
from mfrank.backends import Factors
from mfrank.data.ids import Ids
from mfrank.files.archive import Place, name_of
from mfrank.retrieval.seen import Seen, pack, unpack
from mfrank.store.factors import FactorStore

__all__ = ["Fitted", "NotFittedError"]


class NotFittedError(ValueError, AttributeError):
    """The model has no factors yet: call ``fit`` first."""


class Fitted:
    """A store of factors with the items that each user has seen, saved and loaded together."""

    backend: str = "auto"
    _store: FactorStore | None = None
    _seen: sp.csr_array | None = None
    _seen_rows: Seen | None = None

    def __repr__(self) -> str:
        state = "not fitted" if self._store is None else f"of {self._store!r}"
        return f"{type(self).__name__}({state})"

    def _repr_html_(self) -> str:
        if self._store is None:
            return paragraphs([repr(self)])
        return paragraphs([f"{type(self).__name__} of"]) + self._store._repr_html_()

    @property
    def placed(self) -> FactorStore:
        """The store with the factors where the fit left them, possibly on a GPU."""
        if self._store is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit() first")
        return self._store

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
        """The items each user has in the training data; None if the model does not have them."""
        if self._seen is None:
            return None
        if self._seen_rows is None or self._seen_rows.matrix is not self._seen:
            self._seen_rows = Seen(self._seen)
        return self._seen_rows

    @overload
    def save(self, folder: str | os.PathLike[str], *, with_seen: bool = True) -> Path: ...

    @overload
    def save(self, folder: IO[bytes], *, with_seen: bool = True) -> None: ...

    def save(self, folder: Place, *, with_seen: bool = True) -> Path | None:
        """Save as a folder, atomically, or to a file object; see :meth:`mfrank.FactorStore.save`.

        ``with_seen`` also saves which items each user has (not the values), so that a loaded model
        filters them as this one does.

        Raises
        ------
        ValueError
            Before anything is written: :meth:`load` would refuse the model (an option's class
            cannot be imported, or the interactions' arrays were changed since the fit), or the
            folder contains anything but a model.
        OSError
            Writing fails; a model saved before is still there.
        """
        store = self.store
        try:
            self._from_store(store)
        except ValueError as error:
            raise ValueError(
                f"the model cannot be saved, because it could not be loaded ({error}); store.save "
                "saves its factors"
            ) from error
        seen = self._seen if with_seen else None
        return (store if seen is None else pack(store, seen)).save(folder)

    @classmethod
    def load(cls, folder: Place, *, mmap: bool = False, verify: bool = False) -> Self:
        """Load a saved model; see :meth:`mfrank.FactorStore.load`.

        Raises
        ------
        ValueError
            The folder has no model, a damaged one, or one of another class (``mfrank.load`` loads
            any model).
        """
        return cls._from_place(folder, FactorStore.load(folder, mmap=mmap, verify=verify))

    @classmethod
    def _from_place(cls, place: Place, store: FactorStore) -> Self:
        """Like :meth:`_from_store`, but errors name the folder or file."""
        try:
            return cls._from_store(store)
        except ValueError as error:
            raise ValueError(f"{name_of(place)}: {error}") from error

    @classmethod
    def _from_store(cls, store: FactorStore) -> Self:
        model = cls()
        model._adopt(store)
        return model

    def _adopt(self, store: FactorStore) -> None:
        """Set the store and the seen items saved in it."""
        self._store, self._seen = unpack(store)
