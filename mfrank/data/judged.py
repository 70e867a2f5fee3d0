"""Documents judged for queries: the training data of learning to rank."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import (
    Seed,
    check_same_rows,
    counted,
    floats_of,
    generator,
    share,
    table,
    to_host,
)
from mfrank.data.frames import columns_reader, is_frame
from mfrank.data.ids import Ids
from mfrank.data.labels import RawIds
from mfrank.data.svmlight import read_svmlight
from mfrank.errors import InputTypeError, InputValueError, within

_log = logging.getLogger("mfrank")

_ANSWERS = ("qid", "query", "queryid", "relevance", "grade", "label", "target")
_SHOWN = 3  # documents named in an error
_FEWEST = 10
"""Documents from which on a feature that equals something else is no accident."""
_HIGHEST = 31  # grade; LightGBM refuses higher ones


@dataclass(frozen=True, eq=False, repr=False)
class Judged:
    """Documents with features, each judged for one query.

    Its arrays are read-only but may share memory with the arguments: do not write to these.

    Parameters
    ----------
    features : array-like, shape (n_documents, n_features)
        Finite numbers; float32 and float64 keep their dtype, others become float64.
    relevance : array-like, shape (n_documents,)
        Finite and >= 0; 0 means not relevant. Usually small integer grades, with the gain
        2^relevance - 1 in the papers. Stored as float64.
    queries : ids, shape (n_documents,)
        The query of each document. Documents of a query need not be adjacent.

    Attributes
    ----------
    query_ids : Ids
        The distinct queries.
    query_rows : int64, shape (n_documents,)
        Row of each document's query in ``query_ids``.
    feature_names : tuple of str, or None
        Names of the columns, if ``features`` is a table.

    Raises
    ------
    TypeError, ValueError
        There are no documents, lengths differ, Series or DataFrames have different indexes, or
        values are invalid.

    Examples
    --------
    >>> judged = Judged([[0.1, 3], [0.4, 1], [0.2, 0]], relevance=[2, 0, 1], queries=[7, 7, 9])
    >>> judged
    Judged(3 documents of 2 queries, 2 features, 2 relevant)
    """

    features: NDArray[Any]
    relevance: NDArray[np.float64]
    query_ids: Ids
    query_rows: NDArray[np.int64]
    feature_names: tuple[str, ...] | None

    def __init__(self, features: ArrayLike, relevance: ArrayLike, queries: RawIds) -> None:
        check_same_rows(features=features, relevance=relevance, queries=queries)
        matrix = feature_matrix(features)
        if not len(matrix):
            raise InputValueError("there are no documents: `features` has no row")
        grades = _relevance(relevance, len(matrix))
        if isinstance(queries, np.ndarray) and queries.ndim == 1:  # too many are not read
            _refuse_unequal(len(queries), len(matrix))
        try:
            query_ids, query_rows = Ids.factorize(queries)
        except (TypeError, ValueError) as error:
            raise within("`queries`", error) from error
        _refuse_unequal(len(query_rows), len(matrix))
        object.__setattr__(self, "query_ids", query_ids)
        object.__setattr__(self, "feature_names", feature_names(features))
        _tell_of_answers(self.feature_names or ())
        arrays = {"features": matrix, "relevance": grades, "query_rows": query_rows}
        for name, array in arrays.items():
            object.__setattr__(self, name, _read_only(array))
        for told in (_tell_of_equals, _tell_of_ranks, _tell_of_grades):
            told(self)

    @classmethod
    def from_svmlight(
        cls, path: str | os.PathLike[str], *, n_features: int | None = None
    ) -> Judged:
        """Read LETOR text: lines ``relevance qid:query 1:value 2:value ... # comment``.

        Parameters
        ----------
        path : path
        n_features : int, optional
            Number of features, if the last ones may be absent from the file; by default the largest
            feature number in the file.

        Raises
        ------
        ValueError
            If the file is malformed; the message names the file and the line.
        """
        features, relevance, queries = read_svmlight(path, n_features)
        judged = cls(features, relevance, queries)
        _tell_of_queries_in_parts(judged, path)
        return judged

    def __repr__(self) -> str:
        queries = f"{self.n_queries} {'query' if self.n_queries == 1 else 'queries'}"
        return (
            f"Judged({counted(self.n_documents, 'document')} of {queries}, "
            f"{counted(self.n_features, 'feature')}, {np.count_nonzero(self.relevance)} relevant)"
        )

    def _repr_html_(self) -> str:
        rows = [
            ("documents", f"{self.n_documents:,}"),
            ("relevant", f"{np.count_nonzero(self.relevance):,}"),
            ("relevance", f"{self.relevance.min():g} to {self.relevance.max():g}"),
            ("queries", self.query_ids.summary),
            ("features", f"{self.n_features:,}"),
        ]
        return table("Judged", rows)

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return len(self.features)

    @property
    def n_features(self) -> int:
        """Width of the features."""
        return int(self.features.shape[1])

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.query_ids)

    def hold_out(self, part: float = 0.2, random_state: Seed = None) -> tuple[Judged, Judged]:
        """Split at random by query into a training part and a validation part.

        Parameters
        ----------
        part : float, default 0.2
            Fraction of the queries to hold out, in (0, 1); at least one query, and never all.
        random_state : int, numpy.random.Generator or None

        Raises
        ------
        ValueError
            There is only one query, or ``part`` is not in (0, 1).
        """
        share("part", part)
        if self.n_queries < 2:
            raise InputValueError("a single query cannot be split: `hold_out` needs two or more")
        size = min(max(round(part * self.n_queries), 1), self.n_queries - 1)
        held = np.zeros(self.n_queries, dtype=bool)
        held[generator(random_state).permutation(self.n_queries)[:size]] = True
        mask = held[self.query_rows]
        return self._of_documents(~mask), self._of_documents(mask)

    def _of_documents(self, mask: NDArray[np.bool_]) -> Judged:
        query_ids, query_rows = Ids.factorize(self.query_ids.raw(self.query_rows[mask]))
        part = object.__new__(Judged)  # what there is to tell of it was told of the whole
        object.__setattr__(part, "query_ids", query_ids)
        object.__setattr__(part, "feature_names", self.feature_names)
        arrays = {"features": self.features[mask], "relevance": self.relevance[mask]}
        for name, array in (arrays | {"query_rows": query_rows}).items():
            object.__setattr__(part, name, _read_only(array))
        return part


def feature_names(features: Any) -> tuple[str, ...] | None:
    """Names of the columns of a table; None for an array, or for numbered columns."""
    if not is_frame(features):
        return None
    names = columns_reader(features)[0]
    if len(set(names)) < len(names):
        raise InputValueError(
            f"`features` must have a name of its own for each column, got {names}"
        )
    return None if names == list(range(len(names))) else tuple(map(str, names))


def feature_matrix(features: ArrayLike) -> NDArray[Any]:
    """Check features of documents; float32 or float64, shape (n_documents, n_features)."""
    here = to_host(features, "features")
    try:
        matrix = np.asarray(here)
        if matrix.dtype not in (np.float32, np.float64):
            matrix = matrix.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputTypeError(f"`features` must be a matrix of numbers: {error}") from error
    if matrix.ndim != 2 or not matrix.shape[1]:
        raise InputValueError(
            "`features` must have a row for each document and a column for each feature, got "
            f"shape {matrix.shape}",
            "a single feature is features[:, None]",
        )
    finite = np.isfinite(matrix)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise InputValueError(
            f"`features` must be finite, got {matrix[row, column]} for document {row}, feature "
            f"{column}",
            "replace missing values first, by 0 or the feature's mean",
        )
    return matrix


def _tell_of_answers(names: tuple[str, ...]) -> None:
    """Warn of features that are named as queries or as the relevance is."""
    plain = {"".join(filter(str.isalnum, name)).lower(): name for name in names}
    found = [plain[word] for word in _ANSWERS if word in plain]
    if found:
        _log.warning(
            "features have the column %s, which looks like the query or the relevance itself: "
            "leave it out if it is",
            ", ".join(map(repr, found)),
        )


def _tell_of_equals(judged: Judged) -> None:
    """Warn of features that are the relevance, the query or the number of the row."""
    matrix, queries = judged.features, judged.query_ids.labels
    if len(matrix) < _FEWEST:
        return
    others = {"the relevance": judged.relevance, "the number of the row": np.arange(len(matrix))}
    if queries.dtype.kind in "iu":
        others["the query"] = queries[judged.query_rows]
    for what, own in others.items():
        if own.min() == own.max():
            continue
        for at in np.flatnonzero((matrix[:_FEWEST] == own[:_FEWEST, None]).all(axis=0)).tolist():
            if (matrix[:, at] == own).all():
                _log.warning(
                    "features have %s in column %d: leave it out, as by numpy.delete(features, %d, "
                    "axis=1)",
                    *(what, at, at),
                )


def _tell_of_ranks(judged: Judged) -> None:
    """Warn if the relevance numbers each query's documents from 1, as ranks do."""
    grades, queries = judged.relevance, judged.query_rows
    sizes = np.bincount(queries)
    if grades.min() < 1 or len(grades) <= judged.n_queries:
        return
    if not np.array_equal(np.bincount(queries, grades), sizes * (sizes + 1) / 2):
        return
    places = np.arange(len(grades)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    if np.array_equal(grades[np.lexsort((grades, queries))], places + 1):
        _log.warning(
            "`relevance` numbers the documents of each query from 1, as ranks do, and more is "
            "better: if 1 is the best, give grades that fall with the rank"
        )


def _tell_of_grades(judged: Judged) -> None:
    """Warn of grades from which nothing is learned, or of which only the highest count."""
    grades, queries = judged.relevance, judged.query_rows
    if not grades.any():
        return
    sums, squares = np.bincount(queries, grades), np.bincount(queries, grades * grades)
    sizes = np.bincount(queries)
    if len(grades) > judged.n_queries and np.allclose(squares * sizes, sums**2, rtol=1e-12, atol=0):
        _log.warning(
            "no query has documents of different `relevance`: any order of them is as good; "
            "documents that are not relevant have the relevance 0"
        )
    if grades.max() > _HIGHEST:
        _log.warning(
            "`relevance` goes up to %g: gains are 2^relevance - 1 unless you choose others: only "
            "the highest count; usual grades are 0 to 4",
            grades.max(),
        )


def _tell_of_queries_in_parts(judged: Judged, path: str | os.PathLike[str]) -> None:
    """Warn of queries of a file that come back after others: two queries may have one number."""
    rows = judged.query_rows
    begun = rows[np.flatnonzero(np.diff(rows, prepend=-1))]
    again = np.flatnonzero(np.bincount(begun) > 1)
    if len(again):
        _log.warning(
            "%s: query %s comes back after others, and is read as one (%s do so); if files with "
            "numbers of their own were joined, number their queries anew",
            path,
            judged.query_ids.raw(again[:1])[0],
            f"{len(again)} of {judged.n_queries} queries",
        )


def _refuse_unequal(n_queries: int, n_documents: int) -> None:
    if n_queries != n_documents:
        raise InputValueError(
            f"`queries` must have one id for each of the {n_documents} documents, got {n_queries}",
            "repeat a query's id for each of its documents",
        )


def _relevance(given: ArrayLike, n_documents: int) -> NDArray[np.float64]:
    grades = floats_of("relevance", to_host(given, "relevance"))
    if grades.shape != (n_documents,):
        raise InputValueError(
            f"`relevance` must have one number for each of the {n_documents} documents, got shape "
            f"{grades.shape}"
        )
    bad = np.flatnonzero(~(np.isfinite(grades) & (grades >= 0)))
    if len(bad):
        shown = ", ".join(f"{grades[row]:g} (document {row})" for row in bad[:_SHOWN])
        raise InputValueError(
            f"`relevance` must be finite and >= 0, got {shown}",
            "drop documents that were not judged, and make 0 the lowest grade",
        )
    return grades


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


# Standardization of features by the statistics of a training set.


_CONSTANT = 1e-12
"""A feature is constant if its standard deviation is at most this times its largest magnitude."""


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """x -> (x - means) * factors.

    Attributes
    ----------
    means, factors : float64, shape (n_features,)
    """

    means: NDArray[np.float64]
    factors: NDArray[np.float64]

    @classmethod
    def of(cls, features: NDArray[Any]) -> Scaling:
        """Scale to mean 0 and standard deviation 1; constant features become 0."""
        largest = np.abs(features).max(axis=0).astype(np.float64)
        unit = np.where(largest > 0, largest, 1)
        relative = features / unit
        deviations = relative.std(axis=0)
        varies = deviations > _CONSTANT
        factors = np.where(varies, 1 / np.where(varies, deviations, 1) / unit, 0)
        return cls(relative.mean(axis=0) * unit, factors)

    @classmethod
    def none(cls, n_features: int) -> Scaling:
        """Leave features unchanged."""
        return cls(np.zeros(n_features), np.ones(n_features))

    def apply(self, features: NDArray[Any]) -> NDArray[np.float64]:
        """Scaled features, a new array."""
        scaled: NDArray[np.float64] = (features - self.means) * self.factors
        return scaled
