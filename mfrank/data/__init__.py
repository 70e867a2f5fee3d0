"""Training data: interactions and their ids, judged documents, files, splits, synthetic data."""

from mfrank.data.cells import (
    Counts,
    ValuesFrom,
    from_triples,
    has_zeros,
    in_shape,
    not_in,
    positive_range,
    select,
    with_zeros,
    without_zeros,
)
from mfrank.data.columns import ROLES, BadRow, assign, has_kinds, tell_columns
from mfrank.data.concatenation import joined_ids
from mfrank.data.datasets import from_npz, movielens, published_split
from mfrank.data.event_log import Events, EventSplit
from mfrank.data.events import EventWeights, KindWeights
from mfrank.data.feature_columns import FeatureColumns, is_missing, tell_odd_texts, text_of_list
from mfrank.data.feature_matrices import check_id_columns, feature_rows
from mfrank.data.feature_tables import FeatureTable, is_table, is_unnamed, place_of_ids
from mfrank.data.fields import IdsAs, as_text, spelled_like, whole_number
from mfrank.data.folds import rolling, user_folds
from mfrank.data.frames import (
    FrameKind,
    column_of_ids,
    frame_columns,
    frame_of,
    is_frame,
    tell_unread,
)
from mfrank.data.groups import (
    Groups,
    by_activity,
    by_popularity,
    groups_by_activity,
    groups_by_popularity,
)
from mfrank.data.ids import Ids, OnUnknown, UnknownIdError, check_on_unknown, stored_ids
from mfrank.data.ingest_plan import IngestPlan
from mfrank.data.interaction_folder import FORMAT, FolderWriter, holds_interactions
from mfrank.data.interactions import Interactions
from mfrank.data.joining import (
    aligned,
    by_ids,
    check_alike,
    check_numbering,
    in_rows_of,
    matrix_in_rows,
    placed,
    with_labels,
    with_more,
)
from mfrank.data.judged import Judged, Scaling, feature_matrix, feature_names
from mfrank.data.labels import RawIds, canonical, objects
from mfrank.data.layouts import Dialect, Lines, layout_of
from mfrank.data.locations import files_at
from mfrank.data.merging import Duplicates
from mfrank.data.odd_ids import tell_empty_rows
from mfrank.data.on_disk import GrowingArray, Spill
from mfrank.data.remote import is_url, without_password
from mfrank.data.report import DataReport
from mfrank.data.row_choice import ReadWhere, checked_where, kinds_read
from mfrank.data.sources import known
from mfrank.data.splits import (
    Split,
    by_ratio,
    by_time,
    kth_largest,
    leave_k_out,
    leave_last,
    number_below,
    order_in_rows,
    rank_in_rows,
    timestamps_of,
)
from mfrank.data.sql import TableQuery, is_database
from mfrank.data.synthesis import synthetic
from mfrank.data.tables import (
    check_table_file,
    known_kind,
    read_columns,
    read_portions,
    text_rows,
    write_table,
)
from mfrank.data.text_files import LONGEST_LINE, is_stream, lines_of
from mfrank.data.text_rows import AS_USUAL, Quotes, rows
from mfrank.data.time_units import (
    FractionsError,
    Magnitudes,
    Moments,
    TimeKind,
    TimestampUnit,
    check_moment,
    check_unit,
    in_seconds,
    look_like_times,
    tell_of_duration,
    unit_of,
)
from mfrank.data.times import epoch_seconds
from mfrank.data.user_splits import HeldOut, HeldOutSplit, by_session, held_out_users
from mfrank.data.weights import bm25_weight, log_weight, recency_weight, tfidf_weight

__all__ = [
    "AS_USUAL",
    "FORMAT",
    "LONGEST_LINE",
    "ROLES",
    "BadRow",
    "Counts",
    "DataReport",
    "Dialect",
    "Duplicates",
    "EventSplit",
    "EventWeights",
    "Events",
    "FeatureColumns",
    "FeatureTable",
    "FolderWriter",
    "FractionsError",
    "FrameKind",
    "Groups",
    "GrowingArray",
    "HeldOut",
    "HeldOutSplit",
    "Ids",
    "IdsAs",
    "IngestPlan",
    "Interactions",
    "Judged",
    "KindWeights",
    "Lines",
    "Magnitudes",
    "Moments",
    "OnUnknown",
    "Quotes",
    "RawIds",
    "ReadWhere",
    "Scaling",
    "Spill",
    "Split",
    "TableQuery",
    "TimeKind",
    "TimestampUnit",
    "UnknownIdError",
    "ValuesFrom",
    "aligned",
    "as_text",
    "assign",
    "bm25_weight",
    "by_activity",
    "by_ids",
    "by_popularity",
    "by_ratio",
    "by_session",
    "by_time",
    "canonical",
    "check_alike",
    "check_id_columns",
    "check_moment",
    "check_numbering",
    "check_on_unknown",
    "check_table_file",
    "check_unit",
    "checked_where",
    "column_of_ids",
    "epoch_seconds",
    "feature_matrix",
    "feature_names",
    "feature_rows",
    "files_at",
    "frame_columns",
    "frame_of",
    "from_npz",
    "from_triples",
    "groups_by_activity",
    "groups_by_popularity",
    "has_kinds",
    "has_zeros",
    "held_out_users",
    "holds_interactions",
    "in_rows_of",
    "in_seconds",
    "in_shape",
    "is_database",
    "is_frame",
    "is_missing",
    "is_stream",
    "is_table",
    "is_unnamed",
    "is_url",
    "joined_ids",
    "kinds_read",
    "known",
    "known_kind",
    "kth_largest",
    "layout_of",
    "leave_k_out",
    "leave_last",
    "lines_of",
    "log_weight",
    "look_like_times",
    "matrix_in_rows",
    "movielens",
    "not_in",
    "number_below",
    "objects",
    "order_in_rows",
    "place_of_ids",
    "placed",
    "positive_range",
    "published_split",
    "rank_in_rows",
    "read_columns",
    "read_portions",
    "recency_weight",
    "rolling",
    "rows",
    "select",
    "spelled_like",
    "stored_ids",
    "synthetic",
    "tell_columns",
    "tell_empty_rows",
    "tell_odd_texts",
    "tell_of_duration",
    "tell_unread",
    "text_of_list",
    "text_rows",
    "tfidf_weight",
    "timestamps_of",
    "unit_of",
    "user_folds",
    "whole_number",
    "with_labels",
    "with_more",
    "with_zeros",
    "without_password",
    "without_zeros",
    "write_table",
]
