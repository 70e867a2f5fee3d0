"""Lists of all users, written file by file in bounded memory, here or by workers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import (
    check_choice,
    check_length,
    checked_rows,
    progress_bar,
    sparse_to_host,
    to_host,
)
from mfrank.backends.sharded import check_one_place, same_workers, threads_of_a_task
from mfrank.cluster import Call, Cluster, as_done, connected, held
from mfrank.data import Ids, Interactions, check_table_file, write_table
from mfrank.errors import InputValueError
from mfrank.files import Format, check_takes_parts, writing_parts
from mfrank.retrieval import fingerprint
from mfrank.retrieval.fallback import tell_nobody, unannounced
from mfrank.retrieval.filters import given_filter, is_nested

if TYPE_CHECKING:
    from mfrank.retrieval.recommender import Recommender

# Files that the workers of a cluster write; each is complete or not there.


class ListsPart(NamedTuple):
    """A file, and the rows of its users.

    Attributes
    ----------
    path : Path
    begin, end : int
    n_nobody : int
        Number of these users without usable data; set when the file is written.
    """

    path: Path
    begin: int
    end: int
    n_nobody: int = 0


def written_on_workers(
    cluster: Cluster,
    parts: Sequence[ListsPart],
    write: Callable[[Any, ListsPart], ListsPart],
    source: Callable[[int], Any],
    *,
    backend: str,
    n_threads: int,
) -> Iterator[ListsPart]:
    """Write files as tasks on a checked cluster; yield each file when it is written.

    ``write`` is a task, of the source of the lists and a part; it may run twice. ``source`` makes
    that source, for a number of threads, and it is sent to each worker once.

    Raises
    ------
    ConnectionError, ValueError
        The cluster does not answer, its workers' arithmetic differs from this process's, or the
        backend is on a GPU.
    OSError
        A file cannot be written, or lies on another disk.
    """
    check_one_place(cluster, backend)
    with connected(cluster) as engine:
        workers = same_workers(engine, backend)
        lists = engine.submit(held, source(threads_of_a_task(workers, n_threads)))
        calls = ((part, Call(_written, (lists, write, part))) for part in parts)
        for part, done in as_done(engine, len(workers), calls):
            if not part.path.exists():
                raise OSError(_other_disk(part.path, "a worker wrote it, and it is not here"))
            yield done


def _written(
    source: Any, write: Callable[[Any, ListsPart], ListsPart], part: ListsPart
) -> ListsPart:
    if not part.path.parent.is_dir():
        raise OSError(_other_disk(part.path, "a worker does not see its folder"))
    return write(source, part)


def _other_disk(path: Path, what: str) -> str:
    return f"{path}: {what}; pass a folder on a disk that all workers see, at the same path"


# Ranked lists as tables: one row for each place of a list that is filled.


Table = Mapping[str, NDArray[Any]]
"""Columns of equal length by name."""


def list_table(
    asked: tuple[str, NDArray[Any]], answered: tuple[str, NDArray[Any]], scores: NDArray[Any]
) -> Table:
    """A table with the columns query, rank (from 1), answer and score.

    Parameters
    ----------
    asked : name and ids, shape (U,)
    answered : name and ids, shape (U, N)
    scores : shape (U, N)
        NaN is padding.
    """
    listed = ~np.isnan(scores)
    of, rank = np.nonzero(listed)
    return {
        asked[0]: asked[1][of],
        "rank": rank + 1,
        answered[0]: answered[1][listed],
        "score": scores[listed],
    }


# Filters and matrices of a call for all users; each block of users gets its part of them.


def for_all_users(values: Any, n_users: int, argument: str) -> Any:
    """Check an argument of :meth:`mfrank.Recommender.recommend_all`, and copy it from a GPU.

    A sparse matrix, or lists of ids, must have a row for each user: ValueError, if not.
    """
    matrix = sparse_to_host(values)
    if not isinstance(matrix, Interactions):
        matrix = given_filter(matrix, argument)
    given = to_host(matrix, argument)
    is_sparse: bool = sp.issparse(given)
    if not is_sparse and not is_nested(given):
        return given
    n_rows = given.shape[0] if is_sparse else len(given)
    if n_rows != n_users:
        raise InputValueError(
            f"`{argument}` must have a row for each of {n_users} users, got {n_rows}"
        )
    return checked_rows(given, argument) if is_sparse else given


def part_of(values: Any, rows: NDArray[np.int64]) -> Any:
    """The rows of some users; Interactions and arguments common to all users are unchanged."""
    if isinstance(values, sp.csr_array) or (isinstance(values, np.ndarray) and values.ndim > 1):
        return values[rows]
    return [values[row] for row in rows.tolist()] if is_nested(values) else values


ListFormat = Literal["parquet", "csv"]

FORMAT = Format("mfrank lists", 1)

_PLACES_AT_ONCE = 1 << 20
"""Number of list places in a file: the users of one file are in memory at a time."""
_BYTES_A_PLACE: Mapping[str, int] = {"parquet": 150, "csv": 320}
_TRIED = 1000
"""Users whose lists are made to estimate the size of all."""

_BY_USER = ("user_items", "filter_items", "items")
_FLAGS = ("filter_already_liked_items", "recalculate_user", "by_row")


class ListsPlan(NamedTuple):
    """Cost of the lists of all users.

    Attributes
    ----------
    users : int
    files : int
        Number of files that are not yet in the folder.
    rows, bytes_on_disk : int
        Totals of all files, estimated from the lists of up to 1,000 users.
    bytes_of_memory : int
        Approximate memory for one file, in addition to the model.
    """

    users: int
    files: int
    rows: int
    bytes_on_disk: int
    bytes_of_memory: int


@dataclass(frozen=True, eq=False)
class AllLists:
    """The lists of all users of a model, divided into files with equally many positions.

    Parameters
    ----------
    model : Recommender
        The lists are of the model in its present state, even if it changes before they are written.
    n : int
        Length of a list.
    format : {"parquet", "csv"}
    options : mapping
        All other arguments of :meth:`mfrank.Recommender.recommend` by name; arguments with a row
        per user have a row for each user of the model.

    Raises
    ------
    TypeError, ValueError
        If an option is invalid.
    ModuleNotFoundError
        If parquet is to be written and pandas or pyarrow is not installed.
    """

    model: Recommender
    n: int
    format: ListFormat
    options: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", self.model._snapshot())
        check_length("N", self.n)
        check_choice("format", self.format, get_args(ListFormat))
        check_table_file(self._name(0))
        if self.format == "parquet" and not self.options["by_row"]:
            self.model.user_ids.check_column("user ids")
            self.model.item_ids.check_column("item ids")
        given = dict(self.options)
        for name in _BY_USER:
            given[name] = for_all_users(given[name], self.n_users, name)
        object.__setattr__(self, "options", given)
        with unannounced():
            self._table(np.arange(min(1, self.n_users)))  # refuses what recommend would

    @property
    def n_users(self) -> int:
        """Number of users of the model."""
        return len(self.model.user_ids)

    @property
    def names(self) -> list[str]:
        """Names of the files."""
        return [self._name(number) for number in range(max(1, -(-self.n_users // self._users)))]

    def write(
        self, folder: Path, *, show_progress: bool = False, cluster: Cluster | None = None
    ) -> None:
        """Write the files that are not yet in the folder, here or on a checked ``cluster``.

        Raises
        ------
        ValueError
            If the folder contains other files, or lists of another model or with other options; or
            the workers' arithmetic differs from this process's.
        ConnectionError
            If nothing answers at the address of the cluster.
        OSError
            If writing fails; finished files stay.
        """
        with (
            writing_parts(folder, self._origin(), FORMAT, self.names) as missing,
            progress_bar(self.n_users, "recommend", "user", shown=show_progress) as advance,
        ):
            left = set(missing)
            parts = [part for part in self._parts(folder) if part.path.name in left]
            advance(self.n_users - sum(part.end - part.begin for part in parts))
            written: Iterable[ListsPart] = map(self._written, parts)
            if cluster is not None:
                written = written_on_workers(
                    cluster,
                    parts,
                    AllLists._written,
                    self._by_threads,
                    backend=self.model.backend,
                    n_threads=self.options["n_threads"],
                )
            n_nobody = n_users = 0
            for part in written:
                advance(part.end - part.begin)
                n_nobody, n_users = n_nobody + part.n_nobody, n_users + part.end - part.begin
        tell_nobody(n_nobody, n_users, "user", filled=self.options["fallback"] != "none")

    def plan(self, folder: Path) -> ListsPlan:
        """Check like :meth:`write` and return its cost; the folder does not change."""
        check_takes_parts(folder, self._origin(), FORMAT, self.names)
        tried = np.unique(np.linspace(0, self.n_users - 1, min(self.n_users, _TRIED), dtype=int))
        with unannounced():
            table = self._table(tried)
        with tempfile.TemporaryDirectory() as place:
            file = Path(place, self._name(0))
            write_table(file, table)
            size = file.stat().st_size
        share = self.n_users / max(len(tried), 1)
        rows = len(table["score"])
        missing = [name for name in self.names if not (folder / name).exists()]
        places = min(self._users, self.n_users) * self.n
        return ListsPlan(
            users=self.n_users,
            files=len(missing),
            rows=round(rows * share),
            bytes_on_disk=round(size * share),
            bytes_of_memory=places * _BYTES_A_PLACE[self.format],
        )

    @property
    def _users(self) -> int:
        """Users of a file."""
        return max(1, _PLACES_AT_ONCE // self.n)

    def _name(self, number: int) -> str:
        return f"part-{number:05}.{self.format}"

    def _parts(self, folder: Path) -> list[ListsPart]:
        """All files; on workers their paths mean the same."""
        begins, here = range(0, max(self.n_users, 1), self._users), folder.absolute()
        return [
            ListsPart(here / name, begin, min(begin + self._users, self.n_users))
            for name, begin in zip(self.names, begins, strict=True)
        ]

    def _written(self, part: ListsPart) -> ListsPart:
        with unannounced() as n_nobody:
            write_table(part.path, self._table(np.arange(part.begin, part.end)))
        return part._replace(n_nobody=sum(n_nobody))

    def _by_threads(self, n_threads: int) -> AllLists:
        """The same lists, made with this number of threads."""
        lists = copy(self)
        object.__setattr__(lists, "options", {**self.options, "n_threads": n_threads})
        return lists

    def _table(self, rows: NDArray[np.int64]) -> Table:
        """The lists of the users of these rows."""
        model, by_row = self.model, self.options["by_row"]
        users = rows if by_row else _labels(model.user_ids.raw(rows), model.user_ids)
        own = {name: part_of(self.options[name], rows) for name in _BY_USER}
        items, scores = model.recommend(users, N=self.n, **{**self.options, **own})
        table = list_table(("user", users), ("item", items), scores)
        if by_row:
            return table
        return {**table, "item": _labels(table["item"], model.item_ids)}

    def _origin(self) -> dict[str, Any]:
        """Fingerprints of what the files are made from, for their manifest."""
        steer, fallback = self.options["steer"], self.options["fallback"]
        flags = {name: bool(self.options[name]) for name in _FLAGS}
        digests = {
            name: fingerprint.of_filter(
                self.options[name],
                with_values=name == "user_items" and flags["recalculate_user"],
            )
            for name in _BY_USER
        }
        digests["model"] = fingerprint.of_store(self.model.store)
        if flags["filter_already_liked_items"] and self.model.seen is not None:
            digests["training data"] = fingerprint.of_filter(self.model.seen.filtered.matrix)
        return {
            "N": int(self.n),
            "format": self.format,
            "users_per_file": self._users,
            "on_unknown": self.options["on_unknown"],
            **({} if fallback == "none" else {"fallback": fallback}),
            **({} if steer is None else {"steer": steer.digest}),
            **flags,
            **digests,
        }


def _labels(labels: NDArray[Any], ids: Ids) -> NDArray[Any]:
    """Ids without padding, as integers if all ids are integers, even if -1 is one of them."""
    whole = ids.table is None or ids.table.dtype == np.int64
    return labels.astype(np.int64) if whole else labels
