"""Which code a bench measures, and whether it has changed since a result was recorded.

A result keeps a digest of each folder that its script measures. The digest is of the code alone: a
change of comments, docstrings or layout is none. ``bench/tables.py`` says under a table what has
changed since.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["changed_since", "digests"]

ROOT = Path(__file__).parents[2]

_ROWS = ("mfrank/als", "mfrank/backends/cpu", "cext/kernels/rows")
_LISTS = ("mfrank/retrieval", "mfrank/backends/cpu", "cext/kernels/topk")
_STEPS = ("mfrank/descent", "mfrank/losses", "cext/kernels/lists", "cext/kernels/losses")
_WALKS = ("mfrank/pagerank", "cext/kernels/walks")
_WORKERS = ("mfrank/cluster", "mfrank/backends/sharded")

MEASURED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("epoch_cost", "time_to_objective", "time_to_quality", "row_cost", "growth", "starts"),
        _ROWS,
    ),
    **dict.fromkeys(("quality", "past_memory", "spark"), _ROWS),
    **dict.fromkeys(
        ("stream", "recency", "cold", "fold_in", "daily"), ("mfrank/als", "mfrank/models")
    ),
    "events": ("mfrank/als",),
    "without_compiler": ("mfrank/als", "mfrank/backends"),
    "reading": ("mfrank/data", "cext/cells", "cext/text"),
    "checkouts": ("mfrank",),
    "rerank": ("mfrank/models/reranker",),
    **dict.fromkeys(("topk_cost", "latency"), _LISTS),
    "steering": ("mfrank/steering", "mfrank/retrieval"),
    **dict.fromkeys(("serving", "filtered"), ("mfrank/serving", *_LISTS)),
    "evaluation": ("mfrank/evaluation",),
    "neighbors": ("cext/cells",),
    **dict.fromkeys(
        (
            *("trainers_quality", "trainers_cost", "trainers_figures", "blend_quality", "rotation"),
            *("song_weights", "stochastic_rank", "learning_to_rank"),
        ),
        _STEPS,
    ),
    **dict.fromkeys(("defaults", "split_drift"), (*_ROWS, *_STEPS)),
    **dict.fromkeys(("tuned", "parallel_trials"), ("mfrank/tuning", "mfrank/als", "mfrank/losses")),
    **dict.fromkeys(("pagerank_quality", "pagerank_cost", "pagerank_figure"), _WALKS),
    **dict.fromkeys(("cluster", "float16_wire", "kills", "cluster_simulator"), _WORKERS),
    **dict.fromkeys(("gpu", "gpu_topk", "gpu_steps", "gpu_kernels"), ("mfrank/backends/cuda",)),
}
"""Folders by the name of the script."""

_SCRIPT = re.compile(r"bench/(\w+)\.py")
_NOT_CODE = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# What not every Python dumps: empty fields, and empty ends of formats in f-strings.
_EMPTY = re.compile(r"\b\w+=\[\](?:, )?|, Constant\(value=''\)(?=\])")


def digests(command: str, root: Path = ROOT) -> dict[str, str]:
    """Digest of each folder that the script in this command measures; none for other commands."""
    script = _SCRIPT.search(command)
    folders = MEASURED.get(script[1], ()) if script else ()
    return {folder: _digest(root / folder) for folder in folders}


def changed_since(record: Mapping[str, Any], root: Path = ROOT) -> list[str]:
    """The folders whose code has changed since the record was written, or is not known."""
    then = record.get("code", {})
    return [
        folder
        for folder, now in digests(record["command"], root).items()
        if then.get(folder) != now
    ]


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.suffix in (".py", ".h", ".cpp", ".cu", ".cuh"):
            code = _code_of(file, file.stat().st_mtime_ns)
            digest.update(f"{file.relative_to(folder).as_posix()}\n{code}\n".encode())
    return digest.hexdigest()[:16]


@cache
def _code_of(file: Path, _written: int) -> str:
    """The code, without comments, docstrings and layout, of a file as it was written then."""
    text = file.read_text()
    if file.suffix != ".py":
        return " ".join(_NOT_CODE.sub(" ", text).split())
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [each for each in node.body if not _is_text(each)]
    return _EMPTY.sub("", ast.dump(tree)).replace(", )", ")")


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
