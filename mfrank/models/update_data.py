"""Updates of any model: what is new is read, matched by id, and not applied twice unseen."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp

from mfrank.arrays import shown, sparse_to_host
from mfrank.data import Ids, Interactions, cells, check_numbering
from mfrank.errors import InputTypeError, InputValueError, Notice
from mfrank.models.odd_updates import tell_odd_update
from mfrank.models.partial_fit import Delta
from mfrank.models.value_notes import tell_uncut
from mfrank.retrieval import ModelState, Recommender, Seen, left_out_of, of_filter
from mfrank.store import FactorStore, History, Record

_log = logging.getLogger("mfrank")

_NOTHING = sp.csr_array((0, 0), dtype=np.float32)
_MOST = 1000  # updates whose numbers are kept


def update_of(
    held: ModelState,
    old: sp.csr_array | None,
    new: Any,
    batch: str | None,
    leave_out: Any,
    after: Callable[[Delta, Interactions], tuple[FactorStore, int]],
    reader: str | None = None,
) -> tuple[FactorStore, Seen] | None:
    """The state of a model after an update; None if it has had the batch, which is logged.

    Parameters
    ----------
    held : ModelState
    old : csr_array, shape (n_users, n_items)
        The interactions of the fit with what the model reads of their values; None if unknown.
    new, batch, leave_out
        As in :meth:`mfrank.Descent.partial_fit`.
    after : function
        Called with the interactions, old and new together, and with the new ones; returns the store
        and the number of rows that were made anew.
    reader : str, optional
        Name of the model if it reads values.
    """
    began = perf_counter()
    check_batch(batch)
    chosen = chosen_of_update(leave_out, held.seen)
    store = held.on_host()
    data = new_of(new, store)
    content = content_of(data)
    if was_applied(store.history, batch, content):
        return None
    if held.seen is None or old is None:
        raise InputValueError(
            "the model has no interactions, which an update adds to:",
            "load a model saved with `with_seen=True`",
        )
    tell_uncut("new", data, store, "are learned from like the others")
    tell_odd_update(store, old, data, reader)
    delta = Delta.of(store, cells.with_zeros(old, held.seen.only), data, 1.0)
    made, n_rows = after(delta, data)
    made = replace(made, history=updated(store.history, n_rows, began, batch, content))
    more = None if chosen is None else left_out_of(chosen, made)
    return made, held.seen.updated(delta.seen, more)


# Which updates a model has had, in its history, so that none is applied twice unseen.
#
# The record of an update has two numbers of 52 bits, which JSON and JavaScript have as they are:
# one made of the name of its batch, and one of its interactions.


def check_batch(batch: str | None) -> None:
    """Raise unless ``batch`` is a valid name or None."""
    if batch is not None and not isinstance(batch, str):
        raise InputTypeError(f'`batch` must be a name, such as "2026-11-25", got {shown(batch)}')
    if batch is not None and not batch.strip():
        raise InputValueError('`batch` must be a name, such as "2026-11-25", got an empty one')


def was_applied(history: History, batch: str | None, content: int) -> bool:
    """Whether the model has already applied a batch of this name; logs it.

    Also warns if the same interactions were applied without this name: they are applied again.
    """
    name = _number(batch)
    if name is not None and (before := [one for one in history if one.get("batch") == name]):
        if before[-1].get("content") == content:
            _log.info("batch %r was applied before: the model stays as it is", batch)
        else:
            _log.warning(
                Notice(
                    f"batch {batch!r} was applied before, with other interactions: the model stays "
                    "as it is; if these are new ones, name them otherwise with `batch=`"
                )
            )
        return True
    if content and any(one.get("content") == content for one in history):
        _log.warning(
            Notice(
                "these interactions are those of an earlier update, and are applied again; where "
                "each update has a name, by `batch=`, it is applied once"
            )
        )
    return False


def last_batch(model: Recommender, batches: Sequence[str]) -> int | None:
    """The index of the last of these batches that a model has applied; None if it has none.

    Raises
    ------
    ValueError
        The history does not go back far enough to know.
    """
    records = model._updates
    applied = {one["batch"] for one in records if one.get("batch") is not None}
    for index in reversed(range(len(batches))):
        if _number(batches[index]) in applied:
            return index
    if batches and sum("content" in one for one in records) >= _MOST:
        raise InputValueError(
            f"the model has had {_MOST:,} other updates since, so that it is not known which of "
            "these it has",
            "fit it anew",
        )
    return None


def updated(
    history: History, rows: int, began: float, batch: str | None, content: int
) -> Sequence[Record]:
    """The history with this update at the end, of so many rows; old ones lose batch and content."""
    numbered = [place for place, one in enumerate(history) if "content" in one]
    forgotten = set(numbered[: max(0, len(numbered) + 1 - _MOST)])
    records = [
        {name: one[name] for name in one if name not in ("batch", "content")}
        if place in forgotten
        else dict(one)
        for place, one in enumerate(history)
    ]
    update: Record = {
        "epoch": len(history) + 1,
        "seconds": perf_counter() - began,
        "objective": None,
        "rows": rows,
        "batch": _number(batch),
        "content": content,
    }
    return [*records, update]


def content_of(new: Interactions) -> int:
    """A hash of interactions, including ids, values and times; 0 if there are none."""
    if not new.nnz:
        return 0
    try:
        text = str(of_filter(new, with_values=True))
    except ValueError:  # ids that cannot be saved
        ids = new.user_ids.labels.tolist(), new.item_ids.labels.tolist()
        text = f"{ids} {of_filter(new.user_items, with_values=True)}"
    times = b"" if new.timestamps is None else new.timestamps.tobytes()
    return _of_bytes(text.encode() + times)


def _number(batch: str | None) -> int | None:
    return None if batch is None else _of_bytes(batch.encode(errors="surrogatepass"))


def _of_bytes(text: bytes) -> int:
    return int.from_bytes(sha256(text).digest()[:7], "big") >> 4


def chosen_of_update(given: Any, seen: Seen | None) -> Interactions | None:
    """What lists leave out of an update, for a model whose lists leave out only some items."""
    if given is None:
        if seen is not None and seen.left_out is not None:
            _log.info(
                Notice("lists leave out all that is new in this update; `leave_out` names a part")
            )
        return None
    if seen is None or seen.left_out is None:
        raise InputValueError(
            "`leave_out` is for models whose lists leave out only some items of a user:",
            "choose these first, with `model.leave_out(user_items)`",
        )
    if sp.issparse(sparse_to_host(given)):
        raise InputTypeError(
            "`leave_out` is matched by id, and a matrix has none:", "pass Interactions or a table"
        )
    return Interactions.of(given)


def new_of(new: Any, store: FactorStore) -> Interactions:
    """New interactions, matched by id; raise if they are a matrix and the model's ids numbers."""
    here = sparse_to_host(_NOTHING if new is None else new)
    data = Interactions.of(here)
    for side in ("user", "item"):
        known: Ids = getattr(store, f"{side}_ids")
        if new is not None and sp.issparse(here) and known.table is not None and known.are_numbers:
            raise InputValueError(
                f"`new` is a matrix, whose rows have no ids, and the model's {side} ids are like "
                f"{known.labels.item(0)!r}:",
                "pass `Interactions.from_sparse(new, user_ids=..., item_ids=...)`",
            )
        check_numbering(getattr(data, f"{side}_ids"), known, "new", side)
    return data
