"""Full-ranking evaluation: each user's list is ranked from all items not seen in training."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import (
    Seed,
    check_count,
    check_flags,
    check_instance,
    check_threads,
    distinct,
    generator,
    sparse_to_host,
)
from mfrank.backends.sharded import check_one_place
from mfrank.cluster import Cluster
from mfrank.data import (
    Counts,
    Groups,
    HeldOut,
    Ids,
    Interactions,
    RawIds,
    UnknownIdError,
    positive_range,
    tell_swapped,
)
from mfrank.errors import InputValueError, Notice, within
from mfrank.evaluation.beyond import UnbiasedMetric
from mfrank.evaluation.cold import Cold
from mfrank.evaluation.inputs import (
    UserItems,
    cut_of,
    folded_in,
    ids_of,
    ids_of_rows,
    in_rows_of,
    matrix_of,
)
from mfrank.evaluation.learned import tell_learned
from mfrank.evaluation.metrics import (
    MRR,
    NDCG,
    KnownMetric,
    ListMetric,
    Metric,
    RankingMetric,
    Recall,
)
from mfrank.evaluation.names import as_metrics
from mfrank.evaluation.popularity import ItemUsers, PopularItems
from mfrank.evaluation.rankers import check_sampled, protocol_of
from mfrank.evaluation.report import ByGroup, Evaluation, PopularityAlone
from mfrank.evaluation.tally import Judge, Tally, judged_on_workers
from mfrank.models import tell_uncut
from mfrank.retrieval import Recommender, Seen, check_rows, given_ids, refuse_marks
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

    - **Relevant** items have a test value above 0; graded metrics use the value as relevance.
      Values below the threshold of the fit's data (:meth:`mfrank.Interactions.at_least`), such as
      ratings of 1, cause a warning: ``test.at_least(4)`` removes them.
    - **Seen** items (all entries stored in ``train``) are excluded from the ranking, as in
      ``recommend``. Test entries that are also in ``train`` are dropped and counted. Cells that
      are only seen (``train.seen_only``, and explicit zeros of a matrix) are excluded too, unless
      they are test entries. Test entries that are not in ``train``, but in the data that the model
      was fitted to, cause a warning: it has learned them. So does a ``train`` that lacks much of
      these data.
    - **Users** without a relevant item are skipped and counted.
    - **Ties** are broken by lower item row in metrics of the top ranks; AUC and AUPRC treat equal
      scores as tied.
    - **Cold** users and items have no interactions in the fit and no features. A cold user has an
      empty list, with value 0 (AUC and AUPRC: all items tied). A cold item, and an item without a
      link from the user's items, is in no list. The result counts cold users, items and
      interactions, and has the metrics of the other users in ``known_users``.

    **Held-out users** (strong generalization, Liang et al. 2018): pass the whole ``test`` of
    :func:`mfrank.held_out_users` or :func:`mfrank.by_session`. Each user is folded in from their
    fold-in part, by ``model.recommend(..., recalculate_user=True)``, and evaluated on the target.

    **GPU**: if the lists are on a GPU (factors with ``backend="cuda"``, or a recommender that
    returns CuPy arrays), metrics are computed there and only per-user values are copied back.
    Relevance and metrics beyond accuracy (Novelty, IntraListSimilarity, Serendipity,
    Miscalibration) are computed on the host. ``train`` is uploaded once: Interactions cache the
    device copy, and a CuPy CSR is read in place.

    **Memory**: mapped interactions (:meth:`mfrank.Interactions.open`) are read by blocks of users,
    so memory grows with users and items, not with entries. Only a ``test`` with other ids than the
    model's is copied whole.

    Parameters
    ----------
    model
        One of

        - an object with ``user_factors``, ``item_factors`` and optionally ``item_biases`` (an
          estimator, a FactorStore, another library's model), which is ranked by these;
        - an object with ``recommend(users, user_items, N=) -> (ids, scores)``, or such a function.
          Users and ids are row numbers; a function with an argument ``by_row``, such as a
          Reranker's, is called with ``by_row=True``.
    test : Interactions, sparse (scipy or CuPy) of shape (n_users, n_items), or HeldOut
        Held-out interactions, or held-out users (see above). Interactions are matched by id
        (:func:`mfrank.data.joining.aligned`) with the model or the training data, even if the
        numbers of rows agree; a sparse matrix has the same rows as these. For a model that was
        fitted to a matrix, ``train`` provides the ids.
    train : Interactions or sparse (scipy or CuPy), shape (n_users, n_items), optional
        The training interactions, which are excluded from the ranking. None uses the ones stored in
        a fitted or loaded mfrank model; factors, functions and other libraries' models have none.
    filter_already_liked_items : bool, default True
        False ranks every item, including training items, as the ``protocol`` of the result says;
        ``train`` must then be None.
    metrics : Metric or str, or an iterable of them, default NDCG, Recall and MRR at 10
        Metrics to compute in one pass (``mfrank.evaluation.metrics``).
    users : ids, optional
        Users to evaluate, duplicates once; default all. For a matrix, or a model that was fitted to
        one, ids are row numbers.
    by_row : bool, default False
        ``users`` are row numbers, such as the ``users`` of an ``Evaluation`` or a ``HeldOut``.
    item_groups : Groups, optional
        Groups of items, such as ``mfrank.by_popularity(train)`` or ``Groups.of(genres)``. Metrics
        of relevance at the top ranks are then also computed on the same lists with only the test
        items of one group as relevant: ``evaluation.by_item_group["genre"]``. Miscalibration uses
        these groups, too.
    negatives : int, optional
        Rank relevant items among only this many sampled negatives per user, as in He et al. (2017).
        Use it only to compare with numbers published this way: values are far higher than in the
        full ranking and may order models differently, because a rank in a sample says little about
        the top of the catalog (Krichene & Rendle 2020, "On sampled metrics for item
        recommendation"). The ``protocol`` of the result says so. Only for metrics of relevance at
        the top ranks. At most 10,000; None ranks all items.
    random_state : int, Generator or None, default 0
        Seed of the sampled negatives; use the same seed for all models of a comparison.
    batch_size : int, optional
        Users ranked at a time; the default gives blocks of about 4 million cells.
    backend : str, default "auto"
        Where top-K lists of factors, and the metrics, are computed.
    n_threads : int, default 0
        Threads of the backend; 0 uses every core this process may use.
    steer : Steering, optional
        Evaluate the lists of ``model.recommend(..., steer=steer)`` by metrics of the top ranks.
        Only for mfrank's models, which use their own backend. Not with ``negatives`` or held-out
        users.
    cluster : int, dask.distributed.Client, str, Engine or None, default None
        Where users are evaluated, as in :meth:`mfrank.ALS.fit`. The model and the data are sent to
        each worker once. Results are the same as without a cluster. Not with ``negatives``.

    Returns
    -------
    Evaluation

    Raises
    ------
    TypeError, ValueError
        - Shapes do not match, or values are not finite.
        - ``test`` or ``users`` has users or items that are unknown to the model.
        - ``train`` is missing, and the model has no training data.
        - A metric is unknown or lacks its cutoff.
        - ``negatives`` is combined with other metrics than of relevance at the top ranks.
        - ``item_groups`` are groups of other items.
        - The model cannot fold in held-out users.
        - ``cluster`` is not a cluster.
    ConnectionError, ModuleNotFoundError
        As in :meth:`mfrank.ALS.fit`.
    """
    check_threads(n_threads)
    if isinstance(model, Recommender):
        model = model._snapshot()  # which another thread may change meanwhile
    check_one_place(cluster, backend)
    check_flags(filter_already_liked_items=filter_already_liked_items, by_row=by_row)
    if cluster is not None and negatives is not None:
        raise InputValueError(
            "`cluster` and `negatives`, which are drawn in turn, do not go together"
        )
    wanted = as_metrics(metrics)
    _refuse_idle_groups(item_groups, wanted)
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
    if isinstance(test, Interactions) and not is_folded:
        tell_swapped("test", test, ids, _counts_of(given, train))
    test, train = in_rows_of(test, ids, "test"), in_rows_of(train, ids, "train")
    tell_uncut("test", sparse_to_host(test), cut_of(given, train), "count as hits")
    relevance = matrix_of(test, "test")
    if not any(getattr(metric, "gain", "binary") != "binary" for metric in wanted):
        _tell_of_grades(relevance, test, train if isinstance(train, Interactions) else model)
    n_users, n_items = relevance.shape
    if item_groups is not None:
        item_groups = _groups_of(item_groups, relevance.shape, ids or (None, None))
    requested = np.arange(n_users)
    if users is not None:
        named = None if by_row else ids or ids_of(test)
        requested = distinct(_rows_of(users, n_users, None if named is None else named[0]))
    if batch_size is not None:
        check_count("batch_size", batch_size, 1)
    if train is not None or not filter_already_liked_items:
        tell_learned(given, train, relevance, requested, folded_in=is_folded)
    cold = Cold.of(given, train, (n_users, n_items), folded_in=is_folded)
    known = ItemUsers.known(given, train, folded_in=is_folded)
    unbiased = [metric for metric in wanted if isinstance(metric, UnbiasedMetric)]
    if unbiased and known is None:
        raise InputValueError(
            f"`train` is needed, to count the users of items for {unbiased[0]}:",
            "pass it, without `filter_already_liked_items=False`",
        )
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
        known.counts if known is not None and unbiased else None,
    )
    if cluster is None:
        tally = judge.judged(requested)
    else:
        tally = judged_on_workers(cluster, judge, requested)
    found = _evaluation(tally, judge, len(requested), protocol, ids)
    if known is None or (isinstance(random_state, np.random.Generator) and negatives is not None):
        return found
    alone = replace(
        judge,
        model=PopularItems(np.empty(0, np.int64), getattr(model, "seen", None)),
        wanted=tuple(metric for metric in wanted if isinstance(metric, ListMetric)),
        item_groups=None,
        steer=None,
    )

    def judged() -> dict[str, tuple[str, Evaluation]]:
        again = None if negatives is None else (int(negatives), generator(random_state))
        evaluations = {}
        for name, (told, counts) in known.windows().items():
            popular = replace(alone, model=replace(alone.model, counts=counts), sample=again)
            values = popular.judged(requested)
            evaluations[name] = told, _evaluation(values, popular, len(requested), protocol, ids)
        return evaluations

    return replace(found, popularity=PopularityAlone(judged)) if alone.wanted else found


