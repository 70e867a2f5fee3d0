"""Write a saved model for other programs: faiss indexes, an ONNX graph, Parquet or safetensors.

faiss: items.faiss and users.faiss in the folder PATH, by inner product. onnx: one file that scores,
filters and ranks. parquet: users.parquet and items.parquet in the folder PATH, with ids and
factors. safetensors: one file with all arrays. Rows are in the order of the model's ids; all
formats except faiss contain the ids. A model that does not rank by its factors alone, such as EASE
or a blend with it, can only be written as onnx or safetensors.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from mfrank.cli.model_folders import check_writable, read_model
from mfrank.errors import InputValueError
from mfrank.files import path_of
from mfrank.models import check_exportable, to_faiss, to_onnx, to_parquet, to_safetensors
from mfrank.store import FactorStore

EXAMPLES = """\
  mfrank export --model model --to onnx model.onnx
  mfrank export --model model --to faiss indexes --factory HNSW32
  mfrank export --model model --to parquet factors
"""

_FOLDERS = ("faiss", "parquet")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank export``."""
    parser.add_argument("--model", required=True, metavar="FOLDER", help="a saved model")
    parser.add_argument(
        "--to", required=True, choices=("faiss", "onnx", "parquet", "safetensors"), help="format"
    )
    parser.add_argument("path", metavar="PATH", help="the file or folder to write")
    parser.add_argument(
        "--factory",
        metavar="TEXT",
        help="faiss: index of the items, as faiss.index_factory reads it; Flat is exact "
        "(default: Flat)",
    )


def run(args: argparse.Namespace) -> None:
    """Load and export."""
    if args.factory is not None and args.to != "faiss":
        raise InputValueError("--factory is for --to faiss", f"leave it out with --to {args.to}")
    if args.to not in _FOLDERS:
        check_writable(args.path)
    elif path_of(args.path).is_file():
        raise InputValueError(
            f"cannot write {args.path}: it is a file", "pass a folder", place=args.path
        )
    store = read_model(args.model).store
    writers: Mapping[str, Callable[[FactorStore, str], object]] = {
        "faiss": lambda store, path: _indexes(store, path_of(path), args.factory or "Flat"),
        "onnx": to_onnx,
        "parquet": to_parquet,
        "safetensors": to_safetensors,
    }
    writers[args.to](store, args.path)
    print(f"{args.path}: {store}")


def _indexes(store: FactorStore, folder: Path, factory: str) -> None:
    check_exportable(store)
    folder.mkdir(parents=True, exist_ok=True)
    to_faiss(store, folder / "items.faiss", "item", factory)
    to_faiss(store, folder / "users.faiss", "user")
