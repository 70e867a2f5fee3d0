"""Early stopping of a fit at the epoch that ranks held-out interactions best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import check_count, sparse_to_host
from mfrank.data import Interactions
from mfrank.errors import InputValueError
from mfrank.evaluation.full_ranking import evaluate
from mfrank.evaluation.inputs import UserItems, ids_of, in_rows_of, matrix_of
from mfrank.evaluation.metrics import NDCG, Metric
from mfrank.evaluation.names import to_maximize
from mfrank.models import tell_uncut, values_told
from mfrank.retrieval import of_filter


@dataclass(frozen=True)
class EarlyStopping:
    """Stop when a held-out metric has not improved for some epochs; return to the best epoch.

    The objective of a fit falls with every epoch, but its ranking is often best after a few: pass
    ``fit(train, stopping=EarlyStopping(valid))``. After each epoch, all unseen items are ranked for
    the users of ``valid``, and the metric is added to the history.

    Parameters
    ----------
    valid : Interactions or sparse (scipy or CuPy), shape (n_users, n_items)
        Held-out interactions, such as ``by_ratio(data).valid``. Interactions are matched with the
        fit's data by id; a matrix has the same rows.
    metric : Metric or str, default NDCG @ 10
        Metric to maximize, such as ``mfrank.Recall @ 20``.
    patience : int, default 2
        Number of epochs without a new best after which the fit stops.
    users : int or None, default 10,000
        Maximum number of users to evaluate: a sample without replacement from the users with
        interactions in ``valid``, the same after every epoch. Ranking the whole catalog for all
        users of a large data set can take longer than an epoch. None evaluates all.
    random_state : int, default 0
        Seed of the sample.

    Raises
    ------
    TypeError, ValueError
        ``patience`` or ``users`` is not an int >= 1, ``random_state`` is not an int >= 0, or
        ``metric`` has no per-user values or does not measure relevance.
    """

    valid: UserItems
    metric: Metric | str = NDCG @ 10
    patience: int = 2
    users: int | None = 10_000
    random_state: int = 0

    def __post_init__(self) -> None:
        check_count("patience", self.patience, 1)
        if self.users is not None:
            check_count("users", self.users, 1)
        check_count("random_state", self.random_state, 0)
        object.__setattr__(self, "metric", to_maximize(self.metric))

    def in_rows_of(self, train: Interactions) -> Self:
        """The rule with ``valid`` aligned with the rows of the fit's data by id.

        Raises
        ------
        ValueError
            ``valid`` has users or items that the data lack.
        """
        tell_uncut("valid", sparse_to_host(self.valid), train, "count as hits")
        return replace(self, valid=in_rows_of(self.valid, ids_of(train), "valid"))

    def check(self, train: sp.csr_array) -> None:
        """Raise if ``valid`` has no positive entry outside these training interactions."""
        valid = matrix_of(self.valid, "valid")
        if valid.shape != train.shape:
            raise InputValueError(
                f"`valid` must have the data's shape {train.shape}, got {valid.shape}",
                "make it with `user_ids=train.user_ids` and `item_ids=train.item_ids`, or split "
                "one data set",
            )
        positive = valid > 0
        if positive.nnz == positive.multiply(train.astype(bool)).nnz:
            raise InputValueError("`valid` has no interaction that is not in the fit's data too")

    def is_over(self, values: Sequence[float]) -> bool:
        """Whether the last ``patience`` values brought no new best."""
        return len(values) - 1 - values.index(max(values)) >= self.patience

    def fingerprint(self) -> str:
        """SHA-256 of the rule and its interactions, by which a resumed fit recognizes them."""
        valid = sparse_to_host(self.valid)
        kind = type(self.metric)
        rule = f"{kind.__module__}.{kind.__qualname__} {self.metric} {int(self.patience)} "
        return sha256((rule + str(of_filter(valid, with_values=True))).encode()).hexdigest()

    def value(self, factors: Any, train: UserItems, backend: str, n_threads: int) -> float:
        """Evaluate an object with ``user_factors`` and ``item_factors`` on ``valid``."""
        valid = in_rows_of(self.valid, ids_of(train), "valid")
        with values_told():
            result = evaluate(
                factors,
                valid,
                train=train,
                metrics=self.metric,
                users=self._sample(valid),
                by_row=True,
                backend=backend,
                n_threads=n_threads,
            )
        return float(result[self.metric].value)

    def _sample(self, valid: UserItems) -> NDArray[np.int64] | None:
        """Rows of the users to judge; None for all."""
        rows = matrix_of(valid, "valid")
        judged = np.flatnonzero(np.diff(rows.indptr))
        if self.users is None or len(judged) <= self.users:
            return None
        return np.random.default_rng(self.random_state).choice(judged, self.users, replace=False)
