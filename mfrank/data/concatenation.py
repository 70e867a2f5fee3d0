"""Interactions of several data sets as one, such as today's clicks after those of earlier days."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mfrank.data import cells
from mfrank.data.cells import ValuesFrom
from mfrank.data.ids import Ids
from mfrank.data.merging import Duplicates
from mfrank.data.notes import log as _log
from mfrank.data.odd_times import check_parts
from mfrank.data.sources import Parts, check_duplicates, finite
from mfrank.data.values import ScalesOfParts
from mfrank.errors import InputTypeError, InputValueError, Notice

if TYPE_CHECKING:
    from mfrank.data.interactions import Interactions


def as_parts(parts: Any, kind: type[Interactions]) -> list[Interactions]:
    """A list of interactions; raise ValueError or TypeError if it is something else."""
    each = list(parts) if isinstance(parts, Iterable) else [parts]
    wrong = [part for part in each if not isinstance(part, kind)]
    if wrong or not isinstance(parts, Iterable):
        got = type((wrong or each)[0]).__name__
        raise InputTypeError(f"`parts` must be a list of Interactions, got {got}")
    if not each:
        raise InputValueError("`parts` must have at least one Interactions")
    return each


def joined(each: Sequence[Interactions], duplicates: Duplicates) -> Parts:
    """Join interactions into one set of cells; rows of the first keep their numbers.

    A cell is only seen if it occurs in one of them and has a value in none.

    Raises
    ------
    ValueError
        If ids are integers in only some, only some have timestamps, or these are in different
        units.
    """
    check_duplicates(duplicates)
    scales = ScalesOfParts()
    for number, one in enumerate(each, 1):
        scales.add(f"part {number}", one.largest)
    scales.tell()
    user_ids = joined_ids("user", [one.user_ids for one in each])
    item_ids = joined_ids("item", [one.item_ids for one in each])
    shape = len(user_ids), len(item_ids)
    cells.check_shape(shape)
    _tell_unweighted(each)
    rows = [user_ids.rows(one.user_ids.labels) for one in each]
    columns = [item_ids.rows(one.item_ids.labels) for one in each]
    found = cells.from_triples(
        np.concatenate([at[one.entry_users] for at, one in zip(rows, each, strict=True)]),
        np.concatenate([at[one.user_items.indices] for at, one in zip(columns, each, strict=True)]),
        np.concatenate([one.user_items.data for one in each]),
        _joined_times(each),
        shape=shape,
        duplicates=duplicates,
        largest=np.concatenate([one.largest for one in each]),
    )
    sources = {one.cells.values_from for one in each}
    if "weights" in sources or (len(sources) == 1 and found.values_from == "given"):
        source: ValuesFrom = "weights" if "weights" in sources else sources.pop()
        found = found._replace(values_from=source)
    seen_only = [] if found.seen_only is None else [found.seen_only]
    for one, users, items in zip(each, rows, columns, strict=True):
        if (only := one.seen_only) is not None:
            seen_only.append(cells.moved(only.cells, users, items, shape))
    if seen_only:
        known = cells.joined(seen_only)
        left = known.take(cells.not_in(known.rows, found.rows))
        found = found._replace(seen_only=left)
    return finite(found, user_ids, item_ids)


def joined_ids(name: str, each: Sequence[Ids]) -> Ids:
    """The ids of the first, then the new ids of the others, so rows of the first stay.

    Raises
    ------
    ValueError
        If only some ids are integers: equal ids would seem to differ.
    """
    ids, *others = (one for one in each if len(one)) if any(map(len, each)) else each[:1]
    for other in others:
        if ids.labels.dtype != other.labels.dtype:
            raise InputValueError(
                f"{name} ids are like {ids.labels.item(0)!r} in one part and like "
                f"{other.labels.item(0)!r} in another",
                'convert one of them, or read both with `ids="text"`',
            )
        new = other.labels[ids.rows(other.labels, missing=-1) < 0]
        if len(new):
            ids = ids.followed_by(new)
    return ids


def _tell_unweighted(each: Sequence[Interactions]) -> None:
    """Warn of a part that is weighted beside one that is not; what is recent may well not be."""
    found = [[name for name in one.weightings if name != "recency_weight"] for one in each]
    with_entries = [names for names, one in zip(found, each, strict=True) if one.nnz]
    if not any(with_entries) or all(with_entries):
        return
    one, other = found.index(max(found)), found.index([])
    _log.warning(
        Notice(
            f"part {one + 1} is weighted by `{found[one][0]}`, and part {other + 1} is not: join "
            "them first, and weight the whole"
        )
    )


def _joined_times(each: Sequence[Interactions]) -> NDArray[np.int64] | None:
    """All timestamps, or None if there are none; ValueError if they do not fit together."""
    times = [one.timestamps for one in each if one.timestamps is not None]
    if len(times) not in (0, len(each)):
        raise InputValueError(
            f"{len(times)} of {len(each)} parts have timestamps",
            "leave them out of these with `dataclasses.replace(part, timestamps=None)`",
        )
    if not times:
        return None
    latest = dict[str, int]()
    for number, one in enumerate(each, 1):
        known = [one.timestamps, None if one.seen_only is None else one.seen_only.timestamps]
        ends = [int(some.max()) for some in known if some is not None and len(some)]
        if ends:
            latest[f"part {number}"] = max(ends)
    check_parts(latest, "read each part in its own unit, `timestamp_unit=`")
    return np.concatenate(times)
