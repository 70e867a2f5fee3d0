"""What users had in training: excluded from their rankings, and known to metrics."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from mfrank.arrays.csr import CSR
from mfrank.data.cells import has_zeros
from mfrank.data.interactions import Interactions
from mfrank.evaluation.user_items import UserItems, matrix_of
from mfrank.retrieval.seen import Seen, without_relevant

__all__ = ["excluded", "had_in_training"]


def excluded(
    model: Any, train: UserItems | None, filters: bool, relevance: sp.csr_array
) -> tuple[sp.csr_array, CSR]:
    """Entries to exclude from the ranking: the matrix, and its rows for the kernels.

    Zeros are those that are only seen in training. If ``relevance`` has them above 0, they are
    ranked: a model did not learn from them, so they tell how well it ranks.
    """
    shape = relevance.shape
    if not filters:
        if train is not None:
            raise ValueError("train is excluded from the ranking: leave it out to rank every item")
        nothing = sp.csr_array(shape)
        return nothing, CSR.from_scipy(nothing, None)
    known: Seen | None = getattr(model, "seen", None)
    if train is None:
        if not isinstance(known, Seen):
            raise ValueError(
                "train is needed: the interactions that the model was fitted to, which are "
                "excluded from the ranking. Pass them, or filter_already_liked_items=False to rank "
                "every item"
            )
        seen, rows, some_only = known.matrix, known.rows_of("user"), known.has_only
    elif isinstance(train, Interactions):
        seen, rows, some_only = train.seen, train.seen_rows(), train.seen_only is not None
    else:
        seen = matrix_of(train, "train")
        rows, some_only = CSR.from_scipy(seen, None), has_zeros(seen)
    if seen.shape != shape:
        name = "train" if train is not None else "the data of the fit"
        raise ValueError(
            f"{name} must have test's shape {shape}, got {seen.shape}; give test the rows and "
            "columns of the training data, or pass Interactions, which are matched by id: "
            "Interactions.from_frame(test, user_ids=train.user_ids, item_ids=train.item_ids)"
        )
    if some_only and (ranked := without_relevant(seen, relevance)) is not seen:
        return ranked, CSR.from_scipy(ranked, None)
    return seen, rows


def had_in_training(model: Any, shape: tuple[int, int]) -> sp.csr_array:
    """What users had in training, for evaluations that exclude nothing."""
    known: Seen | None = getattr(model, "seen", None)
    if not isinstance(known, Seen):
        raise ValueError(
            "metrics beyond accuracy need the training data, and the model keeps none: pass train, "
            "without filter_already_liked_items=False"
        )
    if known.matrix.shape != shape:
        raise ValueError(f"test must have the shape of the fit's data {known.matrix.shape}")
    return known.positives
