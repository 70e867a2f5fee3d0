"""Everything that needs a GPU, most important first, in the minutes for which there is one.

Each part is a command in a process of its own. Its folder under ``--folder`` has its JSON, written
as it goes, and its output. A part that ended well is not run again, so the same command goes on
where an earlier run was cut off. A part begins only if the minutes that it may take are left.

    python bench/gpu_all.py --folder FOLDER --minutes 9
    python bench/gpu_all.py --folder FOLDER --only steps wide

``streamed`` gives CuPy's pool a limit at which interactions do not stay beside the factors: they
are then read from the host in every half-step. Its rows stand beside those of ``large``.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

_ROOT = Path(__file__).parents[1]
_DONE = "done"


@dataclass(frozen=True)
class Part:
    """A command, and the most minutes that it may take."""

    name: str
    command: str
    minutes: float


PARTS = (
    Part(
        "tests",
        "python -m pytest -q -n 8 -p no:cacheprovider -p no:benchmark tests/backends/test_gpu.py"
        " tests/backends/test_backend_contract.py tests/backends/test_backends.py"
        " tests/backends/test_walks.py tests/backends/test_gathers.py"
        " tests/backends/test_cupy_device.py tests/backends/test_implicit_gpu.py tests/retrieval",
        3,
    ),
    Part(
        "wide",
        "python bench/gpu.py --folder FOLDER --data gowalla ml-1m globo"
        " --factors 64 128 256 512 1024 --epochs 20 --users 500000"
        " --contenders 'cuda auto' 'cuda cg' 'implicit gpu'",
        3,
    ),
    Part(
        "large",
        "python bench/gpu.py --folder FOLDER --data 100m --factors 64 256 512"
        " --contenders 'cuda auto' 'implicit gpu' --users 200000",
        4,
    ),
    Part(
        "beside",
        "python bench/gpu.py --folder FOLDER --data gowalla --factors 64 --with features biases"
        " --contenders 'cuda auto' 'cpu auto' --users 100000 --threads 16",
        1,
    ),
    Part(
        "streamed",
        "python bench/gpu.py --folder FOLDER --data 100m --factors 64 --contenders 'cuda auto'"
        " --users 100000 --pool-gib 6",
        1,
    ),
    Part(
        "topk",
        "python bench/gpu_topk.py --folder FOLDER --factors 128",
        2,
    ),
    Part(
        "steps",
        "python bench/gpu_steps.py --folder FOLDER --data gowalla --factors 64 --steps 10",
        4,
    ),
    Part(
        "racecheck",
        "compute-sanitizer --tool racecheck --error-exitcode 9"
        " python -m pytest -x -q -p no:cacheprovider tests/backends/test_gpu.py"
        " -k 'objective or features or biases'",
        4,
    ),
    Part(
        "memcheck",
        "compute-sanitizer --tool memcheck --error-exitcode 9"
        " python -m pytest -x -q -p no:cacheprovider tests/backends/test_gpu.py"
        " -k 'objective or features or biases'",
        4,
    ),
    Part("kernels", "python bench/gpu_kernels.py --folder FOLDER --data gowalla globo", 2),
)


def main() -> None:
    """Run what is left, part by part."""
    made = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    made.add_argument("--folder", type=Path, required=True, help="of results, kept between calls")
    made.add_argument("--minutes", type=float, default=1e9, help="after which nothing begins")
    made.add_argument("--only", nargs="+", choices=[part.name for part in PARTS])
    args = made.parse_args()
    wanted = [part for part in PARTS if args.only is None or part.name in args.only]
    failed = run(wanted, args.folder.resolve(), 60 * args.minutes, print)
    sys.exit(1 if failed else 0)


def run(
    parts: Sequence[Part], folder: Path, seconds: float, tell: Callable[[str], object]
) -> list[str]:
    """Run the parts that have not ended well, as time allows; return the names of the others."""
    ends, left = perf_counter() + seconds, list[str]()
    for part in parts:
        own = folder / part.name
        if (own / _DONE).exists():
            tell(f"{part.name}: done before")
        elif perf_counter() + 60 * part.minutes > ends:
            left.append(part.name)
            tell(f"{part.name}: no time, it may take {part.minutes:g} minutes")
        else:
            own.mkdir(parents=True, exist_ok=True)
            began, ended = perf_counter(), _run(part, own)
            if ended == "well":
                (own / _DONE).touch()
            else:
                left.append(part.name)
            tell(f"{part.name}: ended {ended} after {perf_counter() - began:.0f} s; {own}")
    return left


def _run(part: Part, folder: Path) -> str:
    words = {"python": sys.executable, "FOLDER": str(folder)}
    command = [words.get(word, word) for word in shlex.split(part.command)]
    with (folder / "output.txt").open("w") as output:
        try:
            code = subprocess.run(
                command,
                cwd=_ROOT,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=60 * part.minutes,
            ).returncode
        except subprocess.TimeoutExpired:
            return "at its limit"
        except FileNotFoundError as error:
            return f"without {error.filename}"
    return "well" if code == 0 else f"with exit code {code}"


if __name__ == "__main__":
    main()
