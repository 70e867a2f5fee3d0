"""How a result is kept: JSON with the command, the date, the machine and digests of the code."""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import sys
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from harness.measured_code import digests

import mfrank
from mfrank.arrays import usable_cores

RESULTS = Path(__file__).parents[1] / "results"
_OF_GRAPHS = ("networkx", "scikit-network")
_PEERS = (
    "implicit",
    "irspack",
    "cmfrec",
    "faiss-cpu",
    "catboost",
    "torch",
    "libauc",
    "pyspark",
    "lightfm-next",
    "sansa",
    *_OF_GRAPHS,
)
_LIBRARIES = ("numpy", "scipy", *_PEERS)


def parser(doc: str | None, **defaults: Any) -> argparse.ArgumentParser:
    """A parser with what every bench takes: repeats, threads, the folder of the results."""
    made = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    made.add_argument("--repeats", type=int, default=3, help="runs of each, alternating")
    made.add_argument("--threads", type=int, default=2)
    made.add_argument("--folder", type=Path, default=RESULTS, help="where the JSON is written")
    made.set_defaults(**defaults)
    return made


def describe_machine() -> dict[str, Any]:
    """Processor, cores and versions that a number was measured with."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), model)
    return {
        "processor": model,
        "cores": usable_cores(),
        "python": platform.python_version(),
        "mfrank": mfrank.__version__,
        **{library: found for library in _LIBRARIES if (found := _version(library))},
    }


def save(folder: Path, name: str, rows: list[dict[str, Any]], **more: Any) -> None:
    """Write the rows as JSON, with the command, the date, the machine, the code and more."""
    folder.mkdir(parents=True, exist_ok=True)
    script = Path(sys.argv[0])
    command = shlex.join(["python", f"{script.parent.name}/{script.name}", *_asked()])
    record = {
        "command": command,
        "date": date.today().isoformat(),
        "machine": describe_machine(),
        "code": digests(command),
        **more,
        "rows": rows,
    }
    (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


def _asked() -> list[str]:
    """Arguments of this process, but where its results go."""
    given = sys.argv[1:]
    if "--folder" in given:
        at = given.index("--folder")
        given = given[:at] + given[at + 2 :]
    return given


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    return ", ".join(
        f"{key} {value:.6g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in row.items()
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
