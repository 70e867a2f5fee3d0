"""Evaluation in scikit-learn's tools: metrics as scorers, and splits as rows of a table.

scikit-learn divides data by rows, and an estimator of mfrank reads two kinds of data with rows:

- a table with a row for each interaction (``data.to_pandas()``). A part is a set of interactions,
  so a test part has users whom the model knows, like the parts of :func:`mfrank.by_time`. With
  scikit-learn's ``GroupKFold`` over the column of users, a part is a set of users.
- a sparse matrix with a row for each user. A part is a set of users, and its rows are new ones.

Nothing here imports scikit-learn: a scorer is a function of a fitted estimator and the data.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import Seed, counted, on_host, share
from mfrank.data import (
    Interactions,
    Split,
    by_ratio,
    check_alike,
    check_numbering,
    frame_columns,
    is_frame,
    placed,
)
from mfrank.errors import InputTypeError, InputValueError
from mfrank.evaluation.full_ranking import evaluate
from mfrank.evaluation.metrics import ListMetric, Metric
from mfrank.evaluation.names import as_metric
from mfrank.models import refuse_target
from mfrank.retrieval import Recommender, Seen

Rows = NDArray[np.int64]

_log = logging.getLogger("mfrank")


def scorer(*metrics: Metric | str, fold_in: float = 0.8, random_state: Seed = 0) -> Scorer:
    """Metrics as a ``scoring`` of scikit-learn, such as of ``GridSearchCV`` and ``cross_validate``.

    The scorer ranks the catalog for each user of the test part. Items that the model does not know
    can be in no list, and count as missed. Which users the test part has decides how:

    - A table of interactions with a user whom the model knows is judged as by
      :func:`mfrank.evaluate`: the model's training items are left out of the lists. A user whom the
      model does not know has an empty list, with value 0.
    - The users of a matrix, and of a table without any known user, are new. Each is folded in from
      ``fold_in`` of their entries, drawn at random; the others are to be predicted. A user with one
      entry has nothing to predict, and is left out.

    Of a ``Pipeline``, the last step is judged. What a new user is folded in from passes through the
    other steps, what is to be predicted does not.

    Parameters
    ----------
    *metrics : Metric or str
        Metrics of relevance at the top ranks, such as ``"ndcg@10"``. Higher must be better.
    fold_in : float, default 0.8
        Fraction of a new user's entries to fold in, in (0, 1), as in
        :func:`mfrank.held_out_users`.
    random_state : int, Generator or None, default 0
        Seed of the entries to fold in.

    Returns
    -------
    function of (estimator, X, y=None)
        It returns a float; with several metrics a dict by their names, such as ``"NDCG@10"``, for
        ``GridSearchCV(..., refit="NDCG@10")``.

    Raises
    ------
    TypeError, ValueError
        No metric, one that is unknown or lacks its cutoff, or one that is not of relevance at the
        top ranks; or ``fold_in`` is not a fraction.

    Examples
    --------
    >>> import mfrank
    >>> train, test = mfrank.synthetic(80, 40, 900, random_state=0).to_pandas(), None
    >>> mfrank.scorer("ndcg@10")(mfrank.Popularity().fit(train[:700]), train[700:]) > 0
    True
    """
    if not metrics:
        raise InputValueError("`metrics` is empty", 'write one, as in scorer("ndcg@10")')
    read = tuple(map(as_metric, metrics))
    for each in read:
        if not isinstance(each, ListMetric) or each.cutoff is None:
            raise InputValueError(
                f"`metrics`: {each} is not of relevance at the top ranks",
                "take one such as ndcg@10, recall@20 or mrr@10",
            )
    return Scorer(read, share("fold_in", fold_in), random_state)


@dataclass(frozen=True)
class Scorer:
    """What :func:`scorer` returns: a function, which processes can be sent."""

    metrics: tuple[Metric, ...]
    fold_in: float
    random_state: Seed

    def __call__(self, estimator: Any, X: Any, y: None = None) -> Any:
        """Score a fitted estimator on a test part."""
        refuse_target(y)
        steps, model = _model_of(estimator)
        test = Interactions.of(X)
        if model.threshold is not None:
            test = test.at_least(model.threshold)
        users, items = _places(test, model, by_id=is_frame(X) or isinstance(X, Interactions))
        if (users >= 0).any():
            ranked = _of_known(model, test, users, items)
        else:
            ranked = self._of_new(steps, model, test, items)
        judged = evaluate(*ranked[:2], train=ranked[2], metrics=self.metrics)
        values = {str(metric): score.value for metric, score in judged.scores.items()}
        return values if len(values) > 1 else next(iter(values.values()))

    def _of_new(
        self, steps: Any, model: Recommender, test: Interactions, items: Rows
    ) -> tuple[Any, sp.csr_array, sp.csr_array]:
        split = by_ratio(
            test,
            train=self.fold_in,
            valid=0,
            test=round(1 - self.fold_in, 10),
            random_state=self.random_state,
        )
        users = np.arange(test.n_users)
        own = placed(split.train, users, items, test.user_ids, model.item_ids)
        if steps is not None:
            own = steps.transform(own)

        def lists(users: Rows, _: Any, N: int) -> Any:
            rows = on_host(users)
            given = own.user_ids.raw(rows)
            ids, scores = map(on_host, model.recommend(given, own, N, recalculate_user=True))
            listed, columns = ~np.isnan(scores), np.full(scores.shape, -1)
            columns[listed] = model.item_ids.rows(ids[listed])
            return columns, scores

        wide = _widened(items, len(model.item_ids))
        n = (test.n_users, len(model.item_ids) + int((items < 0).sum()))
        return (
            lists,
            _moved(split.test.user_items, users, wide, n),
            _moved(split.train.seen, users, wide, n),
        )


def _of_known(
    model: Recommender, test: Interactions, users: Rows, items: Rows
) -> tuple[Any, sp.csr_array, sp.csr_array]:
    """A function that lists for the model's users and for unknown ones, the test part, the seen."""
    n_users, n_items = len(model.user_ids), len(model.item_ids)
    active = test.counts.users > 0
    if (new := int((active & (users < 0)).sum())) > active.sum() / 2:
        _log.warning(
            "%d of %s of a test part are not in the fit and have empty lists; if the table is in "
            "the order of users, take KFold(shuffle=True), or GroupKFold to fold users in",
            *(new, counted(int(active.sum()), "user")),
        )
    shape = n_users + int((users < 0).sum()), n_items + int((items < 0).sum())

    def lists(users: Rows, _: Any, N: int) -> Any:
        rows = on_host(users)
        ids, scores = np.full((len(rows), N), -1), np.full((len(rows), N), np.nan)
        known = rows < n_users
        if known.any():
            ids[known], scores[known] = map(on_host, model.recommend(rows[known], N=N, by_row=True))
        return ids, scores

    if not isinstance(model.seen, Seen):
        raise InputValueError("the model does not know what its users have seen", "fit it again")
    seen = model.seen.filtered.matrix
    rows = _moved(seen, np.arange(n_users), np.arange(n_items), shape)
    wide = _widened(users, n_users), _widened(items, n_items)
    return lists, _moved(test.user_items, *wide, shape), rows


