"""The result of an evaluation: the scores of one model on one test set."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import aligned, check_instance, counted, paragraphs, table, terminal_width
from mfrank.data import FrameKind, Groups, Ids, frame_of
from mfrank.errors import InputValueError, Notice
from mfrank.evaluation.beyond import UnbiasedMetric
from mfrank.evaluation.metrics import Metric
from mfrank.evaluation.names import as_metric
from mfrank.evaluation.scores import Difference, Score, json_number

_log = logging.getLogger("mfrank")

FULL = "full ranking"


class ByGroup(dict[str, "Evaluation"]):
    """Evaluations by name of the group, as a dict that prints as a table."""

    def _cells(self) -> list[tuple[str, ...]]:
        first = next(iter(self.values()), None)
        metrics = [] if first is None else list(first.scores)
        header = ("group", "users", *(n for m in metrics for n in (str(m), "std. error")))
        return [header, *(self._row(name, metrics) for name in self)]

    def _row(self, name: str, metrics: list[Any]) -> tuple[str, ...]:
        scores = [self[name].scores[metric] for metric in metrics]
        values = (t for s in scores for t in (f"{s.value:.5f}", f"{s.standard_error:.5f}"))
        return (name, f"{self[name].n_users:,}", *values)

    def __repr__(self) -> str:
        return aligned(self._cells(), terminal_width())

    def _repr_html_(self) -> str:
        header, *rows = self._cells()
        return table("Evaluation by group", rows, header)


class PopularityAlone(Mapping[str, "Evaluation"]):
    """What popularity alone gets on the test part of an evaluation; judged when it is first read.

    "all" counts the users of each item in the training data; "recent", if that has timestamps,
    those in its latest part, whose length is chosen on the training data alone. A model that was
    fitted to interactions with timestamps does not hold them, so pass ``train`` for "recent".
    """

    def __init__(self, judge: Callable[[], Mapping[str, tuple[str, Evaluation]]]) -> None:
        self._judge = judge
        self._judged: Mapping[str, tuple[str, Evaluation]] | None = None

    @property
    def of(self) -> dict[str, str]:
        """Whose interactions are counted, in words."""
        return {name: told for name, (told, _) in self._found().items()}

    def lines(self) -> list[str]:
        """A line for each, with its metrics."""
        return [
            f"{'recent ' * (name == 'recent')}popularity alone, counted in {self.of[name]}: "
            + ", ".join(f"{metric} {score.value:.5f}" for metric, score in one.scores.items())
            for name, one in self.items()
        ]

    def __getitem__(self, name: str) -> Evaluation:
        return self._found()[name][1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def __reduce__(self) -> Any:
        return _judged_already, (dict(self._found()),)

    def _found(self) -> Mapping[str, tuple[str, Evaluation]]:
        if self._judged is None:
            self._judged = self._judge()
            self._judge = dict  # which no longer holds the data
        return self._judged


def _judged_already(found: dict[str, tuple[str, Evaluation]]) -> PopularityAlone:
    return PopularityAlone(lambda: found)


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Scores of one model on one test set; ``evaluation["ndcg@10"]`` is a :class:`Score`.

    Attributes
    ----------
    scores : mapping of Metric to Score
        Scores in the order of the metrics.
    users : int64, shape (n_users,)
        Rows of the evaluated users, ascending.
    n_without_test_items : int
        Number of requested users without a relevant item, who are left out.
    n_in_train : int
        Number of test entries that are also in train, and are therefore not ranked.
    protocol : str
        The ranked items: "full ranking" or a sample, and whether seen items were included.
    relevant : uint64, shape (n_users,), or None
        Hash of each user's relevant items and values, with which :meth:`compare` checks that two
        evaluations had the same test part; None if unknown.
    exposure : int64, shape (n_items,), or None
        Number of lists with each item, up to the longest cutoff; None if no metric has lists, or
        only a sample was ranked.
    cold_users : bool, shape (n_users,), or None
        Which users are cold: without interactions in the fit and without features. Their list is
        empty, with value 0, unless the model lists the same for everybody. None if unknown.
    n_cold_items : int
        Number of distinct relevant items without interactions in the fit and without features.
    n_cold_interactions : int
        Number of relevant test entries with a cold user or a cold item.
    by_item_group : mapping of str to Evaluation
        The same lists with only the test items of one group as relevant, for users with such items.
        Empty without ``item_groups``.
    user_ids, item_ids : Ids or None
        Ids of all rows, by which groups and popularity are matched; None if there are none.
    item_counts : int64, shape (n_items,), or None
        Users of each item in training, by which unbiased metrics weigh; None without such metrics.
    popularity : mapping of str to Evaluation
        What popularity alone gets on the same test part, by metrics of relevance at the top ranks;
        judged when it is first read or printed. Empty if nothing is known of the training data.
    """

    scores: Mapping[Metric, Score]
    users: NDArray[np.int64]
    n_without_test_items: int
    n_in_train: int
    protocol: str = FULL
    relevant: NDArray[np.uint64] | None = None
    exposure: NDArray[np.int64] | None = None
    cold_users: NDArray[np.bool_] | None = None
    n_cold_items: int = 0
    n_cold_interactions: int = 0
    by_item_group: Mapping[str, Evaluation] = field(default_factory=dict)
    user_ids: Ids | None = None
    item_ids: Ids | None = None
    item_counts: NDArray[np.int64] | None = None
    popularity: PopularityAlone = field(default_factory=lambda: _judged_already({}))

    @property
    def n_users(self) -> int:
        """Number of evaluated users."""
        return len(self.users)

    @property
    def n_cold_users(self) -> int:
        """Number of evaluated users who are cold."""
        return 0 if self.cold_users is None else int(self.cold_users.sum())

    @property
    def known_users(self) -> Evaluation:
        """The evaluation of the users who are not cold, without metrics of the whole catalog."""
        if self.cold_users is None:
            return self._of(np.ones(self.n_users, dtype=bool))
        return self._of(~self.cold_users)

    def __getitem__(self, metric: Metric | str) -> Score:
        wanted = as_metric(metric)
        if wanted not in self.scores:
            raise KeyError(f"{wanted} was not evaluated, only {', '.join(map(str, self.scores))}")
        return self.scores[wanted]

    def by_group(self, groups: Groups) -> ByGroup:
        """Means over the users of each group, such as ``mfrank.by_activity(train)``.

        Metrics without per-user values, such as Coverage, are left out.

        Parameters
        ----------
        groups : Groups
            Groups of users. Groups with ids, as of :func:`mfrank.by_activity`, are matched by id;
            others are in the rows of the evaluation.

        Returns
        -------
        dict of str to Evaluation
            Evaluations by name of the group, without groups that have no evaluated user; prints as
            a table.

        Raises
        ------
        TypeError, ValueError
            ``groups`` is not a Groups, or has too few rows to be of these users.
        """
        check_instance("groups", groups, Groups, "Groups, such as mfrank.by_activity(train)")
        self._check_side(groups)
        groups = groups.in_rows_of(self.user_ids)
        if self.n_users and self.users[-1] >= len(groups.of_rows):
            raise InputValueError(
                f"`groups` must have a group for each user, got {len(groups.of_rows):,}",
                "make them of the training data, by `mfrank.by_activity(train)`",
            )
        number = groups.of_rows[self.users]
        chosen = {name: number == place for place, name in enumerate(groups.names)}
        return ByGroup((name, self._of(users)) for name, users in chosen.items() if users.any())

    def _check_side(self, groups: Groups) -> None:
        """Raise ValueError, or warn if ids alone say so, if these are groups of the items."""
        n, users, items = len(groups.of_rows), self.user_ids, self.item_ids
        if users is None or items is None or n != len(items) or n == len(users):
            return
        of_items = (
            f"`groups` have one for each of the {n:,} items, and there are {len(users):,} users"
        )
        remedy = "pass groups of items to `evaluate`, as `item_groups`"
        if groups.ids is None or groups.ids.table is None:
            raise InputValueError(of_items, remedy)
        if groups.are_all_of(items):
            _log.warning(Notice(f"{of_items}; {remedy}"))

    def _of(self, chosen: NDArray[np.bool_]) -> Evaluation:
        scores = {
            metric: Score.of_users(score.per_user[chosen], score.weights[chosen])
            for metric, score in self.scores.items()
            if score.per_user is not None and score.weights is not None
        }
        relevant = None if self.relevant is None else self.relevant[chosen]
        cold = None if self.cold_users is None else self.cold_users[chosen]
        return Evaluation(
            *(scores, self.users[chosen], 0, 0, self.protocol, relevant),
            cold_users=cold,
            user_ids=self.user_ids,
            item_counts=self.item_counts,
        )

    def compare(self, other: Evaluation, metric: Metric | str) -> Difference:
        """Compare ``self - other`` user by user, with a paired t-test.

        Raises
        ------
        ValueError
            The evaluations differ in their users, test items or protocol, or the metric has no
            per-user values.
        KeyError
            One of the evaluations lacks the metric.
        """
        mine, theirs = self[metric], other[metric]
        if mine.per_user is None or mine.weights is None or theirs.per_user is None:
            raise InputValueError(
                f"`metric`: {metric} has one value for all users, so there is nothing to pair"
            )
        if self.protocol != other.protocol:
            raise InputValueError(
                "evaluations to compare must have the same protocol; "
                f"got {self.protocol!r} and {other.protocol!r}:",
                "evaluate both in the same way",
            )
        self._check_same_test(other)
        chosen = as_metric(metric)
        if isinstance(chosen, UnbiasedMetric):
            _check_same_counts(chosen, self.item_counts, other.item_counts)
        if not np.array_equal(mine.weights, np.asarray(theirs.weights)):
            raise InputValueError(
                f"`metric`: evaluations to compare must weigh users alike in {metric}"
            )
        return mine.paired(theirs, chosen)

    def _check_same_test(self, other: Evaluation) -> None:
        """Raise unless both evaluations have the same users, with the same relevant items."""
        remedy = "evaluate both on one test part, in one numbering of users and items"
        if not np.array_equal(self.users, other.users):
            raise InputValueError(
                "evaluations to compare must have the same users and test items; got "
                f"{self.n_users} and {other.n_users} users, not all the same:",
                f"{remedy}",
            )
        if self.relevant is None or other.relevant is None:
            return
        differing = np.flatnonzero(self.relevant != other.relevant)
        if len(differing):
            raise InputValueError(
                "evaluations to compare must have the same test items, with the same values; "
                f"those of {counted(len(differing), 'user')} differ, first in row "
                f"{self.users[differing[0]]}:",
                f"{remedy}, and with the same training data",
                place=f"row {self.users[differing[0]]}",
            )

    def to_dict(self) -> dict[str, Any]:
        """Means, standard errors and counts as JSON types: NaN and infinity become None.

        If there are cold users, ``known_users`` of a metric is its mean over the other users.
        """
        return {
            "metrics": {str(m): self._told(m) for m in self.scores},
            "n_users": self.n_users,
            "n_without_test_items": self.n_without_test_items,
            "n_in_train": self.n_in_train,
            "n_cold_users": self.n_cold_users,
            "n_cold_items": self.n_cold_items,
            "n_cold_interactions": self.n_cold_interactions,
            "protocol": self.protocol,
            "by_item_group": {name: one.to_dict() for name, one in self.by_item_group.items()},
            "popularity": {
                name: {"of": self.popularity.of[name]}
                | {"metrics": {str(m): one._told(m) for m in one.scores}}
                for name, one in self.popularity.items()
            },
        }

    def to_frame(self, kind: FrameKind = "pandas", *, per_user: bool = False) -> Any:
        """A table with a row for each metric, or for each evaluated user.

        Parameters
        ----------
        kind : {"pandas", "polars", "arrow"}, default "pandas"
            The table's library.
        per_user : bool, default False
            A row for each user: ``user`` (the id, or the row if there are no ids), and a column for
            each metric that has values of users. By default, rows of metrics have the columns
            ``metric``, ``value`` and ``standard_error`` and, if there are cold users,
            ``known_users``, the mean over the others.

        Raises
        ------
        ModuleNotFoundError
            The library is not installed.
        """
        if per_user:
            ids = self.users if self.user_ids is None else self.user_ids.labels[self.users]
            values = {str(m): s.per_user for m, s in self.scores.items() if s.per_user is not None}
            return frame_of({"user": ids, **values}, kind=kind)
        rows = [{"metric": str(metric), **self._told(metric)} for metric in self.scores]
        names = dict.fromkeys(name for row in rows for name in row)
        return frame_of({name: [row.get(name) for row in rows] for name in names}, kind=kind)

    def _told(self, metric: Metric) -> dict[str, float | None]:
        """A metric's mean and standard error; with cold users, also the mean without them."""
        score = self.scores[metric]
        told = {
            "value": json_number(score.value),
            "standard_error": json_number(score.standard_error),
        }
        if self.n_cold_users and metric in (known := self.known_users.scores):
            told["known_users"] = json_number(known[metric].value)
        return told

    def __str__(self) -> str:
        width = max((len(str(m)) for m in self.scores), default=len("metric"))
        known = self.known_users.scores if self.n_cold_users else {}
        more = "  known users" if known else ""
        rows = [f"{'metric':<{width}}    value  std. error{more}"]
        for m, s in self.scores.items():
            error = "" if s.per_user is None else f"{s.standard_error:12.5f}"
            of_known = f"{known[m].value:13.5f}" if m in known else ""
            rows.append(f"{m!s:<{width}}  {s.value:7.5f}{error}{of_known}")
        return "\n".join([*rows, *self._counts()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        known = self.known_users.scores if self.n_cold_users else {}
        rows = [
            (
                str(m),
                f"{s.value:.5f}",
                "" if s.per_user is None else f"{s.standard_error:.5f}",
                *([f"{known[m].value:.5f}" if m in known else ""] if known else []),
            )
            for m, s in self.scores.items()
        ]
        header = ("metric", "value", "standard error", *(["known users"] if known else []))
        shown = table("Evaluation", rows, header)
        return shown + paragraphs(self._counts())

    def _counts(self) -> list[str]:
        """Lines with the numbers of users and test entries evaluated and left out."""
        users = (
            f"{counted(self.n_users, 'user')}; {self.n_without_test_items:,} without test items "
            "left out"
        )
        lines = [users]
        if self.n_cold_interactions:
            lines.append(
                f"{counted(self.n_cold_users, 'user')}, {counted(self.n_cold_items, 'item')} and "
                f"{counted(self.n_cold_interactions, 'interaction')} of them cold: not in the fit"
            )
        if self.n_in_train:
            lines.append(f"{counted(self.n_in_train, 'test entry')} left out: in train too")
        if self.protocol != FULL:
            lines.append(self.protocol)
        if self.protocol.startswith("sampled"):
            lines.append(
                "values are higher than in the full ranking, and may order models otherwise "
                "(Krichene & Rendle 2020)"
            )
        return lines + self.popularity.lines()


def _check_same_counts(metric: Metric, mine: Any, theirs: Any) -> None:
    if not np.array_equal(mine, theirs):
        raise InputValueError(
            f"`metric`: evaluations to compare by {metric} must count the users of items in one "
            "training part:",
            "pass the same `train` to both",
        )
