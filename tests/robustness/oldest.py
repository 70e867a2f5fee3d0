"""Installs the oldest releases that setup.cfg allows, and runs the tests with them.

``python tests/robustness/oldest.py`` makes ``build/oldest``: an environment of the Python that runs
this, with the lowest release of every dependency of mfrank and its users' extras that has a wheel
and gets along with the others, and the newest release of the tools of tests. The extension is
compiled in place. Tests may be named, as in ``... tests/data tests/files/test_atomic.py``.

A bound below which nothing could be installed is no promise: it is printed, to be raised.
"""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "build" / "oldest"
PYTHON = HOME / "bin" / "python"
LOWEST, NEWEST = HOME / "lowest.txt", HOME / "newest.txt"

# They need a GPU, are no part of what a user runs, or, as Ray, leave files open, which fails tests.
OTHER_EXTRAS = {"cuda12", "cuda13", "bench", "bench-gpu", "docs", "dev", "ray"}
# What only runs or writes tests; no user's code meets mfrank through it.
TOOLS = {
    *("pytest", "pytest-xdist", "hypothesis", "schemathesis", "httpx2", "pybind11", "pyyaml"),
    *("pytrec-eval-terrier", "selenium", "axe-playwright-python"),
    *("nbclient", "nbformat", "ipykernel"),
}
OLD_CLIENT = "httpx"  # by which old releases of FastAPI are tested
NO_WHEELS = "scikit-surprise"


def requirements() -> Iterator[Requirement]:
    """Those of the package and of its extras, for this Python; some come more than once."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    extras = settings["options.extras_require"]
    groups = [extras[name] for name in extras if name not in OTHER_EXTRAS]
    for group in (settings["options"]["install_requires"], *groups):
        for line in filter(None, map(str.strip, group.splitlines())):
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate():
                yield requirement


def run(*command: str | Path) -> None:
    """Run a program in the repository; one that fails ends this one."""
    variables = os.environ | {"VIRTUAL_ENV": str(HOME)}
    ended = subprocess.run(list(map(str, command)), cwd=ROOT, env=variables, check=False)
    if ended.returncode:
        raise SystemExit(f"oldest: {' '.join(map(str, command))} failed: {ended.returncode}")


def install() -> None:
    """Make the environment, or bring it up to what setup.cfg now says."""
    if not PYTHON.exists():
        run(sys.executable, "-m", "venv", HOME)
        run(PYTHON, "-m", "pip", "install", "-q", "uv")
    named = {str(each): each.name in TOOLS for each in requirements()}
    LOWEST.write_text("\n".join(line for line, is_tool in named.items() if not is_tool))
    NEWEST.write_text("\n".join(line for line, is_tool in named.items() if is_tool))
    pip = (PYTHON.with_name("uv"), "pip")
    wheels = ("-q", "--only-binary", ":all:", "--no-binary", NO_WHEELS)
    pinned = HOME / "pinned.txt"
    lowest = ("--resolution", "lowest-direct", "-o", pinned, LOWEST)
    run(*pip, "compile", "--no-header", "--no-annotate", *wheels, *lowest)
    run(*pip, "install", *wheels, "-r", pinned)
    run(*pip, "install", *wheels, "-c", pinned, "-r", NEWEST, OLD_CLIENT)
    run(*pip, "install", "-q", "--no-deps", "-e", ".")


def tell_bounds() -> None:
    """Print the releases that are installed, and the bounds that lie below them."""
    (packages,) = (HOME / "lib").glob("python*/site-packages")
    found = {each.name.lower(): Version(each.version) for each in distributions(path=[packages])}
    bounds = {
        each.name: Version(part.version)
        for each in requirements()
        if each.name not in TOOLS
        for part in each.specifier
        if part.operator == ">="
    }
    print("oldest:", ", ".join(f"{name} {found[name]}" for name in sorted(bounds)))
    for name, bound in sorted(bounds.items()):
        if found[name] != bound:
            print(f"oldest: {name}>={bound} in setup.cfg: {found[name]} is the first to be had")


def main() -> None:
    install()
    tell_bounds()
    sys.stdout.flush()
    # Old releases use what newer ones of their own dependencies deprecate.
    options = ("-q", "-n", "2", "--dist", "loadfile", "-W", "ignore::DeprecationWarning")
    command = [PYTHON, "-m", "pytest", *options, *sys.argv[1:]]
    variables = os.environ | {"PYTHONPATH": str(ROOT), "CI": "true"}
    sys.exit(subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode)


if __name__ == "__main__":
    main()
