"""Groups of users by activity and of items by popularity, for evaluation by group."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import check_count, counted, is_labelled, refuse_labels, shown, to_host
from mfrank.data.columns import guess
from mfrank.data.feature_columns import is_missing, text_of_list
from mfrank.data.ids import Ids
from mfrank.data.interactions import Interactions
from mfrank.data.joining import by_ids
from mfrank.data.odd_ids import SPELLED_MISSING
from mfrank.errors import InputTypeError, InputValueError, Notice, within

_log = logging.getLogger("mfrank")

_MOST = 1000
_REMEDY = "bring it into the order of the rows with reindex(data.item_ids.labels).to_numpy()"
_NAME_IT = 'if its index has the ids, name it with rename_axis("item")'


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Groups:
    """Rows (users or items) divided into named groups.

    Attributes
    ----------
    names : tuple of str
        Names of the groups, in order.
    of_rows : int64, shape (n_rows,)
        Group of each row, as an index into ``names``; -1 for none.
    ids : Ids or None, default None
        Ids of the rows, which match the groups to other data, such as a model that has been updated
        since. With None or row numbers, rows are matched by order.

    Raises
    ------
    TypeError, ValueError
        ``names`` are not distinct strings, or ``of_rows`` is not such an array.
    """

    names: tuple[str, ...]
    of_rows: NDArray[np.int64]
    ids: Ids | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.names, tuple) or not all(isinstance(n, str) for n in self.names):
            raise InputTypeError(f"`names` must be a tuple of str, got {shown(self.names)}")
        if len(set(self.names)) < len(self.names):
            raise InputValueError(f"`names` must be distinct, got {shown(self.names)}")
        refuse_labels("of_rows", self.of_rows, _REMEDY)
        rows = np.asarray(to_host(self.of_rows, "of_rows"))
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise InputTypeError(
                f"`of_rows` must be a one-dimensional array of integers, got {shown(self.of_rows)}"
            )
        if len(rows) >= 2**31:
            raise InputValueError(f"`of_rows` must have at most 2^31 - 1 rows, got {len(rows)}")
        if len(rows) and not -1 <= int(rows.min()) <= int(rows.max()) < len(self.names):
            raise InputValueError(
                f"`of_rows` must be from -1 to {len(self.names) - 1}, numbers of the "
                f"{counted(len(self.names), 'name')}; got {rows.min()} to {rows.max()}"
            )
        if self.ids is not None and len(self.ids) != len(rows):
            raise InputValueError(f"`ids` must name the {len(rows):,} rows, got {len(self.ids):,}")
        object.__setattr__(self, "of_rows", rows.astype(np.int64))

    @classmethod
    def of(cls, labels: Sequence[Any] | NDArray[Any] | Mapping[Any, Any]) -> Groups:
        """Groups from a label for each row, such as the genre of each item.

        A row with a missing label (None, NaN, NA), or without a label, is in no group.

        Parameters
        ----------
        labels : mapping of id to str, int or None; or sequence of these, shape (n_rows,)
            A mapping is matched by id, in any order. So is a pandas Series whose index has a name
            or is not numeric, such as ``frame.set_index("item")["genre"]``. A sequence is in the
            order of the rows, such as ``data.item_ids``.

        Raises
        ------
        TypeError, ValueError
            ``labels`` is a string, is not one-dimensional, or all labels are missing; ids are
            invalid or repeat; or a Series has a numeric index without a name, as left by sorting or
            filtering.

        Examples
        --------
        >>> genres = Groups.of({"item-3": "war", "item-1": "love"})
        """
        ids, labels = _divided(labels)
        if isinstance(labels, str | bytes):
            raise InputValueError(
                f"`labels` must be a sequence with a label for each row, got {shown(labels)}"
            )
        refuse_labels("labels", labels, f"{_REMEDY}; {_NAME_IT}")
        given = np.asarray(to_host(labels, "labels"), dtype=object)
        if given.ndim != 1:
            raise InputValueError(
                f"`labels` must have one dimension, got shape {given.shape}",
                'of a table, pass one column, such as `frame.set_index("item")["genre"]`',
            )
        texts = [
            None if is_missing(label) and not isinstance(label, str) else str(label)
            for label in given
        ]
        names = sorted({text for text in texts if text is not None})
        if not names:
            raise InputValueError(
                f"`labels` must have a label that is not missing, got {shown(labels)}"
            )
        spelled = [name for name in names if name.strip().casefold() in SPELLED_MISSING]
        if spelled:
            _log.warning(
                "the group %r, of %s, may stand for a missing label: write None for none",
                *(spelled[0], counted(texts.count(spelled[0]), "row")),
            )
        if (listed := text_of_list(names)) is not None:
            _log.warning(
                Notice(
                    f"`labels` have texts like {shown(listed)}, which seem to be lists, and each "
                    "is a group of its own; pass one label for each row, such as the first"
                )
            )
        number = {name: place for place, name in enumerate(names)} | {None: -1}
        of_rows = np.array([number[text] for text in texts], dtype=np.int64)
        return cls(tuple(names), of_rows, ids)

    def in_rows_of(self, ids: Ids | None) -> Groups:
        """The groups of the rows with these ids; unknown ids are in no group.

        Raises
        ------
        ValueError
            All ids are unknown.
        """
        try:
            of_rows, unknown = by_ids(self.of_rows, self.ids, ids, -1)
        except ValueError as error:
            raise within("`groups`", error) from None
        if of_rows is self.of_rows:
            return self
        if unknown:
            _log.info(
                "in no group, because the data that groups were made of lack them: %s of the "
                "evaluation",
                counted(unknown, "row"),
            )
        return Groups(self.names, of_rows, ids)

    def are_all_of(self, ids: Ids | None) -> bool:
        """Whether these are groups of the rows with these ids, and of no others."""
        own = self.ids
        if own is None or ids is None or len(own) != len(ids):
            return False
        return own == ids or bool((ids.rows(own.labels, missing=-1) >= 0).all())

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of rows in each group, shape (len(names),)."""
        return np.bincount(self.of_rows[self.of_rows >= 0], minlength=len(self.names))

    def __repr__(self) -> str:
        rows = ", ".join(
            f"{name} ({counted(size, 'row')})"
            for name, size in zip(self.names, self.sizes.tolist(), strict=True)
        )
        return f"Groups({rows})"


