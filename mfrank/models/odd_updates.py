"""What an update or a refit most likely does not mean: other ids, old interactions, another scale.

New interactions of other users and other items throughout are of another catalog, or have ids in
another spelling. Where values are read, those of a cell that is given again are added: a file with
all interactions, in place of those since the fit, doubles the old ones. And values in another unit,
such as shares of 1 where the fit had ratings up to 5, outweigh the old ones or hardly count.

A refit learns from other data alone. Its options were chosen for the data of the model, though, and
what is no option, such as features, is not fitted again.
"""

from __future__ import annotations

import logging

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import counted
from mfrank.data import Interactions, placed
from mfrank.errors import Notice
from mfrank.models.options import are_values_told, tell_uncut
from mfrank.retrieval import Recommender
from mfrank.store import FactorStore, featured

_log = logging.getLogger("mfrank")

_FEW = 20
"""Up to so many interactions, or users or items, anything may be by chance."""
_NEARLY_ALL = 0.9
_LOOKED_AT = 1_000_000
_LEVELS = 20
"""So many different values are those of a scale of ratings, or weights of kinds of events."""
_ROOM = 1.25
"""How much larger than all old values the usual new ones may be, as where old ones have decayed."""


def tell_odd_update(
    store: FactorStore, old: sp.csr_array, new: Interactions, reader: str | None = None
) -> None:
    """Warn of new interactions that probably are not what they are taken for.

    Parameters
    ----------
    store : FactorStore
        Before the update.
    old : csr_array, shape (store.n_users, store.n_items)
        The interactions that the model has, canonical. Zeros are only seen.
    new : Interactions
    reader : str, optional
        Name of what reads the values of both; None if only cells count.
    """
    if are_values_told() or new.nnz < _FEW:
        return
    _tell_other_ids(store, new)
    if reader is not None and not _tell_repeats(store, old, new):
        tell_other_scale("new", new.user_items.data, old.data, reader)


_HARDLY_ANY = 0.01


def tell_odd_refit(model: Recommender, data: Interactions) -> None:
    """Warn of data unlike those for which the options of a model were chosen.

    Parameters
    ----------
    model : Recommender
        Fitted; its options are fitted again.
    data : Interactions
    """
    if are_values_told():
        return
    store, seen, name = model.placed, model.seen, "user_items"
    tell_uncut(name, data, model, "are learned from like the others")
    both = ((data.user_ids, store.user_ids), (data.item_ids, store.item_ids))
    for side, (own, known) in zip(("user", "item"), both, strict=True):
        if len(own) and len(known) and own.are_numbers != known.are_numbers:
            _log.warning(
                Notice(
                    f"`{name}` has {side} ids like {own.labels[:1].tolist()[0]!r}, and the model "
                    f"that is fitted again has ids like {known.labels[:1].tolist()[0]!r}: whoever "
                    "asks the new one by these finds nobody; bring the ids to one type"
                )
            )
            break
    else:
        if all(min(len(own), len(known)) >= _FEW for own, known in both) and all(
            own.overlap(known) <= _HARDLY_ANY for own, known in both
        ):
            _log.warning(
                Notice(
                    f"`{name}` has hardly any of the users and items of the model that is fitted "
                    "again: its options were chosen for other data; `mfrank.tune` chooses them anew"
                )
            )
    if seen is not None and seen.matrix.dtype != bool and getattr(model, "uses_values", False):
        reader = type(model).__name__
        tell_other_scale(name, data.user_items.data, seen.positives.data, reader)
    if sides := sorted(featured(store)):
        _log.warning(
            Notice(
                f"the model was fitted with features of {'s and '.join(sides)}s, and a refit has "
                "none; `fit` takes them"
            )
        )
    if seen is not None and seen.left_out is not None:
        _log.info(
            Notice("lists of the new model leave out all that users have; `leave_out` names a part")
        )


def tell_other_scale(
    name: str, new: NDArray[np.floating], old: NDArray[np.floating], reader: str
) -> None:
    """Warn if new values of an argument are in another unit than the old ones, most likely.

    The usual new one is clearly above all old ones; or the old ones are of few levels, as ratings
    are, and all new ones are below nearly all of them, or the usual one is below all. Counts of a
    day may well be below those of a year.
    """
    given, had = (part[part > 0] for part in map(_some, (new, old)))
    if are_values_told() or min(len(given), len(had)) < _FEW:
        return
    usual, (least, low) = np.median(given), np.quantile(had, [0, 0.1])
    is_below = (given.max() < low or usual < least) and len(np.unique(had)) <= _LEVELS
    if not is_below and usual <= _ROOM * had.max():
        return
    _log.warning(
        Notice(
            f"`{name}` has values {_range(given)}, and the interactions of the model have values "
            f"{_range(had)}: {reader} reads both as of one unit; bring them to that of the fit"
        )
    )


def _tell_other_ids(store: FactorStore, new: Interactions) -> None:
    """Warn if the model knows none of the users and none of the items."""
    told = []
    for side, own, known, n in (
        ("user", new.user_ids, store.user_ids, new.counts.users),
        ("item", new.item_ids, store.item_ids, new.counts.items),
    ):
        given = own.labels[n > 0]
        if len(given) < _FEW or own.are_numbers != known.are_numbers:  # the latter is refused
            return
        if (known.rows(given, missing=-1) >= 0).any():
            return
        told.append(
            f"{counted(len(given), side)} like {given.tolist()[0]!r}, where the model's are like "
            f"{known.labels[:1].tolist()[0]!r}"
        )
    _log.warning(
        Notice(
            f"`new` has {' and '.join(told)}: the model has none of them, and learns all as new; "
            "if they are known by other ids, give them those of the fit"
        )
    )


def _tell_repeats(store: FactorStore, old: sp.csr_array, new: Interactions) -> bool:
    """Warn, and return True, if nearly all that the model has of the users of ``new`` is in it."""
    ids = store.user_ids, store.item_ids
    own = new.user_ids, new.item_ids
    places = [known.rows(given.labels, missing=-1) for known, given in zip(ids, own, strict=True)]
    again = placed(new, places[0], places[1], *ids).user_items
    users = np.flatnonzero(np.diff(again.indptr))
    needed = _NEARLY_ALL * np.diff(old.indptr)[users].sum()
    if again.nnz < max(_FEW, needed):
        return False
    had, given = sp.csr_array(old[users]), sp.csr_array(again[users])
    had.eliminate_zeros()
    had_again, given_again = (
        sp.csr_array(one.multiply(other.astype(bool))).tocoo()
        for one, other in ((had, given), (given, had))
    )
    equal = int(np.count_nonzero(np.isclose(had_again.data, given_again.data, rtol=1e-5)))
    if equal < max(_FEW, _NEARLY_ALL * had.nnz):
        return False
    _log.warning(
        Notice(
            f"`new` has {equal:,} of the {counted(had.nnz, 'interaction')} that the model has of "
            "its users, with the same values: an update adds values, so these count twice; pass "
            "only what is new since the fit, or fit anew to all"
        )
    )
    return True


def _some(values: NDArray[np.floating]) -> NDArray[np.floating]:
    return values[:: -(-len(values) // _LOOKED_AT) or 1]


def _range(values: NDArray[np.floating]) -> str:
    least, most = float(values.min()), float(values.max())
    if least == most:
        return f"that are all {least:g}"
    return f"from {least:g} to {most:g}, usually {float(np.median(values)):g}"
