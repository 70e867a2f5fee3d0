"""Files that are complete or absent: durable, replaced atomically, not trusted when read."""

from mfrank.files.archive import Place, name_of, place_of, read_from, write_to
from mfrank.files.atomic import (
    check_replaceable,
    is_folder,
    open_regular,
    path_of,
    path_of_open,
    replacing,
    resuming_beside,
    wanting_room,
    working_beside,
)
from mfrank.files.database import Database
from mfrank.files.folder import (
    ChangedFolderError,
    Origin,
    generation_of,
    joined_origins,
    metadata_of,
    n_earlier,
    paths_of,
    read,
    refuse_other,
    roll_back,
    write,
)
from mfrank.files.journal import CheckedFiles, Journal
from mfrank.files.locks import LOCK, locked
from mfrank.files.manifest import (
    MANIFEST,
    Contents,
    Format,
    check_keys,
    check_storable,
    dump_json,
    parse_json,
)
from mfrank.files.npy import FilePart, part_in_file
from mfrank.files.parts import check_takes_parts, writing_parts

__all__ = [
    "LOCK",
    "MANIFEST",
    "ChangedFolderError",
    "CheckedFiles",
    "Contents",
    "Database",
    "FilePart",
    "Format",
    "Journal",
    "Origin",
    "Place",
    "check_keys",
    "check_replaceable",
    "check_storable",
    "check_takes_parts",
    "dump_json",
    "generation_of",
    "is_folder",
    "joined_origins",
    "locked",
    "metadata_of",
    "n_earlier",
    "name_of",
    "open_regular",
    "parse_json",
    "part_in_file",
    "path_of",
    "path_of_open",
    "paths_of",
    "place_of",
    "read",
    "read_from",
    "refuse_other",
    "replacing",
    "resuming_beside",
    "roll_back",
    "wanting_room",
    "working_beside",
    "write",
    "write_to",
    "writing_parts",
]
