"""Describe a file of interactions or a saved model; without both, show versions and backends.

Of interactions, it says what was read, how they are spread, and what is odd about them; with
--test, also how a test part fits to them. If a backend cannot run here, the reason is shown.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from mfrank import backends
from mfrank._version import __version__
from mfrank.arrays import counted, usable_cores
from mfrank.cli.inputs import read_spelled_like, read_table
from mfrank.cli.model_folders import check_holds_model
from mfrank.cli.printing import add_json_flag, check_json, tell
from mfrank.cli.table_flags import add_table_flags, check_table_flags
from mfrank.store import FactorStore, epochs_of, seconds_of

EXAMPLES = """\
  mfrank info
  mfrank info ratings.csv --at-least 4
  mfrank info train.csv --test test.csv
  mfrank info --model model
  mfrank info --model model --json -
"""

_EXTRAS = {
    "pandas": "pandas",
    "pyarrow": "parquet",
    "sqlalchemy": "sql",
    "fsspec": "remote",
    "implicit": "compare",
    "tqdm": "progress",
    "safetensors": "safetensors",
    "faiss-cpu": "faiss",
    "onnx": "onnx",
    "catboost": "rerank",
    "fastapi": "serve",
    "jinja2": "pages",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank info``."""
    described = parser.add_mutually_exclusive_group()
    described.add_argument(
        "interactions", metavar="FILE", nargs="?", help="interactions to describe"
    )
    described.add_argument("--model", metavar="FOLDER", help="a saved model to describe")
    parser.add_argument("--test", metavar="FILE", help="a test part of the interactions")
    add_json_flag(parser, "the properties")
    add_table_flags(parser)


def run(args: argparse.Namespace) -> None:
    """Print one line per property."""
    check_json(args.json)
    if args.interactions is not None:
        data = read_table(args, args.interactions)
        test = None if args.test is None else read_spelled_like(args, args.test, data)
        report = data.report(test)
        tell(report, asdict(report), args.json)
        return
    check_table_flags(args, "FILE", args.interactions)
    if args.test is not None:
        raise ValueError("--test is about the interactions of FILE, which is missing")
    if args.model:
        check_holds_model(args.model)
        store = FactorStore.load(args.model)
        lines = dict(_model(store))
        content = _content(store)
    else:
        content = lines = dict(_installation())
    tell("\n".join(f"{name:<14}{text}" for name, text in lines.items()), content, args.json)


def _installation() -> Iterator[tuple[str, str]]:
    yield "mfrank", __version__
    yield "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    for package in ("numpy", "scipy"):
        yield package, version(package)
    for package, extra in _EXTRAS.items():
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, f"not installed: pip install mfrank[{extra}]"
    yield "threads", f"{counted(usable_cores(), 'core')} may be used"
    for name in backends.names():
        yield f"on {name}", _backend(name)


def _backend(name: str) -> str:
    backend = backends.named(name)
    if reason := backend.why_unavailable():
        return f"cannot run: {reason}"
    if name == "cpu":
        return f"runs, instruction set {import_module('mfrank._ext').isa()}"
    return "runs"


def _content(store: FactorStore) -> dict[str, Any]:
    """What a store knows of itself, as types that JSON has."""
    entries = None if store.counts is None else int(store.counts.users.sum())
    return {
        "model": store.fitter["name"],
        "options": store.fitter["options"],
        "users": store.n_users,
        "items": store.n_items,
        "factors": store.user_factors.shape[1],
        "dtype": str(store.user_factors.dtype),
        "interactions": entries,
        "threshold": store.threshold,
        "where": store.where,
        "event_weights": store.event_weights,
        "epochs": epochs_of(store.history),
        "seconds": seconds_of(store.history),
        "history": list(store.history),
        "versions": dict(store.versions),
    }


def _model(store: FactorStore) -> Iterator[tuple[str, str]]:
    yield "model", repr(store)
    yield "options", _listed(store.fitter["options"])
    yield "users", store.user_ids.summary
    yield "items", store.item_ids.summary
    if store.counts is not None:
        yield "interactions", f"{int(store.counts.users.sum()):,}"
    if store.threshold is not None:
        yield "at least", f"{store.threshold:g}, of the values"
    if store.where:
        each = (f"{column}={value}" for column, of in store.where.items() for value in of or ())
        yield "rows", f"with {', '.join(each)}"
    if weights := store.event_weights:
        each = (f"{kind}={'none' if w is None else format(w, 'g')}" for kind, w in weights.items())
        yield "weights of events", ",".join(each)
    if store.history:
        yield (
            "history",
            f"{counted(epochs_of(store.history), 'epoch')} in {seconds_of(store.history):.2f} s",
        )
    yield "made with", ", ".join(f"{k} {v}" for k, v in store.versions.items())


def _listed(options: Mapping[str, Any]) -> str:
    """Options in Python syntax, nested ones as calls."""
    return ", ".join(
        f"{name}={value['name']}({_listed(value['options'])})"
        if isinstance(value, Mapping)
        else f"{name}={value!r}"
        for name, value in options.items()
    )
