"""When to stop a fit: at the epoch that ranks held-out interactions best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import scipy.sparse as sp

from mfrank.amounts import check_count
from mfrank.csr_checks import checked_rows
from mfrank.evaluation.evaluate import UserItems, evaluate
from mfrank.evaluation.kinds import CatalogueMetric, Metric
from mfrank.evaluation.metrics import NDCG
from mfrank.evaluation.names import metric as read_metric
from mfrank.foreign import sparse_to_host
from mfrank.retrieval.candidates import HasUserItems

__all__ = ["EarlyStopping"]


@dataclass(frozen=True)
class EarlyStopping:
    """Stop where a metric of held-out interactions has not risen for some epochs; keep the best.

    The objective of a fit falls from epoch to epoch, its ranking is often best after a few: pass
    ``fit(train, stopping=EarlyStopping(valid))``. Every epoch then ranks all items for the users
    of ``valid``, without what the fit's own data hold, and its value joins the history.

    Parameters
    ----------
    valid : Interactions or scipy sparse, shape (n_users, n_items) of the fit's data
        Interactions that the fit does not see, such as ``by_ratio(data).valid``.
    metric : Metric or str, default NDCG @ 10
        What is to rise, such as ``mfrank.Recall @ 20``.
    patience : int, default 2
        Epochs without a new best after which the fit stops.

    Raises
    ------
    TypeError, ValueError
        ``patience`` is no int >= 1, ``metric`` is none of a user's ranking.
    """

    valid: UserItems
    metric: Metric | str = NDCG @ 10
    patience: int = 2

    def __post_init__(self) -> None:
        check_count("patience", self.patience, 1)
        metric = read_metric(self.metric) if isinstance(self.metric, str) else self.metric
        if not isinstance(metric, Metric) or isinstance(metric, CatalogueMetric):
            raise ValueError(f"metric must rate users' rankings, such as NDCG @ 10; got {metric!r}")
        object.__setattr__(self, "metric", metric)

    def check(self, train: sp.csr_array) -> None:
        """Raise where a fit to these interactions leaves nothing of ``valid`` to find."""
        given = self.valid
        valid: Any = given.user_items if isinstance(given, HasUserItems) else sparse_to_host(given)
        if not sp.issparse(valid):
            raise TypeError(
                f"valid must be Interactions or a scipy sparse matrix, got {type(valid).__name__}"
            )
        if (found := cast(Any, valid).shape) != train.shape:
            raise ValueError(f"valid must have the data's shape {train.shape}, got {found}")
        likes = checked_rows(valid, "valid") > 0
        if likes.nnz == likes.multiply(train.astype(bool)).nnz:
            raise ValueError("valid has no interaction that the fit's data do not have")

    def is_over(self, values: Sequence[float]) -> bool:
        """Whether the last ``patience`` of the epochs' values bring no new best."""
        return len(values) - 1 - values.index(max(values)) >= self.patience

    def value(self, factors: Any, train: UserItems, backend: str, n_threads: int) -> float:
        """Return the metric of anything with ``user_factors`` and ``item_factors``."""
        result = evaluate(
            factors,
            self.valid,
            train=train,
            metrics=self.metric,
            backend=backend,
            n_threads=n_threads,
        )
        return float(result[self.metric].value)
