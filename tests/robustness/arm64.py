"""Builds the extension for arm64, and runs the tests of its kernels there, emulated by qemu.

``python tests/robustness/arm64.py`` needs Debian or Ubuntu with its own version of Python, and
``apt install g++-aarch64-linux-gnu qemu-user``. It fetches Python for arm64 from the system's
package archive, and numpy, scipy and pytest for arm64 from PyPI, all into ``build/arm64``; nothing
is installed. Emulation takes about ten times as long as the processor would. Tests may be named, as
in ``... tests/files tests/als/test_als.py``.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pybind11

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "build" / "arm64"
SYSTEM, PACKAGES = HOME / "system", HOME / "packages"
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
# As in setup.py.
FLAGS = (
    "-std=c++17 -O3 -g0 -fno-math-errno -fno-trapping-math -fvisibility=hidden -pthread -fPIC "
    "--param=avoid-fma-max-bits=0"
)
TESTS = (
    *("backends/test_kernels.py", "backends/test_list_kernels.py", "backends/test_matmul.py"),
    *("backends/test_row_sums.py", "backends/test_short_rows.py", "backends/test_sketches.py"),
    *("backends/test_stationary.py", "backends/test_top_k.py", "backends/test_walks.py"),
    *("backends/test_zero_sizes.py", "backends/test_backends.py"),
    *("arrays/test_random.py", "arrays/test_distinct.py", "data/test_native_text.py"),
    *("files", "als", "descent", "losses", "retrieval/test_top_k_lists.py"),
)
# The first two have gigabytes of untouched memory, for which the emulator keeps books; the third
# reads the clock; with the last the emulator fails: "assertion failed: (cpu == current_cpu)".
LEFT_OUT = "not beyond_32_bits and not many_factors and not interrupt and not forked"
# The emulator raises flags of numbers in OpenBLAS's kernels that their results do not show.
NO_FAULTS = "ignore::RuntimeWarning"

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
# What an emulated program starts is started by the system, which cannot run it by itself.
STARTED = f"""#!/bin/sh
export QEMU_LD_PREFIX={shlex.quote(str(SYSTEM))}
export PYTHONPATH={shlex.quote(str(PACKAGES))}:"$PYTHONPATH"
exec {EMULATOR} {shlex.quote(str(SYSTEM / "usr" / "bin" / PYTHON))} "$@"
"""


def run(*command: str | Path, **variables: str) -> None:
    """Run a program; one that fails ends this one."""
    ended = subprocess.run(
        list(map(str, command)), cwd=ROOT, env=os.environ | variables, check=False
    )
    if ended.returncode:
        raise SystemExit(f"arm64: {' '.join(map(str, command))} failed: {ended.returncode}")


def fetch_system() -> None:
    """Unpack Python for arm64 and what it needs, by an apt of its own that installs nothing."""
    apt, status = HOME / "apt", HOME / "apt" / "status"
    for folder in ("lists/partial", "cache/archives/partial"):
        (apt / folder).mkdir(parents=True, exist_ok=True)
    status.touch()
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "Debug::NoLocking": "1",
        "Dir::Cache": apt / "cache",
        "Dir::State::lists": apt / "lists",
        "Dir::State::status": status,
    }
    given = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    run("apt-get", *given, "-qq", "update")
    wanted = ("-qq", "-y", "--download-only", "--no-install-recommends", "install")
    run("apt-get", *given, *wanted, PYTHON, "libstdc++6")
    for package in sorted((apt / "cache" / "archives").glob("*.deb")):
        run("dpkg", "-x", package, SYSTEM)


def fetch_packages() -> None:
    """Unpack numpy, scipy and what the tests need, for arm64."""
    platforms = [f"--platform=manylinux_2_{minor}_aarch64" for minor in (17, 27, 28)]
    places = ["--only-binary=:all:", f"--target={PACKAGES}", *platforms]
    wanted = ("numpy", "scipy", "pytest", "hypothesis")
    run(sys.executable, "-m", "pip", "install", "-q", *places, *wanted)


def build() -> None:
    """Compile the extension, if its sources are newer than it."""
    suffix = f".cpython-{sys.version_info.major}{sys.version_info.minor}-aarch64-linux-gnu.so"
    extension = HOME / "mfrank" / f"_ext{suffix}"
    sources = sorted((ROOT / "cext").glob("*.cpp"))
    newest = max(path.stat().st_mtime for path in (ROOT / "cext").rglob("*.[hc]*"))
    if not extension.exists() or extension.stat().st_mtime < newest:
        includes = ["cext", pybind11.get_include(), sysconfig.get_path("include")]
        flags = [*shlex.split(FLAGS), *(f"-I{path}" for path in includes)]
        made = HOME / extension.name
        run(COMPILER, *flags, "-shared", *sources, "-o", made)
        extension.parent.mkdir(parents=True, exist_ok=True)
        made.rename(extension)


def copy_package() -> None:
    """Copy the package and its tests beside the extension for arm64."""
    without = shutil.ignore_patterns("*.so", "__pycache__")
    for name in ("mfrank", "tests"):
        shutil.copytree(ROOT / name, HOME / name, ignore=without, dirs_exist_ok=True)
    shutil.copy2(ROOT / "setup.cfg", HOME)


def main() -> None:
    start = time.monotonic()
    for program in (COMPILER, EMULATOR, "apt-get"):
        if shutil.which(program) is None:
            raise SystemExit(f"arm64: {program} is missing: {__doc__}")
    if not SYSTEM.exists():
        fetch_system()
    if not PACKAGES.exists():
        fetch_packages()
    build()
    copy_package()
    python = HOME / "python"
    python.write_text(STARTED)
    python.chmod(0o755)
    (PACKAGES / "sitecustomize.py").write_text(f"import sys\nsys.executable = {str(python)!r}\n")
    print(f"arm64: built in {time.monotonic() - start:.0f} s", flush=True)
    named = sys.argv[1:] or [f"tests/{name}" for name in TESTS]
    options = ("-q", "-p", "no:cacheprovider", "-k", LEFT_OUT, "-W", NO_FAULTS)
    variables = {"OPENBLAS_NUM_THREADS": "1", "CI": "true"}
    os.chdir(HOME)
    asked = "from mfrank import _ext; print('arm64: instruction set', _ext.isa())"
    subprocess.run([python, "-c", asked], env=os.environ | variables, check=True)
    command = [python, "-m", "pytest", *options, *named]
    sys.exit(subprocess.run(command, env=os.environ | variables, check=False).returncode)


if __name__ == "__main__":
    main()
