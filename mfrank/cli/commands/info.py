"""Show versions, processor, threads and backends, and what a saved model is.

Backends that cannot run here say why.
"""

from __future__ import annotations

import argparse
import pkgutil
import platform
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from mfrank import backends
from mfrank.cores import usable_cores
from mfrank.store.factors import FactorStore
from mfrank.version import __version__

EXAMPLES = """\
  mfrank info
  mfrank info --model model
"""

_EXTRAS = {
    "pandas": "pandas",
    "pyarrow": "parquet",
    "implicit": "compare",
    "tqdm": "progress",
    "safetensors": "safetensors",
    "catboost": "rerank",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank info``."""
    parser.add_argument("--model", metavar="FOLDER", help="a saved model to describe")


def run(args: argparse.Namespace) -> None:
    """Print a line for each thing."""
    lines = _model(args.model) if args.model else _installation()
    for name, text in lines:
        print(f"{name:<14}{text}")


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
    yield "threads", f"{usable_cores()} cores may be used"
    for module in pkgutil.iter_modules(backends.__path__):
        yield f"on {module.name}", _backend(module.name)


def _backend(name: str) -> str:
    backend = import_module(f"{backends.__name__}.{name}")
    if reason := backend.why_unavailable():
        return f"cannot run: {reason}"
    if name == "cpu":
        return f"runs, instruction set {import_module('mfrank._ext').isa()}"
    return "runs"


def _model(folder: str) -> Iterator[tuple[str, str]]:
    store = FactorStore.load(folder)
    yield "model", repr(store)
    yield "options", _listed(store.fitter["options"])
    yield "users", f"{store.n_users:,}, like {_some(store.user_ids.labels.tolist())}"
    yield "items", f"{store.n_items:,}, like {_some(store.item_ids.labels.tolist())}"
    yield "interactions", f"{int(store.counts.users.sum()):,}"
    if store.history:
        seconds = sum(float(epoch["seconds"] or 0) for epoch in store.history)
        yield "history", f"{len(store.history)} epochs in {seconds:.2f} s"
    yield "made with", ", ".join(f"{k} {v}" for k, v in store.versions.items())


def _listed(options: Mapping[str, Any]) -> str:
    """Options as Python writes them, nested ones as a call."""
    return ", ".join(
        f"{name}={value['name']}({_listed(value['options'])})"
        if isinstance(value, Mapping)
        else f"{name}={value!r}"
        for name, value in options.items()
    )


def _some(labels: list[object]) -> str:
    return ", ".join(map(repr, labels[:3]))
