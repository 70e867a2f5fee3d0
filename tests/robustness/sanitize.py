"""Builds the extension with a sanitizer, and runs the tests of its kernels and the fuzzer under it.

``python tests/robustness/sanitize.py address`` looks for reads and writes outside of arrays and for
undefined behavior, ``... thread`` for data races. ``--quick`` runs a few tests of every kernel on
one instruction set, without the fuzzer. The build is a copy of the project in ``build/sanitized``,
beside which the one in use stays as it is; a second run compiles only what changed. It needs GCC on
Linux.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pybind11

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("mfrank", "cext", "tests", "setup.cfg", "README.md", "CHANGELOG.md")
ISAS = ("avx512", "avx2", "baseline")

CHECKS = {
    "address": "-fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all",
    "thread": "-fsanitize=thread",
}
# As in setup.py, but for the sanitizer's sake less optimized, and with lines in its reports.
FLAGS = (
    "-std=c++17 -O1 -g1 -fno-omit-frame-pointer -fno-math-errno -fno-trapping-math "
    "-fvisibility=hidden -pthread -fPIC --param=avoid-fma-max-bits=0"
)
# A sanitizer must be loaded before Python, and libstdc++ before the address sanitizer looks for it.
PRELOADED = {"address": ("libasan.so", "libstdc++.so"), "thread": ("libtsan.so",)}
OPTIONS = {
    # Python leaks at its end. Too much memory is an error of the caller, not of the process.
    "address": {
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4096",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    },
    # numpy and Python are not compiled with the sanitizer, which cannot see how they synchronize.
    "thread": {
        "TSAN_OPTIONS": "ignore_noninstrumented_modules=1:die_after_fork=0:halt_on_error=1:"
        "allocator_may_return_null=1:max_allocation_size_mb=4096",
        "OPENBLAS_NUM_THREADS": "1",
    },
}

QUICK = (
    *("backends/test_zero_sizes.py", "arrays/test_unaligned.py", "backends/test_list_kernels.py"),
    *("data/test_merging.py", "data/test_native_text.py"),
)
KERNELS = (
    *QUICK,
    *("arrays/test_distinct.py", "arrays/test_random.py"),
    *("backends/test_backends.py", "backends/test_kernels.py", "backends/test_matmul.py"),
    *(
        "backends/test_row_sums.py",
        "backends/test_short_rows.py",
        "backends/test_sketches.py",
        "backends/test_stationary.py",
    ),
    *(
        "backends/test_backend_contract.py",
        "backends/test_top_k.py",
        "backends/test_walks.py",
        "losses",
    ),
)
# The first has sixteen GiB of untouched memory, for which the sanitizers keep books; the second is
# measured; the third is what is done here.
LEFT_OUT = "not beyond_32_bits and not interrupt and not every_instruction_set"


def copied(folder: Path) -> None:
    """Copy the project, without what was compiled of it."""
    folder.mkdir(parents=True, exist_ok=True)
    without = shutil.ignore_patterns("*.so", "__pycache__", ".*")
    for name in COPIED:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            keep = {path: path.read_bytes() for path in target.glob("_ext*.so")}
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target, ignore=without)
            for path, content in keep.items():
                path.write_bytes(content)
        elif source.exists():
            shutil.copy2(source, target)


def build(folder: Path, checks: str) -> None:
    """Compile the copy's extension, if its sources are newer than it."""
    compiler = os.environ.get("CXX", "g++")
    includes = ["cext", pybind11.get_include(), sysconfig.get_path("include")]
    flags = [*shlex.split(FLAGS), *shlex.split(checks), *(f"-I{path}" for path in includes)]
    sources = sorted((folder / "cext").glob("*.cpp"))
    newest = max(path.stat().st_mtime for path in (folder / "cext").rglob("*.[hc]*"))

    def compiled(source: Path) -> str:
        made = folder / f"{source.stem}.o"
        if not made.exists() or made.stat().st_mtime < newest:
            subprocess.run(
                [compiler, *flags, "-c", str(source), "-o", str(made)], cwd=folder, check=True
            )
        return str(made)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        objects = list(pool.map(compiled, sources))
    library = folder / "mfrank" / f"_ext{sysconfig.get_config_var('EXT_SUFFIX')}"
    subprocess.run(
        [compiler, *shlex.split(checks), "-shared", "-pthread", *objects, "-o", str(library)],
        check=True,
    )


def environment(sanitizer: str, folder: Path) -> dict[str, str]:
    """What a program needs to run under the sanitizer."""
    libraries = [
        subprocess.run(
            ["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in PRELOADED[sanitizer]
    ]
    return {
        **OPTIONS[sanitizer],
        "LD_PRELOAD": " ".join(libraries),
        "PYTHONMALLOC": "malloc",
        "CI": "true",  # hypothesis then has no deadlines
        "PYTHONPATH": str(folder),
    }


def passes(command: list[str], folder: Path, variables: Mapping[str, str]) -> bool:
    """Whether a program of Python passes in the copy; says how long it took."""
    start = time.monotonic()
    ended = subprocess.run(
        [sys.executable, *command], cwd=folder, env=os.environ | variables, check=False
    )
    took = f"{time.monotonic() - start:.0f} s"
    isa = variables.get("MFRANK_ISA", "")
    print(f"sanitize: {ended.returncode} in {took}: {isa} {' '.join(command)}", flush=True)
    return ended.returncode == 0


def runs_here(isa: str) -> bool:
    """Whether the processor has the instruction set."""
    names = Path("/proc/cpuinfo").read_text()
    return {"avx512": "avx512bw" in names, "avx2": "avx2" in names}.get(isa, True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sanitizer", choices=CHECKS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--calls", type=int, default=2000, help="of the fuzzer")
    asked = parser.parse_args()
    start, folder = time.monotonic(), ROOT / "build" / "sanitized" / asked.sanitizer
    copied(folder)
    build(folder, CHECKS[asked.sanitizer])
    print(f"sanitize: built in {time.monotonic() - start:.0f} s", flush=True)
    variables = environment(asked.sanitizer, folder)
    tests = [f"tests/{name}" for name in (QUICK if asked.quick else KERNELS)]
    isas = [isa for isa in ISAS if runs_here(isa)]
    passed = [
        passes(
            ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", LEFT_OUT, *tests],
            folder,
            {**variables, "MFRANK_ISA": isa},
        )
        for isa in (isas[:1] if asked.quick else isas)
    ]
    if not asked.quick:
        fuzz = ["tests/robustness/fuzz.py", f"--calls={asked.calls}"]
        if asked.sanitizer == "thread":
            fuzz.append("--without=catboost")  # a thread of what it imports crashes beneath it
        passed += [passes(fuzz, folder, {**variables, "MFRANK_ISA": isa}) for isa in isas]
    sys.exit(not all(passed))


if __name__ == "__main__":
    main()
