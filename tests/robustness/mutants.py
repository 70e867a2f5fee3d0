"""Changes the kernels in one place at a time, and runs their tests on every change.

``python tests/robustness/mutants.py losses walks --number 60`` draws changes of the headers in
``cext/kernels/losses`` and ``cext/kernels/walks`` (an operator, a number, a minimum made a
maximum), compiles each for any processor, and says which of them no test saw: those need a test,
or a reason why nobody could see them. ``--only FILE:LINE:COLUMN`` tries one again. What is
compiled is a copy of the project, which is removed. It needs GCC or clang, and about half a
minute for each change.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shlex
import subprocess
import sys
import sysconfig
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pybind11
from sanitize import ROOT, copied

TESTS = {
    "linalg": ("backends", "arrays"),
    "lists": ("backends/test_list_kernels.py", "descent", "losses"),
    "losses": (
        "losses",
        "arrays/test_random.py",
        "backends/test_list_kernels.py",
        "backends/test_zero_sizes.py",
    ),
    "rows": ("backends", "als"),
    "topk": (
        "backends/test_backend_contract.py",
        "backends/test_top_k.py",
        "backends/test_sketches.py",
        "retrieval",
    ),
    "walks": ("backends/test_walks.py", "backends/test_stationary.py", "pagerank"),
}
SWAPPED = ((" < ", " <= "), (" > ", " >= "), (" == ", " != "), (" + ", " - "), (" += ", " -= "))
SWAPPED += ((" && ", " || "), ("std::min", "std::max"), ("true", "false"))
CHANGED = {one: other for pair in SWAPPED for one, other in (pair, pair[::-1])}
CHANGED |= {" * ": " + ", " / ": " * ", "++": "--", "continue;": "break;"}
PLACES = re.compile("|".join(re.escape(text) for text in CHANGED) + r"|(?<![\w.])\d+(?![\w.'])")
# Declarations, and how the work is divided: another division gives the same bits.
SKIPPED = re.compile(r"^\s*(//|#|template|static_assert|using|typedef|alignas)|threads|BLOCK")
COMPILER = os.environ.get("CXX", "g++")
FLAGS = "-std=c++17 -O1 -fno-math-errno -fno-trapping-math -fvisibility=hidden -pthread -fPIC -w"
SECONDS = 300  # that tests may take; a change that makes them endless is seen


@dataclass(frozen=True)
class Change:
    """One place of a header, and what comes there."""

    path: Path
    line: int
    column: int
    before: str
    after: str

    def __str__(self) -> str:
        code = self.path.read_text().splitlines()[self.line - 1].strip()
        place = f"{self.path.relative_to(ROOT)}:{self.line}:{self.column}"
        return f"{place} {self.before.strip()} -> {self.after.strip()} in: {code}"

    def applied(self) -> str:
        """Return the header with the change."""
        lines = self.path.read_text().splitlines(keepends=True)
        line = lines[self.line - 1]
        end = self.column + len(self.before)
        lines[self.line - 1] = line[: self.column] + self.after + line[end:]
        return "".join(lines)


def changes(path: Path) -> list[Change]:
    """Return every change of a header."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if SKIPPED.search(line):
            continue
        for match in PLACES.finditer(line.split("//")[0]):
            before = match.group()
            after = CHANGED[before] if before in CHANGED else str(int(before) + 1)
            found.append(Change(path, number, match.start(), before, after))
    return found


class Copy:
    """A copy of the project, whose extension has the kernels for any processor only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        copied(folder)
        (folder / "cext" / "host" / "isa.h").write_text(self._without_other_kernels())
        for name in ("avx2", "avx512"):
            (folder / "cext" / f"{name}.cpp").unlink()
        if not self._compiled("module"):
            raise SystemExit("the bindings do not compile")

    def _without_other_kernels(self) -> str:
        """The instruction sets are those of x86 processors; compile as for another one."""
        header = (ROOT / "cext" / "host" / "isa.h").read_text()
        return header.replace("#define MFRANK_X86 1\n", "")

    def _compiled(self, name: str) -> bool:
        includes = ["cext", pybind11.get_include(), sysconfig.get_path("include")]
        options = [*shlex.split(FLAGS), *(f"-I{path}" for path in includes)]
        command = [COMPILER, *options, "-c", f"cext/{name}.cpp", "-o", f"{name}.o"]
        quiet = subprocess.DEVNULL
        return not subprocess.run(command, cwd=self.folder, check=False, stderr=quiet).returncode

    def compiles(self) -> bool:
        """Compile the kernels and link the extension."""
        library = f"mfrank/_ext{sysconfig.get_config_var('EXT_SUFFIX')}"
        command = [COMPILER, "-shared", "-pthread", "baseline.o", "module.o", "-o", library]
        if not self._compiled("baseline"):
            return False
        subprocess.run(command, cwd=self.folder, check=True)
        return True

    def passes(self, tests: list[str]) -> bool:
        """Whether the tests pass; those of other instruction sets and of the GPU are left out."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        command += ["-k", "not every_instruction_set and not cuda and not beyond_32_bits"]
        variables = {"PYTHONPATH": str(self.folder), "CI": "true", "MFRANK_ISA": "baseline"}
        try:
            ended = subprocess.run(
                [*command, *(f"tests/{name}" for name in tests)],
                cwd=self.folder,
                env=os.environ | variables,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return ended.returncode == 0

    def outcome(self, change: Change) -> str:
        """Try a change: "killed", "survived" or "no program"."""
        path = self.folder / change.path.relative_to(ROOT)
        path.write_text(change.applied())
        try:
            if not self.compiles():
                return "no program"
            return "survived" if self.passes([*TESTS[change.path.parent.name]]) else "killed"
        finally:
            path.write_text(change.path.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", choices=TESTS, help="of cext/kernels")
    parser.add_argument("--number", type=int, default=60, help="of changes to draw")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", help="FILE:LINE:COLUMN of a change, as it was printed")
    asked = parser.parse_args()
    paths = [
        path
        for folder in asked.folders
        for path in sorted((ROOT / "cext" / "kernels" / folder).glob("*.h"))
    ]
    drawn = [change for path in paths for change in changes(path)]
    print(f"mutants: {len(drawn)} changes", flush=True)
    if asked.only:
        drawn = [change for change in drawn if str(change).startswith(f"{asked.only} ")]
    else:
        drawn = random.Random(asked.seed).sample(drawn, min(asked.number, len(drawn)))
    with TemporaryDirectory() as folder:
        tried(Copy(Path(folder)), asked.folders, drawn)


def tried(copy: Copy, folders: list[str], drawn: list[Change]) -> None:
    """Try the changes, and print what became of them."""
    counts = Counter[str]()
    for folder in folders:
        if not (copy.compiles() and copy.passes([*TESTS[folder]])):
            raise SystemExit(f"the tests of {folder} fail without any change")
    for change in drawn:
        outcome = copy.outcome(change)
        counts[outcome] += 1
        print(f"{outcome}: {change}", flush=True)
    print(f"mutants: {dict(counts)}")


if __name__ == "__main__":
    main()