def _evaluation(
    tally: Tally, judge: Judge, n_requested: int, protocol: str, ids: tuple[Ids, Ids] | None
) -> Evaluation:
    of_users, relevant = np.concatenate(tally.users), np.concatenate(tally.relevant)
    user_ids, item_ids = ids or (None, None)
    groups = (
        (name, scores, own, len(of_users) - len(own), marks)
        for name, (own, marks, scores) in tally.group_scores().items()
    )
    return Evaluation(
        scores=tally.scores(),
        users=of_users,
        n_without_test_items=n_requested - len(of_users),
        n_in_train=tally.n_in_train,
        protocol=protocol,
        relevant=relevant,
        cold_users=judge.cold.users[of_users],
        n_cold_items=len(np.unique(np.concatenate(tally.cold_items))),
        n_cold_interactions=tally.n_cold_interactions,
        exposure=tally.exposure if tally.list_length and judge.sample is None else None,
        by_item_group=ByGroup(
            (
                name,
                Evaluation(
                    *(scores, own, missing, 0, protocol, marks),
                    user_ids=user_ids,
                    item_counts=judge.item_counts,
                ),
            )
            for name, scores, own, missing, marks in groups
        ),
        user_ids=user_ids,
        item_ids=item_ids,
        item_counts=judge.item_counts,
    )