def _model_of(estimator: Any) -> tuple[Any, Recommender]:
    """The steps of a Pipeline before the model, or None, and the model of mfrank."""
    while hasattr(estimator, "best_estimator_"):
        estimator = estimator.best_estimator_
    steps = None
    if hasattr(estimator, "steps"):
        steps = estimator[:-1] if len(estimator.steps) > 1 else None
        estimator = estimator[-1]
    if not isinstance(estimator, Recommender):
        raise InputTypeError(
            f"`estimator` must be a model of mfrank, got {type(estimator).__name__}",
            "use the scorers of scikit-learn for its estimators",
        )
    return steps, estimator


def _places(test: Interactions, model: Recommender, *, by_id: bool) -> tuple[Rows, Rows]:
    """The model's rows of the users and the items of a test part; -1 for unknown ones."""
    if not by_id:  # a row is not that of the fit, a column is
        check_alike(test.item_ids, model.item_ids, "X", "item")
        check_numbering(test.item_ids, model.item_ids, "X", "item")
    users, items = (
        ids.rows(own.labels, missing=-1)
        for own, ids in ((test.user_ids, model.user_ids), (test.item_ids, model.item_ids))
    )
    if test.nnz and (items[test.counts.items > 0] < 0).all():
        raise InputValueError(
            f"`X` has no item of the model: {test.item_ids.summary}; it has "
            f"{model.item_ids.summary}",
            "pass a part of the data of the fit",
        )
    return (users if by_id else np.full(test.n_users, -1)), items


