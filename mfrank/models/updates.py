"""Which updates a model has had, in its history, so that none is applied twice unseen.

The record of an update has two numbers of 52 bits, which JSON and JavaScript have as they are: one
made of the name of its batch, and one of its interactions.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from hashlib import sha256

from mfrank.arrays.checks import shown
from mfrank.data.interactions import Interactions
from mfrank.retrieval.fingerprint import of_filter
from mfrank.store.history import History
from mfrank.store.step import Record

__all__ = ["check_batch", "content_of", "updated", "was_applied"]

_log = logging.getLogger("mfrank")

_MOST = 1000  # updates whose numbers are kept


def check_batch(batch: str | None) -> None:
    """Raise unless it is the name of a batch, or None."""
    if batch is not None and not isinstance(batch, str):
        raise TypeError(f'batch must be a name, such as "2026-11-25", got {shown(batch)}')
    if batch is not None and not batch.strip():
        raise ValueError('batch must be a name, such as "2026-11-25", got an empty one')


def was_applied(history: History, batch: str | None, content: int) -> bool:
    """Whether the model has a batch of this name; log it.

    Interactions that the model has from an earlier update are logged, too: without a name, or with
    another one, they are applied again.
    """
    name = _number(batch)
    if name is not None and (before := [one for one in history if one.get("batch") == name]):
        if before[-1].get("content") == content:
            _log.info("batch %r was applied before: the model stays as it is", batch)
        else:
            _log.warning(
                "batch %r was applied before, with other interactions: the model stays as it is; "
                "if these are new ones, name them otherwise with batch=",
                batch,
            )
        return True
    if content and any(one.get("content") == content for one in history):
        _log.warning(
            "these interactions are those of an earlier update, and are applied again; where each "
            "update has a name, by batch=, it is applied once"
        )
    return False


def updated(history: History, record: Record, batch: str | None, content: int) -> Sequence[Record]:
    """The history and the record of an update, which gets its numbers."""
    numbered = [place for place, one in enumerate(history) if "content" in one]
    forgotten = set(numbered[: max(0, len(numbered) + 1 - _MOST)])
    records = [
        {name: one[name] for name in one if name not in ("batch", "content")}
        if place in forgotten
        else dict(one)
        for place, one in enumerate(history)
    ]
    return [*records, {**record, "batch": _number(batch), "content": content}]


def content_of(new: Interactions) -> int:
    """A number made of interactions, with their ids, values and times; 0 if there are none."""
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