def _counts_of(model: Any, train: Any) -> Counts | None:
    """How many interactions users and items had in training, as far as is known."""
    if isinstance(model, Recommender):
        return model.placed.counts
    return train.counts if isinstance(train, Interactions) and ids_of(model) is None else None


def _rows_of(users: RawIds, n_users: int, ids: Ids | None) -> NDArray[np.int64]:
    """Rows of users, who are named by these ids, or are rows themselves."""
    if ids is None:
        refuse_marks(users, Ids.numbered(n_users), "users")
        return check_rows(cast(ArrayLike, users), n_users, "users")
    try:
        given = given_ids(cast(Any, users), "users", ordered=False)
        refuse_marks(given, ids, "users")
        return ids.rows(cast(RawIds, given))
    except UnknownIdError as error:
        message = f"users: {error}; row numbers go with by_row=True"
        raise UnknownIdError(message, error.ids) from None
    except (TypeError, ValueError) as error:
        raise within("`users`", error) from None


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
        Notice(
            f"`test` has values from {least:g} to {most:g}, which all count as relevant, while the "
            "fit left out those below a threshold; `at_least(threshold)` on the test does so, too"
        ),
    )


def _check_steered(wanted: Iterable[Metric], *, sampled: bool, folded: bool) -> None:
    """Raise if a metric, or the protocol, needs rankings that cannot be steered."""
    others = [metric for metric in wanted if isinstance(metric, RankingMetric)]
    if others:
        raise InputValueError(
            "`steer` has a say in the top ranks only:", f"leave out {others[0]}, or steer"
        )
    if sampled or folded:
        what = "negatives" if sampled else "held-out users"
        raise InputValueError(f"`steer` and {what} do not go together", "leave one out")


_OF_USERS = "pass groups of users to `by_group` of the result"
_OF_TRAIN = "make them of the training data"


def _refuse_idle_groups(groups: Groups | None, wanted: Iterable[Metric]) -> None:
    """Raise ValueError if no metric has a value of a group of items."""
    if groups is not None and not any(
        isinstance(metric, ListMetric | KnownMetric) for metric in wanted
    ):
        raise InputValueError(
            "`item_groups` have no effect on these `metrics`, which have no value of a group:",
            "leave them out, or add a metric such as `mfrank.NDCG @ 10`",
        )


def _groups_of(
    groups: Groups, shape: tuple[int, int], ids: tuple[Ids | None, Ids | None]
) -> Groups:
    """The groups in the rows of the evaluation; raise if they are not of its items."""
    check_instance("item_groups", groups, Groups, "Groups, such as mfrank.by_popularity(train)")
    (n_users, n_items), (user_ids, item_ids) = shape, ids
    if groups.are_all_of(user_ids) and not groups.are_all_of(item_ids):
        _log.warning(
            Notice(
                f"`item_groups` have the ids of the {n_users:,} users, and not those of the "
                f"{n_items:,} items: {_OF_USERS}"
            )
        )
    groups = groups.in_rows_of(item_ids)
    if (n := len(groups.of_rows)) != n_items:
        raise InputValueError(
            f"`item_groups` must have a group for each of the {n_items:,} items, got {n:,}",
            f"there are {n:,} users: {_OF_USERS}" if n == n_users else _OF_TRAIN,
        )
    return groups
