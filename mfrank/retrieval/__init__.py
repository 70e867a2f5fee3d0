"""Retrieval from fitted factors: exact top-K lists under filters, similar rows, scores."""

from mfrank.retrieval.all_lists import AllLists, ListFormat, Table, list_table
from mfrank.retrieval.fallback import popularity_of, settled, unannounced
from mfrank.retrieval.filters import Candidates, KnownRows, is_nested
from mfrank.retrieval.fingerprint import of_filter
from mfrank.retrieval.lists_by_id import (
    Answer,
    Fallback,
    KnownQueries,
    ListCall,
    ListOptions,
    OwnRows,
    QueryFactors,
)
from mfrank.retrieval.model_state import (
    DeferredState,
    ModelState,
    NotFittedError,
    other_rows,
    rows_to_remove,
    without,
)
from mfrank.retrieval.queries import LikedItems, Matrix, Queries, given_rows, given_seen
from mfrank.retrieval.recommender import Recommender
from mfrank.retrieval.row_scorer import BlendRows, ItemBlend, RowScorer, of_one_state
from mfrank.retrieval.scored_lists import _first, best_lists
from mfrank.retrieval.seen import Seen, left_out_of, pack, same_cells, without_relevant
from mfrank.retrieval.side import (
    Otherwise,
    Raw,
    Rows,
    Side,
    check_rows,
    given_id,
    given_ids,
    is_single,
    liked_ids,
    sides,
)
from mfrank.retrieval.top_k import (
    Lists,
    emptied,
    nearest,
    recommend,
    score,
    similar,
    without_repeats,
)
from mfrank.retrieval.value_scale import ValueScale

__all__ = [
    "AllLists",
    "Answer",
    "BlendRows",
    "Candidates",
    "DeferredState",
    "Fallback",
    "ItemBlend",
    "KnownQueries",
    "KnownRows",
    "LikedItems",
    "ListCall",
    "ListFormat",
    "ListOptions",
    "Lists",
    "Matrix",
    "ModelState",
    "NotFittedError",
    "Otherwise",
    "OwnRows",
    "Queries",
    "QueryFactors",
    "Raw",
    "Recommender",
    "RowScorer",
    "Rows",
    "Seen",
    "Side",
    "Table",
    "ValueScale",
    "_first",
    "best_lists",
    "check_rows",
    "emptied",
    "given_id",
    "given_ids",
    "given_rows",
    "given_seen",
    "is_nested",
    "is_single",
    "left_out_of",
    "liked_ids",
    "list_table",
    "nearest",
    "of_filter",
    "of_one_state",
    "other_rows",
    "pack",
    "popularity_of",
    "recommend",
    "rows_to_remove",
    "same_cells",
    "score",
    "settled",
    "sides",
    "similar",
    "unannounced",
    "without",
    "without_relevant",
    "without_repeats",
]
