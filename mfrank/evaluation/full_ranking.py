"""Full-ranking evaluation: each user's list is ranked from all items not seen in training."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import (
    Seed,
    check_count,
    check_instance,
    check_threads,
    distinct,
    generator,
    shown,
    sparse_to_host,
)
from mfrank.backends.sharded import check_one_place
from mfrank.cluster import Cluster
from mfrank.data import (
    Groups,
    HeldOut,
    Ids,
    Interactions,
    RawIds,
    UnknownIdError,
    positive_range,
)
from mfrank.evaluation.cold import Cold
from mfrank.evaluation.inputs import (
    UserItems,
    folded_in,
    ids_of,
    ids_of_rows,
    in_rows_of,
    matrix_of,
    threshold_of,
)
from mfrank.evaluation.metrics import MRR, NDCG, Metric, RankingMetric, Recall
from mfrank.evaluation.names import metric as read_metric
from mfrank.evaluation.rankers import check_sampled, protocol_of
from mfrank.evaluation.report import ByGroup, Evaluation
from mfrank.evaluation.tally import Judge, judged_on_workers
from mfrank.models import tell_below
from mfrank.retrieval import Recommender, Seen, check_rows, given_ids
from mfrank.steering import Steering

_log = logging.getLogger("mfrank")

DEFAULT_METRICS: tuple[Metric, ...] = (NDCG @ 10, Recall @ 10, MRR @ 10)


def evaluate(
    model: Any,
    test: UserItems | HeldOut,
    *,
    train: UserItems | None = None,
    filter_already_liked_items: bool = True,
    metrics: Metric | str | Iterable[Metric | str] = DEFAULT_METRICS,
    users: RawIds | None = None,
    by_row: bool = False,
    item_groups: Groups | None = None,
    negatives: int | None = None,
    random_state: Seed = 0,
    batch_size: int | None = None,
    backend: str = "auto",
    n_threads: int = 0,
    steer: Steering | None = None,
    cluster: Cluster | None = None,
) -> Evaluation:
    """Rank the whole catalog for each user and score the rankings against ``test``.

    An item is relevant to a user if its test value is above 0; graded metrics use that value as
    the relevance. A warning tells of values below the threshold of the fit's data
    (:meth:`mfrank.Interactions.at_least`), such as ratings of 1: ``test.at_least(4)`` leaves them
    out. Items that a user had in training (all entries stored in ``train``) are excluded
    from the ranking, as in ``recommend``, so test entries that are also in ``train`` are dropped
    and counted. What users have only seen (``train.seen_only``, such as ratings below a threshold,
    and zeros that a matrix stores) is excluded too, except for their test entries, which count.
    Users without a relevant item are skipped and counted. Metrics of the top ranks break ties by
    lower item row; AUC and AUPRC treat items with equal scores as tied.

    There is no credit for ties at nothing. A user of whom the model knows nothing has an empty
    list, with value 0 (AUC and AUPRC: all items tied), and an item that nobody had in the fit, or
    to which no link leads from the user's items, is in no list. The result counts the users, items
    and interactions of the test part that are cold, that is without interactions in the fit and
    without features, and has the metrics of the other users in ``known_users``.

    If the lists are on a GPU (factors with ``backend="cuda"``, or a recommender that returns CuPy
    arrays), the metrics are computed there and only the per-user values are copied back. Relevance
    is determined on the host, as are metrics beyond accuracy (Novelty, IntraListSimilarity,
    Serendipity, Miscalibration). ``train`` is uploaded once: Interactions keep the device copy, and
    a CuPy CSR is read in place.

    Users whom the model does not know (strong generalization, Liang et al. 2018): pass ``test`` of
    :func:`mfrank.held_out_users`, or of :func:`mfrank.by_session`, whole. Each user is folded in
    from their fold-in part, by the model's ``recommend(..., recalculate_user=True)``, and evaluated
    on the rest.

    Mapped interactions (:meth:`mfrank.Interactions.open`) are read by blocks of users: memory grows
    with the users and items, not with the entries. Only a ``test`` with other ids than the model's
    is copied whole.

    Parameters
    ----------
    model
        An object with ``user_factors``, ``item_factors`` and optionally ``item_biases`` (an
        estimator, a FactorStore, another library's model), which is ranked by these. Or an object
        with ``recommend(users, user_items, N=) -> (ids, scores)``, or such a function itself, with
        row numbers as users and ids; a function with an argument ``by_row``, such as a Reranker's,
        is called with ``by_row=True``.
    test : Interactions, sparse (scipy or CuPy) of shape (n_users, n_items), or HeldOut
        Held-out interactions, or held-out users as described above. Interactions with other ids
        than the model's or the training data's are matched by id
        (:func:`mfrank.data.joining.aligned`), also where they are as many; a sparse matrix has
        their rows. A model that was fitted to a matrix has the ids of ``train``, if that is given.
    train : Interactions or sparse (scipy or CuPy), shape (n_users, n_items), optional
        Interactions to exclude from the ranking: those that the model was fitted to. None uses
        those kept by a fitted or loaded mfrank model; factors, functions and other libraries'
        models keep none.
    filter_already_liked_items : bool, default True
        False ranks every item, including those in the training data, as the result's ``protocol``
        says; ``train`` must then be None.
    metrics : Metric or str, or an iterable of them, default NDCG, Recall and MRR at 10
        Metrics to compute in one pass (``mfrank.evaluation.metrics``).
    users : ids, optional
        Users to evaluate, duplicates once; default all. A matrix and a model that was fitted to one
        have row numbers as ids.
    by_row : bool, default False
        ``users`` are row numbers, such as the ``users`` of an ``Evaluation`` or a ``HeldOut``.
    item_groups : Groups, optional
        Groups of items, such as ``mfrank.by_popularity(train)`` or ``Groups.of(genres)``. Metrics
        of relevance at the top ranks are then also computed with the test items of one group as
        the only relevant ones, in the same lists: ``evaluation.by_item_group["genre"]``. They are
        also the groups of Miscalibration.
    negatives : int, optional
        Rank relevant items among only this many others, drawn at random for each user, as He et al.
        (2017) and others did. Only to compare with numbers that were published this way: values are
        far higher than in the full ranking, and may order models differently, because a rank in a
        sample says little about the top of the catalog (Krichene & Rendle 2020, "On sampled metrics
        for item recommendation"). The result's ``protocol`` names it. Metrics must be of relevance
        at the top ranks. At most 10,000; default None ranks all items.
    random_state : int, Generator or None, default 0
        Seed of the draw: the same for all models that are compared.
    batch_size : int, optional
        Users ranked at a time; the default gives blocks of about 4 million cells.
    backend : str, default "auto"
        Where top-K lists of factors, and their metrics, are computed.
    n_threads : int, default 0
        Threads of the backend; 0 takes every core this process may use.
    steer : Steering, optional
        Judge the lists of ``model.recommend(..., steer=steer)``, by metrics of the top ranks; the
        model must then be one of mfrank, and ranks with its own backend. Not with ``negatives`` or
        held-out users.
    cluster : int, dask.distributed.Client, str, Engine or None, default None
        Where users are evaluated, as in :meth:`mfrank.ALS.fit`: each worker is sent the model and
        the data once, and evaluates some users at a time. The numbers are the same as without a
        cluster. Not with ``negatives``.

    Returns
    -------
    Evaluation

    Raises
    ------
    TypeError, ValueError
        Shapes do not match, ``test`` or ``users`` has users or items that the model does not know,
        values are not finite, a metric is unknown or lacks its cutoff; or ``train`` is needed
        because the model does not keep its training data; or ``negatives`` is given with other
        metrics than those of relevance at the top ranks, or ``item_groups`` are not of these items;
        or held-out users are given and the model cannot fold them in; or ``cluster`` is not a
        cluster.
    ConnectionError, ModuleNotFoundError
        Nothing answers at the address ``cluster``, or Dask or Ray is not installed.
    """
    check_threads(n_threads)
    if isinstance(model, Recommender):
        model = model._snapshot()  # which another thread may change meanwhile
    check_one_place(cluster, backend)
    if cluster is not None and negatives is not None:
        raise ValueError("cluster and negatives, which are drawn in turn, do not go together")
    wanted = _read_metrics(metrics)
    if negatives is not None:
        check_sampled(negatives, wanted)
    if steer is not None:
        _check_steered(wanted, sampled=negatives is not None, folded=isinstance(test, HeldOut))
    protocol, given = protocol_of(negatives, random_state), model
    is_folded = isinstance(test, HeldOut)
    if isinstance(test, HeldOut):
        if users is None:
            users, by_row = test.users, True
        model, train = folded_in(model, test, train, filter_already_liked_items)
        protocol += ", users folded in"
        test = test.target
    if not filter_already_liked_items:
        protocol += ", seen items among the others"
    ids = ids_of_rows(model, train)
    test, train = in_rows_of(test, ids, "test"), in_rows_of(train, ids, "train")
    tell_below("test", sparse_to_host(test), threshold_of(given, train), "count as hits")
    relevance = matrix_of(test, "test")
    if not any(getattr(metric, "gain", "binary") != "binary" for metric in wanted):
        _tell_of_grades(relevance, test, train if isinstance(train, Interactions) else model)
    n_users, n_items = relevance.shape
    if item_groups is not None:
        item_groups = _groups_of(item_groups, n_items, None if ids is None else ids[1])
    requested = np.arange(n_users)
    if users is not None:
        named = None if by_row else ids or ids_of(test)
        requested = distinct(_rows_of(users, n_users, None if named is None else named[0]))
    if batch_size is not None:
        check_count("batch_size", batch_size, 1)
    cold = Cold.of(given, train, (n_users, n_items), folded_in=is_folded)
    judge = Judge(
        model,
        relevance,
        train,
        filter_already_liked_items,
        wanted,
        item_groups,
        None if negatives is None else (int(negatives), generator(random_state)),
        batch_size,
        backend,
        n_threads,
        steer,
        cold,
    )
    if cluster is None:
        tally = judge.judged(requested)
    else:
        tally = judged_on_workers(cluster, judge, requested)
    of_users, relevant = np.concatenate(tally.users), np.concatenate(tally.relevant)
    user_ids, item_ids = ids or (None, None)
    return Evaluation(
        scores=tally.scores(),
        users=of_users,
        n_without_test_items=len(requested) - len(of_users),
        n_in_train=tally.n_in_train,
        protocol=protocol,
        relevant=relevant,
        cold_users=cold.users[of_users],
        n_cold_items=len(np.unique(np.concatenate(tally.cold_items))),
        n_cold_interactions=tally.n_cold_interactions,
        exposure=tally.exposure if tally.list_length and negatives is None else None,
        by_item_group=ByGroup(
            (
                name,
                Evaluation(
                    *(scores, own, len(of_users) - len(own), 0, protocol, marks), user_ids=user_ids
                ),
            )
            for name, (own, marks, scores) in tally.group_scores().items()
        ),
        user_ids=user_ids,
        item_ids=item_ids,
    )


def _rows_of(users: RawIds, n_users: int, ids: Ids | None) -> NDArray[np.int64]:
    """Rows of users, who are named by these ids, or are rows themselves."""
    if ids is None:
        return check_rows(cast(ArrayLike, users), n_users, "users")
    try:
        return ids.rows(cast(RawIds, given_ids(cast(Any, users), "users", ordered=False)))
    except UnknownIdError as error:
        message = f"users: {error}; row numbers go with by_row=True"
        raise UnknownIdError(message, error.ids) from None
    except (TypeError, ValueError) as error:
        raise type(error)(f"users: {error}") from None


def _tell_of_grades(relevance: sp.csr_array, test: Any, fitted: Any) -> None:
    """Log that all test items count alike, where the fit had only those above a threshold.

    It is a warning if the test part is seen to have values below; a model that was saved has no
    values.
    """
    least, most = positive_range(relevance.data)
    if least >= most or getattr(test, "seen_only", None) is not None:
        return
    if isinstance(fitted, Interactions):
        has_only, values = fitted.seen_only is not None, fitted.user_items.data
    else:
        seen = getattr(fitted, "seen", None)
        if not isinstance(seen, Seen):
            return
        has_only, values = seen.has_only, seen.matrix.data
    is_known = values.dtype != bool
    if not has_only or (is_known and least >= positive_range(values)[0]):
        return
    _log.log(
        logging.WARNING if is_known else logging.INFO,
        "test has values from %g to %g, which all count as relevant, while the fit left out those "
        "below a threshold; at_least(threshold) on the test does so, too",
        *(least, most),
    )


def _read_metrics(metrics: Metric | str | Iterable[Metric | str]) -> tuple[Metric, ...]:
    several = [metrics] if isinstance(metrics, Metric | str) else metrics
    if not isinstance(several, Iterable):
        raise TypeError(f"metrics must be metrics such as mfrank.NDCG @ 10, got {shown(metrics)}")
    read: dict[Metric, None] = {}
    for one in several:
        metric = read_metric(one) if isinstance(one, str) else one
        if not isinstance(metric, Metric):
            raise ValueError(
                f"metrics must be metrics such as mfrank.NDCG @ 10, or names; got {shown(one)}"
            )
        read[metric] = None
    if not read:
        raise ValueError("metrics must have at least one metric, such as mfrank.NDCG @ 10")
    return tuple(read)


def _check_steered(wanted: Iterable[Metric], *, sampled: bool, folded: bool) -> None:
    """Raise if a metric, or the protocol, needs rankings that cannot be steered."""
    others = [metric for metric in wanted if isinstance(metric, RankingMetric)]
    if others:
        raise ValueError(f"steer has a say in the top ranks only: leave out {others[0]}, or steer")
    if sampled or folded:
        what = "negatives" if sampled else "held-out users"
        raise ValueError(f"steer and {what} do not go together; leave one out")


def _groups_of(groups: Groups, n_items: int, ids: Ids | None) -> Groups:
    """The groups in the rows of the evaluation; raise if they are not of its items."""
    check_instance("item_groups", groups, Groups, "Groups, such as mfrank.by_popularity(train)")
    groups = groups.in_rows_of(ids)
    if len(groups.of_rows) != n_items:
        raise ValueError(
            f"item_groups must have a group for each of the {n_items:,} items, got "
            f"{len(groups.of_rows):,}; make them of the training data"
        )
    return groups
