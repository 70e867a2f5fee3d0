"""Lists for every user, written file by file: memory does not grow with the users."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.checks import check_choice, check_length
from mfrank.arrays.progress import progress_bar
from mfrank.cluster.connecting import Cluster
from mfrank.data.ids import Ids
from mfrank.data.table_writer import check_table_file, write_table
from mfrank.files.manifest import Format
from mfrank.files.parts import begun, check_takes_parts
from mfrank.retrieval import fingerprint
from mfrank.retrieval.fallback import tell_nobody, unannounced
from mfrank.retrieval.list_tables import Table, list_table
from mfrank.retrieval.on_workers import Part, written_on_workers
from mfrank.retrieval.per_user import for_all_users, part_of

if TYPE_CHECKING:
    from mfrank.retrieval.recommender import Recommender

__all__ = ["AllLists", "ListFormat", "Plan"]

ListFormat = Literal["parquet", "csv"]

FORMAT = Format("mfrank lists", 1)

_PLACES_AT_ONCE = 1 << 20
"""Number of list places in a file: the users of one file are in memory at a time."""
_BYTES_A_PLACE: Mapping[str, int] = {"parquet": 150, "csv": 320}
_TRIED = 1000
"""Users whose lists are made to estimate the size of all."""

_BY_USER = ("user_items", "filter_items", "items")
_FLAGS = ("filter_already_liked_items", "recalculate_user", "by_row")


class Plan(NamedTuple):
    """What making the lists of all users takes.

    Attributes
    ----------
    users : int
    files : int
        Number of files that are not yet in the folder.
    rows, bytes_on_disk : int
        Of all files, estimated from the lists of up to 1,000 users.
    bytes_of_memory : int
        About the memory needed beside the model while a file is made.
    """

    users: int
    files: int
    rows: int
    bytes_on_disk: int
    bytes_of_memory: int


@dataclass(frozen=True, eq=False)
class AllLists:
    """The lists of all users of a model, cut into files with equally many places.

    Parameters
    ----------
    model : Recommender
        Lists are of the model as it is now, also if it changes before they are written.
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
            the workers do not all have the arithmetic of this process.
        ConnectionError
            If nothing answers at the address of the cluster.
        OSError
            If writing fails; the files that are there stay.
        """
        with (
            begun(folder, self._origin(), FORMAT, self.names) as missing,
            progress_bar(self.n_users, "recommend", "user", shown=show_progress) as advance,
        ):
            left = set(missing)
            parts = [part for part in self._parts(folder) if part.path.name in left]
            advance(self.n_users - sum(part.end - part.begin for part in parts))
            written: Iterable[Part] = map(self._written, parts)
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

    def plan(self, folder: Path) -> Plan:
        """What :meth:`write` would take, after its checks; the folder does not change."""
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
        return Plan(
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

    def _parts(self, folder: Path) -> list[Part]:
        """All files; on workers their paths mean the same."""
        begins, here = range(0, max(self.n_users, 1), self._users), folder.absolute()
        return [
            Part(here / name, begin, min(begin + self._users, self.n_users))
            for name, begin in zip(self.names, begins, strict=True)
        ]

    def _written(self, part: Part) -> Part:
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
        digests["model"] = fingerprint.of_model(self.model)
        if flags["filter_already_liked_items"] and self.model.seen is not None:
            digests["training data"] = fingerprint.of_filter(self.model.seen.matrix)
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
