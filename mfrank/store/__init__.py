"""The factor store, the result of every fit: checked, saved atomically, exchanged."""

from mfrank.store.blending import (
    blend,
    check_ranks_by_factors,
    has_item_weights,
    ranks_by_factors,
    refuse_reranked,
)
from mfrank.store.cold_rows import (
    empty_rows,
    has_counts,
    has_features,
    joins_weights,
    ranks_anybody,
)
from mfrank.store.contents import check_metadata, pack_neighbors, unpack_neighbors
from mfrank.store.factors import FORMAT, FactorStore
from mfrank.store.feature_weights import (
    check_features,
    columns_name,
    columns_of,
    featured,
    means_of,
    names_of,
    pack,
    weights_of,
    with_means,
)
from mfrank.store.fields import (
    STATE_OF_FIT,
    check_finite,
    check_is_model,
    fitter_of,
    history_of,
    is_mapped,
)
from mfrank.store.history import (
    History,
    Record,
    Step,
    epochs_of,
    event_weights,
    seconds_of,
    summary,
    with_event_weights,
)
from mfrank.store.own_classes import IMPORTED, OwnClasses

__all__ = [
    "FORMAT",
    "IMPORTED",
    "STATE_OF_FIT",
    "FactorStore",
    "History",
    "OwnClasses",
    "Record",
    "Step",
    "blend",
    "check_features",
    "check_finite",
    "check_is_model",
    "check_metadata",
    "check_ranks_by_factors",
    "columns_name",
    "columns_of",
    "empty_rows",
    "epochs_of",
    "event_weights",
    "featured",
    "fitter_of",
    "has_counts",
    "has_features",
    "has_item_weights",
    "history_of",
    "is_mapped",
    "joins_weights",
    "means_of",
    "names_of",
    "pack",
    "pack_neighbors",
    "ranks_anybody",
    "ranks_by_factors",
    "refuse_reranked",
    "seconds_of",
    "summary",
    "unpack_neighbors",
    "weights_of",
    "with_event_weights",
    "with_means",
]