def _divided(labels: Any) -> tuple[Ids | None, Any]:
    """The ids of the rows, if the labels have any, and the labels in their order."""
    if isinstance(labels, Mapping):
        raw, given = list(labels), list(labels.values())
    elif hasattr(type(labels), "iloc") and _has_ids(labels):
        raw, given = labels.index, labels.to_numpy()
    else:
        return None, labels
    try:
        ids = Ids.of(raw)
    except (TypeError, ValueError) as error:
        raise within("`labels`", error) from error
    return Ids(len(ids), ids.labels), given  # as ids also if they happen to be 0..n-1


def _has_ids(series: Any) -> bool:
    """Whether the index is ids, and not what sorting or filtering leaves of one that counts."""
    name = series.index.name
    if any(guess([name], side) for side in ("user", "item")):
        return True
    return is_labelled(series) and (name is not None or series.index.dtype.kind not in "iuf")


def by_activity(interactions: Any, n: int = 4) -> Groups:
    """Divide users into groups of about equal size by their number of items.

    Users with equal numbers of items are in one group, so there may be fewer groups, of unequal
    sizes. Users without items are a group of their own.

    Parameters
    ----------
    interactions : Interactions, scipy sparse (users x items) or DataFrame
        The training data.
    n : int, default 4
        Number of groups, from 1 to 1,000.

    Returns
    -------
    Groups
        Groups of users, the least active first, for :meth:`Evaluation.by_group
        <mfrank.evaluation.report.Evaluation.by_group>`.

    Raises
    ------
    TypeError, ValueError
        ``n`` is not an int from 1 to 1,000.
    """
    check_count("n", n, 1, _MOST)
    data = Interactions.of(interactions)
    return replace(groups_by_activity(data.counts.users, n), ids=data.user_ids)


def groups_by_activity(counts: NDArray[np.int64], n: int) -> Groups:
    """The groups of :func:`by_activity`, from the number of items of each user."""
    return _at_quantiles(counts, np.ones_like(counts), n, "item")


def by_popularity(interactions: Any, n: int = 3) -> Groups:
    """Divide items by their number of users into groups with about equally many interactions.

    With three groups, the first is the long tail, many items with a third of the interactions, and
    the last is the head. Items with equally many users are in one group, so there may be fewer
    groups. Items without users are a group of their own.

    Parameters
    ----------
    interactions : Interactions, scipy sparse (users x items) or DataFrame
        The training data.
    n : int, default 3
        Number of groups, from 1 to 1,000.

    Returns
    -------
    Groups
        Groups of items, the least popular first, for ``evaluate(..., item_groups=...)``.

    Raises
    ------
    TypeError, ValueError
        ``n`` is not an int from 1 to 1,000.
    """
    check_count("n", n, 1, _MOST)
    data = Interactions.of(interactions)
    return replace(groups_by_popularity(data.counts.items, n), ids=data.item_ids)


def groups_by_popularity(counts: NDArray[np.int64], n: int) -> Groups:
    """The groups of :func:`by_popularity`, from the number of users of each item."""
    return _at_quantiles(counts, counts, n, "user")


def _at_quantiles(
    counts: NDArray[np.int64], weights: NDArray[np.int64], n: int, noun: str
) -> Groups:
    """Cut rows, ordered by their counts, into n parts of about equal weight."""
    order = np.argsort(counts, kind="stable")
    order = order[np.searchsorted(counts[order], 1) :]  # those that have any
    summed = np.cumsum(weights[order])
    total = int(summed[-1]) if len(summed) else 0
    ends = np.searchsorted(summed, [total * part / n for part in range(1, n)], side="left")
    # Up to the count at which a part ends; equal counts stay together.
    bounds = np.unique(np.concatenate([[0], counts[order[ends]] if total else []]))
    groups = np.searchsorted(bounds, counts, side="left")
    there, of_rows = np.unique(groups, return_inverse=True)
    names = [
        _name(int(counts[groups == group].min()), int(counts[groups == group].max()), noun)
        for group in there
    ]
    return Groups(tuple(names), of_rows.astype(np.int64))


def _name(least: int, most: int, noun: str) -> str:
    if most == 0:
        return f"no {noun}s"
    return counted(least, noun) if least == most else f"{least:,} to {counted(most, noun)}"