def _widened(places: Rows, n: int) -> Rows:
    """These places, with new ones from ``n`` where they are -1."""
    wide = places.copy()
    wide[places < 0] = np.arange(n, n + int((places < 0).sum()))
    return wide


def _moved(rows: sp.csr_array, users: Rows, items: Rows, shape: tuple[int, int]) -> sp.csr_array:
    """The same entries in other rows and columns."""
    entries = rows.tocoo()
    at = users[entries.coords[0]], items[entries.coords[1]]
    return sp.csr_array((entries.data, at), shape=shape)


def fold_rows(frame: Any, splits: Split | Iterable[Split]) -> list[tuple[Rows, Rows]]:
    """Splits of a table as rows of it: the ``cv`` of scikit-learn's searches.

    ``GridSearchCV(model, grid, cv=mfrank.fold_rows(frame, mfrank.by_time(frame, test=0.2)),
    scoring=mfrank.scorer("ndcg@10"))`` fits to the rows of ``split.train``, and scores the rows of
    ``split.test``. Rows of a validation part are in neither. Repeated rows of a user and an item
    are together in one part.

    Parameters
    ----------
    frame : DataFrame of pandas or polars, or Arrow table
        A row for each interaction, with columns that :meth:`mfrank.Interactions.from_frame` finds
        by name; as given to the search.
    splits : Split, or an iterable of them
        Splits of this table, such as of :func:`mfrank.by_time` and :func:`mfrank.rolling`.

    Returns
    -------
    list of (train, test)
        Row numbers from 0, int64, for each split.

    Raises
    ------
    TypeError, ValueError
        ``frame`` is not a table, a split is of other data, or it is of whole users: for folds of
        users, take scikit-learn's ``GroupKFold`` with ``groups=frame["user"]``.
    """
    if not is_frame(frame):
        raise InputTypeError(
            f"`frame` must be a table with a row for each interaction, got {type(frame).__name__}",
            "take data.to_pandas(); the rows of a matrix are users, which scikit-learn's KFold "
            "divides",
        )
    columns = frame_columns(frame, {})
    folds = []
    for split in [splits] if isinstance(splits, Split) else splits:
        if not isinstance(split, Split):
            raise InputTypeError(
                f"`splits` must be of interactions, got {type(split).__name__}",
                "for folds of users, take scikit-learn's GroupKFold with groups=frame['user']",
            )
        users, items = (
            ids.rows(columns[role], missing=-1)
            for ids, role in ((split.train.user_ids, "user"), (split.train.item_ids, "item"))
        )
        if (users < 0).any() or (items < 0).any():
            raise InputValueError("`splits` are of other data than `frame`", "split the same table")
        cells = users * split.train.n_items + items
        train, test = (
            np.flatnonzero(np.isin(cells, _cells(part.seen))) for part in (split.train, split.test)
        )
        folds.append((train, test))
    if not folds:
        raise InputValueError("`splits` has no split", "pass one or more")
    return folds


def _cells(rows: sp.csr_array) -> Rows:
    users = np.repeat(np.arange(rows.shape[0], dtype=np.int64), np.diff(rows.indptr))
    return users * rows.shape[1] + rows.indices
