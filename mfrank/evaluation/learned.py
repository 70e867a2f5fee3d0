"""What a model was fitted to and an evaluation does not know of, which is told.

Test entries of the fit make metrics too high. Other entries of the fit that ``train`` lacks are
ranked as if they were new, and make metrics too low.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import CSR, set_in_block
from mfrank.data import without_zeros
from mfrank.errors import Notice
from mfrank.evaluation.inputs import UserItems, matrix_of, relevant_of
from mfrank.evaluation.judgements import find, keys
from mfrank.retrieval import Seen, same_cells

_log = logging.getLogger("mfrank")

_FEW = 100  # entries of which all may well be of items that their users had
_MUCH = 0.1

_items_return: ContextVar[bool] = ContextVar("_items_return", default=False)


def items_return() -> AbstractContextManager[None]:
    """In this block, the lists of evaluations may have items of the fit, as its caller says."""
    return set_in_block(_items_return, True)


def tell_learned(
    model: Any,
    train: UserItems | None,
    relevance: sp.csr_array,
    users: NDArray[np.int64],
    *,
    folded_in: bool = False,
) -> None:
    """Warn of ranked test entries in the data of the model's fit, and if ``train`` lacks others.

    Nothing is told of a model whose lists leave out only a part of what users have
    (:meth:`mfrank.Recommender.leave_out`): its users have items again. Without ``train``, the
    entries of the fit are not ranked, or all items are; only a test part that lies in the fit as a
    whole is then told, because users may well have some items again.

    Parameters
    ----------
    model : as in ``evaluate``
    train : Interactions, sparse matrix, or None
        What the ranking excludes; of users who are ``folded_in``, the fold-in part, which may well
        lack others.
    relevance : csr_array, shape (n_users, n_items)
        Canonical.
    users : int64, shape (U,)
        Rows to evaluate.
    """
    seen = _seen_of(model)
    if _items_return.get() or seen is None or seen.left_out is not None:
        return
    if seen.matrix.shape != relevance.shape:
        return
    own = sp.csr_array(relevance.shape) if train is None else matrix_of(train, "train")
    fit = seen.positives
    if own.shape != relevance.shape or same_cells(own, fit):
        return
    rows = CSR.from_scipy(without_zeros(own), None)  # what is only seen is ranked
    n_ranked = n_learned = n_fitted = n_lacking = 0
    for part in relevant_of(relevance, rows, users):
        had, wanted, known = (
            keys(CSR.from_scipy(sp.csr_array(each), None))
            for each in (fit[part.users], part.items, own[part.users])
        )
        n_ranked += len(wanted)
        n_learned += int(np.count_nonzero(find(had, wanted)[1]))
        n_fitted += len(had)
        n_lacking += int(np.count_nonzero(~find(known, had)[1] & ~find(wanted, had)[1]))
    entries = f"{n_learned:,} of {n_ranked:,} test entries"
    if train is not None and n_learned:
        _log.warning(
            Notice(
                f"{entries} are in the data that the model was fitted to, and not in `train`: it "
                "has learned them, so its metrics are too high; evaluate a model that was fitted "
                "without the test part"
            )
        )
    if train is not None and not folded_in and n_lacking >= max(_FEW, _MUCH * n_fitted):
        _log.warning(
            Notice(
                f"`train` lacks {n_lacking:,} of the {n_fitted:,} entries that the model was "
                "fitted to, of the users judged: these are ranked as if they were new, and take "
                "the places of others, so metrics are too low; pass all data of the fit as `train`"
            )
        )
    if train is None and n_learned == n_ranked >= _FEW:
        _log.warning(
            Notice(
                "all test entries are in the data that the model was fitted to, and are ranked "
                "with `filter_already_liked_items=False`: it has learned them, so its metrics are "
                "too high, unless all users have the same items again; evaluate a model that was "
                "fitted without the test part"
            )
        )


def _seen_of(model: Any) -> Seen | None:
    """What a model, or the first stage of a Reranker, was fitted to."""
    for each in (model, getattr(model, "model", None)):
        if isinstance(seen := getattr(each, "seen", None), Seen):
            return seen
    return None
