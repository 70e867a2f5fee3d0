"""What updates, refits and rows to solve hardly mean: other ids, old interactions, another scale.

New interactions of other users and other items throughout are of another catalog, or have ids in
another spelling; or users and items are in each other's place. Where values are read, those of a
cell that is given again are added: a file with all interactions, in place of those since the fit,
doubles the old ones. And values in another unit, such as shares of 1 where the fit had ratings up
to 5, outweigh the old ones or hardly count.

A refit learns from other data alone, but its options were chosen for the data of the model.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.als import QuadraticObjective
from mfrank.arrays import counted
from mfrank.data import Counts, Interactions, placed, tell_swapped
from mfrank.errors import Notice
from mfrank.models.value_notes import are_values_told, tell_uncut
from mfrank.retrieval import Recommender, Seen, ValueScale
from mfrank.store import FactorStore

_log = logging.getLogger("mfrank")

_FEW = 20
"""Up to so many interactions, or users or items, anything may be by chance."""
_SEVERAL = 3
"""Users, of whom hardly all give the lowest rating alone."""
_NEARLY_ALL = 0.9
_LOOKED_AT = 1_000_000


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
    if are_values_told() or not new.nnz:
        return
    if reader is not None:
        tell_unweighted("new", new, store.weightings)
    if new.nnz < _FEW:
        return
    counts = store.counts
    if counts is None:
        counts = Counts(np.diff(old.indptr), np.bincount(old.indices, minlength=old.shape[1]))
    if tell_swapped("new", new, (store.user_ids, store.item_ids), counts):
        return
    _tell_other_ids(store, new)
    if reader is None or _tell_repeats(store, old, new):
        return
    if not _tell_no_values(new, old.data, reader):
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
    if tell_swapped(name, data, (store.user_ids, store.item_ids), store.counts):
        return
    both = ((data.user_ids, store.user_ids), (data.item_ids, store.item_ids))
    for side, (own, known) in zip(("user", "item"), both, strict=True):
        if len(own) and len(known) and own.are_numbers != known.are_numbers:
            _log.warning(
                Notice(
                    f"`{name}` has {side} ids like {own.labels[:1].tolist()[0]!r}, and the model "
                    f"that is fitted again has ids like {known.labels[:1].tolist()[0]!r}, which "
                    "the new one would not know; bring the ids to one type"
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
        tell_unweighted(name, data, store.weightings)
        tell_other_scale(name, data.user_items.data, seen.positives.data, reader)
    if seen is not None and seen.left_out is not None:
        _log.info(
            Notice("lists of the new model leave out all that users have; `leave_out` names a part")
        )


def tell_other_scale(
    name: str, new: NDArray[np.floating], old: NDArray[np.floating], reader: str
) -> None:
    """Warn if new values of an argument are in another unit than the old ones, most likely."""
    given, had = ValueScale.of(_some(new)), ValueScale.of(_some(old))
    if are_values_told() or given is None or had is None or not had.is_other(_some(new)):
        return
    _log.warning(_of_other_scale(name, given, had, reader))


def tell_scale_of_rows(
    name: str, values: NDArray[np.floating], seen: Seen | None, reader: QuadraticObjective
) -> None:
    """Warn, once for a model, of values to fold in that are in another unit than the fit's."""
    if not reader.uses_values or seen is None or (had := seen.value_scale) is None:
        return
    if name in had.told or are_values_told() or not had.is_other(values):
        return
    had.told.add(name)
    given = ValueScale.of_all(values[values > 0])
    _log.warning(_of_other_scale(name, given, had, type(reader).__name__))


def tell_scale_of_ones(seen: Seen | None, reader: QuadraticObjective) -> None:
    """Warn, once for a model, that items without a value hardly count, as the fit's are larger."""
    if not reader.uses_values or seen is None or (had := seen.value_scale) is None:
        return
    if "values" in had.told or are_values_told() or not had.is_above_ones():
        return
    had.told.add("values")
    _log.warning(
        Notice(
            f"each item counts 1 without `values`, and the interactions of the model have values "
            f"{had}: {type(reader).__name__} reads both as of one unit; pass `values` in that of "
            "the fit"
        )
    )


def _of_other_scale(name: str, given: ValueScale, had: ValueScale, reader: str) -> Notice:
    return Notice(
        f"`{name}` has values {given}, and the interactions of the model have values {had}: "
        f"{reader} reads both as of one unit; bring them to that of the fit"
    )


def tell_unweighted(name: str, given: object, weightings: Sequence[str]) -> None:
    """Warn of values as they are where those of the fit were weighted, but by recency."""
    known = [each for each in weightings if each != "recency_weight"]
    if not known or not isinstance(given, Interactions):
        return
    if any(each in known for each in given.weightings):
        return
    how = f"pass `mfrank.{known[0]}({name})`"
    if known != ["log_weight"]:  # which depend on all data
        how = "fit anew to all data, weighted together"
    _log.warning(
        Notice(
            f"`{name}` has values as they are, and those of the fit were weighted by "
            f"`{'` and `'.join(known)}`: {how}"
        )
    )


def _tell_no_values(new: Interactions, old: NDArray[np.floating], reader: str) -> bool:
    """Warn, and return True, if there are no values, or all are 1, beside ratings."""
    had, values = ValueScale.of(_some(old)), new.user_items.data
    source, n_users = new.cells.values_from, np.count_nonzero(new.counts.users)
    if had is None or not had.are_ratings or source == "weights" or n_users < _SEVERAL:
        return False
    if new.threshold is not None or (source != "repeats" and not (values == 1).all()):
        return False
    _log.warning(_of_other_scale("new", ValueScale.of_all(values), had, reader))
    return True


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
